"""Synthetic sources: Zipf rates, weeks, Poisson events. All randomness comes from the given generator."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

import numpy as np
from numpy.typing import NDArray


def zipf_rates(sources: int, *, exponent: float, total_per_s: float) -> NDArray[np.float64]:
    """Return update rates proportional to ``1 / rank ** exponent``, largest first, that sum to ``total_per_s``.

    >>> zipf_rates(3, exponent=1.0, total_per_s=11.0)
    array([6., 3., 2.])
    """
    weights = np.arange(1, sources + 1, dtype=np.float64) ** -exponent
    rates: NDArray[np.float64] = weights * (total_per_s / weights.sum())
    return rates


@dataclass(frozen=True, slots=True)
class Week:
    """A periodic intensity: pieces of equal length, each with a factor of the mean rate.

    Parameters
    ----------
    period_s
        Length of the week in seconds.
    factors
        Factors of the pieces in order, not negative; only their proportions count.
    phase_s
        The time at which a week begins.

    >>> Week(4.0, (3.0, 1.0)).expected(np.array([0.0, 2.0, 4.0, 6.0]))
    array([0., 3., 4., 7.])
    """

    period_s: float
    factors: tuple[float, ...]
    phase_s: float = 0.0

    def __post_init__(self) -> None:
        if self.period_s <= 0 or not self.factors or min(self.factors) < 0 or sum(self.factors) <= 0:
            raise ValueError("a week needs a length and factors of which none is negative and one is positive")

    def edges_s(self, start_s: float, stop_s: float) -> NDArray[np.float64]:
        """Return ``start_s``, ``stop_s`` and the times between them at which the intensity changes."""
        piece_s = self.period_s / len(self.factors)
        first = floor((start_s - self.phase_s) / piece_s) + 1
        last = ceil((stop_s - self.phase_s) / piece_s)
        inside = self.phase_s + np.arange(first, last, dtype=np.float64) * piece_s
        return np.concatenate([[start_s], inside[(inside > start_s) & (inside < stop_s)], [stop_s]])

    def expected(self, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the expected events at rate 1 from the beginning of a week to each time: ``t`` on average."""
        count = len(self.factors)
        pieces = (times_s - self.phase_s) * (count / self.period_s)
        heights = np.array(self.factors) * (self.period_s / sum(self.factors))
        weeks = np.floor(pieces / count)
        levels = np.concatenate([[0.0], np.cumsum(heights)])
        within: NDArray[np.float64] = np.interp(pieces - weeks * count, np.arange(count + 1), levels)
        total: NDArray[np.float64] = weeks * self.period_s + within
        return total


STEADY = Week(1.0, (1.0,))
"""The week of a source with a constant rate."""


def poisson_events(
    rate_per_s: float, week: Week, *, start_s: float, stop_s: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the times in [``start_s``, ``stop_s``) of a Poisson process, in ascending order.

    Parameters
    ----------
    rate_per_s
        Mean over a whole week.

    Notes
    -----
    It uses inversion, which is exact: given their number, the events are uniform in expected-events time.

    Examples
    --------
    >>> times = poisson_events(2.0, STEADY, start_s=0.0, stop_s=500.0, rng=np.random.Generator(np.random.PCG64(1)))
    >>> 900 < len(times) < 1100
    True
    """
    edges = week.edges_s(start_s, stop_s)
    expected = week.expected(edges)
    expected -= expected[0]
    count = rng.poisson(rate_per_s * expected[-1])
    times: NDArray[np.float64] = np.interp(np.sort(rng.random(count)) * expected[-1], expected, edges)
    return times
