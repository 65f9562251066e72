"""Health and metrics, which every process serves in every role."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from aiohttp import web

from proxyd.api import wire
from proxyd.api.connection_limits import admission, sending
from proxyd.api.endpoint import Endpoint, json_response
from proxyd.api.problems import problem

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
    app = web.Application(middlewares=[sending, admission(hosts)])
    app.add_routes([web.route(each.method, each.path, each.respond) for each in handlers.endpoints()])
    app.router.add_route("*", "/{path:.*}", _not_here)
    return app
