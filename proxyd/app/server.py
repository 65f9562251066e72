"""The API's routes and its listeners: TCP for clients with a token, the Unix socket for users who may open it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from proxyd import __version__
from proxyd.api.auth import AGENTS, Quota, Quotas, add_quota_headers, require
from proxyd.api.connection_limits import (
    CONNECTIONS,
    ConnectionLimits,
    limit_send_time,
    listening_at,
    refuse_foreign_hosts,
)
from proxyd.api.endpoint import MOST_BYTES, Endpoint, pattern
from proxyd.api.forwarding import Planners, forward_unknown, open_forwarding, refuse_changes
from proxyd.api.listings import Listings
from proxyd.api.peers import NO_PEERS, Peers, add_answers
from proxyd.api.problems import Handler, problems
from proxyd.api.queries import Queries
from proxyd.api.rest.action_handlers import action_endpoints
from proxyd.api.rest.agent_server import AGENTS_PATH, AgentServer
from proxyd.api.rest.delivery_handlers import CALLBACK_PATH, Callbacks, HealthHandlers, delivery_endpoints, health_app
from proxyd.api.rest.fever import Fever
from proxyd.api.rest.google_reader import GoogleReader
from proxyd.api.rest.idempotency import Idempotency
from proxyd.api.rest.live_streams import Streams, StreamSettings
from proxyd.api.rest.openapi import ApiDocument
from proxyd.api.rest.people_handlers import people_endpoints
from proxyd.api.rest.profile_feeds import HUB_PATH, HubRequests, endpoints_of_feeds
from proxyd.api.rest.profile_handlers import profile_endpoints
from proxyd.api.web.dashboard import Dashboard
from proxyd.api.web.page_gate import HeaderSignIn
from proxyd.api.web.single_sign_on import OidcSettings
from proxyd.base.doers import COMMAND_LINE, acting
from proxyd.config.loading import socket_address
from proxyd.config.settings import Settings
from proxyd.core.errors import ConfigError, extra_hint
from proxyd.net.host_turns import HostTokens

log = structlog.get_logger("api")


@dataclass(frozen=True, slots=True)
class PublicFront:
    """What holds for requests from outside, which need a token or a session."""

    quota: Quota | None = None  # of each token; `None` means no limit
    hosts: AbstractSet[str] | None = None  # for which requests may be, and for IP addresses; `None` means all
    header: HeaderSignIn | None = None  # by which a reverse proxy signs people in to the dashboard
    elsewhere: OidcSettings | None = None  # the provider with whom people sign in
    fever: bool = False  # whether clients of the Fever API are answered


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Where the API listens."""

    host: str
    port: int
    socket: Path
    socket_address: str  # the form of the socket's path that the kernel accepts
    front: PublicFront = field(default_factory=lambda: PublicFront(hosts=frozenset({"localhost"})))
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)

    @classmethod
    def of(cls, settings: Settings) -> ApiSettings:
        """Return what the settings say of the API."""
        host, port = settings.listen_address
        requests, window_s = settings.api_window
        quota, path = None if requests is None else Quota(requests, window_s), settings.socket_path
        if settings.sign_in_header and not settings.sign_in_proxies:
            raise ConfigError(["sign_in_header: name the addresses of the proxy that sends it in sign_in_proxies"])
        header = HeaderSignIn(settings.sign_in_header, settings.proxies) if settings.sign_in_header else None
        front = PublicFront(quota, settings.own_hosts, header, _provider(settings), settings.fever)
        return cls(host, port, path, socket_address(path), front)


def _provider(settings: Settings) -> OidcSettings | None:
    """Return the provider with whom people sign in, or ``None``."""
    if not settings.oidc_issuer:
        return None
    if find_spec("joserfc") is None:
        raise ConfigError([f"oidc_issuer: {extra_hint('oidc')}"])
    named = settings.oidc_issuer, settings.oidc_client, settings.oidc_secret, settings.oidc_claim
    return OidcSettings(*named, settings.networks)


