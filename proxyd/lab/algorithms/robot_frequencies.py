"""Access frequencies of a robot that is always busy: pages change, and each access takes a random time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from proxyd.core.errors import SchedulingError
from proxyd.core.model.arrays import Floats

_BISECTIONS = 80
_NEWTON_STEPS = 25


@dataclass(frozen=True, slots=True)
class GammaAccess:
    """Gamma-distributed access times; shape 1 is exponential, an infinite shape constant.

    >>> float(GammaAccess(2.0).transform(np.array([0.5]))[0])
    0.5
    """

    mean: float
    shape: float = 1.0

    def transform(self, mu: Floats) -> Floats:
        """Return ``(1 + mu mean / shape)^-shape``, or its limit for an infinite shape."""
        if np.isinf(self.shape):
            return np.exp(-mu * self.mean)
        powers: Floats = (1 + mu * self.mean / self.shape) ** -self.shape
        return powers


@dataclass(frozen=True, eq=False)
class RobotFrequencies:
    """Each page's share of the accesses, adding up to 1, and the resulting cost.

    ``cost`` is ``sum c_i r_i``, where r_i is the fraction of time that page i is out of date. It is a lower bound for
    any order of accesses if they are evenly spaced, and exact if they are randomised.

    Examples
    --------
    >>> evenly_spaced([1.0, 1.0], GammaAccess(1.0)).frequencies.tolist()
    [0.5, 0.5]
    """

    frequencies: Floats
    cost: float


def evenly_spaced(mu: ArrayLike, access: GammaAccess, weights: ArrayLike | None = None) -> RobotFrequencies:
    """Return the frequencies of least cost if the accesses to each page are evenly spaced.

    Parameters
    ----------
    mu
        Mutation rate of each page, shape (n,), greater than 0, per unit of the access time.
    weights
        Cost of an outdated page, shape (n,), not negative; ``mu`` by default.

    Notes
    -----
    Source: Coffman, Liu and Weber, Theorem 3.3. For weights proportional to ``mu``, ``f_i ~ ln(1/h_i)`` (10); in
    general the conditions (8): ``(c_i/mu_i)(1 - y + y ln y) = nu`` with ``y = h_i^(1/f_i)``, monotone in y and so in
    nu. Pages with ``c_i/mu_i`` not above nu are not accessed.

    Examples
    --------
    >>> evenly_spaced([1.0, 3.0], GammaAccess(1.0, np.inf)).frequencies.tolist()
    [0.25, 0.75]
    """
    rates, costs = _check_arguments(mu, weights)
    log_h = np.log(access.transform(rates))
    value = costs / rates

    def shares(nu: float) -> Floats:
        y = _root(np.minimum(nu / np.maximum(value, 1e-300), 1.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = np.where((value > nu) & (y > 0), log_h / np.log(y), 0.0)
        return found

    frequencies = _normalise(shares, float(value.max()))
    return RobotFrequencies(frequencies, float(costs @ even_staleness(rates, access, frequencies)))


def randomise(mu: ArrayLike, access: GammaAccess, weights: ArrayLike | None = None) -> RobotFrequencies:
    """Return the frequencies of least cost if each access is drawn independently.

    The parameters are those of ``evenly_spaced``.

    Notes
    -----
    Source: Coffman, Liu and Weber, Lemma 4.1 and (15); for weights proportional to ``mu``, ``f_i ~ 1/h_i - 1`` (16).
    If (15) is negative, the page is not accessed and the others are solved again.

    Examples
    --------
    >>> randomise([1.0, 3.0], GammaAccess(1.0)).frequencies.tolist()
    [0.25, 0.75]
    """
    rates, costs = _check_arguments(mu, weights)
    h = access.transform(rates)
    odds, root = 1 / h - 1, np.sqrt(costs / rates)
    active = root > 0
    while True:
        # with sum f = 1: sqrt(nu E[X]) = sum root odds / (1 + sum odds) over the active pages
        level = float(root[active] @ odds[active]) / (1 + float(odds[active].sum()))
        if (root[active] >= level).all():
            break
        active &= root >= level
    frequencies = np.where(active, (root / level - 1) * odds, 0.0)
    return RobotFrequencies(frequencies, float(costs @ drawn_staleness(rates, access, frequencies)))


def even_staleness(mu: Floats, access: GammaAccess, f: Floats) -> Floats:
    """Return the outdated fractions for evenly spaced accesses; pages without accesses are always out of date.

    >>> even_staleness(np.array([1.0]), GammaAccess(1.0), np.array([0.0])).tolist()
    [1.0]
    """
    log_h = np.log(access.transform(mu))
    stale = np.ones(len(mu))
    used = f > 0
    stale[used] = 1 - f[used] / (mu[used] * access.mean) * -np.expm1(log_h[used] / f[used])
    return stale


def drawn_staleness(mu: Floats, access: GammaAccess, f: Floats) -> Floats:
    """Return the outdated fractions if each access is drawn independently (Lemma 4.1).

    >>> drawn_staleness(np.array([1.0]), GammaAccess(1.0), np.array([0.0])).tolist()
    [1.0]
    """
    h = access.transform(mu)
    stale: Floats = 1 - f / (mu * access.mean) * (1 - h) / (1 - h + f * h)
    return stale


def cycle_staleness(mu: ArrayLike, access: GammaAccess, cycle: ArrayLike) -> Floats:
    """Return the fraction of time that each page is out of date under a repeated order of accesses.

    Notes
    -----
    Source: Coffman, Liu and Weber, (3) with Lemma 3.1. A page that is never accessed is always out of date.

    Examples
    --------
    >>> cycle_staleness([1.0], GammaAccess(1.0, np.inf), [0]).round(4).tolist()
    [0.3679]
    """
    rates, _ = _check_arguments(mu, None)
    h = access.transform(rates)
    order = np.asarray(cycle, dtype=np.int64)
    stale = np.ones(len(rates))
    for page in range(len(rates)):
        at = np.flatnonzero(order == page)
        if len(at):
            gaps = np.diff(np.append(at, at[0] + len(order)))
            fresh = np.sum(1 - h[page] ** gaps) / rates[page]
            stale[page] = 1 - fresh / (len(order) * access.mean)
    return stale


def _check_arguments(mu: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    rates = np.asarray(mu, dtype=np.float64)
    costs = rates if weights is None else np.asarray(weights, dtype=np.float64)
    if rates.ndim != 1 or not len(rates) or np.any(rates <= 0) or not np.all(np.isfinite(rates)):
        raise SchedulingError("mutation rates must be finite and greater than 0")
    if costs.shape != rates.shape or np.any(costs < 0) or not costs.any():
        raise SchedulingError("there must be one weight for each page, none negative, one of them positive")
    return rates, costs


def _root(level: Floats) -> Floats:
    """Return y in (0, 1] with ``1 - y + y ln y = level``.

    The left side is convex, falls from 1 to 0 and is at least ``(1 - y)^2 / 2``: Newton's method, started where that
    equals the level, climbs to the root without passing it.
    """
    y: Floats = np.maximum(1 - np.sqrt(2 * level), 1e-300)
    for _ in range(_NEWTON_STEPS):
        slope = np.log(y)
        step = (1 - y + y * slope - level) / np.where(slope < 0, slope, -1.0)
        y = np.minimum(np.maximum(y - step, y), 1.0)
    return y


def _normalise(shares: Callable[[float], Floats], most: float) -> Floats:
    """Return the shares at the level at which they add up to 1; they fall as the level rises.

    At the level where a page joins, its share jumps, in double precision, from 0 to a small value: the missing part
    is interpolated between the shares just above and just below.
    """
    low, high = 0.0, most
    for _ in range(_BISECTIONS):
        level = (low + high) / 2
        if shares(level).sum() > 1:
            low = level
        else:
            high = level
    less = shares(high)
    more = shares(low) if low > 0 else less * (1 / less.sum())
    if more.sum() == less.sum():
        return more
    mixed: Floats = less + (more - less) * (1 - less.sum()) / (more.sum() - less.sum())
    return mixed
