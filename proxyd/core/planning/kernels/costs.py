"""The cost of a schedule of one source: expected items times their waiting time, weighted by importance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.model.intensity import PiecewiseConstant


@dataclass(frozen=True, eq=False)
class Prefix:
    """Prefix integrals of an intensity and an importance, exact at any time.

    ``C(s, f) = int_s^f lambda(t) int_t^f a(u) du dt = A(f) (L(f) - L(s)) - (G(f) - G(s))`` with
    ``L = int lambda``, ``A = int a`` and ``G = int lambda A``.

    Parameters
    ----------
    intensity, importance
        Over the same period; their breakpoints may differ.

    Notes
    -----
    Source: Eckstein, Gal and Reiner, equation (5), in the form of prefix sums: a query takes O(1) on
    the grid and O(log) elsewhere, without a matrix of costs.

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
        L, A, G = prefix_sums(lam, a, h)
        fields = {"breaks": rate.breaks, "rates": lam, "weights": a, "L": L, "A": A, "G": G}
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
        """Return ``C(start, finish)``: the cost of the items in between if a probe comes at ``finish``."""
        return float(self.total([start, finish]))

    def total(self, probes: ArrayLike) -> float:
        """Return the cost of probes at the given increasing times; the first time only starts the count."""
        L, A, G = self.at(probes)
        return float(np.sum(A[1:] * np.diff(L) - np.diff(G)))


def prefix_sums(
    rates: NDArray[np.float64], weights: NDArray[np.float64], lengths: ArrayLike = 1.0
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return L, A and G of ``Prefix`` at the edges of cells.

    Parameters
    ----------
    rates
        Rates of the cells, shape (..., cells); further axes hold several sources.
    weights
        Importance in the cells, shape (cells,), or of each source in the shape of the rates.
    lengths
        Lengths of the cells, shape (cells,) or one for all.

    Examples
    --------
    >>> [sums.tolist() for sums in prefix_sums(np.array([1.0, 2.0]), np.array([1.0, 1.0]))]
    [[0.0, 1.0, 3.0], [0.0, 1.0, 2.0], [0.0, 0.5, 3.5]]
    """
    h = np.asarray(lengths, dtype=np.float64)
    A = _sums(weights * h)
    return _sums(rates * h), A, _sums(rates * (A[..., :-1] * h + weights * h * h / 2))


def _sums(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate([np.zeros((*parts.shape[:-1], 1)), np.cumsum(parts, axis=-1)], axis=-1)
