"""One GET or POST within limits of time, size and redirects, every hop guarded and paced."""

from __future__ import annotations

import asyncio
import re
import ssl
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from proxyd.base.ports import always
from proxyd.core.errors import FetchError, FetchTimeoutError, LeaseLostError
from proxyd.core.model.outcome import NO_VALIDATORS, Validators
from proxyd.core.model.site import CONNECTIONS
from proxyd.net.guard import refusal_in
from proxyd.net.http_values import describe, fresh_for_s, read_url, retry_after_s
from proxyd.net.session import GuardedConnector, certificate_end_s, certificate_of_refusal
from proxyd.probing.documents.probe_failures import QueueTimeoutError, TooLargeError, TooManyRedirectsError
from proxyd.probing.http.body_decoding import Decoder, read_decoded
from proxyd.tracing import NO_TRACES, Tracer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from proxyd.base.ports import Clock, MaySend
    from proxyd.core.model.outcome import Picture
    from proxyd.net.guard import Guard
    from proxyd.net.host_turns import HostTokens, Turn

_ACCEPT = (
    "application/atom+xml, application/rss+xml, application/rdf+xml;q=0.9, "
    "application/xml;q=0.8, text/xml;q=0.8, */*;q=0.5"
)
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PERMANENT = frozenset({301, 308})
KEEPS_METHOD = frozenset({307, 308})
_UNSENDABLE = re.compile(r"[\x00-\x1f\ud800-\udfff]")
HIDDEN = "[hidden]"
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})
_OWN_HEADERS = {
    "accept-encoding",
    "authorization",
    "connection",
    "content-length",
    "expect",
    "host",
    "if-modified-since",
    "if-none-match",
    "proxy-authorization",
    "te",
    "transfer-encoding",
    "upgrade",
    "user-agent",
}


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of one fetch."""

    total_s: float = 30.0  # connecting, redirects and bodies together; waiting for host tokens does not count
    queue_s: float = 600.0  # longest wait for a turn at one host
    body_bytes: int = 10 * 1024 * 1024  # longest body after decoding
    redirects: int = 20  # most hops after the first request; as many as browsers follow
    cut: bool = False  # whether a body that is too long is cut rather than refused


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, without its secrets, and the head of its response; without a response, ``status`` is ``None``."""

    url: str
    sent: Mapping[str, str]
    status: int | None = None
    received: tuple[tuple[str, str], ...] = ()
    method: str = "GET"


@dataclass(slots=True)
class ProbeTrace:
    """The steps of a fetch so far, recorded even if it fails."""

    is_shown: bool = True  # only then `exchanges` are kept: nobody looks at those of the daemon's probes
    # Asked before each request: before a connection is opened for it, which may take long, and once there is one
    may_send: MaySend = always
    requests: int = 0
    started_s: float | None = None
    body_bytes: int = 0
    is_answered: bool = False  # whether bytes of any answer came
    certificate: str = ""  # the hash of one that was not trusted
    certificate_end_s: float | None = None  # when the first of those on the way expires
    exchanges: list[Exchange] = field(default_factory=list)
    crawl_delay_s: float | None = None
    remarks: list[str] = field(default_factory=list)  # shown to people with the outcome

    def count_bytes(self, number: int) -> None:
        """Add decoded bytes."""
        self.body_bytes += number

    def begin(self, now_s: float) -> None:
        """Record that a request is about to be sent; raise ``LeaseLostError`` if it may not be."""
        self.check()
        self.requests += 1
        self.started_s = now_s if self.started_s is None else self.started_s

    def check(self) -> None:
        """Raise ``LeaseLostError`` if a request may not be sent now."""
        if not self.may_send():
            raise LeaseLostError("a request was not sent: this machine has lost its lease")

    def add_detour(self, other: ProbeTrace) -> None:
        """Add the requests of a fetch that this one needed; its bytes do not count for the document."""
        self.requests += other.requests
        self.started_s = other.started_s if self.started_s is None else self.started_s
        self.is_answered = self.is_answered or other.is_answered
        self.certificate = other.certificate or self.certificate
        self.exchanges.extend(other.exchanges)

    def note_certificate(self, end_s: float) -> None:
        """Record when the certificate of a connection expires."""
        self.certificate_end_s = end_s if self.certificate_end_s is None else min(end_s, self.certificate_end_s)

    @contextmanager
    def note_contact(self) -> Iterator[None]:
        """Record what an error of the HTTP client shows of the other side: a certificate, or bytes of an answer."""
        try:
            yield
        except aiohttp.ClientConnectorCertificateError as error:
            self.certificate = certificate_of_refusal(error.certificate_error)
            self.is_answered = self.is_answered or not self.certificate
            raise
        except ssl.SSLCertVerificationError as error:  # of a connection without HTTP
            self.certificate = certificate_of_refusal(error)
            raise
        except aiohttp.ClientHttpProxyError:
            raise  # only the proxy has answered
        except (aiohttp.ClientSSLError, aiohttp.ClientResponseError, aiohttp.ClientPayloadError):
            self.is_answered = True
            raise


