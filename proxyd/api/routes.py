"""The routes of the REST API."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from typing import Any

from aiohttp import web

from proxyd.api import payloads
from proxyd.api.auth import new_token, require
from proxyd.api.callbacks import CALLBACK_PATH, Callbacks
from proxyd.api.feeds import Feeds
from proxyd.api.problems import BadRequestError, Handler, problem, problems
from proxyd.api.queries import position, wanted
from proxyd.api.streams import Streams, StreamSettings
from proxyd.api.traces import trace
from proxyd.errors import NotFoundError
from proxyd.ports import Control

_MAX_BODY = 256 * 1024
_MAX_PAGE = 500
_MAX_DAYS = 3660
_STREAMS = StreamSettings()


class Routes:
    """Handlers over a ``Control``."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def healthz(self, request: web.Request) -> web.Response:
        """Answer: the loop is alive."""
        return web.json_response({"alive": True})

    async def readyz(self, request: web.Request) -> web.Response:
        """Answer whether traffic may come."""
        checks = await self._control.readiness()
        ready = all(checks.values())
        return web.json_response({"ready": ready, "checks": checks}, status=200 if ready else 503)

    async def metrics(self, request: web.Request) -> web.Response:
        """Return the metrics."""
        return web.Response(
            body=await self._control.metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )

    async def list_profiles(self, request: web.Request) -> web.Response:
        """Return the profiles in name order."""
        declaration = self._control.declaration
        limit, after = _window(request)
        names = [name for name in sorted(declaration.profiles) if after is None or name > after][: limit + 1]
        found = [payloads.profile(declaration.profiles[name], declaration, self._control) for name in names]
        return _answer(found, limit, "name")

    async def get_profile(self, request: web.Request) -> web.Response:
        """Return one profile, with its text."""
        declaration = self._control.declaration
        declared = declaration.profiles.get(request.match_info["name"])
        if declared is None:
            raise NotFoundError(f"there is no profile {request.match_info['name']!r}")
        payload = payloads.profile(declared, declaration, self._control)
        return web.json_response(payload | {"text": self._control.text_of(declared.name)})

    async def post_profile(self, request: web.Request) -> web.Response:
        """Declare a text of the rule language."""
        if request.content_type not in {"text/plain", "application/octet-stream"}:
            return problem(415, "Unsupported media type", "send the text of the profile as text/plain")
        try:
            text = (await request.read()).decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadRequestError("the text is not UTF-8") from error
        dry_run = request.query.get("dry_run", "false").lower() in {"true", "1"}
        changes = await self._control.declare(text, dry_run=dry_run)
        return web.json_response(asdict(changes) | {"dry_run": dry_run}, status=200 if dry_run else 201)

    async def delete_profile(self, request: web.Request) -> web.Response:
        """Remove a profile of the API."""
        changes = await self._control.drop_profile(request.match_info["name"])
        return web.json_response(asdict(changes))

    async def list_sources(self, request: web.Request) -> web.Response:
        """Return the sources in name order."""
        declaration = self._control.declaration
        limit, after = _window(request)
        names = [name for name in sorted(declaration.sources) if after is None or name > after]
        found = [self._control.explain(name) for name in names[: limit + 1]]
        items = [payloads.source(declaration, one) for one in found if one is not None]
        return _answer(items, limit, "source")

    async def explain(self, request: web.Request) -> web.Response:
        """Return why and when a source is probed next."""
        name = request.match_info["name"]
        found = self._control.explain(name)
        if found is None:
            raise NotFoundError(f"there is no source {name!r}")
        return web.json_response(payloads.explanation(found))

    async def plan(self, request: web.Request) -> web.Response:
        """Return the coming probes in order."""
        limit, _ = _window(request)
        return web.json_response({"items": [payloads.planned_probe(p) for p in self._control.plan(limit=limit)]})

    async def advice(self, request: web.Request) -> web.Response:
        """Return what other budgets would buy."""
        return web.json_response(payloads.advice(await self._control.advise()))

    async def report(self, request: web.Request) -> web.Response:
        """Return what was found beside what was predicted, day by day."""
        return web.json_response(payloads.report(await self._control.report(days=_days(request))))

    async def list_notifications(self, request: web.Request) -> web.Response:
        """Return notifications, newest first."""
        limit, cursor = _window(request)
        before = None if cursor is None else position(cursor, "cursor is not one that this API gave out")
        rows = await self._control.notifications(wanted(request, self._control), before=before, limit=limit + 1)
        next_cursor = _cursor(str(rows[limit - 1]["position"])) if len(rows) > limit else None
        return web.json_response(
            {"items": [payloads.notification(row) for row in rows[:limit]], "next_cursor": next_cursor}
        )

    async def get_notification(self, request: web.Request) -> web.Response:
        """Return all that led to a notification, and what became of it."""
        return web.json_response(trace(await self._control.trace(request.match_info["id"])))

    async def replay(self, request: web.Request) -> web.Response:
        """Send a notification again."""
        return web.json_response({"deliveries": await self._control.replay(request.match_info["id"])}, status=202)

    async def replay_dead(self, request: web.Request) -> web.Response:
        """Send again every delivery that was given up."""
        return web.json_response({"deliveries": await self._control.replay(None)}, status=202)

    async def list_webhooks(self, request: web.Request) -> web.Response:
        """Return every webhook and whether it has shown that it is there."""
        return web.json_response({"items": [payloads.webhook(each) for each in await self._control.webhooks()]})

    async def test_deliveries(self, request: web.Request) -> web.Response:
        """Send a test message to a rule's webhooks, mail addresses and channels."""
        results = await self._control.test_deliveries(str((await _json(request)).get("rule", "")))
        return web.json_response({"items": [asdict(result) for result in results]})

    async def reload(self, request: web.Request) -> web.Response:
        """Check the files and swap them in."""
        ok = await self._control.reload()
        if not ok:
            return problem(422, "The profiles have errors", "nothing was changed; the log and `proxyd check` name them")
        return web.json_response({"reloaded": True})

    async def post_token(self, request: web.Request) -> web.Response:
        """Make a token; its text is in this answer and nowhere else."""
        wanted = await _json(request)
        expires = wanted.get("expires_in_s")
        if isinstance(expires, bool) or not isinstance(expires, int | float | None):
            raise BadRequestError("expires_in_s must be a number of seconds")
        token, shown = new_token(
            str(wanted.get("name", "")),
            str(wanted.get("scope", "")),
            now_s=self._control.time_s(),
            expires_in_s=expires,
        )
        await self._control.add_token(token)
        return web.json_response({"name": token.name, "scope": token.scope, "token": shown}, status=201)