@asynccontextmanager
async def serve_api(
    queries: Queries, settings: ApiSettings, planners: Planners | None = None, turns: HostTokens | None = None
) -> AsyncIterator[list[str]]:
    """Serve the API while the context is open; yields the addresses on which it listens.

    With several ``planners``, requests that this one cannot answer are forwarded. ``turns`` are the host turns of this
    process, if it makes requests; they are shared with the other planners. Raises ``ConfigError``: the address or the
    socket is in use, or the address is not one of this machine.
    """
    async with AsyncExitStack() as stack:
        ask = read = None
        peers: Peers = NO_PEERS
        if planners is not None:
            forwarding = await stack.enter_async_context(open_forwarding())
            ask, read = forward_unknown(planners, forwarding, queries), refuse_changes(planners)
            peers = Peers(forwarding, planners)
        public = make_app(queries, settings.front, planners=ask, peers=peers)
        local = make_app(queries, None, planners=read, peers=peers)
        if planners is not None:
            add_answers(public, planners, Listings(queries), turns)
        if turns is not None:
            stack.enter_context(turns.share(peers.turn))
        yield await stack.enter_async_context(_listening(public, local, settings, serves="the API"))


@asynccontextmanager
async def serve_health(
    readiness: Callable[[], Mapping[str, bool]], metrics: Callable[[], bytes], settings: ApiSettings
) -> AsyncIterator[list[str]]:
    """Serve health and metrics while the context is open, for a process without an API; as ``serve_api`` otherwise."""

    async def scrape() -> bytes:
        return metrics()

    async def checks() -> Mapping[str, bool]:
        return readiness()

    handlers = HealthHandlers(checks, scrape)
    public, local = health_app(handlers, settings.front.hosts), health_app(handlers)
    async with _listening(public, local, settings, serves="health") as addresses:
        yield addresses


@asynccontextmanager
async def _listening(
    public_app: web.Application, local_app: web.Application, settings: ApiSettings, *, serves: str
) -> AsyncIterator[list[str]]:
    """Listen while the context is open; raises as ``serve_api`` does."""
    public, local = web.AppRunner(public_app, **CONNECTIONS), web.AppRunner(local_app, **CONNECTIONS)
    await public.setup()
    await local.setup()
    try:
        async with _listen_publicly(public, settings) as addresses, _listen_locally(local, settings):
            log.info("listening", serves=serves, addresses=addresses)
            yield addresses
    finally:
        await public.cleanup()
        await local.cleanup()


@asynccontextmanager
async def _listen_publicly(runner: web.AppRunner, settings: ApiSettings) -> AsyncIterator[list[str]]:
    """Listen at the address of the settings, and yield what it is."""
    assert runner.server is not None
    async with AsyncExitStack() as stack:
        opened = listening_at(runner.server, settings.host, settings.port, settings.limits)
        try:
            addresses = await stack.enter_async_context(opened)
        except OSError as error:
            raise ConfigError([f"listen: {settings.host}:{settings.port}: {_why(error)}"]) from error
        yield [f"{address[0]}:{address[1]}" for address in addresses]


def check_address(host: str, port: int) -> None:
    """Raise ``ConfigError`` if nothing can listen at an address, before a start that is refused has made folders."""
    try:
        for family, kind, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind) as listening:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind(address)
    except OSError as error:
        raise ConfigError([f"listen: {host}:{port}: {_why(error)}"]) from error


def _why(error: OSError) -> str:
    """Return why the API cannot listen on an address, without repeating the address."""
    if error.errno == errno.EADDRINUSE:
        return "the address is in use; stop the program that listens there, or set another `listen` (PROXYD_LISTEN)"
    return os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error.strerror or error)


@asynccontextmanager
async def _listen_locally(runner: web.AppRunner, settings: ApiSettings) -> AsyncIterator[None]:
    """Listen on the Unix socket, mode 0600 from its first moment; what an ended daemon has left is replaced."""
    path = settings.socket
    path.parent.mkdir(parents=True, exist_ok=True)
    if _answers(settings.socket_address):
        raise ConfigError([f"socket: another daemon answers at {path}; set another `socket` (PROXYD_SOCKET)"])
    path.unlink(missing_ok=True)
    before = os.umask(0o177)
    try:
        await web.UnixSite(runner, settings.socket_address).start()
    finally:
        os.umask(before)
    ours = path.stat().st_ino
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            if path.stat().st_ino == ours:
                path.unlink()