class RequestGate(Protocol):
    """Checks every request of a fetch, redirects included, before it is sent."""

    async def __call__(self, url: URL, trace: ProbeTrace, /) -> float:
        """Return the minimum seconds since the last request to the host, or raise a ProbeError to forbid this one."""


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """What to fetch, and what to send with it."""

    url: str
    validators: Validators = NO_VALIDATORS
    # Sent only to the origin of `home`. Headers that the request sets itself are ignored.
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    authorization: str | None = field(default=None, repr=False)
    home: str | None = None  # the URL that they are meant for; `None` means `url`
    gate: RequestGate | None = None  # called before every request, including the first
    # The body of a POST; without one, the request is a GET. It is sent only to the origin of `home`.
    post: bytes | None = field(default=None, repr=False)
    wants_picture: bool = False  # whether a browser that renders the page takes a picture of it
    # Whether only the answer counts: a body that is too long is cut rather than refused, and an address of tcp or tls
    # is connected to
    of_site: bool = False
    wants_line: bool = False  # whether a connection waits for the first line that the server says


class Fetch(Protocol):
    """The interface through which probes and robots.txt are fetched."""

    async def fetch(self, request: FetchRequest, trace: ProbeTrace | None = None) -> FetchResponse:
        """Return the last response or raise a ProbeError."""


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """The last response of a fetch."""

    status: int
    url: str  # the URL of the response, after redirects
    headers: CIMultiDictProxy[str]
    body: bytes  # decoded; only for status 200 and 203
    requests: int
    retry_after_s: float | None = None
    fresh_for_s: float | None = None
    # The target of the leading 301 and 308 redirects; `None` if the first response is not one of them
    permanent_url: str | None = None
    host: str | None = None  # the host of `url`
    picture: Picture | None = None  # the page as a browser showed it

    @property
    def is_throttling(self) -> bool:
        """Whether the host asks for fewer requests: by 429, or by a 503 that says for how long."""
        # A 503 alone is how most sites are down; it says nothing of the host's other pages
        return self.status == 429 or (self.status == 503 and bool(self.retry_after_s))

    @property
    def validators(self) -> Validators:
        """Validators for the next request, exactly as received; those that cannot be sent are left out."""
        return Validators(
            etag=_sendable(self.headers.get("ETag")), last_modified=_sendable(self.headers.get("Last-Modified"))
        )


@dataclass(frozen=True, slots=True)
class _Redirect:
    url: URL
    permanent: bool
    status: int


_Hop: TypeAlias = FetchResponse | _Redirect


