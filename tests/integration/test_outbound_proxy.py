"""Behind a proxy: every request goes through it, and nothing that the guard refuses is asked of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from proxyd.base.ports import Message
from proxyd.core.errors import DeliveryError
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.net.guard import Guard
from proxyd.net.host_turns import HostTokens
from proxyd.net.session import make_session
from proxyd.notify.channels.webhook import WebhookChannel
from proxyd.probing.http.fetcher import Fetcher, FetchLimits, ProbeTrace
from proxyd.probing.http.robots import Robots
from proxyd.probing.prober import HttpProber
from tests.addresses import REFUSED, NamesResolver
from tests.fakes import FakeClock
from tests.origin import FEED, InlineParser

PUBLIC = {"feed_example": ("192.0.9.1", "192.0.9.2"), "mixed_example": ("192.0.9.1", "10.0.0.1")}


@dataclass
class Proxy:
    """A proxy that answers by itself, and what it was asked for."""

    port: int = 0
    asked: list[str] = field(default_factory=list)
    credentials: list[str] = field(default_factory=list)

    def url(self, userinfo: str = "") -> str:
        return f"http://{userinfo}127.0.0.1:{self.port}"

    def answer(self, head: str) -> bytes:
        line, *headers = head.split("\r\n")
        self.asked.append(" ".join(line.split()[:2]))
        self.credentials += [each for each in headers if each.lower().startswith("proxy-authorization:")]
        if line.startswith("CONNECT"):
            return b"HTTP/1.1 407 Say who you are\r\nContent-Length: 0\r\n\r\n"
        status = b"404 Not Found" if "robots.txt" in line else b"200 OK"
        return b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (status, len(FEED), FEED)


@asynccontextmanager
async def running() -> AsyncIterator[Proxy]:
    proxy = Proxy()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(proxy.answer(head.decode()))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await server.wait_closed()


async def probe(
    proxy: Proxy, url: str, *, userinfo: str = "", robots: bool = False, trip: ProbeTrace | None = None
) -> ProbeOutcome:
    guard, clock = Guard(), FakeClock()
    tokens = HostTokens(clock, 0)
    async with make_session(guard, contact="x", resolver=NamesResolver(**PUBLIC), proxy=proxy.url(userinfo)) as session:
        fetcher = Fetcher(session, guard, tokens, clock, FetchLimits(total_s=10.0))
        prober = HttpProber(fetcher, InlineParser(), clock, robots=Robots(fetcher, clock))
        return await prober.probe(ProbeRequest("s", url, obeys_robots=robots), trace=trip)


async def test_every_request_goes_through_the_proxy_whose_own_address_is_allowed() -> None:
    async with running() as proxy:
        outcome = await probe(proxy, "http://feed.example/x", robots=True)
    assert (outcome.kind, outcome.requests) == (OutcomeKind.CHANGED, 2)
    assert proxy.asked == ["GET http://feed.example/robots.txt", "GET http://feed.example/x"]
    assert proxy.credentials == []


@pytest.mark.parametrize("host", [*REFUSED, "mixed.example"])
async def test_what_is_refused_is_not_asked_of_the_proxy(host: str) -> None:
    async with running() as proxy:
        outcome = await probe(proxy, f"http://{host}/")
        with pytest.raises(DeliveryError) as caught:
            await deliver(proxy, f"http://{host}/")
    assert (outcome.kind, caught.value.retryable, proxy.asked) == (OutcomeKind.BLOCKED, False, [])


async def test_a_name_that_nobody_knows_is_not_asked_of_the_proxy() -> None:
    async with running() as proxy:
        outcome = await probe(proxy, "http://nobody.invalid/")
    assert (outcome.kind, proxy.asked) == (OutcomeKind.UNREACHABLE, [])


async def test_the_credentials_of_the_proxy_are_sent_to_it_and_shown_nowhere() -> None:
    trip = ProbeTrace()
    async with running() as proxy:
        plain = await probe(proxy, "http://feed.example/", userinfo="me:hunter2@", trip=trip)
        secure = await probe(proxy, "https://feed.example/", userinfo="me:hunter2@", trip=trip)
        with pytest.raises(DeliveryError) as caught:
            await deliver(proxy, "https://feed.example/", userinfo="me:hunter2@")
    refused = await probe(Proxy(1), "https://feed.example/", userinfo="me:hunter2@", trip=trip)
    assert proxy.credentials == ["Proxy-Authorization: Basic bWU6aHVudGVyMg=="] * 3
    assert plain.kind is OutcomeKind.CHANGED
    assert (secure.kind, secure.detail) == (OutcomeKind.UNREACHABLE, "the proxy answered 407 Say who you are")
    assert refused.kind is OutcomeKind.UNREACHABLE
    shown = f"{trip!r} {plain!r} {secure!r} {refused!r} {caught.value}"
    assert "hunter2" not in shown
    assert "bWU6aHVudGVyMg" not in shown


async def test_webhooks_go_through_the_proxy_as_well() -> None:
    async with running() as proxy:
        await deliver(proxy, "http://feed.example/hook")
    assert proxy.asked == ["POST http://feed.example/hook"]


async def deliver(proxy: Proxy, url: str, *, userinfo: str = "") -> None:
    guard = Guard()
    async with make_session(guard, contact="x", resolver=NamesResolver(**PUBLIC), proxy=proxy.url(userinfo)) as session:
        channel = WebhookChannel(session, guard, FakeClock(), timeout_s=10.0)
        await channel.deliver(Message("m", "r", url, b"{}", 1e9, secret="secret"))
