"""Poisson counts of which only a lower bound was seen."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc, gammaincc, gammaln, hyp1f1


def mean_at_least(least: ArrayLike, mean: ArrayLike) -> NDArray[np.float64]:
    """Return ``E[N | N >= least]`` of Poisson counts ``N`` of the given means.

    Parameters
    ----------
    least
        The counts seen, not negative; they need not be whole.
    mean
        The means, greater than 0, of a shape that fits.

    Notes
    -----
    ``mu P(N >= m - 1) / P(N >= m)``, written as ``mu + m / 1F1(1; m + 1; mu)`` up to the mode, where the tail
    underflows, and as ``mu + mu p(m - 1) / P(N >= m)`` beyond it, where the series overflows. For ``m = 1`` it is
    ``mu / (1 - exp(-mu))``, for a tiny mean it is ``m``.

    Examples
    --------
    >>> mean_at_least([0, 1, 20, 20], [3.0, 3.0, 0.001, 100.0]).round(3)
    array([  3.   ,   3.157,  20.   , 100.   ])
    """
    counts, means = np.broadcast_arrays(np.asarray(least, dtype=np.float64), np.asarray(mean, dtype=np.float64))
    series = counts / hyp1f1(1.0, counts + 1.0, np.minimum(means, counts))
    mode = np.maximum(counts, 1e-300)
    log_term = counts * np.log(means) - means - gammaln(mode)  # mu p(m - 1)
    tail = gammainc(mode, np.maximum(means, mode))
    expected: NDArray[np.float64] = means + np.where(means <= counts, series, np.exp(log_term) / tail)
    return expected


def log_at_least(least: ArrayLike, mean: ArrayLike) -> NDArray[np.float64]:
    """Return ``ln P(N >= least)`` of Poisson counts ``N`` of the given means.

    Parameters
    ----------
    least
        The counts seen, greater than 0; they need not be whole.
    mean
        The means, greater than 0, of a shape that fits.

    Notes
    -----
    ``ln p(m) + ln 1F1(1; m + 1; mu)`` up to the mode, the logarithm of the regularised incomplete gamma function beyond
    it. It is concave in the mean.

    Examples
    --------
    >>> log_at_least([1, 20], [3.0, 0.001]).round(3).tolist()
    [-0.051, -180.492]
    """
    counts, means = np.broadcast_arrays(np.asarray(least, dtype=np.float64), np.asarray(mean, dtype=np.float64))
    series = hyp1f1(1.0, counts + 1.0, np.minimum(means, counts))
    small = counts * np.log(means) - means - gammaln(counts + 1.0) + np.log(series)
    large = np.log1p(-gammaincc(counts, np.maximum(means, counts)))
    logs: NDArray[np.float64] = np.where(means <= counts, small, large)
    return logs
