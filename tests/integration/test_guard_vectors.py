"""Every way of writing the local machine or a private network is refused, and a listener there sees nobody arrive.

It holds for probes, for robots.txt, for webhooks and for hubs: asked directly, by a redirect, by a name, and by a name
that changes its address in between.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network

import pytest
import pytest_asyncio
from aiohttp.abc import AbstractResolver

from proxyd.base.ports import Message
from proxyd.core.errors import BlockedAddressError, DeliveryError, FetchError
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.net.guard import Guard
from proxyd.net.host_turns import HostTokens
from proxyd.net.session import SessionLimits, make_session
from proxyd.notify.channels.webhook import WebhookChannel
from proxyd.probing.http.fetcher import Fetcher, FetchLimits
from proxyd.probing.http.hubs import HubClient
from proxyd.probing.http.robots import Robots, robots_limits
from proxyd.probing.prober import HttpProber
from tests.addresses import NAMES, REFUSED, NamesResolver, RebindingResolver
from tests.fakes import FakeClock
from tests.origin import InlineParser

FEED = b"<rss version='2.0'><channel></channel></rss>"
LIMITS = FetchLimits(total_s=5.0)
DOOR = Guard([ip_network("127.0.0.2/32")])  # the one address that may be asked: what answers there leads inside
ONCE = SessionLimits(dns_ttl_s=0)


@dataclass
class Listener:
    """A server of one answer that notes what it is asked for."""

    port: int
    answers: dict[str, bytes] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)

    def redirects(self, path: str, location: str) -> None:
        head = f"HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nLocation: {location}\r\n\r\n"
        self.answers[path] = head.encode()

    def answer(self, path: str) -> bytes:
        found = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(FEED), FEED)
        missing = b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        return self.answers.get(path, missing if path == "/robots.txt" else found)


@asynccontextmanager
async def listening(*hosts: str, port: int = 0) -> AsyncIterator[Listener]:
    """Listen on one port, a free one by default, of every host that this machine has."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        here.paths.append(head.split()[1].decode())
        writer.write(here.answer(here.paths[-1]))
        await writer.drain()
        writer.close()

    here = Listener(port)
    servers: list[asyncio.Server] = []
    for host in hosts:
        if ":" in host and not _has_ipv6():
            continue
        servers.append(await asyncio.start_server(serve, host, here.port))
        here.port = servers[0].sockets[0].getsockname()[1]
    try:
        yield here
    finally:
        for server in servers:
            server.close()
            await server.wait_closed()


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest_asyncio.fixture
async def inside() -> AsyncIterator[Listener]:
    """Listen on every address of this machine."""
    async with listening("0.0.0.0", "::") as here:
        yield here


@pytest_asyncio.fixture
async def door() -> AsyncIterator[Listener]:
    async with listening("127.0.0.2") as here:
        yield here


async def probe(
    url: str, guard: Guard, *, obeys_robots: bool = False, resolver: AbstractResolver | None = None
) -> ProbeOutcome:
    clock = FakeClock()
    tokens = HostTokens(clock, 0)
    async with make_session(guard, contact="x", resolver=resolver or NamesResolver(), limits=ONCE) as session:
        robots = Robots(Fetcher(session, guard, tokens, clock, robots_limits(LIMITS)), clock)
        prober = HttpProber(Fetcher(session, guard, tokens, clock, LIMITS), InlineParser(), clock, robots=robots)
        return await prober.probe(ProbeRequest("s", url, obeys_robots=obeys_robots))


async def deliver(url: str, guard: Guard, *, times: int = 1, resolver: AbstractResolver | None = None) -> None:
    async with make_session(guard, contact="x", resolver=resolver or NamesResolver(), limits=ONCE) as session:
        channel = WebhookChannel(session, guard, FakeClock(), timeout_s=5.0)
        for _ in range(times):
            await channel.deliver(Message("m", "r", url, b"{}", 1e9, secret="secret"))


@pytest.mark.parametrize("obeys_robots", [False, True], ids=["page", "robots"])
@pytest.mark.parametrize("host", REFUSED)
async def test_a_probe_of_it_is_blocked(host: str, obeys_robots: bool, inside: Listener) -> None:
    outcome = await probe(f"http://{host}:{inside.port}/", Guard(), obeys_robots=obeys_robots)
    assert (outcome.kind, inside.paths) == (OutcomeKind.BLOCKED, [])


