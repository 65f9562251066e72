"""The rate of one source under one half-life: the estimate that the daemon blends over several half-lives."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, log

from proxyd.core.rates.evidence import ChangedBit, Evidence, ItemCount, ItemTimes
from proxyd.core.rates.gamma_poisson import DEFAULT_MEAN_PER_S, posterior_means


@dataclass(slots=True)
class GammaRate:
    """Posterior of one source's Poisson rate.

    The prior is a mixture of Gammas of shape ``k`` whose means ``m_j`` lie in steps of 4 around the population's, with
    log-normal weights ``w_j``. Update rates of a population spread over orders of magnitude, and a single Gamma around
    their mean holds a fast source back for ``k / m``, however clear its evidence. With discounted events ``N`` and
    exposure ``E`` the posterior mean is the average of ``(N + k) / (E + b_j)``, ``b_j = k / m_j``, under the weights
    ``w_j b_j^k / (E + b_j)^(N + k)``; without evidence it is the population's mean.

    Evidence loses half its weight every ``half_life_s``: both ``N`` and ``E`` decay, so the estimate follows a drifting
    rate at constant effective sample size.

    A changed bit counts as the expected number of items given at least one, ``x / (1 - exp(-x))`` with
    ``x = rate * gap`` (one EM step); a full window counts as at least that many, ``max(m, x)``.

    Parameters
    ----------
    half_life_s
        Seconds after which evidence counts half.
    events, exposure_s
        Discounted evidence as of ``as_of_s``.
    expect_per_s
        The author's expectation (``EXPECT``): this source's prior mean instead of the population's, with less spread.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``, with the mixture instead of its single Gamma (figures are in the same
    document); Cho and Garcia-Molina 2003 for why bits must not be counted as one item each.

    Examples
    --------
    >>> rate = GammaRate(half_life_s=1e9)
    >>> rate.update(ItemCount(0.0, 100.0, 50))
    >>> round(rate.rate_per_s(100.0, prior_per_s=0.5), 1)
    0.5
    """

    half_life_s: float
    events: float = 0.0
    exposure_s: float = 0.0
    as_of_s: float | None = None
    expect_per_s: float | None = None

    def update(self, evidence: Evidence, *, prior_per_s: float = DEFAULT_MEAN_PER_S) -> None:
        """Take in what one probe showed; evidence over an empty or negative time adds nothing.

        ``prior_per_s`` is the prior mean; bits and full windows need it to estimate how many items they hide.
        """
        gap_s = evidence.until_s - evidence.since_s
        if gap_s <= 0:
            return
        count = self._count(evidence, gap_s, prior_per_s)
        self._discount_to(evidence.until_s)
        if isinstance(evidence, ItemTimes):
            count = sum(self._weight(evidence.until_s - time_s) for time_s in evidence.times_s)
        self.events += count
        # Exposure decays along the gap in the same way as events, so that a constant rate stays unbiased.
        decay = log(2) / self.half_life_s
        self.exposure_s += -expm1(-decay * gap_s) / decay

    def rate_per_s(self, now_s: float, *, prior_per_s: float = DEFAULT_MEAN_PER_S) -> float:
        """Return the posterior mean in items per second; the prior regains weight as evidence ages."""
        mean = self.expect_per_s or prior_per_s
        weight = 1.0 if self.as_of_s is None else self._weight(max(0.0, now_s - self.as_of_s))
        events, exposure_s = self.events * weight, self.exposure_s * weight
        return float(posterior_means(events, exposure_s, mean, is_expected=bool(self.expect_per_s))[0])

    def _count(self, evidence: Evidence, gap_s: float, prior_per_s: float) -> float:
        if isinstance(evidence, ItemCount) and not evidence.at_least:
            return float(evidence.count)
        if isinstance(evidence, ItemTimes) or (isinstance(evidence, ChangedBit) and not evidence.changed):
            return 0.0
        expected = self.rate_per_s(evidence.until_s, prior_per_s=prior_per_s) * gap_s
        if isinstance(evidence, ItemCount):
            return max(float(evidence.count), expected)
        return expected / -expm1(-expected) if expected > 1e-9 else 1.0

    def _discount_to(self, time_s: float) -> None:
        if self.as_of_s is not None and time_s > self.as_of_s:
            weight = self._weight(time_s - self.as_of_s)
            self.events *= weight
            self.exposure_s *= weight
        self.as_of_s = time_s if self.as_of_s is None else max(self.as_of_s, time_s)

    def _weight(self, age_s: float) -> float:
        return exp(-log(2) * age_s / self.half_life_s)
