"""The hours of a week, and the cycle that repeats: a week or something shorter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.rates.rate_blend import Evidence, ItemTimes

WEEK_S = 604_800.0
MONDAY_S = 345_600.0  # unix time 0 was a Thursday
HOUR_S = 3600.0
HOURS = 168


def week_hours(times_s: ArrayLike) -> Ints:
    """Return the hour of the week of each unix time, 0 for Monday 00:00 to 01:00 UTC.

    >>> week_hours([4 * 86400.0, 4 * 86400.0 - 1.0])
    array([  0, 167])
    """
    hours = np.floor((np.asarray(times_s, dtype=np.float64) - MONDAY_S) / HOUR_S).astype(np.int64)
    return hours % HOURS


def hours_between(start_s: ArrayLike, stop_s: ArrayLike) -> Floats:
    """Return how often each hour of the week has passed between two unix times, shape (168,); (n, 168) for arrays.

    >>> hours_between(4 * 86400.0, 4 * 86400.0 + 5400.0)[:3]
    array([1. , 0.5, 0. ])
    """
    hour = np.arange(HOURS)

    def until(end_s: ArrayLike) -> Floats:
        weeks, rest = np.divmod((np.asarray(end_s, dtype=np.float64)[..., None] - MONDAY_S) / HOUR_S, HOURS)
        passed: Floats = weeks + np.clip(rest - hour, 0.0, 1.0)
        return passed

    return until(stop_s) - until(start_s)


def odd_weeks_s(time_s: float) -> float:
    """Return the seconds of odd weeks before a time of the week.

    >>> [odd_weeks_s(MONDAY_S + weeks * WEEK_S) / WEEK_S for weeks in (1.0, 1.25, 3.0)]
    [0.0, 0.25, 1.0]
    """
    pairs, rest_s = divmod(time_s - MONDAY_S, 2 * WEEK_S)
    return pairs * WEEK_S + max(0.0, rest_s - WEEK_S)


def is_odd_week(time_s: Any) -> Any:
    """Return whether a time of the week is in an odd week, or each of an array.

    >>> is_odd_week(MONDAY_S), is_odd_week(MONDAY_S + WEEK_S)
    (False, True)
    """
    return (time_s - MONDAY_S) % (2 * WEEK_S) >= WEEK_S


@dataclass(frozen=True, slots=True)
class Cycle:
    """The cycle that repeats: a week, or something shorter in demonstrations, mapped to the time of a week."""

    length_s: float = WEEK_S

    @property
    def speed(self) -> float:
        """Seconds of a week that pass in a second."""
        return WEEK_S / self.length_s

    def week_s(self, time_s: Any) -> Any:
        """Return the time of the week at a time, or at each of an array; both in unix seconds."""
        return time_s if self.length_s == WEEK_S else MONDAY_S + (time_s - MONDAY_S) * self.speed

    def evidence(self, evidence: Evidence, ahead_s: float = 0.0) -> Evidence:
        """Return evidence in the time of the week, by clocks that are ``ahead_s`` ahead of UTC."""
        if self.length_s == WEEK_S and not ahead_s:
            return evidence

        def told_s(time_s: float) -> float:
            return float(self.week_s(time_s) + ahead_s)

        told = replace(evidence, since_s=told_s(evidence.since_s), until_s=told_s(evidence.until_s))
        if isinstance(told, ItemTimes):
            return replace(told, times_s=tuple(told_s(time_s) for time_s in told.times_s))
        return told

    def in_odd_weeks(self, evidence: Evidence) -> tuple[float, float]:
        """Return the share of the items, and that of the time, in odd weeks.

        >>> Cycle().in_odd_weeks(ItemTimes(MONDAY_S, MONDAY_S + 2 * WEEK_S, (MONDAY_S + 9 * 86400.0,)))
        (1.0, 0.5)
        """
        since_s, until_s = float(self.week_s(evidence.since_s)), float(self.week_s(evidence.until_s))
        if until_s <= since_s:
            return 0.0, 0.0
        of_time = (odd_weeks_s(until_s) - odd_weeks_s(since_s)) / (until_s - since_s)
        times_s = evidence.times_s if isinstance(evidence, ItemTimes) else ()
        if not times_s:
            return of_time, of_time
        return sum(bool(is_odd_week(self.week_s(time_s))) for time_s in times_s) / len(times_s), of_time

    def time_s(self, week_s: Any) -> Any:
        """Return the time at a time of the week: the inverse of ``week_s``."""
        return week_s if self.length_s == WEEK_S else MONDAY_S + (week_s - MONDAY_S) / self.speed
