"""Losses: what items are worth less because of the time until a probe finds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf, log, log1p
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.planning.kernels.costs import prefix_sums
from proxyd.core.planning.kernels.golden_turns import turns
from proxyd.core.planning.kernels.numba_kernels import HAS_NUMBA, kernel
from proxyd.core.rates.week_bins import WEEK_S

MISSED_S = WEEK_S
"""The waiting that counts as much as an item that is missed; because of it slow sources are still probed at times.

With three weeks up to 2 points more were in time, and the others waited half as long again.
"""

STEPS = 4
"""The most steps in which items lose their worth; with a fixed number a kernel takes a tenth of the time."""

_RATES_PER_OCTAVE = 2
_TIE = 1e-11  # the relative error of sums over some weeks
_LEAST_RATE = 2.0**-30  # items a slot
_PARTS = tuple((number + 0.5) / STEPS for number in range(STEPS))


@dataclass(frozen=True, slots=True, order=True)
class Step:
    """A part of an item's worth, which is lost when the item has waited for ``after`` slots."""

    after: float
    delay: float  # slots of waiting that count as much as this part of one item


@dataclass(frozen=True, slots=True)
class Losses:
    """What items lose while they wait for a probe, in addition to their delay.

    Notes
    -----
    Source: ``docs/decisions/planner-prices.md``. A longer gap loses ever more of the items that come late in it, so the
    losses are Monge costs as the delay is, and all share one path.

    Examples
    --------
    >>> bool(Losses()), bool(Losses(window(12.0, delay=1000.0))), bool(Losses(overwritten=1000.0, rate=0.1))
    (False, True, True)
    """

    steps: tuple[Step, ...] = ()  # at most ``STEPS``
    overwritten: float = 0.0  # slots of waiting that count as much as an item that another follows before the probe
    rate: float = 0.0  # items a slot of the source, on which ``overwritten`` depends
    every: int = 1  # only every n-th item loses anything; such sources are probed as ``counted_events`` says

    def __bool__(self) -> bool:
        return any(step.delay > 0 for step in self.steps) or self.overwritten > 0 or self.every > 1

    @property
    def depends_on_rate(self) -> bool:
        """Whether more than the price over the rate decides when a probe is worth it."""
        return self.overwritten > 0 or self.every > 1

    def scale(self, slots: float, delay: float) -> Losses:
        """Return the losses with lives times ``slots`` and items that count times ``delay``, without a rate."""
        steps = tuple(Step(step.after * slots, step.delay * delay) for step in self.steps)
        return Losses(steps, self.overwritten * delay, every=self.every)

    def of_even_gap(self, gap: Floats, factor: ArrayLike = 1.0) -> Floats:
        """Return the cost of the losses in gaps in which the rate is ``factor`` times the mean, in slots of waiting.

        >>> Losses(window(2.0, delay=100.0)).of_even_gap(np.array([1.0, 5.0])).tolist()
        [0.0, 300.0]
        """
        return np.asarray(self.lost_of_even_gap(gap, factor) @ self.delays)

    def lost_of_even_gap(self, gap: Floats, factor: ArrayLike = 1.0) -> Floats:
        """Return the items lost by each step and, last, the overwritten ones; shape (..., STEPS + 1)."""
        lost = np.zeros((*np.shape(gap), STEPS + 1))
        for place, step in enumerate(self.steps):
            lost[..., place] = factor * np.maximum(gap - step.after, 0.0)
        if self.rate > 0:
            lost[..., STEPS] = overwritten_items(self.rate * (np.asarray(factor) * gap)) / self.rate
        return lost

    @property
    def delays(self) -> Floats:
        """Slots of waiting for an item that each step takes and, last, for an overwritten one; shape (STEPS + 1,)."""
        delays = np.zeros(STEPS + 1)
        delays[: len(self.steps)] = [step.delay for step in self.steps]
        delays[STEPS] = self.overwritten
        return delays


NO_LOSSES = Losses()


