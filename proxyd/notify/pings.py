"""Pings: every new webhook must accept a test request before anything else is sent to it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from itertools import count
from math import inf

import numpy as np
import structlog

from proxyd.base.clock import Signal
from proxyd.base.ports import Channel, Clock, Message, ResolveSecret, UnconfirmedWebhook, Webhooks, WebhookState
from proxyd.core.errors import DeliveryError
from proxyd.core.model.delivery import WebhookDelivery
from proxyd.core.model.field_values import iso_time
from proxyd.core.politeness.endpoints import wait_after_attempt_s
from proxyd.net.http_values import without_path
from proxyd.notify.channels.webhook import known_secret
from proxyd.notify.dispatcher import CLAIM_S, EXTENSION_S

_FIRST_AT_ONCE, _AGAIN_AT_ONCE = 64, 16
_LONGEST_S = 3600.0
log = structlog.get_logger("notify")


class Pings:
    """Pings each unconfirmed webhook on the retry ladder until it accepts, for at most an hour.

    A webhook that does not accept by then, or cannot at all, is left to the retries of its notifications. If ``asks``
    is not set, no ping is sent and notifications go out at once. ``tell`` is called with every change.
    """

    def __init__(
        self,
        webhooks: Webhooks,
        channel: Channel,
        secrets: ResolveSecret,
        clock: Clock,
        rng: np.random.Generator,
        tell: Callable[[], None],
        *,
        asks: bool = True,
    ) -> None:
        self._webhooks = webhooks
        self._channel = channel
        self._secrets = secrets
        self._clock = clock
        self._rng = rng
        self._tell = tell
        self._asks = asks
        self._first_turns = asyncio.Semaphore(_FIRST_AT_ONCE)  # webhooks that hang must not delay new ones
        self._other_turns = asyncio.Semaphore(_AGAIN_AT_ONCE)
        self._asking: dict[WebhookDelivery, asyncio.Task[None]] = {}
        self._wake = Signal()
        self._stopped = False

    def wake(self) -> None:
        """Look for new webhooks now: some were declared."""
        self._wake.notify()

    def stop(self) -> None:
        """Start no more pings; the next process repeats unfinished ones."""
        self._stopped = True
        self._wake.notify()

    async def run(self) -> None:
        """Ping until ``stop``."""
        async with asyncio.TaskGroup() as tasks:
            while not self._stopped:
                is_known = await self._follow(tasks)
                await self._wake.sleep(self._clock, inf if is_known else EXTENSION_S)
            for task in self._asking.values():
                task.cancel()

    async def _follow(self, tasks: asyncio.TaskGroup) -> bool:
        """Start pinging new webhooks; stop for those that are no longer declared; return whether none is left."""
        before = set(self._asking)  # those answered during the read are still among them
        unconfirmed = {each.webhook: each for each in await self._webhooks.list_unconfirmed()}
        for webhook in self._asking.keys() - unconfirmed.keys():
            self._asking.pop(webhook).cancel()
        fresh = unconfirmed.keys() - self._asking.keys() - before
        now_s = self._clock.time_s()
        # Also while one waits for its next attempt: those of a notifier that had ended were left alone for half an hour
        if self._asking:
            await self._webhooks.extend_claims([*self._asking], now_s + CLAIM_S)
        for webhook in await self._webhooks.claim(fresh, now_s, now_s + CLAIM_S) if fresh else ():
            self._asking[webhook] = tasks.create_task(self._ask(unconfirmed[webhook]), name="ping")
        return not unconfirmed

    async def _ask(self, unconfirmed: UnconfirmedWebhook) -> None:
        webhook = unconfirmed.webhook
        state, detail = await self._answer(unconfirmed) if self._asks else (WebhookState.UNASKED, "")
        await self._webhooks.record_ping(webhook, state, self._clock.time_s(), detail)
        self._asking.pop(webhook, None)
        self._tell()

    async def _answer(self, unconfirmed: UnconfirmedWebhook) -> tuple[WebhookState, str]:
        for attempts in count(1):
            try:
                async with self._first_turns if attempts == 1 else self._other_turns:
                    return WebhookState.CONFIRMED, await self._ping(unconfirmed)
            except DeliveryError as error:
                refusal = error
            wait_s = self._wait_s(unconfirmed, attempts, refusal)
            fields = {"endpoint": without_path(unconfirmed.webhook.url), "error": refusal.message}
            if wait_s is None:
                log.error("a webhook did not accept its ping; its notifications are tried one by one", **fields)
                return WebhookState.UNANSWERED, refusal.message
            log.warning("a webhook did not accept its ping yet", retry_in_s=round(wait_s, 1), **fields)
            await self._webhooks.record_ping(
                unconfirmed.webhook,
                WebhookState.UNCONFIRMED,
                self._clock.time_s(),
                f"not accepted yet: {refusal.message}",
            )
            await self._clock.sleep(wait_s)
        raise AssertionError  # the ladder ends

    def _wait_s(self, unconfirmed: UnconfirmedWebhook, attempts: int, refusal: DeliveryError) -> float | None:
        """Return how long to wait before the next attempt, or ``None`` after the last."""
        if not refusal.retryable:
            return None
        wait_s = wait_after_attempt_s(attempts, asked_s=refusal.retry_after_s, rng=self._rng)
        # by the time of the declaration: a restart must not begin the ladder again
        is_late = wait_s is None or self._clock.time_s() + wait_s > unconfirmed.since_s + _LONGEST_S
        return None if is_late else wait_s

    async def _ping(self, unconfirmed: UnconfirmedWebhook) -> str:
        webhook = unconfirmed.webhook
        secret = known_secret(self._secrets, webhook.secret)
        text = {"type": "proxyd.ping", "timestamp": iso_time(unconfirmed.since_s), "data": {"webhook": webhook.url}}
        return await self._channel.deliver(
            Message(
                _ping_id(unconfirmed),
                "",
                webhook.url,
                json.dumps(text).encode(),
                self._clock.wall_s(),
                form=webhook.form.value,
                secret=secret,
            )
        )


def _ping_id(unconfirmed: UnconfirmedWebhook) -> str:
    """Return the id of a ping, which is the same on every attempt."""
    webhook = unconfirmed.webhook
    parts = (webhook.url, webhook.form.value, webhook.secret.name, repr(unconfirmed.since_s))
    return "ping_" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