class Fetcher:
    """Fetches documents; raises an error of the ProbeError family for every network failure."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        guard: Guard,
        tokens: HostTokens,
        clock: Clock,
        limits: FetchLimits | None = None,
        tracer: Tracer = NO_TRACES,
    ) -> None:
        self._session = session
        self._guard = guard
        self._tokens = tokens
        self._clock = clock
        self._limits = limits or FetchLimits()
        self._tracer = tracer

    async def fetch(self, request: FetchRequest, trace: ProbeTrace | None = None) -> FetchResponse:
        """Return the response after redirects, with any status.

        Raises ``BlockedAddressError``: the guard refused a URL or an address, of the first request or of a redirect;
        ``FetchTimeoutError``: it took longer than allowed, or a host's queue was too long; ``FetchError``: the response
        could not be obtained, was truncated or too long, or redirected endlessly; or the request's gate raised an
        error.
        """
        target, permanent_url, only_permanent = _parse_url(request.url), None, True
        home = target if request.home in {None, request.url} else _parse_url(request.home or "")
        course = _Course(request, home, trace if trace is not None else ProbeTrace(), _Budget(self._limits.total_s))
        if request.of_site and target.scheme in CONNECTIONS:
            return await self._connect(target, course)
        for _ in range(self._limits.redirects + 1):
            hop = await self._hop(target, course)
            if isinstance(hop, FetchResponse):
                return _with_permanent(hop, permanent_url)
            only_permanent = only_permanent and hop.permanent
            permanent_url = str(hop.url) if only_permanent else permanent_url
            target = hop.url
        raise TooManyRedirectsError(f"more than {self._limits.redirects} redirects")

    async def _hop(self, url: URL, course: _Course) -> _Hop:
        self._guard.check_url(url)
        gate = course.request.gate
        spacing_s = 0.0 if gate is None else await gate(url, course.trace)
        host = url.raw_host or ""
        with await self._turn(host, spacing_s) as turn, self._tracer.span("request", {"host": host}) as span:
            hop = await self._exchange(url, course, turn)
            span.note(status=hop.status)
            return hop

    async def _connect(self, url: URL, course: _Course) -> FetchResponse:
        """Open a connection and end it; the body is the first line that the server says, if that is asked for."""
        self._guard.check_connection(url)
        host, trace, connector = url.raw_host or "", course.trace, self._session.connector
        assert isinstance(connector, GuardedConnector)
        with await self._turn(host, 0.0) as turn, self._tracer.span("connect", {"host": host}):
            trace.begin(self._clock.time_s())
            course.show_sent(url, {})
            with course.budget.spending() as left_s, client_errors(), trace.note_contact():
                async with asyncio.timeout(left_s):
                    _leave(trace, turn)
                    reader, writer = await connector.open(url)
                    try:
                        trace.is_answered = True
                        if (end_s := certificate_end_s(writer.get_extra_info("ssl_object"))) is not None:
                            trace.note_certificate(end_s)
                        line = await _first_line(reader) if course.request.wants_line else b""
                    finally:
                        writer.transport.abort()  # to end TLS in order would wait for the other side, for up to 30 s
            trace.count_bytes(len(line))
            return FetchResponse(200, str(url), CIMultiDictProxy(CIMultiDict()), line, trace.requests, host=host)

    async def _turn(self, host: str, spacing_s: float) -> Turn:
        try:
            async with asyncio.timeout(self._limits.queue_s):
                return await self._tokens.enter(host, spacing_s)
        except TimeoutError as error:
            message = f"the queue of {host} is longer than {self._limits.queue_s:g} s"
            raise QueueTimeoutError(message) from error

    async def _exchange(self, url: URL, course: _Course, turn: Turn) -> _Hop:
        headers, trace = course.headers_for(url), course.trace
        trace.begin(self._clock.time_s())
        course.show_sent(url, headers)
        with course.budget.spending() as left_s, client_errors(), trace.note_contact():
            asking = self._session.request(
                course.method,
                url,
                data=course.body_for(url),
                headers=headers,
                allow_redirects=False,
                auto_decompress=False,
                trace_request_ctx=partial(_leave, trace, turn),
            )
            async with asyncio.timeout(left_s), asking as response:
                trace.is_answered = True
                if (end_s := getattr(response, "certificate_end_s", None)) is not None:
                    trace.note_certificate(end_s)
                course.show_received(url, response)
                if response.status in REDIRECTS and "Location" in response.headers:
                    course.follow_redirect(response)
                    return _Redirect(next_url(response), response.status in _PERMANENT, response.status)
                return await self._response(response, course)

    async def _response(self, response: aiohttp.ClientResponse, course: _Course) -> FetchResponse:
        body = b""
        if response.status in {200, 203}:
            body = await self._body(response, course)
        return FetchResponse(
            status=response.status,
            url=str(response.url),
            host=response.url.host,
            headers=response.headers,
            body=body,
            requests=course.trace.requests,
            retry_after_s=retry_after_s(response.headers, self._clock.time_s()),
            fresh_for_s=fresh_for_s(response.headers, self._clock.time_s()),
        )

    async def _body(self, response: aiohttp.ClientResponse, course: _Course) -> bytes:
        limit, trace = self._limits.body_bytes, course.trace
        encoding = response.headers.get("Content-Encoding", "")
        if self._limits.cut or course.request.of_site:
            return await _beginning(response.content.iter_any(), encoding, limit, trace.count_bytes)
        announced = response.content_length
        if announced is not None and announced > limit:
            raise TooLargeError(f"the body is to have {announced} bytes; at most {limit} are allowed")
        return await read_decoded(response.content.iter_any(), encoding, limit, trace.count_bytes, unpacks=True)


class _Budget:
    """A time limit that is spent in parts."""

    def __init__(self, total_s: float) -> None:
        self._total_s = total_s
        self._left_s = total_s

    @contextmanager
    def spending(self) -> Iterator[float]:
        """Yield the remaining time, after which the block raises TimeoutError, which becomes a FetchTimeoutError."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            yield max(0.0, self._left_s)
        except TimeoutError as error:
            raise FetchTimeoutError(f"no complete response within {self._total_s:g} s") from error
        finally:
            self._left_s -= loop.time() - began_s


