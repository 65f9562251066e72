"""What strangers send to the listener, byte by byte: encoded bodies, other hosts, slowness, and more than it takes."""

from __future__ import annotations

import asyncio
import errno
import gzip
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from aiohttp.compression_utils import ZLibDecompressor

from proxyd.api.connection_limits import CONNECTIONS, ConnectionLimits
from proxyd.app.server import ApiSettings, PublicFront, serve_api, serve_health
from proxyd.config.loading import socket_address
from tests.fleets import rule, source
from tests.integration.api_world import Running, running_api, told
from tests.servers import free_port


@dataclass(frozen=True)
class Listener:
    """A listener with a port of its own."""

    settings: ApiSettings

    @asynccontextmanager
    async def connection(self, limit: int = 65_536) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection(self.settings.host, self.settings.port, limit=limit)
        try:
            yield reader, writer
        finally:
            writer.close()

    async def ask(self, path: str, *headers: str, method: str = "GET", body: bytes = b"") -> tuple[int, bytes]:
        """Return the status and the body of an answer; the request has only these headers."""
        head = "\r\n".join((f"{method} {path} HTTP/1.1", *headers, "Connection: close", "", ""))
        async with self.connection() as (reader, writer):
            writer.write(head.encode(errors="surrogateescape") + body)
            answer = await reader.read()
        status, _, rest = answer.partition(b"\r\n")
        return int(status.split()[1]), rest.partition(b"\r\n\r\n")[2]


@dataclass(frozen=True)
class ApiListener(Listener):
    """A listener of the API."""

    running: Running


def api_settings(folder: Path) -> ApiSettings:
    path, hosts = folder / "listener.sock", frozenset({"localhost", "proxyd.example"})
    return ApiSettings("127.0.0.1", free_port(), path, socket_address(path), PublicFront(hosts=hosts))


@pytest.fixture
async def listener(tmp_path: Path) -> AsyncIterator[ApiListener]:
    settings = api_settings(tmp_path)
    async with running_api(tmp_path) as running, serve_api(running.control.queries, settings):
        yield ApiListener(settings, running)


