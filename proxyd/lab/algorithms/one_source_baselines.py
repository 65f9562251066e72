"""Baselines of the one-source problem: uniform, threshold and first arrival."""

from __future__ import annotations

from collections.abc import Callable
from math import expm1, inf, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from proxyd.core.errors import InvalidScheduleError, UnknownPolicyError
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.core.planning.kernels.one_source import OneSourceSchedule

_MOST_PROBES = 1_000_000
_ROUNDING = 1e-6  # of a step: a crossing this soon after a slot counts as on it


def uniform(prefix: Prefix, probes: int) -> OneSourceSchedule:
    """Return ``probes`` evenly spaced probes, the last at the end of the period.

    Examples
    --------
    >>> from proxyd.core.model.intensity import PiecewiseConstant
    >>> one = PiecewiseConstant.constant(1.0, 4.0)
    >>> uniform(Prefix(one, one), 2).cost
    4.0
    """
    _check_number(probes)
    return _schedule(prefix, np.linspace(prefix.breaks[0], prefix.breaks[-1], probes + 1)[1:])


def threshold(prefix: Prefix, cost: float, *, step: float | None = None) -> OneSourceSchedule:
    """Return a probe whenever the expected cost since the last one reaches ``cost``.

    The crossing is found exactly, cell by cell. With ``step``, probes are made only at its multiples: each at the
    first one not before its crossing. Counting continues from the crossing, so rounding does not add up. Crossings in
    the same step share a probe. The last probe is at the end of the period.

    Notes
    -----
    Source: Gal and Eckstein 2001, as the papers' baseline.

    Examples
    --------
    >>> from proxyd.core.model.intensity import PiecewiseConstant
    >>> one = PiecewiseConstant.constant(1.0, 4.0)
    >>> threshold(Prefix(one, one), 2.0).times.tolist()
    [2.0, 4.0]
    >>> threshold(Prefix(one, one), 0.5, step=1.5).times.tolist()
    [1.5, 3.0, 4.0]
    """
    if not 0 < cost < inf:
        raise InvalidScheduleError("the threshold must be greater than 0")
    return _greedy(prefix, lambda start: _cost_reached(prefix, start, cost), step)


def first_arrival(prefix: Prefix, probability: float, *, step: float | None = None) -> OneSourceSchedule:
    """Return a probe whenever the probability of an item since the last one reaches ``probability``.

    It ignores importance. ``step`` and the last probe are as for ``threshold``.

    Notes
    -----
    Source: Pandey et al. 2003 and Gal and Eckstein 2001: probe when ``1 - exp(-Lambda)`` reaches pi.

    Examples
    --------
    >>> from proxyd.core.model.intensity import PiecewiseConstant
    >>> one = PiecewiseConstant.constant(1.0, 4.0)
    >>> first_arrival(Prefix(one, one), 0.9).times.round(3).tolist()
    [2.303, 4.0]
    """
    if not 0 < probability < 1:
        raise InvalidScheduleError("the probability must lie between 0 and 1")
    return _probes_by_expectation(prefix, -log1p(-probability), step)


def parameter_for(
    prefix: Prefix, policy: str, probes: int, *, step: float | None = None
) -> tuple[float, OneSourceSchedule]:
    """Return the parameter at which ``threshold`` or ``first-arrival`` makes ``probes`` probes, and its schedule.

    Bisection finds the smallest parameter that makes no more probes without ``step``: there all probes are due at
    equal cost or probability, the last exactly at the end of the period. A coarse ``step`` may join probes; then
    there are fewer.

    Notes
    -----
    With the parameter taken without ``step``, the results equal the figures of ``docs/algorithms.md`` on the hourly
    grid and, for first arrival, on the 1-minute grid. With very many items between probes, a probability may round to
    1.

    Examples
    --------
    >>> from proxyd.core.model.intensity import PiecewiseConstant
    >>> one = PiecewiseConstant.constant(1.0, 4.0)
    >>> parameter, schedule = parameter_for(Prefix(one, one), "threshold", 2)
    >>> round(parameter, 9), schedule.times.round(9).tolist()
    (2.0, [2.0, 4.0])
    """
    _check_number(probes)
    if policy not in ("threshold", "first-arrival"):
        raise UnknownPolicyError(f"{policy!r} has no parameter; use threshold or first-arrival")
    by_cost = policy == "threshold"
    make: Callable[..., OneSourceSchedule] = threshold if by_cost else _probes_by_expectation
    low, high = 0.0, 1.0 + (prefix.cost(prefix.breaks[0], prefix.breaks[-1]) if by_cost else float(prefix.L[-1]))
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if make(prefix, middle, step=None).probes > probes:
            low = middle
        else:
            high = middle
    return high if by_cost else -expm1(-high), make(prefix, high, step=step)


def _check_number(probes: int) -> None:
    if probes < 1:
        raise InvalidScheduleError("a schedule has at least one probe, at the end of its period")
    if probes > _MOST_PROBES:
        raise InvalidScheduleError(f"{probes} probes are too many; at most {_MOST_PROBES} can be made")


def _probes_by_expectation(prefix: Prefix, expected: float, step: float | None) -> OneSourceSchedule:
    """Return a probe whenever ``expected`` items are expected since the last one."""
    return _greedy(prefix, lambda start: _items_reached(prefix, start, expected), step)


def _greedy(prefix: Prefix, next_after: Callable[[float], float], step: float | None) -> OneSourceSchedule:
    start, stop = float(prefix.breaks[0]), float(prefix.breaks[-1])
    times: list[float] = []
    now = start
    while (later := next_after(now)) < stop:
        if later <= now:
            raise InvalidScheduleError("the parameter is too small: the next probe would be due at once")
        if len(times) >= _MOST_PROBES:
            raise InvalidScheduleError(f"the parameter is too small: more than {_MOST_PROBES} probes would be due")
        now = later
        times.append(now)
    due = np.array(times)
    if step is not None:
        due = np.unique(start + np.ceil((due - start) / step - _ROUNDING) * step)
        due = due[due < stop - _ROUNDING * step]
    return _schedule(prefix, np.append(due, stop))


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
