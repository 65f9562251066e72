"""The plan of the week: made again at intervals in a thread, and put into use between two chronons."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

import structlog

from proxyd.base.clock import Signal
from proxyd.base.metrics import Metrics
from proxyd.base.ports import Clock
from proxyd.core.planning.allocation.week_plan import WeekPlan, pack
from proxyd.core.planning.chunks import Chunked, Steps
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.estimates import until_next_plan_s
from proxyd.daemon.remembered import PlanMemory, settings_of_plan
from proxyd.store import StoredPlan

log = structlog.get_logger("plan")
Make: TypeAlias = Callable[[], "WeekPlan | None"]
T = TypeVar("T")


class Planning:
    """Makes the plan of the week every ``every_s``, at first more often; probes follow the old plan until then.

    After a restart the stored plan holds until its time is over. Without one the first plan comes at once if weeks were
    learned before this start, otherwise after some time to learn. ``run_in_thread`` makes a plan while the event loop
    runs; tests make it at once.
    """

    def __init__(
        self,
        decider: Decider,
        clock: Clock,
        metrics: Metrics,
        *,
        every_s: float,
        run_in_thread: Callable[[Make], Awaitable[WeekPlan | None]] = asyncio.to_thread,
        plans: PlanMemory | None = None,
    ) -> None:
        self._decider = decider
        self._estimates = decider.known.estimates
        self._clock = clock
        self._metrics = metrics
        self._every_s = every_s
        self._run_in_thread = run_in_thread
        self._plans = plans
        self._begun_s: float | None = None
        self._wake = Signal()
        self._stopped = False

    async def run(self) -> None:
        """Plan until ``stop``."""
        await self._wait_for_first()
        while not self._stopped:
            await self.plan()
            await self._rest(self._clock.time_s())

    async def _wait_for_first(self) -> None:
        now_s = self._clock.time_s()
        stored = (
            await self._plans.load() if self._plans is not None and self._decider.planner.week is not None else None
        )
        self._begun_s = now_s if stored is None else min(stored.begun_s, now_s)
        if stored is not None:
            await self._rest(min(stored.made_s, now_s))
        elif not self._estimates.weeks:
            await self._rest(now_s)

    def plan_soon(self) -> None:
        """Make the next plan now: many sources have come."""
        self._wake.notify()

    def stop(self) -> None:
        """Make no more plans."""
        self._stopped = True
        self._wake.notify()

    async def _rest(self, made_s: float) -> None:
        """Wait for the time of the plan after one that was made at ``made_s``."""
        begun_s, now_s = self._begun_s, self._clock.time_s()
        assert begun_s is not None
        next_s = made_s + until_next_plan_s(made_s - begun_s, self._every_s)
        if next_s > now_s:
            await self._wake.sleep(self._clock, next_s - now_s)

    async def plan(self) -> None:
        """Make a plan from the current knowledge and put it into use."""
        made_s, packed = self._clock.time_s(), list[bytes]()
        await in_parts(self._decider.placing(self._clock.time_s))
        fleet = await in_parts(self._decider.snapshot(made_s))
        began_s = self._clock.monotonic_s()

        def make() -> WeekPlan | None:
            state = fleet.state()
            if state is not None and self._plans is not None:
                packed.append(pack(state))
            return None if state is None else WeekPlan.of(state)

        week = await self._run_in_thread(make)
        if week is None:
            return
        await in_parts(self._decider.switch_plan(week, self._clock.time_s()))
        if self._plans is not None:
            begun_s, settings = self._begun_s, settings_of_plan(self._decider.settings)
            begun_s = made_s if begun_s is None else begun_s
            await self._plans.save(StoredPlan(begun_s, made_s, settings, packed[0]))
        self._metrics.plan_s.set(self._clock.monotonic_s() - began_s)
        self._metrics.probe_price.set(week.price_item_s / 3600.0)
        log.info(
            "planned the week", sources=len(fleet.source_ids), price_item_hours=round(week.price_item_s / 3600.0, 4)
        )


async def in_parts(work: Chunked[T]) -> T:
    """Return the result of work done in parts; other tasks run between them."""
    steps = Steps(work)
    for _ in steps:
        await asyncio.sleep(0)
    return steps.made
