"""Estimates are where the likelihood is highest: slow references that only know the likelihood agree."""

from __future__ import annotations

from itertools import pairwise
from math import exp, expm1, inf, lgamma, log, pi

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar

from proxyd.core.rates.evidence import ChangedBit, Evidence, ItemCount, ItemTimes
from proxyd.core.rates.week_bins import WeekBins
from proxyd.lab.estimators.change_indicators import irregular_rate
from proxyd.lab.estimators.level_counts import CountIntensity, fit_counts
from proxyd.lab.estimators.level_fit import log_at_least, mean_at_least
from proxyd.lab.estimators.rate_prior import RatePrior
from tests.examples import examples

BINS = WeekBins([0.0, 1.0, 2.5, 4.0, 5.0], [0, 1, 2, 1], anchor_s=0.5)
PRIOR = RatePrior(1.5, events=1.0)


@given(
    st.lists(st.tuples(st.floats(0.1, 50.0), st.booleans()), min_size=1, max_size=20),
    st.floats(0.5, 5.0),
    st.floats(0.01, 1.0),
)
def test_the_likelihood_root_equals_a_generic_maximiser(
    bits: list[tuple[float, bool]], events: float, mean: float
) -> None:
    """With the half unchanged gap that takes the bias away, of the length found at the rate itself."""
    gaps, changed = np.array([gap for gap, _ in bits]), np.array([bit for _, bit in bits])
    prior = RatePrior(mean, events=events)
    rate = irregular_rate(gaps, changed, prior=prior)

    def lost(log_rate: float, corrected_s: float) -> float:
        r = exp(log_rate)
        likely = np.sum(np.log(-np.expm1(-r * gaps[changed]))) - r * (np.sum(gaps[~changed]) + corrected_s / 2)
        return -float(likely + events * log_rate - r * events / mean)

    corrected_s = float(np.mean(gaps))
    for _ in range(5):
        best = exp(minimize_scalar(lost, bounds=(-25.0, 10.0), args=(corrected_s,), method="bounded").x)
        information = [gap**2 / expm1(min(best * gap, 700.0)) for gap in gaps]
        corrected_s = float(np.dot(information, gaps) / np.sum(information))
    assert rate == pytest.approx(best, rel=1e-3)


@st.composite
def mixed(draw: st.DrawFn) -> list[Evidence]:
    now, found = 0.0, []
    for _ in range(draw(st.integers(1, 12))):
        until, count = now + draw(st.sampled_from([0.25, 0.7, 1.5, 4.0, 12.0])), draw(st.integers(0, 12))
        kinds: list[Evidence] = [
            ItemTimes(now, until, tuple(now + (until - now) * (k + 1 / pi) / (count + 1) for k in range(count))),
            ItemCount(now, until, count),
            ItemCount(now, until, count, at_least=True),
            ChangedBit(now, until, count > 0),
        ]
        found.append(draw(st.sampled_from(kinds)))
        now = until
    return found


def overlap_s(since_s: float, until_s: float) -> NDArray[np.float64]:
    """Add up the pieces of each week, one after the other."""
    spent = np.zeros(3)
    for week in range(-2, 40):
        for (start, stop), level in zip(pairwise(BINS.breaks_s + 0.5 + 5.0 * week), BINS.groups, strict=True):
            spent[level] += max(0.0, min(stop, until_s) - max(start, since_s))
    return spent


def log_likelihood(levels: NDArray[np.float64], evidence: list[Evidence], overlaps: list[NDArray[np.float64]]) -> float:
    """Add up what each piece of evidence says by definition, factorials aside."""
    total = float(np.sum(PRIOR.events * np.log(levels) - PRIOR.exposure_s * levels))
    for one, spent in zip(evidence, overlaps, strict=True):
        mean = float(spent @ levels)
        if isinstance(one, ItemTimes):
            at = [BINS.intensity(levels).at((time - 0.5) % 5.0) for time in one.times_s]
            total += float(np.sum(np.log(at))) - mean
        elif isinstance(one, ItemCount) and not one.at_least:
            total += one.count * log(mean) - mean
        elif isinstance(one, ItemCount):
            total += float(log_at_least(one.count, mean)) if one.count else 0.0
        else:
            total += log(-expm1(-mean)) if one.changed else -mean
    return total


@given(mixed())
@examples(40)
def test_em_reaches_the_maximum_of_the_concave_problem(evidence: list[Evidence]) -> None:
    overlaps = [overlap_s(one.since_s, one.until_s) for one in evidence]

    def lost(logs: NDArray[np.float64]) -> float:
        return -log_likelihood(np.exp(logs), evidence, overlaps)

    fit = fit_counts(evidence, BINS, prior=PRIOR)
    levels = fit.intensity.values[:3]
    best = minimize(lost, np.log(np.full(3, PRIOR.mean_per_s)), method="Nelder-Mead", tol=1e-9)
    assert fit.converged
    assert lost(np.log(levels)) <= best.fun + 1e-6
    np.testing.assert_allclose(levels, np.exp(best.x), rtol=2e-3, atol=1e-6)


@given(mixed())
@examples(40)
def test_the_likelihood_never_decreases(evidence: list[Evidence]) -> None:
    values = [fit_counts(evidence, BINS, prior=PRIOR, max_steps=steps).log_likelihood for steps in range(12)]
    assert all(later >= earlier - 1e-9 * abs(earlier) for earlier, later in pairwise(values))


@given(mixed())
@examples(40)
def test_counts_online_equal_the_batch_at_every_prefix(evidence: list[Evidence]) -> None:
    week = CountIntensity(BINS, prior=PRIOR, half_life_s=7.0)
    for length, one in enumerate(evidence, 1):
        week.update(one)
        batch = fit_counts(evidence[:length][::-1], BINS, prior=PRIOR, half_life_s=7.0)
        np.testing.assert_allclose(week.estimate().values, batch.intensity.values, rtol=1e-4)


@given(st.floats(-40.0, 40.0), st.floats(0.0, 60.0))
def test_exposure_is_the_sum_over_the_pieces_of_each_week(since_s: float, length_s: float) -> None:
    since_s = max(since_s, -9.0)
    np.testing.assert_allclose(
        BINS.exposure_s(since_s, since_s + length_s)[0], overlap_s(since_s, since_s + length_s), atol=1e-9
    )


@given(st.integers(1, 300), st.floats(-9.0, 3.5))
def test_censored_means_equal_direct_sums(least: int, log10_mean: float) -> None:
    """Sums of ratios to the first term, so that nothing underflows; a shift keeps them from overflowing."""
    mean = 10.0**log10_mean
    counts = np.arange(least, least + 20_000)
    logs = counts * log(mean) - np.array([lgamma(count + 1.0) for count in counts])
    terms = np.exp(logs - logs.max())
    assert float(mean_at_least(least, mean)) == pytest.approx(float(terms @ counts / terms.sum()), rel=1e-9)
    direct = float(logs.max() + np.log(terms.sum())) - mean
    assert float(log_at_least(least, mean)) == pytest.approx(direct, rel=1e-9, abs=1e-9)


def test_at_least_none_is_any_count() -> None:
    assert mean_at_least([0, 0], [0.5, 50.0]).tolist() == [0.5, 50.0]
    assert float(mean_at_least(3, 1e-300)) == 3.0
    assert float(mean_at_least(3, 1e9)) < inf
