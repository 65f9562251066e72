"""Refuses requests for hosts that are not proxyd's, and encoded bodies, before anything reads a body."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from ipaddress import ip_address

from aiohttp import web
from aiohttp.typedefs import Middleware

from proxyd.api.problems import Handler, problem

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(:[0-9]*)?")
_ANY_HOST = frozenset({"/healthz", "/readyz"})  # monitors use names of their own
_OTHER_HOST = (
    "this proxyd does not answer requests for the host in the address; if the name is right, add it to the setting "
    "`hosts` (PROXYD_HOSTS)"
)


def admission(hosts: AbstractSet[str] | None) -> Middleware:
    """Return a middleware that refuses encoded bodies, and requests for other hosts than ``hosts`` and IP addresses.

    A website whose name was rebound to our address sends its own name, and must not read an answer. ``None`` allows all
    hosts.
    """

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
    name = host_of(sent[0]) if len(sent) == 1 else None
    return name is not None and (name in hosts or _is_address(name))


def host_of(text: str) -> str | None:
    """Return the name or address in a ``Host`` header, ``None`` if it is not valid.

    >>> host_of("Proxyd.Example.:8080"), host_of("[::1]:80"), host_of("me@example.org")
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
