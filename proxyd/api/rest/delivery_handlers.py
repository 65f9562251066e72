"""Handlers and endpoints of notifications, deliveries and tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from aiohttp import web

from proxyd.api import wire
from proxyd.api.auth import new_token
from proxyd.api.bounds import Within
from proxyd.api.connection_limits import limit_send_time, refuse_foreign_hosts
from proxyd.api.endpoint import Endpoint, json_response, listing, read_body, read_bytes
from proxyd.api.listings import Listings
from proxyd.api.problems import problem
from proxyd.api.queries import Queries
from proxyd.api.rest.live_streams import Streams
from proxyd.base.doers import OwnerLimits
from proxyd.core.errors import NotFoundError
from proxyd.core.language import find_named
from proxyd.core.model.suspension import Subject

_NO_API = (
    "this machine does not plan, so it does not answer the API: run the verb on a machine with a planner, or "
    "name a planner with --url and a token in PROXYD_TOKEN"
)


class HealthHandlers:
    """Handlers of ``/healthz``, ``/readyz`` and ``/metrics``."""

    def __init__(
        self, readiness: Callable[[], Awaitable[Mapping[str, bool]]], metrics: Callable[[], Awaitable[bytes]]
    ) -> None:
        self._readiness = readiness
        self._metrics = metrics

    async def healthz(self, request: web.Request) -> wire.Health:
        """Say that the event loop is alive."""
        return wire.Health()

    async def readyz(self, request: web.Request) -> web.Response:
        """Say whether the daemon is ready for traffic."""
        checks = dict(await self._readiness())
        found = wire.Readiness(ready=all(checks.values()), checks=checks)
        return json_response(found, 200 if found.ready else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        """Return the metrics in Prometheus' text format."""
        headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        return web.Response(body=await self._metrics(), headers=headers)

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints; none requires a token."""
        return (
            Endpoint("GET", "/healthz", None, self.healthz, wire.Health),
            Endpoint("GET", "/readyz", None, self.readyz, wire.Readiness, also=(503,)),
            Endpoint("GET", "/metrics", None, self.metrics, "text/plain"),
        )


async def _not_here(request: web.Request) -> web.StreamResponse:
    """Refuse a request for the API, on a machine that cannot say which one answers it."""
    return problem(421, "Misdirected Request", _NO_API)


def health_app(handlers: HealthHandlers, hosts: AbstractSet[str] | None = None) -> web.Application:
    """Return the application of a process without an API."""
    app = web.Application(middlewares=[limit_send_time, refuse_foreign_hosts(hosts)])
    app.add_routes([web.route(each.method, each.path, each.respond) for each in handlers.endpoints()])
    app.router.add_route("*", "/{path:.*}", _not_here)
    return app


class _DeliveryHandlers:
    """Handlers that send deliveries again, test them, and create or revoke tokens."""

    def __init__(self, queries: Queries) -> None:
        self._access = queries.access
        self._people = queries.people
        self._clock = queries.clock
        self._deliveries = queries.deliveries
        self._profiles = queries.profiles

    async def replay(self, request: web.Request) -> wire.Replayed:
        """Send a notification again."""
        return wire.Replayed(deliveries=await self._deliveries.replay(request.match_info["id"]))

    async def replay_dead(self, request: web.Request) -> wire.Replayed:
        """Send every delivery again that was given up."""
        return wire.Replayed(deliveries=await self._deliveries.replay(None))

    async def test_deliveries(self, request: web.Request) -> wire.Items[wire.TestResult]:
        """Send a test message to every receiver of a rule."""
        asked = await read_body(request, wire.TestWanted)
        rule = self._profiles.full_name_of(asked.rule, Subject.RULE, to_change=True)
        results = await self._deliveries.test_deliveries(rule)
        return wire.Items[wire.TestResult](items=wire.TestResult.list_of(results))

    async def test_receiver(self, request: web.Request) -> wire.Items[wire.TestResult]:
        """Send a test message to every address of a receiver."""
        results = await self._deliveries.test_receiver(request.match_info["name"])
        return wire.Items[wire.TestResult](items=wire.TestResult.list_of(results))

    async def make_token(self, request: web.Request) -> wire.TokenMade:
        """Create a token; only this response contains its text."""
        asked = await read_body(request, wire.TokenWanted)
        token, shown = new_token(
            *(asked.name, asked.scope),
            now_s=self._clock.time_s(),
            expires_in_s=asked.expires_in_s,
            profiles=asked.profiles,
            person=asked.person,
            limits=OwnerLimits(**dict(asked.limits)),
        )
        if asked.person is not None and await self._people.find(asked.person) is None:
            raise NotFoundError(f"there is no person {asked.person!r}; `proxyd person list` shows them")
        for each in asked.profiles if asked.scope == "read" else ():  # who writes may declare them first
            find_named("profile", each, self._profiles.ready().profiles)
        await self._access.add_token(token)
        return wire.TokenMade(name=token.name, scope=token.scope, token=shown)

    async def drop_token(self, request: web.Request) -> wire.Dropped:
        """Revoke a token, with immediate effect."""
        await self._access.drop_token(request.match_info["name"], self._clock.time_s())
        return wire.Dropped()


def delivery_endpoints(queries: Queries, listings: Listings, streams: Streams) -> Sequence[Endpoint]:
    """Return the endpoints of notifications, deliveries, receivers and tokens."""
    handlers, listed = _DeliveryHandlers(queries), listings.deliveries
    return (
        listing("/api/v1/notifications", listed.list_notifications, wire.Page[wire.NotificationListed], wire.Found,
                raises=(404, 503), within=Within.PART),
        listing("/api/v1/notifications/{id}", listed.get_notification, wire.NotificationTraced, raises=(404,),
                within=Within.NOTIFICATION),
        listing("/api/v1/notifications/{id}/screenshot", listed.get_screenshot, "image/*", raises=(404,),
                within=Within.NOTIFICATION),
        Endpoint("POST", "/api/v1/notifications/{id}/replay", "write", handlers.replay, wire.Replayed, status=202,
                 raises=(404, 409, 422), is_keyed=True, within=Within.NOTIFICATION),
        Endpoint("GET", "/api/v1/stream", "read", streams.follow, "text/event-stream", wire.Followed,
                 raises=(404, 503), within=Within.PART),
        listing("/api/v1/deliveries/dead", listed.list_dead_letters, wire.Page[wire.DeadLetter], wire.ListWindow,
                within=Within.PART),
        Endpoint("POST", "/api/v1/deliveries/replay", "write", handlers.replay_dead, wire.Replayed, status=202,
                 raises=(409, 422), is_keyed=True),
        Endpoint("POST", "/api/v1/deliveries/test", "write", handlers.test_deliveries, wire.Items[wire.TestResult],
                 body=wire.TestWanted, raises=(404, 409, 413, 422), is_keyed=True, within=Within.PART),
        Endpoint("POST", "/api/v1/receivers/{name}/test", "write", handlers.test_receiver, wire.Items[wire.TestResult],
                 raises=(404, 409, 422, 503), is_keyed=True, within=Within.PART),
        listing("/api/v1/webhooks", listed.list_webhooks, wire.Items[wire.WebhookShown]),
        listing("/api/v1/audit", listed.list_audit, wire.Page[wire.DeedShown], wire.ListWindow, scope="write"),
        listing("/api/v1/tokens", listed.list_tokens, wire.Items[wire.TokenShown], scope="admin"),
        Endpoint("POST", "/api/v1/tokens", "admin", handlers.make_token, wire.TokenMade, body=wire.TokenWanted,
                 status=201, raises=(404, 409, 413, 422, 503)),
        Endpoint("DELETE", "/api/v1/tokens/{name}", "admin", handlers.drop_token, wire.Dropped, raises=(404,)),
    )  # fmt: skip


CALLBACK_PATH = "/websub/{callback_id:[A-Za-z0-9_-]{16,64}}"
_MOST_BYTES = 4 * 1024 * 1024


class Callbacks:
    """Handlers of verifications and pushes from hubs."""

    def __init__(self, queries: Queries) -> None:
        self._callbacks = queries.callbacks
        self._profiles = queries.profiles

    async def verify(self, request: web.Request) -> web.Response:
        """Echo the challenge of a subscription that proxyd requested."""
        self._profiles.ready()  # the subscriptions are loaded then
        challenge = await self._callbacks.verify(request.match_info["callback_id"], dict(request.query))
        if challenge is None:
            raise web.HTTPNotFound(text="no such subscription")
        return web.Response(text=challenge, content_type="text/plain", headers={"X-Content-Type-Options": "nosniff"})

    async def push(self, request: web.Request) -> web.Response:
        """Accept a pushed document; without a subscription, answer 410 before the body is read."""
        callback_id, headers = request.match_info["callback_id"], request.headers
        self._profiles.ready()  # the subscriptions are loaded then
        if not self._callbacks.is_subscribed(callback_id):
            return web.Response(status=410)
        body = await read_bytes(request.clone(client_max_size=_MOST_BYTES))
        await self._callbacks.push(callback_id, headers.get("Content-Type"), headers.get("X-Hub-Signature"), body)
        return web.Response(status=202)
