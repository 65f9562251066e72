"""The prober over real sockets: whatever the origin does, an outcome comes back."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import socket
import ssl
import sys
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path

import aiohttp
import brotli
import pytest
import trustme
from aiohttp import ThreadedResolver, web
from aiohttp.abc import ResolveResult

from proxyd.base.ports import Unmade
from proxyd.core.model.decimal_marks import NO_LANGUAGES, Languages
from proxyd.core.model.outcome import NO_VALIDATORS, OutcomeKind, ProbeOutcome, ProbeRequest, Validators
from proxyd.core.model.profile import SITE_CLASS, Extraction, Field, FieldType, PageClass, Reader
from proxyd.net.guard import Guard
from proxyd.net.host_turns import HostTokens
from proxyd.net.session import SessionLimits, make_session
from proxyd.probing.document_parser import ParsedDocument, parse_document
from proxyd.probing.documents.document_texts import MOST_ITEMS
from proxyd.probing.documents.probe_failures import ParserFailedError
from proxyd.probing.http.fetcher import Fetcher, FetchLimits, FetchRequest
from proxyd.probing.prober import HttpProber, LocalTransport
from tests.fakes import FakeClock, settle

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

FEED = (
    b"<?xml version='1.0'?><rss version='2.0'><channel><title>t</title>"
    b"<item><guid>1</guid><title>a</title></item><item><guid>2</guid><title>b</title></item></channel></rss>"
)
LOOPBACK = Guard([ip_network("127.0.0.0/8")])
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class InlineParser:
    """Parses where it stands; counts."""

    def __init__(self) -> None:
        self.parsed = 0

    async def parse(
        self,
        body: bytes,
        content_type: str | None = None,
        url: str = "",
        page_class: PageClass | None = None,
        languages: Languages = NO_LANGUAGES,
    ) -> ParsedDocument:
        self.parsed += 1
        return parse_document(body, content_type, url, page_class, languages)


class BrokenParser:
    async def parse(
        self,
        body: bytes,
        content_type: str | None = None,
        url: str = "",
        page_class: PageClass | None = None,
        languages: Languages = NO_LANGUAGES,
    ) -> ParsedDocument:
        raise ParserFailedError("the parser died")


@dataclass
class Origin:
    """A server of this test, and what reached it."""

    url: str = ""
    requests: list[web.BaseRequest] = field(default_factory=list)

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[Origin]:
    origin = Origin()

    async def record(request: web.BaseRequest) -> web.StreamResponse:
        origin.requests.append(request)
        return await handler(request)  # type: ignore[arg-type]  # a low-level server passes BaseRequest

    runner = web.ServerRunner(web.Server(record), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        origin.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield origin
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_origin(answer: bytes, *, hold: bool = False) -> AsyncIterator[str]:
    """Serve exact bytes, then close the connection or hold it open."""
    release = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        if hold:
            await release.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    finally:
        release.set()
        await settle()
        server.close()
        await server.wait_closed()


@dataclass
class Rig:
    prober: HttpProber
    clock: FakeClock
    parser: InlineParser
    session: aiohttp.ClientSession

    async def probe(self, url: str, **known: object) -> ProbeOutcome:
        return await self.prober.probe(ProbeRequest("s", url, **known))  # type: ignore[arg-type]


@asynccontextmanager
async def rigged(
    guard: Guard = LOOPBACK, limits: FetchLimits | None = None, *, spacing_s: float = 0.0, proxy: str = ""
) -> AsyncIterator[Rig]:
    clock, parser = FakeClock(), InlineParser()
    async with make_session(guard, contact="mailto:ops@example.org", proxy=proxy) as session:
        fetcher = Fetcher(session, guard, HostTokens(clock, spacing_s), clock, limits)
        yield Rig(HttpProber(fetcher, parser, clock), clock, parser, session)


def answering(status: int = 200, body: bytes = FEED, *, headers: dict[str, str] | None = None) -> Handler:
    async def handle(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers=headers or {})

    return handle


async def probe_once(handler: Handler, limits: FetchLimits | None = None, **known: object) -> ProbeOutcome:
    async with serving(handler) as origin, rigged(limits=limits) as rig:
        return await rig.probe(origin.url + "/feed", **known)


async def test_a_page_class_is_read_from_its_page() -> None:
    extraction = Extraction(Reader.CSS, "h1")
    fields = (Field("heading", FieldType.STRING, extraction), Field("number", FieldType.INTEGER, extraction))
    outcome = await probe_once(answering(body=b"<h1>New</h1>"), page_class=PageClass("C", "D", fields))
    assert outcome.kind is OutcomeKind.CHANGED
    assert outcome.items[0].fields == {"heading": "New", "number": None}
    assert outcome.detail == "html, 1 item; values that do not fit their type: number 1"


async def test_a_feed_is_changed_with_its_items_validators_and_hash() -> None:
    headers = {"ETag": 'W/"x"', "Last-Modified": "yesterday, sort of", "Retry-After": "7"}
    async with serving(answering(headers=headers)) as origin, rigged() as rig:
        outcome = await rig.probe(origin.url + "/feed")
        sent = origin.requests[0].headers
    assert outcome.kind is OutcomeKind.CHANGED
    assert [item.item_id for item in outcome.items] == ["1", "2"]
    assert outcome.validators == Validators('W/"x"', "yesterday, sort of")
    assert outcome.body_hash == hashlib.sha256(FEED).hexdigest()
    assert (outcome.status, outcome.requests, outcome.body_bytes, outcome.retry_after_s) == (200, 1, len(FEED), 7.0)
    assert (outcome.started_s, outcome.finished_s) == (1e9, 1e9)
    assert sent["User-Agent"].startswith("proxyd/")
    assert sent["User-Agent"].endswith(" (+mailto:ops@example.org)")
    assert "application/rss+xml" in sent["Accept"]
    assert sent["Accept-Encoding"] == "gzip, deflate"
    assert "Cookie" not in sent
    assert "If-None-Match" not in sent


@pytest.mark.parametrize("etag", ['W/"x"', "unquoted", '"a" "b"', "caf\u00e9", '"' + "e" * 500 + '"'])
async def test_validators_are_sent_back_verbatim_and_304_stops(etag: str) -> None:
    async with serving(answering(304, b"")) as origin, rigged() as rig:
        outcome = await rig.probe(origin.url, validators=Validators(etag, "Sun, 6 Nov 94"), body_hash="h")
        sent = origin.requests[0].headers
    assert (sent["If-None-Match"], sent["If-Modified-Since"]) == (etag, "Sun, 6 Nov 94")
    assert outcome.kind is OutcomeKind.NOT_MODIFIED
    assert outcome.validators == Validators(etag, "Sun, 6 Nov 94")
    assert outcome.body_hash == "h"
    assert rig.parser.parsed == 0


async def test_a_304_may_bring_new_validators_and_a_wish_to_wait() -> None:
    outcome = await probe_once(
        answering(304, b"", headers={"ETag": '"new"', "Retry-After": "60"}), validators=Validators('"old"', "then")
    )
    assert outcome.validators == Validators('"new"', "then")
    assert outcome.retry_after_s == 60.0


async def test_a_304_nobody_asked_for_is_an_error() -> None:
    outcome = await probe_once(answering(304, b""))
    assert (outcome.kind, outcome.status) == (OutcomeKind.HTTP_ERROR, 304)


async def test_an_etag_that_cannot_be_sent_back_is_left_out() -> None:
    answer = b'HTTP/1.1 200 OK\r\nETag: "\xe9"\r\nContent-Length: %d\r\n\r\n%s' % (len(FEED), FEED)
    async with raw_origin(answer) as url, rigged() as rig:
        outcome = await rig.probe(url, validators=Validators('"\udce9"', "a\r\nX-Evil: b"))
    assert outcome.kind is OutcomeKind.CHANGED
    assert outcome.validators == Validators()


async def test_the_same_body_is_not_parsed() -> None:
    async with serving(answering(headers={"ETag": '"2"'})) as origin, rigged() as rig:
        outcome = await rig.probe(origin.url, body_hash=hashlib.sha256(FEED).hexdigest(), validators=Validators('"1"'))
    assert (outcome.kind, rig.parser.parsed) == (OutcomeKind.SAME_BODY, 0)
    assert outcome.validators == Validators('"2"')


@pytest.mark.parametrize(
    ("answer", "is_answered"),
    [
        pytest.param(b"", False, id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Ty", True, id="half of the headers"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", True, id="an interim response"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<rss", True, id="half of the body"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b\x08\x00no", True, id="a bad coding"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", True, id="another protocol"),
    ],
)
async def test_whoever_sends_bytes_has_answered(answer: bytes, is_answered: bool) -> None:
    async with raw_origin(answer) as url, rigged() as rig:
        outcome = await rig.probe(url)
    assert (outcome.kind, outcome.is_answered) == (OutcomeKind.UNREACHABLE, is_answered)


async def test_a_redirect_to_a_silent_host_is_an_answer() -> None:
    async with (
        raw_origin(b"") as silent,
        raw_origin(b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\n\r\n" % silent.encode()) as url,
        rigged() as rig,
    ):
        outcome = await rig.probe(url)
    assert (outcome.kind, outcome.is_answered) == (OutcomeKind.UNREACHABLE, True)


async def test_a_certificate_that_is_not_trusted_is_known_by_its_hash() -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    issued = trustme.CA().issue_cert("localhost")
    issued.configure_cert(context)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    async with server, rigged() as rig:
        outcome = await rig.probe(f"https://localhost:{server.sockets[0].getsockname()[1]}/")
    shown = ssl.PEM_cert_to_DER_cert(issued.cert_chain_pems[0].bytes().decode())
    assert outcome.certificate == hashlib.sha256(shown).hexdigest()
    assert (outcome.kind, outcome.is_answered, "certificate" in outcome.detail) == (
        OutcomeKind.UNREACHABLE,
        False,
        True,
    )


async def test_the_expiry_of_a_certificate_is_read_from_the_connection_of_the_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=13, hours=1)
    authority.issue_cert("localhost", not_after=end).configure_cert(context)
    begun: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.append((await reader.readline()).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server, rigged() as rig:
        url = f"https://localhost:{server.sockets[0].getsockname()[1]}/"
        outcome = await rig.probe(url, page_class=SITE_CLASS)
    assert (outcome.kind, outcome.certificate_end_s) == (OutcomeKind.SAME_BODY, end.timestamp())
    assert begun == ["GET / HTTP/1.1\r\n"]


@pytest.mark.parametrize(
    ("status", "body", "holding", "kind"),
    [
        (200, b"", None, OutcomeKind.SAME_BODY),
        (204, b"", None, OutcomeKind.SAME_BODY),
        (304, b"", None, OutcomeKind.SAME_BODY),
        (200, b"\x00\xff not a page", None, OutcomeKind.SAME_BODY),
        (404, b"", None, OutcomeKind.HTTP_ERROR),
        (410, b"", None, OutcomeKind.HTTP_ERROR),
        (503, b"", None, OutcomeKind.HTTP_ERROR),
        (429, b"", None, OutcomeKind.THROTTLED),
        (200, b"<p>Welcome</p>", "Welcome", OutcomeKind.SAME_BODY),
        (200, b"<p>welcome</p>", "Welcome", OutcomeKind.UNREADABLE),
        (200, "<p>Grüße &amp; mehr".encode("latin-1"), "Grüße & mehr", OutcomeKind.SAME_BODY),
        (200, b"<p> </p>", "Привет мир", OutcomeKind.UNREADABLE),
        (204, b"", "Welcome", OutcomeKind.UNREADABLE),
    ],
)
async def test_a_site_is_up_if_it_answers_without_an_error_and_holds_its_words(
    status: int, body: bytes, holding: str | None, kind: OutcomeKind
) -> None:
    handler = answering(status, body, headers={"Retry-After": "3600", "ETag": '"x"'})
    async with serving(handler) as origin, rigged() as rig:
        outcome = await rig.probe(origin.url, page_class=SITE_CLASS, holding=holding)
    assert (outcome.kind, outcome.validators) == (kind, NO_VALIDATORS)
    assert outcome.retry_after_s == (3600.0 if kind is OutcomeKind.THROTTLED else None)
    if kind is OutcomeKind.UNREADABLE:
        assert outcome.detail == f"the page does not hold {holding!r}"


@asynccontextmanager
async def server_that_says(line: bytes, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Yield the port of a server that says something to whoever connects, and waits then."""

    opened: list[asyncio.StreamWriter] = []

    def say(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        writer.write(line)

    async with await asyncio.start_server(say, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]
        for each in opened:
            each.transport.abort()


@pytest.mark.parametrize(
    ("line", "holding", "kind", "detail"),
    [
        (b"", None, OutcomeKind.SAME_BODY, "connected"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0", OutcomeKind.SAME_BODY, "connected"),
        (b"220 mail ESMTP\r\n", "SSH", OutcomeKind.UNREADABLE, "the first line does not hold 'SSH'"),
        (b"x" * 100_000, "y", OutcomeKind.UNREADABLE, "the first line does not hold 'y'"),
        (b"", "SSH", OutcomeKind.TIMEOUT, "no complete response within 0.5 s"),
    ],
)
async def test_an_address_of_tcp_is_up_if_it_takes_connections(
    line: bytes, holding: str | None, kind: OutcomeKind, detail: str
) -> None:
    limits = FetchLimits(total_s=30.0 if line or holding is None else 0.5)
    async with server_that_says(line) as port, rigged(limits=limits) as rig:
        outcome = await rig.probe(f"tcp://localhost:{port}", page_class=SITE_CLASS, holding=holding)
    assert (outcome.kind, outcome.detail) == (kind, detail)
    assert (outcome.requests, outcome.is_answered) == (1, True)


async def test_an_address_of_tcp_that_refuses_connections_is_down() -> None:
    async with server_that_says(b"") as port:
        pass
    async with rigged() as rig:
        outcome = await rig.probe(f"tcp://127.0.0.1:{port}", page_class=SITE_CLASS)
    assert (outcome.kind, outcome.is_answered) == (OutcomeKind.UNREACHABLE, False)
    assert "refused" in outcome.detail.lower()


async def test_only_sites_are_connected_to_and_only_where_the_guard_allows_it() -> None:
    async with server_that_says(b"220\r\n") as port, rigged() as rig, rigged(Guard()) as guarded:
        url = f"tcp://localhost:{port}"
        feed, refused = await rig.probe(url), await guarded.probe(url, page_class=SITE_CLASS)
        written = await guarded.probe(f"tcp://127.0.0.1:{port}", page_class=SITE_CLASS)
    assert (feed.kind, "only http and https" in feed.detail) == (OutcomeKind.BLOCKED, True)
    assert (refused.kind, written.kind) == (OutcomeKind.BLOCKED, OutcomeKind.BLOCKED)
    assert "loopback" in refused.detail + written.detail


async def test_an_address_of_tls_shows_when_its_certificate_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=13, hours=1)
    authority.issue_cert("localhost", not_after=end).configure_cert(context)
    async with server_that_says(b"* OK IMAP4rev1\r\n", context) as port, rigged() as rig:
        url = f"tls://localhost:{port}"
        distrusted = await rig.probe(url, page_class=SITE_CLASS)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        async with rigged() as other:
            outcome = await other.probe(url, page_class=SITE_CLASS, holding="IMAP4")
    assert (outcome.kind, outcome.certificate_end_s) == (OutcomeKind.SAME_BODY, end.timestamp())
    assert (distrusted.kind, len(distrusted.certificate)) == (OutcomeKind.UNREACHABLE, 64)
    assert "certificate" in distrusted.detail


async def test_no_connection_goes_around_the_outbound_proxy() -> None:
    async with server_that_says(b"") as port, rigged(proxy="http://127.0.0.1:9") as rig:
        outcome = await rig.probe(f"tcp://127.0.0.1:{port}", page_class=SITE_CLASS)
    assert (outcome.kind, outcome.is_answered) == (OutcomeKind.UNREACHABLE, False)
    assert "do not go through the setting proxy" in outcome.detail


async def test_a_site_that_sends_a_large_file_is_up() -> None:
    limits = FetchLimits(body_bytes=1000)
    outcome = await probe_once(
        answering(body=b"Welcome" + b"x" * 9000), limits, page_class=SITE_CLASS, holding="Welcome"
    )
    assert outcome.kind is OutcomeKind.SAME_BODY


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("header", "expected"), [("120", 120.0), ("Sun, 09 Sep 2001 01:47:40 GMT", 60.0), ("soon", None), (None, None)]
)
async def test_throttled_with_retry_after_in_both_forms(
    status: int, header: str | None, expected: float | None
) -> None:
    headers = {"Date": "Sun, 09 Sep 2001 01:46:40 GMT"} | ({"Retry-After": header} if header else {})
    known = Validators('"1"')
    outcome = await probe_once(answering(status, headers=headers), validators=known, body_hash="h")
    throttles = status == 429 or expected is not None
    assert (outcome.kind, outcome.status) == (OutcomeKind.THROTTLED if throttles else OutcomeKind.HTTP_ERROR, status)
    assert outcome.retry_after_s == expected
    assert (outcome.validators, outcome.body_hash) == (known, "h")


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (410, OutcomeKind.GONE),
        (404, OutcomeKind.HTTP_ERROR),
        (403, OutcomeKind.HTTP_ERROR),
        (500, OutcomeKind.HTTP_ERROR),
        (206, OutcomeKind.HTTP_ERROR),
        (300, OutcomeKind.HTTP_ERROR),
        (302, OutcomeKind.HTTP_ERROR),
        (204, OutcomeKind.EMPTY),
    ],
)
async def test_other_statuses(status: int, kind: OutcomeKind) -> None:
    outcome = await probe_once(answering(status, b""), validators=Validators('"1"'))
    assert (outcome.kind, outcome.status, outcome.requests) == (kind, status, 1)
    assert outcome.validators == Validators('"1"')


