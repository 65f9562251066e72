"""Weekly intensities from exact item times: events over exposure in each interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.rates.evidence import ItemTimes
from proxyd.core.rates.week_bins import WeekBins
from proxyd.lab.estimators.rate_prior import WEIGHTLESS, RatePrior


def fit_weekly(evidence: Sequence[ItemTimes], bins: WeekBins, *, prior: RatePrior = WEIGHTLESS) -> PiecewiseConstant:
    """Return the maximum-likelihood week for the item times, in items per second.

    Parameters
    ----------
    evidence
        Periods of observation with all their items; they need not be whole weeks, nor in order. Periods of zero or
        negative length add nothing.
    bins
        The intervals in which the intensity is constant.
    prior
        For each level; weightless for maximum likelihood. A level never observed is assumed to be like the others.

    Notes
    -----
    ``lambda_k = N_k / exposure_k``: Eckstein, Gal and Reiner, section 5, its Tables 2 and 3. The exposure is exact
    even if the observation covers parts of weeks.

    Examples
    --------
    >>> bins = WeekBins([0.0, 1.0, 4.0], anchor_s=0.0)
    >>> fit_weekly([ItemTimes(0.0, 6.0, (0.5, 2.0, 4.2, 4.4, 5.5))], bins).values
    array([1.5, 0.5])
    """
    seen = [one for one in evidence if one.until_s > one.since_s]
    exposure_s = bins.exposure_s([one.since_s for one in seen], [one.until_s for one in seen]).sum(axis=0)
    events = np.array([bins.events(one) for one in seen]).reshape(-1, bins.levels).sum(axis=0)
    return bins.intensity(prior.levels(events, exposure_s))


@dataclass(slots=True)
class WeeklyIntensity:
    """The maximum-likelihood week for the item times so far: ``fit_weekly``, step by step.

    Its memory is the events and the exposure of each level.

    Parameters
    ----------
    bins
        The intervals in which the intensity is constant; by default the 168 hours of the week.
    prior
        For each level; weightless for maximum likelihood.

    Notes
    -----
    Source: Eckstein, Gal and Reiner, section 5. Per-source weeks overfit below some hundred events
    (``docs/decisions/update-rates.md``): shrink them to a shared shape. Counts and bits do not say when in their gap
    the items came: see ``CountIntensity``.

    Examples
    --------
    >>> week = WeeklyIntensity(WeekBins([0.0, 1.0, 4.0], anchor_s=0.0))
    >>> week.update(ItemTimes(0.0, 4.0, (0.5, 2.0)))
    >>> week.update(ItemTimes(4.0, 6.0, (4.2, 4.4, 5.5)))
    >>> week.estimate().values
    array([1.5, 0.5])
    >>> week.rate_per_s()
    0.75
    """

    bins: WeekBins = field(default_factory=lambda: WeekBins.equal(168))
    prior: RatePrior = WEIGHTLESS
    events: NDArray[np.float64] = field(init=False)
    exposure_s: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self.events = np.zeros(self.bins.levels)
        self.exposure_s = np.zeros(self.bins.levels)

    def update(self, evidence: ItemTimes) -> None:
        """Add the items of one period; an empty or negative period adds nothing."""
        if evidence.until_s > evidence.since_s:
            self.events = self.events + self.bins.events(evidence)
            self.exposure_s = self.exposure_s + self.bins.exposure_s(evidence.since_s, evidence.until_s)[0]

    def estimate(self) -> PiecewiseConstant:
        """Return one week of intensity in items per second, from 0 to the length of the week."""
        return self.bins.intensity(self.prior.levels(self.events, self.exposure_s))

    def rate_per_s(self) -> float:
        """Return the mean update rate over a week in items per second."""
        return self.bins.mean(self.prior.levels(self.events, self.exposure_s))
