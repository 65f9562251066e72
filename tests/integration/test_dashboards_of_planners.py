"""The dashboard of a planner shows pages of sources that another one plans, for sessions that it alone knows."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from proxyd.api.forwarding import Peer, forward_unknown, open_forwarding
from proxyd.api.listings import Listings
from proxyd.api.peers import Peers, add_answers
from proxyd.api.problems import Handler
from proxyd.api.web.sessions import Note, Session, read_notes, written_notes
from proxyd.app.server import PublicFront, make_app
from proxyd.core.model.outcome import OutcomeKind
from proxyd.core.politeness.host_budgets import HostTally
from tests.integration.api_world import Running, running_api
from tests.integration.dashboard_world import Browser

_VOUCHED = '{"token_id": "%s", "csrf": "c", "until_s": 9e9, "notes": []}'


@dataclass
class Planners:
    """Who plans which source, as one planner believes."""

    secret: str = "theirs"
    others_of: dict[str, Peer] = field(default_factory=dict)

    def answering(self, source: str | None, _profiles: Sequence[str] = ()) -> Peer | None:
        return self.others_of.get(source or "")

    def planner_of_host(self, _host: str) -> None:
        return None

    def others(self) -> list[Peer]:
        return list(self.others_of.values())

    async def peer_called(self, _callback_id: str) -> None:
        return None


@dataclass
class World:
    """A browser at one planner; ``asked`` is what the other one was asked, which plans the source ``s``."""

    browser: Browser
    other: TestClient[web.Request, web.Application]
    planners: Planners
    asked: list[str] = field(default_factory=list)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with running_api(tmp_path) as api, two_planners(api) as made:
        yield made


@asynccontextmanager
async def two_planners(api: Running) -> AsyncIterator[World]:
    own, others, asked = Planners(), Planners("ours"), []

    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        asked.append(f"{request.method} {request.path}")
        return await handler(request)

    async with open_forwarding() as forwarding:
        apps = [
            make_app(
                api.control.queries,
                PublicFront(),
                planners=forward_unknown(each, forwarding, api.control.queries),
                peers=peers,
            )
            for each in (own, others)
            for peers in [Peers(forwarding, each)]
        ]
        apps[0].middlewares.insert(0, note)
        add_answers(apps[0], own, Listings(api.control.queries))
        async with TestClient(TestServer(apps[0])) as other, TestClient(TestServer(apps[1])) as client:
            others.others_of["s"] = Peer("other:1", f"{other.host}:{other.port}", own.secret)
            yield World(Browser(replace(api, client=client)), other, others, asked)


async def test_the_page_of_a_source_comes_from_its_planner(world: World) -> None:
    await world.browser.sign_in()
    for path in ("/sources/s", "/sources/s/why", "/sources/a%2Fb%20c"):
        status, page = await world.browser.get(path)
        assert status == 200
        assert f'name="csrf" value="{world.browser.csrf}"' in page
    assert world.asked == ["GET /sources/s", "GET /sources/s/why"]


async def test_the_plan_holds_the_probes_of_all_planners(world: World) -> None:
    headers = await world.browser.api.token("read")

    async def planned(client: TestClient[web.Request, web.Application]) -> Counter[str]:
        async with client.get("/api/v1/plan?limit=500", headers=headers) as answer:
            items = (await answer.json())["items"]
        assert [each["at"] for each in items] == sorted(each["at"] for each in items)
        return Counter(each["source"] for each in items)

    theirs = await planned(world.other)
    assert theirs["s"] > 0
    both = await planned(world.browser.api.client)
    assert both == Counter({name: 2 * count for name, count in theirs.items()})


async def test_the_hosts_are_those_of_all_planners(world: World) -> None:
    api, headers = world.browser.api, await world.browser.api.token("read")
    hosts = api.control.queries.plans._planner.limits.hosts  # both planners answer from these
    hosts.tallies.update(
        {host: HostTally(0.0, last_outcome=OutcomeKind.SAME_BODY) for host in ("a.example", "b.example")}
    )

    async def listed(cursor: str = "") -> dict[str, Any]:
        async with api.client.get(f"/api/v1/hosts?limit=1{cursor}", headers=headers) as answer:
            return dict(await answer.json())

    first = await listed()
    second = await listed(f"&cursor={first['next_cursor']}")
    assert [each["host"] for each in (*first["items"], *second["items"])] == ["a.example", "b.example"]
    assert second["next_cursor"] is None
    assert world.asked.count("POST /planners/hosts") == 2


async def test_the_budget_is_that_of_all_planners(world: World) -> None:
    headers = await world.browser.api.token("read")

    async def allowed(client: TestClient[web.Request, web.Application]) -> tuple[float, list[str]]:
        async with client.get("/api/v1/advice", headers=headers) as answer:
            found = await answer.json()
        return found["budget_per_hour"], found["silent_planners"]

    theirs, _ = await allowed(world.other)
    assert await allowed(world.browser.api.client) == (2 * theirs, [])
    await world.other.close()
    assert await allowed(world.browser.api.client) == (theirs, ["other:1"])
    await world.browser.sign_in()
    assert "Without the sources of other:1" in (await world.browser.get("/budget"))[1]


async def test_what_was_done_is_said_once_whoever_does_it(world: World) -> None:
    await world.browser.sign_in()
    done = {"probe": "It is probed at once.", "pause": "Source s is paused: ", "resume": "Source s is probed again"}
    for action, said in done.items():
        answer, _ = await world.browser.post(f"/sources/s/{action}")
        assert (answer.status, answer.headers["Location"]) == (303, "/sources/s")
        assert "Proxyd-Notes" not in answer.headers
        assert said in (await world.browser.get("/sources/s"))[1]
        assert said not in (await world.browser.get("/sources/s"))[1]
    assert "POST /sources/s/probe" in world.asked
    assert "POST /sources/s/pause" not in world.asked


async def test_what_was_said_elsewhere_is_shown_on_the_next_page_here(world: World) -> None:
    await world.browser.sign_in()
    await world.browser.post("/sources/s/probe")
    assert "It is probed at once." in (await world.browser.get("/sources"))[1]


async def test_a_form_of_another_session_and_a_scope_that_is_too_small_are_refused(world: World) -> None:
    await world.browser.sign_in()
    assert (await world.browser.post("/sources/s/probe", csrf="x"))[0].status == 403
    await world.browser.sign_in("read")
    assert (await world.browser.post("/sources/s/probe"))[0].status == 403
    assert world.asked == ["POST /sources/s/probe"]


async def test_a_session_that_has_ended_is_not_passed_on(world: World) -> None:
    await world.browser.sign_in()
    await world.browser.post("/sign-out")
    assert (await world.browser.api.client.get("/sources/s", allow_redirects=False)).status == 303
    assert world.asked == []


@pytest.mark.parametrize(("secret", "status"), [("theirs", 200), ("ours", 303), ("", 303), ("\xe4", 303)])
async def test_only_a_planner_is_believed_that_a_browser_has_a_session(world: World, secret: str, status: int) -> None:
    bearer = (await world.browser.api.token("read"))["Authorization"].split("_")[1]
    headers = {"Proxyd-Planner": secret, "Proxyd-Session": _VOUCHED % bearer, "Proxyd-Forwarded": "1"}
    async with world.other.get("/sources/s", headers=headers, allow_redirects=False) as answer:
        assert answer.status == status


async def test_what_a_planner_says_of_a_session_is_checked_again(world: World) -> None:
    bearer = (await world.browser.api.token("read"))["Authorization"].split("_")[1]

    async def status(method: str, path: str, session: str, data: dict[str, str] | None = None) -> int:
        headers = {"Proxyd-Planner": "theirs", "Proxyd-Session": session, "Sec-Fetch-Site": "same-origin"}
        sent = world.other.request(method, path, headers=headers, data=data, allow_redirects=False)
        async with sent as answer:
            return answer.status

    valid = _VOUCHED % bearer
    assert await status("GET", "/sources/s", valid) == 200
    assert await status("POST", "/sources/s/probe", valid, {"csrf": "c"}) == 403
    assert await status("GET", "/sources/s", valid.replace("9e9", "1.0")) == 303
    await world.browser.api.control.queries.access.drop_token("read None", 0.0)
    assert await status("GET", "/sources/s", valid) == 303


async def test_a_browser_that_says_it_has_a_session_is_not_believed(world: World) -> None:
    bearer = (await world.browser.api.token("read"))["Authorization"].split("_")[1]
    headers = {"Proxyd-Planner": "theirs", "Proxyd-Session": _VOUCHED % bearer}
    async with world.browser.api.client.get("/sources/s", headers=headers, allow_redirects=False) as answer:
        assert answer.status == 303
    assert world.asked == []


async def test_a_planner_that_does_not_answer_is_named_and_nothing_said_is_lost(world: World) -> None:
    await world.browser.sign_in()
    await world.browser.post("/sources/s/pause")
    peer = world.planners.others_of["s"]
    world.planners.others_of["s"] = replace(peer, address="127.0.0.1:1")
    status, page = await world.browser.get("/sources/s")
    assert (status, "other:1" in page) == (503, True)
    assert "Source s is paused: " in page


def test_the_newest_notes_that_a_header_holds_are_lent_and_the_others_kept() -> None:
    session = Session("", "t", "c", 9e9)
    for number in range(30):
        session.say(f"{number} " + "\u00e4" * 100)
    said = list(session.notes)
    lent = session.lend()
    assert len(session.told(lent)) < 5000
    assert 2 <= len(lent) < 10
    assert [*session.notes, *lent] == said
    assert read_notes(written_notes(lent)) == lent
    session.say("meanwhile")
    session.take_back(lent)
    assert session.take_notes() == [*said[: -len(lent)], Note("meanwhile", "good"), *lent]


def test_a_note_that_is_too_long_for_a_header_is_shortened() -> None:
    session = Session("", "t", "c", 9e9)
    session.say("\U0001f600" * 9000)
    lent = session.lend()
    assert [each.text for each in lent] == ["\U0001f600" * 300 + "…"]
    assert len(session.told(lent)) < 5000
    assert session.take_notes() == []
