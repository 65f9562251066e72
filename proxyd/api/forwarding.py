"""Forwards requests to the planner that knows the answer, so that clients may ask any."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

import structlog
from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    DummyCookieJar,
    TCPConnector,
    web,
)
from aiohttp.typedefs import Middleware
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from proxyd.api.auth import token_of
from proxyd.api.connection_limits import SEND_S
from proxyd.api.endpoint import json_of, read_bytes
from proxyd.api.problems import BadRequestError, Handler, problem
from proxyd.api.queries import Queries

_CONNECT_S = 2.0
_SILENCE_S = 300.0  # of a planner that is gone; live pages hear from it every 15 s
_FORWARDED = "Proxyd-Forwarded"
SECRET_HEADER, _SESSION_HEADER, NOTES_HEADER = "Proxyd-Planner", "Proxyd-Session", "Proxyd-Notes"
NOTES = web.ResponseKey("the notes of a session after another planner's answer", str)
_NOT_FORWARDED = frozenset(
    {
        *(SECRET_HEADER.lower(), _SESSION_HEADER.lower(), NOTES_HEADER.lower()),
        *("connection", "keep-alive", "proxy-authorization", "proxy-connection", "te", "trailer"),
        *("transfer-encoding", "upgrade", "expect"),
    }
)
_NOT_INVENTED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})
log = structlog.get_logger("api")


@dataclass(frozen=True, slots=True)
class Peer:
    """Another planner: its name, and ``host:port`` of its listener, which is empty if it is unknown.

    Planners that share the sources ask each other with a ``secret``.
    """

    name: str
    address: str
    secret: str = field(default="", repr=False)


PEER_PATHS = tuple(f"/planners/{what}" for what in ("sources", "probe", "plan", "hosts", "advice", "turn"))
_HERE = frozenset({"/healthz", "/readyz", "/metrics", "/static/{file}", *PEER_PATHS})
_EXPLAINED = "/api/v1/explain/{name}"
_NAMED = {"/api/v1/probe": "name", "/api/v1/moves": "source"}  # where the body of a POST names the source
_CALLBACK = "/websub/{callback_id}"


class Planners(Protocol):
    """Says which of several planners answers a request; ``secret`` is what others ask this one with."""

    @property
    def secret(self) -> str:
        """Return what other planners ask this one with."""

    def answering(self, source: str | None, profiles: Sequence[str] = ()) -> Peer | None:
        """Return who answers a request about a source, or another one; ``None`` if this planner does.

        What the profiles own is found by the name that they write.
        """

    def planner_of_host(self, host: str) -> Peer | None:
        """Return the other planner that spaces the requests to a host; ``None`` if this one does, or nobody."""

    def others(self) -> Sequence[Peer]:
        """Return all other planners."""

    async def peer_called(self, callback_id: str) -> Peer | None:
        """Return who has the source with this callback of its hub; ``None`` if this planner or nobody has."""


class Forwarding:
    """Sends requests on to other planners."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def pass_on(
        self, request: web.Request, peer: Peer, body: bytes | None = None, *, session: str | None = None
    ) -> web.StreamResponse:
        """Return a planner's answer to a request, as it comes; ``body`` is what was read of it already.

        With ``session``, this planner vouches for a session of the browser. The other one then answers itself, and its
        notes are in ``NOTES`` of the answer.
        """
        refusal = _refusal(request, peer, once=session is None)
        return refusal if refusal is not None else await self._send_to(request, peer, body, session)

    async def _send_to(
        self, request: web.Request, peer: Peer, body: bytes | None, session: str | None
    ) -> web.StreamResponse:
        headers = _headers_to_pass(request.headers)
        headers[_FORWARDED] = "1"
        if session is not None:
            headers.popall("Cookie", None)
            headers.update({SECRET_HEADER: peer.secret, _SESSION_HEADER: session})
        try:
            async with self.session.request(
                request.method,
                URL(f"http://{peer.address}{request.raw_path}", encoded=True),
                headers=headers,
                data=request.content if body is None and request.body_exists else body,
                allow_redirects=False,
                skip_auto_headers=_NOT_INVENTED,
            ) as answer:
                return await _pass_back(request, answer)
        except (ClientError, TimeoutError, ValueError) as error:  # a host that is no name is a ValueError
            log.debug("a planner does not answer", planner=peer.name, error=str(error))
            said = f"{peer.name} knows the answer, and cannot be reached at {peer.address}"
            if request.method in _HARMLESS or isinstance(error, ClientConnectorError | ConnectionTimeoutError):
                return _away(said)
            return problem(502, "The planner did not answer", f"{said}; it may have done what was asked")


@asynccontextmanager
async def open_forwarding() -> AsyncIterator[Forwarding]:
    """Yield what forwards requests to other planners, over connections of its own."""
    timeout = ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
    connector = TCPConnector(limit=0)  # the listener has its own limit
    async with ClientSession(
        connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=DummyCookieJar()
    ) as session:
        yield Forwarding(session)


