"""What the store remembers, for a daemon that starts; and of the plan from each plan of the week on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from hashlib import sha256
from typing import Protocol

import structlog

from proxyd.core.language import SourceText
from proxyd.core.model.profile import Declaration
from proxyd.core.planning.allocation.packed_state import unpack
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.rates.siblings import MOST_CHANGES
from proxyd.core.rules.compiled import Swap
from proxyd.core.rules.decider import Decider, PlanRecord
from proxyd.core.rules.decider_settings import DeciderSettings
from proxyd.daemon.declared_texts import NOTHING_DECLARED, CheckedTexts, DeclaredTexts
from proxyd.store import SqlStore, StoredPlan
from proxyd.store.followed_rows import RememberedSources

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


class Remembering(Protocol):
    """Reads what the store remembers of the declaration, the sources and the plan of the week.

    ``texts`` is what was read of the declaration before the start.
    """

    texts: DeclaredTexts

    async def sources(self, store: SqlStore) -> RememberedSources:
        """Return what is remembered of each source."""

    async def week(self, stored: StoredPlan) -> WeekPlan | None:
        """Return the plan of the week that is stored, or ``None`` if it cannot be read."""

    def checked(self, texts: Sequence[SourceText]) -> CheckedTexts | None:
        """Return what texts declare, or ``None`` if these were not checked."""

    def swap(
        self, declaration: Declaration, accepted: Mapping[str, float], declared: Mapping[str, float]
    ) -> Swap | None:
        """Return the declaration compiled in place of none, or ``None`` if that was not done."""


class _Cold:
    """Reads all of it when it is needed, and has compiled nothing."""

    texts = NOTHING_DECLARED

    def checked(self, _texts: object) -> None:
        """Return nothing."""

    def swap(self, _declaration: object, _accepted: object, _declared: object) -> None:
        """Return nothing."""

    async def sources(self, store: SqlStore) -> RememberedSources:
        """Return what is remembered of each source."""
        return RememberedSources(
            await store.load_states(),
            await store.plan.load_sources(),
            await store.load_streams(),
            await store.load_weeks(),
        )

    async def week(self, stored: StoredPlan) -> WeekPlan | None:
        """Return the plan of the week that is stored, made again in a thread."""
        return await asyncio.to_thread(week_of, stored)


COLD = _Cold()
"""Reads all of it when it is needed."""


async def restore(decider: Decider, store: SqlStore, remembering: Remembering, now_s: float) -> None:
    """Let a decider continue as the last process ended."""
    found = await remembering.sources(store)
    is_alone = decider.known.division.own is None  # otherwise these come with the sources that are taken over
    decider.restore(
        {source_id: state.resumed(now_s) for source_id, state in found.states.items()},
        found.streams,
        await store.subscriptions.load() if is_alone else {},
        await store.load_joint_intervals() if is_alone else (),
        found.weeks,
        await store.load_changes(limit=MOST_CHANGES),
        await store.failing.load(),
    )
    stored = await store.plan.load()
    is_ours = stored is not None and stored.settings == settings_of_plan(decider.settings)
    week = await remembering.week(stored) if stored is not None and is_ours else None
    records = {name: record.as_of(now_s) for name, record in found.records.items()}
    decider.restore_plan(PlanRecord(records, await store.plan.load_fleet(), week))


def week_of(stored: StoredPlan) -> WeekPlan | None:
    """Return the plan of the week that is stored, or ``None`` if it cannot be read."""
    try:
        return WeekPlan.of(unpack(stored.body))
    except ValueError as error:
        log.warning("the stored plan cannot be read; another is made", reason=str(error))
        return None
