"""The routes of the REST API."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from aiohttp import web
from aiohttp.typedefs import Middleware

from proxyd import __version__
from proxyd.api import wire
from proxyd.api.auth import Quota, Quotas, require, tell_left
from proxyd.api.connections import admission, sending
from proxyd.api.endpoint import MOST_BYTES, Endpoint, listing, pattern
from proxyd.api.listings import Listings
from proxyd.api.peers import NO_PEERS, Peers
from proxyd.api.problems import Handler, problems
from proxyd.api.rest.action_handlers import move_endpoints, probe_endpoints, suspension_endpoints
from proxyd.api.rest.delivery_handlers import CALLBACK_PATH, Callbacks, delivery_endpoints
from proxyd.api.rest.health_handlers import HealthHandlers
from proxyd.api.rest.idempotency import Idempotency
from proxyd.api.rest.openapi import ApiDocument
from proxyd.api.rest.profile_feeds import feed_endpoints
from proxyd.api.rest.profile_handlers import profile_endpoints
from proxyd.api.rest.streams import Streams, StreamSettings
from proxyd.api.web import Dashboard
from proxyd.queries import Queries

_STREAMS = StreamSettings()


def make_app(
    queries: Queries,
    *,
    trusted: bool,
    stream_settings: StreamSettings = _STREAMS,
    quota: Quota | None = None,
    hosts: AbstractSet[str] | None = None,
    planners: Middleware | None = None,
    peers: Peers = NO_PEERS,
) -> web.Application:
    """Return the application; if ``trusted`` (the Unix socket, protected by its file mode), it needs no token.

    Requests must be for one of ``hosts``; ``None`` allows all. ``planners`` has requests answered by another planner,
    and ``peers`` are asked for what they know.
    """
    others = [] if planners is None else [planners]
    app = web.Application(middlewares=[sending, admission(hosts), *others, problems], client_max_size=MOST_BYTES)
    app.on_response_prepare.append(tell_left)
    quotas = None if quota is None else Quotas(quota)
    callbacks, streams, listings = Callbacks(queries), Streams(queries, stream_settings), Listings(queries, peers)
    app.on_shutdown.append(streams.end)
    app.router.add_get(CALLBACK_PATH, callbacks.verify, allow_head=False)
    app.router.add_post(CALLBACK_PATH, callbacks.push)
    found = endpoints(queries, listings, streams)
    idempotency = Idempotency(queries)
    for endpoint in found:
        handler = idempotency.keyed(endpoint.respond) if endpoint.is_keyed else endpoint.respond
        handler = _sized(handler, endpoint.most_bytes)
        if endpoint.scope is not None and not trusted:
            handler = require(endpoint, queries, quotas, handler)
        app.router.add_route(endpoint.method, pattern(endpoint.path), handler)
    described = ApiDocument(found, __version__)
    if not trusted:
        Dashboard(queries, listings, streams, described.values, peers).mount(app)

    async def openapi(request: web.Request) -> web.Response:
        return web.Response(body=await described.text(), content_type="application/json")

    app.router.add_get("/api/v1/openapi.json", openapi)
    return app


def _sized(handler: Handler, most_bytes: int) -> Handler:
    """Return ``handler`` with its own limit on the size of bodies."""
    if most_bytes == MOST_BYTES:
        return handler

    async def sized(request: web.Request) -> web.StreamResponse:
        return await handler(request.clone(client_max_size=most_bytes))

    return sized


def endpoints(queries: Queries, listings: Listings, streams: Streams) -> Sequence[Endpoint]:
    """Return all endpoints of the API, without the callbacks of hubs."""
    return (
        *HealthHandlers(lambda: queries.vitals.readiness(), lambda: queries.vitals.metrics()).endpoints(),
        *feed_endpoints(queries),
        *profile_endpoints(queries, listings),
        *suspension_endpoints(queries),
        *move_endpoints(queries),
        *probe_endpoints(listings),
        listing("/api/v1/items", listings.plans.search_items, wire.Page[wire.ItemFound], wire.SearchWindow),
        listing("/api/v1/plan", listings.plans.plan, wire.Items[wire.ComingProbe], wire.PlanWindow),
        listing("/api/v1/advice", listings.plans.advice, wire.AdviceShown),
        listing("/api/v1/report", listings.plans.report, wire.ReportShown, wire.Days),
        *delivery_endpoints(queries, listings, streams),
    )