def session_from_peer(request: web.Request, planners: Planners) -> str | None:
    """Return the session for which another planner asks, as it tells it; ``None`` unless it knows our secret."""
    return request.headers.get(_SESSION_HEADER) if knows_secret(request, planners) else None


def knows_secret(request: web.Request, planners: Planners) -> bool:
    """Return whether another planner asks, which knows our secret."""
    told = request.headers.get(SECRET_HEADER, "")
    return bool(planners.secret) and hmac.compare_digest(told.encode(errors="replace"), planners.secret.encode())


def forward_unknown(planners: Planners, forwarding: Forwarding, queries: Queries) -> Middleware:
    """Return a middleware that has each request answered by the planner that knows, unless it was forwarded here."""

    @web.middleware
    async def ask(request: web.Request, handler: Handler) -> web.StreamResponse:
        if _FORWARDED in request.headers or _route_of(request) in _HERE:
            return await handler(request)
        body = await _small_body(request)
        if _route_of(request) == _CALLBACK:
            elsewhere = await planners.peer_called(request.match_info["callback_id"])
        else:
            source = _source_of(request, body)
            elsewhere = planners.answering(source, await _profiles_of(request, queries) if source else ())
        return await handler(request) if elsewhere is None else await forwarding.pass_on(request, elsewhere, body)

    return ask


async def _profiles_of(request: web.Request, queries: Queries) -> Sequence[str]:
    """Return the profiles to which the token of a request is bound; none if it is wrong, which its handler says."""
    token = await token_of(queries, request.headers.get("Authorization", ""), may_be_bound=True)
    return () if token is None else token.profiles


def refuse_changes(planners: Planners) -> Middleware:
    """Return a middleware that refuses changes here, and says which planner makes them."""

    @web.middleware
    async def read(request: web.Request, handler: Handler) -> web.StreamResponse:
        elsewhere = planners.answering(None)
        if elsewhere is None or request.method in _HARMLESS:
            return await handler(request)
        return problem(421, "Misdirected Request", _makes_changes(elsewhere))

    return read


def _makes_changes(peer: Peer) -> str:
    """Return where a change is made, and how: with the socket there, or from here with a token."""
    machine, _, process = peer.name.rpartition(":")
    where = f"the one at {peer.address}" if peer.address else f"process {process} of {machine}"
    said = f"this planner only answers; {where} makes changes: run this command there"
    return f"{said}, or use --url http://{peer.address} with a token" if peer.address else said


def _route_of(request: web.Request) -> str:
    """Return the route that a request matches, with the names of its parameters in braces."""
    resource = request.match_info.route.resource
    return "" if resource is None else resource.canonical


async def _small_body(request: web.Request) -> bytes | None:
    """Return the body of a request if it may name a source; ``None`` for others, and for one that is not valid."""
    if request.method != "POST" or _route_of(request) not in _NAMED:
        return None
    with suppress(BadRequestError, web.HTTPException):
        return await read_bytes(request)
    return None


def _source_of(request: web.Request, body: bytes | None) -> str | None:
    """Return the source that a request is about, if only its planner knows the answer."""
    route = _route_of(request)
    if body is not None:
        with suppress(BadRequestError):
            found = json_of(body)
            name = found.get(_NAMED[route]) if isinstance(found, dict) else None
            return name if isinstance(name, str) else None
    return request.match_info["name"] if route == _EXPLAINED else None


def _refusal(request: web.Request, peer: Peer, *, once: bool) -> web.Response | None:
    """Return the refusal of a request that cannot be forwarded, ``None`` if it can.

    With ``once``, a request that was forwarded already is refused.
    """
    if once and _FORWARDED in request.headers:
        return _away(f"{peer.name} knows the answer, as far as is known here, and this request was forwarded once")
    if not peer.address:
        return _away(f"{peer.name} knows the answer, but cannot be reached from here; ask it, or set `advertise` there")
    if not request.raw_path.startswith("/"):  # or it could name another host
        return problem(400, "Bad Request", "the target of the request is not a path")
    return None


def _headers_to_pass(headers: Mapping[str, str] | CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return headers without those of one connection, those that ``Connection`` names, and those between planners."""
    named = {each.strip().lower() for each in headers.get("Connection", "").split(",")}
    left_out = _NOT_FORWARDED | named
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in left_out)


async def _pass_back(request: web.Request, answer: ClientResponse) -> web.StreamResponse:
    """Send an answer to the client as it comes; disconnect a client that does not read."""
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=_headers_to_pass(answer.headers))
    if NOTES_HEADER in answer.headers:
        response[NOTES] = answer.headers[NOTES_HEADER]
    await response.prepare(request)
    try:
        async for part in answer.content.iter_any():
            async with asyncio.timeout(SEND_S):
                await response.write(part)
    except (ClientError, TimeoutError):  # half an answer must not look whole
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:  # the client went
        pass
    return response


def _away(detail: str) -> web.Response:
    answer = problem(503, "The planner does not answer", detail)
    answer.headers["Retry-After"] = "1"
    return answer
