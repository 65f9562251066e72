from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.rates.evidence import ChangedBit, Evidence, ItemCount, ItemTimes
from proxyd.core.rates.week_bins import WEEK_S, WeekBins
from proxyd.lab.estimators.level_counts import CountIntensity, fit_counts
from proxyd.lab.estimators.rate_prior import RatePrior
from proxyd.lab.estimators.weekly_intensity import WeeklyIntensity

DAY_S = 86400.0
BINS = WeekBins.equal(28)
TRUTH = np.tile([1.0, 6.0, 10.0, 3.0], 7) / DAY_S


def probes(count: int, kind: str, seed: int = 5) -> list[Evidence]:
    """Gaps of half a day on average over intervals of 6 hours; a window shows at most 4 items."""
    rng = np.random.default_rng(seed)
    ends = np.cumsum(np.concatenate([[0.0], rng.exponential(DAY_S / 2, count)])).tolist()
    found: list[Evidence] = []
    for since_s, until_s in pairwise(ends):
        items = int(rng.poisson(float(BINS.exposure_s(since_s, until_s)[0] @ TRUTH)))
        full = ItemCount(since_s, until_s, min(items, 4), at_least=items >= 4)
        kinds: dict[str, Evidence] = {
            "counts": ItemCount(since_s, until_s, items),
            "bits": ChangedBit(since_s, until_s, items > 0),
        }
        found.append(kinds.get(kind, full))
    return found


@pytest.mark.parametrize(
    ("kind", "within"),
    [*(pytest.param(*each, marks=pytest.mark.long) for each in (("counts", 0.1), ("windows", 0.15))), ("bits", 0.3)],
)
def test_the_week_is_found_through_gaps_that_are_longer_than_its_intervals(kind: str, within: float) -> None:
    fit = fit_counts(probes(12_000, kind), BINS, prior=RatePrior(5.0 / DAY_S, events=0.5))
    by_quarter = fit.intensity.values.reshape(7, 4).mean(axis=0) * DAY_S
    np.testing.assert_allclose(by_quarter, [1.0, 6.0, 10.0, 3.0], rtol=within, atol=0.4)


def test_counts_within_one_interval_and_item_times_need_no_iteration() -> None:
    evidence: list[Evidence] = [ItemTimes(0.0, WEEK_S, (10.0, 90_000.0)), ItemCount(0.0, 3600.0, 3)]
    fit = fit_counts(evidence, BINS)
    week = WeeklyIntensity(BINS)
    week.update(ItemTimes(0.0, WEEK_S, (10.0, 90_000.0)))
    week.update(ItemTimes(0.0, 3600.0, (1.0, 2.0, 3.0)))
    np.testing.assert_allclose(fit.intensity.values, week.estimate().values)
    assert fit.steps <= 2


def test_a_full_window_says_more_than_its_items() -> None:
    """20 full windows of 5 and 20 gaps with nothing: at least 2.5 a gap, and 2.5 only if none was overrun."""
    windows = [ItemCount(k * 10.0, k * 10.0 + 10.0, 5, at_least=True) for k in range(20)]
    quiet = [ItemCount(200.0 + k * 10.0, 210.0 + k * 10.0, 0) for k in range(20)]
    exact = [ItemCount(k * 10.0, k * 10.0 + 10.0, 5) for k in range(20)]
    flat = WeekBins([0.0, 1000.0], anchor_s=0.0)
    censored = fit_counts([*windows, *quiet], flat).intensity.values[0]
    assert fit_counts([*exact, *quiet], flat).intensity.values[0] == pytest.approx(0.25)
    assert 0.25 < censored < 0.35


def test_at_least_none_says_nothing() -> None:
    seen: list[Evidence] = [ItemCount(0.0, 10.0, 4)]
    alone, with_more = fit_counts(seen, BINS), fit_counts([*seen, ItemCount(0.0, 1e6, 0, at_least=True)], BINS)
    np.testing.assert_array_equal(alone.intensity.values, with_more.intensity.values)


@pytest.mark.parametrize("kind", ["counts", "windows", "bits"])
def test_merged_rows_bound_the_memory_and_cost_little(kind: str) -> None:
    evidence, prior = probes(1500, kind), RatePrior(5.0 / DAY_S, events=2.0)
    kept = CountIntensity(BINS, prior=prior, max_rows=128)
    for one in evidence:
        kept.update(one)
        assert len(kept.seen.counts) <= 128
    batch = fit_counts(evidence, BINS, prior=prior).intensity
    assert kept.rate_per_s() == pytest.approx(float(batch.integral(WEEK_S)) / WEEK_S, rel=0.03)
    assert error(kept.estimate()) < error(batch) + 0.6


def error(intensity: PiecewiseConstant) -> float:
    """Mean error of the intervals in items a day; the truth is 5 on average."""
    return float(np.mean(np.abs(intensity.values - TRUTH))) * DAY_S


@pytest.mark.parametrize("most", [0, 1])
def test_two_rows_are_the_least(most: int) -> None:
    with pytest.raises(ValueError, match="at least 2 rows"):
        CountIntensity(BINS, max_rows=most)


def test_merged_counts_keep_their_items_and_exposure() -> None:
    evidence = probes(200, "counts")
    kept = CountIntensity(BINS, max_rows=2)
    for one in evidence:
        kept.update(one)
    items = float(kept.seen.known.sum() + kept.seen.counts @ kept.seen.weights)
    assert items == pytest.approx(sum(one.count for one in evidence if isinstance(one, ItemCount)))
    assert kept.seen.exposure_s.sum() == pytest.approx(evidence[-1].until_s)


def test_without_a_prior_an_interval_without_items_goes_to_0() -> None:
    bins = WeekBins([0.0, 1.0, 2.0], anchor_s=0.0)
    fit = fit_counts([ItemCount(0.0, 2.0, 6), ItemCount(1.0, 2.0, 0), ItemCount(3.0, 4.0, 0)], bins)
    np.testing.assert_allclose(fit.intensity.values, [6.0, 0.0], atol=1e-3)


def test_an_iteration_cut_short_says_so() -> None:
    assert not fit_counts(probes(50, "bits"), BINS, max_steps=1).converged


def test_old_counts_are_forgotten() -> None:
    week = CountIntensity(WeekBins([0.0, 1.0, 2.0], anchor_s=0.0), half_life_s=20.0)
    for k in range(50):
        week.update(ItemCount(k * 2.0, k * 2.0 + 2.0, 10))
    for k in range(50, 200):
        week.update(ItemCount(k * 2.0, k * 2.0 + 2.0, 2))
    assert week.rate_per_s() == pytest.approx(1.0, rel=0.01)