def window(life: float, delay: float) -> tuple[Step, ...]:
    """Return the steps of items that are lost after ``life`` slots; one counts as ``delay`` slots of waiting.

    >>> window(2.0, delay=100.0)
    (Step(after=2.0, delay=100.0),)
    """
    return (Step(life, delay),)


def linear(life: float, delay: float) -> tuple[Step, ...]:
    """Return the steps of items whose worth falls evenly and ends after ``life`` slots.

    >>> [step.after for step in linear(8.0, delay=100.0)]
    [1.0, 3.0, 5.0, 7.0]
    """
    return tuple(Step(life * part, delay / STEPS) for part in _PARTS)


def halving(half_life: float, delay: float) -> tuple[Step, ...]:
    """Return the steps of items that lose half of their worth in each ``half_life``, in slots.

    >>> [round(step.after, 2) for step in halving(8.0, delay=100.0)]
    [1.54, 5.42, 11.32, 24.0]
    """
    return tuple(Step(-log1p(-part) / log(2) * half_life, delay / STEPS) for part in _PARTS)


def merge_steps(steps: Iterable[Step], *, early: bool = False) -> tuple[Step, ...]:
    """Return at most ``STEPS`` steps that lose nearly the same: the nearest ones become one, at their mean.

    With ``early`` they become one at the first of them, so that what is in time by them is in time.

    >>> merge_steps([Step(2.0, 30.0), Step(2.0, 10.0), Step(5.0, 1.0)])
    (Step(after=2.0, delay=40.0), Step(after=5.0, delay=1.0))
    >>> [step.after for step in merge_steps([Step(5.0 * 2**n, 1.0) for n in range(5)], early=True)]
    [5.0, 20.0, 40.0, 80.0]
    """
    left = sorted(step for step in steps if step.delay > 0)
    while len(left) > 1:
        apart, place = min((right.after / step.after, place) for place, (step, right) in enumerate(pairwise(left)))
        if len(left) <= STEPS and apart > 1:
            break
        one, other = left[place], left.pop(place + 1)
        delay = one.delay + other.delay
        mean = (one.after * one.delay + other.after * other.delay) / delay
        left[place] = Step(one.after if early else mean, delay)
    return tuple(left)


def overwritten_items(items: Floats) -> Floats:
    """Return how many of the items expected in a gap are followed by another in it: ``x - (1 - exp(-x))``.

    >>> overwritten_items(np.array([0.0, 10.0])).round(3).tolist()
    [0.0, 9.0]
    """
    lost: Floats = items + np.expm1(-items)
    return lost


def by_rate(losses: Sequence[Losses], loss_of: Ints, rates: Floats) -> tuple[list[Losses], Ints]:
    """Return the losses that occur, with the rates that overwritten items depend on, and the one of each source.

    What is overwritten, and how often every n-th item is worth a probe, depends on the rate in a way that a price over
    the rate does not hold, so the sources of such losses are grouped by rate. With counted items they are rounded to
    whole octaves, up or down in turn, so that the probes of many sources add up. ``rates`` are items a slot.

    >>> losses, loss_of = by_rate([Losses(), Losses((), 100.0)], np.array([0, 1, 1]), np.array([9.0, 0.5, 2.0]))
    >>> [each.rate for each in losses], loss_of.tolist()
    ([0.0, 0.5, 2.0], [0, 1, 2])
    """
    depends, counts = np.array([(each.depends_on_rate, each.every > 1) for each in losses])[loss_of].T
    logs = np.log2(np.maximum(rates, _LEAST_RATE))
    whole = np.floor(logs + turns(np.arange(len(rates)))) * _RATES_PER_OCTAVE
    octaves = np.where(counts, whole, np.round(logs * _RATES_PER_OCTAVE)).astype(np.int64)
    (loss, octave), found = index_of(loss_of, np.where(depends, octaves, 0))
    every = [
        replace(losses[number], rate=2.0 ** (step / _RATES_PER_OCTAVE))
        if losses[number].depends_on_rate
        else losses[number]
        for number, step in zip(loss.tolist(), octave.tolist(), strict=True)
    ]
    return every, found


