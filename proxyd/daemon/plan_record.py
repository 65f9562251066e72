"""What the store remembers of the plan, for a daemon that starts, and from each plan of the week on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from hashlib import sha256
from typing import Protocol

import structlog

from proxyd.core.planning.allocation.packed_state import unpack
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.rules.decider import PlanRecord
from proxyd.core.rules.decider_settings import DeciderSettings
from proxyd.store import SqlStore, StoredPlan

log = structlog.get_logger("plan")


class Plans(Protocol):
    """Keeps the last plan of the week."""

    def load(self) -> Awaitable[StoredPlan | None]:
        """Return the last plan, or ``None`` if none was made."""

    def save(self, plan: StoredPlan) -> Awaitable[None]:
        """Store a plan in place of the last one."""


def settings_of_plan(settings: DeciderSettings) -> str:
    """Return what tells whether a plan was made with the same settings.

    >>> from proxyd.core.model.budget import Budget
    >>> from proxyd.core.model.chronon import ChrononGrid
    >>> from proxyd.core.planning.planner_settings import PlannerSettings
    >>> one, other = (DeciderSettings(PlannerSettings(ChrononGrid(10.0), Budget(n))) for n in (1.0, 2.0))
    >>> settings_of_plan(one) == settings_of_plan(other)
    False
    """
    return sha256(f"{settings.planner!r} {settings.cycle!r}".encode()).hexdigest()


async def load_record(store: SqlStore, settings: DeciderSettings, now_s: float) -> PlanRecord:
    """Return how the planner stood when the last process ended; the plan of the week is made again in a thread."""
    sources = {name: record.as_of(now_s) for name, record in (await store.plan.load_sources()).items()}
    stored = await store.plan.load()
    is_ours = stored is not None and stored.settings == settings_of_plan(settings)
    week = await asyncio.to_thread(_week_of, stored) if stored is not None and is_ours else None
    return PlanRecord(sources, await store.plan.load_fleet(), week)


def _week_of(stored: StoredPlan) -> WeekPlan | None:
    try:
        return WeekPlan.of(unpack(stored.body))
    except ValueError as error:
        log.warning("the stored plan cannot be read; another is made", reason=str(error))
        return None
