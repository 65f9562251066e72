"""Timetables: the best time of the next probe for every price of a probe and every slot of the week."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log2

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.planning.kernels.counted_events import CountedRule, ItemsLine
from proxyd.core.planning.kernels.losses import NO_LOSSES, STEPS, GapSums, Losses, even_gaps, first_costs, links_of
from proxyd.core.planning.kernels.numba_kernels import flat
from proxyd.core.planning.kernels.one_source import ON_CYCLE, fill_first_weeks, mark_cycles

PER_OCTAVE = 4
_LOWEST, _HIGHEST = -6, 32
LEVELS: Floats = np.arange(_LOWEST * PER_OCTAVE, _HIGHEST * PER_OCTAVE + 1) / PER_OCTAVE
_LONG_WEEKS = 2.0  # from this gap on, probes are a whole number of weeks apart, at the best slot
_GAPS_AHEAD, _SHORT = 6.0, 12.0
_MOST_WEEKS = ceil(_GAPS_AHEAD * _LONG_WEEKS) + 2  # of a path
_ROWS = 12  # paths that are found together
_LONGEST_WEEKS, _LONGEST_AT_FIRST = 3, 1008  # gaps that are tried at first, in weeks and slots
_EVEN, _OFTEN, _RARELY = 1e-6, 0.25, 0.25  # factors of the week; probes a slot and a week
_GAPS: Floats = 2.0 ** (np.arange(-12 * 8, 18 * 8) / 8)  # gaps to choose from in an even week, in slots
_MANY: Floats = 2.0 ** (np.arange(0, 25) / 2)  # numbers of probes in one slot to choose from


@dataclass(frozen=True, eq=False)
class Timetable:
    """The next probe after a probe in any slot of the week, at any price, for sources of one week shape.

    A source of mean rate r (items a slot) and weight w, whose probes cost p item-slots each, follows the row of level
    ``log2(p / (w r))``: rows are ``1 / PER_OCTAVE`` octaves apart, from ``LEVELS[0]`` to ``LEVELS[-1]``.

    >>> even = TimetableBuilder(np.ones(24)).build()
    >>> row = int(np.searchsorted(LEVELS, 3.0))
    >>> even.gaps[row].tolist()[0], float(even.frequency[row])
    (4.0, 0.25)
    """

    gaps: Floats  # slots to the next probe, shape (levels, slots of a week); below 1 within the same slot
    frequency: Floats  # probes a slot in the long run, shape (levels,)
    cost: Floats  # undiscovered items at rate and weight 1: items times slots of delay a slot, shape (levels,)
    visits: Floats  # probes a week at each slot of the week in the long run, shape (levels, slots of a week)
    lost: Floats  # part of the items that each step takes and, last, overwritten ones, (levels, STEPS + 1)
    dense: float  # below the lowest level a slot takes ``dense * 2 ** (-level / 2)`` probes

    def frequencies(self, levels: Floats) -> Floats:
        """Return the probes a slot in the long run at any levels, also at those that have no row."""
        rows = np.interp(levels, LEVELS, self.frequency)
        found: Floats = np.where(levels < _LOWEST, self.dense * np.exp2(-levels / 2), rows)
        return found


class TimetableBuilder:
    """Builds timetables of a week shape; what the prices of the slots do not change is found once.

    Each level takes one priced path over a few weeks; the links that leave the first week are the row. Sources that are
    probed less than every two weeks are probed a whole number of weeks apart, at the slot that costs least.

    Parameters
    ----------
    shape
        Factor of the rate in each slot of the week, shape (slots,); it is scaled to mean 1.
    importance
        The cost of an item's waiting in each slot, shape (slots,); scaled to mean 1, even by default.
    losses
        What items lose while they wait, in addition to their delay.

    Raises
    ------
    ValueError
        A shape or importance is negative or 0 everywhere.

    Notes
    -----
    Source: ``docs/decisions/planner-prices.md``: sources that share a shape share its solutions, and a price per probe
    allocates exactly. The path is that of ``kernels.one_source.optimal``.

    Examples
    --------
    >>> office = TimetableBuilder([0.0, 0.0, 4.0, 4.0, 0.0, 0.0])
    >>> row = int(np.searchsorted(LEVELS, 4.0))
    >>> office.build().gaps[row].astype(int).tolist()  # the probe comes when the busy time is over, every time
    [4, 3, 2, 1, 6, 5]
    """

    def __init__(self, shape: ArrayLike, *, importance: ArrayLike | None = None, losses: Losses = NO_LOSSES) -> None:
        self._factors = _mean_one(shape, "a week shape")
        self._weights = _mean_one(np.ones(np.size(shape)) if importance is None else importance, "an importance")
        self._losses, slots = losses, len(self._factors)
        if losses.every > 1:
            return
        longest = max((step.after for step in losses.steps), default=0.0)
        weeks = max(_MOST_WEEKS, ceil(longest / slots) + 1)
        self._sums = GapSums.of(np.tile(self._factors, weeks), np.tile(self._weights, weeks), losses)
        self._gap_costs = np.zeros((slots, 0))  # of gaps after each slot, as far as they are tried

    def build(self, slot_price: ArrayLike | None = None, into: Floats | None = None) -> Timetable:
        """Return the timetable.

        Parameters
        ----------
        slot_price
            Factor of the price of a probe in each slot, shape (slots,), 1 by default; above 1 if too many would come.
        into
            The array that receives the gaps, shape (levels, slots), or ``None`` for a new one.
        """
        slots = len(self._factors)
        prices = np.ones(slots) if slot_price is None else np.asarray(slot_price, dtype=np.float64)
        gaps = np.empty((len(LEVELS), slots)) if into is None else into
        if self._losses.every > 1:
            return self._count_probes(gaps)
        is_long = self._fill_gaps(2.0 ** LEVELS[:, None] * prices, gaps)
        dense = float(np.sqrt(self._factors * self._weights / (2 * prices)).mean())
        return Timetable(gaps, *self._orbits(gaps, is_long), dense)

    def _count_probes(self, gaps: Floats) -> Timetable:
        """Return how often sources of counted items are probed; their next probe is not looked up here.

        The probes follow the items through the week.
        """
        sums = (0.0, *np.cumsum(self._factors).tolist())
        frequency, lost = _frequency_of_counts(self._losses, sums), _losses_of_counts(self._losses, sums)
        gaps[:] = 1 / frequency[:, None]
        visits = frequency[:, None] * self._factors
        return Timetable(gaps, frequency, 0.5 / frequency, visits, lost, float(frequency[0] * 2.0 ** (_LOWEST / 2)))

    def _fill_gaps(self, by_level: Floats, gaps: Floats) -> NDArray[np.bool_]:
        """Fill in the slots to the next probe after each slot, by level, if probes cost ``by_level`` in each slot.

        Returns which rows are probed whole weeks apart. The rows share their sums: those of a few weeks begin with
        those of fewer.
        """
        slots, losses, sums = len(self._factors), self._losses, self._sums
        even = _even_gaps(by_level.mean(axis=1), losses)
        is_long = even >= _LONG_WEEKS * slots
        # The path ends with a forced probe. Several gaps of margin keep that end from distorting the first week's
        # links. Short gaps need one week more at most: their paths meet within days.
        weeks = np.ceil(_GAPS_AHEAD * even / slots).astype(np.int64) + np.where(even * _SHORT < slots, 1, 2)
        short = np.flatnonzero(~is_long)
        if losses:
            links = self._paths_with_losses(by_level[short], weeks[short], even[short])
        else:
            links = _paths_of_delay(sums, by_level[short], weeks[short])
        gaps[short] = links - np.arange(slots)
        _fill_dense(self._factors * self._weights, by_level, losses, gaps)
        gaps[is_long] = _whole_weeks(sums, self._kept, by_level[is_long], losses)
        return is_long

    @property
    def _kept(self) -> Floats:
        """What each step leaves of the items before a probe in each slot of the last week, shape (STEPS, slots)."""
        slots = len(self._factors)
        return (self._sums.W - self._sums.earlier)[:, -1 - slots : -1]

    def _paths_with_losses(self, prices: Floats, weeks: Ints, usual: Floats) -> Ints:
        """Return the next probes on the cheapest paths over some weeks, after each slot of the first; as ``prices``."""
        rows, slots = prices.shape
        longest = max(self._gap_costs.shape[1], min(_LONGEST_WEEKS * slots, _LONGEST_AT_FIRST))
        found = np.empty(prices.shape, dtype=np.int64)
        for some in np.array_split(np.arange(rows), ceil(rows / _ROWS)):
            ahead, links = int(weeks[some].max()), None
            while links is None:
                if longest > self._gap_costs.shape[1]:
                    self._gap_costs = first_costs(self._sums, slots, longest)
                links = links_of(self._gap_costs, prices[some], ahead, usual[some])
                longest *= 1 if links is not None else 2
            found[some] = links
        return found

    def _orbits(self, gaps: Floats, is_long: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats, Floats]:
        """Return frequency, cost, visits and losses of each row in the long run, over the cycle its probes run into."""
        levels, slots = gaps.shape
        marks = flat(np.zeros(gaps.size, dtype=np.int64))
        mark_cycles(flat(np.maximum(gaps, 1.0).astype(np.int64).ravel()), slots, marks)  # gaps below 1 fill a slot
        on_cycle = np.flatnonzero(np.asarray(marks) == ON_CYCLE)
        (rows, starts), gap = np.divmod(on_cycle, slots), gaps.ravel()[on_cycle]
        many = np.maximum(1.0, np.rint(1 / gap))  # number of probes in one slot
        waited = many * self._waiting(starts, gap)
        probes, passed, total = (np.bincount(rows, each, levels) for each in (many, many * gap, waited))
        visits = np.zeros(gaps.size)
        visits[on_cycle] = many * (slots / passed)[rows]
        lost = np.zeros((levels, STEPS + 1))
        if self._losses != NO_LOSSES:  # a step that costs nothing counts what is in time
            of_gap = self._lost(starts, gap, many, is_long[rows])
            lost = np.array([np.bincount(rows, each, levels) for each in of_gap.T]).T / passed[:, None]
        lost /= max(float((self._factors * self._weights).mean()), _EVEN)
        return probes / passed, total / passed, visits.reshape(gaps.shape), lost

    def _waiting(self, starts: Ints, gaps: Floats) -> Floats:
        """Return what the items between a probe in each of some slots and the next one wait, in item-slots, (gaps,).

        The same as ``WeekCosts.between`` in less than half the time, because both probes are at edges of slots.
        """
        L, A, G = self._sums.L, self._sums.A, self._sums.G
        week = len(self._factors)
        weeks, stops = np.divmod(starts + gaps.astype(np.int64), week)
        items, until = weeks * L[week] + L[stops], weeks * A[week] + A[stops]
        before = weeks * (G[week] + A[week] * (L[stops] + (weeks - 1) / 2 * L[week]))
        waited: Floats = until * (items - L[starts]) - (before + G[stops] - G[starts])
        dense = np.flatnonzero(gaps < 1)  # it ends within the slot
        waited[dense] = (self._factors * self._weights)[starts[dense]] * gaps[dense] ** 2 / 2
        return waited

    def _lost(self, starts: Ints, gaps: Floats, many: Floats, is_long: NDArray[np.bool_]) -> Floats:
        """Return the items lost after a probe in each of some slots, or in the slot if it has many probes.

        Shape (gaps, STEPS + 1); those that are long are some weeks.
        """
        rate, lost = self._factors * self._weights, np.empty((len(gaps), STEPS + 1))
        dense, weeks = np.flatnonzero(gaps < 1), np.flatnonzero(is_long)
        short = np.flatnonzero((gaps >= 1) & ~is_long)
        lost[short] = self._sums.lost(starts[short], starts[short] + gaps[short].astype(np.int64))
        lost[dense] = many[dense, None] * self._losses.lost_of_even_gap(gaps[dense], rate[starts[dense]])
        stops = (starts[weeks] + gaps[weeks].astype(np.int64)) % len(rate)
        lost[weeks] = self._losses.lost_of_even_gap(gaps[weeks])  # for the overwritten ones
        lost[weeks, :STEPS] = np.maximum(gaps[weeks, None] - self._kept[:, stops].T, 0.0)
        return lost


def _losses_of_counts(losses: Losses, sums: tuple[float, ...]) -> Floats:
    """Return the part of the firings lost to each step and, last, of those overwritten; shape (levels, STEPS + 1)."""
    rule = CountedRule(losses.every, Losses(losses.steps, losses.overwritten), missed_s=1.0)
    busy = ItemsLine(np.array(sums), 0.0, 1.0, losses.rate).busy_per_s(rule.life_s)
    lost = np.zeros((len(LEVELS), STEPS + 1))
    for row, price in enumerate((losses.rate * 2.0**LEVELS).tolist()):
        *of_steps, overwritten = rule.table(busy, price).lost
        lost[row, : len(of_steps)], lost[row, STEPS] = of_steps, overwritten
    return np.maximum.accumulate(lost)


@lru_cache(1024)
def _frequency_of_counts(losses: Losses, sums: tuple[float, ...]) -> Floats:
    """Return the probes a slot for counted items at each level, where they follow a week's ``sums``.

    The table of even rates is corrected by following the probes at every second octave, as far as it matters.
    """
    rule = CountedRule(losses.every, Losses(losses.steps, losses.overwritten), missed_s=1.0)
    line = ItemsLine(np.array(sums), 0.0, 1.0, losses.rate)
    busy, prices = line.busy_per_s(rule.life_s), losses.rate * 2.0**LEVELS
    even = losses.rate * np.array([rule.table(busy, price).probes for price in prices.tolist()])
    if np.ptp(np.diff(line.sums)) < _EVEN:
        return even
    whole = np.flatnonzero((LEVELS % 2 == 0) & (even < _OFTEN) & (even > _RARELY / (len(sums) - 1)))
    if not len(whole):
        return even
    factor = [log2(rule.probes_per_s(line, float(prices[row])) / even[row]) for row in whole.tolist()]
    found: Floats = even * np.exp2(np.interp(LEVELS, LEVELS[whole], factor))
    return np.minimum.accumulate(found)


def _mean_one(values: ArrayLike, name: str) -> Floats:
    given = np.asarray(values, dtype=np.float64)
    if np.any(given < 0) or not given.sum() > 0:
        raise ValueError(f"{name} needs factors of which none is negative and one is positive")
    scaled: Floats = given / given.mean()
    return scaled


def _even_gaps(prices: Floats, losses: Losses) -> Floats:
    """Return the best gap of an even week at each price, in slots, shape (prices,).

    Waiting tau costs tau^2 / 2 for the delay, so without losses a probe pays for itself after sqrt(2 price).
    """
    if not losses:
        return np.asarray(np.sqrt(2 * prices))
    return even_gaps(prices, losses, _GAPS)


def _paths_of_delay(sums: GapSums, prices: Floats, weeks: Ints) -> Ints:
    """Return the next probes on the cheapest paths over some weeks, after each slot of the first; shape of prices."""
    size, found = len(sums.L), flat(np.empty(prices.size, dtype=np.int64))
    L, A, G, unpriced = flat(sums.L), flat(sums.A), flat(sums.G), flat(sums.A * sums.L - sums.G)
    base, best, heights, slopes = (flat(np.empty(size)) for _ in range(4))
    link, links, lines = (flat(np.empty(size, dtype=np.int64)) for _ in range(3))
    fill_first_weeks(
        L, A, G, unpriced, flat(np.arange(1, size + 1)), flat(prices.ravel()), flat(weeks), prices.shape[1],
        found, base, best, link, links, lines, heights, slopes,
    )  # fmt: skip
    return np.asarray(found).reshape(prices.shape)


def _fill_dense(rate: Floats, by_level: Floats, losses: Losses, gaps: Floats) -> None:
    """Let a slot have k probes, 1 / k slots apart, where that costs less than one.

    k probes in a slot of rate r cost r / 2k for delay and k prices.
    """

    def cost(k: Floats, rows: Ints) -> Floats:
        return k * (by_level[rows] + losses.of_even_gap(1 / k, rate)) + rate / (2 * k)

    # what k probes save is less than what one costs without its price
    one = np.ones_like(rate)
    low = np.flatnonzero(np.any(by_level < losses.of_even_gap(one, rate) + rate / 2, axis=1))
    many = np.maximum(1.0, np.floor(0.5 + np.sqrt(0.25 + rate / (2 * by_level[low]))))
    short = [1 / step.after for step in losses.steps if step.after < 1]
    if short or losses.overwritten:  # else one probe in a slot loses nothing
        rows = slice(None) if short else np.any(cost(2 * one, low) < cost(one, low), axis=1)
        tries = [many[rows], *(np.full_like(rate, k) for k in (*_MANY, *short))]
        many[rows] = np.choose(np.argmin([cost(k, low[rows]) for k in tries], axis=0), tries)
    gaps[low] = np.where(many > 1, 1 / many, gaps[low])


def _whole_weeks(sums: GapSums, kept: Floats, prices: Floats, losses: Losses) -> Floats:
    """Return the slots to the next probe if it is some weeks away: the cheapest slot of the cheapest week, by row.

    An item that comes k weeks before the last week waits k weeks longer, regardless of its slot; what no step takes,
    ``kept`` by step and slot, came in the last weeks.
    """
    slots = prices.shape[1]
    edge = np.arange(slots)
    one_week = sums.A[edge + slots] * (sums.L[edge + slots] - sums.L[edge]) - (sums.G[edge + slots] - sums.G[edge])
    # The best number of weeks is near that of an even week, so it is enough to try its neighbours.
    about = _even_gaps(prices.mean(axis=1), losses) / slots
    weeks = np.maximum(1.0, np.floor(about)[:, None] + np.arange(-1, 3))[:, :, None]
    overwritten = losses.overwritten * losses.lost_of_even_gap(weeks * slots)[..., STEPS] / weeks
    costs = prices[:, None] / weeks + one_week  # a week, all of them
    costs += slots * slots * (weeks - 1) / 2 + overwritten
    for step, left in zip(losses.steps, kept, strict=False):
        costs += step.delay * np.maximum(slots - left / weeks, 0.0)
    cheapest = costs.reshape(len(prices), -1).argmin(axis=1)
    # Steer to the best slot from any slot, by the week that keeps the gap nearest to the planned one.
    ahead = (cheapest[:, None] % slots - edge) % slots
    whole = weeks[np.arange(len(prices)), cheapest // slots]
    gaps: Floats = np.where(ahead < slots / 2, ahead + whole * slots, ahead + (whole - 1) * slots)
    return gaps
