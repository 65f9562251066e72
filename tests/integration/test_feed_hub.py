"""The hub of the feeds of profiles over real sockets: who may follow, what is pushed, and what ends it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import feedparser
import numpy as np
import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer, unused_port
from sqlalchemy import select

from proxyd.api.auth import Quota, new_token
from proxyd.app.network import open_network
from proxyd.app.server import PublicFront, make_app
from proxyd.app.wiring import Built, Resources, build
from proxyd.base.metrics import Metrics
from proxyd.config.loading import SecretStore, load
from proxyd.core.errors import FetchTimeoutError
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.rules.known.state import Notification
from proxyd.core.rules.known.subscriptions import SubscriptionStatus
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.daemon import FeedHub, PushParts, feed_hub
from proxyd.daemon.feed_hub import LEASE_S, MOST_OF_HOST
from proxyd.net.guard import Guard
from proxyd.net.host_turns import HostTokens
from proxyd.net.session import make_session
from proxyd.probing.http.hubs import FollowerAnswer, HubClient
from proxyd.probing.prober import LocalTransport
from proxyd.store.backups import open_store
from proxyd.store.databases import tables as t
from proxyd.store.follower_rows import Follower
from proxyd.store.listed_rows import Wanted
from proxyd.store.rows import as_type
from proxyd.store.sql_store import SqlStore
from tests.databases import migrated_file
from tests.fakes import FakeClock, settle
from tests.fleets import DOMAIN, rule, source
from tests.integration.api_world import T0, RefusingChannel, told
from tests.origin import InlineParser

PROFILES = 'CREATE PROFILE "Q & A/1" AS (DOMAIN "D", LANGUAGE "SQL", USER "u");\n'
OTHER = rule("r/2 +x").replace('"P"', '"Q & A/1"')
FEED = "/api/v1/profiles/P/feed.atom"


@dataclass
class Callback:
    """A server that follows: it echoes challenges unless it is told not to, and keeps what it is sent."""

    url: str = ""
    echoes: bool = True
    status: int = 204
    location: str = ""
    denied: int = 200  # the status with which it hears that it gets no more
    asked: list[dict[str, str]] = field(default_factory=list)
    sent: list[tuple[Mapping[str, str], bytes]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        moved = {"Location": self.location} if self.location else {}
        if request.method == "GET":
            self.asked.append(dict(request.query))
            if request.query["hub.mode"] == "denied":
                return web.Response(status=self.denied)
            challenge = request.query.get("hub.challenge", "") if self.echoes else "something else"
            return web.Response(status=307 if moved else 200, text=challenge, headers=moved)
        self.sent.append((dict(request.headers), await request.read()))
        return web.Response(status=307 if moved else self.status, headers=moved)

    @property
    def titles(self) -> list[list[str]]:
        """The titles of each feed that it was sent."""
        return [[each.title for each in feedparser.parse(body).entries] for _, body in self.sent]


@dataclass
class World:
    """A daemon without its loops, that serves feeds and is their hub, and somebody who follows."""

    built: Built
    clock: FakeClock
    store: SqlStore
    session: ClientSession
    callback: Callback
    base: str

    async def token(self, name: str = "t", *profiles: str, expires_in_s: float | None = None) -> str:
        token, shown = new_token(name, "read", now_s=T0, expires_in_s=expires_in_s, profiles=profiles)
        await self.store.access.add_token(token)
        return shown

    async def links(self, token: str, path: str = FEED) -> dict[str, str]:
        """Return the links of a feed's header by their relations."""
        async with self.session.get(self.base + path, headers={"Authorization": f"Bearer {token}"}) as answer:
            assert answer.status == 200, await answer.text()
            return {str(name): str(link["url"]) for name, link in answer.links.items()}

    async def ask(self, hub: str, topic: str, **form: str) -> int:
        """Ask a hub for a topic; return its status."""
        wanted = {"hub.mode": "subscribe", "hub.topic": topic, "hub.callback": self.callback.url}
        wanted |= {f"hub.{name}": value for name, value in form.items()}
        async with self.session.post(hub, data=wanted) as answer:
            return answer.status

    async def follow(self, token: str, path: str = FEED, **form: str) -> None:
        links = await self.links(token, path)
        assert await self.ask(links["hub"], links["self"], **form) == 202
        await self.work()

    async def tell(self, *notifications: Notification) -> None:
        await self.store.record_results(RuleResults(notifications=notifications))

    async def work(self, *, after_s: float = 0.0) -> None:
        """Do what is due, until nothing is."""
        self.clock.jump(after_s)
        async with asyncio.TaskGroup() as tasks:
            await self.built.loops.hub.start_work(tasks.create_task)

    async def followers(self) -> list[Follower]:
        return [as_type(Follower, row) for row in await self.store.read(select(t.followers))]


