"""Nothing is sent to a webhook before it has answered: when it is asked, again, and no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import numpy as np

from proxyd.errors import DeliveryError
from proxyd.model.profile import SecretRef, WebhookDelivery
from proxyd.notify import Pings
from proxyd.ports import Message, UnconfirmedWebhook, WebhookState
from tests.fakes import FakeClock

HOOK = WebhookDelivery("https://r.example/hook", SecretRef("env", "SECRET_R"))
OTHER = WebhookDelivery("https://r.example/other", SecretRef("env", "SECRET_R"))


class MemoryWebhooks:
    """The Webhooks port in a dictionary."""

    def __init__(self, *webhooks: WebhookDelivery) -> None:
        self.states = dict.fromkeys(webhooks, WebhookState.UNCONFIRMED)

    async def unconfirmed(self) -> list[UnconfirmedWebhook]:
        return [UnconfirmedWebhook(each, 5.0) for each, s in self.states.items() if s is WebhookState.UNCONFIRMED]

    async def answered(self, webhook: WebhookDelivery, state: WebhookState, now_s: float, detail: str) -> None:
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
    pings = Pings(webhooks, channel, lambda ref: b"secret", clock, rng, changed.set, asks=asks)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(pings.run())
        yield pings, changed
        pings.stop()


async def until(changed: asyncio.Event, is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10.0):
        while not is_so():
            changed.clear()
            await changed.wait()


async def test_every_webhook_is_asked_once_and_then_confirmed() -> None:
    webhooks, channel = MemoryWebhooks(HOOK, OTHER), Asked()
    async with running(webhooks, channel, FakeClock()) as (_, changed):
        await until(changed, lambda: set(webhooks.states.values()) == {WebhookState.CONFIRMED})
    assert {message.endpoint for message in channel.messages} == {HOOK.url, OTHER.url}
    assert json.loads(channel.messages[0].body)["type"] == "proxyd.ping"


async def test_one_that_fails_is_asked_again_with_the_same_id_on_the_ladder() -> None:
    webhooks, clock = MemoryWebhooks(HOOK), FakeClock()
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
    async with running(webhooks, channel, FakeClock()) as (_, changed):
        await until(changed, lambda: webhooks.states[HOOK] is WebhookState.UNANSWERED)
    assert len(channel.messages) == 1


async def test_one_that_is_declared_later_is_asked_once_the_pings_are_woken() -> None:
    webhooks, channel = MemoryWebhooks(HOOK), Asked()
    async with running(webhooks, channel, FakeClock()) as (pings, changed):
        await until(changed, lambda: webhooks.states[HOOK] is WebhookState.CONFIRMED)
        webhooks.states[OTHER] = WebhookState.UNCONFIRMED
        pings.wake()
        await until(changed, lambda: webhooks.states[OTHER] is WebhookState.CONFIRMED)
    assert [message.endpoint for message in channel.messages] == [HOOK.url, OTHER.url]


async def test_nothing_is_asked_where_pings_are_turned_off() -> None:
    webhooks, channel = MemoryWebhooks(HOOK), Asked()
    async with running(webhooks, channel, FakeClock(), asks=False) as (_, changed):
        await until(changed, lambda: webhooks.states[HOOK] is WebhookState.UNASKED)
    assert channel.messages == []
