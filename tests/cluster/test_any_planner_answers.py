"""Every planner answers the API: what it does not know, it asks of the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import ClientSession, CookieJar

from tests.acceptance.support import Daemon, eventually
from tests.cluster.hosts import hosts
from tests.cluster.support import cluster
from tests.cluster.test_machines import HOSTS, share
from tests.integration.dashboard_world import field
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
        address = first.base.removeprefix("http://")
        assert f"the one at {address} makes changes" in refused.err
        await first.kill()
        machines.machines.remove(first)
        await eventually(lambda: "this planner looks after the declaration" in other.log, "it takes over")
        await answers(other)
        status, _, listed = await other.request("GET", "/api/v1/sources", token=token)
        assert (status, len(listed["items"])) == (200, 2)


async def test_a_dashboard_shows_the_sources_of_every_planner(tmp_path: Path, postgresql: PostgresServer) -> None:
    async with hosts(HOSTS) as origin, cluster(tmp_path, postgresql) as machines:
        machines.declare(origin.texts(machines.receiver.url("each")))
        both = [await machines.machine("planner") for _ in range(2)]
        for machine in both:
            await answers(machine)
        await share(*both)
        (first,) = [each for each in both if "this planner looks after the declaration" in each.log]
        token = (await first.cli("token", "create", "--name", "me", "--scope", "write")).out.strip()
        for machine in both:
            async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as browser:
                mark = field((200, await shown(browser, f"{machine.base}/sign-in")), "mark")
                form = {"mark": mark, "token": token}
                async with browser.post(f"{machine.base}/sign-in", data=form) as answer:
                    assert answer.status == 200
                for name in origin.names:
                    page = await shown(browser, f"{machine.base}/sources/{name}")
                    assert f'action="/sources/{name}/probe"' in page
                plan = await shown(browser, f"{machine.base}/plan")
                assert all(name in plan for name in origin.names)


async def shown(browser: ClientSession, url: str) -> str:
    async with browser.get(url) as answer:
        assert answer.status == 200
        return await answer.text()
