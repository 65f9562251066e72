"""Every way of writing the local machine is refused, and a listener on it sees nobody arrive."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from ipaddress import ip_network
from typing import ClassVar

import pytest
import pytest_asyncio
from aiohttp import ThreadedResolver
from aiohttp.abc import AbstractResolver, ResolveResult

from proxyd.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.model.profile import PageClass
from proxyd.net import Guard, HostTokens, make_session
from proxyd.probing import Fetcher, FetchLimits, HttpProber, ParsedDocument, parse_document
from tests.fakes import FakeClock

FEED = b"<rss version='2.0'><channel></channel></rss>"
HOSTS = [
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "127.255.255.254",
    "0",
    "0.0.0.0",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0x7f.0x0.0x0.0x1",
    "0177.0.0.1",
    "017700000001",
    "00000000177.0.0.1",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "\u2460\u2461\u2466.0.0.1",
    "\uff11\uff12\uff17.0.0.1",
    "127\u30020\u30020\u30021",
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::]",
    "[::127.0.0.1]",
    "[::7f00:1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b::127.0.0.1]",
    "[64:ff9b:1::7f00:1]",
    "[2002:7f00:1::]",
    "[2001:0:7f00:1::80ff:fffe]",
    "[fe80::1%25lo]",
    "[fec0::1]",
    "[fd00::1]",
    "[ff02::1]",
    "10.0.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "172.16.0.1",
    "192.168.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "name.of.loopback.example",
    "mixed.inside.example",
]


class NamesResolver(AbstractResolver):
    """Knows the names of these tests; numbers in odd forms go to the system's own resolver."""

    names: ClassVar = {
        "name.of.loopback.example": ["127.0.0.1"],
        "mixed.inside.example": ["10.0.0.1", "::1", "169.254.169.254"],
        "mixed.example": ["10.0.0.1", "127.0.0.1"],
    }

    def __init__(self) -> None:
        self._system = ThreadedResolver()
        self.lookups = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.lookups += 1
        results: list[ResolveResult] = []
        for address in self.names.get(host, [host]):
            results += await self._system.resolve(address, port, family)
        return results

    async def close(self) -> None:
        await self._system.close()


@dataclass
class Listener:
    port: int
    arrivals: int = 0


@pytest_asyncio.fixture
async def listener() -> AsyncIterator[Listener]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        here.arrivals += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(FEED), FEED))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "0.0.0.0", 0)
    here = Listener(server.sockets[0].getsockname()[1])
    yield here
    server.close()
    await server.wait_closed()


class InlineParser:
    async def parse(
        self, body: bytes, content_type: str | None = None, url: str = "", page_class: PageClass | None = None
    ) -> ParsedDocument:
        return parse_document(body, content_type, url, page_class)


async def probe(url: str, guard: Guard) -> ProbeOutcome:
    clock = FakeClock()
    async with make_session(guard, contact="x", resolver=NamesResolver()) as session:
        fetcher = Fetcher(session, guard, HostTokens(clock, 0), clock, FetchLimits(total_s=5.0))
        return await HttpProber(fetcher, InlineParser(), clock).probe(ProbeRequest("s", url))


@pytest.mark.parametrize("host", HOSTS)
async def test_refused_and_nobody_arrives(host: str, listener: Listener) -> None:
    outcome = await probe(f"http://{host}:{listener.port}/", Guard())
    assert listener.arrivals == 0
    assert outcome.kind in {OutcomeKind.BLOCKED, OutcomeKind.UNREACHABLE}
    unusable = outcome.kind is OutcomeKind.UNREACHABLE
    assert not unusable or "refused" not in outcome.detail


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0x7f.1", "name.of.loopback.example", "mixed.example"])
async def test_the_allow_list_lets_loopback_through(host: str, listener: Listener) -> None:
    outcome = await probe(f"http://{host}:{listener.port}/", Guard([ip_network("127.0.0.0/8")]))
    assert (outcome.kind, listener.arrivals) == (OutcomeKind.CHANGED, 1)


async def test_a_name_with_only_refused_addresses_is_blocked_and_says_why(listener: Listener) -> None:
    outcome = await probe(f"http://mixed.inside.example:{listener.port}/", Guard())
    assert outcome.kind is OutcomeKind.BLOCKED
    assert outcome.detail == "mixed.inside.example has no allowed address, 10.0.0.1 is refused: private"
