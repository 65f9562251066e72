"""Improves a schedule by moving probes off the grid: exact coordinate moves, and the paper's Algorithm 10."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.errors import InvalidScheduleError
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.core.planning.kernels.one_source import OneSourceSchedule

_SWEEPS = 10_000
_LAST_MU, _IOTA = 1 / 512, 1e-9


def improve_exactly(prefix: Prefix, probes: ArrayLike, *, spacing: float = 0.0) -> OneSourceSchedule:
    """Return the schedule after moving single probes to their best places until no move helps.

    Between fixed neighbours s and u, a probe at t saves ``Lambda(s, t) * A(t, u)`` compared with no probe. On a cell
    with constant rate and weight that is ``(P + l x)(Q - a x)``, largest at ``x = (l Q - a P) / (2 l a)`` or at an
    end of the cell. So each move is exact, without a step width.

    Parameters
    ----------
    probes
        Times in the order made, the last at the end of the period; it is not moved.
    spacing
        Minimum time between two probes.

    Notes
    -----
    Source: ``docs/algorithms.md``, instead of Algorithm 10. The result is a local optimum: ``exact`` is false.

    Examples
    --------
    >>> from proxyd.core.model.intensity import PiecewiseConstant
    >>> one = PiecewiseConstant.constant(1.0, 4.0)
    >>> improve_exactly(Prefix(one, one), [1.0, 4.0]).times.tolist()
    [2.0, 4.0]
    """
    times = _with_start(prefix, probes)
    total = prefix.total(times)
    for _ in range(_SWEEPS):
        for i in range(1, len(times) - 1):
            low, high = times[i - 1] + spacing, times[i + 1] - spacing
            if low < high:
                times[i] = _best_between(prefix, times[i - 1], times[i + 1], low, high, times[i])
        improved = prefix.total(times)
        if total - improved <= 1e-13 * max(1.0, total):
            break
        total = improved
    return OneSourceSchedule(times[1:], prefix.total(times), exact=False)


def _best_between(prefix: Prefix, s: float, u: float, low: float, high: float, now: float) -> float:
    """Return the place in [low, high] that saves most between probes at s and u, or ``now`` if none is better."""
    inside = prefix.breaks[(prefix.breaks > low) & (prefix.breaks < high)]
    edges = np.concatenate([[low], inside, [high]])
    L, A, _ = prefix.at(np.concatenate([[s], edges, [u]]))
    P, Q = L[1:-1] - L[0], A[-1] - A[1:-1]  # at the edges
    cells = np.clip(np.searchsorted(prefix.breaks, edges[:-1], side="right") - 1, 0, len(prefix.rates) - 1)
    rate, weight = prefix.rates[cells], prefix.weights[cells]
    both = (rate > 0) & (weight > 0)
    width = np.diff(edges)
    x = np.zeros(len(width))
    x[both] = np.clip(
        (rate[both] * Q[:-1][both] - weight[both] * P[:-1][both]) / (2 * rate[both] * weight[both]), 0.0, width[both]
    )
    candidates = np.concatenate([edges, edges[:-1] + x])
    saved = np.concatenate([P * Q, (P[:-1] + rate * x) * (Q[:-1] - weight * x)])
    best = int(np.argmax(saved))
    L_now, A_now, _ = prefix.at([now])
    gain = saved[best] - (L_now[0] - L[0]) * (A[-1] - A_now[0])
    return float(candidates[best]) if gain > 1e-13 * max(1.0, float(saved[best])) else now


def algorithm_10(prefix: Prefix, probes: ArrayLike, *, spacing: float = 0.0) -> tuple[OneSourceSchedule, int]:
    """Return the paper's improvement by mu-moves, and the number of moves.

    Each move takes one probe the fraction mu of the way to a neighbour (minus ``spacing``). The most improving move
    is made while any improves by iota (1e-9); then mu, at first 1/2, or 1 if ``spacing`` is greater than 0, is halved
    until it is below 1/512. It reproduces the paper: ``improve_exactly`` is better and has no parameters.

    Notes
    -----
    Source: Eckstein, Gal and Reiner, Algorithm 10, where "minimizing" is a misprint for the most improving move.

    Examples
    --------
    >>> from proxyd.core.model.intensity import PiecewiseConstant
    >>> one = PiecewiseConstant.constant(1.0, 4.0)
    >>> algorithm_10(Prefix(one, one), [1.0, 4.0])[0].times.round(2).tolist()
    [2.0, 4.0]
    """
    times = _with_start(prefix, probes)
    mu, moves = 1.0 if spacing > 0 else 0.5, 0
    while mu >= _LAST_MU:
        moves += _mu_moves(prefix, times, mu, spacing)
        mu /= 2
    return OneSourceSchedule(times[1:], prefix.total(times), exact=False), moves


def _mu_moves(prefix: Prefix, times: NDArray[np.float64], mu: float, spacing: float) -> int:
    """Make all improving moves of one mu, most improving first; a version number identifies stale heap entries."""
    version = [0] * len(times)
    heap = [entry for i in range(1, len(times) - 1) for entry in _moves_of(prefix, times, i, mu, spacing, version[i])]
    heapify(heap)
    made = 0
    while heap and -heap[0][0] >= _IOTA:
        _, i, target, seen = heappop(heap)
        if seen != version[i]:
            continue
        times[i] = target
        made += 1
        for near in (i - 1, i, i + 1):
            if 0 < near < len(times) - 1:
                version[near] += 1
                for entry in _moves_of(prefix, times, near, mu, spacing, version[near]):
                    heappush(heap, entry)
    return made


def _moves_of(
    prefix: Prefix, times: NDArray[np.float64], i: int, mu: float, spacing: float, version: int
) -> list[tuple[float, int, float, int]]:
    before, now, after = times[i - 1 : i + 2]
    cost = prefix.total([before, now, after])
    targets = (mu * (before + spacing) + (1 - mu) * now, (1 - mu) * now + mu * (after - spacing))
    return [(prefix.total([before, target, after]) - cost, i, float(target), version) for target in targets]


def _with_start(prefix: Prefix, probes: ArrayLike) -> NDArray[np.float64]:
    times = np.concatenate([prefix.breaks[:1], np.asarray(probes, dtype=np.float64)])
    if len(times) < 2 or np.any(np.diff(times) < 0) or abs(times[-1] - prefix.breaks[-1]) > 1e-9 * times[-1]:
        raise InvalidScheduleError("probes must increase and end where the period ends")
    return times
