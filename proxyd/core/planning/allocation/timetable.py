"""Timetables: the best time of the next probe for every price of a probe and every slot of the week."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log2

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.planning.kernels.counted_events import CountedRule, ItemsLine
from proxyd.core.planning.kernels.losses import (
    NO_LOSSES,
    STEPS,
    GapSums,
    Losses,
    WeekCosts,
    even_gaps,
    first_costs,
    links_of,
)
from proxyd.core.planning.kernels.numba_kernels import flat
from proxyd.core.planning.kernels.one_source import ON_CYCLE, fill_paths, mark_cycles

PER_OCTAVE = 4
_LOWEST, _HIGHEST = -6, 32
LEVELS: Floats = np.arange(_LOWEST * PER_OCTAVE, _HIGHEST * PER_OCTAVE + 1) / PER_OCTAVE
_LONG_WEEKS = 2.0  # from this gap on, probes are a whole number of weeks apart, at the best slot
_GAPS_AHEAD, _SHORT = 6.0, 12.0
_ROWS, _LONGEST_AT_FIRST = 12, 336  # paths that are found together; the gaps in slots that are tried at first
_EVEN, _OFTEN, _RARELY = 1e-6, 0.25, 0.25  # factors of the week; probes a slot and a week
_GAPS: Floats = 2.0 ** (np.arange(-12 * 8, 18 * 8) / 8)  # gaps to choose from in an even week, in slots
_MANY: Floats = 2.0 ** (np.arange(0, 25) / 2)  # numbers of probes in one slot to choose from


@dataclass(frozen=True, eq=False)
class Timetable:
    """The next probe after a probe in any slot of the week, at any price, for sources of one week shape.

    A source of mean rate r (items a slot) and weight w, whose probes cost p item-slots each, follows the row of level
    ``log2(p / (w r))``: rows are ``1 / PER_OCTAVE`` octaves apart, from ``LEVELS[0]`` to ``LEVELS[-1]``.

    >>> even = Timetable.build(np.ones(24))
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

    @classmethod
    def build(
        cls,
        shape: ArrayLike,
        *,
        importance: ArrayLike | None = None,
        slot_price: ArrayLike | None = None,
        losses: Losses = NO_LOSSES,
        into: Floats | None = None,
    ) -> Timetable:
        """Return the timetable of a week shape.

        Each level takes one priced path over a few weeks; the links that leave the first week are the row. Sources that
        are probed less than every two weeks are probed a whole number of weeks apart, at the slot that costs least.

        Parameters
        ----------
        shape
            Factor of the rate in each slot of the week, shape (slots,); it is scaled to mean 1.
        importance
            The cost of an item's waiting in each slot, shape (slots,); scaled to mean 1, even by default.
        slot_price
            Factor of the price of a probe in each slot, shape (slots,), 1 by default; above 1 if too many would come.
        losses
            What items lose while they wait, in addition to their delay.
        into
            The array that receives the gaps, shape (levels, slots), or ``None`` for a new one.

        Raises
        ------
        ValueError
            A shape or importance is negative or 0 everywhere.

        Notes
        -----
        Source: ``docs/decisions/planner-prices.md``: sources that share a shape share its solutions, and a price per
        probe allocates exactly. The path is that of ``kernels.one_source.optimal``.

        Examples
        --------
        >>> office = np.array([0.0, 0.0, 4.0, 4.0, 0.0, 0.0])
        >>> table = Timetable.build(office)
        >>> row = int(np.searchsorted(LEVELS, 4.0))
        >>> table.gaps[row].astype(int).tolist()  # the probe comes when the busy time is over, every time
        [4, 3, 2, 1, 6, 5]
        """
        even = np.ones(np.size(shape))
        factors = _mean_one(shape, "a week shape")
        weights = _mean_one(even if importance is None else importance, "an importance")
        prices = even if slot_price is None else np.asarray(slot_price, dtype=np.float64)
        gaps = np.empty((len(LEVELS), len(factors))) if into is None else into
        if losses.every > 1:
            return cls._count_probes(factors, losses, gaps)
        lost = _all_gaps(factors, weights, prices, losses, gaps)
        dense = float(np.sqrt(factors * weights / (2 * prices)).mean())
        lost /= max(float((factors * weights).mean()), _EVEN)
        return cls(gaps, *_orbits(gaps, WeekCosts(factors[None], weights), lost), dense)

    def frequencies(self, levels: Floats) -> Floats:
        """Return the probes a slot in the long run at any levels, also at those that have no row."""
        rows = np.interp(levels, LEVELS, self.frequency)
        found: Floats = np.where(levels < _LOWEST, self.dense * np.exp2(-levels / 2), rows)
        return found

    @classmethod
    def _count_probes(cls, factors: Floats, losses: Losses, gaps: Floats) -> Timetable:
        """Return how often sources of counted items are probed; their next probe is not looked up here.

        The probes follow the items through the week.
        """
        sums = (0.0, *np.cumsum(factors).tolist())
        frequency, lost = _frequency_of_counts(losses, sums), _losses_of_counts(losses, sums)
        gaps[:] = 1 / frequency[:, None]
        visits = frequency[:, None] * factors
        return cls(gaps, frequency, 0.5 / frequency, visits, lost, float(frequency[0] * 2.0 ** (_LOWEST / 2)))


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


