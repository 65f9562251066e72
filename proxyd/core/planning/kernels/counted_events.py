"""Rules that fire on every n-th item: the best next probe by the items counted since the last firing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log2

import numpy as np
from numpy.typing import NDArray

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.planning.kernels.losses import Losses

MOST_COUNTED = 64
"""The largest n that is planned by its counts: the table grows with its square, and firings are rare then."""

MOST_KINDS = 8  # each has a table made on the event loop when the rate moves: 60 kinds took 70 ms
"""How many kinds of counting rules, by n and what a firing loses, are planned by their counts on one source."""

_GAPS: Floats = 2.0 ** np.concatenate([np.arange(-30.0, -12.0), np.arange(-12 * 8, 14 * 8 + 1) / 8])  # in items
_PER_OCTAVE = 8
_LEAST_PRICE_S = 1e-9
_ROUNDS = 50
_FOLLOWED = 96  # probes


@dataclass(frozen=True, slots=True, eq=False)
class _CountedGaps:
    """The best gaps between probes of a source whose items come at an even rate.

    An item a minute, of which every third fires; a firing counts for 10 minutes if it is overwritten:

    >>> gaps = gaps_of_counts(3, Losses(overwritten=1.0), rate_per_s=1 / 60, price_s=60.0, missed_s=600.0)
    >>> gaps.items.round(1).tolist(), round(gaps.probes, 2)
    ([1.7, 1.1, 0.5], 1.05)
    """

    items: Floats  # to expect until the next probe, by the number counted since the last firing, shape (every,)
    probes: float  # for each item in the long run
    cost: float  # of probes and waiting firings for each item in the long run, in seconds
    later: Floats  # how much more each count costs than 0, in seconds, shape (every,)
    lost: tuple[float, ...]  # the part of the firings that each step takes and, last, that are overwritten


@dataclass(frozen=True, slots=True, eq=False)
class ItemsLine:
    """The items that a source is expected to have, over time, week after week.

    >>> line = ItemsLine.even(0.5)
    >>> line.items(np.array([10.0])).tolist(), line.times_s(np.array([7.0])).tolist()
    ([5.0], [14.0])
    """

    sums: Floats  # items since a week began at each edge of its slots, at one a slot, shape (slots + 1,)
    begun_s: float  # when some week began
    slot_s: float
    rate_per_s: float  # on the average, above 0

    @classmethod
    def even(cls, rate_per_s: float) -> ItemsLine:
        """Return the line of an even rate."""
        return cls(np.array([0.0, 1.0]), 0.0, 86400.0, rate_per_s)

    def items(self, times_s: Floats) -> Floats:
        """Return the items expected since ``begun_s``, shape of ``times_s``."""
        slots = len(self.sums) - 1
        weeks, within = np.divmod((times_s - self.begun_s) / self.slot_s, slots)
        found = weeks * self.sums[-1] + np.interp(within, np.arange(slots + 1.0), self.sums)
        return np.asarray(found * self.rate_per_s * self.slot_s)

    def times_s(self, items: Floats) -> Floats:
        """Return when so many items are expected since ``begun_s``: the inverse of ``items``."""
        weeks, rest = np.divmod(items / (self.rate_per_s * self.slot_s), self.sums[-1])
        slots = len(self.sums) - 1
        found = weeks * slots + np.interp(rest, self.sums, np.arange(slots + 1.0))
        return np.asarray(self.begun_s + found * self.slot_s)

    def busy_per_s(self, life_s: float) -> float:
        """Return the rate over a life up to an item, in items a second, on the average of all items.

        >>> ItemsLine(np.array([0.0, 0.0, 2.0]), 0.0, 3600.0, 0.001).busy_per_s(0.0)
        0.002
        """
        slots = len(self.sums) - 1
        factors, edges = np.diff(self.sums), np.arange(slots) + 1.0
        if life_s < self.slot_s:
            return float(factors @ factors / factors.sum()) * self.rate_per_s
        weeks, within = np.divmod(edges - life_s / self.slot_s, slots)
        within_life = self.sums[1:] - np.interp(within, np.arange(slots + 1.0), self.sums) - weeks * self.sums[-1]
        return float(factors @ within_life / factors.sum()) * self.rate_per_s * self.slot_s / life_s


@dataclass(frozen=True, slots=True)
class CountedRule:
    """What a probe is worth to a rule that fires on every n-th item.

    An item an hour, of which every fifth fires: after a firing the next probe can wait.

    >>> rule = CountedRule(5, Losses(), missed_s=1e6)
    >>> line = ItemsLine.even(1 / 3600)
    >>> [round(rule.next_s(count, 0.0, line, price_s=7200.0) / 3600.0, 1) for count in range(5)]
    [6.2, 5.2, 4.4, 3.1, 1.7]
    """

    every: int  # n, from 2 to ``MOST_COUNTED``
    losses: Losses  # of a firing, with lives in seconds
    missed_s: float  # the waiting that counts as much as a firing

    def next_s(self, count: int, last_s: float, line: ItemsLine, *, price_s: float) -> float:
        """Return when the next probe is due, in unix seconds.

        Parameters
        ----------
        count
            Items since the last firing, as the last probe found.
        last_s
            The time of the last probe, in unix seconds.
        price_s
            Seconds of waiting of a firing that a probe must save.

        Notes
        -----
        Source: ``docs/decisions/counted-events.md``. The costs up to the next probe are those of the week itself; what
        comes after is taken from the table of even rates, at the rate in the week's busy times. O(gaps * every).
        """
        table = self.table(line.busy_per_s(self.life_s), price_s)
        return self._next(count, last_s, line, price_s, table)[0]

    def probes_per_s(self, line: ItemsLine, price_s: float) -> float:
        """Return how many probes a second this makes in the long run, from following some hundred of them.

        What they find is drawn, always the same. In an even week the table knows the answer.
        """
        if len(line.sums) == 2:
            return self.table(line.rate_per_s, price_s).probes * line.rate_per_s
        sums = np.cumsum(_catalogue(self.every)[1], axis=1)
        count, last_s, table = 0, line.begun_s, self.table(line.busy_per_s(self.life_s), price_s)
        for turn in np.random.Generator(np.random.PCG64(self.every)).random(_FOLLOWED).tolist():
            last_s, place = self._next(count, last_s, line, price_s, table)
            count = (count + int(np.searchsorted(sums[place], turn))) % self.every
        return _FOLLOWED / (last_s - line.begun_s)

    def _next(
        self, count: int, last_s: float, line: ItemsLine, price_s: float, table: _CountedGaps
    ) -> tuple[float, int]:
        """Return when the next probe is due, and the place of its gap."""
        gaps, chances, fired, last_fires = _catalogue(self.every)
        since = line.items(np.array([last_s]))
        times_s = line.times_s(since + gaps)
        waits_s = np.diff(times_s, prepend=last_s)
        waiting = np.append(0.0, fired[:, count])
        cost = np.cumsum(waits_s * (waiting[1:] + waiting[:-1]) / 2)
        cost += price_s
        for step in self.losses.steps:
            before = line.items(times_s - step.after) - since
            cost += self.missed_s * step.delay * np.interp(before, gaps, fired[:, count], left=0.0)
        cost += self.missed_s * self.losses.overwritten * (fired[:, count] - last_fires[:, count])
        after = chances[:, (np.arange(self.every) - count) % self.every]
        place = int(np.argmin(cost - table.cost * gaps + after @ table.later))
        return float(times_s[place]), place

    @property
    def life_s(self) -> float:
        """The longest life of a firing, in seconds; 0 without."""
        return max((step.after for step in self.losses.steps), default=0.0)

    def table(self, rate_per_s: float, price_s: float) -> _CountedGaps:
        """Return the gaps at an even rate, from a table that is filled as it is used."""
        price_step = round(log2(max(price_s, _LEAST_PRICE_S)) * _PER_OCTAVE)
        return _gaps_at(self, round(log2(rate_per_s) * _PER_OCTAVE), price_step)


@lru_cache(65_536)
def _gaps_at(rule: CountedRule, rate_step: int, price_step: int) -> _CountedGaps:
    rate_per_s, price_s = 2.0 ** (rate_step / _PER_OCTAVE), 2.0 ** (price_step / _PER_OCTAVE)
    return gaps_of_counts(rule.every, rule.losses, rate_per_s=rate_per_s, price_s=price_s, missed_s=rule.missed_s)


@lru_cache(MOST_COUNTED)
def _catalogue(every: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the gaps to choose from at a probe, and their residues, firings and last firings."""
    gaps = _GAPS[: np.searchsorted(_GAPS, 8.0 * every + 64.0)]
    chances = residues(every, gaps)
    return gaps, chances, firings(every, gaps), last_fired(every, gaps, chances)


