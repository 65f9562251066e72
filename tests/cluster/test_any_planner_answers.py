"""Every planner answers the API: what it does not know, it asks of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.support import Daemon, eventually
from tests.cluster.hosts import hosts
from tests.cluster.support import cluster
from tests.servers import PostgresServer

pytestmark = pytest.mark.long
UNAUTHORIZED = 401  # what only a planner says


async def answers(machine: Daemon) -> None:
    """Wait until a machine is ready and answers the API."""

    async def does() -> bool:
        try:
            asked = [(await machine.request("GET", path))[0] for path in ("/readyz", "/api/v1/sources")]
        except OSError:  # it does not listen yet
            return False
        return asked == [200, UNAUTHORIZED]

    await eventually(does, "the machine answers", state=lambda: machine.log)


async def test_the_api_outlives_any_planner(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with hosts(2) as origin, cluster(tmp_path, postgresql) as machines:
        machines.declare(origin.texts(machines.receiver.url("each")))
        both = [await machines.machine("planner") for _ in range(2)]
        for machine in both:
            await answers(machine)
        (first,) = [each for each in both if "this planner looks after the declaration" in each.log]
        (other,) = [each for each in both if each is not first]
        token = (await first.cli("token", "create", "--name", "me", "--scope", "read")).out.strip()
        status, _, listed = await other.request("GET", "/api/v1/sources", token=token)
        assert (status, len(listed["items"])) == (200, 2)
        refused = await other.cli("token", "create", "--name", "other", "--scope", "read")
        assert f":{first.pid} makes changes" in refused.err
        await first.kill()
        machines.machines.remove(first)
        await eventually(lambda: "this planner looks after the declaration" in other.log, "it takes over")
        await answers(other)
        status, _, listed = await other.request("GET", "/api/v1/sources", token=token)
        assert (status, len(listed["items"])) == (200, 2)
