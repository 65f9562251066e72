"""The HTTP session of proxyd: guarded, without cookies, without the environment's proxies."""

from __future__ import annotations

import asyncio
import hashlib
import re
import resource
import socket
import ssl
import threading
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import aiohappyeyeballs
import aiohttp
from aiohttp.client_proto import ResponseHandler

from proxyd import __version__
from proxyd.net.guard import Guard, GuardedResolver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from aiohttp.abc import AbstractResolver
    from aiohttp.connector import Connection
    from yarl import URL


_DER = 2  # the encoding, as Python names it within
_SHOWN = "certificate"  # the name of an error's attribute
_NAME_THREADS = 64  # so that slow name servers do not hold up other lookups


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of a session."""

    # Open connections; 0 is no limit. A limit would delay probes behind those of slow origins: the probing budget and
    # the probes' timeout bound the open connections instead.
    connections: int = 0
    connections_per_host: int = 8
    keepalive_s: ClassVar[float] = 15.0  # how long a connection without a request stays open
    connect_timeout_s: ClassVar[float] = 10.0  # for one address, TCP and TLS together
    dns_ttl_s: float = 60.0  # how long resolved addresses are cached
    header_bytes: ClassVar[int] = 32_768  # longest status line and longest header of a response


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
    """Return the User-Agent, such as ``proxyd/1.0.0 (+mailto:me@example.org)``; only the name without a contact."""
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
        response_class=_TimedResponse,
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
    return GuardedConnector(
        is_direct=guard is not None,
        resolver=resolver if guard is None else GuardedResolver(guard, resolver),
        socket_factory=None if guard is None else guard.open_socket,
        ssl=_http_context(),
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
    context.sslobject_class = _ShowingSSL
    return context


def _http_context() -> ssl.SSLContext:
    context = _tls_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _certificate_of(connection: Any) -> str:
    """Return the hash of the certificate of a handshake that failed, or ``""``."""
    # Python 3.13 has a method for it, and before that only the object below has one
    of = connection if hasattr(connection, "get_unverified_chain") else connection._sslobj  # noqa: SLF001
    for certificate in of.get_unverified_chain() or ():
        data = certificate if isinstance(certificate, bytes) else certificate.public_bytes(_DER)
        return hashlib.sha256(data).hexdigest()
    return ""


def certificate_of_refusal(error: Exception) -> str:
    """Return the SHA-256 of the certificate for which a handshake failed, or ``""`` if it is not known."""
    return str(vars(error).get(_SHOWN, ""))


def certificate_end_s(tls: Any) -> float | None:
    """Return when the certificate of a connection's other side expires, in unix seconds; ``None`` without one."""
    end = (tls.getpeercert() or {}).get("notAfter") if tls is not None else None
    return None if end is None else float(ssl.cert_time_to_seconds(end))


