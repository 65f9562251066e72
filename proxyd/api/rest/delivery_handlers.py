"""Handlers of notifications and what becomes of them."""

from __future__ import annotations

from dataclasses import asdict

from aiohttp import web

from proxyd.api.auth import new_token
from proxyd.api.rest.endpoint import read_body, read_query
from proxyd.api.rest.notification_traces import trace
from proxyd.api.rest.query_readers import before, page_of, wanted
from proxyd.api.wire import (
    DeadLetter,
    Dropped,
    Found,
    Items,
    ListWindow,
    NotificationListed,
    NotificationTraced,
    Page,
    Replayed,
    TestResult,
    TestWanted,
    TokenMade,
    TokenShown,
    TokenWanted,
    WebhookShown,
)
from proxyd.api.wire import converters as payloads
from proxyd.ports import Control


class DeliveryHandlers:
    """Notifications, deliveries, receivers and tokens."""

    def __init__(self, control: Control) -> None:
        self._control = control

    async def list_notifications(self, request: web.Request) -> Page[NotificationListed]:
        """List notifications, newest first, each with its deliveries."""
        return await self.found(read_query(request, Found))

    async def found(self, asked: Found) -> Page[NotificationListed]:
        """Return a part of the notifications that are asked for."""
        which = wanted(asked, self._control, since=asked.since)
        rows = await self._control.notifications(which, before=before(asked.cursor), limit=asked.limit + 1)
        rows, next_cursor = page_of(rows, asked.limit)
        return Page[NotificationListed](items=[payloads.notification(row) for row in rows], next_cursor=next_cursor)

    async def get_notification(self, request: web.Request) -> NotificationTraced:
        """Show a notification with all that led to it and what became of it."""
        return trace(await self._control.trace(request.match_info["id"]))

    async def replay(self, request: web.Request) -> Replayed:
        """Send a notification again."""
        return Replayed(deliveries=await self._control.replay(request.match_info["id"]))

    async def list_dead_letters(self, request: web.Request) -> Page[DeadLetter]:
        """List the deliveries that were given up, newest first."""
        asked = read_query(request, ListWindow)
        rows = await self._control.dead_letters(before=before(asked.cursor), limit=asked.limit + 1)
        rows, next_cursor = page_of(rows, asked.limit)
        return Page[DeadLetter](items=[payloads.dead_letter(row) for row in rows], next_cursor=next_cursor)

    async def replay_dead(self, request: web.Request) -> Replayed:
        """Send again every delivery that was given up."""
        return Replayed(deliveries=await self._control.replay(None))

    async def list_webhooks(self, request: web.Request) -> Items[WebhookShown]:
        """List the webhooks and whether each has shown that it is there."""
        return Items[WebhookShown](items=[payloads.webhook(each) for each in await self._control.webhooks()])

    async def test_deliveries(self, request: web.Request) -> Items[TestResult]:
        """Send a test message wherever a rule delivers."""
        results = await self._control.test_deliveries((await read_body(request, TestWanted)).rule)
        return Items[TestResult](items=[TestResult(**asdict(each)) for each in results])

    async def list_tokens(self, request: web.Request) -> Items[TokenShown]:
        """List the tokens, without their secrets."""
        return Items[TokenShown](items=[payloads.token(each) for each in await self._control.tokens()])

    async def make_token(self, request: web.Request) -> TokenMade:
        """Make a token; its text is in this answer alone."""
        asked = await read_body(request, TokenWanted)
        token, shown = new_token(asked.name, asked.scope, now_s=self._control.time_s(), expires_in_s=asked.expires_in_s)
        await self._control.add_token(token)
        return TokenMade(name=token.name, scope=token.scope, token=shown)

    async def drop_token(self, request: web.Request) -> Dropped:
        """Let a token open nothing any more, from now on."""
        await self._control.drop_token(request.match_info["name"])
        return Dropped()