def redirecting(routes: dict[str, tuple[int, str]]) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path in routes:
            status, location = routes[request.path]
            return web.Response(status=status, headers={"Location": location})
        return web.Response(body=FEED)

    return handle


async def test_a_chain_of_redirects_is_followed_and_counted() -> None:
    routes = {"/feed": (301, "/b"), "/b": (302, "c/d"), "/c/d": (308, "../e")}
    async with serving(redirecting(routes)) as origin, rigged() as rig:
        outcome = await rig.probe(origin.url + "/feed", validators=Validators('"1"'))
        assert origin.paths() == ["/feed", "/b", "/c/d", "/e"]
        assert all(request.headers["If-None-Match"] == '"1"' for request in origin.requests)
    assert (outcome.kind, outcome.requests) == (OutcomeKind.CHANGED, 4)


async def test_the_permanent_part_of_a_chain_is_told() -> None:
    routes = {"/a": (301, "/b"), "/b": (308, "/c"), "/c": (302, "/d"), "/d": (301, "/e")}
    async with serving(redirecting(routes)) as origin, make_session(LOOPBACK, contact="x") as session:
        clock = FakeClock()
        fetcher = Fetcher(session, LOOPBACK, HostTokens(clock, 0), clock)
        chain = await fetcher.fetch(FetchRequest(origin.url + "/a"))
        temporary = await fetcher.fetch(FetchRequest(origin.url + "/c"))
    assert (chain.permanent_url, chain.url) == (origin.url + "/c", origin.url + "/e")
    assert temporary.permanent_url is None


