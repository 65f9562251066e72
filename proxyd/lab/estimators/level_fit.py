"""Maximum-likelihood levels for counts over several levels: expectation, maximisation, acceleration."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc, gammaincc, gammaln, hyp1f1, xlogy

from proxyd.lab.estimators.rate_prior import RatePrior

NEGLIGIBLE = 1e-12
_TINY = 1e-300
_FARTHEST = 256.0
_TOLERANCE = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Mixed:
    """Evidence about some levels: events known to be of one, and rows of counts over several.

    Parameters
    ----------
    known, exposure_s
        Events known to be of each level, and the exposure of all evidence, including rows, shape (levels,).
    overlap_s
        The seconds that each row spends at each level, shape (rows, levels).
    counts, at_least
        Items seen in each row, and whether there may have been more, shape (rows,).
    weights
        How often each row counts, shape (rows,).

    Examples
    --------
    >>> seen = Mixed.empty(2).with_row(np.array([1.0, 1.0]), 5.0, at_least=False, weight=1.0)
    >>> seen = replace(seen, known=np.array([0.0, 2.0]), exposure_s=np.array([1.0, 3.0]))
    >>> maximise(seen, RatePrior()).levels.round(3)
    array([4., 1.])
    """

    known: NDArray[np.float64]
    exposure_s: NDArray[np.float64]
    overlap_s: NDArray[np.float64]
    counts: NDArray[np.float64]
    at_least: NDArray[np.bool_]
    weights: NDArray[np.float64]

    @classmethod
    def empty(cls, levels: int) -> Mixed:
        """Return empty evidence."""
        none = np.zeros(0)
        return cls(np.zeros(levels), np.zeros(levels), np.zeros((0, levels)), none, none.astype(bool), none)

    def with_row(self, overlap_s: NDArray[np.float64], count: float, *, at_least: bool, weight: float) -> Mixed:
        """Return the evidence with another row; the caller has added the exposure."""
        return replace(
            self,
            overlap_s=np.vstack([self.overlap_s, overlap_s]),
            counts=np.append(self.counts, count),
            at_least=np.append(self.at_least, at_least),
            weights=np.append(self.weights, weight),
        )

    def discounted(self, weight: float) -> Mixed:
        """Return all evidence with its weight multiplied by ``weight``, without rows that then weigh nothing."""
        kept = self.weights * weight > NEGLIGIBLE
        return Mixed(
            self.known * weight,
            self.exposure_s * weight,
            self.overlap_s[kept],
            self.counts[kept],
            self.at_least[kept],
            self.weights[kept] * weight,
        )

    def merged(self) -> Mixed:
        """Return the evidence with about three quarters of the rows: the pairs that lose least are averaged.

        Notes
        -----
        Ward 1963: merging two counts loses the information ``s t / (s + t)`` times the squared distance between their
        distributions of time, for weights ``s`` and ``t``. Rows that may hide items must also be of similar length
        and size.
        """
        members = _pairs(self._losses())
        weighted = members * self.weights
        totals = weighted.sum(axis=1)
        return replace(
            self,
            overlap_s=weighted @ self.overlap_s / totals[:, None],
            counts=weighted @ self.counts / totals,
            at_least=(members @ self.at_least) > 0,
            weights=totals,
        )

    def _losses(self) -> NDArray[np.float64]:
        """Return the loss of merging each pair, shape (rows, rows), infinite for pairs that are not allowed."""
        spans_s = self.overlap_s.sum(axis=1)
        logs = np.where(self.at_least, [np.log(spans_s), np.log(self.counts)], 0.0).T
        places = np.hstack([self.overlap_s / spans_s[:, None], logs])
        squares = (places**2).sum(axis=1)
        distances = np.maximum(squares[:, None] + squares - 2 * places @ places.T, 0.0)
        sizes = self.weights * spans_s
        losses = distances * (sizes[:, None] * sizes) / (sizes[:, None] + sizes)
        allowed = np.triu(self.at_least[:, None] == self.at_least, k=1)
        found: NDArray[np.float64] = np.where(allowed, losses, np.inf)
        return found


def _pairs(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return which rows (second axis) make up each row after a quarter of them was merged with another."""
    rows = len(losses)
    into = np.arange(rows)
    taken = np.zeros(rows, dtype=bool)
    for number in np.argsort(losses, axis=None, kind="stable"):
        one, other = divmod(int(number), rows)
        if losses[one, other] == np.inf or np.count_nonzero(taken) >= rows / 2:
            break
        if not (taken[one] or taken[other]):
            into[other] = one
            taken[[one, other]] = True
    members: NDArray[np.float64] = (np.unique(into)[:, None] == into).astype(np.float64)
    return members


