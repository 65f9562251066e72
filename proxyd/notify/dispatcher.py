"""The dispatcher: takes due deliveries from the outbox and sees each through to accepted, retried or given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import structlog

from proxyd.clock import sleep_or_wake
from proxyd.errors import DeliveryError
from proxyd.metrics import Metrics
from proxyd.model.profile import SecretRef
from proxyd.politeness import retry_after_s
from proxyd.ports import Channel, Clock, Delivery, Outbox, ResolveSecret

_IDLE_S = 3600.0
_SHORTEST_S = 0.001
_HELD_S = 1.0  # due, but held back by an earlier one of its lane
log = structlog.get_logger("notify")


@dataclass(frozen=True, slots=True)
class DispatcherSettings:
    """How deliveries are paced: ``hold_s`` is how long a failing one holds back its lane."""

    hold_s: float
    concurrency: int


class Dispatcher:
    """Delivers what is in the outbox, in order for each rule and endpoint, whatever the receivers do."""

    def __init__(
        self,
        outbox: Outbox,
        channel: Channel,
        secrets: ResolveSecret,
        clock: Clock,
        rng: np.random.Generator,
        metrics: Metrics,
        settings: DispatcherSettings,
    ) -> None:
        self._outbox = outbox
        self._channel = channel
        self._secrets = secrets
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._settings = settings
        self._wake = asyncio.Event()
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._draining = False

    def wake(self) -> None:
        """Look at the outbox now: something was put in."""
        self._wake.set()

    async def run(self) -> None:
        """Deliver until ``drain``."""
        async with asyncio.TaskGroup() as tasks:
            while not self._draining:
                room = await self._start_due(tasks.create_task)
                await sleep_or_wake(self._clock, await self._pause_s() if room else _IDLE_S, self._wake)

    async def drain(self, timeout_s: float) -> None:
        """Start nothing more; wait for the attempts under way, then cut them off: they will be made again."""
        self._draining = True
        self.wake()
        if self._busy:
            _, late = await asyncio.wait(list(self._busy.values()), timeout=timeout_s)
            for task in late:
                task.cancel()

    async def attempt(self, delivery: Delivery) -> str:
        """Try one delivery, record what came of it and return that: accepted, retry or dead."""
        try:
            await self._send(delivery)
        except DeliveryError as error:
            return await self._failed(delivery, error)
        now_s = self._clock.time_s()
        await self._outbox.delivered(delivery, now_s)
        self._metrics.notification_delay.observe(max(0.0, now_s - delivery.event_s))
        return "accepted"

    async def _start_due(self, start: Callable[..., asyncio.Task[None]]) -> bool:
        """Start what is due, one at a time for each lane; return whether there was room for all of it."""
        room = self._settings.concurrency - len(self._busy)
        if room <= 0:
            return False
        busy = set(self._busy)  # what ends while the outbox is read may still be pending in the answer
        due = await self._outbox.due_deliveries(
            self._clock.time_s(), hold_s=self._settings.hold_s, limit=room + 1, busy=busy
        )
        if self._draining:  # begun while the outbox was read: what started now nobody would wait for
            return True
        for delivery in due[:room]:
            self._busy[delivery.lane] = start(self._deliver(delivery), name=f"deliver {delivery.notification_id}")
        return len(due) <= room

    async def _pause_s(self) -> float:
        """Return how long there is nothing to do; a lane that is busy wakes the dispatcher when it is done."""
        next_s = await self._outbox.next_delivery_s(busy=set(self._busy))
        if next_s is None:
            return _IDLE_S
        wait_s = next_s - self._clock.time_s()
        return min(_IDLE_S, max(_SHORTEST_S, wait_s)) if wait_s > 0 else _HELD_S

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            result = await self.attempt(delivery)
            self._metrics.deliveries.labels(result).inc()
        finally:
            del self._busy[delivery.lane]
            self.wake()

    async def _send(self, delivery: Delivery) -> None:
        secret = self._secrets(SecretRef(delivery.secret_kind, delivery.secret_name))
        if secret is None:
            raise DeliveryError(f"secret {delivery.secret_name} is not set: set it and restart")
        await self._channel.deliver(
            delivery.notification_id, delivery.endpoint, secret, delivery.body, self._clock.time_s()
        )

    async def _failed(self, delivery: Delivery, error: DeliveryError) -> str:
        now_s = self._clock.time_s()
        wait_s = None
        if error.retryable:
            wait_s = retry_after_s(delivery.attempts + 1, asked_s=error.retry_after_s, rng=self._rng)
        next_s = None if wait_s is None else now_s + wait_s
        await self._outbox.failed(delivery, now_s, next_s=next_s, error=error.message)
        fields = {"notification": delivery.notification_id, "rule": delivery.rule, "endpoint": delivery.endpoint}
        fields["error"] = error.message
        if next_s is None:
            log.error("delivery given up; replay it with `proxyd webhook replay`", **fields)
            return "dead"
        log.warning("delivery failed", retry_in_s=round(next_s - now_s, 1), **fields)
        return "retry"
