"""Functions of time that are constant between breakpoints: update rates, weights, weeks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, eq=False)
class PiecewiseConstant:
    """``values[k]`` from ``breaks[k]`` up to ``breaks[k + 1]``.

    Parameters
    ----------
    breaks
        Times, strictly increasing, shape (k + 1,).
    values
        Shape (k,), finite and not negative.

    Examples
    --------
    >>> rate = PiecewiseConstant([0.0, 2.0, 3.0], [1.0, 4.0])
    >>> rate.integral(2.5), rate.at(2.0)
    (4.0, 4.0)
    """

    breaks: NDArray[np.float64]
    values: NDArray[np.float64]

    def __init__(self, breaks: ArrayLike, values: ArrayLike) -> None:
        times = np.asarray(breaks, dtype=np.float64)
        levels = np.asarray(values, dtype=np.float64)
        if times.ndim != 1 or levels.shape != (len(times) - 1,) or not len(levels):
            raise ValueError(f"{len(times)} breakpoints need {len(times) - 1} values, at least one")
        if not np.all(np.diff(times) > 0):
            raise ValueError("breakpoints must increase")
        if not np.all(np.isfinite(levels)) or np.any(levels < 0):
            raise ValueError("values must be finite and not negative")
        object.__setattr__(self, "breaks", times)
        object.__setattr__(self, "values", levels)

    @classmethod
    def constant(cls, value: float, stop: float, start: float = 0.0) -> PiecewiseConstant:
        """Return a function with the value ``value`` from ``start`` to ``stop``."""
        return cls([start, stop], [value])

    @property
    def start(self) -> float:
        """The first time at which it is defined."""
        return float(self.breaks[0])

    @property
    def stop(self) -> float:
        """The time at which it ends."""
        return float(self.breaks[-1])

    def at(self, time: float) -> float:
        """Return the value at ``time``, the last one at ``stop``."""
        index = int(np.searchsorted(self.breaks, time, side="right")) - 1
        return float(self.values[min(max(index, 0), len(self.values) - 1)])

    def integral(self, time: ArrayLike) -> float | NDArray[np.float64]:
        """Return the integral from ``start`` to each ``time``; shape of ``time``."""
        sums = np.concatenate([[0.0], np.cumsum(self.values * np.diff(self.breaks))])
        result = np.interp(np.asarray(time, dtype=np.float64), self.breaks, sums)
        return float(result) if result.ndim == 0 else result

    def repeat(self, times: int) -> PiecewiseConstant:
        """Return the function repeated ``times`` times in a row."""
        period = self.stop - self.start
        breaks = np.concatenate([self.breaks[:-1] + period * k for k in range(times)] + [[self.start + period * times]])
        return PiecewiseConstant(breaks, np.tile(self.values, times))

    def refine(self, breaks: Sequence[float] | NDArray[np.float64]) -> PiecewiseConstant:
        """Return the same function with those of ``breaks`` added that lie inside it."""
        inside = np.asarray(breaks, dtype=np.float64)
        inside = inside[(inside > self.start) & (inside < self.stop)]
        merged = np.union1d(self.breaks, inside)
        index = np.searchsorted(self.breaks, merged[:-1], side="right") - 1
        return PiecewiseConstant(merged, self.values[index])
