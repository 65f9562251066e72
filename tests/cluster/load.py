"""News at every host, again and again, and what must hold whatever happens to the machines meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf

from tests.acceptance.support import eventually
from tests.cluster.hosts import Hosts
from tests.cluster.support import Cluster
from tests.cluster.test_machines import HOSTS, exactly_once, known

BUDGET_PER_S = 30.0
_MOST_WAITING = 8 * HOSTS  # items; on a slow machine feeds would grow faster than they can be read
_WINDOW_S = 10.0
_PATIENCE_S = 180.0
_MOST_STANDING_S = 30.0  # what a notifier that was killed has claimed is free after 20
_STANDING = """
    SELECT coalesce(max(now_s - greatest(due_s, claimed_until_s)), 0)
    FROM lanes, (SELECT extract(epoch FROM clock_timestamp()) AS now_s) AS clock
    WHERE due_s < now_s AND claimed_until_s < now_s
"""


@asynccontextmanager
async def load(machines: Cluster, origin: Hosts, *, budget_per_s: float = inf) -> AsyncIterator[list[str]]:
    """Publish items while the context is open; yield the list of their guids.

    At its end each must have been told, under one id, no host asked by two at once, no budget exceeded by more than a
    tenth, and no lane must have stood while something was due there.
    """
    published: list[str] = []
    told, worst_s = len(machines.receiver.guids("each")), 0.0
    database = machines.database.rpartition("/")[2]

    async def publish() -> None:
        while True:
            if told + len(published) - len(machines.receiver.guids("each")) < _MOST_WAITING:
                published.extend(origin.publish())
            await asyncio.sleep(0.5)

    async def look() -> None:
        nonlocal worst_s
        while True:
            worst_s = max(worst_s, float(await asyncio.to_thread(machines.postgresql.query, _STANDING, database)))
            await asyncio.sleep(1.0)

    looking = asyncio.create_task(look())
    publishing = asyncio.create_task(publish())
    try:
        yield published
        publishing.cancel()
        await machines.receiver.received("each", told + len(published), timeout_s=_PATIENCE_S)
    finally:
        publishing.cancel()
        looking.cancel()
        await asyncio.wait([publishing, looking])
    await known(machines, origin)
    exactly_once(machines, origin)
    ids = {guid: each.webhook_id for each in machines.receiver.accepted("each") for guid in each.guids}
    for each in machines.receiver.arrivals["each"]:
        assert {ids[guid] for guid in each.guids} <= {each.webhook_id}
    assert origin.most_within(_WINDOW_S) <= 1.1 * budget_per_s * _WINDOW_S
    assert worst_s < _MOST_STANDING_S


async def come(published: list[str], rounds: int) -> None:
    """Wait until so many items more have been published on every host."""
    wanted = len(published) + rounds * HOSTS
    await eventually(lambda: len(published) >= wanted, "items come", timeout_s=_PATIENCE_S)
