"""Reports of what was found and predicted, and of what rules kept of their promises."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from proxyd.base.ports import Clock
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S
from proxyd.core.rules.answers.explanation import Explainer, KeptPromise, RuleWeek, fallen_shortest, promises_kept
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.estimates import Misfit
from proxyd.core.rules.stages.source_state import Calibration
from proxyd.store.sql_store import SqlStore

_MOST_WEEKS = 4  # that are remembered
_DAY_S = 86400.0
_MOST_PROMISES = 1000  # of rules and weeks, in a report
_Totals: TypeAlias = Mapping[str, RuleWeek]
_NOTHING: tuple[int | None, _Totals] = (None, MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Report:
    """What was found and predicted on each day with data (since 1970-01-01, UTC), and models that now fit badly.

    ``promises`` compares what rules promise with what they kept, week by week. If there are many, it holds those that
    fell shortest, and ``promises_left_out`` counts the others.
    """

    days: tuple[tuple[int, Calibration], ...]
    off: tuple[Misfit, ...]
    promises: tuple[KeptPromise, ...] = ()
    promises_left_out: int = 0


class RuleWeeks:
    """Adds up the stored intervals of each rule and week, and remembers the sums of the newest weeks.

    A report of a fleet reads a million intervals. Stored intervals are numbered and do not change.
    """

    def __init__(self, store: SqlStore) -> None:
        self._history = store.history
        self._known: dict[tuple[float, float], tuple[int | None, _Totals]] = {}

    async def of(self, week_s: float, within_s: float) -> list[RuleWeek]:
        """Return what became of each rule's intervals in the week that began then; ``in_time`` is within the time."""
        after, totals = self._known.get((week_s, within_s), _NOTHING)
        newest = await self._history.newest_interval()
        if after is not None and newest < after:  # all were deleted, and their numbers begin again
            after, totals = _NOTHING
        if after is None or newest > after:
            found = await self._history.rule_week(week_s, week_s + WEEK_S, within_s, after=after, until=newest)
            totals = await asyncio.to_thread(_together, totals, found)
            self._known[week_s, within_s] = newest, totals
            for old in sorted(self._known)[:-_MOST_WEEKS]:
                del self._known[old]
        return list(totals.values())


def _together(totals: _Totals, found: Iterable[RuleWeek]) -> _Totals:
    """Return the sums of both.

    >>> week = RuleWeek(0.0, "r", intervals=10, captured=9, in_time=8, utility=9.0)
    >>> _together({"r": week}, [week])["r"].captured
    18
    """
    together = dict(totals)
    for each in found:
        known = together.get(each.rule)
        together[each.rule] = each if known is None else _sum(known, each)
    return together


def _sum(one: RuleWeek, other: RuleWeek) -> RuleWeek:
    return replace(
        one,
        intervals=one.intervals + other.intervals,
        captured=one.captured + other.captured,
        in_time=one.in_time + other.in_time,
        utility=one.utility + other.utility,
    )


class Reports:
    """Reports of the stored probes and intervals."""

    def __init__(self, decider: Decider, store: SqlStore, clock: Clock) -> None:
        self._explainer = Explainer.of(decider)
        self._planner = decider.planner
        self._known = decider.known
        self._history = store.history
        self._weeks = RuleWeeks(store)
        self._clock = clock

    async def report(self, *, days: int, with_promises: bool = True) -> Report:
        """Return what was found and predicted on each day, and the sources whose models fit badly."""
        since_s = self._clock.time_s() - (days - 1) * _DAY_S
        accounts = tuple(await self._history.accounts(since_s))
        if not with_promises:
            return Report(accounts, tuple(self._explainer.misfits()))
        promises, count = await self._promises(max(since_s, accounts[0][0] * _DAY_S) if accounts else since_s)
        left_out = count - len(promises)
        return Report(accounts, tuple(self._explainer.misfits()), tuple(promises), promises_left_out=left_out)

    async def _promises(self, since_s: float) -> tuple[list[KeptPromise], int]:
        """Return what rules kept of their promises in each week since a time, of many the worst, and their number."""
        worst, count = list[KeptPromise](), 0
        week_s = MONDAY_S + (since_s - MONDAY_S) // WEEK_S * WEEK_S
        while week_s < self._clock.time_s():
            found = await self._kept(partial(self._weeks.of, week_s, self._within_s))
            count += len(found)
            worst = await asyncio.to_thread(fallen_shortest, [*worst, *found], _MOST_PROMISES)
            week_s += WEEK_S
        return worst, count

    async def kept(self, source_id: str) -> list[KeptPromise]:
        """Return what rules kept of their promises for a source in the last seven days."""
        since_s = self._clock.time_s() - WEEK_S
        until_s, within_s = since_s + WEEK_S, self._within_s
        return await self._kept(partial(self._history.rule_week, since_s, until_s, within_s, source_id=source_id))

    async def _kept(self, read: Callable[[], Awaitable[list[RuleWeek]]]) -> list[KeptPromise]:
        """Return what rules kept of their promises, if they have targets; only then are their intervals read."""
        settings, programs = self._planner.settings, self._known.compiled.programs
        if not settings.has_targets:
            return []
        return await asyncio.to_thread(promises_kept, programs, settings, await read())

    @property
    def _within_s(self) -> float:
        """The time in which items are to be seen, for rules that say none."""
        return self._planner.settings.default_target.parts[0][0]
