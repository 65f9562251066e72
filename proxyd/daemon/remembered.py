"""What the store remembers, for a daemon that starts; and of the plan from each plan of the week on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Protocol, TypeAlias

import structlog

from proxyd.core.planning.allocation.week_plan import WeekPlan, unpack
from proxyd.core.rates.siblings import MOST_CHANGES
from proxyd.core.rules.decider import Decider, PlanRecord
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.core.rules.known.state import SourceState
from proxyd.store import SqlStore, StoredPlan
from proxyd.store.followed_rows import RememberedSources

log = structlog.get_logger("plan")


class PlanMemory(Protocol):
    """Keeps the last plan of the week."""

    def load(self) -> Awaitable[StoredPlan | None]:
        """Return the last plan, or ``None`` if none was made."""

    def save(self, plan: StoredPlan) -> Awaitable[None]:
        """Store a plan in place of the last one."""


def settings_of_plan(settings: DeciderSettings) -> str:
    """Return what tells whether a plan was made with the same settings.

    >>> from proxyd.core.model.chronon import Budget
    >>> from proxyd.core.model.chronon import ChrononGrid
    >>> from proxyd.core.planning.queue.planner_settings import PlannerSettings
    >>> one, other = (DeciderSettings(PlannerSettings(ChrononGrid(10.0), Budget(n))) for n in (1.0, 2.0))
    >>> settings_of_plan(one) == settings_of_plan(other)
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
        await asyncio.to_thread(_resume_states, found.states, now_s),
        found.streams,
        await store.subscriptions.load() if is_alone else {},
        await store.load_joint_intervals() if is_alone else (),
        found.weeks,
        await store.load_changes(limit=MOST_CHANGES),
        await store.failing.load(),
    )
    decider.restore_plan(PlanRecord(found.records, await store.plan.load_fleet(), week))


async def last_week(settings: DeciderSettings, plans: PlanMemory) -> WeekPlan | None:
    """Return the last plan of the week, made again; ``None`` if there is none, or it was made with other settings."""
    stored = await plans.load()
    is_ours = stored is not None and stored.settings == settings_of_plan(settings)
    return await asyncio.to_thread(_week_of, stored) if stored is not None and is_ours else None


def _week_of(stored: StoredPlan) -> WeekPlan | None:
    """Return the plan of the week that is stored, or ``None`` if it cannot be read."""
    try:
        return WeekPlan.of(unpack(stored.body))
    except ValueError as error:
        log.warning("the stored plan cannot be read; another is made", reason=str(error))
        return None


def _resume_states(states: Mapping[str, SourceState], now_s: float) -> dict[str, SourceState]:
    """Return the states with which a new process continues; this takes long for many sources."""
    return {source_id: state.resume(now_s) for source_id, state in states.items()}