def gaps_of_counts(every: int, losses: Losses, *, rate_per_s: float, price_s: float, missed_s: float) -> _CountedGaps:
    """Return the gaps that cost least in the long run for ``COUNT(*) % every = k`` at an even rate.

    Parameters
    ----------
    losses, missed_s
        As in ``CountedRule``.
    rate_per_s
        Items a second, above 0.
    price_s
        Seconds of waiting of a firing that a probe must save.

    Notes
    -----
    Source: ``docs/decisions/counted-events.md``. Time is measured in expected items, in which the source is a Poisson
    process of rate 1, so only the count at a probe matters: a semi-Markov decision with ``every`` states, solved by
    policy iteration.

    Examples
    --------
    >>> gaps_of_counts(2, Losses(), rate_per_s=0.01, price_s=50.0, missed_s=1e6).items.round(1).tolist()
    [1.8, 1.0]
    """
    chances, fired, waiting, last_fires = _all_gaps(every)
    cost = price_s + waiting / rate_per_s
    late = [firings(every, np.maximum(_GAPS - step.after * rate_per_s, 0.0)) for step in losses.steps]
    for step, of_step in zip(losses.steps, late, strict=True):
        cost += missed_s * step.delay * of_step
    cost += missed_s * losses.overwritten * (fired - last_fires)
    return _best(_GAPS, cost, chances, fired, [*late, fired - last_fires])