def index_of(*columns: Ints) -> tuple[tuple[Ints, ...], Ints]:
    """Return the rows that occur in some columns, column by column, and the index of each row.

    >>> index_of(np.array([5, 5, 7]), np.array([1, 1, -2]))
    ((array([5, 7]), array([ 1, -2])), array([0, 0, 1]))
    """
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        low = int(column.min(initial=0))
        key = key * (int(column.max(initial=0)) - low + 1) + column - low
    _, first, found = np.unique(key, return_index=True, return_inverse=True)
    return tuple(column[first] for column in columns), found.reshape(-1).astype(np.int64)


def even_gaps(prices: Floats, losses: Losses, gaps: Floats) -> Floats:
    """Return the one of ``gaps`` that costs least at each price if the rate is even, shape (prices,).

    >>> late = Losses(window(12.0, delay=1000.0))
    >>> even_gaps(np.array([8.0, 1000.0, 1e6]), late, np.array([4.0, 12.0, 1000.0])).tolist()
    [4.0, 12.0, 1000.0]
    """
    waiting = gaps * gaps / 2 + losses.of_even_gap(gaps)
    best: Floats = gaps[np.argmin((prices[:, None] + waiting) / gaps, axis=1)]
    return best


class GapSums(NamedTuple):
    """Prefix integrals over a grid, from which the cost of any gap follows in O(1).

    >>> sums = GapSums.of(np.array([1.0, 3.0]), np.ones(2), Losses(window(1.0, delay=100.0)))
    >>> sums.lost(np.array([0]), np.array([2]))[0, 0].tolist(), sums.W.tolist()
    (1.0, [0.0, 1.0, 4.0])
    """

    L: Floats  # with A and G those of ``costs.Prefix``, for the delay; shape (slots + 1,)
    A: Floats
    G: Floats
    W: Floats  # items times importance, shape (slots + 1,)
    earlier: Floats  # for each step W at the time before which items are lost at an edge, shape (STEPS, slots + 1)
    delays: Floats
    rate: float

    @classmethod
    def of(cls, factors: Floats, weights: Floats, losses: Losses = NO_LOSSES) -> GapSums:
        """Return the sums of a rate and an importance by slot, shape (slots,)."""
        slots = len(factors)
        edges, W = np.arange(slots + 1.0), np.concatenate([[0.0], np.cumsum(factors * weights)])
        earlier = np.full((STEPS, slots + 1), -np.inf)
        for place, step in enumerate(losses.steps):
            earlier[place] = np.interp(edges - step.after, edges, W)
        return cls(*prefix_sums(factors, weights), W, earlier, losses.delays, losses.rate)

    def at(self, edges: Ints) -> GapSums:
        """Return the sums at some edges."""
        L, A, G, W = (each[edges] for each in (self.L, self.A, self.G, self.W))
        return GapSums(L, A, G, W, self.earlier[:, edges], self.delays, self.rate)

    def after(self, slots: int, most: int) -> GapSums:
        """Return the sums at the ``most`` edges after each of the first; 0 behind the last edge, (slots, most)."""
        beyond = max(0, slots + most - len(self.L))

        def windows(values: Floats) -> Floats:
            padded = np.concatenate([values[..., 1 : slots + most], np.zeros((*values.shape[:-1], beyond))], axis=-1)
            return sliding_window_view(padded, most, axis=-1)

        L, A, G, W, earlier = map(windows, (self.L, self.A, self.G, self.W, self.earlier))
        return GapSums(L, A, G, W, earlier, self.delays, self.rate)

    def lost(self, starts: Ints, stops: Ints) -> Floats:
        """Return the items of gaps between edges that each step takes and, last, the overwritten ones, at rate 1.

        The result has the shape of the edges and, as its last axis, STEPS + 1.
        """
        by_step = np.maximum(np.moveaxis(self.earlier[:, stops], 0, -1) - self.W[starts][..., None], 0.0)
        rate = max(self.rate, _LEAST_RATE)
        overwritten = overwritten_items(rate * (self.L[stops] - self.L[starts])) / rate
        return np.concatenate([by_step, overwritten[..., None]], axis=-1)


