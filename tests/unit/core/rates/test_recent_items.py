"""What recent items say of a rate: when a correction is used, and which."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from proxyd.core.model.arrays import Floats
from proxyd.core.rates.rate_blend import (
    HALF_LIVES_S,
    NO_EVIDENCE,
    SHORT_S,
    TRAITS,
    ChangedBit,
    ItemCount,
    ItemTimes,
    ShortMemory,
    note_recent,
    traits,
    traits_of,
    unpack_recent,
)
from proxyd.core.rates.week_bins import MONDAY_S, Cycle

HOUR_S = 3600.0
RATIOS = len(SHORT_S) + 1 + len(HALF_LIVES_S)


def probes(seed: int, *, swing: float, count: int = 4000) -> tuple[Floats, Floats, Floats]:
    """Return traits, found and expected items of probes of sources whose rates swing with what they last showed."""
    rng = np.random.Generator(np.random.PCG64(seed))
    known = traits(rng.poisson(2.0, (count, RATIOS)), np.full((count, RATIOS), 2.0), rng.exponential(1.0, count))
    expected = rng.uniform(0.05, 1.0, count)
    found = rng.poisson(expected * np.exp(swing * known[:, 3])).astype(np.float64)
    return known, found, expected


def learn(memory: ShortMemory, known: Floats, found: Floats, expected: Floats, first_day: int = 0) -> ShortMemory:
    for day in range(0, len(known), 50):
        some = slice(day, day + 50)
        memory.learn(known[some], found[some], expected[some], np.ones(len(known[some])), (first_day + day) * 86400.0)
    return memory


def test_the_weights_are_near_those_of_least_delay_and_probes() -> None:
    known, found, expected = probes(1, swing=0.7)

    def costs(weights: Floats) -> float:
        roots = np.exp(known @ weights / 2)
        return float((found / roots + expected * roots).sum() + 30.0 * (weights @ weights) / 4)

    best = minimize(costs, np.zeros(TRAITS)).x
    rates = learn(ShortMemory(), known, found, expected).factors(known)
    assert np.abs(np.log(rates) - known @ best).mean() < 0.05
    assert np.abs(np.log(rates) - 0.7 * known[:, 3]).mean() < 0.15


def test_a_correction_that_saves_delay_is_used_and_one_that_does_not_is_not() -> None:
    assert all(learn(ShortMemory(), *probes(seed, swing=0.7)).is_used for seed in range(10))
    assert not any(learn(ShortMemory(), *probes(seed, swing=0.0)).is_used for seed in range(10))


def test_few_items_correct_nothing() -> None:
    known, found, expected = probes(1, swing=0.7)
    few = int(np.searchsorted(np.cumsum(found), 150))
    assert not learn(ShortMemory(), known[:few], found[:few], expected[:few]).is_used


def test_a_correction_that_no_longer_saves_delay_is_given_up() -> None:
    memory = learn(ShortMemory(), *probes(1, swing=0.7))
    weeks = (learn(memory, *probes(seed, swing=-0.7, count=1000)).is_used for seed in range(2, 12))
    assert not all(weeks)


def test_what_was_learned_is_the_same_after_it_was_packed() -> None:
    memory, again = learn(ShortMemory(), *probes(1, swing=0.7, count=950)), ShortMemory()
    again.unpack(memory.pack())
    assert again.pack() == memory.pack()
    more = probes(2, swing=0.7, count=350)
    assert learn(again, *more).pack() == learn(memory, *more).pack()


@pytest.mark.parametrize("packed", ["", "Zm9v"], ids=["nothing", "another version"])
def test_what_another_version_packed_is_left_out(packed: str) -> None:
    memory = ShortMemory()
    memory.unpack(packed)
    assert memory.pack() == ShortMemory().pack()


def test_items_without_times_are_spread_over_the_time_of_the_probe() -> None:
    ends_s = 6 * HOUR_S * (np.arange(1000) + 0.5) / 1000
    spread = note_recent(b"", 0.0, ItemTimes(0.0, 6 * HOUR_S, tuple(ends_s.tolist())), 1000.0, 1.0, 1.0)
    for evidence in (ItemCount(0.0, 6 * HOUR_S, 1000), ChangedBit(0.0, 6 * HOUR_S, True)):
        untimed = note_recent(b"", 0.0, evidence, 1000.0, 1.0, 1.0)
        assert np.allclose(unpack_recent(untimed, 0.0), unpack_recent(spread, 0.0), rtol=1e-4)


def test_a_source_that_nothing_is_known_of_has_no_traits() -> None:
    assert traits_of(unpack_recent(b"", 0.0), NO_EVIDENCE, 1.0).tolist() == [[0.0] * RATIOS + [1.0, 0.0, 0.0]]


def test_an_item_is_forgotten_by_the_shortest_half_life_first() -> None:
    found = note_recent(b"", 0.0, ItemTimes(0.0, HOUR_S, (HOUR_S,)), 1.0, 1.0, 1.0)
    for age_s in SHORT_S:
        items, _ = unpack_recent(found, age_s)
        assert list(items[:-1]) == sorted(items[:-1])
        assert items[SHORT_S.index(age_s)] == 0.5


def test_what_another_version_kept_of_recent_items_says_nothing() -> None:
    assert unpack_recent(b"\0" * 32, 0.0) == unpack_recent(b"", 0.0)


@pytest.mark.parametrize("told", [True, False], ids=["with times", "without times"])
def test_a_source_that_is_busy_every_other_week_has_the_rate_of_the_week_that_comes(told: bool) -> None:
    cycle, recent = Cycle(), b""
    for day in range(8 * 7):
        since_s, until_s = MONDAY_S + day * 86400.0, MONDAY_S + (day + 1) * 86400.0
        count = 19 if day // 7 % 2 else 1
        times_s = tuple((since_s + 3600.0 * (1 + np.arange(count))).tolist())
        evidence = ItemTimes(since_s, until_s, times_s) if told else ItemCount(since_s, until_s, count)
        recent = note_recent(recent, 86400.0, evidence, float(count), 1.0, 1.0, cycle.in_odd_weeks(evidence))
    per_s = 10.0 / 86400.0
    for is_odd, factor in ((False, 0.1), (True, 1.9)):
        known = traits_of(unpack_recent(recent, 0.0, odd=is_odd), NO_EVIDENCE, per_s)
        assert np.isclose(known[0, len(SHORT_S)], np.log(factor), atol=0.05)


def test_sources_whose_items_come_in_sessions_have_a_higher_rate_while_the_newest_item_is_new() -> None:
    memory, rng = ShortMemory(), np.random.default_rng(1)
    nothing = np.ones((100, RATIOS))
    for day in range(40):
        ages = rng.exponential(1.0, 100)
        known = traits(nothing, nothing, ages)
        rates = np.where(ages < 0.2, 5.0, 0.2)
        memory.learn(known, rng.poisson(rates), np.ones(100), np.ones(100), day * 86400.0)
    new, old = memory.factors(traits(nothing[:2], nothing[:2], [0.0, 2.0])).tolist()
    assert memory.saved_by_age.is_used
    assert new > 4.0
    assert old < 1.0


def test_the_age_of_the_newest_item_is_left_out_where_it_says_nothing() -> None:
    memory, rng = ShortMemory(), np.random.default_rng(1)
    for day in range(40):
        busy = rng.random(100) < 0.5
        items = np.where(busy, 8.0, 0.0)[:, None] * np.ones(RATIOS)
        known = traits(items, np.full((100, RATIOS), 4.0), rng.exponential(1.0, 100))
        memory.learn(known, rng.poisson(np.where(busy, 1.0, 0.1)), np.full(100, 0.5), np.ones(100), day * 86400.0)
    assert memory.saved.is_used
    assert not memory.saved_by_age.is_used
    new, old = memory.factors(traits(items[[0, 0]], np.full((2, RATIOS), 4.0), [0.0, 9.0])).tolist()
    assert new == old


def test_the_newness_of_an_item_is_by_mean_gaps() -> None:
    slow, fast = (traits_of(unpack_recent(b"", 0.0), NO_EVIDENCE, per_s, 0.3 / per_s) for per_s in (1e-6, 1e-3))
    assert np.allclose(slow, fast)
    assert (traits_of(unpack_recent(b"", 0.0), NO_EVIDENCE, 1e-3)[0, RATIOS + 1 :] == 0.0).all()