async def test_a_loop_ends_after_twenty_hops() -> None:
    async with serving(redirecting({"/feed": (302, "/feed")})) as origin, rigged() as rig:
        outcome = await rig.probe(origin.url + "/feed")
    assert (outcome.kind, outcome.requests) == (OutcomeKind.TOO_MANY_REDIRECTS, 21)


async def test_a_chain_of_twenty_redirects_is_followed() -> None:
    routes = {f"/{number}": (302, f"/{number + 1}") for number in range(20)}
    async with serving(redirecting(routes)) as origin, rigged() as rig:
        assert (await rig.probe(origin.url + "/0")).kind is OutcomeKind.CHANGED


async def test_a_cookie_of_a_redirect_is_kept_within_the_fetch_alone() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        if request.cookies.get("seen") == "yes":
            return web.Response(body=FEED)
        return web.Response(status=302, headers={"Location": request.path, "Set-Cookie": "seen=yes; Path=/"})

    async with serving(handle) as origin, rigged() as rig:
        outcomes = [await rig.probe(origin.url + "/feed", headers=(("Cookie", "own=1"),)) for _ in range(2)]
        sent = [request.headers.getall("Cookie", ()) for request in origin.requests]
    assert [(outcome.kind, outcome.requests) for outcome in outcomes] == [(OutcomeKind.CHANGED, 2)] * 2
    assert sent == [["own=1"], ["own=1; seen=yes"]] * 2