def gap_costs(start: GapSums, stop: GapSums) -> Floats:
    """Return the costs of gaps at rate 1 from the sums at their ends, in item-slots: the delay, and the lost items.

    Of x items ``x^2 (1 + x) / (2 + 2x + x^2)`` are taken to be overwritten, which is ``x - (1 - exp(-x))`` with
    ``1 / (1 + x + x^2 / 2)`` for the exponential; it is convex too.

    >>> sums = GapSums.of(np.ones(4), np.ones(4))
    >>> gap_costs(sums.at(np.array([0, 2])), sums.at(np.array([1, 4]))).tolist()
    [0.5, 2.0]
    """
    items = stop.L - start.L
    cost = stop.A * items
    cost -= stop.G - start.G
    if stop.delays[STEPS]:
        x = stop.rate * items
        cost += stop.delays[STEPS] * items * x * (1.0 + x) / (2.0 + 2.0 * x + x * x)
    for delay, earlier in zip(stop.delays.tolist(), stop.earlier, strict=False):
        if delay > 0:
            cost += delay * np.maximum(0.0, earlier - start.W)
    return cost


def first_costs(sums: GapSums, slots: int, most: int) -> Floats:
    """Return the costs of the gaps of 1 to ``most`` slots after each of the first edges, shape (slots, most).

    Gaps that end after the last edge cost infinity.

    >>> first_costs(GapSums.of(np.ones(2), np.ones(2)), slots=2, most=2).tolist()
    [[0.5, 2.0], [0.5, inf]]
    """
    costs = gap_costs(sums.at(np.arange(slots)[:, None]), sums.after(slots, most))
    if slots + most > len(sums.L):
        costs[np.arange(slots)[:, None] + np.arange(1, most + 1) >= len(sums.L)] = np.inf
    return costs


def links_of(costs: Floats, prices: Floats, weeks: int, usual: Floats) -> Ints | None:
    """Return the next probe after one at each slot of the first week, on the cheapest path to the end of some weeks.

    Parameters
    ----------
    costs
        Those of the gaps after each slot of the week, shape (slots, longest gap).
    prices
        Those of a probe at each slot of the week, shape (rows, slots); each row has its own path.
    usual
        The gap of an even week at each price, in slots, shape (rows,). Of gaps that cost the same the nearest is taken:
        an even week shall have even gaps.

    Returns
    -------
    Ints or None
        Shape of ``prices``; ``None`` if a longer gap may be better than the longest one that is given.

    Examples
    --------
    An item that waits for two slots is lost, so the next probe is two slots later:

    >>> sums = GapSums.of(np.ones(6), np.ones(6), Losses(window(2.0, delay=100.0)))
    >>> links_of(first_costs(sums, 6, 6), np.full((1, 6), 50.0), 1, np.array([2.0])).tolist()
    [[2, 3, 4, 5, 6, 6]]
    """
    rows, slots = prices.shape
    last = weeks * slots
    if HAS_NUMBA:
        found, (stops, begins) = np.empty((rows, slots), dtype=np.int64), np.empty((2, last + 1), dtype=np.int64)
        return found if fill_links(costs, prices, usual, np.empty(last + 1), stops, begins, found) else None
    return links_in_arrays(costs, prices, last, usual)


