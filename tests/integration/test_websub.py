"""WebSub against a hub of our own over real sockets: verification, signed pushes, leases, and hubs that miss items."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import aiohttp
import numpy as np
import pytest
import structlog
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer, unused_port

from proxyd.app.server import PublicFront, make_app
from proxyd.app.wiring import Built, Resources, build
from proxyd.base.clock import SystemClock
from proxyd.config.loading import SecretStore, load
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.item import Item
from proxyd.core.model.outcome import HubLinks
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.rules.known.subscriptions import Subscription, SubscriptionStatus
from proxyd.daemon import PushParts
from proxyd.daemon.pushes import is_signed
from proxyd.net.guard import Guard
from proxyd.net.host_turns import HostTokens
from proxyd.net.session import make_session
from proxyd.probing.document_parser import ParsedDocument
from proxyd.probing.http.hubs import HubClient
from proxyd.probing.prober import LocalTransport
from proxyd.store.backups import open_store
from proxyd.store.listed_rows import Wanted
from proxyd.store.sql_store import SqlStore
from tests.databases import migrated_file
from tests.fakes import FakeClock
from tests.fleets import DOMAIN, PoissonOrigin, changed, item, rule, source
from tests.origin import InlineParser

T0 = 1_000_000_000.0
DAY_S = 86400.0
TOPIC = "https://example.org/feed"
FEED = """<?xml version="1.0"?><rss version="2.0"><channel><title>f</title>
<item><guid>{0}</guid><title>{0}</title><pubDate>{1}</pubDate></item></channel></rss>"""


@dataclass
class FakeHub:
    """A hub: it answers a request as ``status`` says and verifies it at once, unless it is told not to."""

    status: int = 202
    lease_s: int = 864000
    verifies: bool = True
    denies: bool = False
    asked: list[dict[str, str]] = field(default_factory=list)
    challenges: list[tuple[int, str]] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.Response:
        form = {name: values[0] for name, values in parse_qs(await request.text()).items()}
        self.asked.append(form)
        if self.status == 202 and self.verifies:
            await self.verify(form)
        return web.Response(status=self.status)

    async def verify(self, form: dict[str, str], **changes: str) -> tuple[int, str]:
        """Call back; ``changes`` replace parts of the query."""
        query = {
            "hub.mode": "denied" if self.denies else form["hub.mode"],
            "hub.topic": form["hub.topic"],
            "hub.challenge": "c<h>allenge",
            "hub.lease_seconds": str(self.lease_s),
        }
        async with (
            aiohttp.ClientSession() as session,
            session.get(form["hub.callback"], params=query | changes) as answer,
        ):
            assert answer.status == 404 or answer.content_type == "text/plain"
            self.challenges.append((answer.status, await answer.text()))
        return self.challenges[-1]

    async def push(self, name: str, published: str, *, method: str = "sha256", secret: str | None = None) -> int:
        """Push a feed with one item to the callback asked for last."""
        form = self.asked[-1]
        body = FEED.format(name, published).encode()
        digest = hmac.new((form["hub.secret"] if secret is None else secret).encode(), body, method).hexdigest()
        headers = {"Content-Type": "application/rss+xml", "X-Hub-Signature": f"{method}={digest}"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(form["hub.callback"], data=body, headers=headers) as answer,
        ):
            return answer.status


@dataclass
class World:
    """A daemon without its loops: a source that names the hub, and steps that tests take by hand."""

    control: Built
    clock: FakeClock
    hub: FakeHub
    store: SqlStore
    seen: list[Item] = field(default_factory=list)

    @property
    def subscription(self) -> Subscription:
        known = self.control.decider.hubs.of("s")
        assert known is not None
        return known

    async def probe(self, *items: Item) -> None:
        """Probe the source: it shows ``items`` on top of what it showed before."""
        self.seen[:0] = items
        outcome = replace(changed("s", self.seen, self.clock.time_s()), hub_links=HubLinks((self.hub.url,), TOPIC))
        assert await self.control.loops.observer.take_in(outcome)

    async def look(self, *, after_s: float = 0.0) -> None:
        self.clock.jump(after_s)
        await self.control.loops.pushes.ask_hubs()

    async def notified(self) -> list[str]:
        rows = (await self.store.history.find_notifications(Wanted(rules=frozenset({"r"})), before=None, limit=99)).rows
        return [row.body.decode() for row in reversed(rows)]

    def next_probe(self) -> PlannedProbe:
        """Return why and when the source is probed next."""
        explained = self.control.queries.plans.explain("s")
        assert explained is not None
        assert explained.next_probe is not None
        return explained.next_probe

    def status(self) -> SubscriptionStatus:
        return self.subscription.status


async def open_world(tmp_path: Path, hub: FakeHub, options: str = "", rules: str = "") -> AsyncIterator[World]:
    server = TestServer(_app(hub))
    await server.start_server()
    hub.url = str(server.make_url("/hub"))
    folder, port = tmp_path / "profiles", unused_port()
    folder.mkdir(exist_ok=True)
    (folder / "a.profile").write_text(DOMAIN + source("s", options=options) + (rules or rule("r")))
    settings = load(environ={}, profiles=folder, public_url=f"http://127.0.0.1:{port}", allow_networks=["127.0.0.0/8"],
                    first_day=0.0)  # fmt: skip
    clock, guard = FakeClock(T0), Guard(settings.networks)
    tokens = HostTokens(SystemClock(), 0.0)
    async with (
        open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(10.0)) as store,
        store.writer.running(),
        make_session(guard, contact="") as session,
    ):
        parts = Resources(
            clock=clock,
            store=store,
            transport=LocalTransport(PoissonOrigin({}, clock.time_s)),
            prober=PoissonOrigin({}, clock.time_s),
            pushes=PushParts(HubClient(session, guard, tokens, tokens), InlineParser(), settings.public_url),
            channel=None,  # type: ignore[arg-type]
            secrets=SecretStore(settings, {}),
            rng=np.random.default_rng(1),
        )
        control = build(settings, parts)
        await control.declarations.start()
        async with TestClient(TestServer(make_app(control.queries, PublicFront()), port=port)):
            yield World(control, clock, hub, store)
    await server.close()


def _app(hub: FakeHub) -> web.Application:
    app = web.Application()
    app.router.add_post("/hub", hub.handle)
    return app


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async for opened in open_world(tmp_path, FakeHub()):
        yield opened


@pytest.fixture
async def subscribed(world: World) -> World:
    await world.probe(item("old", T0 - 3600))
    await world.look()
    assert world.status() is SubscriptionStatus.ACTIVE
    return world


def _gmt(time_s: float) -> str:
    return formatdate(time_s, usegmt=True)


async def test_a_hub_that_a_source_names_is_asked_and_verifies_before_it_answers(subscribed: World) -> None:
    (form,) = subscribed.hub.asked
    assert (form["hub.mode"], form["hub.topic"], form["hub.lease_seconds"]) == ("subscribe", TOPIC, "864000")
    assert len(form["hub.secret"]) >= 32
    assert subscribed.hub.challenges == [(200, "c<h>allenge")]
    assert subscribed.subscription.lease_until_s == T0 + 10 * DAY_S
    assert (await subscribed.store.subscriptions.load())["s"] == subscribed.subscription


async def test_while_a_hub_pushes_only_safety_probes_are_planned(subscribed: World) -> None:
    await subscribed.probe(*[item(f"n{n}", T0 - 60 * n) for n in range(30)])  # before the hub promised anything
    planned = subscribed.next_probe()
    assert planned.probe.reason is Reason.SAFETY
    assert planned.start_s == pytest.approx(T0 + 6 * 3600.0, abs=10.0)


@pytest.mark.parametrize("method", ["sha1", "sha256", "sha384", "sha512"])
async def test_a_signed_push_is_notified_at_once(subscribed: World, method: str) -> None:
    subscribed.clock.jump(100.0)
    assert await subscribed.hub.push("new", _gmt(T0 + 95), method=method) == 202
    (body,) = await subscribed.notified()
    assert '"channel.item.title":"new"' in body
    assert subscribed.control.decider.known.states["s"].last_push_s == T0 + 100
    assert subscribed.control.metrics.registry.get_sample_value("proxyd_pushes_total", {"result": "accepted"}) == 1


async def test_a_pushed_item_is_not_new_again_to_the_next_probe(subscribed: World) -> None:
    subscribed.clock.jump(100.0)
    await subscribed.hub.push("new", _gmt(T0 + 95))
    subscribed.clock.jump(6 * 3600.0)
    await subscribed.probe(replace(item("new", T0 + 95)))
    assert len(await subscribed.notified()) == 1
    assert subscribed.subscription.misses == 0


async def test_a_genuine_push_that_comes_again_is_not_notified_again(subscribed: World) -> None:
    subscribed.clock.jump(100.0)
    for name in ("new", "newer", "new", "newer"):
        assert await subscribed.hub.push(name, _gmt(T0 + 95)) == 202
    assert len(await subscribed.notified()) == 2
    await subscribed.probe(item("newer", T0 + 95), item("new", T0 + 95))
    assert len(await subscribed.notified()) == 2


@pytest.mark.parametrize("secret", ["", "guessed"])
async def test_a_push_that_is_not_signed_rightly_is_ignored(subscribed: World, secret: str) -> None:
    assert await subscribed.hub.push("forged", _gmt(T0), secret=secret) == 202
    assert await subscribed.notified() == []
    assert subscribed.control.metrics.registry.get_sample_value("proxyd_pushes_total", {"result": "unsigned"}) == 1


async def test_a_hub_cannot_verify_what_was_not_asked_for(subscribed: World) -> None:
    form = subscribed.hub.asked[-1]
    assert (await subscribed.hub.verify(form, **{"hub.topic": "https://example.org/other"}))[0] == 404
    assert (await subscribed.hub.verify(form, **{"hub.mode": "unsubscribe"}))[0] == 404
    unknown = form | {"hub.callback": form["hub.callback"][:-4] + "AAAA"}
    assert (await subscribed.hub.verify(unknown))[0] == 404
    subscribed.hub.asked.append(unknown)
    assert await subscribed.hub.push("x", _gmt(T0)) == 410


async def test_a_lease_is_renewed_at_two_thirds_with_the_same_callback(subscribed: World) -> None:
    await subscribed.look(after_s=6.6 * DAY_S)
    assert len(subscribed.hub.asked) == 1
    await subscribed.look(after_s=0.1 * DAY_S)
    assert len(subscribed.hub.asked) == 2
    assert subscribed.hub.asked[0]["hub.callback"] == subscribed.hub.asked[1]["hub.callback"]
    assert subscribed.subscription.lease_until_s == pytest.approx(T0 + 16.7 * DAY_S, abs=60.0)


async def test_probes_come_back_when_a_lease_ends_that_the_hub_does_not_renew(subscribed: World) -> None:
    subscribed.hub.status = 500
    await subscribed.look(after_s=7 * DAY_S)
    assert subscribed.subscription.failures == 1
    subscribed.clock.jump(3.5 * DAY_S)
    await subscribed.probe()
    assert subscribed.next_probe().probe.reason is Reason.DETECTION


async def test_a_hub_that_leaves_items_out_is_not_relied_on_until_it_pushes_more(subscribed: World) -> None:
    subscribed.clock.jump(6 * 3600.0)
    await subscribed.probe(item("left out", subscribed.clock.time_s() - 3600))
    assert subscribed.next_probe().probe.reason is Reason.DETECTION
    due_s = subscribed.next_probe().start_s
    subscribed.clock.jump(600.0)
    await subscribed.hub.push("pushed", _gmt(subscribed.clock.time_s() - 5))
    assert len(await subscribed.notified()) == 2
    assert subscribed.subscription.left_out == 0.5
    assert subscribed.next_probe().start_s == pytest.approx(due_s, abs=60.0)  # what it leaves out does not wait longer
    subscribed.control.decider.placement.place("s", subscribed.clock.time_s())
    assert subscribed.next_probe().start_s == pytest.approx(due_s, abs=60.0)  # nor after it was placed again
    subscribed.clock.jump(600.0)
    await subscribed.hub.push("another", _gmt(subscribed.clock.time_s() - 5))
    assert subscribed.next_probe().probe.reason is Reason.SAFETY


async def test_a_hub_may_deny_and_is_asked_again_after_a_day(world: World) -> None:
    world.hub.denies = True
    await world.probe(item("old", T0 - 60))
    await world.look()
    assert world.status() is SubscriptionStatus.DENIED
    await world.look(after_s=0.9 * DAY_S)
    assert len(world.hub.asked) == 1
    await world.look(after_s=0.2 * DAY_S)
    assert len(world.hub.asked) == 2


async def test_a_hub_that_fails_is_asked_again_with_growing_waits(world: World) -> None:
    world.hub.status = 503
    await world.probe(item("old", T0 - 60))
    waits = []
    for _ in range(4):
        await world.look(after_s=max(0.0, world.subscription.due_s - world.clock.time_s()))
        waits.append(world.subscription.due_s - world.clock.time_s())
    assert [300 <= waits[0] <= 330, 600 <= waits[1] <= 660, 1200 <= waits[2] <= 1320] == [True] * 3
    assert world.subscription.failures == len(world.hub.asked) == 4


async def test_a_request_that_is_never_verified_is_repeated_and_probes_go_on(world: World) -> None:
    world.hub.verifies = False
    await world.probe(item("old", T0 - 60), item("older", T0 - 600))
    await world.look()
    assert world.status() is SubscriptionStatus.REQUESTED
    assert world.next_probe().probe.reason is Reason.DETECTION
    await world.look(after_s=3601.0)
    assert len(world.hub.asked) == 2


async def test_a_source_with_websub_off_is_never_subscribed_to(tmp_path: Path) -> None:
    async for world in open_world(tmp_path, FakeHub(), options="WEBSUB OFF"):
        await world.probe(item("old", T0 - 60))
        await world.look()
        assert world.hub.asked == []
        assert world.control.decider.hubs.of("s") is None


async def test_a_source_that_is_taken_out_is_unsubscribed_from(subscribed: World, tmp_path: Path) -> None:
    (tmp_path / "profiles" / "a.profile").write_text(DOMAIN + source("other") + rule("r"))
    assert await subscribed.control.declarations.reload() == ()
    await subscribed.look()
    assert [form["hub.mode"] for form in subscribed.hub.asked] == ["subscribe", "unsubscribe"]
    assert subscribed.hub.challenges[-1] == (200, "c<h>allenge")
    assert await subscribed.store.subscriptions.load() == {}


async def test_a_subscription_outlives_a_restart(subscribed: World, tmp_path: Path) -> None:
    known = subscribed.subscription
    async with open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(10.0)) as again:
        assert (await again.subscriptions.load())["s"] == known


async def test_a_push_during_a_probe_stores_its_item_once(subscribed: World) -> None:
    """Both see the new item while neither is recorded: one after the other they agree on whose it is."""
    subscribed.clock.jump(100.0)
    new = item("new", T0 + 95)
    answers = await asyncio.gather(subscribed.hub.push("new", _gmt(T0 + 95)), subscribed.probe(new))
    assert answers[0] == 202
    assert len(await subscribed.notified()) == 1


async def test_a_push_that_is_no_feed_is_counted_and_ignored(subscribed: World) -> None:
    form = subscribed.hub.asked[-1]
    body = b"<html><body>sorry</body></html>"
    signature = "sha256=" + hmac.new(form["hub.secret"].encode(), body, hashlib.sha256).hexdigest()
    async with (
        aiohttp.ClientSession() as session,
        session.post(form["hub.callback"], data=body, headers={"X-Hub-Signature": signature}) as answer,
    ):
        assert answer.status == 202
    assert subscribed.control.metrics.registry.get_sample_value("proxyd_pushes_total", {"result": "unreadable"}) == 1


async def test_a_push_that_is_too_long_is_refused(subscribed: World) -> None:
    form, body = subscribed.hub.asked[-1], io.BytesIO(b"x" * (5 << 20))
    async with aiohttp.ClientSession() as session, session.post(form["hub.callback"], data=body) as answer:
        assert answer.status == 413


async def test_a_hub_that_does_not_let_go_is_named_and_the_source_is_forgotten(
    subscribed: World, tmp_path: Path
) -> None:
    subscribed.hub.status = 500
    (tmp_path / "profiles" / "a.profile").write_text(DOMAIN + source("other") + rule("r"))
    assert await subscribed.control.declarations.reload() == ()
    with structlog.testing.capture_logs() as logged:
        await subscribed.look()
        await subscribed.look()
    (warning,) = [each for each in logged if each["event"] == "a hub does not let go"]
    assert (warning["source"], warning["detail"]) == ("s", "the hub answers 500")
    assert await subscribed.store.subscriptions.load() == {}


async def test_a_second_push_of_a_source_is_sent_away_while_the_first_is_read(
    subscribed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go = asyncio.Event(), asyncio.Event()
    parse = InlineParser.parse

    async def waiting(*given: Any) -> ParsedDocument:
        reading.set()
        await go.wait()
        return await parse(*given)

    monkeypatch.setattr(InlineParser, "parse", waiting)
    subscribed.clock.jump(100.0)
    first = asyncio.create_task(subscribed.hub.push("first", _gmt(T0 + 95)))
    await reading.wait()
    assert await subscribed.hub.push("second", _gmt(T0 + 96)) == 503
    go.set()
    assert await first == 202
    assert len(await subscribed.notified()) == 1


async def test_a_push_to_a_source_that_was_never_probed_is_ignored(subscribed: World) -> None:
    states = subscribed.control.decider.known.states
    states["s"] = replace(states["s"], first_contact_s=None)  # type: ignore[index]
    assert await subscribed.hub.push("new", _gmt(T0)) == 202
    assert await subscribed.notified() == []
    assert subscribed.control.metrics.registry.get_sample_value("proxyd_pushes_total", {"result": "ignored"}) == 1


@pytest.mark.parametrize("signature", [None, "", "md5=00", "sha256", "sha256=\u00e9"])
def test_a_signature_of_another_kind_is_none(signature: str | None) -> None:
    assert not is_signed(b"x", signature, "secret")
    right = hmac.new(b"secret", b"x", "sha256").hexdigest()
    assert is_signed(b"x", f"SHA256={right.upper()} ", "secret")
    assert not is_signed(b"x", f"sha256={right}", "")
