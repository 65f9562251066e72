"""Baselines of the one-source problem: uniform, threshold and first arrival."""

from __future__ import annotations

from collections.abc import Callable
from math import expm1, inf, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from proxyd.errors import InvalidScheduleError
from proxyd.scheduling.single.costs import Prefix
from proxyd.scheduling.single.optimal import OneSourceSchedule


def uniform(prefix: Prefix, probes: int) -> OneSourceSchedule:
    """Return ``probes`` probes spaced evenly over the period, the last one at its end.

    Examples
    --------
    >>> from proxyd.model.intensity import PiecewiseConstant
    >>> one = PiecewiseConstant.constant(1.0, 4.0)
    >>> uniform(Prefix(one, one), 2).cost
    4.0
    """
    if probes < 1:
        raise InvalidScheduleError("a schedule has at least one probe, at the end of its period")
    return _schedule(prefix, np.linspace(prefix.breaks[0], prefix.breaks[-1], probes + 1)[1:])


def threshold(prefix: Prefix, cost: float, *, step: float | None = None) -> OneSourceSchedule:
    """Return the probes made whenever the expected cost since the last one reaches ``cost``.

    The crossing is found exactly, cell by cell; with ``step`` a probe can only be made at multiples of it, at the first
    one at which the cost has been reached. The last probe is at the end of the period.

    Notes
    -----
    Source: Gal and Eckstein 2001, as the papers' baseline.

    Examples
    --------
    >>> from proxyd.model.intensity import PiecewiseConstant
    >>> one = PiecewiseConstant.constant(1.0, 4.0)
    >>> threshold(Prefix(one, one), 2.0).times.tolist()
    [2.0, 4.0]
    """
    if cost <= 0:
        raise InvalidScheduleError("the threshold must be greater than 0")
    return _greedy(prefix, lambda start: _cost_reached(prefix, start, cost), step)


def first_arrival(prefix: Prefix, probability: float, *, step: float | None = None) -> OneSourceSchedule:
    """Return the probes made whenever the chance of an item since the last one reaches ``probability``.

    It knows nothing of importance. ``step`` and the last probe are as for ``threshold``.

    Notes
    -----
    Source: Pandey et al. 2003 and Gal and Eckstein 2001: probe when ``1 - exp(-Lambda)`` reaches pi.

    Examples
    --------
    >>> from proxyd.model.intensity import PiecewiseConstant
    >>> one = PiecewiseConstant.constant(1.0, 4.0)
    >>> first_arrival(Prefix(one, one), 0.9).times.round(3).tolist()
    [2.303, 4.0]
    """
    if not 0 < probability < 1:
        raise InvalidScheduleError("the probability must lie between 0 and 1")
    expected = -log1p(-probability)
    return _greedy(prefix, lambda start: _items_reached(prefix, start, expected), step)


def parameter_for(
    prefix: Prefix, policy: str, probes: int, *, step: float | None = None
) -> tuple[float, OneSourceSchedule]:
    """Return the parameter at which ``threshold`` or ``first-arrival`` makes ``probes`` probes, and its schedule.

    The parameter is the least at which no more probes are made, found by bisection; on a coarse ``step`` the number may
    not be met exactly, then it is the next lower one.
    """
    make: Callable[..., OneSourceSchedule] = {"threshold": threshold, "first-arrival": first_arrival}[policy]
    all_of_it = prefix.total([prefix.breaks[0], prefix.breaks[-1]]) + 1.0
    low, high = 0.0, all_of_it if make is threshold else -expm1(-float(prefix.L[-1]) - 1.0)
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if make(prefix, middle, step=step).probes > probes:
            low = middle
        else:
            high = middle
    return high, make(prefix, high, step=step)


def _greedy(prefix: Prefix, next_after: Callable[[float], float], step: float | None) -> OneSourceSchedule:
    start, stop = float(prefix.breaks[0]), float(prefix.breaks[-1])
    times: list[float] = []
    now = start
    while (now := next_after(now)) < stop:
        if step is not None:
            now = start + np.ceil((now - start) / step - 1e-9) * step
            if now >= stop:
                break
        times.append(now)
    return _schedule(prefix, np.array([*times, stop]))


def _items_reached(prefix: Prefix, start: float, expected: float) -> float:
    """Return when the expected number of items since ``start`` reaches ``expected``."""
    base = float(prefix.at(start)[0])
    if prefix.L[-1] < base + expected:
        return inf
    cell = int(np.searchsorted(prefix.L, base + expected, side="left")) - 1
    return float(prefix.breaks[cell] + (base + expected - prefix.L[cell]) / prefix.rates[cell])


def _cost_reached(prefix: Prefix, start: float, cost: float) -> float:
    """Return when the expected cost since ``start`` reaches ``cost``: the root of a quadratic in one cell."""
    L0, _, G0 = (float(v) for v in prefix.at(start))
    first = int(np.searchsorted(prefix.breaks, start, side="right")) - 1
    at_breaks = prefix.A * (prefix.L - L0) - (prefix.G - G0)
    later = np.nonzero(at_breaks[first + 1 :] >= cost)[0]
    if not len(later):
        return inf
    cell = first + int(later[0])
    # on a cell of rate l and weight a, with x past its start: C = C_k + a (L_k - L0) x + a l x^2 / 2
    begin = max(start, float(prefix.breaks[cell]))
    L, A, G = (float(v) for v in prefix.at(begin))
    rate, weight = float(prefix.rates[cell]), float(prefix.weights[cell])
    missing = cost - (A * (L - L0) - (G - G0))
    linear, square = weight * (L - L0), weight * rate / 2
    root = (-linear + sqrt(linear * linear + 4 * square * missing)) / (2 * square) if square > 0 else missing / linear
    return begin + root


def _schedule(prefix: Prefix, times: NDArray[np.float64]) -> OneSourceSchedule:
    return OneSourceSchedule(times, prefix.total(np.concatenate([prefix.breaks[:1], times])), exact=False)
