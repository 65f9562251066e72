"""Guards the connections of a library that opens its own sockets."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from typing import Any

from proxyd.net.guard import Address, Guard, RefusedConnectionError

_CONNECTING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_judges: ContextVar[_Judge | None] = ContextVar("_judges", default=None)


class Connections:
    """The connections of a call, which another thread may close: an endless answer would block the call's thread."""

    def __init__(self) -> None:
        self._opened: list[socket.socket] = []
        self._lock = threading.Lock()
        self._ended = False

    def add(self, connection: socket.socket) -> None:
        """Remember a connection, also if the library wraps it; raise ``RefusedConnectionError`` after the end."""
        with self._lock:
            if self._ended:
                raise RefusedConnectionError("the time of the call is over")
            self._opened.append(socket.socket(fileno=os.dup(connection.fileno())))

    def end(self) -> None:
        """End every connection, and refuse others."""
        with self._lock:
            self._ended = True
            for each in self._opened:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
            self._opened.clear()


@dataclass(frozen=True, slots=True)
class _Judge:
    guard: Guard
    refused: list[str]
    connections: Connections | None


@contextmanager
def guarded(guard: Guard, connections: Connections | None = None) -> Iterator[list[str]]:
    """Let the calls inside connect only to what the guard allows; yield the reasons of the refusals.

    Python announces each connection to its audit hooks, with the address that is really connected: behind a redirect,
    a rebound name or an option of the library. A connection by name or to a local socket cannot be judged, so it is
    refused. Threads that the library starts are guarded if it hands its context on to them. ``connections`` gets each
    connection.
    """
    _install()
    refused: list[str] = []
    token = _judges.set(_Judge(guard, refused, connections))
    try:
        yield refused
    finally:
        _judges.reset(token)


@cache
def _install() -> None:
    """Add the hook, once: Python cannot remove it."""
    sys.addaudithook(_judge)


def _judge(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _CONNECTING or (judge := _judges.get()) is None:
        return
    try:
        address, port = _address(arguments[1])
        judge.guard.check_address(address)
        judge.guard.check_allowed_port(port)
    except RefusedConnectionError as error:
        judge.refused.append(str(error))
        raise
    if judge.connections is not None and event == "socket.connect":
        judge.connections.add(arguments[0])


def _address(target: Any) -> tuple[Address, int]:
    try:
        return ip_address(target[0]), int(target[1])
    except (TypeError, ValueError, IndexError):
        raise RefusedConnectionError("a connection by name, or to a local socket, is refused") from None
