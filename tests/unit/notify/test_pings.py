"""Nothing is sent to a webhook before it has answered: when it is asked, again, and no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np

from proxyd.base.ports import Message, UnconfirmedWebhook, WebhookState
from proxyd.core.errors import DeliveryError
from proxyd.core.model.delivery import SecretRef, WebhookDelivery
from proxyd.notify.pings import Pings
from tests.fakes import FakeClock, settle

T0 = 1_000_000_000.0
HOOK = WebhookDelivery("https://r.example/hook", SecretRef("env", "SECRET_R"))
SECRETS = {"SECRET_R": b"secret"}
OTHER = WebhookDelivery("https://r.example/other", SecretRef("env", "SECRET_R"))


class MemoryWebhooks:
    """The Webhooks port in a dictionary."""

    def __init__(self, *webhooks: WebhookDelivery) -> None:
        self.states = dict.fromkeys(webhooks, WebhookState.UNCONFIRMED)
        self.read, self.hold = asyncio.Event(), asyncio.Event()
        self.hold.set()
        self.claimed = dict[WebhookDelivery, float]()

    async def list_unconfirmed(self) -> list[UnconfirmedWebhook]:
        found = [UnconfirmedWebhook(each, T0) for each, s in self.states.items() if s is WebhookState.UNCONFIRMED]
        self.read.set()
        await self.hold.wait()
        return found

    async def claim(self, webhooks: Collection[WebhookDelivery], now_s: float, until_s: float) -> list[WebhookDelivery]:
        won = [each for each in webhooks if self.claimed.get(each, 0.0) <= now_s]
        self.claimed |= dict.fromkeys(won, until_s)
        return won

    async def extend_claims(self, webhooks: Collection[WebhookDelivery], until_s: float) -> None:
        self.claimed |= dict.fromkeys(webhooks, until_s)

    async def record_ping(self, webhook: WebhookDelivery, state: WebhookState, now_s: float, detail: str) -> None:
        self.states[webhook] = state


class Asked:
    """A channel that answers as its script says, then accepts."""

    def __init__(self, *errors: DeliveryError) -> None:
        self.messages: list[Message] = []
        self._errors = list(errors)

    async def deliver(self, message: Message) -> str:
        self.messages.append(message)
        if self._errors:
            raise self._errors.pop(0)
        return "the receiver answered 204"


@asynccontextmanager
async def running(
    webhooks: MemoryWebhooks, channel: Asked, clock: FakeClock, *, asks: bool = True
) -> AsyncIterator[tuple[Pings, asyncio.Event]]:
    """Run pings; the event is set with every change."""
    changed = asyncio.Event()
    rng = np.random.Generator(np.random.PCG64(1))
    pings = Pings(webhooks, channel, lambda ref: SECRETS.get(ref.name), clock, rng, changed.set, asks=asks)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pings.run())
        yield pings, changed
        pings.stop()


async def until(changed: asyncio.Event, is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60.0):
        while not is_so():
            changed.clear()
            await changed.wait()


async def test_every_webhook_is_asked_once_and_then_confirmed() -> None:
    webhooks, channel = MemoryWebhooks(HOOK, OTHER), Asked()
    async with running(webhooks, channel, FakeClock(T0)) as (_, changed):
        await until(changed, lambda: set(webhooks.states.values()) == {WebhookState.CONFIRMED})
    assert {message.endpoint for message in channel.messages} == {HOOK.url, OTHER.url}
    assert json.loads(channel.messages[0].body)["type"] == "proxyd.ping"


async def test_one_that_fails_is_asked_again_with_the_same_id_on_the_ladder() -> None:
    webhooks, clock = MemoryWebhooks(HOOK), FakeClock(T0)
    channel = Asked(DeliveryError("503"), DeliveryError("503"))
    async with running(webhooks, channel, clock) as (_, changed):
        await clock.someone_sleeps()
        await clock.advance(1.2)
        assert len(channel.messages) == 2
        assert webhooks.states[HOOK] is WebhookState.UNCONFIRMED
        await clock.advance(3.5)
        await until(changed, lambda: webhooks.states[HOOK] is WebhookState.CONFIRMED)
    assert len({message.message_id for message in channel.messages}) == 1


async def test_one_that_cannot_accept_is_left_to_its_notifications() -> None:
    webhooks, channel = MemoryWebhooks(HOOK), Asked(DeliveryError("410", retryable=False))
    async with running(webhooks, channel, FakeClock(T0)) as (_, changed):
        await until(changed, lambda: webhooks.states[HOOK] is WebhookState.UNANSWERED)
    assert len(channel.messages) == 1


async def test_one_that_is_declared_later_is_asked_once_the_pings_are_woken() -> None:
    webhooks, channel = MemoryWebhooks(HOOK), Asked()
    async with running(webhooks, channel, FakeClock(T0)) as (pings, changed):
        await until(changed, lambda: webhooks.states[HOOK] is WebhookState.CONFIRMED)
        webhooks.states[OTHER] = WebhookState.UNCONFIRMED
        pings.wake()
        await until(changed, lambda: webhooks.states[OTHER] is WebhookState.CONFIRMED)
    assert [message.endpoint for message in channel.messages] == [HOOK.url, OTHER.url]


async def test_nothing_is_asked_where_pings_are_turned_off() -> None:
    webhooks, channel = MemoryWebhooks(HOOK), Asked()
    async with running(webhooks, channel, FakeClock(T0), asks=False) as (_, changed):
        await until(changed, lambda: webhooks.states[HOOK] is WebhookState.UNASKED)
    assert channel.messages == []


async def test_one_that_fails_for_an_hour_is_left_to_its_notifications_also_over_restarts() -> None:
    webhooks, channel = MemoryWebhooks(HOOK), Asked(*(DeliveryError("503") for _ in range(99)))
    clock = FakeClock(T0)
    async with running(webhooks, channel, clock) as (_, changed):
        await clock.someone_sleeps()
        await clock.advance(2000.0)
        assert webhooks.states[HOOK] is WebhookState.UNCONFIRMED
    async with running(webhooks, channel, clock) as (_, changed):
        await clock.someone_sleeps()
        await clock.advance(2000.0)
        await until(changed, lambda: webhooks.states[HOOK] is WebhookState.UNANSWERED)


async def test_one_that_is_declared_no_more_is_asked_no_more() -> None:
    webhooks, channel, clock = MemoryWebhooks(HOOK), Asked(DeliveryError("503")), FakeClock(T0)
    async with running(webhooks, channel, clock) as (pings, _):
        await clock.someone_sleeps()
        del webhooks.states[HOOK]
        webhooks.read.clear()
        pings.wake()
        await webhooks.read.wait()
        await settle()
        await clock.advance(100.0)
    assert len(channel.messages) == 1


async def test_one_that_answers_while_the_new_ones_are_read_is_not_asked_again() -> None:
    webhooks, clock = MemoryWebhooks(HOOK), FakeClock(T0)
    channel = Asked(DeliveryError("503"))
    async with running(webhooks, channel, clock) as (pings, changed):
        await clock.someone_sleeps()
        webhooks.read.clear()
        webhooks.hold.clear()
        pings.wake()
        await webhooks.read.wait()
        await clock.advance(1.2)
        await until(changed, lambda: webhooks.states[HOOK] is WebhookState.CONFIRMED)
        webhooks.hold.set()
        await settle()
    assert len(channel.messages) == 2


async def test_one_whose_secret_is_not_set_is_not_asked() -> None:
    webhooks, channel, clock = (
        MemoryWebhooks(replace(HOOK, secret=SecretRef("env", "SECRET_X"))),
        Asked(),
        FakeClock(T0),
    )
    async with running(webhooks, channel, clock):
        await clock.someone_sleeps()
    assert channel.messages == []


async def test_one_that_another_notifier_pings_is_asked_here_once_its_claim_has_run_out() -> None:
    webhooks, channel, clock = MemoryWebhooks(HOOK), Asked(), FakeClock(T0)
    webhooks.claimed[HOOK] = T0 + 90.0
    async with running(webhooks, channel, clock) as (_, changed):
        await clock.advance(89.0)
        assert channel.messages == []
        await clock.advance(6.0)
        await until(changed, lambda: webhooks.states[HOOK] is WebhookState.CONFIRMED)
    assert len(channel.messages) == 1


async def test_the_webhooks_of_a_notifier_that_has_ended_are_asked_by_another_while_they_wait() -> None:
    webhooks, clock = MemoryWebhooks(HOOK), FakeClock(T0)
    busy = DeliveryError("503", retryable=True, retry_after_s=1800.0)
    async with running(webhooks, Asked(busy), clock) as (_, changed), running(webhooks, other := Asked(), clock):
        await clock.advance(600.0)
        assert other.messages == []  # the first one waits for its next attempt
    # both have ended, as if killed: their claim was not given back
    assert webhooks.claimed[HOOK] > clock.time_s()
    async with running(webhooks, other, clock) as (_, changed):
        await clock.advance(26.0)
        await until(changed, lambda: webhooks.states[HOOK] is WebhookState.CONFIRMED)
    assert len(other.messages) == 1
