"""The plan of the week: made again at intervals in a thread, and put into use between two chronons."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

import structlog

from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.chunks import Chunked, Steps
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.estimates import until_next_plan_s
from proxyd.metrics import Metrics
from proxyd.ports import Clock
from proxyd.signals import Signal

log = structlog.get_logger("plan")
Make: TypeAlias = Callable[[], "WeekPlan | None"]
T = TypeVar("T")


class Planning:
    """Makes the plan of the week every ``every_s``, at first more often; probes follow the old plan until then.

    The first plan comes at once if weeks were learned before this start, otherwise after some time to learn.
    ``run_in_thread`` makes a plan while the event loop runs; tests make it at once.
    """

    def __init__(
        self,
        decider: Decider,
        clock: Clock,
        metrics: Metrics,
        *,
        every_s: float,
        run_in_thread: Callable[[Make], Awaitable[WeekPlan | None]] = asyncio.to_thread,
    ) -> None:
        self._decider = decider
        self._estimates = decider.known.estimates
        self._clock = clock
        self._metrics = metrics
        self._every_s = every_s
        self._run_in_thread = run_in_thread
        self._wake = Signal()
        self._stopped = False

    async def run(self) -> None:
        """Plan until ``stop``."""
        begun_s = self._clock.time_s()
        if not self._estimates.weeks:
            await self._rest(0.0)
        while not self._stopped:
            await self.plan()
            await self._rest(self._clock.time_s() - begun_s)

    def stop(self) -> None:
        """Make no more plans."""
        self._stopped = True
        self._wake.notify()

    async def _rest(self, passed_s: float) -> None:
        await self._wake.sleep(self._clock, until_next_plan_s(passed_s, self._every_s))

    async def plan(self) -> None:
        """Make a plan from the current knowledge and put it into use."""
        fleet = await in_parts(self._decider.snapshot(self._clock.time_s()))
        began_s = self._clock.monotonic_s()
        week = await self._run_in_thread(fleet.plan)
        if week is None:
            return
        await in_parts(self._decider.switch_plan(week, self._clock.time_s()))
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
