"""The intervals of a repeating week in which an intensity is assumed to be constant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.rates.evidence import Evidence, ItemTimes

WEEK_S = 604_800.0
MONDAY_S = 345_600.0  # unix time 0 was a Thursday


@dataclass(frozen=True, slots=True)
class Cycle:
    """The cycle that repeats: a week, or something shorter in tests and demonstrations, mapped to the time of a week.

    >>> Cycle(3600.0).week_s(MONDAY_S + 1800.0) == MONDAY_S + WEEK_S / 2
    True
    """

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


@dataclass(frozen=True, slots=True, eq=False)
class _WeekBins:
    """Intervals of a week that repeats, some of which may share one level.

    Parameters
    ----------
    breaks_s
        Seconds from the beginning of the week, increasing from 0 to the length of the week, shape (intervals + 1,).
    groups
        For each interval the number of its level, 0, 1, 2, ...; by default each interval has its own.
    anchor_s
        Unix time at which some week begins; by default a Monday, 0:00 UTC.

    Raises
    ------
    ValueError
        The breaks do not increase from 0, or the levels are not numbered without a gap.

    Notes
    -----
    The estimation of Eckstein, Gal and Reiner, section 5. Its tables share a level between all weekdays or the whole
    weekend.

    Examples
    --------
    Nights and days that are the same on both days of a week of two:

    >>> bins = _WeekBins([0.0, 9.0, 24.0, 33.0, 48.0], [0, 1, 0, 1], anchor_s=0.0)
    >>> bins.exposure_s(20.0, 52.0)
    array([[13., 19.]])
    >>> bins.events(ItemTimes(20.0, 52.0, (24.0, 40.0, 41.0)))
    array([1., 2.])
    """

    breaks_s: NDArray[np.float64]
    groups: NDArray[np.intp]
    anchor_s: float

    def __init__(self, breaks_s: ArrayLike, groups: Sequence[int] | None = None, *, anchor_s: float = MONDAY_S) -> None:
        breaks = np.array(breaks_s, dtype=np.float64)
        if breaks.ndim != 1 or len(breaks) < 2 or breaks[0] != 0 or not np.all(np.diff(breaks) > 0):
            raise ValueError("the breaks of a week increase from 0 to its length")
        levels = np.array(range(len(breaks) - 1) if groups is None else groups, dtype=np.intp)
        if levels.shape != (len(breaks) - 1,) or not np.array_equal(np.unique(levels), np.arange(levels.max() + 1)):
            raise ValueError("each interval needs the number of its level, counted from 0 without a gap")
        object.__setattr__(self, "breaks_s", breaks)
        object.__setattr__(self, "groups", levels)
        object.__setattr__(self, "anchor_s", anchor_s)

    @classmethod
    def equal(cls, count: int, *, anchor_s: float = MONDAY_S) -> _WeekBins:
        """Return ``count`` equal intervals of a week of seven days: 168 for its hours."""
        return cls(np.linspace(0.0, WEEK_S, count + 1), anchor_s=anchor_s)

    @property
    def period_s(self) -> float:
        """The length of the week."""
        return float(self.breaks_s[-1])

    @property
    def levels(self) -> int:
        """The number of levels to estimate."""
        return int(self.groups.max()) + 1

    def exposure_s(self, since_s: ArrayLike, until_s: ArrayLike) -> NDArray[np.float64]:
        """Return the seconds that each (``since_s``, ``until_s``] spends at each level, shape (times, levels)."""
        since_weeks, since_parts = self._elapse(since_s)
        until_weeks, until_parts = self._elapse(until_s)
        spent = (until_weeks - since_weeks)[:, None] * np.diff(self.breaks_s) + (until_parts - since_parts)
        exposure: NDArray[np.float64] = spent @ (self.groups[:, None] == np.arange(self.levels))
        return np.maximum(exposure, 0.0)

    def events(self, evidence: ItemTimes) -> NDArray[np.float64]:
        """Return the number of items at each level, shape (levels,).

        An item on a break belongs to the interval that begins there, unless the evidence ends there, so that each item
        is counted where the evidence has exposure. Times outside the evidence count at its nearer end.
        """
        times_s = np.clip(np.asarray(evidence.times_s, dtype=np.float64), evidence.since_s, evidence.until_s)
        phases_s = self.phase_s(times_s)
        index = np.searchsorted(self.breaks_s, phases_s, side="right") - 1
        ending = np.searchsorted(self.breaks_s, phases_s, side="left") - 1
        index = np.where(times_s >= evidence.until_s, ending, index) % len(self.groups)
        return np.bincount(self.groups[index], minlength=self.levels).astype(np.float64)

    def phase_s(self, times_s: ArrayLike) -> NDArray[np.float64]:
        """Return the seconds since the beginning of the week for each time."""
        return np.mod(np.asarray(times_s, dtype=np.float64) - self.anchor_s, self.period_s)

    def intensity(self, levels: NDArray[np.float64]) -> PiecewiseConstant:
        """Return one week of the intensity with these levels, from 0 to the length of the week."""
        return PiecewiseConstant(self.breaks_s, levels[self.groups])

    def mean(self, levels: NDArray[np.float64]) -> float:
        """Return the mean of these levels over the week."""
        return float(levels[self.groups] @ np.diff(self.breaks_s)) / self.period_s

    def _elapse(self, times_s: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return whole weeks since the anchor, and the seconds of the current week in each interval."""
        times = np.atleast_1d(np.asarray(times_s, dtype=np.float64)) - self.anchor_s
        weeks = np.floor(times / self.period_s)
        parts = (times - weeks * self.period_s)[:, None] - self.breaks_s[:-1]
        return weeks, np.clip(parts, 0.0, np.diff(self.breaks_s))
