"""Every policy of a replay keeps to its budgets, repeats itself, and does not look ahead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.lab.replay.policy_registry import LEARNING, PEERS, WaitingPolicy
from proxyd.lab.replay.replay import ProbesMade, ReplayPolicy, Terms, measures_of_probes, replay

Floats = NDArray[np.float64]
DAY_S, WEEK_S = 86400.0, 7 * 86400.0
START_S = 40 * WEEK_S + 4 * DAY_S  # a Monday
GRID = ChrononGrid(3600.0)
EPOCH = Epoch(GRID.chronon_at(START_S), GRID.chronon_at(START_S + WEEK_S))
SOURCES = 8


def peer(name: str) -> Callable[[Terms], ReplayPolicy]:
    return lambda terms: WaitingPolicy(terms, PEERS[name](terms), factor=0.5)


MAKERS = LEARNING | {name: peer(name) for name in PEERS}


def events(seed: int, start_s: float, stop_s: float) -> tuple[Floats, ...]:
    rng = np.random.default_rng(seed)
    expected = (stop_s - start_s) / DAY_S * 6.0 / np.arange(1, SOURCES + 1)
    return tuple(np.sort(rng.uniform(start_s, stop_s, rng.poisson(mean))) for mean in expected)


@pytest.fixture(scope="module")
def terms() -> Terms:
    return Terms(
        grid=GRID,
        epoch=EPOCH,
        probes=14 * SOURCES,
        history=events(1, START_S - 4 * WEEK_S, START_S),
        history_start_s=START_S - 4 * WEEK_S,
        slot_s=3600.0,
    )


@pytest.fixture(scope="module")
def future(terms: Terms) -> tuple[Floats, ...]:
    return events(2, terms.start_s, terms.stop_s)


def made_by(name: str, future: tuple[Floats, ...], terms: Terms) -> ProbesMade:
    return replay(future, MAKERS[name](terms), terms)  # which raises where a budget or a chronon is overdrawn


@pytest.fixture(scope="module")
def usual(future: tuple[Floats, ...], terms: Terms) -> Callable[[str], ProbesMade]:
    """Return the probes of a policy on these terms, made once; it changes no input."""
    inputs = (*terms.history, *future)

    def made(name: str) -> ProbesMade:
        before = [times.copy() for times in inputs]
        found = made_by(name, future, terms)
        assert all(np.array_equal(was, times) for was, times in zip(before, inputs, strict=True))
        return found

    return cache(made)


def pairs(made: ProbesMade, before: int) -> list[tuple[int, int]]:
    return [(c, s) for c, s in zip(made.chronons.tolist(), made.sources.tolist(), strict=True) if c <= before]


@pytest.mark.parametrize("name", MAKERS)
def test_it_keeps_its_budget_and_changes_no_input(name: str, usual: Callable[[str], ProbesMade], terms: Terms) -> None:
    made = usual(name)
    assert 0 < len(made.sources) <= terms.probes
    assert set(made.sources.tolist()) <= set(range(SOURCES))


@pytest.mark.parametrize("name", MAKERS)
def test_a_budget_may_be_less_than_a_probe_a_chronon(name: str, future: tuple[Floats, ...], terms: Terms) -> None:
    made = made_by(name, future, replace(terms, per_chronon=1, probes=40))
    assert 0 < len(made.sources) <= 40
    assert np.unique(made.chronons, return_counts=True)[1].max() == 1


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if number == 0 else pytest.mark.long) for number, each in enumerate(MAKERS)]
)
def test_it_keeps_to_the_budget_of_every_chronon(name: str, future: tuple[Floats, ...], terms: Terms) -> None:
    tight = replace(terms, per_chronon=1, probes=len(EPOCH))
    made = made_by(name, future, tight)
    assert np.unique(made.chronons, return_counts=True)[1].max() == 1


@pytest.mark.long
@pytest.mark.parametrize("name", MAKERS)
def test_the_same_terms_give_the_same_probes(
    name: str, usual: Callable[[str], ProbesMade], future: tuple[Floats, ...], terms: Terms
) -> None:
    first, second = usual(name), made_by(name, future, terms)
    assert np.array_equal(first.sources, second.sources)
    assert np.array_equal(first.chronons, second.chronons)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("after", [100, *(pytest.param(after, marks=pytest.mark.long) for after in (1, 150))])
def test_another_future_changes_no_decision_of_the_past(
    name: str, after: int, usual: Callable[[str], ProbesMade], future: tuple[Floats, ...], terms: Terms
) -> None:
    now = EPOCH.start + after
    now_s = GRID.start_s(now)
    other = events(3, now_s + 1.0, terms.stop_s)
    changed = tuple(np.concatenate([past[past <= now_s], new]) for past, new in zip(future, other, strict=True))
    assert pairs(usual(name), now) == pairs(made_by(name, changed, terms), now)


@pytest.mark.parametrize("name", MAKERS)
def test_nothing_at_all_may_happen(name: str, terms: Terms) -> None:
    silent = tuple(np.zeros(0) for _ in range(SOURCES))
    unknown = replace(terms, history=silent, history_start_s=terms.start_s)
    assert measures_of_probes(silent, made_by(name, silent, unknown), unknown).mean_delay_s == 0.0
