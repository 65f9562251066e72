"""Limits of the listener: its connections, the headers and bodies of requests, and the time to send an answer."""

from __future__ import annotations

import asyncio
import errno
import logging
import re
from collections.abc import AsyncIterator
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, cast

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Middleware

from proxyd.api.problems import Handler, problem

ALL = "*"
"""The host of a listener at all addresses, of IPv4 and IPv6."""
SEND_S = 120.0
"""Time after which a client that does not read its whole answer is disconnected."""


class _WithoutMalformedRequests(logging.Filter):
    """Drops the records of malformed requests: each would be a traceback that quotes a stranger."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged."""
        return record.exc_info is None or not isinstance(record.exc_info[1], HttpProcessingError)


_server_log = logging.getLogger("aiohttp.server.listener")
_server_log.addFilter(_WithoutMalformedRequests())
CONNECTIONS: dict[str, Any] = {
    "access_log": None,
    "logger": _server_log,
    "shutdown_timeout": 2.0,
    "auto_decompress": False,  # the library would inflate bodies before any handler could refuse them
    "keepalive_timeout": 75.0,  # also for the head of a request
    "lingering_time": 2.0,  # for a body that nobody reads
    "max_headers": 64,
}
log = structlog.get_logger("api")


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The most connections that may be open, in all and from one address; each is an open file."""

    most: int = 500
    each: int = 250


class _ConnectionLimiter(asyncio.Protocol):
    """Hands a new connection to a server, or closes it if there are too many."""

    def __init__(self, server: web.Server, limits: ConnectionLimits) -> None:
        self._server = server
        self._limits = limits

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection."""
        connection = cast("asyncio.Transport", transport)
        peers = [_peer(handler.transport) for handler in self._server.connections]
        if len(peers) >= self._limits.most or peers.count(_peer(connection)) >= self._limits.each:
            log.debug("too many connections: closed a new one", open=len(peers), client=_peer(connection))
            connection.abort()
            return
        handler = self._server()
        connection.set_protocol(handler)
        handler.connection_made(connection)


def _peer(transport: asyncio.Transport | None) -> str | None:
    address = None if transport is None else transport.get_extra_info("peername")
    return str(address[0]) if address else None


@asynccontextmanager
async def listening_at(
    server: web.Server, host: str, port: int, limits: ConnectionLimits
) -> AsyncIterator[list[tuple[Any, ...]]]:
    """Accept connections of a server while the context is open; yield the addresses. Raises ``OSError``."""
    async with AsyncExitStack() as stack:
        addresses = list[tuple[Any, ...]]()
        for each in ("0.0.0.0", "::") if host == ALL else (host,):  # asyncio never listens at both with one socket
            try:
                listener = await asyncio.get_running_loop().create_server(
                    lambda: _ConnectionLimiter(server, limits), each, port, backlog=128
                )
            except OSError as error:
                if addresses and error.errno in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:
                    continue  # this machine, or this container, has no IPv6
                raise
            stack.callback(listener.close)
            addresses += [socket.getsockname() for socket in listener.sockets]
        yield addresses


@web.middleware
async def limit_send_time(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Send the answer within ``SEND_S``; the library would wait for a client that never reads."""
    answer = await handler(request)
    try:
        async with asyncio.timeout(SEND_S):
            await answer.prepare(request)
            await answer.write_eof()
    except TimeoutError:
        log.warning("a client does not read its answer: disconnected", client=request.remote)
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:  # the client went
        pass
    return answer


_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(:[0-9]*)?")
_ANY_HOST = frozenset({"/healthz", "/readyz"})  # monitors use names of their own
_OTHER_HOST = (
    "this proxyd does not answer requests for the host in the address; if the name is right, add it to the setting "
    "`hosts` (PROXYD_HOSTS)"
)


def refuse_foreign_hosts(hosts: AbstractSet[str] | None) -> Middleware:
    """Return a middleware that refuses encoded bodies, and requests for other hosts than ``hosts`` and IP addresses."""
    # A website whose name was rebound to our address sends its own name, and must not read an answer. `None` allows all
    # hosts.

    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        if hosts is not None and request.path not in _ANY_HOST and not _is_ours(request, hosts):
            return problem(421, "Misdirected Request", _OTHER_HOST)
        if any(each.strip().lower() != "identity" for each in request.headers.getall("Content-Encoding", ())):
            answer = problem(415, "Unsupported media type", "send the body without Content-Encoding")
            answer.headers["Accept-Encoding"] = "identity"
            return answer
        return await handler(request)

    return admit


def _is_ours(request: web.Request, hosts: AbstractSet[str]) -> bool:
    sent = request.headers.getall("Host", ())
    name = _host_of(sent[0]) if len(sent) == 1 else None
    return name is not None and (name in hosts or _is_address(name))


def _host_of(text: str) -> str | None:
    """Return the name or address in a ``Host`` header, ``None`` if it is not valid.

    >>> _host_of("Proxyd.Example.:8080"), _host_of("[::1]:80"), _host_of("me@example.org")
    ('proxyd.example', '::1', None)
    """
    match = _HOST.fullmatch(text)
    return None if match is None else match[1].strip("[]").lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