def write_profile(profiles: Path, text: str) -> None:
    profiles.mkdir(parents=True, exist_ok=True)
    (profiles / "a.profile").write_text(text)


def another_hub(world: World, calls: HubClient | None = None) -> FeedHub:
    """Return a hub over the same database, as the next process has it."""
    parts, metrics = world.built.resources, Metrics()
    calls = calls or parts.pushes.hub
    return FeedHub(world.built.declarations, world.store, calls, world.clock, parts.rng, metrics, world.base)


@asynccontextmanager
async def open_world(
    folder: Path, text: str = "", *, public: bool = True, guard: Guard | None = None, quota: Quota | None = None
) -> AsyncIterator[World]:
    profiles, port = folder / "profiles", unused_port()
    write_profile(profiles, text or DOMAIN + PROFILES + source("s") + rule("r") + OTHER)
    base = f"http://127.0.0.1:{port}"
    settings = load(
        environ={},
        profiles=profiles,
        public_url=base if public else "",
        allow_networks=["127.0.0.0/8"],
        first_day=0.0,
        host_spacing=0.0,
    )
    clock, callback = FakeClock(T0), Callback()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", callback.handle)
    async with (
        TestServer(app, host="127.0.0.1") as server,
        open_store(migrated_file(folder / "p.db"), ChrononGrid(10.0)) as store,
        store.writer.running(),
        open_network(settings, clock) as network,
        make_session(guard or network.guard, contact="") as session,
        ClientSession() as client,
    ):
        callback.url = str(server.make_url("/called?back=1"))
        calls = HubClient(session, guard or network.guard, HostTokens(clock, 0.0), HostTokens(clock, 0.0))
        parts = Resources(
            clock=clock,
            store=store,
            transport=LocalTransport(network.prober),
            prober=network.prober,
            pushes=PushParts(calls, InlineParser(), settings.public_url),
            channel=RefusingChannel(),
            secrets=SecretStore(settings, {}),
            rng=np.random.default_rng(1),
        )
        built = build(settings, parts)
        await built.declarations.start()
        async with TestServer(make_app(built.queries, PublicFront(quota)), port=port), built.loops.plan_worker:
            yield World(built, clock, store, client, callback, base)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with open_world(tmp_path) as opened:
        yield opened


# -- what feeds say


@pytest.mark.parametrize("form", ["atom", "json"])
async def test_a_feed_names_its_hub_in_its_header_and_in_itself_but_no_token(world: World, form: str) -> None:
    token = await world.token()
    links = await world.links(token, f"/api/v1/profiles/P/feed.{form}?token={token}")
    assert links["self"] == f"{world.base}/api/v1/profiles/P/feed.{form}"
    assert token not in str(links)
    async with world.session.get(links["self"], params={"token": token}) as answer:
        body = await answer.read()
    if form == "json":
        assert json.loads(body)["hubs"] == [{"type": "WebSub", "url": links["hub"]}]
    else:
        assert [each.href for each in feedparser.parse(body).feed.links if each.rel == "hub"] == [links["hub"]]
    assert token.encode() not in body


async def test_a_daemon_without_a_public_address_names_no_hub(tmp_path: Path) -> None:
    async with open_world(tmp_path, public=False) as world:
        assert "hub" not in await world.links(await world.token())
        assert await world.ask(f"{world.base}/websub/feeds/{'0' * 12}.{'0' * 64}", world.base + FEED) == 404


