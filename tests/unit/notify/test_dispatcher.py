"""The dispatcher against an outbox in memory and a scripted receiver, under a fake clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
from structlog.testing import capture_logs

from proxyd.base.metrics import Metrics
from proxyd.base.ports import Channel, Claimed, DueDelivery, Gathered, Message
from proxyd.core.errors import DeliveryError
from proxyd.core.model.delivery import SecretRef
from proxyd.core.model.outcome import Picture
from proxyd.core.politeness.endpoints import EndpointLimits
from proxyd.notify.channels.webhook import EndpointGoneError
from proxyd.notify.dispatcher import Dispatcher, DispatcherSettings
from tests.fakes import FakeClock, settle

T0 = 1000.0
FOUR = DispatcherSettings(600.0, 4)


def delivery(position: int, *, lane: str = "lane") -> DueDelivery:
    return DueDelivery(
        position, f"n{position}", "r", f"https://{lane}/", "env", "SECRET_A", lane, 0, None, T0, T0, b"{}"
    )


class MemoryOutbox:
    """The Outbox port in a list, with the hold-back rule of its contract."""

    def __init__(self, *deliveries: DueDelivery) -> None:
        self.pending = {d.position: (d, d.created_s) for d in deliveries}
        self.accepted: list[str] = []
        self.dead: list[str] = []
        self.disabled: list[str] = []
        self.gathering: list[Gathered] = []
        self.pictures: dict[str, Picture] = {}
        self.claimed: dict[str, float] = {}  # lanes, and until when

    async def claim_deliveries(
        self, now_s: float, *, hold_s: float, until_s: float, limit: int, shut: Collection[str] = ()
    ) -> Claimed:
        found: dict[str, DueDelivery] = {}
        held = set(self.claimed)
        for position in sorted(self.pending):
            one, next_s = self.pending[position]
            if one.lane in held or one.lane in found or one.endpoint in shut:
                continue
            if next_s <= now_s:
                found[one.lane] = one
            elif one.first_attempt_s is None or one.first_attempt_s + hold_s > now_s:
                held.add(one.lane)
        self.claimed |= dict.fromkeys(list(found)[:limit], until_s)
        waiting = [(one, next_s) for one, next_s in self.pending.values() if one.lane not in self.claimed]
        due_s = min((next_s for one, next_s in waiting if one.endpoint not in shut), default=None)
        return Claimed(list(found.values())[:limit], due_s if due_s is None or due_s > now_s else now_s + 1.0)

    async def extend_claims(self, lanes: Collection[str], until_s: float) -> None:
        self.claimed |= dict.fromkeys(lanes, until_s)

    async def give_back(self, deliveries: Sequence[DueDelivery], now_s: float) -> None:
        for each in deliveries:
            del self.claimed[each.lane]

    async def next_digest_s(self) -> float | None:
        return min((each.until_s for each in self.gathering), default=None)

    async def make_digests(self, now_s: float, compose: Callable[[Gathered], bytes]) -> None:
        for each in [each for each in self.gathering if each.until_s <= now_s]:
            self.gathering.remove(each)
            made = replace(delivery(100), notification_id=each.digest_id, body=compose(each))
            self.pending[100] = (made, now_s)

    async def picture(self, sha256: str) -> Picture | None:
        return self.pictures.get(sha256)

    async def record_delivery(self, delivery: DueDelivery, now_s: float, *, duration_s: float, detail: str) -> None:
        del self.pending[delivery.position], self.claimed[delivery.lane]
        self.accepted.append(delivery.notification_id)

    async def retry_now(self, endpoint: str, now_s: float) -> None:
        for position, (one, next_s) in self.pending.items():
            if one.endpoint == endpoint and one.attempts:
                self.pending[position] = (one, min(next_s, now_s))

    async def record_failure(
        self,
        delivery: DueDelivery,
        now_s: float,
        *,
        next_s: float | None,
        error: str,
        duration_s: float,
        disables: bool = False,
    ) -> None:
        del self.claimed[delivery.lane]
        if disables:
            self.disabled.append(delivery.lane)
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
        self.pictures: list[Picture | None] = []

    async def deliver(self, message: Message) -> str:
        self.pictures.append(message.picture)
        self.attempts.append((message.message_id, message.attempt_s - T0))
        self._answer(message.message_id)
        return "taken"


def accept(notification_id: str) -> None:
    """Answer 200."""


@asynccontextmanager
async def running(
    outbox: MemoryOutbox,
    channel: Channel,
    clock: FakeClock,
    *,
    secret: bytes | None = b"s",
    settings: DispatcherSettings = FOUR,
) -> AsyncIterator[Metrics]:
    metrics = Metrics()

    def resolve(ref: SecretRef) -> bytes | None:
        return secret

    dispatcher = Dispatcher(outbox, channel, resolve, clock, np.random.default_rng(1), metrics, settings)
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


async def test_a_mail_has_the_picture_of_its_notification_while_it_is_stored() -> None:
    picture = Picture("image/png", b"x")
    mail, gone = (replace(delivery(n), kind="mail", picture=sha256) for n, sha256 in ((1, picture.sha256), (2, "gone")))
    webhook = replace(delivery(3), picture=picture.sha256)
    outbox, channel, clock = MemoryOutbox(mail, gone, webhook), ScriptedChannel(accept), FakeClock(T0)
    outbox.pictures[picture.sha256] = picture
    async with running(outbox, channel, clock):
        await settle(200)
    assert outbox.accepted == ["n1", "n2", "n3"]
    assert channel.pictures == [picture, None, None]


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


async def test_the_log_names_the_receivers_host_alone() -> None:
    def answer(notification_id: str) -> None:
        raise DeliveryError("500")

    told = replace(delivery(1), endpoint="https://r.example:8443/hooks/hunter2?token=hunter2")
    with capture_logs() as logged:
        async with running(MemoryOutbox(told), ScriptedChannel(answer), FakeClock(T0)):
            await settle(50)
    assert [entry["endpoint"] for entry in logged] == ["https://r.example:8443/[hidden]"]


async def test_a_missing_secret_sends_nothing_and_is_tried_again() -> None:
    outbox, channel, clock = MemoryOutbox(delivery(1)), ScriptedChannel(accept), FakeClock(T0)
    async with running(outbox, channel, clock, secret=None) as metrics:
        await settle(50)
    assert channel.attempts == []
    assert metrics.registry.get_sample_value("proxyd_deliveries_total", {"result": "retry"}) == 1


async def test_a_claim_lasts_as_long_as_the_attempt_and_ends_with_it_or_with_a_drain() -> None:
    class Slow(ScriptedChannel):
        async def deliver(self, message: Message) -> str:
            await goes_on.wait()
            return await super().deliver(message)

    goes_on, clock = asyncio.Event(), FakeClock(T0)
    outbox, channel = MemoryOutbox(delivery(1, lane="a"), delivery(2, lane="b"), delivery(3, lane="b")), Slow(accept)
    async with running(outbox, channel, clock):
        await clock.advance(100.0)
        assert outbox.claimed.keys() == {"a", "b"}
        assert min(outbox.claimed.values()) > clock.time_s()
        goes_on.set()
        await settle()
        assert outbox.accepted == ["n1", "n2", "n3"]
        assert outbox.claimed == {}
        goes_on.clear()
        outbox.pending[4] = (delivery(4), T0)
        await clock.advance(3700.0)
        assert outbox.claimed.keys() == {"lane"}
    assert outbox.claimed == {}


async def test_nothing_is_started_once_a_drain_has_begun_while_the_outbox_was_read() -> None:
    class DrainedWhileRead(MemoryOutbox):
        async def claim_deliveries(
            self, now_s: float, *, hold_s: float, until_s: float, limit: int, shut: Collection[str] = ()
        ) -> Claimed:
            await dispatcher.drain(1.0)
            return await super().claim_deliveries(now_s, hold_s=hold_s, until_s=until_s, limit=limit, shut=shut)

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
    assert (channel.attempts, outbox.accepted, outbox.claimed) == ([], [], {})


def to_one_endpoint(*positions: int) -> list[DueDelivery]:
    """Return deliveries of as many rules, all to one endpoint."""
    return [replace(delivery(n, lane=f"lane {n}"), endpoint="https://one/") for n in positions]


async def test_gone_gives_up_disables_and_is_counted() -> None:
    def answer(notification_id: str) -> None:
        raise EndpointGoneError(retryable=False)

    outbox, channel, clock = MemoryOutbox(delivery(1)), ScriptedChannel(answer), FakeClock(T0)
    async with running(outbox, channel, clock) as metrics:
        await settle(50)
    assert (outbox.dead, outbox.disabled) == (["n1"], ["lane"])
    assert metrics.registry.get_sample_value("proxyd_endpoints_gone_total") == 1


async def test_what_goes_to_a_disabled_endpoint_is_given_up_without_asking_it() -> None:
    channel, clock = ScriptedChannel(accept), FakeClock(T0)
    outbox = MemoryOutbox(replace(delivery(1), is_disabled=True))
    async with running(outbox, channel, clock):
        await settle(50)
    assert (outbox.dead, outbox.disabled, channel.attempts) == (["n1"], [], [])


async def test_an_endpoint_that_fails_for_several_rules_is_tried_once_at_a_time_until_it_accepts() -> None:
    clock = FakeClock(T0)

    def answer(notification_id: str) -> None:
        if clock.time_s() < T0 + 300:
            raise DeliveryError("503")

    outbox, channel = MemoryOutbox(*to_one_endpoint(*range(1, 41))), ScriptedChannel(answer)
    async with running(outbox, channel, clock, settings=DispatcherSettings(600.0, 64)) as metrics:
        await settle(400)
        assert len(channel.attempts) <= 8
        await clock.advance(299.0)
        assert len(channel.attempts) <= 8 + 30
        await clock.advance(1.0 + 300.0 / 10 * 1.1)
        await settle(2000)
    assert sorted(outbox.accepted) == sorted(f"n{n}" for n in range(1, 41))
    assert metrics.registry.get_sample_value("proxyd_circuits_opened_total") == 1


async def test_the_first_message_that_a_receiver_takes_again_wakes_all_that_wait_for_it_in_order() -> None:
    clock = FakeClock(T0)

    def answer(notification_id: str) -> None:
        if clock.time_s() < T0 + 100:
            raise DeliveryError("500")

    outbox, channel = MemoryOutbox(*to_one_endpoint(1, 2, 3)), ScriptedChannel(answer)
    (new,) = to_one_endpoint(4)
    outbox.pending[4] = (new, T0 + 100.0)
    async with running(outbox, channel, clock, settings=DispatcherSettings(600.0, 1)):
        await clock.advance(200.0)  # by its own steps, each of the others would be due at 374 s
        await settle(100)
    first, *woken = outbox.accepted
    assert woken == [name for name in ("n1", "n2", "n3", "n4") if name != first]


async def test_a_message_that_alone_is_refused_is_tried_by_its_own_steps_while_others_pass() -> None:
    def answer(notification_id: str) -> None:
        if notification_id == "n1":
            raise DeliveryError("400")

    outbox, channel, clock = MemoryOutbox(*to_one_endpoint(1)), ScriptedChannel(answer), FakeClock(T0)
    for new in to_one_endpoint(*range(2, 40)):
        outbox.pending[new.position] = (new, T0 + 10.0 * new.position)
    async with running(outbox, channel, clock):
        await clock.advance(400.0)
    assert len(outbox.accepted) == 38
    assert 5 <= sum(name == "n1" for name, _ in channel.attempts) <= 7


async def test_a_failing_endpoint_holds_back_no_other_one() -> None:
    def answer(notification_id: str) -> None:
        if notification_id != "n99":
            raise DeliveryError("503")

    outbox = MemoryOutbox(*to_one_endpoint(*range(1, 41)), delivery(99, lane="other"))
    channel, clock = ScriptedChannel(answer), FakeClock(T0)
    async with running(outbox, channel, clock):
        await settle(400)
    assert outbox.accepted == ["n99"]


async def test_retry_after_silences_the_endpoint_for_every_rule() -> None:
    clock = FakeClock(T0)

    def answer(notification_id: str) -> None:
        if clock.time_s() < T0 + 100:
            raise DeliveryError("429", retry_after_s=100.0)

    outbox, channel = MemoryOutbox(*to_one_endpoint(1, 2, 3)), ScriptedChannel(answer)
    one = DispatcherSettings(600.0, 64, EndpointLimits(1))
    async with running(outbox, channel, clock, settings=one):
        await clock.advance(99.0)
        assert [name for name, _ in channel.attempts] == ["n1"]
        await clock.advance(60.0)
        await settle(100)
    assert sorted(outbox.accepted) == ["n1", "n2", "n3"]


class CountingChannel:
    """Counts how many attempts are under way at once."""

    def __init__(self) -> None:
        self.under_way = self.most = 0

    async def deliver(self, message: Message) -> str:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return ""


async def test_an_endpoint_gets_no_more_at_once_and_no_faster_than_it_may() -> None:
    outbox, channel, clock = MemoryOutbox(*to_one_endpoint(*range(1, 21))), CountingChannel(), FakeClock(T0)
    slow = DispatcherSettings(600.0, 64, EndpointLimits(2, attempts=5, window_s=60.0))
    async with running(outbox, channel, clock, settings=slow):
        await settle(400)
        assert (len(outbox.accepted), channel.most) == (5, 2)
        await clock.advance(59.0)
        assert len(outbox.accepted) == 5
        for _ in range(4):
            await clock.advance(61.0)
            await settle(200)
    assert len(outbox.accepted) == 20


async def test_a_digest_is_made_when_its_period_is_over_and_then_delivered() -> None:
    bodies = tuple(b'{"data": {"id": "n%d", "items": [{"a": 1}]}}' % n for n in range(3))
    outbox, channel, clock = MemoryOutbox(), ScriptedChannel(accept), FakeClock(T0)
    outbox.gathering.append(Gathered("dgs_1", "r", ("n0", "n1", "n2"), bodies, 2, T0 + 100.0))
    async with running(outbox, channel, clock):
        await clock.advance(99.0)
        assert channel.attempts == []
        await clock.advance(2.0)
        await settle(50)
    assert outbox.accepted == ["dgs_1"]