async def test_a_cookie_goes_to_no_other_host_and_is_not_shown() -> None:
    async def handle(request: web.Request) -> web.StreamResponse:
        if request.url.host == "localhost":
            return web.Response(body=FEED)
        target = f"http://localhost:{request.url.port}/feed"
        return web.Response(status=302, headers={"Location": target, "Set-Cookie": "secret=1; Path=/"})

    async with serving(handle) as origin, rigged() as rig:
        outcome = await rig.probe(origin.url + "/feed")
        assert [request.headers.get("Cookie") for request in origin.requests] == [None, None]
    assert outcome.kind is OutcomeKind.CHANGED


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("UTF-8", FEED),
        ("none", FEED),
        ("aws-chunked", FEED),
        ("gzip, identity", gzip.compress(FEED)),
        ("br", brotli.compress(FEED)),
        ("zstd", zstd.compress(FEED)),
        ("gzip", FEED),
        ("", gzip.compress(FEED)),
    ],
)
async def test_a_feed_is_read_whatever_its_server_calls_its_coding(encoding: str, body: bytes) -> None:
    outcome = await probe_once(answering(body=body, headers={"Content-Encoding": encoding} if encoding else {}))
    assert (outcome.kind, len(outcome.items)) == (OutcomeKind.CHANGED, 2)


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.2:{port}/",
        "file:///etc/passwd",
        "http://u:p@127.0.0.1:{port}/",
        "ftp://127.0.0.1/",
        "http://127.0.0.1:25/",
    ],
)
async def test_a_redirect_to_a_blocked_place(location: str) -> None:
    guard = Guard([ip_network("127.0.0.1/32")])

    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": location.format(port=request.url.port)})

    async with serving(handle) as origin, rigged(guard) as rig:
        outcome = await rig.probe(origin.url)
        assert len(origin.requests) == 1
    assert outcome.kind is OutcomeKind.BLOCKED