async def test_a_feed_of_a_token_is_unchanged_for_it_although_others_read_it_too(world: World) -> None:
    first, second = await world.token("a"), await world.token("b")
    assert (await world.links(first))["hub"] != (await world.links(second))["hub"]
    async with world.session.get(world.base + FEED, params={"token": first}) as answer:
        since = answer.headers["Last-Modified"]
    world.clock.jump(100.0)
    await world.links(second)
    async with world.session.get(
        world.base + FEED, params={"token": first}, headers={"If-Modified-Since": since}
    ) as answer:
        assert (answer.status, "hub" in answer.links) == (304, True)


# -- who may follow


async def test_who_follows_is_asked_first_and_then_sent_what_is_new_signed(world: World) -> None:
    token = await world.token()
    await world.tell(told("before"))
    await world.follow(token, secret="shh", lease_seconds="86400")
    (asked,) = world.callback.asked
    assert (asked["back"], asked["hub.mode"], asked["hub.lease_seconds"]) == ("1", "subscribe", "86400")
    assert asked["hub.topic"] == world.base + FEED
    await world.work()
    assert world.callback.sent == []
    await world.tell(told("a"), told("b"), told("of another", rule_name="r/2 +x"))
    await world.work()
    ((headers, body),) = world.callback.sent
    assert world.callback.titles == [["b", "a"]]
    assert headers["X-Hub-Signature"] == "sha256=" + hmac.new(b"shh", body, hashlib.sha256).hexdigest()
    assert headers["Content-Type"] == "application/atom+xml; charset=utf-8"
    links = await world.links(token)
    assert headers["Link"] == f'<{links["hub"]}>; rel="hub", <{links["self"]}>; rel="self"'
    assert token not in str(headers) + body.decode()
    await world.work()
    assert len(world.callback.sent) == 1


async def test_a_feed_of_one_rule_with_an_odd_name_is_followed(world: World) -> None:
    await world.follow(await world.token(), f"/api/v1/profiles/{quote('Q & A/1', safe='')}/feed.json?rule=r%2F2%20%2Bx")
    await world.tell(told("a", rule_name="r/2 +x"), told("b"))
    await world.work()
    assert [[each["title"] for each in json.loads(body)["items"]] for _, body in world.callback.sent] == [["a"]]


async def test_a_callback_that_does_not_echo_the_challenge_is_not_followed(world: World) -> None:
    world.callback.echoes = False
    await world.follow(await world.token())
    assert len(world.callback.asked) == 1
    assert await world.followers() == []


async def test_a_callback_that_redirects_is_neither_believed_nor_followed(world: World) -> None:
    world.callback.location = world.callback.url
    await world.follow(await world.token())
    assert (len(world.callback.asked), await world.followers()) == (1, [])
    world.callback.location = ""
    await world.follow(await world.token("u"))
    world.callback.location = world.callback.url
    await world.tell(told("a"))
    await world.work()
    assert len(world.callback.sent) == 1
    assert (await world.followers())[0].failures == 1


async def test_a_callback_inside_the_network_is_not_connected_to(tmp_path: Path) -> None:
    async with open_world(tmp_path, guard=Guard()) as world:
        await world.follow(await world.token())
        assert (world.callback.asked, await world.followers()) == ([], [])


async def test_the_key_of_a_feed_opens_no_other_and_no_key_is_guessed(world: World) -> None:
    links = await world.links(await world.token())
    topic = world.base + FEED
    for other in (
        f"{world.base}/api/v1/profiles/Q%20&%20A%2F1/feed.atom",
        f"{topic}?rule=r",
        topic.replace("atom", "json"),
        topic.replace("atom", "xml"),
        f"{world.base}/api/v1/profiles/none/feed.atom",
        "https://example.org/feed",
        f"{topic}?token=x",
        "",
    ):
        assert await world.ask(links["hub"], other) == 404
    assert await world.ask(links["hub"][:-1] + ("0" if links["hub"][-1] != "0" else "1"), topic) == 404
    assert await world.ask(f"{world.base}/websub/feeds/{'0' * 12}.{links['hub'].partition('.')[2][-64:]}", topic) == 404
    await world.work()
    assert world.callback.asked == []


