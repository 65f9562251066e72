"""Probes that no machine made, outcomes that come from an earlier process, and what the loop counts."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxyd.base.metrics import Metrics
from proxyd.base.ports import TakeStray, Transport, Unmade
from proxyd.cluster.division import UNDIVIDED, Division
from proxyd.core.errors import ClusterError
from proxyd.core.model.chronon import Budget
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.context import SourceContext
from proxyd.core.rules.stages.events import find_events
from proxyd.daemon.delivery_queries import DistantNotifier
from proxyd.probing.prober import LocalTransport
from proxyd.store.databases.shards import FIRST_SHARD
from tests.fakes import FakeClock, settle
from tests.fleets import (
    PoissonOrigin,
    RecordingMemory,
    changed,
    decider,
    declaration,
    item,
    observer,
    probe_loop,
    rule,
    source,
)

T0 = 1_000_000_000.0


class Nobody:
    """A transport that no machine serves: each probe ends as ``why`` says."""

    def __init__(self, why: Unmade) -> None:
        self._why = why
        self.is_up = True
        self.aside: dict[str, str] = {}
        self.asked: list[str] = []

    @asynccontextmanager
    async def probe(self, request: ProbeRequest) -> AsyncIterator[ProbeOutcome | Unmade]:
        self.asked.append(request.source_id)
        yield self._why

    async def run(self, take_stray: TakeStray) -> None:
        """Carry nothing."""

    def stop(self) -> None:
        """Do nothing."""


def sample(metrics: Metrics, name: str) -> float | None:
    return metrics.registry.get_sample_value(name)


def every(seconds: int) -> Decider:
    """Return a decider that probes its one source so often."""
    uniform = rule("r", clauses=f"SET POLICY UNIFORM({seconds} SECONDS)")
    return decider(declaration(source("s"), uniform), now_s=T0, settings={"source_spacing_s": 10.0})


async def test_a_document_that_cannot_be_taken_in_fails_its_source_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = decider(declaration(source("a"), source("b"), rule("r")), now_s=T0)
    taking = observer(found, RecordingMemory(), FakeClock(T0), Metrics())

    def failing(context: SourceContext, outcome: ProbeOutcome, *others: Any) -> Any:
        if outcome.source_id == "a" and outcome.items:
            raise OverflowError("too large")
        return find_events(context, outcome, *others)

    monkeypatch.setattr("proxyd.core.rules.outcome_decider.find_events", failing)
    with capture_logs() as logged:
        assert await taking.take_in(changed("a", [item("x")], T0))
        assert await taking.take_in(changed("b", [item("x")], T0))
    assert [each["source"] for each in logged if "cannot be taken in" in each["event"]] == ["a"]
    states = found.known.states
    assert (states["a"].failures, states["b"].failures) == (1, 0)
    assert "OverflowError" in states["a"].last_detail
    monkeypatch.undo()
    assert await taking.take_in(changed("a", [item("x")], T0 + 60))
    assert states["a"].failures == 0


async def ran(found: Decider, transport: Transport, clock: FakeClock, metrics: Metrics, seconds: float) -> None:
    """Run a loop for that time."""
    loop = probe_loop(found, transport, RecordingMemory(), clock, metrics)
    task = asyncio.create_task(loop.run())
    await settle()
    await clock.advance(seconds)
    await asyncio.gather(loop.drain(0.0), clock.advance(10.0))
    await task


class Starts(Nobody):
    """A transport that notes when it is asked."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(Unmade.LOST)
        self._clock = clock
        self.starts_s: list[float] = []

    @asynccontextmanager
    async def probe(self, request: ProbeRequest) -> AsyncIterator[ProbeOutcome | Unmade]:
        self.starts_s.append(self._clock.time_s() - T0)
        async with super().probe(request) as why:
            yield why


