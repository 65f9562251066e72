"""The network guard: which addresses and URLs proxyd may talk to, for probes and webhooks alike.

It checks three times. In a URL it reads an address in every form that some resolver might accept; it refuses a host
that ends in a number but is not an address, or that holds odd characters. The resolver drops a name's refused
addresses, so that the allowed ones are tried. The socket factory checks the address actually connected, whether it
comes from an IP literal, a redirect or a rebound name.

Behind an outbound proxy it sees only the proxy's address. Then ``check_target`` resolves a name before each request
and refuses it if any of its addresses is refused; the proxy may still resolve it to other addresses.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING, Any, TypeAlias

from aiohttp.abc import AbstractResolver, ResolveResult

from proxyd.core.errors import BlockedAddressError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from yarl import URL


_Address: TypeAlias = IPv4Address | IPv6Address
_Network: TypeAlias = IPv4Network | IPv6Network
_AddrInfo: TypeAlias = tuple["int | socket.AddressFamily", "int | socket.SocketKind", int, str, "tuple[str | int, ...]"]

_REFUSED_V4: tuple[tuple[IPv4Network, str], ...] = tuple(
    (IPv4Network(network), reason)
    for network, reason in (
        ("0.0.0.0/32", "unspecified"),
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "carrier-grade NAT"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "cloud platform"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "documentation"),
        ("192.88.99.0/24", "6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "benchmark"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
_REFUSED_V6: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(network), reason)
    for network, reason in (
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("64:ff9b:1::/48", "local NAT64"),
        ("100::/64", "discard"),
        ("2001:2::/48", "benchmark"),
        ("2001:db8::/32", "documentation"),
        ("2001::/23", "reserved"),
        ("3fff::/20", "documentation"),
        ("fc00::/7", "private"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "site-local"),
        ("ff00::/8", "multicast"),
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")
_WRAPPERS: tuple[tuple[IPv6Network, str], ...] = tuple(
    (IPv6Network(network), name)
    for network, name in (
        ("::ffff:0:0/96", "IPv4-mapped"),
        ("::ffff:0:0:0/96", "IPv4-translated"),
        ("64:ff9b::/96", "NAT64"),
        ("2002::/16", "6to4"),
        ("2001::/32", "Teredo"),
        ("::/96", "IPv4-compatible"),
    )
)
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?")
_HOSTS_REMEMBERED = 65_536
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
# Ports of other protocols that a request could speak to by accident (the "bad ports" of the Fetch standard).
# fmt: off
_REFUSED_PORTS = frozenset({
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
    540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
    6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
})
# fmt: on


class RefusedConnectionError(BlockedAddressError, OSError):
    """The network guard refuses this address.

    It is an OSError because aiohappyeyeballs goes on to the next address only for those; any other error of a socket
    factory is either swallowed (and ends as an IndexError) or hides the allowed addresses.
    """


def refusal(address: _Address, allow: Sequence[_Network] = ()) -> str | None:
    """Return why an address is refused, or ``None``.

    A form that carries an IPv4 address inside an IPv6 one is refused unless both the form and the inner address are
    allowed.

    >>> refusal(ip_address("127.0.0.1"))
    'loopback'
    >>> refusal(ip_address("127.0.0.1"), [IPv4Network("127.0.0.0/8")])
    >>> refusal(ip_address("64:ff9b::a00:1"))
    'NAT64 of 10.0.0.1 (private)'
    >>> refusal(ip_address("93.184.215.14"))
    """
    wrapped = _unwrap(address)
    listed = any(address in network for network in allow)
    if wrapped is not None:
        form, inner = wrapped
        inner_reason = refusal(inner, allow)
        if listed and inner_reason is None:
            return None
        return f"{form} of {inner}" + (f" ({inner_reason})" if inner_reason else "")
    return None if listed else _reason_in_table(address)


def _unwrap(address: _Address) -> tuple[str, IPv4Address] | None:
    """Return the form and the IPv4 address inside an IPv6 address."""
    if isinstance(address, IPv4Address) or int(address) <= 1:
        return None
    for network, form in _WRAPPERS:
        if address in network:
            return form, _inner(address, form)
    return None


def _inner(address: IPv6Address, form: str) -> IPv4Address:
    if form == "6to4":
        return IPv4Address((int(address) >> 80) & 0xFFFFFFFF)
    low = int(address) & 0xFFFFFFFF
    return IPv4Address(low ^ 0xFFFFFFFF if form == "Teredo" else low)


def _reason_in_table(address: _Address) -> str | None:
    table: Sequence[tuple[_Network, str]] = _REFUSED_V4 if isinstance(address, IPv4Address) else _REFUSED_V6
    for network, reason in table:
        if address in network:
            return reason
    if isinstance(address, IPv6Address) and address not in _GLOBAL_V6:
        return "reserved"
    return None


def _written_address(host: str) -> _Address | None:
    """Return the address that a host spells, or ``None`` for a name; raise BlockedAddressError if it is neither.

    IPv4 is read as browsers do: one to four numbers, each decimal, octal or hexadecimal.

    >>> _written_address("2130706433"), _written_address("0x7f.1"), _written_address("0177.0.0.1.")
    (IPv4Address('127.0.0.1'), IPv4Address('127.0.0.1'), IPv4Address('127.0.0.1'))
    >>> _written_address("::1"), _written_address("example.org")
    (IPv6Address('::1'), None)
    """
    try:
        if ":" in host:
            return ip_address(host)
        if _NAME.fullmatch(host) is None:
            raise BlockedAddressError("a host takes letters, digits, hyphens and dots only")
        labels = host.removesuffix(".").lower().split(".")
        return _short_form([_number(label) for label in labels]) if _NUMBER.fullmatch(labels[-1]) else None
    except ValueError as error:
        raise BlockedAddressError("the host looks like an IP address but is not a valid one") from error


def _number(label: str) -> int:
    if _NUMBER.fullmatch(label) is None:
        raise ValueError("not a number")
    if label.startswith("0x"):
        return int(label[2:] or "0", 16)
    return int(label, 8 if label.startswith("0") else 10)


def _short_form(numbers: Sequence[int]) -> IPv4Address:
    """Return the address of one to four numbers; the last fills the remaining bytes."""
    *leading, last = numbers
    if len(leading) > 3 or any(number > 255 for number in leading) or last >= 256 ** (4 - len(leading)):
        raise ValueError("out of range")
    return IPv4Address(sum(number << (24 - 8 * place) for place, number in enumerate(leading)) + last)


class Guard:
    """Refuses URLs and addresses that proxyd must not reach.

    Parameters
    ----------
    allow
        Networks that are always reachable.
    allow_ports
        The only allowed ports; if empty, all except those of other protocols.
    """

    def __init__(self, allow: Sequence[_Network] = (), allow_ports: Collection[int] = ()) -> None:
        self._allow = tuple(allow)
        self._host_refusal = lru_cache(_HOSTS_REMEMBERED)(self._refusal_of_host)
        self._ports = frozenset(allow_ports)

    def refusal(self, address: _Address) -> str | None:
        """Return why an address is refused, or ``None``."""
        return refusal(address, self._allow)

    def check_url(self, url: URL) -> None:
        """Raise BlockedAddressError for a URL that can be refused without resolving its name."""
        if url.scheme not in {"http", "https"}:
            raise BlockedAddressError(f"only http and https are allowed, not {url.scheme or 'a relative URL'}")
        self.check_connection(url)
        if not self._ports and url.port in _REFUSED_PORTS:
            raise BlockedAddressError(f"port {url.port} belongs to another protocol (allow_ports can allow it)")

    def check_connection(self, url: URL) -> None:
        """Raise BlockedAddressError for a URL to whose host and port no connection may be opened."""
        if url.raw_user is not None or url.raw_password is not None:
            raise BlockedAddressError("a URL with credentials is refused")
        if not url.raw_host:
            raise BlockedAddressError("a URL without a host is refused")
        self.check_host(url.raw_host)
        self.check_allowed_port(url.port or 0)

    def check_allowed_port(self, port: int) -> None:
        """Raise RefusedConnectionError for a port that is not among the only allowed ones."""
        if self._ports and port not in self._ports:
            raise RefusedConnectionError(f"port {port} is not in the setting allow_ports")

    def check_host(self, host: str) -> None:
        """Raise BlockedAddressError for a host that spells a refused address, or that is neither a name nor one."""
        reason = self._host_refusal(host)
        if reason is not None:
            raise RefusedConnectionError(reason)

    async def check_target(self, url: URL, resolver: AbstractResolver) -> None:
        """Raise RefusedConnectionError if a URL's host is, or resolves to, a refused address."""
        host = url.raw_host or ""
        written = _written_address(host)
        if written is not None:
            self.check_address(written)
            return
        for found in await resolver.resolve(host, url.port or 0, socket.AF_UNSPEC):
            self.check_address(ip_address(found["host"]))

    def _refusal_of_host(self, host: str) -> str | None:
        """Return why a host that spells an address is refused; ``None`` for a name."""
        address = _written_address(host)
        reason = None if address is None else self.refusal(address)
        return None if reason is None else _refusal(address, reason)

    def check_address(self, address: _Address) -> None:
        """Raise RefusedConnectionError if an address is refused."""
        reason = self.refusal(address)
        if reason is not None:
            raise RefusedConnectionError(_refusal(address, reason))

    def open_socket(self, info: _AddrInfo) -> socket.socket:
        """Return a socket for an allowed address; raise RefusedConnectionError for any other.

        It is the ``socket_factory`` of ``aiohttp.TCPConnector``.
        """
        family, kind, protocol, _, where = info
        self.check_address(ip_address(str(where[0])))
        return socket.socket(family=family, type=kind, proto=protocol)