def _checking(guard: Guard, resolver: AbstractResolver) -> aiohttp.ClientMiddlewareType:
    """Return a middleware that checks every target before the proxy is asked for it."""

    async def check(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        await guard.check_target(request.url, resolver)
        return await handler(request)

    return check


_RESERVED = 756  # 500 connections of the listener, the database, the parsers and the interpreter's own files
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
    return max(open_files - _RESERVED, 64)


def _limits() -> tuple[int, int]:
    return resource.getrlimit(resource.RLIMIT_NOFILE)


_MOST_HEAD_BYTES = 262_144  # with those of interim responses
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n")
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_WITHOUT_BODY = {b"204", b"304"}
_INTERIM = {b"100", b"102", b"103"}
_BODY = re.compile(rb"(?i)\n(content-length[ \t]*:[ \t]*0*[1-9]|transfer-encoding)")


def _clean_head(head: bytes) -> bytes:
    r"""Return the head of a response without headers that have invalid names, and with each length only once.

    Lengths that differ stay, so that the parser refuses them.

    >>> _clean_head(b"HTTP/1.1 200 OK\r\nX-\xe9: 1\r\nContent-Length: 5, 5\r\nContent-Length: 5\r\n\r\n")
    b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n'
    """
    status, *lines = head.rstrip(b"\r\n").split(b"\n")
    kept: list[bytes] = [status.rstrip(b"\r")]
    lengths: set[bytes] = set()
    is_kept = True  # of the last field, to which a line that begins with a space belongs
    for line in lines:
        if line[:1] in {b" ", b"\t"}:
            kept += [line.rstrip(b"\r")] * is_kept
            continue
        name, colon, value = (part.strip(b" \t\r") for part in line.partition(b":"))
        is_length = name.lower() == b"content-length"
        is_kept = bool(colon) and _NAME.fullmatch(name) is not None and b"\0" not in value and not is_length
        if is_length:
            lengths.update(each.strip() for each in value.split(b","))
        elif is_kept:
            kept.append(name + b": " + value)
    kept += [b"Content-Length: " + each for each in sorted(lengths)]
    return b"\r\n".join(kept) + b"\r\n\r\n"


class _TolerantResponseHandler(ResponseHandler):
    """The client's protocol, whose parser gets heads that it can read."""

    certificate_end_s: float | None = None  # when the certificate of its connection expires, in unix seconds
    _head: bytearray | None = None
    _received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with a connection, whose handshake is over."""
        super().connection_made(transport)
        self.certificate_end_s = certificate_end_s(transport.get_extra_info("ssl_object"))

    def set_response_params(self, **options: Any) -> None:
        """Expect the head of the next response."""
        self._head, self._received = bytearray(), 0
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        """Pass on the head as soon as it is complete, and what follows as it is."""
        if self._head is None or self._parser is None:
            super().data_received(data)
            return
        searched = max(0, len(self._head) - 3)
        self._head += data
        self._received += len(data)
        begin = 0
        while (end := _END_OF_HEAD.search(self._head, searched)) is not None:
            head, searched = bytes(self._head[begin : end.end()]), end.end()
            status = _STATUS.match(head)
            if status is None or status[1] not in _INTERIM:
                rest, self._head = bytes(self._head[searched:]), None
                self._pass_on(head, rest, has_body=status is None or status[1] not in _WITHOUT_BODY)
                return
            begin = searched  # the response follows
        del self._head[:begin]
        if self._received > _MOST_HEAD_BYTES:
            self.set_exception(aiohttp.ClientPayloadError(f"the headers are longer than {_MOST_HEAD_BYTES} bytes"))
            self.abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the response; a head that was cut off, or an interim response, is not taken for silence."""
        if self._head is not None and self._received and not self.is_eof():
            self.set_exception(aiohttp.ClientPayloadError("the connection ended within the headers of the answer"))
        super().connection_lost(exc)

    def _pass_on(self, head: bytes, rest: bytes, *, has_body: bool) -> None:
        if has_body:
            super().data_received(_clean_head(head) + rest)
            return
        if rest or _BODY.search(head):
            self.force_close()  # a body follows, which would be taken for the next response
        super().data_received(_clean_head(head))

    def set_exception(self, exc: BaseException, *cause: BaseException) -> None:
        """End the response, also its body: the client would wait for it, although the connection is closed."""
        super().set_exception(exc, *cause)
        payload, error = self._payload, aiohttp.ClientPayloadError(str(exc))
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(error)
            self._loop.call_soon(payload.set_exception, error)  # for a reader that was woken by the end of a chunk


class _TimedResponse(aiohttp.ClientResponse):
    """A response that knows when the certificate of its connection expires, also once that is given back."""

    certificate_end_s: float | None = None

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Read the head of the response."""
        self.certificate_end_s = getattr(connection.protocol, "certificate_end_s", None)
        return await super().start(connection)


class GuardedConnector(aiohttp.TCPConnector):
    """A connector whose connections are tolerant, and which also opens those that speak no HTTP."""

    def __init__(self, *, is_direct: bool, **options: Any) -> None:
        super().__init__(**options)
        self._is_direct = is_direct
        self._factory = cast("Any", partial(_TolerantResponseHandler, loop=self._loop))
        self._tls: ssl.SSLContext | None = None

    async def open(self, url: URL) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the host and the port of an address, with TLS if its scheme is ``tls``.

        Raises ``OSError``, also for what the guard refuses, or where all requests go through a proxy.
        """
        if not self._is_direct:
            raise OSError("connections of tcp and tls do not go through the setting proxy")
        host = url.raw_host or ""
        found = self._convert_hosts_to_addr_infos(await self._resolve_host(host, url.port or 0))
        opened = await aiohappyeyeballs.start_connection(
            found, happy_eyeballs_delay=0.25, interleave=1, socket_factory=self._socket_factory
        )
        try:
            if url.scheme != "tls":
                return await asyncio.open_connection(sock=opened)
            self._tls = self._tls or _tls_context()
            return await asyncio.open_connection(sock=opened, ssl=self._tls, server_hostname=host)
        except BaseException:  # also if the probe is cancelled during the handshake: no transport owns the socket yet
            opened.close()
            raise
