"""The plan of the week is made in the background, taken over, and made again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from structlog.testing import capture_logs

from proxyd.base.metrics import Metrics
from proxyd.core.model.chronon import Budget
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.allocation.fleet_state import FleetState, unpack
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.chunks import PART
from proxyd.core.rules.decider import Decider, PlanRecord
from proxyd.daemon import PlanLoop, PlanWorker
from tests.fakes import FakeClock, settle
from tests.fleets import Drive, KeptPlan, changed, decider, declaration, item, rule, source

T = TypeVar("T")
T0 = 1_000_000_000.0


async def known() -> Decider:
    """Return a decider that has seen its one source, whose items come every hour."""
    found = decider(declaration(source("s"), rule("r")), now_s=T0)
    await Drive(found).see(changed("s", [item(str(n), T0 - 3600.0 * n) for n in range(1, 20)], T0))
    return found


async def at_once(work: Callable[[], T], sources: int) -> T:
    return work()


async def test_what_was_learned_before_is_planned_at_once_and_then_every_so_often() -> None:
    found, clock, metrics = await known(), FakeClock(T0), Metrics()
    plan_loop = PlanLoop(found, clock, metrics, KeptPlan(), every_s=60.0, compute=at_once)
    task = asyncio.create_task(plan_loop.run())
    await clock.someone_sleeps()
    first = found.planner.week
    assert first is not None
    price = metrics.registry.get_sample_value("proxyd_probe_price_item_hours")
    assert price == (found.settings.planner.price_item_s or 0.0) / 3600.0
    await clock.advance(61.0)
    assert found.planner.week is not first
    plan_loop.stop()
    await task


@pytest.mark.parametrize("clause", ["SET EVERY 30 SECONDS", "SET POLICY UNIFORM(30 SECONDS)"])
async def test_it_says_once_that_fixed_times_ask_for_more_than_the_budget(clause: str) -> None:
    short = decider(declaration(source("s"), rule("r", clauses=clause)), now_s=T0, budget=Budget(1.0 / 60.0))
    for found, times in ((await known(), 0), (short, 1)):
        await Drive(found).see(changed("s", [item(str(n), T0 - 3600.0 * n) for n in range(1, 20)], T0))
        plan_loop = PlanLoop(found, FakeClock(T0), Metrics(), KeptPlan(), every_s=60.0, compute=at_once)
        with capture_logs() as logged:
            await plan_loop.plan()
            await plan_loop.plan()
        assert [each["asked_per_minute"] for each in logged if each["log_level"] == "warning"] == [2.0] * times


async def test_where_nothing_is_known_the_first_plan_waits_for_something_to_be_learned() -> None:
    found, clock = decider(declaration(source("s"), rule("r")), now_s=T0), FakeClock(T0)
    plan_loop = PlanLoop(found, clock, Metrics(), KeptPlan(), every_s=60.0, compute=at_once)
    task = asyncio.create_task(plan_loop.run())
    await clock.someone_sleeps()
    assert found.planner.week is None
    await Drive(found).see(changed("s", [item("a", T0 - 60.0)], T0))
    await clock.advance(61.0)
    assert found.planner.week is not None
    plan_loop.stop()
    await task


async def test_plans_come_more_often_at_first() -> None:
    found, clock = await known(), FakeClock(T0)
    plan_loop = PlanLoop(found, clock, Metrics(), KeptPlan(), every_s=86400.0, compute=at_once)
    task = asyncio.create_task(plan_loop.run())
    await clock.someone_sleeps()
    made_h: list[int] = []
    week = found.planner.week
    for hour in range(1, 60):
        await clock.advance(3600.0)
        if found.planner.week is not week:
            made_h, week = [*made_h, hour], found.planner.week
    assert made_h == [3, 6, 12, 24, 48]
    plan_loop.stop()
    await task


async def test_a_restart_changes_neither_the_plan_nor_when_the_next_one_is_made() -> None:
    clock, kept, made_h = FakeClock(T0), KeptPlan(), list[int]()
    found = await known()
    for hour in range(30):
        before = kept.plan
        if before is not None:
            found = await known()
            found.restore_plan(PlanRecord(week=WeekPlan.of(unpack(before.body))))
        plan_loop = PlanLoop(found, clock, Metrics(), kept, every_s=86400.0, compute=at_once)
        task = asyncio.create_task(plan_loop.run())
        await clock.someone_sleeps()
        await clock.advance(3600.0)
        if kept.plan is not before:
            made_h.append(hour + 1)
        plan_loop.stop()
        await task
    assert made_h == [1, 3, 6, 12, 24]  # the first at once


async def test_a_probe_that_ends_while_the_plan_is_made_counts_in_it_and_none_is_lost_or_made_twice() -> None:
    found, clock = await known(), FakeClock(T0)
    made, go = asyncio.Event(), asyncio.Event()

    async def waiting(work: Callable[[], T], sources: int) -> T:
        result = work()
        made.set()
        await go.wait()
        return result

    task = asyncio.create_task(PlanLoop(found, clock, Metrics(), KeptPlan(), every_s=1e6, compute=waiting).plan())
    await made.wait()
    now = found.settings.grid.chronon_at(T0 + 40_000.0)
    (planned,) = found.choose(now).probes
    assert planned.probe.reason is Reason.DETECTION
    seen_s = planned.start_s
    outcome = changed("s", [item("new", T0 + 39_000.0)], seen_s)
    found.outcomes.finish(outcome, found.observe(outcome))
    go.set()
    await task
    assert found.planner.week is not None
    due_s = found.planner.week.due_s("s")
    assert due_s is not None
    assert due_s > seen_s
    assert found.choose(now + 1).probes == []


async def test_the_plan_is_made_in_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    found, clock = await known(), FakeClock(T0)
    threads: list[int] = []
    fleet = type(found.fleet(T0))
    state = fleet.state

    def noting(taken: Any) -> FleetState | None:
        threads.append(threading.get_ident())
        return state(taken)

    monkeypatch.setattr(fleet, "state", noting)
    await PlanLoop(found, clock, Metrics(), KeptPlan(), every_s=60.0).plan()
    await settle()
    assert threads
    assert threads[0] != threading.get_ident()
    assert found.planner.week is not None


async def test_the_loop_runs_between_the_parts_of_the_snapshot_and_of_the_change() -> None:
    sources = [source(f"s{number}") for number in range(3 * PART)]
    found, clock = decider(declaration(*sources, rule("r")), now_s=T0), FakeClock(T0)
    for name, page in found.planner.sources.items():
        page.last_seen_s = T0
        found.planner.reschedule(name, found.settings.grid.chronon_at(T0))
    turns = []

    async def take_turns() -> None:
        while True:
            turns.append(found.planner.week is None)
            await asyncio.sleep(0)

    beside = asyncio.create_task(take_turns())
    await PlanLoop(found, clock, Metrics(), KeptPlan(), every_s=60.0, compute=at_once).plan()
    beside.cancel()
    assert turns.count(True) >= 3  # while pages are gathered, and while the plan learns what was probed since
    assert turns.count(False) >= 2  # while they are planned again


async def test_a_plan_of_another_process_is_the_same_and_leaves_no_compiler_here() -> None:
    code = """
