"""One GET within limits of time, size and redirects, every hop guarded and paced."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import aiohttp
from yarl import URL

from proxyd.errors import FetchError, FetchTimeoutError
from proxyd.model.outcome import Validators
from proxyd.net import describe, fresh_for_s, one_line, refusal_in, retry_after_s
from proxyd.probing.decoding import read_decoded
from proxyd.probing.failures import TooLargeError, TooManyRedirectsError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from multidict import CIMultiDictProxy

    from proxyd.net import Guard, HostTokens
    from proxyd.ports import Clock

ACCEPT = (
    "application/atom+xml, application/rss+xml, application/rdf+xml;q=0.9, "
    "application/xml;q=0.8, text/xml;q=0.8, */*;q=0.5"
)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PERMANENT = frozenset({301, 308})


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """What one fetch may cost.

    Parameters
    ----------
    total_s
        Connecting, redirects and bodies together; waiting for host tokens does not count.
    queue_s
        Longest wait for the token of one host.
    body_bytes
        Longest body after decoding.
    redirects
        Most hops after the first request.
    """

    total_s: float = 30.0
    queue_s: float = 600.0
    body_bytes: int = 10 * 1024 * 1024
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and the head of its response; ``status`` is ``None`` where none came."""

    url: str
    sent: Mapping[str, str]
    status: int | None = None
    received: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Trip:
    """What a fetch has done so far; it is told also when the fetch fails."""

    requests: int = 0
    started_s: float | None = None
    body_bytes: int = 0
    exchanges: list[Exchange] = field(default_factory=list)

    def count_bytes(self, number: int) -> None:
        """Add decoded bytes."""
        self.body_bytes += number


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """The last response of a fetch.

    Parameters
    ----------
    url
        Where the response came from.
    permanent_url
        Where the redirects of kind 301 and 308 led, up to the first of another kind; ``None`` without any.
    body
        Decoded; only of status 200 and 203.
    """

    status: int
    url: str
    headers: CIMultiDictProxy[str]
    body: bytes
    requests: int
    retry_after_s: float | None = None
    fresh_for_s: float | None = None
    permanent_url: str | None = None

    @property
    def validators(self) -> Validators:
        """Return what to send back next time, exactly as received; what cannot be sent is left out."""
        return Validators(
            etag=_sendable(self.headers.get("ETag")), last_modified=_sendable(self.headers.get("Last-Modified"))
        )


@dataclass(frozen=True, slots=True)
class _Redirect:
    url: URL
    permanent: bool


_Hop: TypeAlias = FetchResponse | _Redirect


