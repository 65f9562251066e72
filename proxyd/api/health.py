"""What a process answers that serves no API: one that stands by, or has another role."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

from proxyd.api.rest.endpoint import answered
from proxyd.api.rest.problems import problem
from proxyd.api.server import ApiSettings, listening
from proxyd.api.wire import Health, Readiness

_ELSEWHERE = (
    "this machine does not plan, so it does not answer the API: run the verb where the planner leads, or ask that "
    "planner with --url and its token in PROXYD_TOKEN"
)


@asynccontextmanager
async def serve_health(
    readiness: Callable[[], Mapping[str, bool]], metrics: Callable[[], bytes], settings: ApiSettings
) -> AsyncIterator[None]:
    """Answer ``/healthz``, ``/readyz`` and ``/metrics`` while the context is open, and of all else say who answers it.

    Raises as ``serve_api`` does.
    """
    async with listening(_app(readiness, metrics), _app(readiness, metrics), settings, serves="health"):
        yield


def _app(readiness: Callable[[], Mapping[str, bool]], metrics: Callable[[], bytes]) -> web.Application:
    async def healthz(request: web.Request) -> web.Response:
        return answered(Health())

    async def readyz(request: web.Request) -> web.Response:
        checks = dict(readiness())
        found = Readiness(ready=all(checks.values()), checks=checks)
        return answered(found, 200 if found.ready else 503)

    async def scraped(request: web.Request) -> web.Response:
        return web.Response(body=metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def elsewhere(request: web.Request) -> web.Response:
        return problem(421, "Misdirected Request", _ELSEWHERE)

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", scraped)])
    app.router.add_route("*", "/{path:.*}", elsewhere)
    return app
