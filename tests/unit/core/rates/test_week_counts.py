"""Week counts of single sources, learned online, against what generated them."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.rates.rate_blend import ChangedBit, ItemCount, ItemTimes
from proxyd.core.rates.week_bins import HOUR_S, HOURS, MONDAY_S, WEEK_S
from proxyd.core.rates.week_counts import HALF_LIFE_S, WeekCounts, dispersion, fleet_shapes
from proxyd.core.rates.week_shapes import common_shapes

DAY_S = 86400.0


def hourly(rates: np.ndarray, weeks: int, seed: int, *, since_s: float = MONDAY_S) -> WeekCounts:
    """Return counts of Poisson items at ``rates`` by hour of the week, seen day by day."""
    rng = np.random.Generator(np.random.PCG64(seed))
    counts = WeekCounts.begun(since_s)
    for day in range(7 * weeks):
        begin_s = since_s + day * DAY_S
        hours = np.arange(24) + int(begin_s - MONDAY_S) // 3600
        times = [
            begin_s + hour * HOUR_S + second
            for hour, number in enumerate(rng.poisson(rates[hours % HOURS]))
            for second in rng.uniform(0.0, HOUR_S, number)
        ]
        counts = counts.seen(ItemTimes(begin_s, begin_s + DAY_S, tuple(sorted(times))))
    return counts


def office(level: float) -> np.ndarray:
    rates = np.zeros(HOURS)
    for day in range(5):
        rates[24 * day + 9 : 24 * day + 17] = level
    return rates


def test_items_without_times_are_spread_over_when_they_may_have_come() -> None:
    counts = WeekCounts.begun(MONDAY_S).seen(ItemCount(MONDAY_S, MONDAY_S + 4 * HOUR_S, 8))
    assert counts.counts[:5].tolist() == [2.0, 2.0, 2.0, 2.0, 0.0]
    changed = counts.seen(ChangedBit(MONDAY_S + 4 * HOUR_S, MONDAY_S + 5 * HOUR_S, changed=True))
    assert changed.counts[4] == pytest.approx(1.0)
    assert counts.seen(ChangedBit(MONDAY_S, MONDAY_S + 9.0, changed=False)) is counts


def test_counts_fade_by_half_in_a_half_life() -> None:
    counts = WeekCounts.begun(0.0).seen(ItemTimes(0.0, 60.0, (30.0,)))
    assert counts.fade(60.0 + HALF_LIFE_S).items == pytest.approx(0.5, abs=1e-3)


def test_two_kinds_of_weeks_are_told_apart_though_the_sources_began_at_other_times() -> None:
    night = np.roll(office(0.5), 12)
    weeks = [
        hourly(office(0.5) if number % 2 else night, 6, number, since_s=MONDAY_S + number * 1.5 * DAY_S)
        for number in range(8)
    ]
    shapes, of_source = fleet_shapes(weeks, MONDAY_S + 9 * WEEK_S).in_place()
    assert len(shapes) == 2
    assert len(set(of_source[::2])) == len(set(of_source[1::2])) == 1
    day_shape = shapes[of_source[1]]
    assert day_shape[9:17].mean() > 5 * day_shape[20:24].mean()


def test_a_source_seen_for_three_days_says_nothing_of_the_rest_of_the_week() -> None:
    even = WeekCounts.begun(MONDAY_S)
    times = tuple(MONDAY_S + hour * HOUR_S + 60.0 for hour in range(72))
    shape = fleet_shapes([even.seen(ItemTimes(MONDAY_S, MONDAY_S + 3 * DAY_S, times))], MONDAY_S + 3 * DAY_S).shapes[0]
    assert shape[80:].mean() == pytest.approx(shape[:72].mean(), rel=0.05)


def test_observed_hours_that_all_sources_share_give_the_shapes_of_one_row_of_them() -> None:
    rng = np.random.Generator(np.random.PCG64(5))
    counts = rng.poisson(4.0 * office(1.0) + 0.2, (12, HOURS)).astype(np.float64)
    passed = np.full(HOURS, 4.0)
    one, several = common_shapes(counts, passed), common_shapes(counts, np.tile(passed, (12, 1)))
    np.testing.assert_allclose(one.shapes, several.shapes, rtol=1e-6)
    assert one.of_source.tolist() == several.of_source.tolist()


def test_the_dispersion_of_poisson_items_is_one_and_of_batches_their_size() -> None:
    assert dispersion([hourly(np.full(HOURS, 0.7), 8, 3)], MONDAY_S + 8 * WEEK_S) == pytest.approx(1.0, abs=0.1)
    batches = WeekCounts.begun(MONDAY_S)
    for day in range(28):
        at_s = MONDAY_S + day * DAY_S
        batches = batches.seen(ItemTimes(at_s, at_s + DAY_S, (at_s + 60.0,) * 5))
    assert dispersion([batches], MONDAY_S + 4 * WEEK_S) == pytest.approx(5.0, abs=0.3)


def test_sources_beyond_the_sample_are_given_the_shape_that_fits_them(monkeypatch: pytest.MonkeyPatch) -> None:
    night = np.roll(office(0.5), 12)
    weeks = [hourly(office(0.5) if number % 2 else night, 5, number) for number in range(12)]
    whole = fleet_shapes(weeks, MONDAY_S + 5 * WEEK_S).in_place()[1]
    monkeypatch.setattr("proxyd.core.rates.week_counts._SAMPLE", 6)
    monkeypatch.setattr("proxyd.core.rates.week_counts._RUN", 4)
    found = fleet_shapes(weeks, MONDAY_S + 5 * WEEK_S).in_place()[1]
    assert len(set(found[::2])) == len(set(found[1::2])) == 1
    assert found[0] != found[1]
    assert whole[0] != whole[1]


def test_no_sources_share_one_even_week() -> None:
    found = fleet_shapes([], MONDAY_S)
    assert found.shapes.tolist() == [[1.0] * HOURS]
    assert found.of_source.tolist() == []
    assert found.with_even_weeks(np.zeros(0, dtype=bool)) is found


def test_one_shape_is_learned_of_sources_in_many_zones() -> None:
    zones = np.arange(48) % 24
    weeks = [hourly(np.roll(office(1.5), zone), 6, seed) for seed, zone in enumerate(zones.tolist())]
    found = fleet_shapes(weeks, MONDAY_S + 6 * WEEK_S)
    assert found.ahead_h is not None
    known = found.of_source == 0
    assert known.mean() > 0.9
    assert np.ptp((found.ahead_h + zones)[known]) <= 2  # also the day is the right one
    shapes, of_source = found.in_place()
    true = np.array([np.roll(office(1.0), zone) for zone in zones.tolist()])
    both = [np.corrcoef(shapes[of_source[n]], true[n])[0, 1] for n in np.flatnonzero(known).tolist()]
    assert min(both) > 0.9


def test_sources_beyond_the_sample_are_moved_only_if_their_hour_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    weeks = [hourly(np.roll(office(1.5), zone % 24), 6, zone) for zone in range(48)]
    silent = [WeekCounts.begun(MONDAY_S)] * 3
    monkeypatch.setattr("proxyd.core.rates.week_counts._SAMPLE", 36)
    found = fleet_shapes([*weeks, *silent], MONDAY_S + 6 * WEEK_S)
    assert found.ahead_h is not None
    assert found.of_source[-3:].tolist() == [1, 1, 1]
    known = np.flatnonzero(found.of_source[:48] == 0)
    assert len(known) > 40
    moved_by = (found.ahead_h[known] + known) % 24
    assert np.ptp(moved_by) <= 2 or np.ptp((moved_by + 12) % 24) <= 2


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param([office(1.5)], id="one week"),
        pytest.param([office(1.5), np.ones(HOURS) / 4], id="an office and an even week"),
        pytest.param([office(1.5), np.where(office(1.0) > 0, 0.0, 0.4)], id="an office and what comes beside"),
    ],
)
def test_what_differs_otherwise_is_not_moved(kinds: list[np.ndarray]) -> None:
    weeks = [hourly(kinds[number % len(kinds)], 6, number) for number in range(24)]
    found = fleet_shapes(weeks, MONDAY_S + 6 * WEEK_S)
    assert found.ahead_h is None
    assert len(found.shapes) == len(kinds)
