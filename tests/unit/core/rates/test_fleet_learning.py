"""Rates blended over half-lives, and the shapes of weeks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from proxyd.core.rates.week_bins import HOURS, MONDAY_S, WEEK_S, hours_between, week_hours
from proxyd.core.rates.week_shapes import common_shapes, dispersion_of
from proxyd.lab.replay.fleet_model import FleetModel, FleetRates

Floats = NDArray[np.float64]
DAY_S = 86400.0
OFFICE = np.tile(np.repeat([0.1, 2.0, 0.1], [9, 8, 7]), 7)


def test_probing_sources_together_or_one_by_one_is_the_same_but_for_the_weights() -> None:
    together, apart = FleetRates(3), FleetRates(3)
    together.observe([0, 1, 2], 0.0, DAY_S, [0, 0, 2], [100.0, 200.0, 300.0])
    for source, times in ((0, [100.0, 200.0]), (1, []), (2, [300.0])):
        apart.observe([source], 0.0, DAY_S, [0] * len(times), times)
    assert np.allclose(together.events, apart.events)
    assert np.allclose(together.exposure_s, apart.exposure_s)


def steady_then(rng: np.random.Generator, sources: int, days: int, moved: bool) -> FleetRates:
    rates = FleetRates(sources)
    per_day = rng.lognormal(0.0, 1.0, sources)
    for day in range(days):
        if moved and day % 14 == 13:
            per_day = rng.permutation(per_day)
        counts = rng.poisson(per_day)
        places = np.repeat(np.arange(sources), counts)
        times = day * DAY_S + rng.uniform(0, DAY_S, len(places))
        rates.observe(np.arange(sources), day * DAY_S, (day + 1) * DAY_S, places, times)
        if day % 7 == 0:
            rates.refresh((day + 1) * DAY_S)
    return rates


def test_the_blend_leans_to_the_half_life_that_predicts() -> None:
    steady = steady_then(np.random.default_rng(1), 60, 300, moved=False).weights
    moving = steady_then(np.random.default_rng(1), 60, 300, moved=True).weights
    assert steady[2:4].sum() > 2 * moving[2:4].sum()  # 16 and 52 weeks
    assert moving[0] > 2 * steady[0]  # one week
    assert 0.8 < steady.sum() < 1.2


def test_a_known_rate_is_found() -> None:
    rates = steady_then(np.random.default_rng(2), 40, 200, moved=False)
    per_day = np.random.default_rng(2).lognormal(0.0, 1.0, 40)
    assert np.corrcoef(rates.per_s(200 * DAY_S), per_day)[0, 1] > 0.98


def test_hours_pass_as_the_calendar_has_them() -> None:
    passed = hours_between(MONDAY_S + 1800.0, MONDAY_S + 2 * WEEK_S + 3600.0)
    assert (passed[0], passed[1], passed.sum()) == (2.5, 2.0, 2 * HOURS + 0.5)
    assert week_hours([MONDAY_S + 25 * 3600.0]).tolist() == [25]


def week_shape(counts: ArrayLike, *, dispersion: float = 1.0) -> Floats:
    shapes = common_shapes(np.asarray(counts)[None], np.full(HOURS, 10.0), dispersion=dispersion).shapes
    return np.asarray(shapes[0])


def test_a_week_without_a_pattern_stays_flat() -> None:
    counts = np.random.default_rng(3).poisson(20.0, HOURS)
    assert np.all(np.abs(week_shape(counts) - 1.0) < 0.15)


@pytest.mark.parametrize("events", [300, 3000, 30_000])
def test_a_pattern_is_learned_the_better_the_more_items_there_are(events: int) -> None:
    share = OFFICE / OFFICE.sum()
    counts = np.random.default_rng(4).multinomial(events, share)
    shape = week_shape(counts)
    raw = counts / counts.mean()
    true = OFFICE / OFFICE.mean()
    assert np.abs(shape - true).mean() < 0.7 * np.abs(raw - true).mean()


def test_batches_say_less() -> None:
    counts = np.random.default_rng(5).poisson(1.0, HOURS) * 30
    assert np.ptp(week_shape(counts, dispersion=30.0)) < np.ptp(week_shape(counts))
    weekly = 30.0 * np.asarray(np.random.default_rng(5).poisson(1.0, (20, HOURS)), dtype=np.float64)
    assert dispersion_of(weekly) == pytest.approx(30.0, rel=0.2)


def test_sources_are_told_apart_by_their_weeks() -> None:
    rng = np.random.default_rng(6)
    night = np.roll(OFFICE, 10)
    kinds = rng.integers(0, 2, 40)
    counts = np.array([rng.multinomial(200, (night if kind else OFFICE) / OFFICE.sum()) for kind in kinds])
    found = common_shapes(counts, np.full(HOURS, 8.0))
    assert len(found.shapes) == 2
    first = found.of_source[kinds == 0]
    assert len(set(first.tolist())) == 1
    assert set(found.of_source[kinds == 1].tolist()) == {1 - first[0]}


def test_sources_of_one_kind_share_one_shape() -> None:
    counts = np.random.default_rng(7).multinomial(300, OFFICE / OFFICE.sum(), size=30)
    assert len(common_shapes(counts, np.full(HOURS, 8.0)).shapes) == 1


def test_a_history_is_read_as_if_probed_daily() -> None:
    rng = np.random.default_rng(8)
    times = [np.sort(rng.uniform(0.0, 100 * DAY_S, count)) for count in (400, 10)]
    model = FleetModel(2, start_s=0.0)
    model.read(times, until_s=100 * DAY_S)
    per_day = model.rates.per_s(100 * DAY_S) * DAY_S
    assert per_day[0] == pytest.approx(4.0, rel=0.2)
    assert per_day[1] < 0.5
    assert model.counts.sum() == pytest.approx(410, rel=0.25)


@pytest.mark.parametrize("weeks", [2.0, 4.0, 4.5])
def test_single_items_are_not_taken_for_batches(weeks: float) -> None:
    rng, stop_s = np.random.default_rng(3), MONDAY_S + weeks * WEEK_S
    model = FleetModel(50, start_s=MONDAY_S)
    times = [np.sort(rng.uniform(MONDAY_S, stop_s, rng.poisson(weeks * 70.0))) for _ in range(50)]
    model.read(times, until_s=stop_s)
    assert model.dispersion() == pytest.approx(1.0, abs=0.3)


def test_a_source_is_not_learned_from_before_it_was_known() -> None:
    """The trap: a feed that shows the last day only would seem to have been silent for all of the time before."""
    times = [np.arange(0.5, 100.0) * DAY_S, np.arange(99.0, 100.0, 0.1) * DAY_S]
    known, naive = FleetModel(2, start_s=0.0), FleetModel(2, start_s=0.0)
    known.read(times, until_s=100 * DAY_S, since_s=[0.0, 98.95 * DAY_S])
    naive.read(times, until_s=100 * DAY_S)
    rates = known.rates.per_s(100 * DAY_S) * DAY_S
    assert rates[0] == pytest.approx(1.0, rel=0.1)
    assert rates[1] > 5.0
    assert naive.rates.per_s(100 * DAY_S)[1] * DAY_S < 2.0


def test_what_came_before_a_source_was_known_is_not_taken_in() -> None:
    times = [np.arange(0.5, 20.0) * DAY_S, np.arange(0.5, 20.0) * DAY_S]
    cut = [times[0], times[1][10:]]
    models = FleetModel(2, start_s=0.0), FleetModel(2, start_s=0.0)
    for model, given in zip(models, (times, cut), strict=True):
        model.read(given, until_s=20 * DAY_S, since_s=[0.0, 10 * DAY_S])
    assert np.array_equal(models[0].rates.events, models[1].rates.events)
    assert np.array_equal(models[0].counts, models[1].counts)
