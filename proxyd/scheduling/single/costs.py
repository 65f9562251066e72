"""The cost of a schedule of one source: expected items times how long they wait, weighted by importance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.model.intensity import PiecewiseConstant


@dataclass(frozen=True, eq=False)
class Prefix:
    """Prefix integrals of an intensity and an importance, exact at any time.

    ``C(s, f) = int_s^f lambda(t) int_t^f a(u) du dt = A(f) (L(f) - L(s)) - (G(f) - G(s))`` with
    ``L = int lambda``, ``A = int a`` and ``G = int lambda A``.

    Parameters
    ----------
    intensity, importance
        On the same period; their breakpoints may differ.

    Notes
    -----
    Source: Eckstein, Gal and Reiner, equation (5), in the prefix form of ALGORITHMS 1: O(1) a query on the grid, O(log)
    elsewhere, and no matrix of costs.

    Examples
    --------
    >>> week = Prefix(PiecewiseConstant.constant(2.0, 7.0), PiecewiseConstant.constant(1.0, 7.0))
    >>> week.cost(0.0, 7.0)
    49.0
    """

    breaks: NDArray[np.float64]
    rates: NDArray[np.float64]
    weights: NDArray[np.float64]
    L: NDArray[np.float64]
    A: NDArray[np.float64]
    G: NDArray[np.float64]

    def __init__(self, intensity: PiecewiseConstant, importance: PiecewiseConstant) -> None:
        if (intensity.start, intensity.stop) != (importance.start, importance.stop):
            raise ValueError("intensity and importance must be defined on the same period")
        rate, weight = intensity.refine(importance.breaks), importance.refine(intensity.breaks)
        h, lam, a = np.diff(rate.breaks), rate.values, weight.values
        A = np.concatenate([[0.0], np.cumsum(a * h)])
        fields = {
            "breaks": rate.breaks,
            "rates": lam,
            "weights": a,
            "L": np.concatenate([[0.0], np.cumsum(lam * h)]),
            "A": A,
            "G": np.concatenate([[0.0], np.cumsum(lam * (A[:-1] * h + a * h * h / 2))]),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def at(self, times: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return L, A and G at each of ``times``, shape of ``times``."""
        t = np.asarray(times, dtype=np.float64)
        cell = np.clip(np.searchsorted(self.breaks, t, side="right") - 1, 0, len(self.rates) - 1)
        h = t - self.breaks[cell]
        lam, a = self.rates[cell], self.weights[cell]
        A = self.A[cell] + a * h
        return self.L[cell] + lam * h, A, self.G[cell] + lam * (self.A[cell] * h + a * h * h / 2)

    def cost(self, start: float, finish: float) -> float:
        """Return ``C(start, finish)``: what items of the time between cost if a probe comes at ``finish``."""
        return float(self.total([start, finish]))

    def total(self, probes: ArrayLike) -> float:
        """Return the cost of probes at the given times, increasing; the first is where counting starts."""
        L, A, G = self.at(probes)
        return float(np.sum(A[1:] * np.diff(L) - np.diff(G)))