@pytest.mark.parametrize("host", REFUSED)
async def test_a_redirect_to_it_is_blocked(host: str, inside: Listener, door: Listener) -> None:
    door.redirects("/feed", f"http://{host}:{inside.port}/")
    outcome = await probe(f"http://127.0.0.2:{door.port}/feed", DOOR)
    assert (outcome.kind, inside.paths, door.paths) == (OutcomeKind.BLOCKED, [], ["/feed"])


@pytest.mark.parametrize("host", REFUSED)
async def test_a_robots_file_that_redirects_to_it_is_blocked(host: str, inside: Listener, door: Listener) -> None:
    door.redirects("/robots.txt", f"http://{host}:{inside.port}/robots.txt")
    outcome = await probe(f"http://127.0.0.2:{door.port}/feed", DOOR, obeys_robots=True)
    assert (outcome.kind, inside.paths, door.paths) == (OutcomeKind.BLOCKED, [], ["/robots.txt"])


@pytest.mark.parametrize("host", REFUSED)
async def test_a_webhook_to_it_is_given_up_at_once(host: str, inside: Listener) -> None:
    with pytest.raises(DeliveryError) as caught:
        await deliver(f"http://{host}:{inside.port}/", Guard())
    assert not caught.value.retryable
    assert inside.paths == []


@pytest.mark.parametrize("host", REFUSED)
async def test_a_hub_at_it_is_not_asked(host: str, inside: Listener) -> None:
    async with make_session(Guard(), contact="x", resolver=NamesResolver(), limits=ONCE) as session:
        hub = HubClient(session, Guard(), tokens := HostTokens(FakeClock(), 0), tokens)
        with pytest.raises((BlockedAddressError, FetchError)):
            await hub.request(f"http://{host}:{inside.port}/", {"hub.mode": "subscribe"})
    assert inside.paths == []


async def test_a_webhook_does_not_follow_a_redirect(inside: Listener, door: Listener) -> None:
    door.redirects("/hook", f"http://127.0.0.1:{inside.port}/")
    with pytest.raises(DeliveryError, match="302"):
        await deliver(f"http://127.0.0.2:{door.port}/hook", DOOR)
    assert inside.paths == []


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "10.0.0.1"])
async def test_a_name_that_changes_its_address_reaches_nothing_inside(address: str, door: Listener) -> None:
    async with listening("127.0.0.1", "::1", port=door.port) as elsewhere:
        url = f"http://rebinding.example:{door.port}"
        door.redirects("/feed", "/again")
        hop = await probe(f"{url}/feed", DOOR, resolver=RebindingResolver("127.0.0.2", address))
        page = await probe(f"{url}/feed", DOOR, obeys_robots=True, resolver=RebindingResolver("127.0.0.2", address))
        with pytest.raises(DeliveryError) as caught:
            await deliver(f"{url}/hook", DOOR, times=2, resolver=RebindingResolver("127.0.0.2", address))
        assert elsewhere.paths == []
    assert (hop.kind, page.kind, caught.value.retryable) == (OutcomeKind.BLOCKED, OutcomeKind.BLOCKED, False)
    assert door.paths == ["/feed", "/robots.txt", "/hook"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f.1", "loopback.of.example", "mixed.example"])
async def test_the_allow_list_lets_loopback_through(host: str, inside: Listener) -> None:
    guard = Guard([ip_network("127.0.0.0/8")])
    resolver = NamesResolver(mixed_example=("10.0.0.1", "127.0.0.1"))
    outcome = await probe(f"http://{host}:{inside.port}/", guard, resolver=resolver)
    assert (outcome.kind, len(inside.paths)) == (OutcomeKind.CHANGED, 1)


async def test_a_name_with_only_refused_addresses_is_blocked_and_says_why() -> None:
    outcome = await probe("http://inside.of.example/", Guard())
    assert outcome.kind is OutcomeKind.BLOCKED
    assert (
        outcome.detail
        == "inside.of.example has no allowed address, 10.0.0.1 is refused: private (allow_networks can allow it)"
    )


def test_the_list_is_long_enough_to_mean_something() -> None:
    assert len(set(REFUSED)) == len(REFUSED) > 100
    assert len(NAMES) > 10
