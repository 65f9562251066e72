"""Handlers of notifications and what becomes of them."""

from __future__ import annotations

from dataclasses import asdict

from aiohttp import web

from proxyd.api.auth import new_token
from proxyd.api.listings import Listings
from proxyd.api.rest.endpoint import read_body, read_query
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
from proxyd.queries import Queries


class DeliveryHandlers:
    """Notifications, deliveries, receivers and tokens."""

    def __init__(self, queries: Queries, listings: Listings) -> None:
        self._listings = listings
        self._access = queries.access
        self._clock = queries.clock
        self._deliveries = queries.deliveries

    async def list_notifications(self, request: web.Request) -> Page[NotificationListed]:
        """List notifications, newest first, each with its deliveries."""
        return await self._listings.notifications(read_query(request, Found))

    async def get_notification(self, request: web.Request) -> NotificationTraced:
        """Show a notification with all that led to it and what became of it."""
        return await self._listings.notification(request.match_info["id"])

    async def replay(self, request: web.Request) -> Replayed:
        """Send a notification again."""
        return Replayed(deliveries=await self._deliveries.replay(request.match_info["id"]))

    async def list_dead_letters(self, request: web.Request) -> Page[DeadLetter]:
        """List the deliveries that were given up, newest first."""
        return await self._listings.dead_letters(read_query(request, ListWindow))

    async def replay_dead(self, request: web.Request) -> Replayed:
        """Send again every delivery that was given up."""
        return Replayed(deliveries=await self._deliveries.replay(None))

    async def list_webhooks(self, request: web.Request) -> Items[WebhookShown]:
        """List the webhooks and whether each has shown that it is there."""
        return await self._listings.webhooks()

    async def test_deliveries(self, request: web.Request) -> Items[TestResult]:
        """Send a test message wherever a rule delivers."""
        results = await self._deliveries.test_deliveries((await read_body(request, TestWanted)).rule)
        return Items[TestResult](items=[TestResult(**asdict(each)) for each in results])

    async def list_tokens(self, request: web.Request) -> Items[TokenShown]:
        """List the tokens, without their secrets."""
        return await self._listings.tokens()

    async def make_token(self, request: web.Request) -> TokenMade:
        """Make a token; its text is in this answer alone."""
        asked = await read_body(request, TokenWanted)
        token, shown = new_token(asked.name, asked.scope, now_s=self._clock.time_s(), expires_in_s=asked.expires_in_s)
        await self._access.add_token(token)
        return TokenMade(name=token.name, scope=token.scope, token=shown)

    async def drop_token(self, request: web.Request) -> Dropped:
        """Let a token open nothing any more, from now on."""
        await self._access.drop_token(request.match_info["name"])
        return Dropped()