def make_app(control: Control, *, trusted: bool, stream_settings: StreamSettings = _STREAMS) -> web.Application:
    """Return the application; where ``trusted`` (the Unix socket, guarded by its file mode) no token is asked for."""
    app = web.Application(middlewares=[problems], client_max_size=_MAX_BODY)
    routes = Routes(control)
    callbacks = Callbacks(control)
    streams = Streams(control, stream_settings)
    app.on_shutdown.append(streams.end)
    app.router.add_get(CALLBACK_PATH, callbacks.verify, allow_head=False)
    app.router.add_post(CALLBACK_PATH, callbacks.push)
    for path, handler in _feed_table(Feeds(control)):
        guarded = handler if trusted else require("read", control, handler, in_query=True)
        app.router.add_get(path, guarded)
    for method, path, scope, handler in _table(routes, streams):
        guarded = handler if trusted or scope is None else require(scope, control, handler)
        app.router.add_route(method, path, guarded)
    return app


def _feed_table(feeds: Feeds) -> list[tuple[str, Handler]]:
    """Return the routes that feed readers ask, which cannot send headers."""
    return [
        ("/api/v1/profiles/{name:.+}/feed.atom", feeds.atom),
        ("/api/v1/profiles/{name:.+}/feed.json", feeds.json),
    ]


def _table(routes: Routes, streams: Streams) -> list[tuple[str, str, str | None, Handler]]:
    return [
        ("GET", "/healthz", None, routes.healthz),
        ("GET", "/readyz", None, routes.readyz),
        ("GET", "/metrics", None, routes.metrics),
        ("GET", "/api/v1/profiles", "read", routes.list_profiles),
        ("POST", "/api/v1/profiles", "write", routes.post_profile),
        ("GET", "/api/v1/profiles/{name:.+}", "read", routes.get_profile),
        ("DELETE", "/api/v1/profiles/{name:.+}", "write", routes.delete_profile),
        ("GET", "/api/v1/sources", "read", routes.list_sources),
        ("GET", "/api/v1/explain/{name:.+}", "read", routes.explain),
        ("GET", "/api/v1/plan", "read", routes.plan),
        ("GET", "/api/v1/advice", "read", routes.advice),
        ("GET", "/api/v1/report", "read", routes.report),
        ("GET", "/api/v1/notifications", "read", routes.list_notifications),
        ("GET", "/api/v1/notifications/{id}", "read", routes.get_notification),
        ("GET", "/api/v1/stream", "read", streams.follow),
        ("POST", "/api/v1/notifications/{id}/replay", "write", routes.replay),
        ("POST", "/api/v1/deliveries/replay", "write", routes.replay_dead),
        ("GET", "/api/v1/webhooks", "read", routes.list_webhooks),
        ("POST", "/api/v1/deliveries/test", "write", routes.test_deliveries),
        ("POST", "/api/v1/reload", "write", routes.reload),
        ("POST", "/api/v1/tokens", "admin", routes.post_token),
    ]


async def _json(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read())
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise BadRequestError(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise web.HTTPBadRequest(text="the body is not a JSON object")
    return body


def _window(request: web.Request) -> tuple[int, str | None]:
    """Return the page size and the decoded cursor of a request."""
    try:
        limit = int(request.query.get("limit", "50"))
    except ValueError as error:
        raise BadRequestError("limit is not a whole number") from error
    if not 1 <= limit <= _MAX_PAGE:
        raise BadRequestError(f"limit must lie between 1 and {_MAX_PAGE}")
    cursor = request.query.get("cursor")
    if cursor is None:
        return limit, None
    try:
        return limit, base64.urlsafe_b64decode(cursor.encode()).decode()
    except ValueError as error:
        raise BadRequestError("cursor is not one that this API gave out") from error


def _days(request: web.Request) -> int:
    try:
        days = int(request.query.get("days", "14"))
    except ValueError as error:
        raise BadRequestError("days is not a whole number") from error
    if not 1 <= days <= _MAX_DAYS:
        raise BadRequestError(f"days must lie between 1 and {_MAX_DAYS}")
    return days


def _cursor(value: str) -> str:
    return base64.urlsafe_b64encode(value.encode()).decode()


def _answer(items: list[dict[str, Any]], limit: int, key: str) -> web.Response:
    next_cursor = _cursor(items[limit - 1][key]) if len(items) > limit else None
    return web.json_response({"items": items[:limit], "next_cursor": next_cursor})