async def test_probes_that_are_due_soon_after_each_other_begin_together() -> None:
    sources = [source(f"s{number}", host=f"h{number}.example.org") for number in range(100)]
    found = decider(declaration(*sources, rule("r")), now_s=T0, budget=Budget(10.0))
    clock = FakeClock(T0)
    made = Starts(clock)
    await ran(found, made, clock, Metrics(), 9.5)
    times_s = sorted(set(made.starts_s))
    gaps_s = [after - before for before, after in pairwise(times_s)]
    assert len(made.starts_s) >= 90
    assert min(gaps_s) > 0.19  # planned 0.1 s apart
    assert max(gaps_s) < 0.35


async def test_a_probe_that_comes_alone_begins_when_it_is_due() -> None:
    clock = FakeClock(T0)
    made = Starts(clock)
    await ran(every(10), made, clock, Metrics(), 40.0)
    assert len(made.starts_s) >= 3
    assert all(abs(start_s / 10.0 - round(start_s / 10.0)) < 1e-6 for start_s in made.starts_s), made.starts_s


@pytest.mark.parametrize(
    ("why", "counted", "other"),
    [
        (Unmade.NOT_BEGUN, "proxyd_dropped_probes_total", "proxyd_lost_probes_total"),
        (Unmade.LOST, "proxyd_lost_probes_total", "proxyd_dropped_probes_total"),
    ],
)
async def test_a_probe_that_no_machine_made_is_counted_and_planned_again(why: Unmade, counted: str, other: str) -> None:
    metrics, transport = Metrics(), Nobody(why)
    await ran(every(100), transport, FakeClock(T0), metrics, 500.0)
    assert len(transport.asked) > 1
    assert sample(metrics, counted) == len(transport.asked)
    assert sample(metrics, other) == 0
    assert bool(sample(metrics, "proxyd_budget_used_ratio")) is (why is Unmade.LOST)


async def test_probes_without_any_outcome_are_seen() -> None:
    clock, found = FakeClock(T0), every(100)
    loop = probe_loop(found, Nobody(Unmade.LOST), RecordingMemory(), clock, Metrics())
    task = asyncio.create_task(loop.run())
    await settle()
    assert loop.silence_s(clock.time_s()) == 0.0
    await clock.advance(500.0)
    assert loop.silence_s(clock.time_s()) > 300.0
    await loop.drain(0.0)
    await task
    clock, found = FakeClock(T0), every(100)
    origin = LocalTransport(PoissonOrigin({"s": []}, clock.time_s))
    loop = probe_loop(found, origin, RecordingMemory(), clock, Metrics())
    task = asyncio.create_task(loop.run())
    await clock.advance(500.0)
    assert loop.silence_s(clock.time_s()) == 0.0
    await loop.drain(0.0)
    await task


async def test_the_share_of_the_budget_is_that_of_the_last_hour() -> None:
    clock, metrics, found = FakeClock(T0), Metrics(), every(100)
    loop = probe_loop(found, LocalTransport(PoissonOrigin({"s": []}, clock.time_s)), RecordingMemory(), clock, metrics)
    task = asyncio.create_task(loop.run())
    await settle()
    await clock.advance(4000.0)
    assert sample(metrics, "proxyd_budget_used_ratio") == pytest.approx(0.01, rel=0.1)
    found.declare(declaration(source("s")), {}, clock.time_s())  # no rule needs a probe from now on
    await clock.advance(1800.0)
    assert sample(metrics, "proxyd_budget_used_ratio") == pytest.approx(0.005, rel=0.1)
    await clock.advance(1900.0)
    assert sample(metrics, "proxyd_budget_used_ratio") == 0.0
    await asyncio.gather(loop.drain(0.0), clock.advance(10.0))
    await task


