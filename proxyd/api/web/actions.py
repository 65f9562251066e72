"""What the buttons of pages do, but for those of the editor and of tokens."""

from __future__ import annotations

from aiohttp import web
from yarl import URL

from proxyd.api.rest.delivery_handlers import DeliveryHandlers
from proxyd.api.rest.profile_handlers import ProfileHandlers
from proxyd.api.web.gate import SIGNED
from proxyd.api.web.page_texts import part
from proxyd.ports import Control


class Actions:
    """Handlers of forms; each says what it did on the page that it leads back to."""

    def __init__(self, control: Control) -> None:
        self._declared, self._notified = ProfileHandlers(control), DeliveryHandlers(control)

    async def replay(self, request: web.Request) -> web.StreamResponse:
        """Send a notification again."""
        done = await self._notified.replay(request)
        many = "1 delivery is" if done.deliveries == 1 else f"{done.deliveries} deliveries are"
        request[SIGNED].session.notes.append(f"Sent again: {many} due.")
        raise web.HTTPSeeOther(URL(f"/notifications/{part(request.match_info['id'])}", encoded=True))

    async def replay_dead(self, request: web.Request) -> web.StreamResponse:
        """Send again every delivery that was given up."""
        done = await self._notified.replay_dead(request)
        request[SIGNED].session.notes.append(f"Sent again: {done.deliveries} that were given up.")
        raise web.HTTPSeeOther("/")

    async def reload(self, request: web.Request) -> web.StreamResponse:
        """Check the files and swap them in."""
        refused = await self._declared.reload(request)
        if isinstance(refused, web.Response):
            return refused
        request[SIGNED].session.notes.append("Reloaded: the files of the profiles have no errors, and are in force.")
        raise web.HTTPSeeOther("/plan")
