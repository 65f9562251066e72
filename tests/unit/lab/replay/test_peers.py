"""The peers' formulas by hand."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.lab.replay.policy_registry import CommaFeed, EntryFrequency, Nutch, RoundRobin, StormCrawler, factor_for
from proxyd.lab.replay.replay import Terms

Floats = NDArray[np.float64]
HOUR_S, DAY_S, WEEK_S = 3600.0, 86400.0, 7 * 86400.0
NOW_S = 60 * DAY_S
NONE = np.zeros(0)
ONE = np.array([0])


def terms(*history: Floats) -> Terms:
    grid = ChrononGrid(HOUR_S)
    start = grid.chronon_at(NOW_S)
    return Terms(grid, Epoch(start, start + 100), 100, tuple(history), 0.0, HOUR_S)


def test_round_robin_knows_one_interval() -> None:
    formula = RoundRobin(terms(NONE, NONE))
    assert formula.first_s().tolist() == formula.after_s(np.array([0, 1]), [NONE, NONE], NOW_S).tolist() == [3600, 3600]


def test_entry_frequency_divides_a_week_by_its_entries() -> None:
    recent = NOW_S - np.array([6.0, 4.0, 2.0]) * DAY_S
    formula = EntryFrequency(terms(np.concatenate([[NOW_S - 30 * DAY_S], recent[:0], recent]), NONE))
    assert formula.first_s().tolist() == [DAY_S, DAY_S]  # 56 hours, and none: both at most a day
    busy = NOW_S + np.arange(1.0, 12.0)
    assert formula.after_s(ONE, [busy], NOW_S + 20.0)[0] == pytest.approx(WEEK_S / 14)
    flood = NOW_S + 30.0 + np.arange(5000.0) / 100
    assert formula.after_s(ONE, [flood], NOW_S + 100.0)[0] == 300.0


@pytest.mark.parametrize(
    ("silent_days", "wait_s"),
    [(40.0, 4 * HOUR_S), (20.0, 2 * HOUR_S), (10.0, HOUR_S), (1.0, HOUR_S)],
    ids=["a month", "two weeks", "a week", "recent: half of ten hours, at most one"],
)
def test_commafeed_waits_longer_for_silent_feeds(silent_days: float, wait_s: float) -> None:
    last_s = NOW_S - silent_days * DAY_S
    formula = CommaFeed(terms(np.array([last_s - 20 * HOUR_S, last_s - 10 * HOUR_S, last_s])))
    assert formula.first_s()[0] == wait_s


def test_commafeed_takes_half_the_mean_time_between_entries() -> None:
    formula = CommaFeed(terms(NOW_S - np.array([3.0, 2.0, 1.0]) * HOUR_S, NONE))
    assert formula.first_s().tolist() == [0.5 * HOUR_S, 4 * HOUR_S]
    assert formula.after_s(np.array([1]), [NOW_S + np.array([0.0, 1.0])], NOW_S + 2.0)[0] == 300.0


def test_nutch_shrinks_on_a_change_and_grows_without_one() -> None:
    formula = Nutch(terms(NONE))
    assert formula.first_s()[0] == 30 * DAY_S
    assert formula.after_s(ONE, [np.array([NOW_S + 1.0])], NOW_S + 2.0)[0] == pytest.approx(24 * DAY_S)
    later_s = NOW_S + 2.0 + 10 * DAY_S
    assert formula.after_s(ONE, [NONE], later_s)[0] == pytest.approx(24 * 1.4 * DAY_S - 0.3 * 10 * DAY_S)
    after_a_gap_s = NOW_S + 2.0 + 100 * DAY_S
    assert formula.after_s(ONE, [NONE], after_a_gap_s)[0] == pytest.approx((100 - 30) * DAY_S)


def test_stormcrawler_goes_half_way_to_an_hour_or_half_as_long_again() -> None:
    formula = StormCrawler(terms(NONE))
    assert formula.after_s(ONE, [NONE], NOW_S)[0] == 1.5 * DAY_S
    assert formula.after_s(ONE, [np.array([NOW_S])], NOW_S)[0] == 0.75 * DAY_S + 0.5 * HOUR_S
    for _ in range(20):
        longest = formula.after_s(ONE, [NONE], NOW_S)[0]
    assert longest == 14 * DAY_S


@pytest.mark.parametrize("probes", [3, 100, 99_999])
def test_the_factor_makes_at_most_the_budget(probes: int) -> None:
    factor = factor_for(lambda factor: int(100_000 / factor), probes)
    assert 0.99 * probes - 1 <= int(100_000 / factor) <= probes