import asyncio, sys
from proxyd.daemon.plan_loop import PlanWorker, in_thread
from tests.unit.daemon.test_plan_loop import T0, known

async def main():
    found = await known()
    fleet = found.fleet(T0)
    async with PlanWorker() as worker:
        apart, state = await worker.compute(fleet.plan_and_state, 1_000)
        before = {"numba"} & sys.modules.keys()
    week, same_state = await in_thread(fleet.plan_and_state, 1)
    print(before, apart.due_s("s") == week.due_s("s"), apart.price_item_s == week.price_item_s, state == same_state)

if __name__ == "__main__":
    asyncio.run(main())
"""
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set() True True True\n", "")


@pytest.mark.parametrize(
    ("has_compiler", "sources", "is_here"),
    [(True, 1, False), (False, 1, True), (False, 200, True), (False, 201, False), (False, 5_001, True)],
    ids=["few, compiled", "one", "few", "more", "very many"],
)
async def test_a_plan_of_few_sources_needs_a_process_only_for_its_compiler(
    has_compiler: bool, sources: int, is_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxyd.daemon.plan_loop.HAS_NUMBA", has_compiler)
    async with PlanWorker() as worker:
        assert (await worker.compute(os.getpid, sources) == os.getpid()) is is_here


def broken() -> int:
    raise ValueError("a bug")


async def test_a_plan_whose_process_fails_is_made_in_a_thread() -> None:
    async with PlanWorker() as worker:
        assert await worker.compute(lambda: 1, 10_000) == 1  # a large fleet: it is not sent anywhere
        with pytest.raises(ValueError, match="a bug"):
            await worker.compute(broken, 1_000)
