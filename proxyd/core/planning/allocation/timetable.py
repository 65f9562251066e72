"""Timetables: the best time of the next probe for every price of a probe and every slot of the week."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.planning.numba_kernels import flat, kernel
from proxyd.core.planning.one_source.costs import prefix_sums
from proxyd.core.planning.one_source.grid_kernels import priced

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PER_OCTAVE = 4
_LOWEST, _HIGHEST = -6, 32
LEVELS: Floats = np.arange(_LOWEST * PER_OCTAVE, _HIGHEST * PER_OCTAVE + 1) / PER_OCTAVE
_LONG_WEEKS = 2.0  # from this gap on, probes are a whole number of weeks apart, at the best slot
_GAPS_AHEAD = 6.0


@dataclass(frozen=True, eq=False)
class Timetable:
    """The next probe after a probe in any slot of the week, at any price, for sources of one week shape.

    A source of mean rate r (items a slot) and weight w, whose probes cost p item-slots each, follows the row of level
    ``log2(p / (w r))``: rows are ``1 / PER_OCTAVE`` octaves apart, from ``LEVELS[0]`` to ``LEVELS[-1]``.

    Parameters
    ----------
    gaps
        Slots to the next probe, shape (levels, slots of a week); below 1 if it is due again within the slot.
    frequency
        Probes a slot in the long run, shape (levels,).
    cost
        Expected undiscovered items at rate and weight 1 in the long run: items times slots of delay a slot, (levels,).
    visits
        Probes a week at each slot of the week in the long run, shape (levels, slots of a week).
    dense
        Below the lowest level a slot takes many probes, namely ``dense * 2 ** (-level / 2)``.

    Examples
    --------
    >>> even = Timetable.build(np.ones(24))
    >>> row = int(np.searchsorted(LEVELS, 3.0))
    >>> even.gaps[row].tolist()[0], float(even.frequency[row])
    (4.0, 0.25)
    """

    gaps: Floats
    frequency: Floats
    cost: Floats
    visits: Floats
    dense: float

    @classmethod
    def build(
        cls,
        shape: ArrayLike,
        *,
        importance: ArrayLike | None = None,
        slot_price: ArrayLike | None = None,
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
        into
            The array that receives the gaps, shape (levels, slots), or ``None`` for a new one.

        Raises
        ------
        ValueError
            A shape or importance is negative or 0 everywhere.

        Notes
        -----
        Source: ``docs/decisions/planner-prices.md``: sources that share a shape share its solutions, and a price per
        probe allocates exactly. The path is that of ``one_source.optimal_schedule.optimal``.

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
        _all_gaps(factors, weights, prices, gaps)
        dense = float(np.sqrt(factors * weights / (2 * prices)).mean())
        return cls(gaps, *_orbits(gaps, *prefix_sums(factors, weights)), dense)


def _mean_one(values: ArrayLike, name: str) -> Floats:
    given = np.asarray(values, dtype=np.float64)
    if np.any(given < 0) or not given.sum() > 0:
        raise ValueError(f"{name} needs factors of which none is negative and one is positive")
    scaled: Floats = given / given.mean()
    return scaled


def _all_gaps(factors: Floats, weights: Floats, prices: Floats, gaps: Floats) -> None:
    """Fill in the slots to the next probe after each slot, by level, if probes cost ``prices`` times the level's price.

    The rows share their prefix sums: those of a few weeks begin with those of fewer.
    """
    slots, by_level = len(factors), 2.0 ** LEVELS[:, None] * prices
    # The gap of an even week: waiting tau costs tau^2 / 2, so a probe pays for itself after sqrt(2 price).
    even = np.sqrt(2 * by_level.mean(axis=1))
    is_long = even >= _LONG_WEEKS * slots
    # The path ends with a forced probe. Several gaps of margin keep that end from distorting the first week's links.
    weeks = np.ceil(_GAPS_AHEAD * even / slots).astype(np.int64) + 2
    most = int(weeks[~is_long].max())
    sums = prefix_sums(np.tile(factors, most), np.tile(weights, most))
    for row in np.flatnonzero(~is_long):
        gaps[row] = _links(sums, by_level[row], int(weeks[row]))
    # k probes in a slot of rate r cost r / 2k for delay and k prices; use the best k if it is more than one.
    many = np.floor(0.5 + np.sqrt(0.25 + factors * weights / (2 * by_level[~is_long])))
    gaps[~is_long] = np.where(many > 1, 1 / many, gaps[~is_long])
    gaps[is_long] = _whole_weeks(sums, by_level[is_long])


def _links(sums: tuple[Floats, Floats, Floats], prices: Floats, weeks: int) -> Ints:
    """Return the slots to the next probe on the cheapest path over some weeks, after each slot of the first."""
    slots = len(prices)
    size = weeks * slots + 1
    L, A, G = (each[:size] for each in sums)
    base = np.append(np.tile(prices, weeks), prices[0]) + A * L - G
    best, heights, slopes = (flat(np.empty(size)) for _ in range(3))
    link, links, lines = (flat(np.empty(size, dtype=np.int64)) for _ in range(3))
    priced(
        flat(L), flat(A), flat(G), flat(base), flat(np.arange(1, size + 1)), 1e-12 * size, False,
        best, link, links, lines, heights, slopes,
    )  # fmt: skip
    return np.asarray(link[:slots]) - np.arange(slots)


def _whole_weeks(sums: tuple[Floats, Floats, Floats], prices: Floats) -> Floats:
    """Return the slots to the next probe if it is some weeks away: the cheapest slot of the cheapest week, by row.

    An item that comes k weeks before the last week waits k weeks longer, regardless of its slot.
    """
    slots = prices.shape[1]
    L, A, G = sums
    edge = np.arange(slots)
    one_week = A[edge + slots] * (L[edge + slots] - L[edge]) - (G[edge + slots] - G[edge])
    # The best number of weeks is near that of an even week, so it is enough to try its neighbours.
    about = np.sqrt(2 * prices.mean(axis=1)) / slots
    weeks = np.maximum(1.0, np.floor(about)[:, None] + np.arange(-1, 3))[:, :, None]
    costs = (prices[:, None] + weeks * one_week + slots * slots * weeks * (weeks - 1) / 2) / weeks
    cheapest = costs.reshape(len(prices), -1).argmin(axis=1)
    # Steer to the best slot from any slot, by the week that keeps the gap nearest to the planned one.
    ahead = (cheapest[:, None] % slots - edge) % slots
    whole = weeks[np.arange(len(prices)), cheapest // slots]
    gaps: Floats = np.where(ahead < slots / 2, ahead + whole * slots, ahead + (whole - 1) * slots)
    return gaps


@kernel
def _orbits(gaps: Floats, L: Floats, A: Floats, G: Floats) -> tuple[Floats, Floats, Floats]:
    """Return frequency, cost and visits of each row in the long run, over the cycle that its probes run into."""
    levels, slots = gaps.shape
    frequency, cost, visits = np.zeros(levels), np.zeros(levels), np.zeros((levels, slots))
    for row in range(levels):
        slot = 0
        for _ in range(slots):  # after so many probes it is on the cycle, regardless of where it began
            slot = int(slot + max(1.0, gaps[row, slot])) % slots
        first, probes, passed, total = slot, 0, 0.0, 0.0
        while True:
            gap = gaps[row, slot]
            several = max(1, int(np.rint(1 / gap)))  # number of probes in one slot, which they fill
            for number in range(several):
                total += _cost(slot + number * gap, slot + (number + 1) * gap, L, A, G)
            probes += several
            passed += several * gap
            visits[row, slot] += several
            slot = int(slot + np.rint(several * gap)) % slots
            if slot == first:
                break
        frequency[row] = probes / passed
        cost[row] = total / passed
        visits[row] *= slots / passed
    return frequency, cost, visits


@kernel
def _cost(start: float, finish: float, L: Floats, A: Floats, G: Floats) -> float:
    """Return the cost of the items between two times if they wait for the second; times in slots, one week's prefix."""
    L0, _, G0 = _at(start, L, A, G)
    L1, A1, G1 = _at(finish, L, A, G)
    return A1 * (L1 - L0) - (G1 - G0)


@kernel
def _at(time: float, L: Floats, A: Floats, G: Floats) -> tuple[float, float, float]:
    """Return L, A and G at any time of any week."""
    slots = len(L) - 1
    weeks = float(int(time) // slots)
    slot = int(time) % slots
    h = time - weeks * slots - slot
    rate, weight = L[slot + 1] - L[slot], A[slot + 1] - A[slot]
    within_L, within_A = L[slot] + rate * h, A[slot] + weight * h
    within_G = G[slot] + rate * (A[slot] * h + weight * h * h / 2)
    return (
        weeks * L[slots] + within_L,
        weeks * A[slots] + within_A,
        weeks * G[slots] + weeks * (weeks - 1) / 2 * A[slots] * L[slots] + within_G + weeks * A[slots] * within_L,
    )
