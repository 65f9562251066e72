"""A daemon whose clock stands still, between real sockets: origins that answer as a case says, and receivers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Set
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from pathlib import Path
from socket import AF_INET
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from multidict import CIMultiDict

from proxyd.app.wiring import Built, Resources, build
from proxyd.config.loading import SecretStore, load
from proxyd.config.settings import Settings
from proxyd.core.model.chronon import ChrononGrid
from proxyd.daemon import PushParts
from proxyd.net.guard import Guard
from proxyd.net.host_turns import HostTokens
from proxyd.net.session import make_session
from proxyd.notify.channels import ChannelResources
from proxyd.notify.channels.channel_routing import make_channels
from proxyd.notify.channels.chat_services import SERVICES
from proxyd.notify.channels.message_forms import chat_text
from proxyd.probing.http.fetcher import Fetcher
from proxyd.probing.prober import HttpProber, LocalTransport
from proxyd.store.backups import open_store
from proxyd.store.listed_rows import Wanted
from tests.databases import migrated_file
from tests.fakes import FakeClock, settle
from tests.golden.reports.case import T0, Answer, Case
from tests.integration.api_world import NoHub
from tests.origin import InlineParser, head, raw

_LOOPBACK = Guard([ip_network("127.0.0.0/8")])


@dataclass(frozen=True, slots=True)
class Receipt:
    """A request that a receiver got."""

    host: str
    text: str
    at_s: float
    body: Any


@dataclass
class World:
    """The daemon, what its origins answer, and what receivers got."""

    clock: FakeClock
    answers: dict[str, Answer] = field(default_factory=dict)
    receipts: list[Receipt] = field(default_factory=list)
    runs: bool = False
    delivers: bool = False
    chats: Set[str] = frozenset()
    last_position: int = 0
    built: Built | None = None

    @property
    def daemon(self) -> Built:
        assert self.built is not None
        return self.built

    def sources(self) -> Mapping[str, str]:
        """Return the names of the sources by their addresses."""
        declared = self.daemon.declarations.declaration.sources.values()
        return {source.url: source.source_id for source in declared}

    async def probe(self, source_id: str) -> None:
        """Probe a source now, as the daemon does when a probe is due."""
        request = self.daemon.decider.request(source_id, self.clock.time_s())
        assert request is not None
        outcome = await self.daemon.resources.prober.probe(request)
        await self.daemon.loops.observer.take_in(outcome, reading=request.reading)

    async def go_to(self, at_s: float) -> None:
        """Let time pass until then, no faster than the loops come along."""
        while (left_s := T0 + at_s - self.clock.time_s()) > 0.0:
            await self._rest()
            wakes_s = [wake_s - self.clock.monotonic_s() for wake_s, _ in self.clock._sleepers]
            await self.clock.advance(min([left_s, *(each for each in wakes_s if each > 0.0)]))
        await self._rest()

    async def _rest(self) -> None:
        """Wait until each loop that runs sleeps, also after what had just ended could wake it."""
        rounds = 0
        while rounds < 2:
            await settle()
            rounds = 0 if await self._wait_for_work() else rounds + 1

    async def _wait_for_work(self) -> bool:
        """Wait for what is under way, without taking the interpreter from its threads; return whether there was any."""
        notifier: Any = self.daemon.loops.notifier
        if under_way := [*self.daemon.loops.probes._tasks, *notifier._dispatcher._running]:
            await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            return True
        if is_busy := self.clock.sleepers < self.delivers + self.runs:
            await self.clock.another_sleeps()
        return is_busy

    async def find_messages(self) -> list[str]:
        """Return what was told since the last time, as a chat shows it."""
        history = self.daemon.resources.store.history
        newest = await history.newest_position()
        found = await history.find_between(Wanted(), self.last_position, newest, limit=10_000)
        self.last_position = newest
        return [chat_text(row.body)[1] for row in found.rows]

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request as its address is said to."""
        address = f"http://{request.host}{request.raw_path}"
        if request.method == "POST":
            self.receive(address, await request.read())
        given = self.answers.get(f"{address} cookie") if "Cookie" in request.headers else None
        if request.host in self.chats:
            given = self.answers.get(f"http://{request.host}/", Answer(200, body=b'{"ok": true}'))
        given = given or self.answers.get(address, Answer(404))
        match given.fault:
            case "closed":
                return raw(request, b"")
            case "cut":
                return raw(request, head(f"Content-Length: {len(given.body) + 100}") + given.body)
            case "bad-coding":
                return web.Response(body=b"\x1f\x8b\x08\x00broken", headers={"Content-Encoding": "gzip"})
        headers = CIMultiDict(given.headers)
        headers.setdefault("Content-Type", "text/html" if "<html" in given.text else "application/xml")
        return web.Response(status=given.status, body=given.body, headers=headers)

    def receive(self, address: str, body: bytes) -> None:
        """Note what a receiver was sent."""
        read = json.loads(body)
        self.receipts.append(
            Receipt(urlsplit(address).hostname or "", message_text(read), self.clock.time_s() - T0, read)
        )