def _all_gaps(factors: Floats, weights: Floats, prices: Floats, losses: Losses, gaps: Floats) -> Floats:
    """Fill in the slots to the next probe after each slot, by level, if probes cost ``prices`` times the level's price.

    Returns the items that are lost in each gap, shape (levels, slots, STEPS + 1). The rows share their sums: those of a
    few weeks begin with those of fewer.
    """
    slots, by_level = len(factors), 2.0 ** LEVELS[:, None] * prices
    even = _even_gaps(by_level.mean(axis=1), losses)
    is_long = even >= _LONG_WEEKS * slots
    # The path ends with a forced probe. Several gaps of margin keep that end from distorting the first week's links.
    # Short gaps need one week more at most: their paths meet within days.
    weeks = np.ceil(_GAPS_AHEAD * even / slots).astype(np.int64) + np.where(even * _SHORT < slots, 1, 2)
    longest = max((step.after for step in losses.steps), default=0.0)
    most = max(int(weeks[~is_long].max()), ceil(longest / slots) + 1)
    sums = GapSums.of(np.tile(factors, most), np.tile(weights, most), losses)
    lost = np.zeros((*gaps.shape, STEPS + 1))
    short = np.flatnonzero(~is_long)
    if losses:
        links = _paths_with_losses(sums, by_level[short], weeks[short], even[short])
    else:
        links = _paths_of_delay(sums, by_level[short], weeks[short])
    gaps[short] = links - np.arange(slots)
    if losses != NO_LOSSES:  # a step that costs nothing counts what is in time
        lost[short] = sums.lost(np.arange(slots), links)
    _fill_dense(factors * weights, by_level, losses, gaps, lost)
    gaps[is_long], lost[is_long] = _whole_weeks(sums, by_level[is_long], losses)
    return lost


def _even_gaps(prices: Floats, losses: Losses) -> Floats:
    """Return the best gap of an even week at each price, in slots, shape (prices,).

    Waiting tau costs tau^2 / 2 for the delay, so without losses a probe pays for itself after sqrt(2 price).
    """
    if not losses:
        return np.asarray(np.sqrt(2 * prices))
    return even_gaps(prices, losses, _GAPS)


def _paths_of_delay(sums: GapSums, prices: Floats, weeks: Ints) -> Ints:
    """Return the next probes on the cheapest paths over some weeks, after each slot of the first; shape of prices."""
    slots, size = prices.shape[1], len(sums.L)
    L, A, G, reach = flat(sums.L), flat(sums.A), flat(sums.G), flat(np.arange(1, size + 1))
    best, heights, slopes = (flat(np.empty(size)) for _ in range(3))
    link, links, lines = (flat(np.empty(size, dtype=np.int64)) for _ in range(3))
    found, unpriced, base = np.empty(prices.shape, dtype=np.int64), sums.A * sums.L - sums.G, np.empty(size)
    for row, ahead in enumerate(weeks.tolist()):
        edges = ahead * slots + 1
        base[: edges - 1] = (unpriced[: edges - 1].reshape(ahead, slots) + prices[row]).ravel()
        base[edges - 1] = unpriced[edges - 1] + prices[row, 0]
        fill_paths(
            L[:edges], A, G, flat(base[:edges]), reach, 1e-12 * edges, False, best, link, links, lines, heights, slopes
        )  # fmt: skip
        found[row] = link[:slots]
    return found


def _paths_with_losses(sums: GapSums, prices: Floats, weeks: Ints, usual: Floats) -> Ints:
    """Return the same where items are lost."""
    rows, slots = prices.shape
    longest = min(slots, _LONGEST_AT_FIRST)
    costs, found = first_costs(sums, slots, longest), np.empty(prices.shape, dtype=np.int64)
    for some in np.array_split(np.arange(rows), ceil(rows / _ROWS)):
        ahead = int(weeks[some].max())
        while (links := links_of(costs, prices[some], ahead, usual[some])) is None:
            longest *= 2
            costs = first_costs(sums, slots, longest)
        found[some] = links
    return found


