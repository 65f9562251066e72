"""The callbacks of WebSub hubs: they need no token, because their addresses cannot be guessed."""

from __future__ import annotations

from aiohttp import web

from proxyd.api.endpoint import read_bytes
from proxyd.core.errors import BusyError
from proxyd.queries import Queries

CALLBACK_PATH = "/websub/{callback_id:[A-Za-z0-9_-]{16,64}}"
_MOST_BYTES = 4 * 1024 * 1024


class Callbacks:
    """Handlers of verifications and pushes from hubs."""

    def __init__(self, queries: Queries) -> None:
        self._callbacks = queries.callbacks
        self._profiles = queries.profiles

    async def verify(self, request: web.Request) -> web.Response:
        """Echo the challenge of a subscription that proxyd requested."""
        self._must_have_started()
        challenge = await self._callbacks.verify(request.match_info["callback_id"], dict(request.query))
        if challenge is None:
            raise web.HTTPNotFound(text="no such subscription")
        return web.Response(text=challenge, content_type="text/plain", headers={"X-Content-Type-Options": "nosniff"})

    async def push(self, request: web.Request) -> web.Response:
        """Accept a pushed document; without a subscription, answer 410 before the body is read."""
        callback_id, headers = request.match_info["callback_id"], request.headers
        self._must_have_started()
        if not self._callbacks.is_subscribed(callback_id):
            return web.Response(status=410)
        body = await read_bytes(request.clone(client_max_size=_MOST_BYTES))
        await self._callbacks.push(callback_id, headers.get("Content-Type"), headers.get("X-Hub-Signature"), body)
        return web.Response(status=202)

    def _must_have_started(self) -> None:
        """Raise ``BusyError`` until the subscriptions are loaded."""
        if not self._profiles.has_started:
            raise BusyError("the daemon is starting; try again in a few seconds")
