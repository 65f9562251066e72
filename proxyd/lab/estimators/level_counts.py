"""Weekly intensities from gaps that span several intervals: counts, full windows, bits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import exp, inf, log

import numpy as np
from numpy.typing import NDArray

from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.rates.evidence import ChangedBit, Evidence, ItemTimes
from proxyd.core.rates.week_bins import WeekBins
from proxyd.lab.estimators.level_fit import NEGLIGIBLE, LevelFit, Mixed, maximise
from proxyd.lab.estimators.rate_prior import WEIGHTLESS, RatePrior


@dataclass(frozen=True, slots=True, eq=False)
class CountFit:
    """A fitted week, and the course of the fit.

    Parameters
    ----------
    intensity
        One week in items per second, from 0 to the length of the week.
    log_likelihood
        Log-likelihood of the evidence and the prior, up to a constant that does not depend on the intensity.
    steps
        Number of steps.
    converged
        Whether the last step moved less than the tolerance.
    """

    intensity: PiecewiseConstant
    log_likelihood: float
    steps: int
    converged: bool


def fit_counts(
    evidence: Iterable[Evidence],
    bins: WeekBins,
    *,
    prior: RatePrior = WEIGHTLESS,
    half_life_s: float = inf,
    max_steps: int = 500,
) -> CountFit:
    """Return the maximum-likelihood week for evidence of any kinds.

    Parameters
    ----------
    evidence
        In any order; empty and negative periods add nothing.
    bins
        The intervals in which the intensity is constant.
    prior
        Prior of each level; weightless for maximum likelihood, where gaps longer than the intervals may leave several
        weeks equally likely.
    half_life_s
        Seconds before the last evidence at which evidence counts half.
    max_steps
        Most steps of the iteration.

    Notes
    -----
    EM (Dempster, Laird and Rubin 1977): the E step expects ``E[N | N >= m]`` items in a gap whose window was full (a
    changed bit is ``m = 1``), and splits what was seen or expected in proportion to intensity times overlap; the M step
    is items over exposure. The problem is concave, so every maximum is the highest. Steps are accelerated by SQUAREM,
    and the likelihood never decreases. The start is the mean rate everywhere.

    Examples
    --------
    >>> from proxyd.core.rates.evidence import ItemCount
    >>> bins = WeekBins([0.0, 1.0, 4.0], anchor_s=0.0)
    >>> fit = fit_counts([ItemCount(0.0, 2.0, 5), ItemCount(2.0, 4.0, 2), ItemCount(4.0, 5.0, 4)], bins)
    >>> fit.intensity.values.round(3), fit.converged
    (array([4., 1.]), True)
    """
    estimator = CountIntensity(bins, prior=prior, half_life_s=half_life_s, max_rows=None)
    for one in evidence:
        estimator.update(one)
    return estimator.fit(max_steps=max_steps)


@dataclass(slots=True)
class CountIntensity:
    """The maximum-likelihood week for the evidence so far: ``fit_counts``, step by step.

    It keeps events and exposure of each level, and a row for each gap that spans several levels or whose window was
    full. ``max_rows`` bounds the memory: beyond it, the most similar pairs of gaps are averaged and count for both.
    Up to then the estimate equals the batch's, afterwards it is close: counts lose only resolution, since the sum of
    two counts is a count; full windows and bits are averaged with the most similar ones.

    Parameters
    ----------
    bins
        The intervals in which the intensity is constant; by default the 168 hours of the week.
    prior
        Prior of each level; weightless for maximum likelihood.
    half_life_s
        Seconds after which evidence counts half; by default none is forgotten.
    max_rows
        Rows kept, each with one number for each level, at least 2; ``None`` for all.

    Raises
    ------
    ValueError
        There are fewer than 2 rows.

    Notes
    -----
    See ``fit_counts``. With gaps of half a day over 28 intervals, 5 items a day, 1,500 probes and 128 rows, the mean
    error of a level was 0.88 items a day against 0.79 without a bound for counts, 1.30 against 0.86 for windows of 4
    items, and the rate was within 2 %. Each request fits the estimate again from the mean rate, so it depends only on
    the evidence, not on earlier requests.

    Examples
    --------
    >>> from proxyd.core.rates.evidence import ItemCount
    >>> week = CountIntensity(WeekBins([0.0, 1.0, 4.0], anchor_s=0.0))
    >>> for one in (ItemCount(0.0, 2.0, 5), ItemCount(2.0, 4.0, 2), ItemTimes(4.0, 5.0, (4.1, 4.2, 4.5, 4.8))):
    ...     week.update(one)
    >>> week.estimate().values.round(3)
    array([4., 1.])
    """

    bins: WeekBins = field(default_factory=lambda: WeekBins.equal(168))
    prior: RatePrior = WEIGHTLESS
    half_life_s: float = inf
    max_rows: int | None = 128
    as_of_s: float = -inf
    seen: Mixed = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.max_rows is not None and self.max_rows < 2:
            raise ValueError("counts and full windows need at least 2 rows")
        self.seen = Mixed.empty(self.bins.levels)

    def update(self, evidence: Evidence) -> None:
        """Add the result of one probe; empty and negative periods and "at least 0" add nothing."""
        count, at_least = _count(evidence)
        if evidence.until_s <= evidence.since_s or (at_least and count == 0):
            return
        weight = self._discount_to(evidence.until_s)
        if weight < NEGLIGIBLE:
            return
        overlap_s = self.bins.exposure_s(evidence.since_s, evidence.until_s)[0]
        self.seen = replace(self.seen, exposure_s=self.seen.exposure_s + weight * overlap_s)
        if isinstance(evidence, ItemTimes):
            self._know(weight * self.bins.events(evidence))
        elif not at_least and np.count_nonzero(overlap_s) == 1:
            self._know(np.where(overlap_s > 0, weight * count, 0.0))
        elif count > 0:
            self.seen = self.seen.with_row(overlap_s, count, at_least=at_least, weight=weight)
            if self.max_rows is not None and len(self.seen.counts) > self.max_rows:
                self.seen = self.seen.merged()

    def fit(self, *, max_steps: int = 500) -> CountFit:
        """Return the most likely week, and the course of the fit."""
        fit = self._fit(max_steps)
        return CountFit(self.bins.intensity(fit.levels), fit.log_likelihood, fit.steps, fit.converged)

    def estimate(self) -> PiecewiseConstant:
        """Return one week of intensity in items per second, from 0 to the length of the week."""
        return self.fit().intensity

    def rate_per_s(self) -> float:
        """Return the mean update rate over a week in items per second."""
        return self.bins.mean(self._fit(500).levels)

    def _fit(self, max_steps: int) -> LevelFit:
        return maximise(self.seen, self.prior, max_steps=max_steps)

    def _know(self, events: NDArray[np.float64]) -> None:
        self.seen = replace(self.seen, known=self.seen.known + events)

    def _discount_to(self, time_s: float) -> float:
        """Age the evidence to ``time_s`` and return the weight of new evidence that ends then."""
        if time_s <= self.as_of_s:
            return exp(-log(2) * (self.as_of_s - time_s) / self.half_life_s)
        if self.as_of_s > -inf and self.half_life_s < inf:
            self.seen = self.seen.discounted(exp(-log(2) * (time_s - self.as_of_s) / self.half_life_s))
        self.as_of_s = time_s
        return 1.0


def _count(evidence: Evidence) -> tuple[float, bool]:
    """Return the number of items seen, and whether there may have been more."""
    if isinstance(evidence, ItemTimes):
        return float(len(evidence.times_s)), False
    if isinstance(evidence, ChangedBit):
        return float(evidence.changed), evidence.changed
    return float(evidence.count), evidence.at_least