@dataclass(frozen=True, slots=True, eq=False)
class LevelFit:
    """The most likely levels, their log-likelihood up to a constant, and the course of the fit."""

    levels: NDArray[np.float64]
    log_likelihood: float
    steps: int
    converged: bool


def maximise(seen: Mixed, prior: RatePrior, *, max_steps: int = 500) -> LevelFit:
    """Return the maximum-likelihood levels for the evidence and the prior.

    Parameters
    ----------
    seen
        The evidence.
    prior
        Prior of each level.
    max_steps
        Most steps, each of two EM steps and one leap; it ends when an EM step moves less than 1e-10 of the events.

    Notes
    -----
    SQUAREM (Varadhan and Roland 2008, scheme S3) on the logarithms of the levels: a leap along two EM steps, made
    only if it is likelier than they are. EM steps never lose likelihood, so the whole does not either.
    """
    events = float(seen.known.sum() + seen.counts @ seen.weights)
    enough = _TOLERANCE * (1.0 + events)
    exposure_s = float(seen.exposure_s.sum())
    mean = (events + prior.events) / (exposure_s + prior.exposure_s) if exposure_s > 0 else prior.mean_per_s
    levels = prior.levels(mean * seen.exposure_s, seen.exposure_s)
    for step in range(max_steps):
        once = em_step(levels, seen, prior)
        twice = em_step(once, seen, prior)
        if float(np.abs(once - levels) @ seen.exposure_s) <= enough:
            return LevelFit(twice, log_likelihood(twice, seen, prior), step + 1, converged=True)
        leap = _leap(levels, once, twice)
        gains = log_likelihood(leap, seen, prior) > log_likelihood(twice, seen, prior)
        levels = leap if gains else twice
    return LevelFit(levels, log_likelihood(levels, seen, prior), max_steps, converged=False)


def em_step(levels: NDArray[np.float64], seen: Mixed, prior: RatePrior) -> NDArray[np.float64]:
    """Return the levels after one step: expect and split the items of each row, then items over exposure."""
    means = np.maximum(seen.overlap_s @ levels, _TINY)
    expected = np.where(seen.at_least, mean_at_least(seen.counts, means), seen.counts) * seen.weights
    split = levels * ((expected / means) @ seen.overlap_s)
    return prior.levels(seen.known + split, seen.exposure_s)


def log_likelihood(levels: NDArray[np.float64], seen: Mixed, prior: RatePrior) -> float:
    """Return the log-likelihood of the evidence and the prior, up to a constant."""
    means = np.maximum(seen.overlap_s @ levels, _TINY)
    censored = seen.at_least
    hidden_s = seen.weights[censored] @ seen.overlap_s[censored]
    rows = np.where(censored, log_at_least(np.maximum(seen.counts, _TINY), means), seen.counts * np.log(means))
    known = xlogy(seen.known + prior.events, levels).sum() - levels @ (seen.exposure_s - hidden_s + prior.exposure_s)
    return float(known + seen.weights @ rows)


def _leap(levels: NDArray[np.float64], once: NDArray[np.float64], twice: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return where two steps lead if they continue as they began."""
    start, middle, end = (np.log(np.maximum(x, _TINY)) for x in (levels, once, twice))
    first, second = middle - start, end - 2 * middle + start
    bend = float(np.linalg.norm(second))
    length = min(max(float(np.linalg.norm(first)) / bend, 1.0), _FARTHEST) if bend > 0 else 1.0
    leap = start + 2 * length * first + length**2 * second
    levels_there: NDArray[np.float64] = np.exp(np.clip(leap, np.log(_TINY), 100.0))
    return levels_there


def mean_at_least(least: ArrayLike, mean: ArrayLike) -> NDArray[np.float64]:
    """Return ``E[N | N >= least]`` of Poisson counts ``N`` of the given means.

    Parameters
    ----------
    least
        The counts seen, not negative; they need not be whole.
    mean
        The means, greater than 0, of a compatible shape.

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
        The means, greater than 0, of a compatible shape.

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
