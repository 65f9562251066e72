"""The HTTP session of proxyd: guarded, without cookies, without the environment's proxies."""

from __future__ import annotations

import asyncio
import resource
import socket
import threading
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import aiohttp

from proxyd import __version__
from proxyd.net.guard import Guard, GuardedResolver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from aiohttp.abc import AbstractResolver

_NAME_THREADS = 64  # names of slow servers hold up no others


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """What a session may use at once.

    Parameters
    ----------
    connections, connections_per_host
        Open connections; 0 is no limit. Probes that wait for one of slow origins' would come late: what is open is
        bounded by the probing budget and the probes' timeout, not here.
    keepalive_s
        How long a connection without a request stays open.
    connect_timeout_s
        For one address: TCP and TLS together.
    dns_ttl_s
        How long resolved addresses are reused.
    header_bytes
        Longest status line and longest header of a response.
    """

    connections: int = 0
    connections_per_host: int = 8
    keepalive_s: float = 15.0
    connect_timeout_s: float = 10.0
    dns_ttl_s: float = 60.0
    header_bytes: int = 32_768


class NameThreads:
    """What aiohttp's resolver asks of an event loop, done by threads of its own.

    A server of names that hangs would else take the threads of everybody who needs one: no profile was reloaded. The
    end of the process does not wait for them either, as it would for those of an executor.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._free = asyncio.Semaphore(_NAME_THREADS)

    async def getaddrinfo(self, *where: Any, **options: Any) -> Any:
        """Return the addresses of a name."""
        return await self._look_up(partial(socket.getaddrinfo, *where, **options))

    async def getnameinfo(self, *where: Any) -> Any:
        """Return an address as text."""
        return await self._look_up(partial(socket.getnameinfo, *where))

    async def _look_up(self, ask: Callable[[], Any]) -> Any:
        await self._free.acquire()
        found: asyncio.Future[Any] = self._loop.create_future()
        threading.Thread(target=self._ask, args=(ask, found), name="names", daemon=True).start()
        return await found

    def _ask(self, ask: Callable[[], Any], found: asyncio.Future[Any]) -> None:
        try:
            tell = partial(found.set_result, ask())
        except (OSError, ValueError) as error:  # a name may be none at all
            tell = partial(found.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._end, tell, found)

    def _end(self, tell: Callable[[], None], found: asyncio.Future[Any]) -> None:
        self._free.release()
        if not found.done():
            tell()


def user_agent(contact: str) -> str:
    """Return the User-Agent, such as ``proxyd/0.1.0 (+mailto:me@example.org)``; without a contact the name alone."""
    return f"proxyd/{__version__} (+{contact})" if contact else f"proxyd/{__version__}"


@asynccontextmanager
async def make_session(
    guard: Guard,
    *,
    contact: str,
    limits: SessionLimits | None = None,
    resolver: AbstractResolver | None = None,
    proxy: str = "",
) -> AsyncIterator[aiohttp.ClientSession]:
    """Open a session that connects to allowed addresses only, or through ``proxy`` to whatever may be asked.

    The address of the proxy is allowed by being given; it may hold credentials, which no message repeats.

    It has no total timeout and reads bodies without a bound: callers set both. It calls the ``trace_request_ctx`` of a
    request, where one is given, when that has been sent.
    """
    limits, names = limits or SessionLimits(), NameThreads()
    resolver = resolver or aiohttp.ThreadedResolver(cast("asyncio.AbstractEventLoop", names))
    session = aiohttp.ClientSession(
        connector=_connector(None if proxy else guard, limits, resolver),
        proxy=proxy or None,
        middlewares=(_checking(guard, resolver),) if proxy else (),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": user_agent(contact), "Accept-Encoding": "gzip, deflate"},
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect_timeout_s),
        trace_configs=[_telling()],
        trust_env=False,
        auto_decompress=True,
        max_line_size=limits.header_bytes,
        max_field_size=limits.header_bytes,
    )
    async with session:
        yield session


def _telling() -> aiohttp.TraceConfig:
    async def tell(_session: aiohttp.ClientSession, of: SimpleNamespace, _params: object) -> None:
        if of.trace_request_ctx is not None:
            of.trace_request_ctx()

    config = aiohttp.TraceConfig()
    config.on_request_headers_sent.append(tell)
    return config


def _connector(guard: Guard | None, limits: SessionLimits, resolver: AbstractResolver) -> aiohttp.TCPConnector:
    """Return a connector that is guarded, or one that connects to a proxy alone."""
    return aiohttp.TCPConnector(
        resolver=resolver if guard is None else GuardedResolver(guard, resolver),
        socket_factory=None if guard is None else guard.open_socket,
        limit=limits.connections,
        limit_per_host=limits.connections_per_host,
        keepalive_timeout=limits.keepalive_s,
        use_dns_cache=True,
        ttl_dns_cache=int(limits.dns_ttl_s),
    )


def _checking(guard: Guard, resolver: AbstractResolver) -> aiohttp.ClientMiddlewareType:
    """Return what looks at every target before the proxy is asked for it."""

    async def check(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        await guard.check_target(request.url, resolver)
        return await handler(request)

    return check


RESERVED = 256  # the database, the parsers, the API and whatever the interpreter opens
_MOST = 1 << 20  # where the system sets no limit


def raise_open_files() -> int:
    """Raise the soft limit of open files to the hard one, if that may be done, and return what holds then."""
    soft, hard = (_MOST if limit == resource.RLIM_INFINITY else limit for limit in _limits())
    if soft < hard:
        with suppress(ValueError, OSError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, _limits()[1]))
            return hard
    return soft


def room_for_connections(open_files: int) -> int:
    """Return how many connections may be open at once, so that something is left for everything else.

    >>> room_for_connections(20_000), room_for_connections(300)
    (19744, 64)
    """
    return max(open_files - RESERVED, 64)


def _limits() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)
