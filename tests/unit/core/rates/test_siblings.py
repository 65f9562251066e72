"""Siblings: who changes together beyond chance, and who only shares the hours of the week."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.rates.siblings import RecentChanges, siblings_of
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S
from proxyd.lab.traces import STEADY, Week, poisson_events, working_week

WEEKS, SOURCES = 20, 30
STOP_S = MONDAY_S + WEEKS * WEEK_S


def saw(times_s: dict[str, np.ndarray]) -> RecentChanges:
    changes = RecentChanges()
    for time_s, name in sorted((time_s, name) for name, times in times_s.items() for time_s in times.tolist()):
        changes.note_changes(name, [time_s])
    return changes


def drawn(week: Week, seed: int, per_week: float = 12.0) -> dict[str, np.ndarray]:
    rng = np.random.Generator(np.random.PCG64(seed))
    rate_per_s = per_week / WEEK_S
    return {
        f"s{number}": poisson_events(rate_per_s, week, start_s=MONDAY_S, stop_s=STOP_S, rng=rng)
        for number in range(SOURCES)
    }


@pytest.mark.parametrize("week", [pytest.param(STEADY, marks=pytest.mark.long), working_week(night=0.02, weekend=0.02)])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_sources_that_know_nothing_of_each_other_are_no_siblings(week: Week, seed: int) -> None:
    found = siblings_of(saw(drawn(week, seed)).snapshot(), now_s=STOP_S)
    assert sum(map(len, found.values())) <= SOURCES / 15


@pytest.mark.parametrize("seed", range(3))
def test_those_that_are_released_together_find_each_other(seed: int) -> None:
    rng = np.random.Generator(np.random.PCG64(seed))
    times_s = drawn(working_week(), seed, per_week=3.0)
    releases_s = poisson_events(2.0 / WEEK_S, working_week(), start_s=MONDAY_S, stop_s=STOP_S, rng=rng)
    family = ["s1", "s4", "s7"]
    for name in family:
        times_s[name] = np.sort(np.concatenate([times_s[name], releases_s + rng.uniform(0.0, 600.0, releases_s.size)]))
    found = siblings_of(saw(times_s).snapshot(), now_s=STOP_S)
    for name in family:
        known = dict(found[name])
        assert set(known) >= set(family) - {name}
        assert all(0.1 < known[other] < 0.7 for other in family if other != name)


def test_nothing_is_known_of_nobody() -> None:
    assert siblings_of([], now_s=STOP_S) == {}
    assert siblings_of(saw({"a": np.array([MONDAY_S])}).snapshot(), now_s=STOP_S) == {}
    assert siblings_of(saw({"a": np.array([MONDAY_S])}).snapshot(), now_s=STOP_S + 60 * WEEK_S) == {}
