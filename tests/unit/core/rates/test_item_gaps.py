"""Gaps between items: which sources are planned by the age of their newest item, and which are not."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.model.arrays import Floats
from proxyd.core.rates.model_fit import NO_GAPS, SHAPES, ItemGaps
from proxyd.core.rates.rate_blend import ChangedBit, Evidence, ItemCount, ItemTimes

DAY_S = 86400.0


def probed(times_s: Floats, until_s: float, *, every_s: float = DAY_S / 4, rate_per_s: float = 1 / DAY_S) -> ItemGaps:
    """Return the gaps after even probes whose items have times."""
    known, edges_s = NO_GAPS, np.arange(0.0, until_s + 1.0, every_s)
    for since_s, stop_s in zip(edges_s[:-1].tolist(), edges_s[1:].tolist(), strict=True):
        found = times_s[(times_s > since_s) & (times_s <= stop_s)]
        known = known.seen(ItemTimes(since_s, stop_s, tuple(found.tolist())), rate_per_s)
    return known


def gamma_times(shape: float, seed: int, gaps: int = 60) -> Floats:
    rng = np.random.Generator(np.random.PCG64(seed))
    return np.asarray(DAY_S * np.cumsum(rng.gamma(shape, 1 / shape, gaps)))


def test_regular_items_are_noticed_within_ten() -> None:
    for seed in range(10):
        times_s = gamma_times(30.0, seed, 12)
        known = probed(times_s[:10], float(times_s[9]) + DAY_S / 4)
        assert known.shape_to_plan_by >= 6.0
        assert known.newest_s == times_s[9]


@pytest.mark.parametrize(("shape", "low", "high"), [(4.0, 3.0, 6.0), (20.0, 12.0, 32.0), (90.0, 32.0, 96.0)])
def test_the_shape_is_that_of_the_gaps(shape: float, low: float, high: float) -> None:
    found = [probed(gamma_times(shape, seed), 55 * DAY_S).shape_to_plan_by for seed in range(10)]
    assert low <= np.median(found) <= high
    assert set(found) <= {0.0, *SHAPES}


@pytest.mark.parametrize("shape", [1.0, 0.5], ids=["a Poisson process", "bursts"])
def test_items_without_regularity_are_hardly_ever_planned_by_age(shape: float) -> None:
    days = [probed(gamma_times(shape, seed)[:40], 30 * DAY_S).shape_to_plan_by > 0 for seed in range(100)]
    assert sum(days) <= 3


def test_a_week_that_predicts_as_well_leaves_nothing_to_the_age() -> None:
    times_s = gamma_times(30.0, 1)
    known = ItemGaps.of_times(times_s[:20].tolist())
    assert known.shape_to_plan_by
    since_s, until_s = float(times_s[19]), float(times_s[20])
    evidence = ItemTimes(since_s, until_s, (until_s,))
    assert known.seen(evidence, 1 / DAY_S, week_score=40.0).shape_to_plan_by == 0.0


def test_a_source_that_becomes_irregular_is_planned_by_its_rate_again() -> None:
    regular = gamma_times(40.0, 2, 20)
    after = regular[-1] + gamma_times(0.7, 3, 60)
    known = probed(np.concatenate([regular, after]), float(after[40]))
    assert known.shape_to_plan_by == 0.0


def test_a_regular_source_that_falls_silent_is_given_up() -> None:
    times_s = gamma_times(40.0, 4, 20)
    assert probed(times_s, float(times_s[-1]) + DAY_S / 2).shape_to_plan_by
    assert probed(times_s, float(times_s[-1]) + 10 * DAY_S).shape_to_plan_by == 0.0


def test_a_batch_counts_as_one_item() -> None:
    times_s = (np.arange(1, 20)[:, None] * DAY_S + np.array([0.0, 60.0, 300.0])).ravel()
    known = probed(times_s, 19.5 * DAY_S, rate_per_s=3 / DAY_S)
    assert known.shape_to_plan_by == SHAPES[-1]
    assert known.mean_s == pytest.approx(DAY_S)


def test_pages_are_judged_by_whether_they_changed() -> None:
    known, hour_s = NO_GAPS, 3600.0
    for hour in range(30 * 24):
        known = known.seen(ChangedBit(hour * hour_s, (hour + 1) * hour_s, hour % 24 == 8), 1 / DAY_S)
    assert known.shape_to_plan_by >= 48.0
    assert known.newest_s == (29 * 24 + 8.5) * hour_s


def test_a_page_that_changes_at_each_probe_is_not_taken_as_regular() -> None:
    known = NO_GAPS
    for day in range(60):
        known = known.seen(ChangedBit(day * DAY_S, (day + 1) * DAY_S, changed=True), (2.0 + 0.1 * day) / DAY_S)
    assert known.score < 3.0


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param(ItemCount(9.0 * DAY_S, 10.0 * DAY_S, 3), id="several items without times"),
        pytest.param(ItemCount(9.0 * DAY_S, 10.0 * DAY_S, 9, at_least=True), id="more than the feed shows"),
    ],
)
def test_items_of_unknown_spacing_begin_anew(evidence: Evidence) -> None:
    known = ItemGaps.of_times([DAY_S * day for day in range(9)])
    assert known.seen(evidence, 1 / DAY_S) == NO_GAPS


def test_one_is_expected_within_a_mean_gap_and_assumed_to_come_then() -> None:
    known = ItemGaps.of_times([DAY_S * day for day in range(30)])
    newest_s = 29 * DAY_S
    assert known.expect(newest_s, newest_s + DAY_S / 2) < 0.01
    assert 0.4 < known.expect(newest_s, newest_s + DAY_S) < 1.0
    assert known.assume_items(newest_s + DAY_S / 2) is known
    assert known.assume_items(newest_s + 2.25 * DAY_S).newest_s == pytest.approx(newest_s + 2 * DAY_S)
    assert NO_GAPS.expect(0.0, 9.0) == 0.0


def test_of_a_long_history_the_end_says_it_all() -> None:
    rng = np.random.default_rng(3)
    daily = np.cumsum(rng.gamma(30.0, 86400.0 / 30.0, 5000))
    assert ItemGaps.of_times(daily.tolist()) == ItemGaps.of_times(daily[-300:].tolist())