async def test_a_token_of_one_profile_follows_no_other(world: World) -> None:
    token = await world.token("bound", "Q & A/1")
    async with world.session.get(world.base + FEED, params={"token": token}) as answer:
        assert answer.status == 404
        assert "hub" not in answer.links
    await world.follow(token, "/api/v1/profiles/Q%20%26%20A%2F1/feed.atom")
    await world.tell(told("a"), told("b", rule_name="r/2 +x"))
    await world.work()
    assert world.callback.titles == [["b"]]


@pytest.mark.parametrize(
    "form",
    [
        {"mode": "publish"},
        {"callback": "ftp://example.org/"},
        {"callback": "/called"},
        {"callback": "https://user:pw@example.org/"},
        {"callback": "https://example.org/#part"},
        {"callback": "https://example.org/" + "x" * 2050},
        {"secret": "x" * 200},
        {"lease_seconds": "-1"},
    ],
    ids=lambda form: next(iter(form)) + " " + next(iter(form.values()))[:30],
)
async def test_a_form_that_is_not_valid_is_refused(world: World, form: dict[str, str]) -> None:
    links = await world.links(await world.token())
    assert await world.ask(links["hub"], links["self"], **form) == 400


async def test_a_lease_is_bounded_and_ends(world: World) -> None:
    await world.follow(await world.token(), lease_seconds="99999999999")
    assert world.callback.asked[0]["hub.lease_seconds"] == str(int(LEASE_S))
    await world.tell(told("a"))
    await world.work(after_s=LEASE_S + 1.0)
    assert world.callback.sent == []


async def test_a_renewal_sends_nothing_twice_and_leaves_nothing_out(world: World) -> None:
    token = await world.token()
    await world.follow(token, secret="old")
    await world.tell(told("a"))
    world.callback.status = 500
    await world.work()
    await world.follow(token, secret="new")
    world.callback.status = 204
    await world.work(after_s=3600.0)
    assert world.callback.titles == [["a"], ["a"]]
    headers, body = world.callback.sent[-1]
    assert headers["X-Hub-Signature"] == "sha256=" + hmac.new(b"new", body, hashlib.sha256).hexdigest()


async def test_following_ends_only_if_the_callback_confirms_it(world: World) -> None:
    token = await world.token()
    await world.follow(token)
    world.callback.echoes = False
    await world.follow(token, mode="unsubscribe")
    assert len(await world.followers()) == 1
    world.callback.echoes = True
    await world.follow(token, mode="unsubscribe")
    assert world.callback.asked[-1]["hub.mode"] == "unsubscribe"
    assert await world.followers() == []


async def test_who_begins_and_ends_to_follow_is_in_the_audit_log(world: World) -> None:
    token = await world.token("phone")
    for form in ({}, {}, {"mode": "unsubscribe"}):
        await world.follow(token, f"{FEED}?rule=r", **form)
    deeds = await world.store.audit.find_deeds(before=None, limit=2)
    assert [(each.who, each.way, each.address, each.did, each.subject) for each in reversed(deeds)] == [
        ("token phone", "hub", "127.0.0.1", "follow", "rule r of profile P"),
        ("token phone", "hub", "127.0.0.1", "unfollow", "rule r of profile P"),
    ]
    assert {each.detail for each in deeds} == {"pushed to 127.0.0.1"}


# -- limits


async def test_a_host_has_a_bounded_number_of_followers(world: World) -> None:
    links = await world.links(await world.token())
    for number in range(MOST_OF_HOST):
        await world.store.followers.keep(follower(str(number), host="127.0.0.1"), 0.0)
    assert await world.ask(links["hub"], links["self"]) == 409
    await world.store.followers.drop(follower("0"), 0.0)
    assert await world.ask(links["hub"], links["self"]) == 202


async def test_a_hub_has_a_bounded_number_of_followers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    links = await world.links(await world.token())
    monkeypatch.setattr(feed_hub, "MOST_FOLLOWERS", 1)
    await world.store.followers.keep(follower("1"), 0.0)
    assert await world.ask(links["hub"], links["self"]) == 409


