"""What more probers bring where origins answer slowly: each works on so many hosts at once, whatever the others do."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.support import Daemon, eventually
from tests.cluster.hosts import Hosts, hosts
from tests.cluster.support import cluster
from tests.servers import PostgresServer

SLOW_S = 1.0
MANY = 1000
ROUNDS = 8  # of what the probers ask at once


@pytest.mark.alone
async def test_two_probers_make_nearly_twice_and_four_nearly_four_times_the_probes(
    tmp_path: Path, postgresql: PostgresServer, record_testsuite_property: Callable[[str, object], None]
) -> None:
    async with (
        hosts(MANY, SLOW_S) as origin,
        cluster(tmp_path, postgresql, budget="2000/s", lease="30s", source_spacing="1s") as machines,
    ):
        machines.declare(origin.texts(machines.receiver.url("each"), "UNIFORM(1 SECONDS)"))
        await machines.machine("planner")
        probers: list[Daemon] = []
        per_s = {}
        for count in (1, 2, 4):
            while len(probers) < count:
                probers.append(await machines.machine("prober"))
                await probers[-1].started()
            per_s[count] = await probes_per_s(origin, probers)
        record_testsuite_property("probes_per_s", per_s)
        assert per_s[2] >= 1.8 * per_s[1], per_s
        assert per_s[4] >= 3.2 * per_s[1], per_s
        assert origin.in_turn


async def probes_per_s(origin: Hosts, probers: list[Daemon]) -> float:
    """Return how many probes end in a second once all probers are as busy as their settings allow."""
    most = 64  # the setting prober_hosts

    async def are_busy() -> bool:
        return all([await each.metric("proxyd_prober_hosts") >= 0.9 * most for each in probers])

    await eventually(are_busy, "all probers are busy", state=lambda: [each.log[-500:] for each in probers])
    began_s, before = time.monotonic(), origin.answered.total()
    wanted = ROUNDS * most * len(probers)
    await eventually(lambda: origin.answered.total() - before >= wanted, f"{wanted} probes")
    return (origin.answered.total() - before) / (time.monotonic() - began_s)
