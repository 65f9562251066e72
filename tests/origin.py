"""One origin over real sockets that plays what servers do to feeds; the path says what, the query says how."""

from __future__ import annotations

import asyncio
import base64
import gzip
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from multidict import CIMultiDictProxy
from yarl import URL

from proxyd.core.model.decimal_marks import NO_LANGUAGES, Languages
from proxyd.core.model.profile import PageClass
from proxyd.probing.document_parser import ParsedDocument, parse_document

FEED = (
    b"<?xml version='1.0'?><rss version='2.0'><channel><title>t</title>"
    b"<item><guid>1</guid><title>a</title></item><item><guid>2</guid><title>b</title></item></channel></rss>"
)
PAGE = (
    b"<html><head><title>Home</title><link rel='alternate' type='application/rss+xml' href='/feed'>"
    b"<link rel='alternate' type='application/atom+xml' href='/atom'></head><body>Hello</body></html>"
)
HUB = "https://hub.example/"


class InlineParser:
    """Parses where it stands."""

    async def parse(
        self,
        body: bytes,
        content_type: str | None = None,
        url: str = "",
        page_class: PageClass | None = None,
        languages: Languages = NO_LANGUAGES,
    ) -> ParsedDocument:
        return parse_document(body, content_type, url, page_class, languages)


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request: when it came by the loop's clock, and with what."""

    time_s: float
    path: str
    headers: CIMultiDictProxy[str]
    method: str = "GET"
    body: bytes = b""


