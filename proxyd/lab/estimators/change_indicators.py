"""Update rates from bits: whether a source had changed since the last probe, but not how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, floor, inf, log, log1p, log2

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from proxyd.core.rates.evidence import ChangedBit
from proxyd.lab.estimators.rate_prior import WEIGHTLESS, RatePrior

CORRECTION = 0.5
_CLASSES_PER_OCTAVE = 16
_OCTAVES = 32
_ROUNDS = 5
_NEGLIGIBLE = 1e-12


def regular_rate(changed: float, probes: float, gap_s: float) -> float:
    """Return the update rate of a source that had changed at ``changed`` of ``probes`` evenly spaced probes.

    Parameters
    ----------
    changed, probes
        Numbers of probes, ``0 <= changed <= probes``; they may be discounted.
    gap_s
        Seconds between probes, greater than 0.

    Raises
    ------
    ValueError
        There are more changes than probes, negative numbers, or a gap that is not greater than 0.

    Notes
    -----
    ``-ln((n - X + 0.5) / (n + 0.5)) / tau``: Cho and Garcia-Molina 2003, section 4.2. The naive ``X / (n tau)``
    counts several items in one gap once and is 68 % too low at ``lambda tau = 3``. The 0.5 removes the bias of the
    logarithm and keeps the rate finite if all probes found a change.

    Examples
    --------
    >>> round(regular_rate(95, 100, 1.0), 2)
    2.91
    >>> regular_rate(0, 10, 1.0)
    0.0
    """
    if not 0 <= changed <= probes or not gap_s > 0:
        raise ValueError("there are at most as many changes as probes, and gaps greater than 0")
    return log1p(changed / (probes - changed + CORRECTION)) / gap_s


def irregular_rate(
    gaps_s: ArrayLike, changed: ArrayLike, *, weights: ArrayLike | None = None, prior: RatePrior = WEIGHTLESS
) -> float:
    """Return the maximum-likelihood update rate for bits over gaps of any length.

    Parameters
    ----------
    gaps_s
        Seconds before each probe, greater than 0, shape (probes,).
    changed
        Whether each probe found a change, shape (probes,).
    weights
        How often each bit counts; once by default.
    prior
        Prior of the rate; weightless for maximum likelihood.

    Returns
    -------
    float
        Items per second: 0 if nothing changed, the prior's mean if there are no probes.

    Raises
    ------
    ValueError
        A gap is not greater than 0, or the arrays have different shapes.

    Notes
    -----
    The root ``r`` of ``sum over changed of g / (exp(r g) - 1) = sum over unchanged of g``: Cho and Garcia-Molina 2003,
    section 4.3. The left side falls from infinity to 0, and ``1/r - g/2 <= g / (exp(r g) - 1) <= 1/r`` brackets it.

    As for even gaps, half an additional unchanged gap removes the bias, so that for even gaps the result equals
    ``regular_rate``. Its length is the mean gap weighted by the information ``g^2 / (exp(r g) - 1)`` of each gap, in
    a few rounds from the plain mean: long gaps that always end in a change carry no information and must not add
    exposure.

    Examples
    --------
    >>> round(irregular_rate([1.0, 1.0, 1.0], [True, True, False]), 4) == round(regular_rate(2, 3, 1.0), 4)
    True
    >>> round(irregular_rate([1.0, 2.0, 4.0], [False, True, True]), 3)
    0.434
    """
    gaps, hits = np.atleast_1d(np.asarray(gaps_s, dtype=np.float64)), np.atleast_1d(np.asarray(changed, dtype=bool))
    times = np.ones_like(gaps) if weights is None else np.atleast_1d(np.asarray(weights, dtype=np.float64))
    if not gaps.shape == hits.shape == times.shape or not np.all(gaps > 0):
        raise ValueError("each gap, greater than 0, needs its bit and its weight")
    if not len(gaps) or not times.sum() > 0:
        return prior.mean_per_s
    quiet_s = float(gaps[~hits] @ times[~hits]) + prior.exposure_s
    information, rate = times, 0.0
    for _ in range(_ROUNDS):
        informative_s = float(information @ gaps / information.sum())
        rate = _root(gaps[hits], times[hits], quiet_s + CORRECTION * informative_s, prior.events)
        if rate == 0.0:
            break
        information = times * gaps * _hidden(gaps, rate)
    return rate


def fit_bits(evidence: Sequence[ChangedBit], *, half_life_s: float = inf, prior: RatePrior = WEIGHTLESS) -> float:
    """Return the maximum-likelihood update rate for the bits, in items per second.

    A bit's weight halves for every ``half_life_s`` between its probe and the last one. Bits over empty or negative
    gaps add nothing.

    Examples
    --------
    >>> round(fit_bits([ChangedBit(0.0, 1.0, True), ChangedBit(1.0, 2.0, False)]), 3), round(regular_rate(1, 2, 1.0), 3)
    (0.511, 0.511)
    """
    seen = [bit for bit in evidence if bit.until_s > bit.since_s]
    last_s = max((bit.until_s for bit in seen), default=0.0)
    weights = [exp(-log(2) * (last_s - bit.until_s) / half_life_s) for bit in seen]
    gaps = [bit.until_s - bit.since_s for bit in seen]
    return irregular_rate(gaps, [bit.changed for bit in seen], weights=weights, prior=prior)


@dataclass(slots=True)
class BitRate:
    """The maximum-likelihood update rate for the bits so far: ``fit_bits``, probe by probe.

    Its memory is bounded: gaps are kept in 16 classes an octave from 1 s to 136 years, changed and unchanged
    separately, each with its weight and its mean gap. Even gaps lose nothing, others less than a thousandth of the
    rate.

    Parameters
    ----------
    half_life_s
        Seconds after which a bit counts half; by default none is forgotten.
    prior
        Prior of the rate; weightless for maximum likelihood. Without it the rate is 0 until something changes.

    Notes
    -----
    See ``irregular_rate``. Bits may come in any order.

    Examples
    --------
    >>> rate = BitRate()
    >>> for probe in range(4):
    ...     rate.update(ChangedBit(probe * 10.0, probe * 10.0 + 10.0, changed=probe > 0))
    >>> round(rate.rate_per_s(), 4), round(regular_rate(3, 4, 10.0), 4)
    (0.1099, 0.1099)
    """

    half_life_s: float = inf
    prior: RatePrior = WEIGHTLESS
    as_of_s: float = -inf
    _gaps: dict[tuple[int, bool], NDArray[np.float64]] = field(default_factory=dict, repr=False)

    def update(self, evidence: ChangedBit) -> None:
        """Add the result of one probe; a bit over an empty or negative gap adds nothing."""
        gap_s = evidence.until_s - evidence.since_s
        if gap_s <= 0:
            return
        self._discount_to(evidence.until_s)
        weight = exp(-log(2) * (self.as_of_s - evidence.until_s) / self.half_life_s)
        if weight < _NEGLIGIBLE:
            return
        number = min(max(floor(_CLASSES_PER_OCTAVE * log2(gap_s)), 0), _CLASSES_PER_OCTAVE * _OCTAVES - 1)
        kept = self._gaps.setdefault((number, evidence.changed), np.zeros(2))
        kept += (weight, weight * gap_s)

    def rate_per_s(self) -> float:
        """Return the update rate in items per second; before the first bit, the prior's mean."""
        kept = np.array(list(self._gaps.values())).reshape(-1, 2)
        changed = np.array([changed for _, changed in self._gaps], dtype=bool)
        return irregular_rate(kept[:, 1] / kept[:, 0], changed, weights=kept[:, 0], prior=self.prior)

    def _discount_to(self, time_s: float) -> None:
        if time_s <= self.as_of_s:
            return
        weight = exp(-log(2) * (time_s - self.as_of_s) / self.half_life_s) if self._gaps else 1.0
        self.as_of_s = time_s
        if weight < 1.0:
            self._gaps = {key: kept * weight for key, kept in self._gaps.items() if kept[0] * weight > _NEGLIGIBLE}


def _hidden(gaps: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """Return ``g / (exp(r g) - 1)`` without overflow."""
    hidden: NDArray[np.float64] = gaps * np.exp(-rate * gaps) / -np.expm1(-rate * gaps)
    return hidden


def _root(gaps: NDArray[np.float64], weights: NDArray[np.float64], quiet_s: float, events: float) -> float:
    """Return where ``sum w g / (exp(r g) - 1) + events / r`` falls to ``quiet_s``; 0 if the sum is empty."""
    total = float(weights.sum()) + events
    if total == 0:
        return 0.0
    low, high = total / (quiet_s + float(gaps @ weights) / 2), total / quiet_s

    def excess(rate: float) -> float:
        return float(weights @ _hidden(gaps, rate)) + events / rate - quiet_s

    if excess(low) <= 0:  # the bracket is exact up to rounding
        return low
    if excess(high) >= 0:
        return high
    return float(brentq(excess, low, high, xtol=low * 1e-13, rtol=1e-13))
