"""The dispatcher: takes due deliveries from the outbox until each is accepted or given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import structlog

from proxyd.base.clock import Signal
from proxyd.base.metrics import Metrics
from proxyd.base.ports import Channel, Clock, DueDelivery, Message, Outbox, ResolveSecret
from proxyd.core.errors import DeliveryError
from proxyd.core.model.delivery import SecretRef, shown_endpoint
from proxyd.core.model.outcome import Picture
from proxyd.core.model.profile import plain_name
from proxyd.core.politeness.endpoints import EndpointLimits, Endpoints, wait_after_attempt_s
from proxyd.net.http_values import without_path
from proxyd.notify.channels.message_forms import digest
from proxyd.notify.channels.webhook import EndpointGoneError, MissingSecretError, known_secret

CLAIM_S, EXTENSION_S = 20.0, 5.0
"""For how long nobody else sends what a notifier that was killed had begun, and how often a living one extends that."""
_IDLE_S = 3600.0
_SHORTEST_S = 0.001
log = structlog.get_logger("notify")
_REFUSED = "the receiver wants no more of this rule (410); `proxyd webhook test` asks it again"


@dataclass(frozen=True, slots=True)
class DispatcherSettings:
    """How deliveries are paced: ``hold_s`` is how long a failing one holds back its lane."""

    hold_s: float
    concurrency: int = 64
    endpoints: EndpointLimits = field(default_factory=EndpointLimits)


@dataclass(frozen=True, slots=True)
class _Answer:
    """The result of an attempt: the receiver's answer, or why it failed and when the next attempt is due."""

    at_s: float
    duration_s: float
    said: str = ""
    error: DeliveryError | None = None
    next_s: float | None = None
    is_back: bool = False  # the receiver, after failures

    @property
    def result(self) -> str:
        """The result's name: accepted, retry or dead."""
        if self.error is None:
            return "accepted"
        return "dead" if self.next_s is None else "retry"