@dataclass
class Origin:
    """A running server. ``robots`` is what ``/robots.txt`` answers with, by default that there is none."""

    url: str = ""
    port: int = 0
    arrivals: list[Arrival] = field(default_factory=list)
    robots: Callable[[], web.StreamResponse] = field(default=lambda: web.Response(status=404))
    under_way: int = 0
    most_under_way: int = 0
    sent_bytes: int = 0
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def at(self, path: str, **query: str | int) -> str:
        """Return the address of a behaviour."""
        return str(URL(self.url + path).with_query(query))

    def paths(self) -> list[str]:
        """Return the paths asked for, in order."""
        return [arrival.path for arrival in self.arrivals]

    def arrived(self, path: str) -> list[Arrival]:
        """Return the arrivals at one path."""
        return [arrival for arrival in self.arrivals if arrival.path == path]

    def robots_text(self, *lines: str, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Answer ``/robots.txt`` with these lines."""
        self.robots = lambda: web.Response(status=status, text="\n".join(lines), headers=headers)


Behaviour = Callable[[Origin, web.BaseRequest], Awaitable[web.StreamResponse]]
BEHAVIOURS: dict[str, Behaviour] = {}


def plays(path: str) -> Callable[[Behaviour], Behaviour]:
    def register(behaviour: Behaviour) -> Behaviour:
        BEHAVIOURS[path] = behaviour
        return behaviour

    return register


@asynccontextmanager
async def playing(host: str = "127.0.0.1") -> AsyncIterator[Origin]:
    """Run an origin on a free port; whatever it holds open ends with it."""
    origin = Origin()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        now_s, body = asyncio.get_running_loop().time(), await request.read()
        origin.arrivals.append(Arrival(now_s, request.path, request.headers, request.method, body))
        origin.under_way += 1
        origin.most_under_way = max(origin.most_under_way, origin.under_way)
        try:
            return await BEHAVIOURS.get(request.path, missing)(origin, request)
        finally:
            origin.under_way -= 1

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, host, 0).start()
    origin.port = runner.addresses[0][1]
    origin.url = f"http://{host}:{origin.port}"
    try:
        yield origin
    finally:
        origin.ended.set()
        origin.gate.set()
        await runner.cleanup()


def raw(request: web.BaseRequest, answer: bytes) -> web.StreamResponse:
    """Send exact bytes and close the connection; the response returned goes nowhere."""
    assert request.transport is not None
    request.transport.write(answer)
    request.transport.close()
    return web.Response()


def head(*lines: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode()


async def missing(_origin: Origin, _request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=404)


@plays("/robots.txt")
async def robots(origin: Origin, _request: web.BaseRequest) -> web.StreamResponse:
    return origin.robots()


@plays("/feed")
async def feed(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    """Send the feed; every item of the query becomes a header."""
    return web.Response(body=FEED, headers=request.query)


@plays("/validated")
async def validated(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    """Send validators that look anyhow, and 304 exactly where they come back byte for byte."""
    headers = {name: request.query[name] for name in ("ETag", "Last-Modified") if name in request.query}
    asked = (request.headers.get("If-None-Match"), request.headers.get("If-Modified-Since"))
    if asked == (headers.get("ETag"), headers.get("Last-Modified")):
        return web.Response(status=304, headers=headers)
    return web.Response(body=FEED, headers=headers)


@plays("/lying")
async def lying(origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    """Say 304 to every condition, although the document is another one each time."""
    if "If-None-Match" in request.headers or "If-Modified-Since" in request.headers:
        return web.Response(status=304)
    changed = FEED.replace(b"<guid>1<", b"<guid>%d<" % len(origin.arrivals))
    return web.Response(body=changed, headers={"ETag": '"always"'})


@plays("/304")
async def unasked_304(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=304, headers=request.query)


@plays("/ttl")
async def ttl(_origin: Origin, _request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=FEED.replace(b"<item>", b"<ttl>90</ttl><item>", 1))


@plays("/to")
async def redirect(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=int(request.query["status"]), headers={"Location": request.query["location"]})


@plays("/loop")
async def loop(_origin: Origin, _request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(status=302, headers={"Location": "/loop"})


@plays("/status")
async def status(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    """Send a status and the other items of the query as headers."""
    headers = {name: value for name, value in request.query.items() if name != "code"}
    return web.Response(status=int(request.query["code"]), headers=headers)


@plays("/drip")
async def drip(origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    """Send a first byte, and the rest never."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(FEED[:1])
    await origin.ended.wait()
    return response


@plays("/silent")
async def silent(origin: Origin, _request: web.BaseRequest) -> web.StreamResponse:
    await origin.ended.wait()
    return web.Response()


@plays("/held")
async def held(origin: Origin, _request: web.BaseRequest) -> web.StreamResponse:
    """Answer once the gate of the origin opens."""
    await origin.gate.wait()
    return web.Response(body=FEED)


@plays("/held-body")
async def held_body(origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    """Send the head, and the body once the gate opens."""
    response = web.StreamResponse()
    await response.prepare(request)
    await origin.gate.wait()
    await response.write(FEED)
    return response


@plays("/endless")
async def endless(origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while not origin.ended.is_set():
        await response.write(b"x" * 65_536)
        origin.sent_bytes += 65_536
    return response


@plays("/truncated")
async def truncated(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    return raw(request, head(f"Content-Length: {len(FEED) + 1000}") + FEED)


@plays("/too-short")
async def too_short(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    """Announce less than is sent."""
    return raw(request, head("Content-Length: 50") + FEED)


@plays("/length-of-letters")
async def length_of_letters(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    return raw(request, head("Content-Length: many") + FEED)


@plays("/two-lengths")
async def two_lengths(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    return raw(request, head("Content-Length: 10", f"Content-Length: {len(FEED)}") + FEED)


@plays("/until-close")
async def until_close(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    """Send a body without a length, as HTTP/1.0 did."""
    return raw(request, b"HTTP/1.0 200 OK\r\n\r\n" + FEED)


@plays("/chunked-garbage")
async def chunked_garbage(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    return raw(request, head("Transfer-Encoding: chunked") + b"zz\r\n<rss>\r\n0\r\n\r\n")


@plays("/chunked-cut")
async def chunked_cut(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    return raw(request, head("Transfer-Encoding: chunked") + b"5\r\n<rss>\r\n")


@plays("/no-http")
async def no_http(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    return raw(request, b"220 mail.example ESMTP\r\n\r\n")


@plays("/closed")
async def closed(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    return raw(request, b"")


@plays("/huge-header")
async def huge_header(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    return raw(request, head("X: " + "y" * 100_000, f"Content-Length: {len(FEED)}") + FEED)


@plays("/many-headers")
async def many_headers(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    lines = [f"X-{number}: y" for number in range(20_000)]
    return raw(request, head(*lines, f"Content-Length: {len(FEED)}") + FEED)


@plays("/packed")
async def packed(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    """Send the feed in an encoding, or what is none."""
    encoding, kind = request.query["encoding"], request.query.get("as", request.query["encoding"])
    raw_deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    bodies = {
        "gzip": gzip.compress(FEED),
        "deflate": zlib.compress(FEED),
        "raw": raw_deflate.compress(FEED) + raw_deflate.flush(),
        "cut": gzip.compress(FEED)[:-9],
        "plain": FEED,
    }
    return web.Response(body=bodies[kind], headers={"Content-Encoding": encoding})


@plays("/bomb")
async def bomb(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    encoding = request.query["encoding"]
    packer = zlib.compressobj(9, zlib.DEFLATED, 31 if encoding == "gzip" else 15)
    body = b"".join([packer.compress(b" " * 1_000_000) for _ in range(100)]) + packer.flush()
    return web.Response(body=body, headers={"Content-Encoding": encoding})


@plays("/empty")
async def empty(_origin: Origin, _request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=b"", headers={"ETag": '"empty"'})


@plays("/page")
async def page(_origin: Origin, _request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=PAGE, content_type="text/html")


@plays("/charset")
async def charset(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    """Send a title that says one encoding and is in another."""
    said, used = request.query["said"], request.query["used"]
    text = FEED.decode().replace("<title>a<", "<title>caf\u00e9<")
    return web.Response(body=text.encode(used), headers={"Content-Type": f"application/rss+xml; charset={said}"})


@plays("/entities")
async def entities(_origin: Origin, _request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(body=b'<!DOCTYPE rss [<!ENTITY a "b">]>' + FEED)


@plays("/hub")
async def hub(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    """Name a hub in headers; 304 where a condition comes."""
    response = web.Response(status=304) if "If-None-Match" in request.headers else web.Response(body=FEED)
    response.headers["ETag"] = '"hub"'
    for link in request.query.getall("link"):
        response.headers.add("Link", link)
    return response


@plays("/protected")
async def protected(_origin: Origin, request: web.BaseRequest) -> web.StreamResponse:
    """Send the feed to whoever knows ``me:secret`` or the token ``secret``, and to others 401."""
    basic = "Basic " + base64.b64encode(b"me:secret").decode()
    if request.headers.get("Authorization") in {basic, "Bearer secret"}:
        return web.Response(body=FEED)
    return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="feeds"'})
