"""Cycles that give each source its frequency, spread evenly: powers of two and the golden ratio."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count
from math import ceil, floor, log2, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.errors import SchedulingError
from proxyd.lab.algorithms.detection_frequencies import check_rates, memoryless, periodic_cost

GOLDEN = (sqrt(5) + 1) / 2
IDLE = -1
_MOST_PERIOD = 2**22


def powers_of_two(rates: ArrayLike) -> NDArray[np.int64]:
    """Return the paper's deterministic cycle: source i is probed exactly every ``2^m_i`` steps.

    ``m_i`` is the smallest with ``2^-m_i <= p_i``, where p are the memoryless probabilities. Pairs of the least
    frequent are joined until one remains (Lemma 2); places that no source needs stay idle.

    Returns
    -------
    Indices of sources in the order probed, ``IDLE`` for an idle place, shape (2^max m,).

    Notes
    -----
    Source: Mahmoody, Riondato and Upfal, Lemma 2 and Theorem 4.2: within 3 of the optimum for one probe a step.

    Examples
    --------
    >>> powers_of_two([4.0, 1.0, 1.0]).tolist()
    [0, 1, 0, 2]
    """
    lam = check_rates(rates, 1)
    p = memoryless(lam, 1)
    return cycle_of_powers([ceil(-log2(x) - 1e-12) if x > 0 else None for x in p])


def cycle_of_powers(powers: list[int | None]) -> NDArray[np.int64]:
    """Return a cycle in which source i comes exactly every ``2^powers[i]`` steps, or never if that is ``None``.

    Each source gets a residue class of steps: in order of the powers, a free class of a smaller power is halved until
    it fits. That is possible exactly if the frequencies add up to at most 1.

    Raises
    ------
    SchedulingError
        The frequencies add up to more than 1, or the cycle would be longer than 2^22 steps.
    """
    used = sorted((power, source) for source, power in enumerate(powers) if power is not None)
    length = 2 ** used[-1][0] if used else 1
    if length > _MOST_PERIOD:
        raise SchedulingError(f"the cycle would have {length} steps; leave out the slowest sources")
    if sum(2.0**-power for power, _ in used) > 1 + 1e-12:
        raise SchedulingError("the frequencies add up to more than one probe a step")
    cycle = np.full(length, IDLE, dtype=np.int64)
    free = [(0, 0)]  # (power, residue), the largest class first
    for power, source in used:
        width, residue = heappop(free)
        while width < power:
            heappush(free, (width + 1, residue + 2**width))
            width += 1
        cycle[residue :: 2**power] = source
    return cycle


def best_powers(rates: ArrayLike, c: int = 1) -> NDArray[np.int64]:
    """Return the best cycle of powers of two: it tries every scale of the frequencies, and uses idle places.

    The paper rounds every probability down to a power of two, which leaves up to half of the probes unused. Here the
    probabilities are scaled first; the rest goes to the source that gains most from a halved period.

    Parameters
    ----------
    c
        Probes in a step; periods are counted in probes, and ``periodic_cost(rates, cycle, c)`` groups them into steps.

    Notes
    -----
    Source: ``docs/algorithms.md`` (best scale, slack filled).

    Examples
    --------
    >>> best_powers([1.0, 1.0, 1.0]).tolist().count(IDLE)
    0
    """
    lam = check_rates(rates, c)
    p = memoryless(lam, 1)
    active = p > 0
    fractions = np.unique(np.log2(p[active]) % 1.0)
    scales = np.unique(np.concatenate([2.0**-fractions, [1.0]]))[:: max(1, len(fractions) // 64)]
    best, best_cost = np.array([IDLE]), np.inf
    for scale in scales:
        cycle = cycle_of_powers(_fill_cycle(lam, p * scale))
        cost = periodic_cost(lam, cycle, c)
        if cost < best_cost:
            best, best_cost = cycle, cost
    return best


def _fill_cycle(lam: NDArray[np.float64], wanted: NDArray[np.float64]) -> list[int | None]:
    """Return powers at or below the wanted frequencies, then halve periods while possible, best gain first."""
    powers = [ceil(-log2(x) - 1e-12) if x > 0 else None for x in wanted]
    least = floor(-log2(max(wanted.max(), 1e-300)))
    powers = [None if power is None else max(power, least, 0) for power in powers]
    room = 1.0 - sum(2.0**-power for power in powers if power is not None)
    while room < -1e-12:
        powers = [None if power is None else power + 1 for power in powers]
        room = 1.0 - sum(2.0**-power for power in powers if power is not None)
    ties = count()
    gains = [(-lam[i] * 4.0**power, next(ties), i) for i, power in enumerate(powers) if power]
    heapify(gains)
    while gains:
        _, _, i = heappop(gains)
        power = powers[i]
        if not power or 2.0**-power > room + 1e-12:
            continue
        room -= 2.0**-power
        powers[i] = power - 1
        heappush(gains, (-lam[i] * 4.0 ** (power - 1), next(ties), i))
    return powers


def golden(frequencies: ArrayLike, length: int | None = None) -> NDArray[np.int64]:
    """Return a cycle of Fibonacci length in which each source has its frequency, spread by phi.

    Source i gets ``f_i F_k`` accesses, rounded so that they add up to ``F_k``. Access s of the cycle goes to the s-th
    smallest of ``frac(j / phi)``, j = 1, ..., F_k, and each source takes consecutive j: any run of multiples of the
    golden ratio is spread evenly.

    Parameters
    ----------
    frequencies
        Not negative, at least one positive; they are normalised.
    length
        Minimum length of the cycle; the next Fibonacci number is used. The default is the first that gives the rarest
        source one access, at most 2^22.

    Notes
    -----
    Source: Coffman, Liu and Weber, section 5, after Itai and Rosberg. j starts at 1: from 0 the result differs from
    the paper's own example. Its Corollary 5.1 promises 5 % of the optimum; 9/8 is what holds
    (``docs/algorithms.md``).

    Examples
    --------
    >>> (golden([2, 3, 3, 5], 13) + 1).tolist()
    [4, 2, 4, 1, 3, 4, 2, 4, 1, 3, 4, 2, 3]
    """
    f = np.asarray(frequencies, dtype=np.float64)
    if f.ndim != 1 or not len(f) or np.any(f < 0) or not np.isfinite(f).all() or f.sum() <= 0:
        raise SchedulingError("frequencies must be finite and not negative, at least one of them positive")
    f = f / f.sum()
    if length is None:
        length = ceil(1 / float(f[f > 0].min()))
    size = _fibonacci_from(min(length, _MOST_PERIOD))
    accesses = _round_number(f * size, size)
    owner = np.repeat(np.arange(len(f)), accesses)
    places = np.argsort(np.arange(1, size + 1) / GOLDEN % 1.0, kind="stable")
    cycle: NDArray[np.int64] = owner[places]
    return cycle


def _fibonacci_from(least: int) -> int:
    a, b = 1, 1
    while a < least:
        a, b = b, a + b
    return a


def _round_number(shares: NDArray[np.float64], total: int) -> NDArray[np.int64]:
    """Round shares to whole numbers that add up to ``total``, the largest remainders up; each share gets at least 1."""
    whole = np.floor(shares).astype(np.int64)
    whole[(shares > 0) & (whole == 0)] = 1
    order = np.argsort(-(shares - whole), kind="stable")
    missing = int(total - whole.sum())
    if missing > 0:
        whole[order[:missing]] += 1
    while missing < 0:
        largest = int(np.argmax(whole - shares))
        if whole[largest] <= 1:
            largest = int(np.argmax(whole))
        whole[largest] -= 1
        missing += 1
    return whole
