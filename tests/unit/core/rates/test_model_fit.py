"""How well a model fits: a week that is followed, one that is turned upside down, and rates that are far off."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest

from proxyd.core.rates.model_fit import NO_FIT, ModelFit, SourceModel
from proxyd.core.rates.rate_blend import ChangedBit, ItemCount, ItemTimes
from proxyd.core.rates.week_bins import HOURS, MONDAY_S, WEEK_S, Cycle
from proxyd.core.rates.week_shapes import WeekSums

DAY_S = 86400.0
OFFICE = np.full(HOURS, 0.1)
for _day in range(5):
    OFFICE[24 * _day + 9 : 24 * _day + 17] = 1.1
OFFICE /= OFFICE.mean()
NIGHT = OFFICE.max() + OFFICE.min() - OFFICE
NIGHT /= NIGHT.mean()
MILD = np.tile(1.0 + 0.6 * np.sin(np.arange(24) / 12 * np.pi), 7)


def times(shape: np.ndarray, per_week: float, weeks: int, rng: np.random.Generator) -> np.ndarray:
    counts = rng.poisson(np.tile(shape * per_week / HOURS, weeks))
    hours = np.repeat(np.arange(len(counts)), counts)
    return np.sort(MONDAY_S + (hours + rng.random(len(hours))) * 3600.0)


def history(model: SourceModel, items: np.ndarray, weeks: int, *, probe_s: float = 0.3 * DAY_S) -> list[ModelFit]:
    """Return how well a model fits after each probe."""
    fit, found = NO_FIT, []
    edges = np.arange(MONDAY_S, MONDAY_S + weeks * WEEK_S, probe_s)
    for since_s, until_s in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        seen = items[(items > since_s) & (items <= until_s)]
        fit = model.judge(fit, ItemTimes(since_s, until_s, tuple(seen.tolist())))
        found.append(fit)
    return found


def model_of(shape: np.ndarray, per_week: float) -> SourceModel:
    return SourceModel(per_week / WEEK_S, WeekSums(shape.tolist()))


@pytest.mark.parametrize("per_week", [5.0, 20.0, 100.0])
@pytest.mark.parametrize("shape", [OFFICE, MILD], ids=["office hours", "a mild day"])
def test_a_source_that_follows_its_week_is_never_off(shape: np.ndarray, per_week: float) -> None:
    for seed in range(50):
        items = times(shape, per_week, 10, np.random.Generator(np.random.PCG64(seed)))
        fits = history(model_of(shape, per_week), items, 10)
        assert all(fit.week_off_since_s is None for fit in fits), seed
        assert all(fit.rate_off_since_s is None for fit in fits), seed


@pytest.mark.parametrize("per_week", [10.0, 30.0, 100.0])
def test_a_week_that_is_turned_upside_down_is_off_within_two_weeks_and_recovers(per_week: float) -> None:
    for seed in range(20):
        rng = np.random.Generator(np.random.PCG64(seed))
        parts = [times(shape, per_week, 3, rng) + n * 3 * WEEK_S for n, shape in enumerate((OFFICE, NIGHT, OFFICE))]
        fits = history(model_of(OFFICE, per_week), np.concatenate(parts), 9)
        off = [fit.as_of_s for fit in fits if fit.week_off_since_s is not None]
        assert off, seed
        assert off[0] is not None
        assert 3 * WEEK_S < off[0] - MONDAY_S < 5 * WEEK_S, seed
        assert fits[-1].week_off_since_s is None, seed


def test_while_its_week_is_off_a_source_is_expected_to_be_even() -> None:
    model = model_of(OFFICE, 10.0)
    assert model.model_to_plan_by(NO_FIT) is model
    off = replace(NO_FIT, week_off_since_s=1.0)
    assert model.model_to_plan_by(off).expect(0.0, 60.0) == SourceModel(model.rate_per_s).expect(0.0, 60.0)
    night_s = MONDAY_S + 2 * 3600.0
    assert model.judge(off, ItemCount(night_s, night_s + 60.0, 0)).expected == pytest.approx(model.rate_per_s * 60.0)


@pytest.mark.parametrize(("factor", "is_off"), [(10.0, True), (0.1, True), (3.0, True), (1.2, False), (1.0, False)])
def test_a_rate_is_off_where_a_week_finds_far_more_or_fewer(factor: float, is_off: bool) -> None:
    for seed in range(5):
        items = times(np.ones(HOURS), 100.0 * factor, 3, np.random.Generator(np.random.PCG64(seed)))
        fits = history(SourceModel(100.0 / WEEK_S), items, 3)
        assert (fits[-1].rate_off_since_s is not None) is is_off
        assert fits[20].rate_off_since_s is None  # it is known for less than a week


@pytest.mark.parametrize(
    ("fit", "dispersion", "is_off"),
    [
        (ModelFit(found=40.0, expected=15.0), 1.0, True),
        (ModelFit(found=40.0, expected=15.0), 4.0, False),
        (ModelFit(found=40.0, expected=15.0, week_off_since_s=1.0), 1.0, False),
        (ModelFit(found=1.0, expected=0.001), 1.0, False),
        (ModelFit(found=0.0, expected=9.0), 1.0, True),
    ],
)
def test_batches_and_single_items_say_less_of_the_rate(fit: ModelFit, dispersion: float, is_off: bool) -> None:
    judged = replace(fit, since_s=0.0, as_of_s=2 * WEEK_S).with_rate(dispersion, week_s=WEEK_S)
    assert judged.rate_off_since_s == (2 * WEEK_S if is_off else None)
    later = replace(judged, as_of_s=3 * WEEK_S).with_rate(dispersion, week_s=WEEK_S)
    assert later.rate_off_since_s == judged.rate_off_since_s
    assert replace(later, found=10.0, expected=9.0).with_rate(1.0, week_s=WEEK_S).rate_off_since_s is None


def test_counts_and_bits_judge_the_week_by_its_gaps() -> None:
    model, since_s = model_of(OFFICE, 168.0), MONDAY_S + 9 * 3600.0
    until_s, even = since_s + 3600.0, 1.0
    week = 0.9 * OFFICE[9] + 0.1
    count = model.judge(NO_FIT, ItemCount(since_s, until_s, 3)).score
    assert count == pytest.approx(3 * log(week) - (week - even))
    changed = model.judge(NO_FIT, ChangedBit(since_s, until_s, changed=True))
    assert changed.score == pytest.approx(log((1 - exp(-week)) / (1 - exp(-even))))
    assert (changed.found, changed.expected) == pytest.approx((1.0, 1 - exp(-OFFICE[9])))
    same = model.judge(NO_FIT, ChangedBit(since_s, until_s, changed=False)).score
    assert same == pytest.approx(even - week)
    assert model.judge(NO_FIT, ItemCount(since_s, until_s, 3, at_least=True)).score == 0.0


def test_it_fades_by_half_in_half_a_week_however_long_a_week_is() -> None:
    for cycle in (Cycle(), Cycle(WEEK_S / 100)):
        fit = ModelFit(found=8.0, expected=4.0, since_s=0.0, as_of_s=0.0)
        half_s = cycle.length_s / 2
        later = SourceModel(0.0, cycle=cycle).judge(fit, ItemCount(0.0, half_s, 0))
        assert (later.found, later.expected) == (4.0, 2.0)


def test_a_week_of_other_length_and_zone_predicts_the_same_in_its_own_time() -> None:
    tokyo = SourceModel(1.0, WeekSums(OFFICE.tolist()), Cycle(), 9 * 3600.0)
    nine_s = MONDAY_S  # of Tokyo
    assert tokyo.expect(nine_s, nine_s + 3600.0)[0] == pytest.approx(3600.0 * OFFICE[9])
    fast = SourceModel(1.0, WeekSums(OFFICE.tolist()), Cycle(WEEK_S / 60))
    items, waits = fast.expect(MONDAY_S + 9 * 60.0, MONDAY_S + 10 * 60.0)
    assert (items, waits) == pytest.approx((60.0 * OFFICE[9], 1800.0 * OFFICE[9]))