class _Course:
    """A running fetch: its request, its steps and its remaining limits."""

    def __init__(self, request: FetchRequest, home: URL, trace: ProbeTrace, budget: _Budget) -> None:
        self.request = request
        self.trace = trace
        self.budget = budget
        self._home = origin_of(home)
        self._post = request.post
        self._cookies: aiohttp.CookieJar | None = None
        self._private = {name: value for name, value in request.headers if is_addable(name, value)}
        if request.authorization is not None:
            self._private["Authorization"] = request.authorization
        self._hidden = _SECRET_HEADERS | {name.lower() for name in self._private}

    @property
    def method(self) -> str:
        """The method of the next request."""
        return "GET" if self._post is None else "POST"

    def headers_for(self, url: URL) -> CIMultiDict[str]:
        """Return the headers to send to a URL."""
        headers = _request_headers(NO_VALIDATORS if self._post is not None else self.request.validators)
        if self._post is not None:
            headers["Content-Type"] = _content_type(self._post)
        if origin_of(url) == self._home:
            headers.update(self._private)
        if cookies := self._cookies_for(url):
            headers["Cookie"] = "; ".join([*headers.getall("Cookie", ()), *cookies])
        return headers

    def _cookies_for(self, url: URL) -> list[str]:
        """Return the cookies that redirects have set for a URL: without them, a login page redirects to itself."""
        found = () if self._cookies is None else self._cookies.filter_cookies(url).values()
        return [f"{cookie.key}={cookie.value}" for cookie in found]

    def body_for(self, url: URL) -> bytes | None:
        """Return the body to send to a URL; raises ``FetchError`` if a POST would go to another origin."""
        if self._post is not None and origin_of(url) != self._home:
            raise FetchError(
                f"the server redirects the POST to {url.host}, which does not get its body; correct the address"
            )
        return self._post

    def follow_redirect(self, response: aiohttp.ClientResponse) -> None:
        """Go on with the cookies of a redirect, and by GET, without the body, unless it keeps the method (307, 308)."""
        if response.status not in KEEPS_METHOD:
            self._post = None
        if response.cookies:
            self._cookies = self._cookies or aiohttp.CookieJar(unsafe=True, quote_cookie=False)
            self._cookies.update_cookies(response.cookies, response.url)

    def show_sent(self, url: URL, headers: Mapping[str, str]) -> None:
        """Record a request that is about to be sent."""
        if self.trace.is_shown:
            self.trace.exchanges.append(Exchange(str(url), self._shown(headers), method=self.method))

    def show_received(self, url: URL, response: aiohttp.ClientResponse) -> None:
        """Record the headers as sent, and the response."""
        if self.trace.is_shown:
            sent, received = self._shown(response.request_info.headers), tuple(response.headers.items())
            self.trace.exchanges[-1] = Exchange(str(url), sent, response.status, received, self.method)

    def _shown(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Return headers for people, without values that may be secret."""
        return {name: HIDDEN if name.lower() in self._hidden else value for name, value in headers.items()}


def origin_of(url: URL) -> tuple[str, str, int | None]:
    """Return the origin of a URL: what secrets that are meant for it are sent to."""
    return url.scheme, (url.raw_host or "").lower(), url.port


def is_addable(name: str, value: str) -> bool:
    """Return whether a header may be added; the rule language rejects the others with a reason."""
    return name.isascii() and name.lower() not in _OWN_HEADERS and value.isascii() and value.isprintable()


async def _first_line(reader: asyncio.StreamReader) -> bytes:
    """Return the first line that a server says, or what it says before it ends the connection, or its first 64 kB."""
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError as error:
        return await reader.readexactly(error.consumed)


async def _beginning(chunks: AsyncIterator[bytes], encoding: str, limit: int, count: Callable[[int], None]) -> bytes:
    """Return the decoded body, or its first ``limit`` bytes, without reading further."""
    decoder = Decoder(encoding, unpacks=True)
    pieces: list[bytes] = []
    room = limit
    async for chunk in chunks:
        for piece in decoder.decode(chunk):
            count(len(piece))
            pieces.append(piece[:room])
            room -= len(piece)
            if room <= 0:
                return b"".join(pieces)
        if decoder.received > limit:
            return b"".join(pieces)
    return b"".join([*pieces, *decoder.finish()])[:limit]


@contextmanager
def client_errors() -> Iterator[None]:
    """Turn the HTTP client's errors into the ProbeError family."""
    try:
        yield
    except aiohttp.ServerTimeoutError as error:
        raise FetchTimeoutError(describe(error)) from error
    except (aiohttp.ClientError, OSError, UnicodeError) as error:
        if isinstance(error, TimeoutError):
            raise  # raised by the budget itself
        raise refusal_in(error) or FetchError(describe(error)) from error


def _leave(trace: ProbeTrace, turn: Turn) -> None:
    """Let a request leave, or raise ``LeaseLostError``: the machine may have stood still since it was begun."""
    trace.check()
    turn.sent()


def _request_headers(validators: Validators) -> CIMultiDict[str]:
    headers = CIMultiDict({"Accept": _ACCEPT})
    if (etag := _sendable(validators.etag)) is not None:
        headers["If-None-Match"] = etag
    if (last_modified := _sendable(validators.last_modified)) is not None:
        headers["If-Modified-Since"] = last_modified
    return headers


def _content_type(body: bytes) -> str:
    """Return the type of a body whose profile names none: JSON if it looks like that, else a form.

    >>> _content_type(b' {"query": "{ news }"}'), _content_type(b"a=1&b=2")
    ('application/json', 'application/x-www-form-urlencoded')
    """
    return "application/json" if body.lstrip()[:1] in {b"{", b"["} else "application/x-www-form-urlencoded"


def _sendable(value: str | None) -> str | None:
    """Return a header's value if it can be sent back; bytes that are not UTF-8 arrive as surrogates and cannot."""
    return value if value and len(value) <= 4096 and _UNSENDABLE.search(value) is None else None


def _parse_url(text: str) -> URL:
    url = read_url(text)
    if url is None:
        raise FetchError("the source's URL is not valid; correct it in the profile")
    return url


def next_url(response: aiohttp.ClientResponse) -> URL:
    """Return where a response redirects; raises ``FetchError`` if that is not a URL."""
    url = read_url(response.headers["Location"], response.url)
    if url is None:
        raise FetchError("the server redirects to an address that is not a valid URL")
    return url


def _with_permanent(response: FetchResponse, permanent_url: str | None) -> FetchResponse:
    return response if permanent_url is None else replace(response, permanent_url=permanent_url)