def _refusal(address: _Address | str | None, reason: str) -> str:
    return f"{address} is refused: {reason} (allow_networks can allow it)"


class GuardedResolver(AbstractResolver):
    """Resolves names to their allowed addresses only; it never gets IP literals."""

    def __init__(self, guard: Guard, inner: AbstractResolver) -> None:
        self._guard = guard
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the allowed addresses; raise RefusedConnectionError if none is left."""
        found = await self._inner.resolve(host, port, family)
        reasons = [self._guard.refusal(ip_address(result["host"])) for result in found]
        allowed = [result for result, reason in zip(found, reasons, strict=True) if reason is None]
        if found and not allowed:
            first = _refusal(found[0]["host"], str(reasons[0]))
            raise RefusedConnectionError(f"{host} has no allowed address, {first}")
        return allowed

    async def close(self) -> None:
        """Close the wrapped resolver."""
        await self._inner.close()


def refusal_in(error: BaseException) -> BlockedAddressError | None:
    """Return the guard's error that caused the HTTP client's, if any."""
    for cause in _causes(error):
        if isinstance(cause, BlockedAddressError):
            return cause
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__


_CONNECTING = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
_judges: ContextVar[_Judge | None] = ContextVar("_judges", default=None)


class GuardedConnections:
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
    connections: GuardedConnections | None


@contextmanager
def guard_calls(guard: Guard, connections: GuardedConnections | None = None) -> Iterator[list[str]]:
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


def _address(target: Any) -> tuple[_Address, int]:
    try:
        return ip_address(target[0]), int(target[1])
    except (TypeError, ValueError, IndexError):
        raise RefusedConnectionError("a connection by name, or to a local socket, is refused") from None
