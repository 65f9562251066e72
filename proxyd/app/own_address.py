"""Where other machines reach the listener of this one."""

from __future__ import annotations

import socket
from ipaddress import ip_address

from sqlalchemy import make_url

from proxyd.config import Settings

_POSTGRESQL_PORT = 5432


def address_of_listener(settings: Settings) -> str:
    """Return ``host:port`` of the listener for other machines, or an empty text if they cannot reach it.

    A listener on all addresses is reached at the one from which this machine reaches its database, unless that is here
    too. A listener on loopback is reached only from here, and so if the database is here too. The name of the database
    may be looked up, which takes time.
    """
    if settings.advertise or settings.database_path is not None:
        return settings.advertise
    host, port = settings.listen_address
    family = socket.AF_INET if host == "0.0.0.0" else socket.AF_UNSPEC
    towards = _address_towards(*_server_of(settings.database), family)
    is_local = host == "localhost" or _is(host, "is_loopback")
    if not towards or is_local != _is(towards, "is_loopback"):
        return ""
    if _is(host, "is_unspecified"):
        host = towards
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _server_of(database: str) -> tuple[str, int]:
    """Return host and port of a database; a Unix socket is on this machine.

    >>> _server_of("postgresql+asyncpg://me:a#b@db.example:6432/proxyd"), _server_of("postgresql+asyncpg:///x?host=/run")
    (('db.example', 6432), ('127.0.0.1', 5432))
    """
    url = make_url(database)
    host = url.host or str(url.query.get("host", ""))
    return ("127.0.0.1" if not host or host.startswith("/") else host), url.port or _POSTGRESQL_PORT


def _address_towards(host: str, port: int, family: socket.AddressFamily) -> str:
    """Return the address of this machine on its way to another one, or an empty text if there is no way."""
    try:
        for found, kind, _, _, address in socket.getaddrinfo(host, port, family, socket.SOCK_DGRAM):
            with socket.socket(found, kind) as way:  # sends nothing
                way.connect(address)
                return str(way.getsockname()[0])
    except OSError:
        pass
    return ""


def _is(host: str, property_name: str) -> bool:
    """Return whether a host is an address that has a property of ``ipaddress``."""
    try:
        return bool(getattr(ip_address(host.partition("%")[0]), property_name))
    except ValueError:
        return False
