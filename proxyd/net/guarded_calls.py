"""Guards the connections of a library that opens its own sockets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from ipaddress import ip_address
from typing import Any

from proxyd.net.guard import Address, Guard, RefusedConnectionError

_CONNECTING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_judges: ContextVar[tuple[Guard, list[str]] | None] = ContextVar("_judges", default=None)


@contextmanager
def guarded(guard: Guard) -> Iterator[list[str]]:
    """Let the calls inside connect only to what the guard allows; yield the reasons of the refusals.

    Python announces each connection to its audit hooks, with the address that is really connected: behind a redirect,
    a rebound name or an option of the library. A connection by name or to a local socket cannot be judged, so it is
    refused. Threads that the library starts are guarded if it hands its context on to them.
    """
    _install()
    refused: list[str] = []
    token = _judges.set((guard, refused))
    try:
        yield refused
    finally:
        _judges.reset(token)


@cache
def _install() -> None:
    """Add the hook, once: Python cannot remove it."""
    sys.addaudithook(_judge)


def _judge(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _CONNECTING or (judges := _judges.get()) is None:
        return
    guard, refused = judges
    try:
        guard.check_address(_address(arguments[1]))
    except RefusedConnectionError as error:
        refused.append(str(error))
        raise


def _address(target: Any) -> Address:
    try:
        return ip_address(target[0])
    except (TypeError, ValueError, IndexError):
        raise RefusedConnectionError("a connection by name, or to a local socket, is refused") from None
