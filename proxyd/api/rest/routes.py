"""The routes of the REST API."""

from __future__ import annotations

import json
from collections.abc import Sequence

from aiohttp import web

from proxyd import __version__
from proxyd.api.auth import require
from proxyd.api.listings import Listings
from proxyd.api.quotas import Quota, Quotas, tell_left
from proxyd.api.rest.callbacks import CALLBACK_PATH, Callbacks
from proxyd.api.rest.delivery_handlers import DeliveryHandlers
from proxyd.api.rest.endpoint import MOST_BYTES, Endpoint, pattern
from proxyd.api.rest.idempotency import Idempotency
from proxyd.api.rest.openapi import document
from proxyd.api.rest.plan_handlers import PlanHandlers
from proxyd.api.rest.problems import Handler, problems
from proxyd.api.rest.profile_feeds import Feeds
from proxyd.api.rest.profile_handlers import LISTINGS, MOST_LISTED, TEXTS, ProfileHandlers
from proxyd.api.rest.streams import Streams, StreamSettings
from proxyd.api.web import Dashboard
from proxyd.api.wire import (
    AdviceShown,
    ChangesMade,
    ComingProbe,
    Days,
    DaysOfIntervals,
    DaysOfItems,
    DeadLetter,
    DeclarationWritten,
    DomainShown,
    Dropped,
    DryRun,
    Explained,
    FeedOf,
    Followed,
    Found,
    Health,
    IntervalOfRule,
    Items,
    ItemSeen,
    Listing,
    ListWindow,
    NotificationListed,
    NotificationTraced,
    Page,
    PlanWindow,
    ProbeMade,
    ProfileListed,
    ProfileShown,
    Readiness,
    Reloaded,
    Replayed,
    ReportShown,
    Rule,
    SourceListed,
    SourcesWindow,
    TestResult,
    TestWanted,
    TokenMade,
    TokenShown,
    TokenWanted,
    WebhookShown,
)
from proxyd.queries import Queries

_STREAMS = StreamSettings()


def make_app(
    queries: Queries, *, trusted: bool, stream_settings: StreamSettings = _STREAMS, quota: Quota | None = None
) -> web.Application:
    """Return the application; where ``trusted`` (the Unix socket, guarded by its file mode) no token is asked for."""
    app = web.Application(middlewares=[problems], client_max_size=MOST_BYTES)
    app.on_response_prepare.append(tell_left)
    quotas = None if quota is None else Quotas(quota)
    callbacks, streams, listings = Callbacks(queries), Streams(queries, stream_settings), Listings(queries)
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
    described = document(found, __version__)
    written = json.dumps(described, indent=2).encode()
    if not trusted:
        Dashboard(queries, listings, streams, described).mount(app)

    async def openapi(request: web.Request) -> web.Response:
        return web.Response(body=written, content_type="application/json")

    app.router.add_get("/api/v1/openapi.json", openapi)
    return app


def _sized(handler: Handler, most_bytes: int) -> Handler:
    """Return ``handler`` for bodies of another size than the application takes."""
    if most_bytes == MOST_BYTES:
        return handler

    async def sized(request: web.Request) -> web.StreamResponse:
        return await handler(request.clone(client_max_size=most_bytes))

    return sized


