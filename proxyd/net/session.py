"""The HTTP session of proxyd: guarded, without cookies, without the environment's proxies."""

from __future__ import annotations

import asyncio
import hashlib
import resource
import socket
import ssl
import threading
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import aiohttp

from proxyd import __version__
from proxyd.net.guard import Guard, GuardedResolver
from proxyd.net.tolerant_responses import TolerantConnector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from aiohttp.abc import AbstractResolver

_DER = 2  # the encoding, as Python names it within
_SHOWN = "certificate"  # the name of an error's attribute
_NAME_THREADS = 64  # so that slow name servers do not hold up other lookups


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of a session.

    Parameters
    ----------
    connections, connections_per_host
        Open connections; 0 is no limit. A limit would delay probes behind those of slow origins: the probing budget
        and the probes' timeout bound the open connections instead.
    keepalive_s
        How long a connection without a request stays open.
    connect_timeout_s
        For one address, TCP and TLS together.
    dns_ttl_s
        How long resolved addresses are cached.
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
    """The part of an event loop that aiohttp's resolver uses, with threads of its own.

    A name server that hangs would otherwise occupy the shared threads: no profile could be reloaded. The process also
    ends without waiting for these threads, unlike an executor's.
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
        except (OSError, ValueError) as error:  # a name may be invalid
            tell = partial(found.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._end, tell, found)

    def _end(self, tell: Callable[[], None], found: asyncio.Future[Any]) -> None:
        self._free.release()
        if not found.done():
            tell()


def user_agent(contact: str) -> str:
    """Return the User-Agent, such as ``proxyd/0.1.0 (+mailto:me@example.org)``; only the name without a contact."""
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
    """Open a session that connects to allowed addresses only, or through ``proxy`` to allowed targets.

    The proxy's own address is always allowed; it may hold credentials, which no message repeats.

    The session has no total timeout and no limit for bodies: callers set both. It calls a request's
    ``trace_request_ctx``, if given, when the request is sent; what that raises ends the request unsent.
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
    """Return a guarded connector, or one that connects only to a proxy."""
    return TolerantConnector(
        resolver=resolver if guard is None else GuardedResolver(guard, resolver),
        socket_factory=None if guard is None else guard.open_socket,
        ssl=_tls_context(),
        limit=limits.connections,
        limit_per_host=limits.connections_per_host,
        keepalive_timeout=limits.keepalive_s,
        use_dns_cache=True,
        ttl_dns_cache=int(limits.dns_ttl_s),
    )


class _ShowingSSL(ssl.SSLObject):
    """TLS that shows the certificate it refuses: a captive portal has the same one for all hosts."""

    def do_handshake(self) -> None:
        """Shake hands; the error of a certificate that is not trusted tells its hash."""
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as error:
            vars(error)[_SHOWN] = _certificate_of(self)
            raise


def _tls_context() -> ssl.SSLContext:
    """Return the default settings of TLS, with a memory for certificates that are refused."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    context.sslobject_class = _ShowingSSL
    return context


def _certificate_of(connection: Any) -> str:
    """Return the hash of the certificate of a handshake that failed, or ``""``.

    Python 3.13 has a method for it, and before that only the object below has one.
    """
    of = connection if hasattr(connection, "get_unverified_chain") else connection._sslobj  # noqa: SLF001
    for certificate in of.get_unverified_chain() or ():
        data = certificate if isinstance(certificate, bytes) else certificate.public_bytes(_DER)
        return hashlib.sha256(data).hexdigest()
    return ""


def untrusted_certificate(error: aiohttp.ClientConnectorCertificateError) -> str:
    """Return the SHA-256 of the certificate for which a connection was refused, or ``""`` if it is not known."""
    return str(vars(error.certificate_error).get(_SHOWN, ""))


def _checking(guard: Guard, resolver: AbstractResolver) -> aiohttp.ClientMiddlewareType:
    """Return a middleware that checks every target before the proxy is asked for it."""

    async def check(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        await guard.check_target(request.url, resolver)
        return await handler(request)

    return check


RESERVED = 756  # 500 connections of the listener, the database, the parsers and the interpreter's own files
_MOST = 1 << 20  # if the system sets no limit


def raise_open_files() -> int:
    """Raise the soft limit of open files to the hard one, if allowed, and return the resulting limit."""
    soft, hard = (_MOST if limit == resource.RLIM_INFINITY else limit for limit in _limits())
    if soft < hard:
        with suppress(ValueError, OSError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, _limits()[1]))
            return hard
    return soft


def room_for_connections(open_files: int) -> int:
    """Return how many connections may be open at once and leave files for everything else.

    >>> room_for_connections(20_000), room_for_connections(300)
    (19244, 64)
    """
    return max(open_files - RESERVED, 64)


def _limits() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)
