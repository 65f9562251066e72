"""The requests of a page that a browser renders: proxyd makes them itself, guards and counts them.

The browser has no other way to the network, so the guard sees every address that is connected. The secrets of a source
go to its own origin only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from multidict import CIMultiDict
from yarl import URL

from proxyd.core.errors import BlockedAddressError, FetchError
from proxyd.net.http_values import read_url
from proxyd.probing.documents.probe_failures import DisallowedError, TooLargeError, TooManyRedirectsError
from proxyd.probing.http.body_decoding import read_decoded
from proxyd.probing.http.fetcher import KEEPS_METHOD, REDIRECTS, client_errors, is_addable, next_url, origin_of

if TYPE_CHECKING:
    import aiohttp

    from proxyd.net.guard import Guard
    from proxyd.probing.http.fetcher import FetchRequest, FetchResponse, ProbeTrace

_Cookies: TypeAlias = Callable[[str], Awaitable[str]]
"""Returns the cookies that a page sends to a URL, as the value of a header."""

_ALLOWED_ORIGIN = "access-control-allow-origin"
_READ_BY_SCRIPTS = frozenset({"xhr", "fetch"})
# Telling proxyd of thousands of requests costs its event loop seconds: then the dead proxy refuses the rest.
_MOST_REFUSED, _MOST_PICTURES = 300, 2_000  # requests, until a page is to ask no more
_METHODS = frozenset({"GET", "HEAD", "POST"})
_LOADED = frozenset({"document", "stylesheet", "script", "xhr", "fetch", "other"})
_SHOWN = frozenset({"image", "font"})  # only a picture of the page needs them
_NOT_SENT = frozenset(
    {"host", "connection", "content-length", "accept-encoding", "cookie", "user-agent", "te", "upgrade", "expect"}
) | {"transfer-encoding", "proxy-authorization", "proxy-connection", "if-none-match", "if-modified-since"}
_NOT_PASSED = frozenset(
    {"content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive", "content-disposition"}
) | {"alt-svc", "strict-transport-security", "link", "report-to", "reporting-endpoints", "nel"}


class _PageLimitError(FetchError):
    """The page makes more requests, or loads more bytes, than it may."""


class _NotLoadedError(FetchError):
    """A request of this kind or method is not made, because pages are read without it."""


@dataclass(frozen=True, slots=True)
class RenderLimits:
    """Limits of one render."""

    total_s: float = 30.0  # time from the document's arrival until the page is read
    settle_s: float = 10.0  # how long a page without WAIT FOR may take to become quiet; then it is read as it is
    # Requests of one page, and their bytes after decoding
    requests: int = 200
    total_bytes: int = 20 * 1024 * 1024
    # Bytes that the requests of one page send. A page that sends more is to ask no more: each body passes through the
    # browser several times, and 200 MB took it to 2 GB.
    sent_bytes: int = 1024 * 1024
    body_bytes: int = 10 * 1024 * 1024  # length of the page as the browser shows it
    redirects: int = 20  # redirects that one request may follow
    at_once: int = 6  # requests of one page that are made at the same time
    renders: int = 2  # pages that are rendered at the same time


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request of a page."""

    url: str
    kind: str = "fetch"  # what it is for, in the words of playwright
    method: str = "GET"
    headers: Mapping[str, str] | None = None
    body: bytes | None = None
    # The URL of the document that asks, which may be a frame of the page; `None` if that is not known
    by: str | None = None


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """What the page gets."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class PageRequests:
    """Answers the requests of one page, the first with its document.

    Parameters
    ----------
    asked
        The request of the document. Its headers and its authorization go to the origin of its ``home`` only, and only
        where a document of that origin asks: frames of others could act in its name.
    cookies
        The cookies of the page, which other pages do not have.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        guard: Guard,
        asked: FetchRequest,
        document: FetchResponse,
        limits: RenderLimits,
        trace: ProbeTrace,
        cookies: _Cookies,
    ) -> None:
        self._session = session
        self._guard = guard
        self._asked = asked
        self._document: FetchResponse | None = document
        self._limits = limits
        self._trace = trace
        self._cookies = cookies
        self._home = origin_of(URL(asked.home or asked.url))
        self._private = _private(asked)
        self._slots = asyncio.Semaphore(limits.at_once)
        self._slots_for_pictures = asyncio.Semaphore(max(1, limits.at_once // 2))
        self._asked_for, self._pictures_asked_for = 0, 0
        self._requests = self._bytes = self._sent_bytes = 0
        self._refused: list[str] = []

    async def answer(self, request: PageRequest) -> PageAnswer:
        """Return the answer to a request, after redirects; raises ``ProbeError`` if there is none."""
        if self._document is not None:
            document, self._document = self._document, None
            return PageAnswer(document.status, _headers_for_browser(document.headers), document.body)
        try:
            self._check_kind(request)
            self._count_sent(request)
            self._check_number(request, self._count_asked(request))  # one too many waits for no turn
            async with self._turn(request):
                return await self._after_redirects(request)
        except (BlockedAddressError, _PageLimitError, TooLargeError, DisallowedError) as error:
            self._refused.append(error.message)
            raise

    def _check_kind(self, request: PageRequest) -> None:
        loaded = _LOADED | _SHOWN if self._asked.wants_picture else _LOADED
        if request.kind not in loaded or request.method not in _METHODS:
            raise _NotLoadedError

    def _count_sent(self, request: PageRequest) -> None:
        self._sent_bytes += len(request.body or b"")
        if self._sent_bytes > self._limits.sent_bytes:
            raise _PageLimitError(f"it sends more than {self._limits.sent_bytes} bytes")

    @asynccontextmanager
    async def _turn(self, request: PageRequest) -> AsyncIterator[None]:
        """Wait for a turn; requests that only a picture needs have at most half of the turns."""
        own = self._slots_for_pictures if request.kind in _SHOWN else nullcontext()
        async with own, self._slots:
            yield

    def _count_asked(self, request: PageRequest) -> int:
        """Return how many requests there were with this one; those that only a picture needs count apart."""
        if request.kind in _SHOWN:
            self._pictures_asked_for += 1
            return self._pictures_asked_for
        self._asked_for += 1
        return self._asked_for

    @property
    def is_endless(self) -> bool:
        """Whether so much was refused that the page is to ask no more; of many requests it is true for one."""
        is_last = self._asked_for == self._limits.requests + _MOST_REFUSED
        is_too_large = self._sent_bytes > self._limits.sent_bytes
        return is_last or is_too_large or self._pictures_asked_for == _MOST_PICTURES

    @property
    def remark(self) -> str | None:
        """How many requests were refused and why the first one was, or ``None``."""
        if not self._refused:
            return None
        count = len(self._refused)
        return f"{count} {'request' if count == 1 else 'requests'} of the page refused: {self._refused[0]}"

    async def _after_redirects(self, request: PageRequest) -> PageAnswer:
        url, method, body = _url_of(request.url), request.method, request.body
        is_own = self._is_own(request)
        for _ in range(self._limits.redirects + 1):
            is_own = is_own and origin_of(url) == self._home
            answer = await self._hop(request, url, method, body, is_own=is_own)
            if isinstance(answer, PageAnswer):
                return _readable(answer, request, url)
            if answer.status not in KEEPS_METHOD and method == "POST":
                method, body = "GET", None
            if body is not None and origin_of(answer.url) != origin_of(url):
                raise FetchError("the server redirects a POST to another origin")
            url = answer.url
        raise TooManyRedirectsError(f"more than {self._limits.redirects} redirects")

    def is_foreign(self, url: str) -> bool:
        """Whether a document is of another origin than the source; an empty one is of the document around it."""
        read = _read(url)
        return not is_empty(url) and (read is None or origin_of(read) != self._home)

    def _is_own(self, request: PageRequest) -> bool:
        """Whether a document of the source's own origin asks, as far as the browser says."""
        said = [request.by, (request.headers or {}).get("origin", request.by)]
        return all(url is not None and origin_of(url) == self._home for url in map(_read, said))

    async def _hop(
        self, request: PageRequest, url: URL, method: str, body: bytes | None, *, is_own: bool
    ) -> PageAnswer | _Redirect:
        self._guard.check_url(url)
        self._count_request(request)
        if request.kind == "document" and self._asked.gate is not None:
            await self._asked.gate(url, self._trace)
        is_foreign = origin_of(url) == self._home and not is_own
        headers = self._headers_for(request, url, "" if is_foreign else await self._cookies(str(url)), is_own=is_own)
        self._trace.requests += 1
        asking = self._session.request(
            method, url, data=body, headers=headers, allow_redirects=False, auto_decompress=False
        )
        with client_errors():
            async with asking as response:
                if response.status in REDIRECTS and "Location" in response.headers:
                    return _Redirect(next_url(response), response.status)
                return PageAnswer(
                    response.status, _headers_for_browser(response.headers), await self._body(request, response)
                )

    async def _body(self, request: PageRequest, response: aiohttp.ClientResponse) -> bytes:
        encoding, most = response.headers.get("Content-Encoding", ""), self._share(request, self._limits.total_bytes)

        def count(number: int) -> None:
            self._bytes += number
            self._trace.count_bytes(number)
            if self._bytes > most:
                raise _PageLimitError(f"it loads more than {most} bytes")

        return await read_decoded(response.content.iter_any(), encoding, most, count)

    def _count_request(self, request: PageRequest) -> None:
        self._check_number(request, self._requests + 1)
        self._requests += 1

    def _check_number(self, request: PageRequest, number: int) -> None:
        most = self._share(request, self._limits.requests)
        if number > most:
            raise _PageLimitError(f"it makes more than {most} requests")

    @staticmethod
    def _share(request: PageRequest, limit: int) -> int:
        """Return the limit for a request: half of it if only a picture needs the request."""
        return limit // 2 if request.kind in _SHOWN else limit

    def _headers_for(self, request: PageRequest, url: URL, cookies: str, *, is_own: bool) -> CIMultiDict[str]:
        """Return the headers to send to a URL; credentials of the page do not follow a redirect to another origin."""
        sent = request.headers or {}
        headers = CIMultiDict((name, value) for name, value in sent.items() if name.lower() not in _NOT_SENT)
        if origin_of(url) != origin_of(_url_of(request.url)):
            headers.popall("authorization", None)
        private = self._private if is_own else CIMultiDict[str]()
        headers.update(private)
        if cookies:
            headers["Cookie"] = "; ".join([*private.getall("Cookie", ()), cookies])
        return headers


@dataclass(frozen=True, slots=True)
class _Redirect:
    url: URL
    status: int


def is_empty(url: str) -> bool:
    """Return whether a frame shows no document of a site, but an empty one of the document around it.

    >>> is_empty(""), is_empty("about:blank"), is_empty("https://example.org/")
    (True, True, False)
    """
    return not url or url.startswith("about:")


def _private(asked: FetchRequest) -> CIMultiDict[str]:
    private = CIMultiDict((name, value) for name, value in asked.headers if is_addable(name, value))
    if asked.authorization is not None:
        private["Authorization"] = asked.authorization
    return private


def _read(text: str | None) -> URL | None:
    return None if text is None else read_url(text)


def _readable(answer: PageAnswer, request: PageRequest, url: URL) -> PageAnswer:
    """Return an answer that scripts of other origins can read only if the server allows it."""
    # Playwright lets them read each answer that names no allowed origin. The browser does not see redirects.
    own = _url_of(request.url).origin()
    if url.origin() != own and request.kind in _READ_BY_SCRIPTS:
        asking, allowed = _read(request.by), _read(answer.headers.get(_ALLOWED_ORIGIN))
        is_allowed = asking is not None and allowed is not None and origin_of(asking) == origin_of(allowed)
        if not is_allowed and answer.headers.get(_ALLOWED_ORIGIN) != "*":
            raise FetchError("the server redirects to another origin, which does not allow that")
    return replace(answer, headers={_ALLOWED_ORIGIN: str(own), **answer.headers})


def _url_of(text: str) -> URL:
    url = read_url(text)
    if url is None:
        raise FetchError("the page asks for an address that is not a valid URL")
    return url


def _headers_for_browser(headers: Mapping[str, str]) -> Mapping[str, str]:
    r"""Return the headers that the browser gets; several cookies stand on lines of their own, as playwright takes them.

    >>> from multidict import CIMultiDict
    >>> _headers_for_browser(CIMultiDict([("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("Content-Length", "3")]))
    {'set-cookie': 'a=1\nb=2'}
    """
    passed: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        if key not in _NOT_PASSED:
            between = "\n" if key == "set-cookie" else ", "
            passed[key] = f"{passed[key]}{between}{value}" if key in passed else value
    return passed
