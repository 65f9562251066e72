"""Bursts: what is learned of a group's common changes, and what follows for the sources not looked at."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.rates.siblings import BIN_S, KEPT, TOGETHER_S, Bursts, concentrations, together
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S


def drawn(k: float, sources: int, bins: int, each: float) -> list[tuple[int, int]]:
    """Return which of some sources changed in which bins if they share a factor of concentration ``k``."""
    rng = np.random.default_rng(1)
    chances = -np.expm1(-each * rng.gamma(k, 1 / k, bins))
    return [
        (n, int(source)) for n, chance in enumerate(chances) for source in np.flatnonzero(rng.random(sources) < chance)
    ]


@pytest.mark.parametrize(("k", "low", "high"), [(0.2, 0.03, 0.1), (2.0, 0.35, 0.7), (1e9, 10.0, 1e9)])
def test_the_concentration_is_found_again(k: float, low: float, high: float) -> None:
    changes = drawn(k, 200, 4000, 0.01)
    even, groups = (np.ones((1, 168)), np.zeros(200, dtype=np.int64)), np.zeros(200, dtype=np.int64)
    rates = np.full(200, 0.01 / TOGETHER_S)
    found = concentrations(changes, groups, rates, even, 4000 * TOGETHER_S)
    assert low < found[0] < high  # a bin is a quarter of the time in which changes come together


def test_groups_are_told_apart_and_weeks_are_no_bursts() -> None:
    week = np.repeat([0.0, 1.0], 84)
    rng = np.random.default_rng(3)
    busy = [n for n in range(84 * 60) if (n - round(MONDAY_S / TOGETHER_S)) % 84 >= 42]
    calm = [(n, int(s)) for n in busy for s in np.flatnonzero(rng.random(50) < 0.02)]
    batches = [(n, 50 + s) for n in busy[::50] for s in range(50)]
    weeks = (np.array([week]), np.zeros(100, dtype=np.int64))
    found = concentrations(calm + batches, np.repeat([0, 1], 50), np.full(100, 1e-6), weeks, 84 * 60 * TOGETHER_S)
    assert found[0] > 10
    assert found[1] < 0.1


def test_a_few_finds_raise_the_factor_and_empty_probes_lower_it() -> None:
    bursts, now_s = Bursts(0.02), 1000 * BIN_S
    since_s = np.full(10, 999 * BIN_S)
    bursts.note_look(since_s, now_s, np.full((10, KEPT), 0.01))
    bursts.note_items([999.5 * BIN_S] * 3)
    high = bursts.factors(now_s)[-1]
    bursts.note_look(since_s, now_s, np.full((10, KEPT), 0.01))
    assert 10 < bursts.factors(now_s)[-1] < high
    assert bursts.factors(now_s)[:-1] == pytest.approx(1.0)


def test_only_the_time_since_the_last_probe_counts() -> None:
    bursts, now_s = Bursts(1.0), 1000.5 * BIN_S
    bursts.note_look(np.array([998.25 * BIN_S]), now_s, np.ones((1, KEPT)))
    expected = 1 / (1 + np.array([0.75, 1.0, 0.5]))
    assert bursts.factors(now_s)[-3:] == pytest.approx(expected)
    assert bursts.factors(now_s)[:-3] == pytest.approx(1.0)


def test_old_bins_are_forgotten() -> None:
    bursts = Bursts()
    for number in range(3 * KEPT):
        now_s = (number + 1) * BIN_S
        bursts.note_look(np.array([number * BIN_S]), now_s, np.full((1, KEPT), 5.0))
        bursts.note_items([now_s - 60.0])
    assert len(bursts._expected) <= KEPT
    assert len(bursts._found) <= KEPT


def numbers(sizes: np.ndarray) -> list[tuple[int, int]]:
    """Return changes of as many sources in each two hours."""
    return [(number, source) for number, size in enumerate(sizes.tolist()) for source in range(size)]


@pytest.mark.parametrize("size", [1, 4, 25])
@pytest.mark.parametrize("week", [np.ones(84), np.repeat([0.0, 4.0], [63, 21])], ids=["even", "weekly"])
def test_batches_of_k_count_as_k_sources_that_change_together_whatever_the_week(size: int, week: np.ndarray) -> None:
    batches = np.random.default_rng(2).poisson(np.tile(week, 52))
    assert together(numbers(size * batches), 52 * WEEK_S) == pytest.approx(size, rel=0.1)


def test_changes_as_regular_as_a_clock_count_as_independent() -> None:
    assert together(numbers(np.full(84 * 4, 10)), 4 * WEEK_S) == 1.0


@pytest.mark.parametrize("now_s", [0.0, 1.9 * WEEK_S])
def test_less_than_two_weeks_of_changes_tell_nothing(now_s: float) -> None:
    sizes = np.where(np.arange(round(now_s / TOGETHER_S)) % 20, 0, 50)
    assert together(numbers(sizes), now_s) == 1.0


def test_only_changes_of_the_last_year_before_now_count() -> None:
    kept = numbers(np.random.default_rng(3).poisson(2.0, 84 * 60))
    old, coming = [(-84 * 30, source) for source in range(900)], [(84 * 60, source) for source in range(900)]
    assert together(old + kept + coming, 60 * WEEK_S) == together(kept, 60 * WEEK_S)