def _answers(address: str) -> bool:
    """Return whether a process listens on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as asking:
        asking.setblocking(False)
        return asking.connect_ex(address) in (0, errno.EAGAIN)


_STREAMS = StreamSettings()


def make_app(
    queries: Queries,
    front: PublicFront | None,
    *,
    stream_settings: StreamSettings = _STREAMS,
    planners: Middleware | None = None,
    peers: Peers = NO_PEERS,
) -> web.Application:
    """Return the application; without a ``front`` (the Unix socket, protected by its file mode) it needs no token.

    ``planners`` has requests answered by another planner, and ``peers`` are asked for what they know.
    """
    others = [] if planners is None else [planners]
    admitted = refuse_foreign_hosts(None if front is None else front.hosts)
    innermost = [_as_command_line] if front is None else []
    middlewares = [limit_send_time, admitted, *others, problems, *innermost]
    app = web.Application(middlewares=middlewares, client_max_size=MOST_BYTES)
    app.on_response_prepare.append(add_quota_headers)
    quotas = None if front is None or front.quota is None else Quotas(front.quota)
    callbacks, streams, listings = Callbacks(queries), Streams(queries, stream_settings), Listings(queries, peers)
    app.on_shutdown.append(streams.end)
    app.router.add_get(CALLBACK_PATH, callbacks.verify, allow_head=False)
    app.router.add_post(CALLBACK_PATH, callbacks.push)
    app.router.add_post(HUB_PATH, HubRequests(queries, quotas).ask)
    found = endpoints(queries, listings, streams)
    idempotency = Idempotency(queries)
    for endpoint in found:
        handler = idempotency.with_key(endpoint.respond) if endpoint.is_keyed else endpoint.respond
        handler = _limit_size(handler, endpoint.most_bytes)
        if endpoint.scope is not None and front is not None:
            handler = require(endpoint, queries, quotas, handler)
        app.router.add_route(endpoint.method, pattern(endpoint.path), handler)
    described = ApiDocument(found, __version__)
    if front is not None:
        Dashboard(queries, listings, streams, described.values, peers, front.header, front.elsewhere).mount(app)
        GoogleReader(queries, quotas).mount(app)
        if front.fever:
            Fever(queries, quotas).mount(app)
        app[AGENTS] = {}
        app.router.add_post(AGENTS_PATH, AgentServer(queries, quotas).handle)

    async def openapi(request: web.Request) -> web.Response:
        return web.Response(body=await described.text(), content_type="application/json")

    app.router.add_get("/api/v1/openapi.json", openapi)
    return app


@web.middleware
async def _as_command_line(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let what a request over the Unix socket changes be noted as done from the command line."""
    with acting(COMMAND_LINE):
        return await handler(request)


def _limit_size(handler: Handler, most_bytes: int) -> Handler:
    """Return ``handler`` with its own limit on the size of bodies."""
    if most_bytes == MOST_BYTES:
        return handler

    async def limit_bodies(request: web.Request) -> web.StreamResponse:
        return await handler(request.clone(client_max_size=most_bytes))

    return limit_bodies


def endpoints(queries: Queries, listings: Listings, streams: Streams) -> Sequence[Endpoint]:
    """Return all endpoints of the API, without the callbacks of hubs."""
    return (
        *HealthHandlers(lambda: queries.vitals.readiness(), lambda: queries.vitals.metrics()).endpoints(),
        *endpoints_of_feeds(queries),
        *profile_endpoints(queries, listings),
        *action_endpoints(queries, listings),
        *listings.plans.endpoints(),
        *listings.items.endpoints(),
        *listings.sites.endpoints(),
        *delivery_endpoints(queries, listings, streams),
        *people_endpoints(queries),
    )
