"""Rules that fire on every n-th item: the best next probe by the items counted since the last firing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import floor, log2

import numpy as np
from numpy.typing import NDArray

from proxyd.core.planning.allocation.losses import Losses

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_COUNTED = 64
"""The largest n that is planned by its counts; see ``docs/decisions/counted-events.md``."""

_GAPS: Floats = 2.0 ** (np.arange(-12 * 8, 14 * 8 + 1) / 8)  # to choose from, in items
_PER_OCTAVE = 8
_ROUNDS = 50


@dataclass(frozen=True, slots=True, eq=False)
class CountedGaps:
    """The best gaps between probes of a source whose items come at an even rate.

    Parameters
    ----------
    items
        Items to expect until the next probe, by the number counted since the last firing, shape (every,).
    probes
        Probes for each item in the long run.
    cost
        What the probes and the waiting of the firings cost for each item in the long run, in seconds.

    Examples
    --------
    An item a minute, of which every third fires; a firing counts for 10 minutes if it is overwritten.

    >>> gaps = counted_gaps(3, Losses(overwritten=1.0), rate_per_s=1 / 60, price_s=60.0, missed_s=600.0)
    >>> gaps.items.round(1).tolist(), round(gaps.probes, 2)
    ([1.7, 1.1, 0.5], 1.05)
    """

    items: Floats
    probes: float
    cost: float


def counted_gaps(every: int, losses: Losses, *, rate_per_s: float, price_s: float, missed_s: float) -> CountedGaps:
    """Return the gaps that cost least in the long run for ``COUNT(*) % every = k``.

    Parameters
    ----------
    losses
        What a firing loses beside its delay while it waits, with lives in seconds, in parts of a firing, each of which
        counts as ``missed_s`` seconds of waiting.
    rate_per_s
        Items a second, above 0.
    price_s
        Seconds of waiting of a firing that a probe must save.

    Notes
    -----
    Source: ``docs/decisions/counted-events.md``. Time is measured in expected items, in which the source is a Poisson
    process of rate 1, so only the count at a probe matters: a semi-Markov decision with ``every`` states, solved by
    policy iteration.
    """
    lives = [step.after * rate_per_s for step in losses.steps]
    gaps = np.unique(np.concatenate([_GAPS, [life for life in lives if _GAPS[0] < life < _GAPS[-1]]]))
    chances = residues(every, gaps)
    cost = price_s + waiting_items(every, gaps) / rate_per_s
    for step, life in zip(losses.steps, lives, strict=True):
        cost += missed_s * step.delay * firings(every, np.maximum(gaps - life, 0.0))
    if losses.overwritten:
        cost += missed_s * losses.overwritten * (firings(every, gaps) - last_fired(every, gaps, chances))
    return _best(gaps, cost, chances)


@lru_cache(65_536)
def _gaps_at(every: int, losses: Losses, rate_step: int, price_step: int, missed_s: float) -> CountedGaps:
    rate_per_s, price_s = 2.0 ** (rate_step / _PER_OCTAVE), 2.0 ** (price_step / _PER_OCTAVE)
    return counted_gaps(every, losses, rate_per_s=rate_per_s, price_s=price_s, missed_s=missed_s)


def stored_gaps(
    every: int, losses: Losses, *, rate_per_s: float, price_s: float, missed_s: float, turn: float = 0.5
) -> CountedGaps:
    """Return ``counted_gaps`` from a table of rates and prices, which is filled as it is used.

    Parameters
    ----------
    turn
        The price is rounded up in this share of cases; sources of different turns meet the price on the average.

    Examples
    --------
    >>> from proxyd.core.planning.allocation.losses import window
    >>> late = Losses(window(3600.0, delay=1.0))
    >>> stored_gaps(3, late, rate_per_s=0.001, price_s=600.0, missed_s=1e6).items.round(1).tolist()
    [2.8, 2.0, 1.1]
    """
    rate_step = round(log2(rate_per_s) * _PER_OCTAVE)
    return _gaps_at(every, losses, rate_step, floor(log2(price_s) * _PER_OCTAVE + turn), missed_s)


def _best(gaps: Floats, cost: Floats, chances: Floats) -> CountedGaps:
    """Return the policy of least mean cost, by policy iteration; ``cost`` has the shape (gaps, every)."""
    every = cost.shape[1]
    ahead = _ahead(every)
    chosen = np.argmin(cost / gaps[:, None], axis=0)
    for _ in range(_ROUNDS):
        per_item, later = _evaluated(gaps, cost, chances, chosen)
        total = cost - per_item * gaps[:, None] + chances @ later[ahead]
        better = np.argmin(total, axis=0)
        now = total[chosen, np.arange(every)]
        better = np.where(total[better, np.arange(every)] < now - 1e-9 * np.abs(now), better, chosen)
        if np.array_equal(better, chosen):
            break
        chosen = better
    moves = _moves(chances, chosen)
    share = np.linalg.lstsq(
        np.vstack([moves.T - np.eye(every), np.ones(every)]), np.append(np.zeros(every), 1.0), rcond=None
    )[0]
    return CountedGaps(gaps[chosen], float(1 / (share @ gaps[chosen])), per_item)


def _evaluated(gaps: Floats, cost: Floats, chances: Floats, chosen: Ints) -> tuple[float, Floats]:
    """Return the mean cost of an item, and how much more each count costs than 0, shape (every,)."""
    every = len(chosen)
    system = np.eye(every) - _moves(chances, chosen)
    system[:, 0] = gaps[chosen]  # count 0 costs nothing more: its place is for the mean cost
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