@pytest.mark.parametrize("location", ["http://[bad", "http://127.0.0.1:99999/", "http://\udcff/"])
async def test_a_redirect_that_cannot_be_read(location: str) -> None:
    answer = (
        b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: "
        + location.encode("utf-8", "surrogateescape")
        + b"\r\n\r\n"
    )
    async with raw_origin(answer) as url, rigged() as rig:
        outcome = await rig.probe(url)
    assert outcome.kind in {OutcomeKind.UNREACHABLE, OutcomeKind.BLOCKED}


async def test_a_drip_feed_ends_in_a_timeout() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx"
    async with raw_origin(answer, hold=True) as url, rigged(limits=FetchLimits(total_s=0.2)) as rig:
        outcome = await rig.probe(url)
    assert (outcome.kind, outcome.requests) == (OutcomeKind.TIMEOUT, 1)
    assert outcome.detail == "no complete response within 0.2 s"


async def test_bytes_that_come_one_by_one_are_put_together() -> None:
    """The trap: one read returns what is there, a single byte of a drip feed."""

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for byte in FEED:
            await response.write(bytes([byte]))
        return response

    outcome = await probe_once(drip)
    assert (outcome.kind, outcome.body_bytes) == (OutcomeKind.CHANGED, len(FEED))


async def test_silence_ends_in_a_timeout() -> None:
    async with raw_origin(b"", hold=True) as url, rigged(limits=FetchLimits(total_s=0.1)) as rig:
        outcome = await rig.probe(url)
    assert outcome.kind is OutcomeKind.TIMEOUT


