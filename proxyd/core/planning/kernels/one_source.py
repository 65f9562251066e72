"""Optimal probes of one source on a grid of slots, by a price per probe."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from proxyd.core.errors import InvalidScheduleError
from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.core.planning.kernels.numba_kernels import flat, kernel

_BISECTIONS = 200


@dataclass(frozen=True, eq=False)
class Grid:
    """Slots at which a source may be probed, and the constraints on them.

    Parameters
    ----------
    times
        Slot times, increasing; the first is the start of the period, the last its end, at which a probe is always made.
    spacing
        Least time between two probes, and between the start and the first.
    price
        Extra cost of a probe at each slot (shared capacity, peaks), shape of ``times``, not negative.

    Examples
    --------
    >>> Grid([0.0, 1.0, 2.0, 3.0], spacing=2.0).reach.tolist()
    [2, 3, 4, 4]
    """

    times: Floats
    reach: Ints
    price: Floats

    def __init__(
        self,
        times: ArrayLike,
        *,
        spacing: float = 0.0,
        price: ArrayLike | None = None,
    ) -> None:
        t = np.asarray(times, dtype=np.float64)
        if len(t) < 2 or not np.all(np.diff(t) > 0):
            raise InvalidScheduleError("a grid needs at least two slots, increasing")
        prices = np.zeros(len(t)) if price is None else np.array(price, dtype=np.float64)
        if prices.shape != t.shape or np.any(prices < 0):
            raise InvalidScheduleError("price needs one entry for each slot, none negative")
        rounding = 1e-9 * (t[-1] - t[0])
        object.__setattr__(self, "times", t)
        reach = np.searchsorted(t, t + spacing - rounding, side="left")
        object.__setattr__(self, "reach", np.maximum(reach, np.arange(1, len(t) + 1)))
        object.__setattr__(self, "price", prices)

    def schedule(self, prefix: Prefix, slots: list[int]) -> OneSourceSchedule:
        """Return the schedule of some slots, with its cost."""
        times = self.times[slots]
        return OneSourceSchedule(times, prefix.total(np.concatenate([self.times[:1], times])))


@dataclass(frozen=True, eq=False)
class OneSourceSchedule:
    """Probe times of one source, excluding the start and including the end of its period.

    ``cost`` is in expected items times time times importance, without slot prices. ``exact`` says whether it is the
    least on the grid for this number of probes.
    """

    times: Floats
    cost: float
    exact: bool = True

    @property
    def probes(self) -> int:
        """The number of probes."""
        return len(self.times)


def optimal(prefix: Prefix, grid: Grid, probes: int) -> OneSourceSchedule:
    """Return the cheapest schedule of at most ``probes`` probes.

    The optimal cost is convex in the number of probes (the links are Monge), so a price per probe finds one number in
    O(slots log): bisect the price until the path with the fewest links has at most ``probes`` and the path with the
    most links at least as many. If equal weeks make many numbers optimal at one price, the two paths are spliced at a
    crossing.

    Spacing can make more probes more expensive, or impossible; then fewer are made.

    Raises
    ------
    InvalidScheduleError
        There is no schedule at all, or ``probes`` is less than 1.

    Notes
    -----
    Source: ``docs/algorithms.md``; splicing after Aggarwal, Schieber and Tokuyama 1994.

    Examples
    --------
    >>> from proxyd.core.model.intensity import PiecewiseConstant
    >>> one = PiecewiseConstant.constant(1.0, 4.0)
    >>> optimal(Prefix(one, one), Grid([0, 1, 2, 3, 4]), 2).times.tolist()
    [2.0, 4.0]
    """
    if probes < 1:
        raise InvalidScheduleError("a schedule has at least one probe, at the end of its period")
    paths = PricedPaths(prefix, grid)
    slots = paths.path(0.0, most=False)
    if slots is None:
        raise InvalidScheduleError("no slot can be reached: every one is closed or closer than the spacing")
    if len(slots) > probes:
        slots = paths.with_links(probes)
    return grid.schedule(prefix, slots)


class PricedPaths:
    """Cheapest paths at a price per link.

    Several sources share a budget by paths at one price.

    >>> from proxyd.core.model.intensity import PiecewiseConstant
    >>> one = PiecewiseConstant.constant(1.0, 4.0)
    >>> PricedPaths(Prefix(one, one), Grid([0, 1, 2, 3, 4])).path(2.0, most=False)
    [2, 4]
    """

    def __init__(self, prefix: Prefix, grid: Grid) -> None:
        L, A, G = prefix.at(grid.times)
        size = len(grid.times)
        self._costs = flat(L), flat(A), flat(G)
        self._base = grid.price + A * L - G
        self._reach = flat(grid.reach)
        self._best = flat(np.empty(size))
        self._link, self._links = flat(np.empty(size, dtype=np.int64)), flat(np.empty(size, dtype=np.int64))
        self._envelope = flat(np.empty(size, dtype=np.int64)), flat(np.empty(size)), flat(np.empty(size))
        self._scale = float(A[-1] * L[-1]) + float(np.sum(grid.price))

    def path(self, price: float, *, most: bool) -> list[int] | None:
        """Return the slots of the cheapest path with the most or the fewest links, without the start."""
        tolerance = 1e-13 * self._scale
        base = flat(self._base + price)
        fill_paths(
            *self._costs, base, self._reach, tolerance, most, self._best, self._link, self._links, *self._envelope
        )
        if self._best[0] == np.inf:
            return None
        slots, slot = [], int(self._link[0])
        while slot >= 0:
            slots.append(slot)
            slot = int(self._link[slot])
        return slots

    def with_links(self, wanted: int) -> list[int]:
        """Return the slots of a cheapest path with exactly ``wanted`` links, fewer than the free path has."""
        low, high = 0.0, self._scale + 1.0
        short, long = [len(self._base) - 1], self.path(low, most=True) or []
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            if middle in (low, high):
                break
            fewest = self.path(middle, most=False) or []
            if len(fewest) > wanted:
                low, long = middle, fewest
                continue
            short, high = fewest, middle
            if len(short) == wanted:
                return short
            most = self.path(middle, most=True) or []
            if len(most) >= wanted:
                long = most
                break
        return long if len(long) == wanted else _splice(short, long, wanted)


def _splice(short: list[int], long: list[int], wanted: int) -> list[int]:
    """Join the head of the long path to the tail of the short one so that ``wanted`` links remain.

    Since both are optimal and links are Monge, the joined path is optimal too: at the crossing, exchanging tails is
    free.
    """
    p, q = [0, *short], [0, *long]
    extra = wanted - len(short)
    for k in range(len(p) - 1):
        # p's link k spans q's link k + extra
        if p[k] <= q[k + extra] and q[k + extra + 1] <= p[k + 1]:
            return [*q[1 : k + extra + 1], *p[k + 1 :]]
    raise InvalidScheduleError("the two paths do not cross")  # they always do: both start and end together


def optimal_cycle(
    intensity: PiecewiseConstant, importance: PiecewiseConstant, slots: ArrayLike, probes: int
) -> OneSourceSchedule:
    """Return at most ``probes`` probe times in [0, period) that repeat each period at least cost.

    A first solution is cut at its shortest gap. Then every start inside that gap is solved, since an optimal cycle has
    a probe there. Restarting from only one found slot is not optimal (it can cost half as much again).

    Parameters
    ----------
    intensity, importance
        On [0, period].
    slots
        Times in [0, period) at which a probe may be made, increasing.

    Notes
    -----
    Source: ``docs/algorithms.md`` (a week that repeats).

    Examples
    --------
    >>> day = PiecewiseConstant([0.0, 2.0, 4.0], [1.0, 0.0])
    >>> optimal_cycle(day, PiecewiseConstant.constant(1.0, 4.0), [0.0, 1.0, 2.0, 3.0], 2).times.tolist()
    [1.0, 2.0]
    """
    t, period = np.asarray(slots, dtype=np.float64), intensity.stop - intensity.start
    twice, times = Prefix(intensity.repeat(2), importance.repeat(2)), np.concatenate([t, t + period])

    def cut_at(slot: int) -> OneSourceSchedule:
        """Return the best cycle with a probe at a slot: a period from one probe there to the next."""
        found = optimal(twice, Grid(times[slot : slot + len(t) + 1]), probes)
        return OneSourceSchedule(np.sort(found.times % period), found.cost, exact=True)

    best = cut_at(0)
    at = np.searchsorted(t, best.times - 1e-9 * period)
    following = np.append(at[1:], at[0] + len(t))
    shortest = int(np.argmin(following - at))
    for start in range(int(at[shortest]), int(following[shortest]) + 1):
        found = cut_at(start % len(t))
        best = found if found.cost < best.cost else best
    return best


@kernel
def fill_paths(
    L: Floats, A: Floats, G: Floats, base: Floats, reach: Ints, tolerance: float, most: bool,
    best: Floats, link: Ints, links: Ints, lines: Ints, heights: Floats, slopes: Floats,
) -> None:  # fmt: skip
    """Fill the cheapest paths to the last slot with any number of links.

    ``base[j]`` is ``A[j] L[j] - G[j]`` plus the price of a link into j. If paths are equal within ``tolerance`` at a
    link, the one with the most links is taken, or without ``most`` the one with the fewest. ``links[i]`` counts the
    links of the path from i.

    ``reach[i] > i`` is the first slot that may follow i; lines enter the envelope when they come into reach. Slots
    without a successor get infinity and -1. ``lines``, ``heights`` and ``slopes`` (negated) are its working space.
    """
    last = len(L) - 1
    sign = 1 if most else -1
    front, back = 0, 0
    entered = last + 1
    best[last] = 0.0
    link[last] = -1
    links[last] = 0
    for i in range(last - 1, -1, -1):
        first = reach[i]
        while entered > first:
            entered -= 1
            height = best[entered] + base[entered]
            if height == inf:
                continue
            slope = A[entered]
            # Drop the lines at the back that the new one covers. Slopes only grow, so a dropped line never returns.
            top, enters = back - 1, True
            while top >= front:
                below = heights[top]
                steeper = slopes[top]
                rise = height - below
                if steeper == slope:
                    if rise > tolerance or (rise >= -tolerance and sign * (links[entered] - links[lines[top]]) <= 0):
                        enters = False
                        break
                elif top == front or (
                    (below - heights[top - 1]) * (steeper - slope) <= rise * (slopes[top - 1] - steeper)
                ):
                    break
                top -= 1
            if enters:
                back = top + 1
                lines[back] = entered
                heights[back] = height
                slopes[back] = slope
                back += 1
        if back == front:
            best[i] = inf
            link[i] = -1
            links[i] = 0
            continue
        # Queries only fall, so a line that the next one undercuts is never the best again: move the front past it.
        x = L[i]
        cost = heights[front] - slopes[front] * x
        ahead = front + 1
        while ahead < back:
            following = heights[ahead] - slopes[ahead] * x
            if following > cost + tolerance:
                break
            # A tie: later the next line takes over for good, but now only if its number of links is preferred.
            if following >= cost - tolerance and sign * (links[lines[ahead]] - links[lines[front]]) <= 0:
                break
            cost = following
            front = ahead
            ahead += 1
        line = lines[front]
        best[i] = G[i] + cost
        link[i] = line
        links[i] = links[line] + 1


@kernel
def fill_first_weeks(
    L: Floats, A: Floats, G: Floats, unpriced: Floats, reach: Ints, prices: Floats, weeks: Ints, slots: int,
    found: Ints, base: Floats, best: Floats, link: Ints, links: Ints, lines: Ints, heights: Floats, slopes: Floats,
) -> None:  # fmt: skip
    """Fill ``found`` with the links from the slots of the first week, of cheapest paths over some ``weeks`` each.

    ``prices`` are those of a link into each slot of the week, path by path, as in ``found``; ``unpriced`` is ``base``
    of ``fill_paths`` without them. ``base`` and all after it are working space.
    """
    for row in range(len(weeks)):
        edges, first = weeks[row] * slots + 1, row * slots
        for edge in range(edges):
            base[edge] = unpriced[edge] + prices[first + edge % slots]
        fill_paths(
            L[:edges], A, G, base, reach, 1e-12 * edges, False, best, link, links, lines, heights, slopes
        )  # fmt: skip
        for slot in range(slots):
            found[first + slot] = link[slot]


ON_CYCLE = 2
"""The mark of slots that a path comes back to."""


@kernel
def mark_cycles(ahead: Ints, slots: int, marks: Ints) -> None:
    """Mark the slots on the cycle that the path from the first slot of each week runs into.

    ``ahead`` holds how far the next probe is after each slot of several weeks, one week after the other; ``marks`` must
    be 0, and get 1 where a path leads to its cycle and ``ON_CYCLE`` on it.

    >>> marks = np.zeros(4, dtype=np.int64)
    >>> mark_cycles(np.array([2, 3, 1, 3]), 4, marks)
    >>> marks.tolist()
    [1, 0, 2, 2]
    """
    for first in range(0, len(ahead), slots):
        place = 0
        while marks[first + place] == 0:
            marks[first + place] = 1
            place = (place + ahead[first + place]) % slots
        while marks[first + place] == 1:
            marks[first + place] = ON_CYCLE
            place = (place + ahead[first + place]) % slots
