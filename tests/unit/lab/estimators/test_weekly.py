from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.rates.evidence import ItemTimes
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S, WeekBins
from proxyd.lab.estimators.rate_prior import RatePrior
from proxyd.lab.estimators.weekly_intensity import WeeklyIntensity, fit_weekly

HOUR_S, DAY_S = 3600.0, 86400.0
DBWORLD = np.array([2.40, 5.96, 6.04, 7.50, 3.03, 2.41, 1.50, 1.15]) / DAY_S


def dbworld() -> WeekBins:
    """Six intervals that all weekdays share, and one each for Saturday and Sunday: paper 000, Table 2."""
    starts = [day * 24.0 + hour for day in range(5) for hour in (0, 3, 6, 9, 18, 21)]
    return WeekBins(np.array([*starts, 120.0, 144.0, 168.0]) * HOUR_S, [*list(range(6)) * 5, 6, 7])


def events(bins: WeekBins, levels: np.ndarray, start_s: float, stop_s: float) -> tuple[float, ...]:
    rng = np.random.default_rng(2)
    times = rng.uniform(start_s, stop_s, rng.poisson(levels.max() * (stop_s - start_s)))
    week = bins.intensity(levels)
    kept = [t for t in times if rng.random() * levels.max() < week.at((t - MONDAY_S) % WEEK_S)]
    return tuple(sorted(kept))


def test_the_week_of_table_2_is_found_again() -> None:
    bins, start_s = dbworld(), 1.0e9
    stop_s = start_s + 400.3 * WEEK_S
    fit = fit_weekly([ItemTimes(start_s, stop_s, events(bins, DBWORLD, start_s, stop_s))], bins)
    found = fit.values[[0, 1, 2, 3, 4, 5, 30, 31]]
    np.testing.assert_allclose(found, DBWORLD, rtol=0.1)
    assert fit.stop == WEEK_S


def test_parts_of_weeks_are_exposure_of_what_they_cover() -> None:
    """From a Wednesday noon to the Tuesday after next: no other hour counts."""
    bins, start_s = WeekBins.equal(168), MONDAY_S + 2.5 * DAY_S
    exposure = bins.exposure_s(start_s, MONDAY_S + 15 * DAY_S)[0]
    assert exposure[:24].tolist() == [2 * HOUR_S] * 24
    assert exposure[24:60].tolist() == [HOUR_S] * 36
    assert exposure[60:].tolist() == [2 * HOUR_S] * 108


def test_an_hour_never_observed_is_like_the_rest() -> None:
    week = WeeklyIntensity(WeekBins.equal(7))
    week.update(ItemTimes(MONDAY_S, MONDAY_S + 2 * DAY_S, (MONDAY_S + 1.0, MONDAY_S + 2.0, MONDAY_S + DAY_S)))
    np.testing.assert_allclose(week.estimate().values * DAY_S, [2.0, 1.0, *[1.5] * 5])


def test_a_prior_holds_levels_to_its_mean() -> None:
    fit = fit_weekly([ItemTimes(0.0, WEEK_S, ())], WeekBins.equal(7), prior=RatePrior(2.0 / DAY_S, events=2.0))
    np.testing.assert_allclose(fit.values * DAY_S, 1.0)


@pytest.mark.parametrize(
    ("since_s", "until_s", "time_s", "level"),
    [(0.0, 20.0, 10.0, 1), (0.0, 10.0, 10.0, 0), (10.0, 20.0, 10.0, 1), (15.0, 20.0, 20.0, 1), (0.0, 5.0, 99.0, 0)],
)
def test_an_item_on_a_break_counts_where_there_is_exposure(
    since_s: float, until_s: float, time_s: float, level: int
) -> None:
    bins = WeekBins([0.0, 10.0, 20.0], anchor_s=0.0)
    assert bins.events(ItemTimes(since_s, until_s, (time_s,)))[level] == 1
    assert bins.exposure_s(since_s, until_s)[0, level] > 0


def test_evidence_before_the_anchor_counts_too() -> None:
    bins = WeekBins([0.0, 10.0, 20.0], anchor_s=1e6)
    assert bins.exposure_s(5.0, 45.0).tolist() == [[20.0, 20.0]]
    assert bins.events(ItemTimes(5.0, 45.0, (6.0, 12.0, 33.0))).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("breaks", [[0.0], [1.0, 2.0], [0.0, 0.0], [0.0, 2.0, 1.0]], ids=str)
def test_breaks_of_a_week_increase_from_0(breaks: list[float]) -> None:
    with pytest.raises(ValueError, match="increase from 0"):
        WeekBins(breaks)


@pytest.mark.parametrize("groups", [[0], [0, 2], [1, 2], [-1, 0]], ids=str)
def test_levels_are_numbered_without_a_gap(groups: list[int]) -> None:
    with pytest.raises(ValueError, match="number of its level"):
        WeekBins([0.0, 1.0, 2.0], groups)


@pytest.mark.parametrize(("mean", "weight"), [(0.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (float("nan"), 1.0)])
def test_a_prior_has_a_mean_and_a_weight(mean: float, weight: float) -> None:
    with pytest.raises(ValueError, match="a prior needs"):
        RatePrior(mean, weight)
