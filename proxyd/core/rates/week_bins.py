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

    def time_s(self, week_s: Any) -> Any:
        """Return the time at a time of the week: the inverse of ``week_s``."""
        return week_s if self.length_s == WEEK_S else MONDAY_S + (week_s - MONDAY_S) / self.speed