async def test_an_outcome_of_an_earlier_process_is_recorded_unless_a_later_one_was() -> None:
    found, memory = every(100), RecordingMemory()
    taking = observer(found, memory, FakeClock(T0 + 100.0), Metrics())
    assert await taking.take_in(changed("s", [item("a", T0 - 5.0)], T0 + 50.0))
    request = found.request("s", T0 + 100.0)
    assert request is not None
    later = changed("s", [item("b", T0 + 55.0)], T0 + 60.0)
    assert await taking.take_stray(changed("s", [], T0 + 40.0), reading=request.reading)
    assert await taking.take_stray(changed("gone", [], T0 + 60.0), reading=request.reading)
    assert await taking.take_stray(later, reading=request.reading, is_doubtful=True)
    found.known.owned = Division(frozenset({FIRST_SHARD + 1}))
    assert not await taking.take_stray(changed("gone", [], T0 + 60.0), reading=request.reading)
    found.known.owned = Division(frozenset())
    assert not await taking.take_stray(later, reading=request.reading)
    found.known.owned = UNDIVIDED
    assert len(memory.observations) == 1
    await taking.take_stray(later, reading=request.reading)
    assert [event.item.item_id for event in memory.observations[1].found.events] == ["b"]


async def test_a_notifier_that_cannot_be_told_is_told_of_the_next_delivery() -> None:
    told: list[str] = []

    async def ring() -> None:
        told.append("new deliveries")
        if len(told) == 1:
            raise ClusterError("nobody listens")

    notifier = DistantNotifier(ring, FakeClock())
    task = asyncio.create_task(notifier.run())
    for wake in (notifier.wake, notifier.wake_pings):
        await settle()
        wake()
    await settle()
    assert len(told) == 2
    await notifier.drain(0.0)
    await task


async def test_it_warns_of_a_feed_that_changes_its_guids() -> None:
    taking = observer(every(100), RecordingMemory(), FakeClock(T0), Metrics())
    shown = [item(name, link="https://e.example/") for name in "abc"]
    await taking.take_in(changed("s", shown, T0))
    with capture_logs() as logged:
        await taking.take_in(changed("s", [replace(each, item_id=f"new {each.item_id}") for each in shown], T0 + 100.0))
    assert [(entry["log_level"], entry["source"], entry["items"]) for entry in logged] == [("warning", "s", 3)]


async def test_collections_leave_out_what_is_there_while_many_sources_are_placed() -> None:
    clock, callbacks = FakeClock(), len(gc.callbacks)
    found = decider(declaration(), now_s=clock.time_s())
    declared = declaration(*(source(f"s{number}") for number in range(2500)), rule("r"))
    accepted = dict.fromkeys(declared.rules, clock.time_s())
    found.declare(declared, accepted, clock.time_s(), in_parts=True)
    loop = probe_loop(found, Nobody(Unmade.NOT_BEGUN), RecordingMemory(), clock, Metrics())
    task = asyncio.create_task(loop.run())
    await settle(10)
    assert len(gc.callbacks) == callbacks  # few sources are not worth it
    await settle(35)
    assert found.placement.is_waiting
    assert len(gc.callbacks) == callbacks + 1
    await settle(500)
    assert not found.placement.is_waiting
    assert len(gc.callbacks) == callbacks
    await asyncio.gather(loop.drain(0.0), clock.advance(10.0))
    await task


@pytest.mark.parametrize(("late_s", "most"), [(0.0, 100), (0.5, 100), (5.0, 45), (9.5, 0)])
async def test_what_a_chronon_has_not_used_before_the_start_is_not_made_up_for(late_s: float, most: int) -> None:
    clock = FakeClock(T0 + late_s)
    found = decider(declaration(), now_s=T0, budget=Budget(10.0))
    declared = declaration(*(source(f"s{number}", host=f"h{number}.example") for number in range(200)), rule("r"))
    found.declare(declared, dict.fromkeys(declared.rules, T0), T0)
    transport = Nobody(Unmade.NOT_BEGUN)
    loop = probe_loop(found, transport, RecordingMemory(), clock, Metrics())
    task = asyncio.create_task(loop.run())
    await settle(500)
    at_once = len(transport.asked)
    await clock.advance(9.99 - late_s)
    await settle(500)
    assert at_once <= 1 + 10.0 * min(late_s, 1.0)
    assert len(transport.asked) == most
    await asyncio.gather(loop.drain(0.0), clock.advance(10.0))
    await task


