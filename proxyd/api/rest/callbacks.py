"""Where WebSub hubs call: no token is asked for, the address itself cannot be guessed."""

from __future__ import annotations

from aiohttp import web

from proxyd.errors import BusyError
from proxyd.queries import Queries

CALLBACK_PATH = "/websub/{callback_id:[A-Za-z0-9_-]{16,64}}"
_MOST_BYTES = 4 * 1024 * 1024


class Callbacks:
    """Handlers of what hubs ask and push."""

    def __init__(self, queries: Queries) -> None:
        self._callbacks = queries.callbacks
        self._profiles = queries.profiles

    async def verify(self, request: web.Request) -> web.Response:
        """Echo the challenge of a subscription that was asked for."""
        self._must_have_started()
        challenge = await self._callbacks.verify(request.match_info["callback_id"], dict(request.query))
        if challenge is None:
            raise web.HTTPNotFound(text="no such subscription")
        return web.Response(text=challenge, content_type="text/plain", headers={"X-Content-Type-Options": "nosniff"})

    async def push(self, request: web.Request) -> web.Response:
        """Take in a document; a hub that is not subscribed to is told to stop (410), before its body is read."""
        callback_id, headers = request.match_info["callback_id"], request.headers
        self._must_have_started()
        if not self._callbacks.is_subscribed(callback_id):
            return web.Response(status=410)
        body = await request.clone(client_max_size=_MOST_BYTES).read()
        await self._callbacks.push(callback_id, headers.get("Content-Type"), headers.get("X-Hub-Signature"), body)
        return web.Response(status=202)

    def _must_have_started(self) -> None:
        """At the start nobody knows yet what is subscribed to."""
        if not self._profiles.has_started:
            raise BusyError("the daemon is starting")
