"""Which of several planners answers a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer
from structlog.testing import capture_logs

from proxyd.api import wire
from proxyd.api.auth import new_token
from proxyd.api.forwarding import Forwarding, Peer, forward_unknown, refuse_changes
from proxyd.api.listings import Listings
from proxyd.api.peers import Peers, add_answers
from proxyd.api.problems import Handler, problems
from proxyd.api.wire import explained
from proxyd.app.server import PublicFront, make_app
from proxyd.core.model.profile import found_name, full_name
from proxyd.core.planning.allocation.targets import RuleOutlook
from proxyd.core.planning.allocation.week_plan import SharePoint, TradePoint
from proxyd.core.rules.answers.advice import Advice, IntervalOutlook
from proxyd.core.rules.answers.explanation import Explainer
from proxyd.net.host_turns import HostTokens
from proxyd.store.api_rows import SqlAccess, Token
from tests.fakes import FakeClock, no_queries
from tests.fleets import decider, declaration, rule, source
from tests.servers import free_port

AT = "2026-01-31T07:00:00Z"
DECLARED = declaration(source("a"), rule("r"))
EXPLAINED = Explainer.of(decider(DECLARED, now_s=1_000_000_000.0)).explain("a", 100_000_000)
assert EXPLAINED is not None
LISTED = explained.source(DECLARED, EXPLAINED)
HOST = wire.HostShown(
    host="a.example", requests=3, answers=1, throttles=1, failures=1, since="2026-01-01T00:00:00Z",
    last="2026-01-01T00:00:01Z", last_outcome="timeout", last_status=None, spacing_s=5.0, free=None,
    throttled_until=None,
)  # fmt: skip
ADVICE = Advice(
    0.5,
    0.25,
    (TradePoint(0.25, 40.0, 60.0, 0.9),),
    3600.0,
    (IntervalOutlook("r", 3, {"budget": 1}),),
    ((2, 1.5),),
    0.75,
    {"r": RuleOutlook(0.9, 0.8, 0.95, made=0.1, needed=0.2, is_host_bound=True, items=0.3)},
    (SharePoint(0.9, 0.91, 0.3, 50.0),),
    0.3,
)

THEIRS = "a" * 20
HERE, OTHER, HIDDEN = None, Peer("other:1", "127.0.0.1:1"), Peer("other:1", "")


@dataclass
class Planners:
    """The sources of another planner, which may look after the declaration too."""

    theirs: Sequence[str] = ()
    first: Peer | None = HERE
    other: Peer = OTHER
    secret: str = "ours"

    def answering(self, source: str | None, profiles: Sequence[str] = ()) -> Peer | None:
        if source is None:
            return self.first
        return self.other if found_name(source, dict.fromkeys(self.theirs), profiles) in self.theirs else HERE

    def planner_of_host(self, host: str) -> Peer | None:
        return self.answering(host)

    def others(self) -> list[Peer]:
        return [self.other]

    async def peer_called(self, callback_id: str) -> Peer | None:
        return OTHER if callback_id == THEIRS else HERE


@dataclass
class Sent(Forwarding):
    """Notes what it would send to another planner."""

    paths: list[str] = field(default_factory=list)
    bodies: list[bytes | None] = field(default_factory=list)

    async def pass_on(
        self, request: web.Request, peer: Peer, body: bytes | None = None, *, session: str | None = None
    ) -> web.StreamResponse:
        assert (peer, session) == (OTHER, None)
        self.paths.append(request.path)
        self.bodies.append(body)
        return web.Response(text="theirs")


@asynccontextmanager
async def listening(
    planners: Planners, sent: Sent, *tokens: Token
) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    async def find_token(token_id: str) -> Token | None:
        return {each.token_id: each for each in tokens}.get(token_id)

    queries = replace(no_queries(), access=cast("SqlAccess", SimpleNamespace(find_token=find_token)))
    app = make_app(queries, PublicFront(), planners=forward_unknown(planners, sent, queries))
    async with TestClient(TestServer(app)) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "first", "is_theirs"),
    [
        ("/sources/theirs", HERE, False),  # which asks only for sessions that it knows
        ("/sources/ours", OTHER, True),
        ("/api/v1/explain/ours", OTHER, False),
        ("/api/v1/explain/theirs", HERE, True),
        ("/api/v1/sources/theirs/items", HERE, False),  # these are stored
        ("/api/v1/sources", HERE, False),
        ("/api/v1/sources", OTHER, True),
        ("/rules/theirs", HERE, False),
        (f"/websub/{THEIRS}", HERE, True),
        ("/websub/bbbbbbbbbbbbbbbbbbbb", OTHER, False),
        ("/nothing", OTHER, True),
        ("/healthz", OTHER, False),
        ("/metrics", OTHER, False),
    ],
)
async def test_who_knows_answers(path: str, first: Peer | None, is_theirs: bool) -> None:
    sent = Sent()
    async with listening(Planners(["theirs"], first), sent) as client:
        await client.get(path, allow_redirects=False)
    assert sent.paths == [path] * is_theirs


@pytest.mark.parametrize(
    ("path", "body", "is_theirs"),
    [
        ("/api/v1/probe", b'{"name": "theirs"}', True),
        ("/api/v1/probe", b'{"name": "ours"}', False),
        ("/api/v1/moves", b'{"source": "theirs"}', True),
        ("/api/v1/probe", b'["theirs"]', False),
        ("/api/v1/probe", b"\xff", False),
        ("/api/v1/pause", b'{"source": "theirs"}', False),
    ],
)
async def test_a_body_may_name_a_source_of_another_planner(path: str, body: bytes, is_theirs: bool) -> None:
    sent = Sent()
    async with listening(Planners(["theirs"]), sent) as client:
        await client.post(path, data=body, headers={"Content-Type": "application/json"})
    assert sent.bodies == [body] * is_theirs


@pytest.mark.parametrize(
    ("profiles", "is_right", "is_theirs"),
    [
        pytest.param(["Ann", "Kids"], True, True, id="of an owner"),
        pytest.param(["Ann"], True, False, id="of another owner"),
        pytest.param(["Kids"], False, False, id="with a wrong token"),
    ],
)
async def test_what_an_owner_has_is_found_by_the_name_that_they_write(
    profiles: list[str], is_right: bool, is_theirs: bool
) -> None:
    sent, (token, shown) = Sent(), new_token("k", "write", now_s=0.0, expires_in_s=None, profiles=profiles)
    told = {"Authorization": f"Bearer {shown if is_right else shown[:-1]}"}
    async with listening(Planners([full_name("Kids", "a")]), sent, token) as client:
        await client.get("/api/v1/explain/a", headers=told)
    assert sent.paths == ["/api/v1/explain/a"] * is_theirs


async def test_what_was_asked_by_another_planner_is_answered_here() -> None:
    sent = Sent()
    async with listening(Planners(["theirs"], OTHER), sent) as client:
        await client.get("/sources/theirs", headers={"Proxyd-Forwarded": "1"}, allow_redirects=False)
    assert sent.paths == []


@pytest.mark.parametrize(
    ("first", "status", "said"),
    [
        (HERE, 400, ""),
        (OTHER, 421, "the one at 127.0.0.1:1 makes changes: run this command there, or use --url http://127.0.0.1:1"),
        (HIDDEN, 421, "process 1 of other makes changes: run this command there"),
    ],
)  # fmt: skip
async def test_the_socket_of_a_planner_that_follows_changes_nothing(first: Peer | None, status: int, said: str) -> None:
    app = make_app(no_queries(), None, planners=refuse_changes(Planners(first=first)))
    async with TestClient(TestServer(app)) as client:
        assert (await client.get("/healthz")).status == 200
        refused = await client.post("/api/v1/pause", data=b"x")
        assert refused.status == status
        assert said in await refused.text()


class Answers:
    """What another planner knows: every source, and a probe of ``theirs``."""

    async def list_sources(self, names: Sequence[str]) -> list[wire.SourceListed]:
        return [LISTED.model_copy(update={"source": each}) for each in names]

    def have_probed(self, names: Sequence[str]) -> list[wire.ProbeAsked]:
        return [wire.ProbeAsked(source=each, at=AT, waits_for=None, under_way=True) for each in names]

    async def own_plan(self, window: wire.PlanWindow) -> list[wire.ComingProbe]:
        coming = wire.ComingProbe(source="theirs", at=AT, reason="detection", rule="r", rate_per_day=1.0)
        return [coming] * window.limit

    async def own_hosts(self, window: wire.ListWindow) -> list[wire.HostShown]:
        return [HOST] * (window.limit + 1)

    async def advice_of_others(self) -> Advice:
        return ADVICE

    @property
    def plans(self) -> Answers:
        return self


ANSWERS = cast("Listings", Answers())


@asynccontextmanager
async def answering(secret: str, turns: HostTokens | None = None) -> AsyncIterator[str]:
    """Serve what another planner knows, if it is asked with ``secret``, and yield its address."""

    app = web.Application(middlewares=[problems])
    add_answers(app, Planners(secret=secret), ANSWERS, turns)
    async with TestServer(app) as server:
        yield f"{server.host}:{server.port}"


async def test_others_are_asked_for_the_sources_that_they_plan() -> None:
    async with answering("theirs") as address, ClientSession() as session:
        peers = Peers(Forwarding(session), Planners(["a", "b"], other=Peer("other:1", address, "theirs")))
        assert list(await peers.list_sources(["x", "a", "y", "b"])) == ["a", "b"]
        assert [each.source for each in await peers.have_probed(["b", "x"])] == ["b"]
        assert await peers.list_sources(["x"]) == {}
        assert [each.source for each in await peers.list_plan(wire.PlanWindow(limit=3))] == ["theirs"] * 3
        assert list(await peers.list_hosts(wire.ListWindow(limit=3))) == [HOST] * 4
        assert await peers.advice_of_others() == {"other:1": ADVICE}


async def test_a_request_to_a_host_of_another_planner_waits_for_its_turn_there() -> None:
    clock = FakeClock()
    own, theirs = HostTokens(clock, 1.0), HostTokens(clock, 5.0)
    async with answering("theirs", theirs) as address, ClientSession() as session:
        peers = Peers(Forwarding(session), Planners(["b.example"], other=Peer("other:1", address, "theirs")))
        with own.share(peers.turn):
            await theirs.take("b.example")
            asked = asyncio.create_task(own.enter("B.example"))
            await clock.someone_sleeps()
            with await own.enter("a.example"):  # a host of our own sources
                assert not asked.done()
            await clock.advance(5.0)
            with await asked:
                assert clock.monotonic_s() == 5005.0
            next_of_theirs = asyncio.create_task(theirs.take("b.example"))
            await clock.someone_sleeps()
            await clock.advance(4.9)
            assert not next_of_theirs.done()
            await clock.advance(0.1)
            await next_of_theirs
        with await own.enter("b.example"):
            assert clock.sleepers == 0


async def test_who_is_not_the_planner_of_a_host_gives_no_turn_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxyd.api.peers._AGAIN_S", 0.0)
    theirs, refused = Planners(["b"], secret="theirs"), asyncio.Event()

    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        answer = await handler(request)
        refused.set()
        return answer

    app = web.Application(middlewares=[note, problems])
    add_answers(app, theirs, ANSWERS, HostTokens(FakeClock(), 1.0))
    async with TestServer(app) as server, ClientSession() as session:
        planners = Planners(["b"], other=Peer("other:1", f"{server.host}:{server.port}", "theirs"))
        turn = asyncio.create_task(Peers(Forwarding(session), planners).turn("b", 0.0))
        await refused.wait()
        assert not turn.done()
        theirs.theirs = ()  # it has become that
        await turn


@pytest.mark.parametrize("address", ["planner2..example:80", f"{'a' * 64}.example:80", "127.0.0.1:99999"])
async def test_an_address_that_is_none_is_skipped(address: str) -> None:
    async with ClientSession() as session:
        peers = Peers(Forwarding(session), Planners(["b"], other=Peer("other:1", address, "theirs")))
        await peers.turn("b", 0.0)
        assert await peers.list_sources(["b"]) == {}
        assert await peers.advice_of_others() == {"other:1": None}


async def test_a_large_answer_and_a_redirect_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxyd.api.peers._MOST_BYTES", 1000)
    asked = list[str]()

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        if request.path.endswith("/turn"):
            raise web.HTTPTemporaryRedirect("/elsewhere")
        return web.json_response({"items": [], "more": "x" * 1000})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server, ClientSession() as session:
        there = Peer("other:1", f"{server.host}:{server.port}", "theirs")
        peers = Peers(Forwarding(session), Planners(["b"], other=there))
        await peers.turn("b", 0.0)
        with capture_logs() as logs:
            assert await peers.list_sources(["b"]) == {}
    assert asked == ["/planners/turn", "/planners/sources"]
    assert [each["error"] for each in logs] == ["an answer of more than 1000 bytes"]


async def test_a_turn_that_does_not_come_soon_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxyd.api.peers._TURN_S", 0.01)
    monkeypatch.setattr("proxyd.api.peers._AGAIN_S", 0.0)
    clock, asked = FakeClock(), list[str]()
    theirs, planners = HostTokens(clock, 5.0), Planners(["b"])
    async with answering("theirs", theirs) as address, ClientSession() as session:
        planners.other = Peer("other:1", address, "theirs")
        peers = Peers(Forwarding(session), planners)

        async def ask(host: str, spacing_s: float) -> None:
            await peers.turn(host, spacing_s)
            asked.append(host)

        await theirs.take("b")
        waiting = asyncio.create_task(ask("b", 0.0))
        for _ in range(3):
            await clock.someone_sleeps()
            while clock.sleepers:  # noqa: ASYNC110 - it waits for real time there
                await asyncio.sleep(0)
        assert asked == []
        await clock.someone_sleeps()
        await clock.advance(5.0)
        await waiting
        assert asked == ["b"]


async def test_a_turn_is_not_waited_for_where_no_requests_are_made_or_nobody_answers() -> None:
    clock = FakeClock()
    async with answering("theirs") as address, ClientSession() as session:
        for there in (address, f"127.0.0.1:{free_port()}", ""):
            peers = Peers(Forwarding(session), Planners(["b"], other=Peer("other:1", there, "theirs")))
            own = HostTokens(clock, 1.0)
            with own.share(peers.turn), await own.enter("b"):
                assert clock.sleepers == 0


async def test_a_turn_may_be_asked_for_at_any_host_that_a_redirect_names() -> None:
    clock, host = FakeClock(), f"{'a' * 300}.example"
    async with answering("theirs", HostTokens(clock, 1.0)) as address, ClientSession() as session:
        peers = Peers(Forwarding(session), Planners([host], other=Peer("other:1", address, "theirs")))
        own = HostTokens(clock, 1.0)
        with own.share(peers.turn), await own.enter(host, 200_000.0):
            assert clock.sleepers == 0


async def test_a_turn_with_a_spacing_that_is_no_time_is_refused() -> None:
    async with answering("theirs", HostTokens(FakeClock(), 1.0)) as address, ClientSession() as session:
        for spacing_s in ("-1", "1e999"):
            body = f'{{"host": "b", "spacing_s": {spacing_s}}}'
            headers = {"Content-Type": "application/json", "Proxyd-Planner": "theirs"}
            async with session.post(f"http://{address}/planners/turn", data=body, headers=headers) as refused:
                assert refused.status == 422


@pytest.mark.parametrize("secret", ["", "ours"])
async def test_who_does_not_know_the_secret_is_told_nothing(secret: str) -> None:
    async with answering("theirs") as address, ClientSession() as session:
        peers = Peers(Forwarding(session), Planners(["a"], other=Peer("other:1", address, secret)))
        assert (await peers.list_sources(["a"]), await peers.have_probed(["a"])) == ({}, [])
        assert await peers.list_plan(wire.PlanWindow()) == []
        assert await peers.list_hosts(wire.ListWindow()) == []
        assert await peers.advice_of_others() == {"other:1": None}
    async with answering("") as address, ClientSession() as session:
        peers = Peers(Forwarding(session), Planners(["a"], other=Peer("other:1", address, "")))
        assert await peers.list_sources(["a"]) == {}


async def test_a_planner_that_does_not_answer_is_left_out() -> None:
    async with ClientSession() as session:
        asked = Peer("other:1", f"127.0.0.1:{free_port()}", "theirs")
        peers = Peers(Forwarding(session), Planners(["a"], other=asked))
        assert await peers.list_sources(["a"]) == {}
        peers = Peers(Forwarding(session), Planners(["a"], other=Peer("other:1", "", "theirs")))
        assert await peers.have_probed(["a"]) == []
        assert await peers.list_plan(wire.PlanWindow()) == []
        assert await peers.list_hosts(wire.ListWindow()) == []
        assert await peers.advice_of_others() == {"other:1": None}