def endpoints(queries: Queries, listings: Listings, streams: Streams) -> Sequence[Endpoint]:
    """Return all that the API answers, but for what hubs call."""
    declared, planned = ProfileHandlers(queries, listings), PlanHandlers(queries, listings)
    notified, feeds = DeliveryHandlers(queries, listings), Feeds(queries)
    return (
        Endpoint("GET", "/healthz", None, planned.healthz, Health),
        Endpoint("GET", "/readyz", None, planned.readyz, Readiness, also=(503,)),
        Endpoint("GET", "/metrics", None, planned.metrics, "text/plain"),
        Endpoint("GET", "/api/v1/profiles/{name}/feed.atom", "read", feeds.atom, "application/atom+xml",
                 FeedOf, raises=(404, 503), token_in_query=True),
        Endpoint("GET", "/api/v1/profiles/{name}/feed.json", "read", feeds.json, "application/feed+json",
                 FeedOf, raises=(404, 503), token_in_query=True),
        Endpoint("GET", "/api/v1/profiles", "read", declared.list_profiles, Page[ProfileListed], ListWindow),
        Endpoint("POST", "/api/v1/profiles", "write", declared.declare, ChangesMade, DryRun, DeclarationWritten, TEXTS,
                 status=201, also=(200,), raises=(404, 409, 412, 413, 415, 422), is_keyed=True, is_conditional=True),
        Endpoint("GET", "/api/v1/profiles/{name}", "read", declared.get_profile, ProfileShown, raises=(404, 503),
                 is_tagged=True),
        Endpoint("DELETE", "/api/v1/profiles/{name}", "write", declared.drop_profile, ChangesMade,
                 raises=(404, 409, 412, 422, 503), is_conditional=True),
        Endpoint("POST", "/api/v1/import", "write", declared.import_feeds, ChangesMade, Listing, texts=LISTINGS,
                 status=201, also=(200,), raises=(409, 413, 415, 422, 503), is_keyed=True, most_bytes=MOST_LISTED),
        Endpoint("GET", "/api/v1/export", "read", declared.export_feeds, "text/x-opml", raises=(503,)),
        Endpoint("GET", "/api/v1/rules", "read", declared.list_rules, Page[Rule], ListWindow),
        Endpoint("GET", "/api/v1/rules/{name}", "read", declared.get_rule, Rule, raises=(404, 503)),
        Endpoint("GET", "/api/v1/rules/{name}/intervals", "read", planned.list_intervals, Items[IntervalOfRule],
                 DaysOfIntervals, raises=(404, 503)),
        Endpoint("GET", "/api/v1/domains", "read", declared.list_domains, Page[DomainShown], ListWindow),
        Endpoint("GET", "/api/v1/sources", "read", declared.list_sources, Page[SourceListed], SourcesWindow),
        Endpoint("GET", "/api/v1/sources/{name}/probes", "read", planned.list_probes, Page[ProbeMade], ListWindow,
                 raises=(404,)),
        Endpoint("GET", "/api/v1/sources/{name}/items", "read", planned.list_items, Items[ItemSeen], DaysOfItems,
                 raises=(404,)),
        Endpoint("GET", "/api/v1/explain/{name}", "read", declared.explain, Explained, raises=(404,)),
        Endpoint("POST", "/api/v1/reload", "write", declared.reload, Reloaded, raises=(409, 422), is_keyed=True),
        Endpoint("GET", "/api/v1/plan", "read", planned.plan, Items[ComingProbe], PlanWindow),
        Endpoint("GET", "/api/v1/advice", "read", planned.advice, AdviceShown),
        Endpoint("GET", "/api/v1/report", "read", planned.report, ReportShown, Days),
        Endpoint("GET", "/api/v1/notifications", "read", notified.list_notifications, Page[NotificationListed], Found,
                 raises=(404, 503)),
        Endpoint("GET", "/api/v1/notifications/{id}", "read", notified.get_notification, NotificationTraced,
                 raises=(404,)),
        Endpoint("POST", "/api/v1/notifications/{id}/replay", "write", notified.replay, Replayed, status=202,
                 raises=(404, 409, 422), is_keyed=True),
        Endpoint("GET", "/api/v1/stream", "read", streams.follow, "text/event-stream", Followed, raises=(404, 503)),
        Endpoint("GET", "/api/v1/deliveries/dead", "read", notified.list_dead_letters, Page[DeadLetter], ListWindow),
        Endpoint("POST", "/api/v1/deliveries/replay", "write", notified.replay_dead, Replayed, status=202,
                 raises=(409, 422), is_keyed=True),
        Endpoint("POST", "/api/v1/deliveries/test", "write", notified.test_deliveries, Items[TestResult],
                 body=TestWanted, raises=(404, 409, 413, 422), is_keyed=True),
        Endpoint("GET", "/api/v1/webhooks", "read", notified.list_webhooks, Items[WebhookShown]),
        Endpoint("GET", "/api/v1/tokens", "admin", notified.list_tokens, Items[TokenShown]),
        Endpoint("POST", "/api/v1/tokens", "admin", notified.make_token, TokenMade, body=TokenWanted, status=201,
                 raises=(409, 413, 422)),
        Endpoint("DELETE", "/api/v1/tokens/{name}", "admin", notified.drop_token, Dropped, raises=(404,)),
    )  # fmt: skip
