"""A new version whose tables are others takes over while items come: nothing is lost, nothing comes twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.support import Daemon, World, world
from tests.cluster.load import BUDGET_PER_S, come, load
from tests.cluster.support import Cluster
from tests.cluster.test_machines import HOSTS, share, working
from tests.next_version import make_next_version
from tests.servers import PostgresServer

pytestmark = pytest.mark.long


async def replaced(machines: Cluster, old: Daemon, role: str, code: str) -> Daemon:
    """Start a machine of the next version, and end the old one in order."""
    new = await machines.machine(role, code=code)
    await old.stop()
    machines.machines.remove(old)
    return new


async def test_the_machines_of_a_cluster_are_replaced_one_after_the_other(
    tmp_path: Path, postgresql: PostgresServer
) -> None:
    code = make_next_version(tmp_path / "next")
    roles = ("planner", "planner", "prober", "prober", "notifier")
    async with working(tmp_path, postgresql, *roles, budget=f"{BUDGET_PER_S:g}/s") as (machines, origin):
        planners, probers, notifier = machines.machines[:2], machines.machines[2:4], machines.machines[4]
        async with load(machines, origin, budget_per_s=BUDGET_PER_S) as published:
            new = [await replaced(machines, planners[0], "planner", code)]
            await come(published, 4)
            new.append(await replaced(machines, planners[1], "planner", code))  # one of the new ones changes the tables
            await share(*new)
            assert await notifier.ended() != 0  # the old version cannot use the new tables, and says so
            assert "a newer proxyd created them; use that version" in notifier.log
            machines.machines.remove(notifier)
            await machines.machine("notifier", code=code)
            for prober in probers:
                await replaced(machines, prober, "prober", code)
            await come(published, 10)
        count = "SELECT count(*) FROM sources WHERE of_next_version = 1"
        assert int(postgresql.query(count, machines.database.rpartition("/")[2])) == HOSTS


async def test_one_machine_with_sqlite_is_replaced(tmp_path: Path) -> None:
    code, folder = make_next_version(tmp_path / "next"), tmp_path / "machine"
    folder.mkdir()
    async with world(folder) as made:
        await replaced_alone(made, code)


async def replaced_alone(world: World, code: str) -> None:
    """Replace the one machine while items come; the old version refuses the new tables."""
    feed, daemon = world.origin.feed("feed"), world.daemon
    daemon.declare(world.text(["feed"], {"each": 1}))
    await daemon.start()
    await daemon.knows("feed")
    published = [*feed.add(3)]
    await world.receiver.received("each", 3)
    published += feed.add(2)
    await daemon.stop()
    published += feed.add(2)
    daemon.code = code
    await daemon.start()
    published += feed.add(2)
    assert sorted(await world.receiver.received("each", len(published))) == sorted(published)
    world.receiver.check()
    daemon.code = ""  # the old version, by mistake
    await daemon.stop()
    await daemon.spawn()
    assert await daemon.ended() != 0
    assert "a newer proxyd created them; use that version" in daemon.log
