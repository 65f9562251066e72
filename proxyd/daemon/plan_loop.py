"""The plan of the week: made again at intervals apart from the event loop, and put into use between two chronons."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import sha256
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import structlog

from proxyd.base.clock import Signal
from proxyd.base.metrics import Metrics
from proxyd.base.ports import Clock
from proxyd.base.worker_pool import WorkerLimits, WorkerPool, run_work
from proxyd.core.errors import WorkerFailedError
from proxyd.core.planning.allocation.fleet_state import unpack
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.chunks import Chunked, Steps
from proxyd.core.planning.kernels.numba_kernels import HAS_NUMBA
from proxyd.core.rates.siblings import MOST_CHANGES
from proxyd.core.rules.decider import Decider, PlanRecord
from proxyd.core.rules.known.estimates import until_next_plan_s
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.store.followed_rows import RememberedSources
from proxyd.store.plan_rows import SqlPlanRecord, StoredPlan
from proxyd.store.sql_store import SqlStore


def _settings_of_plan(settings: DeciderSettings) -> str:
    """Return what tells whether a plan was made with the same settings.

    >>> from proxyd.core.model.chronon import Budget
    >>> from proxyd.core.model.chronon import ChrononGrid
    >>> from proxyd.core.planning.queue.planner_settings import PlannerSettings
    >>> one, other = (DeciderSettings(PlannerSettings(ChrononGrid(10.0), Budget(n))) for n in (1.0, 2.0))
    >>> _settings_of_plan(one) == _settings_of_plan(other)
    False
    """
    return sha256(f"{settings.planner!r} {settings.cycle!r}".encode()).hexdigest()


LoadSources: TypeAlias = Callable[[], Awaitable[RememberedSources]]
"""Returns what the store remembers of each source."""


async def load_sources(store: SqlStore) -> RememberedSources:
    """Return what the store remembers of each source."""
    return RememberedSources(
        await store.load_states(),
        await store.plan.load_sources(),
        await store.load_streams(),
        await store.load_weeks(),
    )


async def restore(decider: Decider, store: SqlStore, load: LoadSources, week: WeekPlan | None, now_s: float) -> None:
    """Let a decider continue as the last process ended, by the plan of the ``week`` if there is one."""
    found = await load()
    is_alone = decider.known.owned.is_whole  # otherwise these come with the sources that are taken over
    await asyncio.to_thread(
        decider.restore,
        await asyncio.to_thread(lambda: {name: state.resume(now_s) for name, state in found.states.items()}),
        found.streams,
        await store.subscriptions.load() if is_alone else {},
        await store.plan.load_joint_intervals() if is_alone else (),
        found.weeks,
        await store.load_changes(limit=MOST_CHANGES),
        await store.failing.load(),
    )
    decider.restore_plan(PlanRecord(found.records, await store.plan.load_fleet(), week))


log = structlog.get_logger("plan")
_T = TypeVar("_T")
_MOST_IN_PROCESS = 5_000  # sources; to copy more takes longer than the event loop may wait for the interpreter's lock
_FEW = 200  # sources: up to two seconds of plain Python in a thread, for which another process would hold 80 MiB
_LIMITS = WorkerLimits(timeout_s=600.0, memory_bytes=2 << 30, tries=1, idle_s=30.0)


class Compute(Protocol):
    """Runs what takes long for many sources apart from the event loop."""

    async def __call__(self, work: Callable[[], _T], sources: int, /) -> _T:
        """Return the result of work on so many sources."""


async def in_thread(work: Callable[[], _T], sources: int) -> _T:
    """Return the result of work, which is done in a thread."""
    return await asyncio.to_thread(work)


class PlanWorker:
    """Makes plans in a process that ends, and with it the compiler, which takes 35 MiB; use ``async with``.

    Without a compiler a plan of few sources is made in a thread.
    """

    def __init__(self) -> None:
        self._pool: WorkerPool[Any] = WorkerPool(run_work, "the planner's worker", workers=1, limits=_LIMITS)

    async def __aenter__(self) -> PlanWorker:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    async def compute(self, work: Callable[[], _T], sources: int) -> _T:
        """Return the result of work; in a thread if the fleet is large, or small, or if the process fails."""
        if (0 if HAS_NUMBA else _FEW) < sources <= _MOST_IN_PROCESS:
            try:
                return cast("_T", await self._pool.run(work))
            except WorkerFailedError as error:
                log.warning("the plan is made in this process", reason=str(error))
        return await in_thread(work, sources)


async def last_week(settings: DeciderSettings, plans: SqlPlanRecord, compute: Compute = in_thread) -> WeekPlan | None:
    """Return the last plan of the week, made again; ``None`` if there is none, or it was made with other settings."""
    stored = await plans.load()
    if stored is None or stored.settings != _settings_of_plan(settings):
        return None
    try:
        state = await asyncio.to_thread(unpack, stored.body)
        return await compute(partial(WeekPlan.of, state), len(state.source_ids))
    except ValueError as error:
        log.warning("the stored plan cannot be read; another is made", reason=str(error))
        return None


class PlanLoop:
    """Makes the plan of the week every ``every_s``, at first more often; probes follow the old plan until then.

    After a restart the stored plan holds until its time is over. Without one the first plan comes at once if weeks were
    learned before this start, otherwise after some time to learn. ``compute`` makes a plan while the event loop runs;
    tests make it at once.
    """

    def __init__(
        self,
        decider: Decider,
        clock: Clock,
        metrics: Metrics,
        plans: SqlPlanRecord,
        *,
        every_s: float,
        compute: Compute = in_thread,
    ) -> None:
        self._decider = decider
        self._estimates = decider.known.estimates
        self._clock = clock
        self._metrics = metrics
        self._every_s = every_s
        self._compute = compute
        self._plans = plans
        self._begun_s: float | None = None
        self._wake = Signal()
        self._stopped = False
        self._is_overdrawn = False

    async def run(self) -> None:
        """Plan until ``stop``."""
        await self._wait_for_first()
        while not self._stopped:
            await self.plan()
            await self._rest(self._clock.time_s())

    async def _wait_for_first(self) -> None:
        now_s = self._clock.time_s()
        stored = await self._plans.load() if self._decider.planner.week is not None else None
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
        made_s = self._clock.time_s()
        await in_parts(self._decider.placement.place_in_parts(self._clock.time_s))
        fleet = await in_parts(self._decider.snapshot(made_s))
        self._tell_if_overdrawn(fleet.asked_per_s)
        began_s = self._clock.monotonic_s()
        made = await self._compute(fleet.plan_and_state, len(fleet.source_ids))
        if made is None:
            return
        week, packed = made
        await in_parts(self._decider.switch_plan(week, self._clock.time_s()))
        begun_s, settings = (
            made_s if self._begun_s is None else self._begun_s,
            _settings_of_plan(self._decider.settings),
        )
        await self._plans.save(StoredPlan(begun_s, made_s, settings, packed))
        self._metrics.plan_s.set(self._clock.monotonic_s() - began_s)
        self._metrics.probe_price.set(week.price_item_s / 3600.0)
        log.info(
            "planned the week", sources=len(fleet.source_ids), price_item_hours=round(week.price_item_s / 3600.0, 4)
        )

    def _tell_if_overdrawn(self, asked_per_s: float) -> None:
        """Say once that fixed times ask for more probes than the budget has for them."""
        settings, was_overdrawn = self._decider.planner.settings, self._is_overdrawn
        self._is_overdrawn = settings.is_overdrawn(asked_per_s)
        if self._is_overdrawn and not was_overdrawn:
            log.warning(
                "EVERY, UNIFORM, DOE, SUP and fbSUP ask for more than nine tenths of the budget, so their probes come "
                "late: raise `budget`, or ask for fewer",
                asked_per_minute=round(60.0 * asked_per_s, 2),
                budget_per_minute=round(60.0 * settings.budget.mean_per_s, 2),
            )


async def in_parts(work: Chunked[_T]) -> _T:
    """Return the result of work done in parts; other tasks run between them."""
    steps = Steps(work)
    for _ in steps:
        await asyncio.sleep(0)
    return steps.made