async def test_a_bounded_number_of_callbacks_of_a_host_is_asked_at_once(world: World) -> None:
    links = await world.links(await world.token())
    asked = [await world.ask(links["hub"], links["self"], callback=f"{world.callback.url}&n={n}") for n in range(51)]
    assert asked == [202] * 50 + [503]
    await world.work()
    assert len(world.callback.asked) == 50
    assert await world.ask(links["hub"], links["self"], callback=f"{world.callback.url}&n=51") == 202


async def test_asking_counts_as_requests_of_the_token(tmp_path: Path) -> None:
    async with open_world(tmp_path, quota=Quota(3, 60.0)) as world:
        links = await world.links(await world.token())
        assert [await world.ask(links["hub"], links["self"]) for _ in range(3)] == [202, 202, 429]


async def test_a_long_form_is_refused(world: World) -> None:
    links = await world.links(await world.token())
    assert await world.ask(links["hub"], links["self"], more="x" * 20_000) == 413


# -- what ends it


@pytest.mark.parametrize("end", ["the token is revoked", "the token expires", "the rule goes"])
async def test_nothing_more_is_pushed_once(world: World, tmp_path: Path, end: str) -> None:
    token = await world.token(expires_in_s=600.0)
    await world.follow(token, f"{FEED}?rule=r")
    if end == "the token is revoked":
        await world.store.access.drop_token("t", T0)
    elif end == "the rule goes":
        write_profile(tmp_path / "profiles", DOMAIN + source("s"))
        assert not await world.built.declarations.reload()
    await world.tell(told("a"))
    await world.work(after_s=601.0 if end == "the token expires" else 0.0)
    assert (world.callback.sent, await world.followers()) == ([], [])
    await world.work()
    _, denied = world.callback.asked
    assert (denied["hub.mode"], denied["hub.topic"]) == ("denied", f"{world.base}{FEED}?rule=r")
    assert denied["hub.reason"] == "its feed has ended, or its token"
    assert "hub.challenge" not in denied
    await world.tell(told("b"))
    await world.work()
    assert len(world.callback.asked) == 2


@pytest.mark.parametrize("status", [500, 404])
async def test_a_callback_that_does_not_hear_that_it_gets_no_more_is_left_alone(world: World, status: int) -> None:
    await world.follow(await world.token())
    world.callback.denied = status
    await world.store.access.drop_token("t", T0)
    for name in "abc":
        await world.tell(told(name))
        await world.work()
    assert (len(world.callback.asked), await world.followers()) == (2, [])


async def test_who_answers_410_gets_no_more(world: World) -> None:
    await world.follow(await world.token())
    world.callback.status = 410
    await world.tell(told("a"))
    await world.work()
    assert (len(world.callback.sent), await world.followers()) == (1, [])


async def test_who_fails_for_days_gets_no_more(world: World) -> None:
    await world.follow(await world.token())
    world.callback.status = 500
    await world.tell(told("a"))
    for _ in range(20):
        await world.work(after_s=86_400.0 / 2)
    assert await world.followers() == []
    assert 5 < len(world.callback.sent) < 20


# -- what is pushed


async def test_what_failed_is_sent_again_also_by_the_next_process_and_with_what_came_meanwhile(tmp_path: Path) -> None:
    async with open_world(tmp_path) as world:
        await world.follow(await world.token())
        world.callback.status = 503
        await world.tell(told("a"))
        await world.work()
        await world.work()
        assert len(world.callback.sent) == 1
        await world.tell(told("b"))
        world.callback.status = 200
        again = another_hub(world)
        world.clock.jump(3600.0)
        async with asyncio.TaskGroup() as tasks:
            await again.start_work(tasks.create_task)
        assert world.callback.titles == [["a"], ["b", "a"]]


async def test_what_was_told_while_no_hub_ran_is_pushed(world: World) -> None:
    await world.follow(await world.token())
    await world.work()
    await world.tell(told("a"))
    again = another_hub(world)
    async with asyncio.TaskGroup() as tasks:
        await again.start_work(tasks.create_task)
    assert world.callback.titles == [["a"]]