def links_in_arrays(costs: Floats, prices: Floats, last: int, usual: Floats) -> Ints | None:
    """Return the same as ``links_of`` without a compiler, for paths that end at the edge ``last``.

    >>> costs = first_costs(GapSums.of(np.ones(4), np.ones(4)), 4, 4)
    >>> links_in_arrays(costs, np.full((1, 4), 2.0), 4, np.array([2.0])).tolist()
    [[2, 3, 4, 4]]
    """
    (rows, slots), (_, longest) = prices.shape, costs.shape
    later = np.full((rows, last + longest + 1), np.inf)  # what a probe at an edge costs with all after it
    later[:, last] = prices[:, 0]
    row, links, most = np.arange(rows), np.empty((rows, slots), dtype=np.int64), 1
    unusual = np.abs(np.arange(1, longest + 1) - usual[:, None])
    for edge in range(last - 1, -1, -1):
        slot = edge % slots
        of_gap = costs[slot, :most] + later[:, edge + 1 : edge + 1 + most]
        chosen = furthest = of_gap.argmin(axis=1)
        later[:, edge] = of_gap[row, chosen] + prices[:, slot]
        if edge < slots:
            is_best = of_gap <= (of_gap[row, chosen] * (1.0 + _TIE))[:, None]
            links[:, edge] = edge + 1 + np.where(is_best, unusual[:, :most], np.inf).argmin(axis=1)
            furthest = np.flatnonzero(is_best.any(axis=0))
        # The costs are Monge: the next probe after an earlier edge is not later, so no gap grows by more than one slot.
        most = int(furthest.max()) + 2
        if most > longest:
            if longest < last:
                return None
            most = last
    return links


@kernel
def is_nearer_better(costs: Floats, later: Floats, edge: int, nearer: int, farther: int) -> bool:
    """Whether the nearer of two next probes costs no more than the farther one, or that is out of the costs' reach."""
    slot = edge % costs.shape[0]
    if farther - edge > costs.shape[1]:
        return True
    return bool(costs[slot, nearer - edge - 1] + later[nearer] <= costs[slot, farther - edge - 1] + later[farther])


@kernel
def fill_links(
    costs: Floats, prices: Floats, usual: Floats, later: Floats, stops: Ints, begins: Ints, links: Ints
) -> bool:
    """Fill ``links`` as ``links_of`` returns them; False if a longer gap may be better than the longest given.

    The costs are Monge: once a nearer probe is better than a farther one, it is so for all earlier edges too, and the
    edge where this begins is found by bisection. ``stops`` holds the probes that are the next one somewhere, from the
    farthest to the nearest, and ``begins`` the last edge that each is next to. With ``later``, what a probe at each
    edge costs with all after it, they are working space; shape (last edge + 1,).
    """
    last, longest, slots = len(later) - 1, costs.shape[1], costs.shape[0]
    for row in range(len(prices)):
        later[last] = prices[row, 0]
        front, back, most = 0, 0, 1
        for edge in range(last - 1, -1, -1):
            while back > front and is_nearer_better(
                costs, later, begins[back - 1] if back - 1 > front and begins[back - 1] < edge else edge,
                edge + 1, stops[back - 1],
            ):  # fmt: skip
                back -= 1
            begin = edge
            if back > front:
                far, begin = stops[back - 1], max(-1, stops[back - 1] - longest - 1)
                end = begins[back - 1] if back - 1 > front and begins[back - 1] < edge else edge
                while end - begin > 1:
                    middle = (begin + end) // 2
                    if is_nearer_better(costs, later, middle, edge + 1, far):
                        begin = middle
                    else:
                        end = middle
            if begin >= 0:
                stops[back], begins[back] = edge + 1, begin
                back += 1
            while back - front > 1 and begins[front + 1] >= edge:
                front += 1
            slot, furthest = edge % slots, stops[front] - edge - 1
            best = costs[slot, furthest] + later[stops[front]]
            later[edge] = best + prices[row, slot]
            if edge < slots:
                nearest = inf
                for gap in range(min(most, last - edge)):
                    unusual = abs(gap + 1 - usual[row])
                    if costs[slot, gap] + later[edge + 1 + gap] <= best * (1.0 + _TIE):
                        furthest = gap
                        if unusual < nearest:
                            nearest, links[row, edge] = unusual, edge + 1 + gap
            most = furthest + 2
            if most > longest:
                if longest < last:
                    return False
                most = last
    return True