def _fill_dense(rate: Floats, by_level: Floats, losses: Losses, gaps: Floats, lost: Floats) -> None:
    """Let a slot have k probes, 1 / k slots apart, where that costs less than one.

    k probes in a slot of rate r cost r / 2k for delay and k prices.
    """
    if losses == NO_LOSSES:  # then only where a price is low
        low = np.flatnonzero(np.any(rate >= 4 * by_level, axis=1))
        many = np.maximum(1.0, np.floor(0.5 + np.sqrt(0.25 + rate / (2 * by_level[low]))))
        gaps[low] = np.where(many > 1, 1 / many, gaps[low])
        return
    many = np.maximum(1.0, np.floor(0.5 + np.sqrt(0.25 + rate / (2 * by_level))))

    def cost(k: Floats, rows: NDArray[np.bool_]) -> Floats:
        return k * (by_level[rows] + losses.of_even_gap(1 / k, rate)) + rate / (2 * k)

    short = [1 / step.after for step in losses.steps if step.after < 1]
    if short or losses.overwritten:  # else one probe in a slot loses nothing
        every, one = np.ones(len(many), dtype=np.bool_), np.ones_like(many)
        rows = every if short else np.any(cost(2 * one, every) < cost(one, every), axis=1)
        tries = [many[rows], *(np.full_like(many[rows], k) for k in (*_MANY, *short))]
        many[rows] = np.choose(np.argmin([cost(k, rows) for k in tries], axis=0), tries)
    is_dense = many > 1
    gaps[:] = np.where(is_dense, 1 / many, gaps)
    lost[is_dense] = (many[..., None] * losses.lost_of_even_gap(1 / many, rate))[is_dense]


def _whole_weeks(sums: GapSums, prices: Floats, losses: Losses) -> tuple[Floats, Floats]:
    """Return the slots to the next probe if it is some weeks away: the cheapest slot of the cheapest week, by row.

    The second result is the items that are lost. An item that comes k weeks before the last week waits k weeks longer,
    regardless of its slot; what no step takes came in the last weeks.
    """
    slots = prices.shape[1]
    edge = np.arange(slots)
    one_week = sums.A[edge + slots] * (sums.L[edge + slots] - sums.L[edge]) - (sums.G[edge + slots] - sums.G[edge])
    kept = (sums.W - sums.earlier)[:, len(sums.W) - 1 - slots + edge]
    # The best number of weeks is near that of an even week, so it is enough to try its neighbours.
    about = _even_gaps(prices.mean(axis=1), losses) / slots
    weeks = np.maximum(1.0, np.floor(about)[:, None] + np.arange(-1, 3))[:, :, None]
    costs = prices[:, None] + weeks * one_week + slots * slots * weeks * (weeks - 1) / 2
    if losses:
        costs += _lost_in_weeks(weeks * slots, kept, losses) @ losses.delays
    cheapest = (costs / weeks).reshape(len(prices), -1).argmin(axis=1)
    # Steer to the best slot from any slot, by the week that keeps the gap nearest to the planned one.
    ahead = (cheapest[:, None] % slots - edge) % slots
    whole = weeks[np.arange(len(prices)), cheapest // slots]
    gaps: Floats = np.where(ahead < slots / 2, ahead + whole * slots, ahead + (whole - 1) * slots)
    if losses == NO_LOSSES:
        return gaps, np.zeros(STEPS + 1)
    return gaps, _lost_in_weeks(gaps, kept[:, (edge + gaps.astype(np.int64)) % slots], losses)


def _lost_in_weeks(items: Floats, kept: Floats, losses: Losses) -> Floats:
    """Return the items that are lost in gaps of some weeks; ``kept`` is what each step leaves of them, step first."""
    by_step = np.maximum(items[..., None] - np.moveaxis(kept, 0, -1), 0.0)
    overwritten = losses.lost_of_even_gap(items)[..., -1:]
    return np.concatenate([by_step, np.broadcast_to(overwritten, (*by_step.shape[:-1], 1))], axis=-1)


def _orbits(gaps: Floats, costs: WeekCosts, lost: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return frequency, cost, visits and losses of each row in the long run, over the cycle its probes run into."""
    levels, slots = gaps.shape
    several = np.maximum(1.0, np.rint(1 / gaps))  # number of probes in one slot, which they fill
    passing = np.arange(slots) + np.rint(several * gaps).astype(np.int64)
    following, marks = passing % slots + slots * np.arange(levels)[:, None], flat(np.zeros(gaps.size, dtype=np.int64))
    mark_cycles(flat(following.ravel()), slots, marks)
    on_cycle = np.asarray(marks).reshape(gaps.shape) == ON_CYCLE
    rows, starts = np.nonzero(on_cycle)
    many, gap = several[on_cycle], gaps[on_cycle]
    waiting = many * costs.between(0, starts.astype(np.float64), starts + gap)
    probes, passed, total = (np.bincount(rows, each, levels) for each in (many, many * gap, waiting))
    shares = np.array([np.bincount(rows, each, levels) for each in lost[on_cycle].T]).T
    visits = np.zeros(gaps.shape)
    visits[on_cycle] = many * (slots / passed)[rows]
    return probes / passed, total / passed, visits, shares / passed[:, None]