async def test_many_notifications_come_in_bounded_documents_oldest_first(world: World) -> None:
    await world.follow(await world.token())
    await world.tell(*(told(f"n{n:02}") for n in range(60)))
    await world.work()
    assert [len(each) for each in world.callback.titles] == [25, 25, 10]
    assert [each[-1] for each in world.callback.titles] == ["n00", "n25", "n50"]


async def test_a_huge_notification_comes_without_its_content(world: World) -> None:
    await world.follow(await world.token())
    await world.tell(told("a", items=[{"channel.item.title": "T", "text": "<" * 1_500_000}]))
    await world.work()
    ((_, body),) = world.callback.sent
    assert (len(body) < 10_000, world.callback.titles) == (True, [["T"]])


class Calls(HubClient):
    """Callbacks by their names: some answer at once, the others only when they are let go."""

    slow: ClassVar[str] = "slow"

    def __init__(self) -> None:
        """Need nothing: no request is sent."""
        self.sent: list[str] = []
        self.hanging = 0
        self.may_end = asyncio.Event()
        self.others_have_it = asyncio.Event()

    async def push_to_follower(self, callback: str, headers: Mapping[str, str], body: bytes) -> FollowerAnswer:
        if self.slow in callback:
            self.hanging += 1
            await self.may_end.wait()
            raise FetchTimeoutError
        self.sent.append(callback)
        if len(self.sent) % 900 == 0:
            self.others_have_it.set()
        return FollowerAnswer(200, b"", None)


async def test_a_hundred_followers_that_hang_delay_none_of_nine_hundred_others(world: World) -> None:
    token = await world.store.access.find_token((await world.token()).split("_")[1])
    assert token is not None
    for n in range(1000):
        kind = "slow" if n % 10 == 0 else "quick"
        kept = follower(f"{n:04}", token_id=token.token_id, callback=f"https://{kind}.example/{n}")
        await world.store.followers.keep(kept, 0.0)
    calls = Calls()
    hub = another_hub(world, calls)
    for turn in (1, 2):  # at the second, those that hang are known
        await world.tell(told(f"n{turn}"))
        async with asyncio.TaskGroup() as tasks:
            started = await hub.start_work(tasks.create_task)
            await calls.others_have_it.wait()  # although no time passes for those that hang
            calls.others_have_it.clear()
            assert calls.hanging == 100
            world.clock.jump(2.0)
            if turn == 1:
                calls.may_end.set()
        assert len(started) == (1000 if turn == 1 else 900)
    assert len({*calls.sent}) == 900


def follower(name: str, **values: Any) -> Follower:
    """Return a follower of the feed of a profile."""
    made = Follower(name, f"https://x.example/{name}", "x.example", "P", "", "atom", "0" * 12, "s", T0 + 9e9, 0, 0)
    return replace(made, **values)


# -- with our own subscriber


async def test_our_own_subscriber_follows_a_profile_of_another_daemon(tmp_path: Path) -> None:
    async with open_world(tmp_path / "a") as first:
        token = await first.token()
        watched = f"{first.base}{FEED}?token={token}"
        text = DOMAIN + f"CREATE SOURCE \"s\" OF RSS AT '{watched}';\n" + rule("r")
        async with open_world(tmp_path / "b", text) as second:
            await first.tell(told("before"))
            observer, pushes = second.built.loops.observer, second.built.loops.pushes
            request = second.built.decider.request("s", T0)
            assert request is not None
            outcome = await second.built.resources.prober.probe(request)
            assert outcome.hub_links is not None
            assert outcome.hub_links.topic == first.base + FEED
            assert await observer.take_in(outcome)
            await pushes.ask_hubs()
            await first.work()
            subscription = second.built.decider.hubs.of("s")
            assert subscription is not None
            assert subscription.status is SubscriptionStatus.ACTIVE
            assert token not in subscription.hub + subscription.topic
            await first.tell(told("news of the day", at_s=T0 + 1.0))
            second.clock.jump(5.0)
            await first.work()
            await settle()
            rows = (await second.store.history.find_notifications(Wanted(frozenset({"r"})), before=None, limit=9)).rows
            assert "news of the day" in rows[0].body.decode()
