"""What became of the intervals of all rules, week by week; of a week that was read before, only what is new is read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from proxyd.core.rates.week_bins import WEEK_S
from proxyd.core.rules.answers.promises import RuleWeek
from proxyd.store import SqlStore

_MOST_WEEKS = 4  # that are remembered
Totals: TypeAlias = Mapping[str, RuleWeek]
_NOTHING: tuple[int | None, Totals] = (None, MappingProxyType({}))


class RuleWeeks:
    """Adds up the stored intervals of each rule and week, and remembers the sums of the newest weeks.

    A report of a fleet reads a million intervals. Stored intervals are numbered and do not change.
    """

    def __init__(self, store: SqlStore) -> None:
        self._history = store.history
        self._known: dict[tuple[float, float], tuple[int | None, Totals]] = {}

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


def _together(totals: Totals, found: Iterable[RuleWeek]) -> Totals:
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
