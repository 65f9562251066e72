"""What the buttons of pages do, but for those of the editor and of tokens."""

from __future__ import annotations

from aiohttp import web
from yarl import URL

from proxyd.api.rest.profile_handlers import refused_reload
from proxyd.api.web.gate import SIGNED
from proxyd.api.web.page_texts import part
from proxyd.queries import Queries


class Actions:
    """Handlers of forms; each says what it did on the page that it leads back to."""

    def __init__(self, queries: Queries) -> None:
        self._profiles = queries.profiles
        self._deliveries = queries.deliveries

    async def replay(self, request: web.Request) -> web.StreamResponse:
        """Send a notification again."""
        notification_id = request.match_info["id"]
        count = await self._deliveries.replay(notification_id)
        many = "1 delivery is" if count == 1 else f"{count} deliveries are"
        request[SIGNED].session.notes.append(f"Sent again: {many} due.")
        raise web.HTTPSeeOther(URL(f"/notifications/{part(notification_id)}", encoded=True))

    async def replay_dead(self, request: web.Request) -> web.StreamResponse:
        """Send again every delivery that was given up."""
        count = await self._deliveries.replay(None)
        request[SIGNED].session.notes.append(f"Sent again: {count} that were given up.")
        raise web.HTTPSeeOther("/")

    async def reload(self, request: web.Request) -> web.StreamResponse:
        """Check the files and swap them in."""
        if errors := await self._profiles.reload():
            return refused_reload(errors)
        request[SIGNED].session.notes.append("Reloaded: the files of the profiles have no errors, and are in force.")
        raise web.HTTPSeeOther("/plan")