async def test_fifty_megabytes_are_not_read() -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(800):
            await response.write(b"x" * 65_536)
            sent += 65_536
        return response

    outcome = await probe_once(endless, FetchLimits(body_bytes=1_000_000))
    assert outcome.kind is OutcomeKind.TOO_LARGE
    assert 1_000_000 < outcome.body_bytes < 1_500_000
    assert sent < 25_000_000


async def test_a_length_above_the_limit_is_enough_to_refuse() -> None:
    outcome = await probe_once(answering(body=b"x" * 2000), FetchLimits(body_bytes=1000))
    assert (outcome.kind, outcome.body_bytes) == (OutcomeKind.TOO_LARGE, 0)


@pytest.mark.parametrize(("size", "kind"), [(1000, OutcomeKind.NOT_A_FEED), (1001, OutcomeKind.TOO_LARGE)])
async def test_the_limit_is_inclusive(size: int, kind: OutcomeKind) -> None:
    async def chunked(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"x" * size)
        return response

    assert (await probe_once(chunked, FetchLimits(body_bytes=1000))).kind is kind


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_decompression_bomb_is_stopped_while_it_decodes(encoding: str) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31 if encoding == "gzip" else 15)
    bomb = b"".join([packer.compress(b" " * 1_000_000) for _ in range(200)]) + packer.flush()
    outcome = await probe_once(answering(body=bomb, headers={"Content-Encoding": encoding}))
    assert outcome.kind is OutcomeKind.UNSAFE
    assert 10 * 1024 * 1024 < outcome.body_bytes < 11 * 1024 * 1024


async def test_an_honest_compressed_feed_is_decoded() -> None:
    packed = gzip.compress(FEED)
    outcome = await probe_once(answering(body=packed, headers={"Content-Encoding": "gzip"}))
    assert (outcome.kind, outcome.body_bytes) == (OutcomeKind.CHANGED, len(FEED))


