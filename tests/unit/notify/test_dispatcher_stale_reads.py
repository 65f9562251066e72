"""The outbox is read while deliveries end: what was accepted meanwhile must not go out again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

import numpy as np

from proxyd.base.metrics import Metrics
from proxyd.base.ports import DueDelivery, Gathered, Message
from proxyd.core.model.delivery import SecretRef
from proxyd.core.model.outcome import Picture
from proxyd.notify import Dispatcher, DispatcherSettings
from tests.fakes import FakeClock, settle


def delivery(position: int) -> DueDelivery:
    return DueDelivery(
        position, f"ntf_{position}", "R", "http://h", "env", "SECRET_X", "lane", 0, None, 0.0, 0.0, b"{}"
    )


def secret(_ref: SecretRef, /) -> bytes:
    return b"secret"


class SlowOutbox:
    """Answers with what was pending when it was asked, once it is let go."""

    def __init__(self) -> None:
        self.pending = [delivery(1)]
        self.answering = asyncio.Event()
        self.answering.set()

    async def due_deliveries(
        self, now_s: float, *, hold_s: float, limit: int, busy: Collection[str] = (), shut: Collection[str] = ()
    ) -> Sequence[DueDelivery]:
        asked = [one for one in self.pending[:1] if one.lane not in busy]
        await self.answering.wait()
        return asked

    async def next_delivery_s(self, *, busy: Collection[str] = (), shut: Collection[str] = ()) -> float | None:
        return 0.0 if any(one.lane not in busy for one in self.pending) else None

    async def next_digest_s(self) -> float | None:
        return None

    async def make_digests(self, now_s: float, compose: Callable[[Gathered], bytes]) -> None:
        raise AssertionError(now_s)

    async def picture(self, sha256: str) -> Picture | None:
        raise AssertionError(sha256)

    async def record_delivery(self, done: DueDelivery, now_s: float, *, duration_s: float, detail: str) -> None:
        self.pending.remove(done)

    async def retry_now(self, endpoint: str, now_s: float) -> None:
        """Do nothing: nothing fails here."""

    async def record_failure(
        self,
        done: DueDelivery,
        now_s: float,
        *,
        next_s: float | None,
        error: str,
        duration_s: float,
        disables: bool = False,
    ) -> None:
        raise AssertionError(error)


class HeldChannel:
    """Accepts each delivery once it is let go."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.accepting = asyncio.Event()

    async def deliver(self, message: Message) -> str:
        self.sent.append(message.message_id)
        await self.accepting.wait()
        return ""


async def test_a_delivery_that_ends_while_the_outbox_is_read_is_not_sent_again() -> None:
    outbox, channel = SlowOutbox(), HeldChannel()
    settings = DispatcherSettings(hold_s=600.0, concurrency=4)
    dispatcher = Dispatcher(
        outbox, channel, secret, FakeClock(), np.random.Generator(np.random.PCG64(1)), Metrics(), settings
    )
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(dispatcher.run())
        await settle()
        outbox.answering.clear()
        dispatcher.wake()
        await settle()
        channel.accepting.set()
        await settle()
        outbox.pending.append(delivery(2))
        dispatcher.wake()
        outbox.answering.set()
        await settle()
        await dispatcher.drain(1.0)
    assert channel.sent == ["ntf_1", "ntf_2"]
