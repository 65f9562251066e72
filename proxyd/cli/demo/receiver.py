"""The webhook receiver of the demo: verifies signatures and detects repeated and misordered notifications."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web
from standardwebhooks import Webhook, WebhookVerificationError

from proxyd.cli.demo.origin import listening, read_item_id
from proxyd.core.rules.programs.message_program import heading

_SHOWN = 5


@dataclass(slots=True)
class Delivered:
    """The notifications that came; ``undelivered`` items were read by the daemon, but did not arrive in time."""

    notifications: int = 0
    verified: int = 0
    duplicates: int = 0
    disordered: int = 0
    undelivered: int = 0

    @property
    def is_fine(self) -> bool:
        """Whether every item arrived, once, in order and correctly signed."""
        return self.notifications == self.verified and not (self.duplicates or self.disordered or self.undelivered)


class Receiver:
    """Accepts signed notifications of one item each, and counts errors; ``newest`` are the titles of the last few."""

    def __init__(self, secret: str) -> None:
        self._webhook = Webhook(secret)
        self._newest: dict[tuple[str, int], int] = {}
        self._came = asyncio.Event()
        self.items: set[tuple[int, int]] = set()
        self.newest: deque[str] = deque(maxlen=_SHOWN)
        self.delivered = Delivered()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Listen on a free port of loopback while the context is open; yield the webhook's address."""
        app = web.Application()
        app.router.add_post("/hook", self._accept)
        async with listening(app) as [address]:
            yield f"{address}/hook"

    async def has(self, expected: set[tuple[int, int]]) -> None:
        """Wait until every expected item, by feed and number, has arrived."""
        while not expected <= self.items:
            self._came.clear()
            await self._came.wait()

    async def _accept(self, request: web.Request) -> web.Response:
        body = await request.read()
        if json.loads(body)["type"] == "proxyd.ping":
            return web.Response(status=204)
        self.delivered.notifications += 1
        try:
            self._webhook.verify(body, dict(request.headers))
        except WebhookVerificationError:
            return web.Response(status=401)
        self.delivered.verified += 1
        self._note(body)
        self._came.set()
        return web.Response(status=204)

    def _note(self, body: bytes) -> None:
        data = json.loads(body)["data"]
        self.newest.append(heading(data))
        for row in data["items"]:
            feed, number = read_item_id(row["channel.item.guid"])
            stream = (data["rule"], feed)
            self.delivered.duplicates += (feed, number) in self.items
            self.delivered.disordered += number < self._newest.get(stream, -1)
            self._newest[stream] = max(number, self._newest.get(stream, -1))
            self.items.add((feed, number))
