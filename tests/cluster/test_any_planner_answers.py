"""Every planner answers the API: the leader itself, the others by asking the leader."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.support import Daemon, eventually
from tests.cluster.hosts import hosts
from tests.cluster.support import cluster
from tests.cluster.test_machines import leader_of
from tests.servers import PostgresServer

pytestmark = pytest.mark.long
UNAUTHORIZED = 401  # what only a leader says


async def answers(machine: Daemon) -> None:
    """Wait until a machine is ready and answers the API."""

    async def does() -> bool:
        asked = [(await machine.request("GET", path))[0] for path in ("/readyz", "/api/v1/sources")]
        return asked == [200, UNAUTHORIZED]

    await eventually(does, "the machine answers", state=lambda: machine.log)


async def test_the_api_outlives_its_leader(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with hosts(2) as origin, cluster(tmp_path, postgresql) as machines:
        machines.declare(origin.texts(machines.receiver.url("each")))
        both = [await machines.machine("planner") for _ in range(2)]
        leader = await leader_of(machines, "planner")
        (standby,) = (each for each in both if each is not leader)
        for machine in (leader, standby):
            await answers(machine)
        token = (await leader.cli("token", "create", "--name", "me", "--scope", "read")).out.strip()
        status, _, listed = await standby.request("GET", "/api/v1/sources", token=token)
        assert (status, len(listed["items"])) == (200, 2)
        refused = await standby.cli("token", "create", "--name", "other", "--scope", "read")
        assert f":{leader.pid} leads now" in refused.err
        await leader.kill()
        machines.machines.remove(leader)
        assert await leader_of(machines, "planner") is standby
        await answers(standby)