async def test_a_feed_is_the_same_however_it_is_sent() -> None:
    marked, zipped = b"\xef\xbb\xbf" + FEED, {"Content-Encoding": "gzip"}
    bodies = [FEED, marked, FEED.replace(b"<title>a", b"<title>\x0ba"), FEED + b"<p>"]
    plain = [await probe_once(answering(body=body)) for body in bodies]
    outcomes = plain + [await probe_once(answering(body=gzip.compress(body), headers=zipped)) for body in bodies]
    titles = [{item.item_id: item.fields["channel.item.title"] for item in outcome.items} for outcome in outcomes]
    assert titles == [{"1": "a", "2": "b"}] * 8


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + FEED,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n<rss>\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9\r\n\r\nnot gzip!",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 9\r\n\r\nnot brotl",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s"
        % (len(gzip.compress(FEED)) - 9, gzip.compress(FEED)[:-9]),
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"",
    ],
    ids=["length", "chunked", "bad gzip", "brotli unasked", "long header", "cut gzip", "no http", "nothing"],
)
async def test_a_response_that_is_cut_off_or_broken_is_unreachable(answer: bytes) -> None:
    async with raw_origin(answer) as url, rigged() as rig:
        outcome = await rig.probe(url, validators=Validators('"1"'), body_hash="h")
    assert outcome.kind is OutcomeKind.UNREACHABLE
    assert outcome.detail
    assert (outcome.validators, outcome.body_hash) == (Validators('"1"'), "h")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"", OutcomeKind.EMPTY),
        (b" \n", OutcomeKind.EMPTY),
        (b"<html><head><link rel=alternate type=application/rss+xml href=/f></head>", OutcomeKind.NOT_A_FEED),
        (b'<!DOCTYPE rss [<!ENTITY a "b">]><rss version="2.0"/>', OutcomeKind.UNSAFE),
        (FEED.replace(b"</rss>", b""), OutcomeKind.CHANGED),
    ],
)
async def test_documents(body: bytes, kind: OutcomeKind) -> None:
    outcome = await probe_once(answering(body=body, headers={"ETag": '"new"'}), validators=Validators('"old"'))
    assert (outcome.kind, outcome.status) == (kind, 200)
    read = kind is OutcomeKind.CHANGED
    assert outcome.validators == Validators('"new"' if read else '"old"')
    assert len(outcome.items) == (2 if read else 0)
    if kind is OutcomeKind.NOT_A_FEED:
        assert outcome.detail.startswith("this is a web page; it links to the feeds http://127.0.0.1:")


async def test_a_document_that_broke_the_parser_is_asked_for_again() -> None:
    async with serving(answering(headers={"ETag": '"new"'})) as origin, rigged() as rig:
        fetcher = Fetcher(rig.session, LOOPBACK, HostTokens(rig.clock, 0), rig.clock)
        outcome = await HttpProber(fetcher, BrokenParser(), rig.clock).probe(ProbeRequest("s", origin.url))
    assert (outcome.kind, outcome.validators, outcome.body_hash) == (OutcomeKind.PARSER_FAILED, Validators(), None)


async def test_bugs_are_not_outcomes() -> None:
    class Buggy(BrokenParser):
        async def parse(
            self,
            body: bytes,
            content_type: str | None = None,
            url: str = "",
            page_class: PageClass | None = None,
            languages: Languages = NO_LANGUAGES,
        ) -> ParsedDocument:
            raise ZeroDivisionError

    async with serving(answering()) as origin, rigged() as rig:
        fetcher = Fetcher(rig.session, LOOPBACK, HostTokens(rig.clock, 0), rig.clock)
        with pytest.raises(ZeroDivisionError):
            await HttpProber(fetcher, Buggy(), rig.clock).probe(ProbeRequest("s", origin.url))


async def test_a_refused_connection_is_unreachable() -> None:
    async with raw_origin(b"") as url:
        pass
    async with rigged() as rig:
        outcome = await rig.probe(url)
    assert (outcome.kind, outcome.requests) == (OutcomeKind.UNREACHABLE, 1)
    assert "127.0.0.1" in outcome.detail


@pytest.mark.parametrize(
    "url", ["http://[bad", "http://a:b:c/", "http://" + "a" * 300 + ".example./", "http://a..b/", "http://\u2100/"]
)
async def test_urls_that_cannot_be_used_are_outcomes(url: str) -> None:
    async with rigged() as rig:
        assert (await rig.probe(url)).kind in {OutcomeKind.UNREACHABLE, OutcomeKind.BLOCKED}


