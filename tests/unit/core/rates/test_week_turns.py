"""All weeks that turned by some hours are noticed by the items of the last days, and others are not."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.rates.siblings import TOGETHER_S
from proxyd.core.rates.week_bins import HOUR_S, HOURS, MONDAY_S, WEEK_S
from proxyd.core.rates.week_turns import hours_turned

SOURCES, DAY_S = 120, 86400.0
NOW_S = MONDAY_S + 10 * WEEK_S + 3 * DAY_S  # a Thursday
OFFICE = np.concatenate([np.tile(np.repeat([0.1, 3.0, 0.1], [8, 9, 7]), 5), np.full(48, 0.1)])


def changes(factors: Floats, rng: np.random.Generator, *, per_day: float, turned_s: float, by_h: int) -> Ints:
    """Return when sources changed, and which, in the last four weeks, if their weeks turned at a time."""
    found = []
    hours = np.arange(round((NOW_S - 28 * DAY_S - MONDAY_S) / HOUR_S), round((NOW_S - MONDAY_S) / HOUR_S))
    for source in range(SOURCES):
        later = np.where(hours * HOUR_S + MONDAY_S >= turned_s, by_h, 0)
        items = rng.poisson(per_day / 24 * factors[source, (hours - later) % HOURS])
        bins = np.unique((MONDAY_S + hours[items > 0] * HOUR_S) // TOGETHER_S).astype(np.int64)
        found += [(number, source) for number in bins.tolist()]
    return np.array(sorted(found), dtype=np.int64).reshape(-1, 2)


def turned(found: Ints, zone_h: Ints, *, since_s: float = 0.0, dispersion: float = 1.0) -> int:
    shapes = (OFFICE / OFFICE.mean())[None, :]
    return hours_turned(
        (found[:, 0], found[:, 1]),
        (shapes, np.zeros(SOURCES, dtype=np.int64)),
        np.full(SOURCES, 1.0),
        np.full(SOURCES, NOW_S),
        np.array(zone_h * HOUR_S, dtype=np.float64),
        since_s=since_s,
        dispersion=dispersion,
    )


@pytest.mark.parametrize("by_h", [-10, -5, -3, 0, 3, 6, 10])
@pytest.mark.parametrize("zoned", [False, True], ids=["in one zone", "in many zones"])
def test_the_turn_is_found_within_two_days(by_h: int, zoned: bool) -> None:
    rng = np.random.Generator(np.random.PCG64([by_h + 12, zoned]))
    zone_h = rng.integers(-12, 12, SOURCES) if zoned else np.zeros(SOURCES, dtype=np.int64)
    factors = np.array([np.roll(OFFICE, -zone) for zone in zone_h.tolist()])
    found = changes(factors, rng, per_day=6.0, turned_s=NOW_S - 2 * DAY_S, by_h=by_h)
    by = turned(found, zone_h)
    assert abs(by - by_h) <= (1 if by_h else 0)


def test_what_came_before_the_last_turn_says_nothing() -> None:
    rng, zone_h = np.random.Generator(np.random.PCG64(1)), np.zeros(SOURCES, dtype=np.int64)
    found = changes(np.tile(OFFICE, (SOURCES, 1)), rng, per_day=6.0, turned_s=-np.inf, by_h=6)
    assert turned(found, zone_h) == 6
    assert turned(found, zone_h, since_s=NOW_S - 1.0) == 0


@pytest.mark.parametrize("seed", range(5))
def test_holidays_and_batches_are_no_turn(seed: int) -> None:
    rng, zone_h = np.random.Generator(np.random.PCG64(seed)), np.zeros(SOURCES, dtype=np.int64)
    found = changes(np.tile(OFFICE, (SOURCES, 1)), rng, per_day=4.0, turned_s=np.inf, by_h=0)
    quiet = found[found[:, 0] * TOGETHER_S < NOW_S - 2 * DAY_S]
    batch = np.stack([np.full(SOURCES, NOW_S // TOGETHER_S - 1, dtype=np.int64), np.arange(SOURCES)], axis=1)
    assert turned(quiet, zone_h) == 0
    assert turned(np.concatenate([found, batch]), zone_h) == 0


def test_without_changes_nothing_is_said() -> None:
    zone_h = np.zeros(SOURCES, dtype=np.int64)
    assert turned(np.zeros((0, 2), dtype=np.int64), zone_h) == 0