@lru_cache(MOST_COUNTED)
def _all_gaps(every: int) -> tuple[Floats, Floats, Floats, Floats]:
    """Return residues, firings, waiting items and last firings of all gaps."""
    chances = residues(every, _GAPS)
    return chances, firings(every, _GAPS), waiting_items(every, _GAPS), last_fired(every, _GAPS, chances)


def _best(gaps: Floats, cost: Floats, chances: Floats, fired: Floats, late: Sequence[Floats]) -> _CountedGaps:
    """Return the policy of least mean cost, by policy iteration; costs and firings have the shape (gaps, every)."""
    every = cost.shape[1]
    ahead = _ahead(every)
    chosen = np.argmin(cost / gaps[:, None], axis=0)
    for _ in range(_ROUNDS):
        per_item, later = _evaluate_gaps(gaps, cost, chances, chosen)
        total = cost - per_item * gaps[:, None] + chances @ later[ahead]
        better = np.argmin(total, axis=0)
        now = total[chosen, np.arange(every)]
        better = np.where(total[better, np.arange(every)] < now - 1e-9 * np.abs(now), better, chosen)
        if np.array_equal(better, chosen):
            break
        chosen = better
    moves = _moves(chances, chosen)
    balance = moves.T - np.eye(every)
    balance[0] = 1.0  # the shares sum to 1; one of the other rows follows from the rest
    share = np.linalg.solve(balance, np.eye(every)[0])
    counts, fires = np.arange(every), float(share @ fired[chosen, np.arange(every)])
    lost = tuple(float(share @ each[chosen, counts]) / fires for each in late)
    return _CountedGaps(gaps[chosen], float(1 / (share @ gaps[chosen])), per_item, later, lost)


def _evaluate_gaps(gaps: Floats, cost: Floats, chances: Floats, chosen: Ints) -> tuple[float, Floats]:
    """Return the mean cost of an item, and how much more each count costs than 0, shape (every,)."""
    every = len(chosen)
    system = np.eye(every) - _moves(chances, chosen)
    system[:, 0] = gaps[chosen]  # costs are relative to count 0, so its column is free for the mean cost
    found = np.linalg.solve(system, cost[chosen, np.arange(every)])
    return float(found[0]), np.append(0.0, found[1:])


def _moves(chances: Floats, chosen: Ints) -> Floats:
    """Return the probability of each next count, shape (every, every), from one row to a column."""
    every = len(chosen)
    moves: Floats = chances[chosen][np.arange(every)[:, None], (np.arange(every) - np.arange(every)[:, None]) % every]
    return moves


@lru_cache(MOST_COUNTED)
def _ahead(every: int) -> Ints:
    """Return the count after each step from each count, shape (steps, counts)."""
    ahead: Ints = (np.arange(every)[:, None] + np.arange(every)) % every
    return ahead


def _powers(every: int) -> NDArray[np.complex128]:
    powers: NDArray[np.complex128] = np.exp(2j * np.pi * np.arange(every) / every) - 1
    return powers


def residues(every: int, items: Floats) -> Floats:
    """Return the probability of each number of items modulo ``every`` if ``items`` are expected, shape (gaps, every).

    >>> residues(2, np.array([0.0, 0.5, 50.0])).round(3).tolist()
    [[1.0, 0.0], [0.684, 0.316], [0.5, 0.5]]
    """
    found: Floats = np.fft.fft(np.exp(items[:, None] * _powers(every)), axis=1).real / every
    return np.maximum(found, 0.0)


def firings(every: int, items: Floats) -> Floats:
    """Return how many firings are expected among ``items``, by the count before them, shape (gaps, every).

    >>> firings(2, np.array([0.0, 50.0])).round(2).tolist()
    [[0.0, 0.0], [24.75, 25.25]]
    """
    counts = np.arange(every)
    after = residues(every, items) @ _ahead(every)
    found: Floats = (counts + items[:, None] - after) / every
    return np.maximum(found, 0.0)


def waiting_items(every: int, items: Floats) -> Floats:
    """Return the integral of ``firings`` up to ``items``: how long firings wait, in items, shape (gaps, every).

    >>> waiting_items(1, np.array([4.0])).tolist()
    [[8.0]]
    """
    powers, x = _powers(every), items[:, None]
    powers[0] = -1.0  # any but 0: its sum is known
    sums = np.expm1(x * powers) / powers
    sums[:, 0] = items
    after = np.fft.fft(sums, axis=1).real / every @ _ahead(every)
    found: Floats = (np.arange(every) * x + x * x / 2 - after) / every
    return np.maximum(found, 0.0)


def last_fired(every: int, items: Floats, chances: Floats | None = None) -> Floats:
    """Return the probability that the last of some items came and fired, by the count before them, (gaps, every).

    >>> last_fired(2, np.array([0.5])).round(3).tolist()
    [[0.077, 0.316]]
    """
    given = residues(every, items) if chances is None else chances
    found: Floats = given[:, -np.arange(every) % every].copy()
    found[:, 0] -= np.exp(-items)
    return np.maximum(found, 0.0)