@pytest.fixture
def inflated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The encodings of the bodies that the HTTP library inflates."""
    seen: list[str] = []

    def decompressor(encoding: str | None = None, **options: Any) -> ZLibDecompressor:
        seen.append(str(encoding))
        return ZLibDecompressor(encoding, **options)

    monkeypatch.setattr("aiohttp.http_parser.ZLibDecompressor", decompressor)
    return seen


BOMB = gzip.compress(b" " * 4_000_000)
PATHS = ["/api/v1/profiles", "/api/v1/import", "/sign-in", "/websub/" + "x" * 32, "/no-such-page"]


async def test_an_encoded_body_is_refused_before_it_is_inflated(listener: ApiListener, inflated: list[str]) -> None:
    token = f"Authorization: {(await listener.running.token('admin'))['Authorization']}"
    encodings = ("gzip", "deflate", "br", "zstd", "identity, gzip")
    for path, encoding, headers in product(PATHS, encodings, ((), (token,))):
        status, body = await listener.ask(
            path, "Host: 127.0.0.1", f"Content-Encoding: {encoding}", f"Content-Length: {len(BOMB)}", *headers,
            method="POST", body=BOMB,
        )  # fmt: skip
        assert (status, json.loads(body)["detail"]) == (415, "send the body without Content-Encoding")
    assert inflated == []


async def test_a_body_whose_encoding_is_identity_is_read(listener: ApiListener) -> None:
    token = f"Authorization: {(await listener.running.token('write'))['Authorization']}"
    headers = ("Host: 127.0.0.1", "Content-Encoding: identity", "Content-Length: 1", "Content-Type: text/plain", token)
    status, body = await listener.ask("/api/v1/profiles", *headers, method="POST", body=b" ")
    assert (status, b"nothing is declared" in body) == (400, True)


async def test_a_request_without_its_token_is_answered_before_its_body_arrives(listener: ApiListener) -> None:
    async with listener.connection() as (reader, writer):
        writer.write(b"POST /api/v1/import HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8000000\r\n\r\n")
        assert b" 401 " in await reader.readline()


KNOWN = ["127.0.0.1", "127.0.0.1:8080", "[::1]:8080", "192.0.2.7", "localhost", "LOCALHOST.:1", "proxyd.example:443"]
FOREIGN = ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "127.1", "proxyd",
           "", "a b", "[::1", "me@127.0.0.1", "127.0.0.1:x", "127.0.0.1/", "\u0661"]  # fmt: skip


async def test_it_answers_as_the_hosts_that_it_knows(listener: ApiListener) -> None:
    for host, (path, status) in product(KNOWN, (("/metrics", 200), ("/sign-in", 200), ("/api/v1/sources", 401))):
        assert (await listener.ask(path, f"Host: {host}"))[0] == status, host


async def test_headers_that_are_no_text_are_refused_like_others(listener: ApiListener) -> None:
    token = (await listener.running.token("write"))["Authorization"]
    host, named = "Host: localhost", f"Authorization: {token}"
    condition = ("If-Match: \udcff", "Idempotency-Key: k", "Content-Length: 0", "Content-Type: text/plain")
    assert (await listener.ask("/api/v1/profiles", host, named, *condition, method="POST"))[0] < 500
    form = "Content-Type: application/x-www-form-urlencoded"
    signing = ("Cookie: proxyd_sign_in=\udcff", form, "Content-Length: 6")
    assert (await listener.ask("/sign-in", host, *signing, method="POST", body=b"mark=x"))[0] == 403


async def test_a_page_whose_name_was_rebound_reads_nothing(listener: ApiListener) -> None:
    token = (await listener.running.token("read"))["Authorization"]
    paths = ("/metrics", "/sign-in", "/api/v1/sources", "/api/v1/openapi.json", "/static/style.css", "/nothing")
    for host, path in product(FOREIGN, paths):
        status, body = await listener.ask(path, f"Host: {host}", f"Authorization: {token}", "Accept: text/html")
        assert (status, "`hosts`" in json.loads(body)["detail"]) == (421, True), host


async def test_monitors_ask_for_health_by_any_name(listener: ApiListener) -> None:
    assert (await listener.ask("/healthz", "Host: proxyd-7.pods.example"))[0] == 200
    assert (await listener.ask("/readyz", "Host: proxyd-7.pods.example"))[0] == 503  # the daemon's loops stand still


async def test_a_request_names_exactly_one_host(listener: ApiListener) -> None:
    assert (await listener.ask("/metrics"))[0] in {400, 421}
    assert (await listener.ask("/metrics", "Host: 127.0.0.1", "Host: evil.example"))[0] in {400, 421}
    assert (await listener.ask("http://127.0.0.1/metrics", "Host: evil.example"))[0] == 421


async def test_a_machine_that_does_not_plan_checks_hosts_too(tmp_path: Path) -> None:
    settings = replace(api_settings(tmp_path), front=PublicFront(hosts=frozenset()))
    async with serve_health(dict, lambda: b"told", settings):
        listener = Listener(settings)
        assert await listener.ask("/metrics", "Host: 127.0.0.1") == (200, b"told")
        assert (await listener.ask("/metrics", "Host: proxyd.example"))[0] == 421
        assert (await listener.ask("/healthz", "Host: proxyd.example"))[0] == 200


@pytest.mark.parametrize("has_ipv6", [True, False])
async def test_a_star_listens_at_every_address_that_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_ipv6: bool
) -> None:
    loop = asyncio.get_running_loop()
    create = loop.create_server

    async def create_server(make: Any, host: str, port: int, **others: Any) -> asyncio.Server:
        if host == "::" and not has_ipv6:  # as in a container of Docker
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        return await create(make, host, port, **others)

    monkeypatch.setattr(loop, "create_server", create_server)
    settings = replace(api_settings(tmp_path), host="*", front=PublicFront(hosts=frozenset()))
    async with serve_health(dict, lambda: b"told", settings):
        for host in ("127.0.0.1", "::1") if has_ipv6 else ("127.0.0.1",):
            listener = Listener(replace(settings, host=host))
            assert await listener.ask("/metrics", "Host: 127.0.0.1") == (200, b"told")
        assert (await reaches("::1", settings.port)) == has_ipv6


async def reaches(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    return True


async def read_all(reader: asyncio.StreamReader) -> bytes:
    with suppress(ConnectionError):
        return await reader.read()
    return b""


async def test_a_client_that_sends_its_head_slowly_is_disconnected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONNECTIONS, "keepalive_timeout", 0.05)
    settings = api_settings(tmp_path)
    async with serve_health(dict, lambda: b"told", settings):
        listener = Listener(settings)
        for head in (b"", b"GET / HTTP/1.1\r\nHost: a", b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET"):
            async with listener.connection() as (reader, writer):
                writer.write(head)
                assert (await read_all(reader)).count(b"HTTP/1.1 200") == head.count(b"\r\n\r\n")


async def test_a_body_that_does_not_arrive_is_not_waited_for(
    listener: ApiListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxyd.api.endpoint.BODY_S", 0.05)
    token = (await listener.running.token("write"))["Authorization"]
    headers = ("Host: localhost", f"Authorization: {token}", "Content-Length: 1000")
    text, form = "Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded"
    kinds = (("/api/v1/import", text), ("/api/v1/profiles", text), ("/sign-in", form))
    asking = (listener.ask(path, *headers, kind, method="POST", body=b"x" * 999) for path, kind in kinds)
    assert [(status, b"did not arrive" in body) for status, body in await asyncio.gather(*asking)] == [(408, True)] * 3


async def test_many_large_notifications_come_in_bounded_answers(listener: ApiListener) -> None:
    names = [f"n{number}" for number in range(96)]
    await listener.running.tell(*(told(name, filler="x" * 60_000) for name in names))
    headers = await listener.running.token("read")
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        query = f"?limit=500&cursor={cursor}" if cursor else "?limit=500"
        status, body = await listener.ask(f"/api/v1/notifications{query}", *sent(headers))
        page = json.loads(body)
        found += [each["id"] for each in page["items"]]
        cursor = page["next_cursor"]
        assert (status, len(body) < 3_000_000) == (200, True)
    assert found == names[::-1]
    for form in ("atom", "json"):
        status, body = await listener.ask(f"/api/v1/profiles/P/feed.{form}", *sent(headers))
        assert (status, len(body) < 3_000_000, b"n95" in body) == (200, True, True)


async def test_sources_of_many_rules_come_in_bounded_answers(
    listener: ApiListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxyd.api.listings._MOST_RULES", 3)
    await listener.running.control.declarations.declare("".join(source(f"t{n}") for n in range(5)) + rule("q"))
    headers = await listener.running.token("read")
    pages: list[list[str]] = []
    cursor: str | None = ""
    while cursor is not None:
        _, body = await listener.ask(
            f"/api/v1/sources?cursor={cursor}" if cursor else "/api/v1/sources", *sent(headers)
        )
        page = json.loads(body)
        pages.append([each["source"] for each in page["items"]])
        cursor = page["next_cursor"]
    assert pages == [["a/b c"], ["s"], ["t0"], ["t1"], ["t2"], ["t3"], ["t4"]]


def sent(headers: Mapping[str, str]) -> list[str]:
    """Return headers as they are sent, with a host."""
    return ["Host: localhost", *(f"{name}: {value}" for name, value in headers.items())]


class Log:
    """Notes when it is told of a slow client."""

    def __init__(self) -> None:
        self.warned = asyncio.Event()

    def warning(self, *_: object, **__: object) -> None:
        self.warned.set()


async def test_a_client_that_reads_nothing_is_disconnected(
    listener: ApiListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    monkeypatch.setattr("proxyd.api.connection_limits.SEND_S", 0.05)
    monkeypatch.setattr("proxyd.api.connection_limits.log", log)
    request = b"GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with listener.connection(limit=1024) as (reader, writer):
        writer.write(request * 100)
        await log.warned.wait()
        received = await read_all(reader)
    assert received.count(b"HTTP/1.1 200") < 100


async def test_streams_of_one_token_leave_room_for_those_of_others(listener: ApiListener) -> None:
    one, other = await listener.running.token("read"), await listener.running.token("write")
    async with AsyncExitStack() as stack:
        for _ in range(20):
            assert await first_line(listener, stack, one) == b"HTTP/1.1 200 OK\r\n"
        for token, status in ((one, b"503"), (other, b"200")):
            assert status in await first_line(listener, stack, token)


async def first_line(listener: Listener, stack: AsyncExitStack, token: dict[str, str]) -> bytes:
    """Begin a stream, and return the first line of the answer."""
    reader, writer = await stack.enter_async_context(listener.connection())
    head = f"GET /api/v1/stream HTTP/1.1\r\nHost: localhost\r\nAuthorization: {token['Authorization']}\r\n\r\n"
    writer.write(head.encode())
    return await reader.readline()


async def test_connections_are_bounded_in_all_and_from_each_address(tmp_path: Path) -> None:
    for limits in (ConnectionLimits(most=3), ConnectionLimits(each=3)):
        settings = replace(api_settings(tmp_path), limits=limits)
        async with serve_health(dict, lambda: b"told", settings), AsyncExitStack() as stack:
            listener = Listener(settings)
            opened = [await stack.enter_async_context(listener.connection()) for _ in range(3)]
            for reader, writer in opened:
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            for _ in range(3):
                async with listener.connection() as (reader, _):
                    assert await read_all(reader) == b""
            opened[0][1].close()
            assert (await eventually(listener))[0] == 200


async def eventually(listener: Listener) -> tuple[int, bytes]:
    """Return the first answer of a listener that closes connections while it has too many."""
    while True:
        with suppress(ConnectionError, IndexError):
            return await listener.ask("/healthz", "Host: localhost")


async def test_broken_requests_of_strangers_are_not_logged(
    listener: ApiListener, caplog: pytest.LogCaptureFixture
) -> None:
    token = (await listener.running.token("write"))["Authorization"]
    for head in (["X\x01: 1"], ["Content-Length: x"], ["Content-Length: 5", "Content-Length: 6"]):
        assert (await listener.ask("/sign-in", "Host: localhost", *head))[0] == 400
    headers = ("Host: localhost", f"Authorization: {token}", "Transfer-Encoding: chunked", "Content-Type: text/plain")
    assert (await listener.ask("/api/v1/import", *headers, method="POST", body=b"1\r\nx\r\nzz\r\n"))[0] == 400
    async with listener.connection() as (_, writer):
        writer.write("\r\n".join(("POST /api/v1/import HTTP/1.1", *headers, "", "1")).encode())
        await writer.drain()
    assert (await listener.ask("/healthz", "Host: localhost"))[0] == 200
    assert caplog.records == []


async def test_the_head_of_a_request_is_bounded(listener: ApiListener) -> None:
    for head in (["X-a: 1"] * 70, ["X-a: " + "1" * 9_000], ["X" * 9_000 + ": 1"]):
        assert (await listener.ask("/healthz", "Host: localhost", *head))[0] == 400
    assert (await listener.ask("/healthz?" + "x" * 9_000, "Host: localhost"))[0] == 400