async def test_sources_that_come_within_a_chronon_are_probed_in_what_is_left_of_it() -> None:
    clock, transport, metrics = FakeClock(T0), Nobody(Unmade.LOST), Metrics()
    found = decider(declaration(), now_s=T0, budget=Budget(10.0))
    few = declaration(*(source(f"s{number}", host=f"h{number}.example") for number in range(20)), rule("r"))
    many = declaration(*(source(f"s{number}", host=f"h{number}.example") for number in range(200)), rule("r"))
    found.declare(few, dict.fromkeys(few.rules, T0), T0)
    loop = probe_loop(found, transport, RecordingMemory(), clock, metrics)
    task = asyncio.create_task(loop.run())
    await settle(500)
    await clock.advance(4.0)
    await settle(500)
    found.declare(many, dict.fromkeys(few.rules, T0), T0 + 4.0)
    loop.choose_again()
    await clock.advance(5.9)
    await settle(500)
    assert 60 < len(transport.asked) <= 100
    assert len({*transport.asked}) == len(transport.asked)
    assert sample(metrics, "proxyd_budget_probes_total") == 100
    assert sample(metrics, "proxyd_dropped_probes_total") == 0
    await asyncio.gather(loop.drain(0.0), clock.advance(10.0))
    await task


async def test_after_a_freeze_within_a_chronon_the_budget_holds_by_the_second() -> None:
    clock, transport = FakeClock(T0 + 20.0), Nobody(Unmade.NOT_BEGUN)
    found = decider(declaration(), now_s=T0 + 20.0, chronon_s=60.0, budget=Budget(20.0))
    declared = declaration(*(source(f"s{number}", host=f"h{number}.example") for number in range(2000)), rule("r"))
    found.declare(declared, dict.fromkeys(declared.rules, T0), T0)
    loop = probe_loop(found, transport, RecordingMemory(), clock, Metrics())
    task = asyncio.create_task(loop.run())
    await settle(500)
    clock.jump(3.65)  # 81 probes are due by then
    started = []
    for _ in range(56):
        before = len(transport.asked)
        await clock.advance(1.0)
        await settle(100)
        started.append(len(transport.asked) - before)
    assert max(started) <= 20 / 0.9 + 20 * 0.25 + 3  # in one second
    assert sum(started[:50]) >= 20 * 50  # the budget is used, before the last part of the chronon too
    assert len(transport.asked) == 20 * 60  # and none is lost
    await asyncio.gather(loop.drain(0.0), clock.advance(60.0))
    await task


async def test_a_freeze_is_not_made_up_for_once_it_is_over() -> None:
    clock, transport = FakeClock(T0), Nobody(Unmade.NOT_BEGUN)
    found = decider(declaration(), now_s=T0, budget=Budget(10.0))
    declared = declaration(*(source(f"s{number}", host=f"h{number}.example") for number in range(400)), rule("r"))
    found.declare(declared, dict.fromkeys(declared.rules, T0), T0)
    loop = probe_loop(found, transport, RecordingMemory(), clock, Metrics())
    task = asyncio.create_task(loop.run())
    await clock.advance(9.5)
    await settle(500)
    before = len(transport.asked)
    clock.jump(5.6)
    await clock.advance(0.0)
    await settle(500)
    assert len(transport.asked) - before <= 2
    await clock.advance(4.8)
    await settle(500)
    assert 40 <= len(transport.asked) - before <= 46
    await asyncio.gather(loop.drain(0.0), clock.advance(10.0))
    await task


async def test_items_without_a_believed_time_are_counted_beside_the_delays() -> None:
    metrics, found = Metrics(), every(100)
    taking = observer(found, RecordingMemory(), FakeClock(T0), metrics)
    assert await taking.take_in(changed("s", [item("seed")], T0))
    items = [item("undated"), item("dated", T0 + 50.0), item("backdated", T0 - 500.0), item("seed")]
    assert await taking.take_in(changed("s", items, T0 + 100.0))
    names = ("proxyd_item_delay_seconds_count", "proxyd_items_untimed_total", "proxyd_items_total")
    assert [sample(metrics, name) for name in names] == [1, 2, 3]