async def test_every_hop_takes_the_token_of_its_host() -> None:
    async with serving(redirecting({"/feed": (302, "/b")})) as origin, rigged(spacing_s=10.0) as rig:
        probing = asyncio.create_task(rig.probe(origin.url + "/feed"), name="probe")
        await rig.clock.someone_sleeps()
        assert origin.paths() == ["/feed"]
        await rig.clock.advance(10.0)
        outcome = await probing
    assert (outcome.kind, outcome.requests) == (OutcomeKind.CHANGED, 2)
    assert outcome.finished_s - outcome.started_s == 10.0


async def test_a_queue_that_is_too_long_is_a_timeout_without_a_request() -> None:
    async with serving(answering()) as origin, rigged(limits=FetchLimits(queue_s=0.05), spacing_s=999.0) as rig:
        assert (await rig.probe(origin.url)).kind is OutcomeKind.CHANGED
        outcome = await rig.probe(origin.url)
    assert (outcome.kind, outcome.requests) == (OutcomeKind.TIMEOUT, 0)
    assert len(origin.requests) == 1


async def test_waiting_for_a_token_does_not_use_up_the_time_of_the_fetch() -> None:
    async with serving(answering()) as origin, rigged(limits=FetchLimits(total_s=5.0), spacing_s=60.0) as rig:
        await rig.probe(origin.url)
        probing = asyncio.create_task(rig.probe(origin.url), name="second")
        await rig.clock.advance(60.0)
        assert (await probing).kind is OutcomeKind.CHANGED


async def test_the_time_of_a_fetch_is_shared_by_its_hops() -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.12)
        return web.Response(status=302, headers={"Location": f"{request.path}x"})

    outcome = await probe_once(slow, FetchLimits(total_s=0.3))
    assert outcome.kind is OutcomeKind.TIMEOUT
    assert outcome.requests in {2, 3}


class Everyone(ThreadedResolver):
    """Sends every name to the local machine: cookies are never kept for bare addresses."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return await super().resolve("127.0.0.1", port, family)


async def test_a_session_keeps_no_cookies_and_ignores_the_environments_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1/")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1/")
    async with (
        serving(answering(headers={"Set-Cookie": "a=b"})) as origin,
        make_session(LOOPBACK, contact="x", resolver=Everyone()) as session,
    ):
        url = origin.url.replace("127.0.0.1", "name.example")
        for _ in range(2):
            async with session.get(url) as response:
                assert response.status == 200
        assert all("Cookie" not in request.headers for request in origin.requests)
    assert SessionLimits().connect_timeout_s == 10.0


async def test_items_that_are_dropped_as_duplicates_are_counted_and_named() -> None:
    items = b"".join(
        b"<item><guid>%s</guid></item>" % name for name in (b"a", b"b", b"a", b"x" * 500, b"x" * 500, b"a")
    )
    outcome = await probe_once(answering(body=b"<rss version='2.0'><channel>%b</channel></rss>" % items))
    assert outcome.detail == f"rss20, 3 items; dropped as duplicates: 3, of 'a', '{'x' * 80}'"


async def test_items_that_are_left_out_are_said_to_be() -> None:
    items = b"".join(b"<item><guid>%d</guid></item>" % number for number in range(MOST_ITEMS + 1))
    outcome = await probe_once(answering(body=b"<rss version='2.0'><channel>%b</channel></rss>" % items))
    assert outcome.kind is OutcomeKind.CHANGED
    assert len(outcome.items) == MOST_ITEMS
    assert outcome.detail == "rss20, 10000 items; more were left out"


async def test_no_request_is_sent_after_a_redirect_once_another_machine_leads() -> None:
    asked: list[str] = []

    async def redirect(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        raise web.HTTPFound("/other")

    async with serving(redirect) as origin, rigged() as rig:
        transport = LocalTransport(rig.prober, lambda: not asked)
        async with transport.probe(ProbeRequest("s", origin.url + "/feed")) as outcome:
            assert outcome is Unmade.LOST
    assert asked == ["/feed"]


@pytest.mark.parametrize("is_connected", [False, True])
async def test_a_machine_that_loses_its_lease_while_it_connects_sends_no_request(is_connected: bool) -> None:
    allowed = [True, False]

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=FEED)

    async with serving(answer) as origin, rigged() as rig:
        request = ProbeRequest("s", origin.url + "/feed")
        if is_connected:
            await rig.prober.probe(request)
        async with LocalTransport(rig.prober, lambda: allowed.pop(0)).probe(request) as outcome:
            assert outcome is Unmade.LOST
        assert allowed == []
        assert len(origin.requests) == is_connected
        assert (await rig.prober.probe(request)).kind is OutcomeKind.CHANGED
