"""Receivers that are down for an hour: the outbox keeps everything, tries by the ladder, then delivers in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from proxyd.base.metrics import Metrics
from proxyd.base.ports import Message
from proxyd.core.errors import DeliveryError
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.delivery import MailDelivery
from proxyd.core.politeness.endpoints import JITTER, LADDER_S
from proxyd.core.rules.known.state import Notification
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.notify.dispatcher import Dispatcher, DispatcherSettings
from proxyd.store.backups import open_store
from proxyd.store.sql_store import SqlStore
from tests.databases import migrated_file
from tests.fakes import FakeClock
from tests.fleets import declaration, rule, source

T0 = 1_000_000_800.0
HOUR_S = 3600.0
NUMBERS = range(30)
STEPS_S = np.array([1.0, 10.0, 60.0])  # in which time passes
LATER_S = np.array([120.0, 600.0])  # from when on it passes in the next ones


@dataclass
class Receiver:
    """The Channel port: refuses everything until it is up."""

    clock: FakeClock
    up_s: float
    attempts: dict[str, list[float]] = field(default_factory=dict)
    accepted: list[str] = field(default_factory=list)

    async def deliver(self, message: Message) -> str:
        passed_s = self.clock.time_s() - T0
        self.attempts.setdefault(message.message_id, []).append(passed_s)
        if passed_s < self.up_s:
            raise DeliveryError("connection refused")
        self.accepted.append(message.message_id)
        return "taken"


def notification(number: int) -> Notification:
    return Notification(f"ntf_{number}", "r", "s", T0, T0, False, b"{}", (MailDelivery("a@example.org"),))


@asynccontextmanager
async def outage(folder: Path, receiver: Receiver, hold_s: float) -> AsyncIterator[tuple[SqlStore, Dispatcher]]:
    """Yield a dispatcher at work on notifications whose receiver is down."""
    rules = declaration(source("a"), rule("r", clauses="SET DELIVERY MAIL 'a@example.org'")).rules.values()
    made = RuleResults(notifications=tuple(map(notification, NUMBERS)))
    async with open_store(migrated_file(folder / "p.db"), ChrononGrid(10.0)) as store, store.writer.running():
        await store.declarations.accept([], rules, T0)
        await store.record_results(made)
        settings = DispatcherSettings(hold_s, 4)
        rng = np.random.default_rng(1)
        dispatcher = Dispatcher(store, receiver, lambda _ref: None, receiver.clock, rng, Metrics(), settings)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(dispatcher.run())
            yield store, dispatcher
            await dispatcher.drain(10.0)


async def pass_until(receiver: Receiver, dispatcher: Dispatcher, passed_s: float) -> None:
    """Let time pass, no faster than the dispatcher comes along."""
    while True:
        while dispatcher._running or not receiver.clock.sleepers:  # noqa: ASYNC110 - the store works in threads
            await asyncio.sleep(0)
        now_s = receiver.clock.time_s() - T0
        if now_s >= passed_s:
            return
        await receiver.clock.advance(float(step_s(now_s)))


def step_s(passed_s: float | np.ndarray) -> np.ndarray:
    return STEPS_S[np.searchsorted(LATER_S, passed_s, side="right")]


@pytest.mark.long
async def test_after_an_hour_everything_comes_in_order_by_the_ladder(tmp_path: Path) -> None:
    receiver = Receiver(FakeClock(T0), HOUR_S)
    async with outage(tmp_path, receiver, hold_s=4.0 * HOUR_S) as (store, dispatcher):
        await pass_until(receiver, dispatcher, HOUR_S)
        assert (await store.outbox_depth()).pending == len(NUMBERS)
        assert receiver.accepted == []
        assert list(receiver.attempts) == ["ntf_0"]
        await pass_until(receiver, dispatcher, 4.0 * HOUR_S)
        assert (await store.outbox_depth()).pending == 0
    assert receiver.accepted == [f"ntf_{number}" for number in NUMBERS]
    waits_s = np.diff(receiver.attempts["ntf_0"])
    ladder_s = np.array(LADDER_S[: len(waits_s)])
    steps_s = step_s(ladder_s.cumsum())
    assert len(waits_s) == 7
    assert (waits_s >= ladder_s - steps_s).all()
    # one step of time, and one more that may pass between the end of a try and the reading of what is due
    assert (waits_s <= ladder_s * (1.0 + JITTER) + 2 * steps_s).all()


@pytest.mark.parametrize("hold_s", [60.0, 600.0])
async def test_an_outage_longer_than_the_hold_loses_nothing(tmp_path: Path, hold_s: float) -> None:
    """What was tried meanwhile comes when the ladder says so; what was not comes at once, in its order."""
    receiver = Receiver(FakeClock(T0), HOUR_S)
    async with outage(tmp_path, receiver, hold_s) as (store, dispatcher):
        await pass_until(receiver, dispatcher, 4.0 * HOUR_S)
        assert (await store.outbox_depth()).pending == 0
    assert sorted(receiver.accepted) == sorted(f"ntf_{number}" for number in NUMBERS)
    untried = [name for name in receiver.accepted if len(receiver.attempts[name]) == 1]
    assert untried == sorted(untried, key=lambda name: int(name.partition("_")[2]))