class WeekCosts:
    """Costs between any two times for sources of some week shapes, at rate and weight 1 (``kernels.costs.Prefix``).

    >>> costs = WeekCosts(np.array([[1.0, 1.0, 4.0, 2.0]]))
    >>> costs.between(np.array([0, 0]), np.array([0.0, 6.0]), np.array([2.0, 8.0])).tolist()
    [1.0, 3.5]
    """

    def __init__(self, shapes: Floats, importance: ArrayLike | None = None) -> None:
        factors = shapes / shapes.mean(axis=1, keepdims=True)
        given = np.ones(shapes.shape[1]) if importance is None else np.asarray(importance, dtype=np.float64)
        weights = np.broadcast_to(given / given.mean(axis=-1, keepdims=True), shapes.shape)
        self._slots = shapes.shape[1]
        self._rates, self._weights = factors, weights
        self.L, self._A, self._G = prefix_sums(factors, weights)

    def between(self, shape_of: Ints | int, start: Floats, finish: Floats) -> Floats:
        """Return the expected items from ``start`` to ``finish``, in slots, times their waiting time at ``finish``."""
        week = np.floor(start / self._slots) * self._slots
        L0, _, G0 = self._at(shape_of, start - week)
        L1, A1, G1 = self._at(shape_of, finish - week)
        cost: Floats = A1 * (L1 - L0) - (G1 - G0)
        return cost

    def kept(self, losses: Losses, shape_of: Ints, start: Floats, finish: Floats) -> Floats:
        """Return what a probe at ``finish`` saves of the items since ``start``, in slots of waiting, shape (n,)."""
        week = np.floor(start / self._slots) * self._slots
        until, since = (self._at(shape_of, time - week)[0] for time in (finish, start))
        kept: Floats = np.zeros(len(start))
        for step in losses.steps:
            kept += step.delay * (until - np.maximum(since, self._at(shape_of, finish - step.after - week)[0]))
        if losses.overwritten:
            kept -= losses.overwritten * np.expm1(-losses.rate * (until - since)) / losses.rate
        return kept

    def reach(self, shape: int, start: float, items: float) -> float:
        """Return when ``items`` items are expected since ``start`` at rate 1 and this shape, in slots."""
        row = self.L[shape]
        week, within = divmod(start, self._slots)
        begun = float(np.interp(within, np.arange(len(row)), row))
        weeks, rest = divmod(begun + items, float(row[-1]))
        slot = min(int(np.searchsorted(row, rest, side="right")) - 1, self._slots - 1)
        rate = float(row[slot + 1] - row[slot])
        part = (rest - float(row[slot])) / rate if rate > 0 else 0.0
        return float((week + weeks) * self._slots + slot + part)

    def at_slot(self, shape_of: Any, slot: Any) -> Any:
        """Return the cost of a source's waiting items in a slot, relative to the mean; for one source or arrays."""
        return self._rates[shape_of, slot] * self._weights[shape_of, slot]

    def _at(self, shape: Ints | int, time: Floats) -> tuple[Floats, Floats, Floats]:
        """Return L, A and G, which continue from week to week."""
        weeks = np.floor(time / self._slots)
        within = time - weeks * self._slots
        slot = np.minimum(within.astype(np.int64), self._slots - 1)
        h = within - slot
        rate, weight = self._rates[shape, slot], self._weights[shape, slot]
        L, A = self.L[shape, slot] + rate * h, self._A[shape, slot] + weight * h
        G = self._G[shape, slot] + rate * (self._A[shape, slot] * h + weight * h * h / 2)
        week_L, week_A, week_G = self.L[shape, -1], self._A[shape, -1], self._G[shape, -1]
        earlier = weeks * (weeks - 1) / 2 * week_A * week_L + weeks * week_A * L
        return weeks * week_L + L, weeks * week_A + A, weeks * week_G + earlier + G
