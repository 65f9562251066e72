"""The cost of waiting: the expected delay of the items since a probe, by the shape of the week."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.planning.kernels.costs import prefix_sums
from proxyd.core.planning.kernels.losses import Losses

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class WeekCosts:
    """Costs between any two times for sources of some week shapes, at rate and weight 1 (``one_source.costs.Prefix``).

    Parameters
    ----------
    shapes
        Factors by slot of the week, shape (shapes, slots), each row scaled to mean 1.
    importance
        The cost of waiting by slot of the week, shape (slots,) or one row for each shape, scaled to mean 1; even by
        default.

    Examples
    --------
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
        self._L, self._A, self._G = prefix_sums(factors, weights)

    def between(self, shape_of: Ints, start: Floats, finish: Floats) -> Floats:
        """Return the expected items from ``start`` to ``finish`` times their waiting time at ``finish``.

        Parameters
        ----------
        shape_of
            Shape of each source, shape (n,).
        start, finish
            In slots from the beginning of some week, shape (n,).
        """
        week = np.floor(start / self._slots) * self._slots
        L0, _, G0 = self._at(shape_of, start - week)
        L1, A1, G1 = self._at(shape_of, finish - week)
        cost: Floats = A1 * (L1 - L0) - (G1 - G0)
        return cost

    def kept(self, losses: Losses, shape_of: Ints, start: Floats, finish: Floats) -> Floats:
        """Return what a probe at ``finish`` saves of the items since ``start``, in slots of waiting, shape (n,).

        >>> from proxyd.core.planning.kernels.losses import window
        >>> costs = WeekCosts(np.array([[1.0, 1.0, 4.0, 2.0]]))
        >>> late = Losses(window(1.0, delay=100.0))
        >>> costs.kept(late, np.array([0]), np.array([0.0]), np.array([3.0])).tolist()
        [200.0]
        """
        week = np.floor(start / self._slots) * self._slots
        until, since = (self._at(shape_of, time - week)[0] for time in (finish, start))
        kept: Floats = np.zeros(len(start))
        for step in losses.steps:
            kept += step.delay * (until - np.maximum(since, self._at(shape_of, finish - step.after - week)[0]))
        if losses.overwritten:
            kept -= losses.overwritten * np.expm1(-losses.rate * (until - since)) / losses.rate
        return kept

    def reached(self, shape: int, start: float, items: float) -> float:
        """Return when ``items`` items are expected since ``start`` at rate 1 and this shape, in slots.

        >>> WeekCosts(np.array([[1.0, 1.0, 4.0, 2.0]])).reached(0, 1.0, 1.0)
        2.25
        """
        row = self._L[shape]
        week, within = divmod(start, self._slots)
        begun = float(np.interp(within, np.arange(len(row)), row))
        weeks, rest = divmod(begun + items, float(row[-1]))
        slot = min(int(np.searchsorted(row, rest, side="right")) - 1, self._slots - 1)
        rate = float(row[slot + 1] - row[slot])
        part = (rest - float(row[slot])) / rate if rate > 0 else 0.0
        return float((week + weeks) * self._slots + slot + part)

    def sums(self, shape: int) -> Floats:
        """Return the items expected since the week began at each edge of its slots, at rate 1, shape (slots + 1,)."""
        sums: Floats = self._L[shape]
        return sums

    def at_slot(self, shape_of: Ints, slot: Ints) -> Floats:
        """Return the cost of a source's waiting items in a slot, relative to the mean; shape (n,)."""
        found: Floats = self._rates[shape_of, slot] * self._weights[shape_of, slot]
        return found

    def factor(self, shape: int, slot: int) -> float:
        """Return the same as ``at_slot`` for one source."""
        return float(self._rates[shape, slot] * self._weights[shape, slot])

    def _at(self, shape: Ints, time: Floats) -> tuple[Floats, Floats, Floats]:
        """Return L, A and G, which continue from week to week."""
        weeks = np.floor(time / self._slots)
        within = time - weeks * self._slots
        slot = np.minimum(within.astype(np.int64), self._slots - 1)
        h = within - slot
        rate, weight = self._rates[shape, slot], self._weights[shape, slot]
        L, A = self._L[shape, slot] + rate * h, self._A[shape, slot] + weight * h
        G = self._G[shape, slot] + rate * (self._A[shape, slot] * h + weight * h * h / 2)
        week_L, week_A, week_G = self._L[shape, -1], self._A[shape, -1], self._G[shape, -1]
        earlier = weeks * (weeks - 1) / 2 * week_A * week_L + weeks * week_A * L
        return weeks * week_L + L, weeks * week_A + A, weeks * week_G + earlier + G
