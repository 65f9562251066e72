"""Counts of one source's items over the week: updated online, small enough to store for every source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.rates.rate_blend import Evidence, ItemCount, ItemTimes, item_times
from proxyd.core.rates.week_bins import HOUR_S, HOURS, WEEK_S, hours_between, week_hours
from proxyd.core.rates.week_shapes import (
    WeekShapes,
    belonging,
    common_shapes,
    factors_over_hours,
    hours_ahead,
    one_shape_moved,
)

HALF_LIFE_S = 26 * WEEK_S
_SAMPLE = 10_000  # sources from which shapes are learned; the others are assigned to one
_LONGEST_S = 52 * WEEK_S
_FLOAT = np.dtype("<f4")
_NO_ITEMS = bytes(_FLOAT.itemsize * HOURS)
_KEPT_ITEMS = 1.0  # of a week that is no longer believed
_RUN = 1000  # sources whose counts are gathered by one call, which holds the interpreter's lock


@dataclass(frozen=True, slots=True, eq=False)
class WeekCounts:
    """Items of a source by hour of the week, each discounted by its age."""

    packed: bytes  # 168 little-endian floats of four bytes, Monday 00:00 UTC first; an array takes 112 bytes more
    squares: float  # of the items of the same hour, discounted alike; they tell batches from single items
    since_s: float  # since when the source is observed
    as_of_s: float  # the time to which the counts are discounted

    @classmethod
    def begun(cls, since_s: float) -> WeekCounts:
        """Return counts without items."""
        return cls(_NO_ITEMS, 0.0, since_s, since_s)

    @property
    def counts(self) -> NDArray[np.float32]:
        """Items by hour, shape (168,), Monday 00:00 UTC first."""
        return np.frombuffer(self.packed, dtype=_FLOAT)

    @property
    def items(self) -> float:
        """Discounted items of all hours."""
        return float(self.counts.sum())

    def seen(self, evidence: Evidence) -> WeekCounts:
        """Return the counts after a probe; items without times are spread over the time in which they may have come."""
        if (told := item_times(evidence)) is not None and not told.times_s:
            return self  # most probes find nothing
        if isinstance(evidence, ItemTimes):
            found = np.bincount(week_hours(evidence.times_s), minlength=HOURS).astype(np.float64)
            _, batches = np.unique(np.floor(np.asarray(evidence.times_s) / HOUR_S), return_counts=True)
            squares = float((batches.astype(np.float64) ** 2).sum())
        else:
            items = float(evidence.count if isinstance(evidence, ItemCount) else evidence.changed)
            passed = hours_between(evidence.since_s, evidence.until_s)
            found = items * passed / max(float(passed.sum()), 1e-12)
            squares = items
        if not found.any():
            return self
        faded = self.fade(evidence.until_s)
        return replace(faded, packed=pack(faded.counts + found), squares=faded.squares + squares)

    def forgotten(self, now_s: float) -> WeekCounts:
        """Return the counts after the week proved to be another one: as good as nothing that was seen before counts."""
        share = min(1.0, _KEPT_ITEMS / max(self.items, 1e-12))
        since_s = max(self.since_s, now_s - WEEK_S)
        return replace(self, packed=pack(self.counts * share), squares=self.squares * share, since_s=since_s)

    def turned(self, by_h: int, at_s: float) -> WeekCounts:
        """Return the counts after the week turned by some hours, unless they were counted since."""
        if self.as_of_s >= at_s:
            return self
        return replace(self.fade(at_s), packed=pack(np.roll(self.counts, by_h)))

    def fade(self, now_s: float) -> WeekCounts:
        """Return the counts discounted to ``now_s``."""
        fade = 2.0 ** (-max(0.0, now_s - self.as_of_s) / HALF_LIFE_S)
        as_of_s = max(now_s, self.as_of_s)
        return replace(self, packed=pack(self.counts * fade), squares=self.squares * fade, as_of_s=as_of_s)


def pack(counts: ArrayLike) -> bytes:
    """Return the items of each hour of the week, shape (168,), as ``WeekCounts`` keeps them."""
    return np.asarray(counts, dtype=_FLOAT).tobytes()


def fleet_shapes(weeks: Sequence[WeekCounts], now_s: ArrayLike, *, most: int = 8, together: float = 1.0) -> WeekShapes:
    """Return shared week shapes and the one that each source follows.

    Shapes are learned from the sources with the most items; items that come in batches count less. If ``together``
    sources change at once (``rates.siblings.together``), their items say less of the shapes that they share, though not
    of each source's own week. ``now_s`` is one time, or one for each source if their weeks are in different zones.

    >>> office = ItemTimes(0.0, 4 * WEEK_S, tuple(day * 86400.0 + 36_000.0 + n for day in range(28) for n in range(9)))
    >>> shapes = fleet_shapes([WeekCounts.begun(0.0).seen(office)], 4 * WEEK_S).shapes
    >>> bool(shapes[0, 10] > 5 * shapes[0, 20])
    True
    """
    if not weeks:
        return WeekShapes(np.ones((1, HOURS)), np.zeros(0, dtype=np.int64))
    items = _items(weeks)
    at_s = np.broadcast_to(np.asarray(now_s, dtype=np.float64), items.shape)
    order = np.argsort(-items, kind="stable")
    first = order[:_SAMPLE]
    sample = [weeks[number] for number in first]
    counts, passed = _arrays(sample, at_s[first])
    own = dispersion(sample, at_s[first])
    learned = common_shapes(counts, passed, most=most, dispersion=own * together)
    learned = one_shape_moved(counts, passed, learned, dispersion=own * together)
    of_source, ahead_h = np.zeros(len(weeks), dtype=np.int64), np.zeros(len(weeks), dtype=np.int64)
    of_source[first] = learned.of_source
    if learned.ahead_h is not None:
        ahead_h[first] = learned.ahead_h
    others = np.sort(order[_SAMPLE:])  # neighbouring sources are close in memory
    for begin in range(0, len(others), _RUN):
        numbers = others[begin : begin + _RUN]
        some = [weeks[number] for number in numbers.tolist()]
        if learned.ahead_h is None:
            of_source[numbers] = _belonging(some, at_s[numbers], learned.shapes)
        else:
            seen = _arrays(some, at_s[numbers])
            of_source[numbers], ahead_h[numbers] = hours_ahead(*seen, learned.shapes[0], dispersion=own * together)
    return WeekShapes(learned.shapes, of_source, own, None if learned.ahead_h is None else ahead_h)


def _belonging(weeks: Sequence[WeekCounts], now_s: Floats, shapes: Floats) -> Ints:
    """Return the shape of each source; it does not depend on the discount of its items."""
    since_s = np.maximum(np.array([each.since_s for each in weeks]), now_s - _LONGEST_S)
    return belonging(_counts(weeks), factors_over_hours(since_s, now_s, shapes), shapes)


def dispersion(weeks: Sequence[WeekCounts], now_s: ArrayLike) -> float:
    """Return variance over mean of the items by hour, at least 1: the factor by which they say less than single items.

    Notes
    -----
    With n items in an hour, ``E[n^2] / E[n]`` is the dispersion plus the hour's rate; the rate is subtracted.

    Examples
    --------
    >>> single = WeekCounts.begun(0.0).seen(ItemTimes(0.0, WEEK_S, (60.0, 90_000.0)))
    >>> batch = WeekCounts.begun(0.0).seen(ItemTimes(0.0, WEEK_S, (60.0,) * 4))
    >>> round(dispersion([single], WEEK_S), 1), round(dispersion([batch], WEEK_S), 1)
    (1.0, 4.0)
    """
    items = _items(weeks)
    if items.sum() <= 0:
        return 1.0
    since_s = np.array([each.since_s for each in weeks])
    hours = np.clip((np.asarray(now_s) - since_s) / HOUR_S, 1.0, _LONGEST_S / HOUR_S)
    squares = sum(each.squares for each in weeks)
    return max(1.0, float((squares - (items * items / hours).sum()) / items.sum()))


def _arrays(weeks: Sequence[WeekCounts], now_s: Floats) -> tuple[Floats, Floats]:
    """Return items and observed hours of each source, both of shape (sources, 168)."""
    counts = np.concatenate([_counts(run) for run in _runs(weeks)]).astype(np.float64)
    fades = 2.0 ** (-np.maximum(0.0, now_s - np.array([each.as_of_s for each in weeks])) / HALF_LIFE_S)
    since_s = np.array([each.since_s for each in weeks])
    return counts * fades[:, None], hours_between(np.maximum(since_s, now_s - _LONGEST_S), now_s)


def _items(weeks: Sequence[WeekCounts]) -> Floats:
    """Return the discounted items of each source, shape (sources,)."""
    return np.concatenate([_counts(run).sum(axis=1, dtype=np.float64) for run in _runs(weeks)])


def _counts(weeks: Sequence[WeekCounts]) -> NDArray[np.float32]:
    """Return the items of each source by hour, shape (sources, 168)."""
    return np.frombuffer(b"".join([each.packed for each in weeks]), dtype=_FLOAT).reshape(len(weeks), HOURS)


def _runs(weeks: Sequence[WeekCounts]) -> Iterator[Sequence[WeekCounts]]:
    return (weeks[begin : begin + _RUN] for begin in range(0, len(weeks), _RUN))
