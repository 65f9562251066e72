"""The gaps between probes of counted items: against sums of Poisson probabilities, value iteration and simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import poisson

from proxyd.core.planning.allocation.timetable import LEVELS, TimetableBuilder
from proxyd.core.planning.kernels.counted_events import (
    CountedRule,
    ItemsLine,
    firings,
    gaps_of_counts,
    last_fired,
    residues,
    waiting_items,
)
from proxyd.core.planning.kernels.losses import Losses, by_rate, window

Floats = NDArray[np.float64]

everies = st.integers(2, 7)
items = st.floats(0.01, 60.0)

DAY = np.array([0.1] * 8 + [1.0] * 10 + [0.1] * 6)
WEEK = np.concatenate([np.tile(DAY, 5), np.full(48, 0.1)])


def summed(every: int, expected: float, count: int) -> tuple[float, float]:
    """Return the firings among Poisson items, and the probability that the last one came and fired, by summation."""
    numbers = np.arange(int(expected + 12 * np.sqrt(expected) + 40))
    chances = poisson.pmf(numbers, expected)
    fires = (numbers > 0) & ((count + numbers) % every == 0)
    return float(chances @ ((count + numbers) // every)), float(chances @ fires)


@given(everies, items)
def test_firings_equal_sums_of_poisson_probabilities(every: int, expected: float) -> None:
    at = np.array([expected])
    wanted = [summed(every, expected, count) for count in range(every)]
    assert firings(every, at)[0] == pytest.approx([each[0] for each in wanted], abs=1e-8)
    assert last_fired(every, at)[0] == pytest.approx([each[1] for each in wanted], abs=1e-8)
    assert residues(every, at).sum() == pytest.approx(1.0)


@given(everies, items)
def test_waiting_is_the_integral_of_the_firings(every: int, expected: float) -> None:
    points = np.linspace(0.0, expected, 2001)
    wanted = np.trapezoid(firings(every, points), points, axis=0)
    assert waiting_items(every, np.array([expected]))[0] == pytest.approx(wanted, rel=1e-4, abs=1e-6)


def costs_at(gap: float, every: int, losses: Losses, rate_per_s: float, price_s: float, missed_s: float) -> Floats:
    """Return the cost of a gap by its definition, by count."""
    points = np.linspace(0.0, gap, 201)
    cost = price_s + np.trapezoid(firings(every, points), points, axis=0) / rate_per_s
    for step in losses.steps:
        cost += missed_s * step.delay * firings(every, np.array([max(0.0, gap - step.after * rate_per_s)]))[0]
    caught = [summed(every, gap, count)[1] for count in range(every)]
    return np.asarray(cost + missed_s * losses.overwritten * (firings(every, np.array([gap]))[0] - caught))


@pytest.mark.parametrize("losses", [Losses(), Losses(window(5000.0, 1.0)), Losses(overwritten=1.0)], ids=str)
@pytest.mark.parametrize("every", [2, 3, 6])
def test_no_policy_on_a_coarse_grid_costs_less(every: int, losses: Losses) -> None:
    terms = {"rate_per_s": 1e-3, "price_s": 3000.0, "missed_s": 20_000.0}
    found = gaps_of_counts(every, losses, **terms)
    gaps = 2.0 ** (np.arange(-8, 18) / 3)
    costs = np.array([costs_at(gap, every, losses, **terms) for gap in gaps.tolist()])
    chances = residues(every, gaps)
    ahead = (np.arange(every)[:, None] + np.arange(every)) % every
    later = np.zeros(every)
    for _ in range(20_000):  # value iteration on the change of the cost for each item, which must not be negative
        total = costs - found.cost * gaps[:, None] + chances @ later[ahead]
        new = 0.05 * total.min(axis=0) + 0.95 * later
        drift, later = float(new.min() - later.min()), new
    assert drift > -0.01 * terms["price_s"] * 0.05


@pytest.mark.parametrize("every", [2, 5, 10])
def test_gaps_shrink_as_the_count_grows(every: int) -> None:
    found = gaps_of_counts(every, Losses(overwritten=1.0), rate_per_s=1e-3, price_s=1e5, missed_s=1e6)
    assert np.all(np.diff(found.items) <= 1e-9)
    assert found.items[-1] < found.items[0] / 2


def followed(rule: CountedRule, line: ItemsLine, price_s: float, probes: int) -> tuple[float, float]:
    """Return probes a second and the share of firings found within the life, by simulation."""
    rng = np.random.default_rng(7)
    start_s = at_s = line.begun_s
    count, in_time, fired = 0, 0, 0
    for _ in range(probes):
        next_s = rule.next_s(count, at_s, line, price_s=price_s)
        begin, end = line.items(np.array([at_s, next_s])).tolist()
        times_s = line.times_s(np.sort(rng.uniform(begin, end, rng.poisson(end - begin))))
        fires = (count + 1 + np.arange(len(times_s))) % rule.every == 0
        in_time += int(np.sum(times_s[fires] >= next_s - rule.life_s))
        fired += int(fires.sum())
        count, at_s = (count + len(times_s)) % rule.every, next_s
    return probes / (at_s - start_s), in_time / fired


def test_a_counted_rule_is_in_time_more_often_than_even_probes() -> None:
    life_s = 6 * 3600.0
    rule = CountedRule(10, Losses(window(life_s, 1.0)), missed_s=1_814_400.0)
    line = ItemsLine(np.append(0.0, np.cumsum(WEEK / WEEK.mean())), 0.0, 3600.0, 30 / 604_800)
    per_s, in_time = followed(rule, line, 500_000.0, 1000)
    assert in_time > 2.0 * min(1.0, per_s * life_s)


@pytest.mark.parametrize("shape", [np.ones(168), WEEK], ids=["even", "working week"])
@pytest.mark.parametrize("life_s", [None, 12 * 3600.0])
def test_a_timetable_of_counted_items_knows_how_often_they_are_probed(shape: Floats, life_s: float | None) -> None:
    rates, planned, made = np.geomspace(5.0, 60.0, 8) / 168, 0.0, 0.0
    steps = () if life_s is None else window(life_s / 3600.0, 504.0)
    for rate in rates.tolist():
        table = TimetableBuilder(shape, losses=Losses(steps, every=5, rate=rate)).build()
        row = int(np.searchsorted(-table.frequency, -4 / 168))
        rule = CountedRule(5, Losses(steps), missed_s=1.0)
        line = ItemsLine(np.append(0.0, np.cumsum(shape / shape.mean())), 0.0, 1.0, rate)
        planned += float(table.frequency[row])
        made += followed(rule, line, rate * 2.0 ** float(LEVELS[row]), 250)[0]
    assert made == pytest.approx(planned, rel=0.1)


def test_sources_of_counted_items_are_spread_over_two_octaves_that_meet_their_rate() -> None:
    every, found = by_rate([Losses(every=3)], np.zeros(1000, dtype=np.int64), np.full(1000, 1.5))
    octaves = np.log2([every[number].rate for number in found.tolist()])
    assert set(octaves.tolist()) == {0.0, 1.0}
    assert octaves.mean() == pytest.approx(np.log2(1.5), abs=0.01)


@pytest.mark.parametrize(("count", "to_wait"), list(product([0, 1, 2], [True, False])))
def test_quiet_hours_are_waited_for_or_not_as_the_items_come(count: int, to_wait: bool) -> None:
    line = ItemsLine(np.array([0.0, 2.0, 2.0]), 0.0, 43_200.0, 3 / 86_400)  # all items by noon, three a day
    rule = CountedRule(3, Losses(window(3600.0, 1.0)), missed_s=1e6)
    last_s = 43_200.0 if to_wait else 0.0
    due_s = rule.next_s(count, last_s, line, price_s=1e5)
    assert last_s < due_s
    assert due_s >= 86_400.0 or not to_wait
