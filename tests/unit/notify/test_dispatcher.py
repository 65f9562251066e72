"""The dispatcher against an outbox in memory and a scripted receiver, under a fake clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np

from proxyd.errors import DeliveryError
from proxyd.metrics import Metrics
from proxyd.model.profile import SecretRef
from proxyd.notify import Dispatcher, DispatcherSettings
from proxyd.ports import Delivery
from tests.fakes import FakeClock, settle

T0 = 1000.0


def delivery(position: int, *, lane: str = "lane") -> Delivery:
    return Delivery(position, f"n{position}", "r", f"https://{lane}/", "env", "SECRET_A", lane, 0, None, T0, T0, b"{}")


class MemoryOutbox:
    """The Outbox port in a list, with the hold-back rule of its contract."""

    def __init__(self, *deliveries: Delivery) -> None:
        self.pending = {d.position: (d, d.created_s) for d in deliveries}
        self.accepted: list[str] = []
        self.dead: list[str] = []

    async def due_deliveries(
        self, now_s: float, *, hold_s: float, limit: int, busy: Collection[str] = ()
    ) -> Sequence[Delivery]:
        found: dict[str, Delivery] = {}
        held: set[str] = set()
        for position in sorted(self.pending):
            one, next_s = self.pending[position]
            if one.lane in held or one.lane in found or one.lane in busy:
                continue
            if next_s <= now_s:
                found[one.lane] = one
            elif one.first_attempt_s is None or one.first_attempt_s + hold_s > now_s:
                held.add(one.lane)
        return list(found.values())[:limit]

    async def next_delivery_s(self, *, busy: Collection[str] = ()) -> float | None:
        return min((next_s for one, next_s in self.pending.values() if one.lane not in busy), default=None)

    async def delivered(self, delivery: Delivery, now_s: float) -> None:
        del self.pending[delivery.position]
        self.accepted.append(delivery.notification_id)

    async def failed(self, delivery: Delivery, now_s: float, *, next_s: float | None, error: str) -> None:
        if next_s is None:
            del self.pending[delivery.position]
            self.dead.append(delivery.notification_id)
            return
        first = now_s if delivery.first_attempt_s is None else delivery.first_attempt_s
        later = replace(delivery, attempts=delivery.attempts + 1, first_attempt_s=first)
        self.pending[delivery.position] = (later, next_s)


class ScriptedChannel:
    """The Channel port over a function; it remembers every attempt."""

    def __init__(self, answer: Callable[[str], None]) -> None:
        self._answer = answer
        self.attempts: list[tuple[str, float]] = []

    async def deliver(
        self, notification_id: str, url: str, secret: bytes | str, body: bytes, attempt_time_s: float
    ) -> None:
        self.attempts.append((notification_id, attempt_time_s - T0))
        self._answer(notification_id)


def accept(notification_id: str) -> None:
    """Answer 200."""


@asynccontextmanager
async def running(
    outbox: MemoryOutbox, channel: ScriptedChannel, clock: FakeClock, *, secret: bytes | None = b"s"
) -> AsyncIterator[Metrics]:
    metrics = Metrics()

    def resolve(ref: SecretRef) -> bytes | None:
        return secret

    dispatcher = Dispatcher(
        outbox, channel, resolve, clock, np.random.default_rng(1), metrics, DispatcherSettings(600.0, 4)
    )
    task = asyncio.create_task(dispatcher.run())
    await settle()
    yield metrics
    await dispatcher.drain(0.0)
    await task


async def test_everything_is_delivered_in_order() -> None:
    outbox, channel, clock = MemoryOutbox(*map(delivery, range(1, 6))), ScriptedChannel(accept), FakeClock(T0)
    async with running(outbox, channel, clock) as metrics:
        await settle(200)
    assert outbox.accepted == ["n1", "n2", "n3", "n4", "n5"]
    assert metrics.registry.get_sample_value("proxyd_deliveries_total", {"result": "accepted"}) == 5


async def test_a_receiver_that_fails_for_a_while_gets_everything_in_order() -> None:
    clock = FakeClock(T0)

    def answer(notification_id: str) -> None:
        if clock.time_s() < T0 + 100:
            raise DeliveryError("503")

    outbox, channel = MemoryOutbox(delivery(1), delivery(2)), ScriptedChannel(answer)
    async with running(outbox, channel, clock):
        await clock.advance(500.0)
    assert outbox.accepted == ["n1", "n2"]
    assert [name for name, _ in channel.attempts] == ["n1"] * 6 + ["n2"]


async def test_a_stuck_notification_lets_the_next_ones_pass_after_the_hold() -> None:
    clock = FakeClock(T0)

    def answer(notification_id: str) -> None:
        if notification_id == "n1":
            raise DeliveryError("500")

    outbox, channel = MemoryOutbox(delivery(1), delivery(2)), ScriptedChannel(answer)
    async with running(outbox, channel, clock):
        await clock.advance(599.0)
        assert outbox.accepted == []
        await clock.advance(60.0)
        assert outbox.accepted == ["n2"]


async def test_a_stuck_receiver_does_not_hold_back_the_others() -> None:
    def answer(notification_id: str) -> None:
        if notification_id == "n1":
            raise DeliveryError("500")

    outbox, channel, clock = MemoryOutbox(delivery(1), delivery(2, lane="b")), ScriptedChannel(answer), FakeClock(T0)
    async with running(outbox, channel, clock):
        await settle(50)
    assert outbox.accepted == ["n2"]


async def test_what_cannot_be_retried_is_given_up_at_once() -> None:
    def answer(notification_id: str) -> None:
        raise DeliveryError("410", retryable=False)

    outbox, channel, clock = MemoryOutbox(delivery(1)), ScriptedChannel(answer), FakeClock(T0)
    async with running(outbox, channel, clock):
        await settle(50)
    assert (outbox.dead, len(channel.attempts)) == (["n1"], 1)


async def test_the_ladder_ends_in_a_dead_letter() -> None:
    def answer(notification_id: str) -> None:
        raise DeliveryError("500")

    outbox, channel, clock = MemoryOutbox(delivery(1)), ScriptedChannel(answer), FakeClock(T0)
    async with running(outbox, channel, clock):
        await clock.advance(5 * 86400.0)
    assert (outbox.dead, len(channel.attempts)) == (["n1"], 13)


async def test_a_missing_secret_sends_nothing_and_is_tried_again() -> None:
    outbox, channel, clock = MemoryOutbox(delivery(1)), ScriptedChannel(accept), FakeClock(T0)
    async with running(outbox, channel, clock, secret=None) as metrics:
        await settle(50)
    assert channel.attempts == []
    assert metrics.registry.get_sample_value("proxyd_deliveries_total", {"result": "retry"}) == 1


async def test_nothing_is_started_once_a_drain_has_begun_while_the_outbox_was_read() -> None:
    class DrainedWhileRead(MemoryOutbox):
        async def due_deliveries(
            self, now_s: float, *, hold_s: float, limit: int, busy: Collection[str] = ()
        ) -> Sequence[Delivery]:
            await dispatcher.drain(1.0)
            return await super().due_deliveries(now_s, hold_s=hold_s, limit=limit, busy=busy)

    outbox, channel = DrainedWhileRead(delivery(1)), ScriptedChannel(accept)
    dispatcher = Dispatcher(
        outbox,
        channel,
        lambda ref: b"s",
        FakeClock(T0),
        np.random.default_rng(1),
        Metrics(),
        DispatcherSettings(hold_s=600.0, concurrency=64),
    )
    await dispatcher.run()
    assert (channel.attempts, outbox.accepted) == ([], [])