class Fetcher:
    """Fetches documents; raises the ProbeError family for everything that the network can do."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        guard: Guard,
        tokens: HostTokens,
        clock: Clock,
        limits: FetchLimits | None = None,
    ) -> None:
        self._session = session
        self._guard = guard
        self._tokens = tokens
        self._clock = clock
        self._limits = limits or FetchLimits()

    async def fetch(self, url: str, validators: Validators | None = None, trip: Trip | None = None) -> FetchResponse:
        """Return the response after redirects, whatever its status.

        Raises
        ------
        BlockedAddressError
            The guard refused a URL or an address, of the first request or of a hop.
        FetchTimeoutError
            It took longer than allowed, or a host's queue was too long.
        FetchError
            The response could not be obtained, was cut off, too long or redirected without end.
        """
        trip = trip if trip is not None else Trip()
        budget = _Budget(self._limits.total_s)
        headers = _request_headers(validators or Validators())
        target, permanent_url, only_permanent = _parse_url(url), None, True
        for _ in range(self._limits.redirects + 1):
            hop = await self._hop(target, headers, budget, trip)
            if isinstance(hop, FetchResponse):
                return _with_permanent(hop, permanent_url)
            only_permanent = only_permanent and hop.permanent
            permanent_url = str(hop.url) if only_permanent else permanent_url
            target = hop.url
        raise TooManyRedirectsError(f"more than {self._limits.redirects} redirects")

    async def _hop(self, url: URL, headers: Mapping[str, str], budget: _Budget, trip: Trip) -> _Hop:
        self._guard.check_url(url)
        await self._take_token(url)
        trip.requests += 1
        if trip.started_s is None:
            trip.started_s = self._clock.time_s()
        trip.exchanges.append(Exchange(str(url), headers))
        async with (
            budget.spending(),
            _client_errors(),
            self._session.get(url, headers=headers, allow_redirects=False, auto_decompress=False) as response,
        ):
            received = tuple(response.headers.items())
            trip.exchanges[-1] = Exchange(str(url), response.request_info.headers, response.status, received)
            if response.status in _REDIRECTS and "Location" in response.headers:
                return _Redirect(_next_url(response), response.status in _PERMANENT)
            return await self._response(response, trip)

    async def _take_token(self, url: URL) -> None:
        try:
            async with asyncio.timeout(self._limits.queue_s):
                await self._tokens.take(url.raw_host or "")
        except TimeoutError as error:
            raise FetchTimeoutError(f"the queue of {url.raw_host} is longer than {self._limits.queue_s:g} s") from error

    async def _response(self, response: aiohttp.ClientResponse, trip: Trip) -> FetchResponse:
        body = b""
        if response.status in {200, 203}:
            body = await self._body(response, trip)
        return FetchResponse(
            status=response.status,
            url=str(response.url),
            headers=response.headers,
            body=body,
            requests=trip.requests,
            retry_after_s=retry_after_s(response.headers, self._clock.time_s()),
            fresh_for_s=fresh_for_s(response.headers, self._clock.time_s()),
        )

    async def _body(self, response: aiohttp.ClientResponse, trip: Trip) -> bytes:
        limit = self._limits.body_bytes
        encoding = response.headers.get("Content-Encoding", "")
        announced = response.content_length
        if announced is not None and announced > limit:
            raise TooLargeError(f"{announced} bytes are announced, {limit} are allowed")
        return await read_decoded(response.content.iter_any(), encoding, limit, trip.count_bytes)


class _Budget:
    """Time that is spent piece by piece."""

    def __init__(self, total_s: float) -> None:
        self._total_s = total_s
        self._left_s = total_s

    @asynccontextmanager
    async def spending(self) -> AsyncIterator[None]:
        """Run the block within what is left; raise FetchTimeoutError where it is not enough."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        try:
            async with asyncio.timeout(max(0.0, self._left_s)):
                yield
        except TimeoutError as error:
            raise FetchTimeoutError(f"no complete response within {self._total_s:g} s") from error
        finally:
            self._left_s -= loop.time() - began_s


@asynccontextmanager
async def _client_errors() -> AsyncIterator[None]:
    """Turn what the HTTP client raises into the ProbeError family."""
    try:
        yield
    except aiohttp.ServerTimeoutError as error:
        raise FetchTimeoutError(describe(error)) from error
    except (aiohttp.ClientError, OSError, UnicodeError) as error:
        if isinstance(error, TimeoutError):
            raise  # the budget's own
        raise refusal_in(error) or FetchError(describe(error)) from error


def _request_headers(validators: Validators) -> dict[str, str]:
    headers = {"Accept": ACCEPT}
    if (etag := _sendable(validators.etag)) is not None:
        headers["If-None-Match"] = etag
    if (last_modified := _sendable(validators.last_modified)) is not None:
        headers["If-Modified-Since"] = last_modified
    return headers


def _sendable(value: str | None) -> str | None:
    """Return a header's value if it can be sent back; bytes that are no UTF-8 arrive as surrogates and cannot."""
    if not value or len(value) > 4096 or any(ord(char) < 32 or 0xD800 <= ord(char) < 0xE000 for char in value):
        return None
    return value


def _parse_url(text: str) -> URL:
    try:
        return URL(text)
    except ValueError as error:
        raise FetchError(f"the URL cannot be read: {one_line(str(error))}") from error


def _next_url(response: aiohttp.ClientResponse) -> URL:
    try:
        return response.url.join(URL(response.headers["Location"]))
    except ValueError as error:
        raise FetchError(f"the redirect cannot be read: {one_line(str(error))}") from error


def _with_permanent(response: FetchResponse, permanent_url: str | None) -> FetchResponse:
    return response if permanent_url is None else replace(response, permanent_url=permanent_url)