def message_text(body: Mapping[str, Any]) -> str:
    """Return the text of what a chat service or a webhook is sent."""
    if "data" in body:
        return str(body["data"].get("title", ""))
    blocks = [*body.get("embeds", ()), *body.get("attachments", ())]
    texts = [block.get(name, "") for block in blocks for name in ("title", "description", "text")]
    return "\n".join([str(body.get("content") or body.get("text") or ""), *texts])


@dataclass(frozen=True, slots=True)
class OriginResolver(AbstractResolver):
    """Resolves every name to the port at which the origins are."""

    port: int

    async def resolve(self, host: str, port: int = 0, family: Any = AF_INET) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host="127.0.0.1", port=self.port, family=AF_INET, proto=0, flags=0)]

    async def close(self) -> None:
        pass


@asynccontextmanager
async def _origins(world: World) -> AsyncIterator[int]:
    runner = web.ServerRunner(web.Server(world.answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _catch_chats(world: World, patch: pytest.MonkeyPatch) -> None:
    """Let services of chats, which are asked by https elsewhere, answer as a case says."""
    plain = {scheme: replace(each, home=each.home.replace("https://", "http://")) for scheme, each in SERVICES.items()}
    world.chats = frozenset(urlsplit(each.home).hostname or "" for each in plain.values())
    patch.setattr("proxyd.notify.channels.chats.SERVICES", plain)


@asynccontextmanager
async def running(case: Case, folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """Run the daemon of a case; its loops run if the case lets it plan, or if it looks at what receivers get."""
    profiles = folder / "profiles"
    profiles.mkdir()
    (profiles / "a.profile").write_text(case.rule, encoding="utf-8")
    environment = {f"PROXYD_{name.upper()}": value for name, value in case.settings.items()}
    settings = load(environ=environment | {"PROXYD_PING_WEBHOOKS": "no"}, profiles=profiles)
    world = World(FakeClock(T0), runs=case.runs, delivers=any(step.verb == "sent" for step in case.steps))
    world.answers |= {step.address: step.answer for step in reversed(case.steps) if step.answer is not None}
    _catch_chats(world, patch)
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(_origins(world))
        world.built = build(settings, await _resources(world, settings, folder, port, stack))
        await world.daemon.declarations.start()
        await stack.enter_async_context(world.daemon.daemon._loops.evaluation)
        loops = [world.daemon.loops.notifier] * world.delivers + [world.daemon.loops.probes] * world.runs
        tasks = [asyncio.create_task(loop.run()) for loop in loops]
        try:
            yield world
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _resources(world: World, settings: Settings, folder: Path, port: int, stack: AsyncExitStack) -> Resources:
    """Return the daemon's connections to the outside: the real ones, but for names and time."""
    session = await stack.enter_async_context(make_session(_LOOPBACK, contact="", resolver=OriginResolver(port)))
    store = await stack.enter_async_context(open_store(migrated_file(folder / "p.db"), ChrononGrid(settings.chronon)))
    await stack.enter_async_context(store.writer.running())
    clock, secrets = world.clock, SecretStore(settings, {"SECRET_A": "secret"})
    fetcher = Fetcher(session, _LOOPBACK, HostTokens(clock, 0.0, concurrency=8), clock)
    prober = HttpProber(fetcher, InlineParser(), clock, resolve_secret=secrets.resolve)
    return Resources(
        clock=clock,
        store=store,
        transport=LocalTransport(prober),
        prober=prober,
        pushes=PushParts(NoHub(), InlineParser(), ""),
        channel=make_channels(ChannelResources(settings, session, Guard([]), clock, stack.callback)),
        secrets=secrets,
        rng=np.random.default_rng(1),
    )
