"""Losses: what items are worth less because of the time until a probe finds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log, log1p
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.planning.kernels.costs import prefix_sums
from proxyd.core.planning.kernels.golden_turns import turns
from proxyd.core.planning.kernels.numba_kernels import flat, kernel
from proxyd.core.rates.week_bins import WEEK_S

MISSED_S = 3 * WEEK_S
"""The waiting that counts as much as an item that is missed; because of it slow sources are still probed at times."""

STEPS = 4
"""The most steps in which items lose their worth; with a fixed number a kernel takes a tenth of the time."""

_RATES_PER_OCTAVE = 2
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
    >>> sums.lost(np.array([0]), np.array([2]))[0, 0].tolist(), sums.until(1).W.tolist()
    (1.0, [0.0, 1.0])
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

    def until(self, slots: int) -> GapSums:
        """Return the sums of the first slots."""
        L, A, G, W = (sums[: slots + 1] for sums in self[:4])
        return GapSums(L, A, G, W, self.earlier[:, : slots + 1], self.delays, self.rate)

    def lost(self, starts: Ints, stops: Ints) -> Floats:
        """Return the items of gaps between edges that each step takes and, last, the overwritten ones, at rate 1.

        The result has the shape of the edges and, as its last axis, STEPS + 1.
        """
        by_step = np.maximum(np.moveaxis(self.earlier[:, stops], 0, -1) - self.W[starts][..., None], 0.0)
        rate = max(self.rate, _LEAST_RATE)
        overwritten = overwritten_items(rate * (self.L[stops] - self.L[starts])) / rate
        return np.concatenate([by_step, overwritten[..., None]], axis=-1)


@kernel
def gap_cost(
    start: int, stop: int, L: Floats, A: Floats, G: Floats, W: Floats, earlier: Floats, delays: Floats, rate: float
) -> float:
    """Return the cost of a gap between two edges at rate 1, in item-slots: the delay, and the lost items.

    Of x items ``x^2 (1 + x) / (2 + 2x + x^2)`` are taken to be overwritten, which is ``x - (1 - exp(-x))`` with
    ``1 / (1 + x + x^2 / 2)`` for the exponential. It is convex too, and takes a fifth of the time.
    """
    seen, items = W[start], L[stop] - L[start]
    x = rate * items
    cost: float = (
        A[stop] * items
        - (G[stop] - G[start])
        + delays[0] * max(0.0, earlier[0][stop] - seen)
        + delays[1] * max(0.0, earlier[1][stop] - seen)
        + delays[2] * max(0.0, earlier[2][stop] - seen)
        + delays[3] * max(0.0, earlier[3][stop] - seen)
        + delays[4] * items * x * (1.0 + x) / (2.0 + 2.0 * x + x * x)
    )
    return cost


@kernel
def _cheapest_path(
    L: Floats, A: Floats, G: Floats, W: Floats, earlier: Floats, delays: Floats, rate: float,
    price: Floats, best: Floats, link: Ints, candidates: Ints, reach: Ints,
) -> None:  # fmt: skip
    """Fill ``link[i]``, the next probe after one at edge i, on the cheapest path to the last edge; O(n log n).

    The costs are Monge: if of two next probes the sooner is better for i, it is better for all edges before i. So each
    candidate is the best for a run of edges, and the runs lie in order. A new candidate takes over from the edge that a
    bisection finds. ``price`` is that of a probe at each edge; ``best``, ``candidates`` and ``reach``, the last edge
    for which a candidate is the best, are working space.
    """
    last = len(L) - 1
    front, back = 0, 0
    best[last] = 0.0
    for i in range(last - 1, -1, -1):
        new, until = i + 1, i
        after_new = best[new] + price[new]
        while back > front:
            old, edge = candidates[back - 1], min(reach[back - 1], i)
            after_old = best[old] + price[old]
            if after_new + gap_cost(edge, new, L, A, G, W, earlier, delays, rate) <= after_old + gap_cost(
                edge, old, L, A, G, W, earlier, delays, rate
            ):
                until = edge
                back -= 1
                continue
            low, high = -1, edge  # the new one is the better at ``low``, the old one at ``high``
            while high - low > 1:
                middle = (low + high) // 2
                if after_new + gap_cost(middle, new, L, A, G, W, earlier, delays, rate) <= after_old + gap_cost(
                    middle, old, L, A, G, W, earlier, delays, rate
                ):
                    low = middle
                else:
                    high = middle
            until = low
            break
        if until >= 0:
            candidates[back] = new
            reach[back] = until if back > front else i
            back += 1
        while back - front > 1 and reach[front + 1] >= i:
            front += 1
        chosen = candidates[front]
        best[i] = gap_cost(i, chosen, L, A, G, W, earlier, delays, rate) + best[chosen] + price[chosen]
        link[i] = chosen


def links_of(sums: GapSums, price: Floats) -> Ints:
    """Return the next probe after one at each edge but the last, on the cheapest path to the last; shape (edges,).

    ``price`` is that of a probe at each edge. An item that waits for two slots is lost, so every second edge has a
    probe:

    >>> sums = GapSums.of(np.ones(6), np.ones(6), Losses(window(2.0, delay=100.0)))
    >>> links_of(sums, np.full(7, 50.0))[:-1].tolist()
    [2, 2, 4, 4, 6, 6]
    """
    size = len(sums.L)
    L, A, G, W, earlier, delays = (flat(each) for each in sums[:-1])
    best, (link, candidates, reach) = flat(np.empty(size)), (flat(np.empty(size, dtype=np.int64)) for _ in range(3))
    _cheapest_path(L, A, G, W, earlier, delays, sums.rate, flat(price), best, link, candidates, reach)
    return np.asarray(link)