class Dispatcher:
    """Delivers what is in the outbox, in order for each rule and endpoint."""

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
        self._endpoints = Endpoints(settings.endpoints, rng)
        self._digests_s: float | None = 0.0  # when the next one may be due; new notifications may be due earlier
        self._wake = Signal()
        self._next_s: float | None = None  # when something is due that nobody has claimed, at the last look
        metrics.outbox_stalled.set_function(self._stall_s)
        self._extended_s = 0.0  # when the claims of what is under way were extended
        self._running: dict[asyncio.Task[None], DueDelivery] = {}
        self._draining = False

    def wake(self) -> None:
        """Look at the outbox now: it has new deliveries."""
        self._digests_s = 0.0
        self._wake.notify()

    async def run(self) -> None:
        """Deliver until ``drain``."""
        async with asyncio.TaskGroup() as tasks:
            while self._running or not self._draining:
                await self._extend_claims()
                await self._make_digests()
                pause_s = await self._start_due(tasks.create_task)
                await self._wake.sleep(self._clock, min(pause_s, EXTENSION_S) if self._running else pause_s)

    async def drain(self, timeout_s: float) -> None:
        """Start no more attempts; wait for the running ones, then cancel them: the next process repeats them."""
        self._draining = True
        self.wake()
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=timeout_s)
            left = [self._running[task] for task in late]
            for task in late:
                task.cancel()
            if left:
                await asyncio.wait(late)
                await self._outbox.give_back(left, self._clock.time_s())

    def _stall_s(self) -> float:
        """Return for how long something has been due that nobody has claimed, other than at shut endpoints."""
        return 0.0 if self._next_s is None else max(0.0, self._clock.time_s() - self._next_s)

    async def _extend_claims(self) -> None:
        now_s = self._clock.time_s()
        if not self._running:
            self._extended_s = now_s
        elif now_s >= self._extended_s + EXTENSION_S:
            self._extended_s = now_s
            await self._outbox.extend_claims([each.lane for each in self._running.values()], now_s + CLAIM_S)

    async def _make_digests(self) -> None:
        now_s = self._clock.time_s()
        if self._draining or self._digests_s is None or self._digests_s > now_s:
            return  # the outbox is read only if one may be due
        due_s = await self._outbox.next_digest_s()
        if due_s is not None and due_s <= now_s:
            await self._outbox.make_digests(now_s, digest)
            due_s = await self._outbox.next_digest_s()
        self._digests_s = due_s

    async def _start_due(self, start: Callable[..., asyncio.Task[None]]) -> float:
        """Start the due deliveries, one at a time for each lane; return for how long nothing more is due."""
        settings = self._settings
        while not self._draining:
            room = settings.concurrency - len(self._running)
            now_s = self._clock.time_s()
            shut = self._endpoints.note_shut(now_s)
            claimed = await self._outbox.claim_deliveries(
                now_s,
                hold_s=settings.hold_s,
                until_s=now_s + CLAIM_S,
                limit=room,
                shut=shut,
            )
            self._next_s = claimed.next_s
            # once a drain has begun, nobody would wait for an attempt started now
            refused = [each for each in claimed.deliveries if self._draining or not self._start(each, start)]
            if refused:
                await self._outbox.give_back(refused, now_s)
            elif len(claimed.deliveries) == room:
                return _IDLE_S  # the first that ends wakes us
            elif self._next_s is None or self._next_s > now_s:
                return self._pause_s(shut)
        return _IDLE_S

    def _start(self, delivery: DueDelivery, start: Callable[..., asyncio.Task[None]]) -> bool:
        """Start a delivery unless its endpoint has become shut; return whether it started."""
        if not self._endpoints.enter(delivery.endpoint, self._clock.time_s()):
            return False
        task = start(self._deliver(delivery), name=f"deliver {delivery.notification_id}")
        self._running[task] = delivery
        task.add_done_callback(self._note_end)
        return True

    def _note_end(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._wake.notify()

    def _pause_s(self, shut: Mapping[str, float]) -> float:
        """Return for how long nothing is due."""
        times_s = [*shut.values(), *(each for each in (self._digests_s, self._next_s) if each is not None)]
        return max(_SHORTEST_S, min([_IDLE_S, *(at_s - self._clock.time_s() for at_s in times_s)]))

    async def _deliver(self, delivery: DueDelivery) -> None:
        # The endpoint is free with the answer, the lane once that is recorded: its next message must not come earlier
        answer = await self._attempt(delivery)
        await self._record(delivery, answer)
        self._metrics.deliveries.labels(answer.result).inc()

    async def _attempt(self, delivery: DueDelivery) -> _Answer:
        started_s = self._clock.monotonic_s()
        try:
            said = await self._send(delivery)
        except DeliveryError as error:
            return self._failure_answer(delivery, error, self._clock.monotonic_s() - started_s)
        else:
            is_back = self._endpoints.note_acceptance(delivery.endpoint, delivery.position)
            return _Answer(self._clock.time_s(), self._clock.monotonic_s() - started_s, said, is_back=is_back)
        finally:
            if self._endpoints.leave(delivery.endpoint, self._clock.time_s()):
                self._wake.notify()

    async def _send(self, delivery: DueDelivery) -> str:
        if delivery.is_disabled:
            raise DeliveryError(_REFUSED, retryable=False)
        secret = None
        if delivery.secret_name:
            secret = known_secret(self._secrets, SecretRef(delivery.secret_kind, delivery.secret_name))
        message = Message(
            delivery.notification_id,
            plain_name(delivery.rule),
            delivery.endpoint,
            delivery.body,
            self._clock.wall_s(),
            delivery.kind,
            delivery.form,
            delivery.payload,
            secret,
            await self._picture_of(delivery),
        )
        return await self._channel.deliver(message)

    async def _picture_of(self, delivery: DueDelivery) -> Picture | None:
        """Return what is attached to a mail."""
        if delivery.picture is None or delivery.kind not in {"mail", "channel"}:
            return None
        return await self._outbox.picture(delivery.picture)

    def _failure_answer(self, delivery: DueDelivery, error: DeliveryError, duration_s: float) -> _Answer:
        now_s = self._clock.time_s()
        wait_s = None
        if error.retryable:
            wait_s = wait_after_attempt_s(delivery.attempts + 1, asked_s=error.retry_after_s, rng=self._rng)
            self._note_failure(delivery, error, now_s)
        return _Answer(now_s, duration_s, error=error, next_s=None if wait_s is None else now_s + wait_s)

    async def _record(self, delivery: DueDelivery, answer: _Answer) -> None:
        """Record the result of an attempt; returns once it is committed."""
        error, at_s = answer.error, answer.at_s
        if error is None:
            await self._outbox.record_delivery(delivery, at_s, duration_s=answer.duration_s, detail=answer.said)
            self._metrics.notification_delay.observe(max(0.0, at_s - delivery.event_s))
            if answer.is_back:
                await self._outbox.retry_now(delivery.endpoint, at_s)
            return
        disables = isinstance(error, EndpointGoneError)
        await self._outbox.record_failure(
            delivery, at_s, next_s=answer.next_s, error=error.message, duration_s=answer.duration_s, disables=disables
        )
        self._log(delivery, error.message, None if answer.next_s is None else answer.next_s - at_s, disables=disables)
        if disables:
            self._metrics.endpoints_gone.inc()

    def _note_failure(self, delivery: DueDelivery, error: DeliveryError, now_s: float) -> None:
        """Note a failure of the endpoint itself, for which its other lanes may have to wait."""
        if isinstance(error, MissingSecretError):
            return
        asked_s = error.retry_after_s
        if self._endpoints.note_failure(
            delivery.endpoint, delivery.lane, now_s, asked_s=asked_s, position=delivery.position
        ):
            self._metrics.circuits_opened.inc()
            log.warning("an endpoint fails for several rules; it is tried less often", endpoint=_shown(delivery))

    @staticmethod
    def _log(delivery: DueDelivery, error: str, wait_s: float | None, *, disables: bool) -> None:
        fields = {"notification": delivery.notification_id, "rule": delivery.rule, "endpoint": _shown(delivery)}
        fields["error"] = error
        if disables:
            log.error(_REFUSED, **fields)
        elif wait_s is None:
            log.error("delivery given up; replay it with `proxyd webhook replay`", **fields)
        else:
            log.warning("delivery failed", retry_in_s=round(wait_s, 1), **fields)


def _shown(delivery: DueDelivery) -> str:
    is_webhook = delivery.kind == "webhook"
    return without_path(delivery.endpoint) if is_webhook else shown_endpoint(delivery.kind, delivery.endpoint)
