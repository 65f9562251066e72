"""Detection frequencies: how often to probe each source so that new items wait least, and a bound on any schedule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from proxyd.core.errors import SchedulingError
from proxyd.core.model.arrays import Floats


@dataclass(frozen=True, eq=False)
class _DetectionBound:
    """The tight lower bound on the expected number of undiscovered items, and the frequencies that would reach it.

    Parameters
    ----------
    cost
        Expected undiscovered items, counted at the end of each step; no schedule of ``c`` probes a step has fewer.
    frequencies
        Probes a step of each source, shape (n,), each at most 1, in total at most ``c``.

    Examples
    --------
    >>> tight_bound([1.0, 1.0], 1).frequencies.tolist()
    [0.5, 0.5]
    """

    cost: float
    frequencies: Floats


def tight_bound(rates: ArrayLike, c: float) -> _DetectionBound:
    """Return the minimum of ``sum rates (1/f + 1)/2`` over ``sum f <= c``, ``f <= 1``.

    An item is discovered at the earliest one step after it came. With gaps between probes of mean ``1/f`` it waits at
    least ``(1/f + 1)/2`` steps on average. The minimum is at ``f = min(1, theta sqrt(rate))``: sources that would be
    probed more than once a step are capped, and the probes that they leave go to the others.

    Parameters
    ----------
    rates
        Expected new items a step, shape (n,), not negative.
    c
        Probes a step, greater than 0.

    Raises
    ------
    SchedulingError
        A rate is negative or not finite, or ``c`` is not greater than 0.

    Notes
    -----
    Source: ``docs/algorithms.md`` (T); never below the bound of Theorem 4.1 of Mahmoody, Riondato and Upfal.

    Examples
    --------
    >>> bound = tight_bound([4.0, 1.0, 1.0], 2.0)
    >>> bound.frequencies.tolist(), bound.cost
    ([1.0, 0.5, 0.5], 7.0)
    """
    lam = check_rates(rates, c)
    frequencies = np.zeros(len(lam))
    free = lam > 0
    left = float(c)
    while free.any():
        share = np.sqrt(lam[free])
        share *= left / share.sum()
        if not (share > 1).any():
            frequencies[free] = share
            break
        capped = np.flatnonzero(free)[share >= 1]
        if left >= free.sum():
            capped = np.flatnonzero(free)
        frequencies[capped] = 1.0
        free[capped] = False
        left -= len(capped)
    frequencies = np.minimum(frequencies, 1.0)
    active = lam > 0
    return _DetectionBound(float(np.sum(lam[active] * (1 / frequencies[active] + 1) / 2)), frequencies)


def paper_bound(rates: ArrayLike, c: float) -> float:
    """Return the paper's lower bound, ``max(sum lambda, (sum sqrt lambda)^2 / (2c))``.

    Notes
    -----
    Source: Mahmoody, Riondato and Upfal, Theorem 4.1.

    Examples
    --------
    >>> paper_bound([4.0, 1.0, 1.0], 2.0)
    6.0
    """
    lam = check_rates(rates, c)
    return max(float(lam.sum()), float(np.sqrt(lam).sum()) ** 2 / (2 * c))


def memoryless(rates: ArrayLike, c: float) -> Floats:
    """Return the probability of each source per probe, ``sqrt(lambda)`` normalised.

    Each of the ``c`` probes of a step is drawn independently with these probabilities.

    Notes
    -----
    Source: Theorem 4.3 (optimal among memoryless 1-schedules, cost ``(sum sqrt lambda)^2``) and Corollary 5 (within
    ``2 + (c - 1)/c`` of any c-schedule).

    Examples
    --------
    >>> memoryless([4.0, 1.0, 1.0], 1).tolist()
    [0.5, 0.25, 0.25]
    """
    root = np.sqrt(check_rates(rates, c))
    if root.sum() == 0:
        return np.full(len(root), 1 / len(root))
    probabilities: Floats = root / root.sum()
    return probabilities


def periodic_cost(rates: ArrayLike, cycle: ArrayLike, c: int = 1) -> float:
    """Return the expected undiscovered items of a repeating sequence of probes, ``c`` of them a step.

    Items of a step are discovered at the end of that step if their source is probed in it. Each gap of g steps between
    probes costs ``rate * g (g + 1) / 2`` items times steps. The result is infinite if a source with a positive rate is
    never probed.

    Parameters
    ----------
    cycle
        Indices of sources in the order probed, -1 for an idle place; idle places extend it to a multiple of ``c``.

    Examples
    --------
    >>> periodic_cost([1.0, 1.0], [0, 1])
    3.0
    """
    lam = check_rates(rates, c)
    sequence = np.asarray(cycle, dtype=np.int64)
    steps = -(-len(sequence) // c)
    probed = sequence >= 0
    # One number for each source and each step in which it is probed, source by source.
    places = np.unique(sequence[probed] * steps + (np.arange(len(sequence)) // c)[probed])
    sources, at = np.divmod(places, max(steps, 1))
    first = np.flatnonzero(np.diff(sources, prepend=-1))
    last = np.append(first[1:], len(sources)) - 1
    following = np.append(at[1:], 0)
    following[last[: len(first)]] = at[first] + steps
    missed = lam > 0
    missed[sources] = False
    if missed.any():
        return float("inf")
    gaps = (following - at).astype(float)
    return float(np.sum(lam[sources] * gaps * (gaps + 1)) / (2 * max(steps, 1)))


def check_rates(rates: ArrayLike, c: float) -> Floats:
    """Return the rates as an array, or raise ``SchedulingError``."""
    lam = np.asarray(rates, dtype=np.float64)
    if lam.ndim != 1 or not len(lam) or not np.all(np.isfinite(lam)) or np.any(lam < 0):
        raise SchedulingError("rates must be a list of finite numbers, none negative")
    if c <= 0:
        raise SchedulingError("there must be more than 0 probes a step")
    return lam
