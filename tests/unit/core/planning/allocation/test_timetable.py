"""Timetables against the exact cyclic solver, prices against their own definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from proxyd.core.errors import InvalidScheduleError
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.planning.allocation.prices import Frequencies, HostLimits, allocate, row_places, slot_loads
from proxyd.core.planning.allocation.timetable import LEVELS, Timetable, TimetableBuilder
from proxyd.core.planning.kernels.golden_turns import turns
from proxyd.core.planning.kernels.losses import WeekCosts
from proxyd.core.planning.kernels.one_source import optimal_cycle

Floats = NDArray[np.float64]
SLOTS = 24


def shapes() -> st.SearchStrategy[Floats]:
    factors = st.lists(st.sampled_from([0.0, 0.2, 1.0, 4.0]), min_size=SLOTS, max_size=SLOTS)
    return factors.map(np.array).filter(lambda shape: shape.sum() > 0)


def best_cycle_cost(shape: Floats, price: float) -> float:
    """Return the least cost a slot of any number of probes a week at ``price`` each, by the exact cyclic solver."""
    week = PiecewiseConstant(np.arange(SLOTS + 1.0), shape / shape.mean())
    even = PiecewiseConstant.constant(1.0, float(SLOTS))
    found = [optimal_cycle(week, even, np.arange(float(SLOTS)), count) for count in range(1, SLOTS + 1)]
    return min(schedule.cost + price * schedule.probes for schedule in found) / SLOTS


@given(shapes(), st.sampled_from([1.0, 4.0, 10.0, 30.0]))
@example(np.repeat([0.0, 0.2, 0.0], [18, 5, 1]), 4.0)  # a round of five probes a week, and no part of a second one
@example(  # the most that was found: 0.72 %
    np.array([0.2, 1, 4, 0, 0, 4, 0, 0, 0.2, 4, 4, 0.2, 0.2, 4, 1, 1, 0.2, 0.2, 0.2, 1, 1, 1, 1, 4]), 30.0
)
def test_a_row_costs_hardly_more_than_the_best_week(shape: Floats, price: float) -> None:
    table = TimetableBuilder(shape).build()
    row = int(np.searchsorted(LEVELS, np.log2(price)))
    exact = float(2.0 ** LEVELS[row])
    ours = table.cost[row] + exact * table.frequency[row]
    assert ours <= best_cycle_cost(shape, exact) * 1.01  # the horizon ends somewhere; weeks need not repeat


@pytest.mark.parametrize("level", [-4.0, 0.0, 6.0, 12.0, 20.0])
def test_an_even_week_is_probed_as_the_square_root_law_says(level: float) -> None:
    table = TimetableBuilder(np.ones(SLOTS)).build()
    row = int(np.searchsorted(LEVELS, level))
    cost = table.cost[row] + 2.0**level * table.frequency[row]
    assert cost == pytest.approx(np.sqrt(2 * 2.0**level), rel=0.07)
    assert table.visits[row].sum() == pytest.approx(table.frequency[row] * SLOTS)


def test_a_higher_price_means_fewer_probes_and_more_delay() -> None:
    table = TimetableBuilder(np.repeat([0.1, 3.0, 1.0], 8)).build()
    assert np.all(np.diff(table.frequency) <= 1e-12)
    assert np.all(np.diff(table.cost) >= -1e-9)


def test_rare_probes_come_at_the_end_of_the_busy_time_whole_weeks_apart() -> None:
    table = TimetableBuilder(np.repeat([0.0, 1.0, 0.0], [8, 8, 8])).build()
    row = int(np.searchsorted(LEVELS, 16.0))
    arrival = (np.arange(SLOTS) + table.gaps[row].astype(int)) % SLOTS
    assert set(arrival.tolist()) == {16}
    assert table.gaps[row][16] % SLOTS == 0


def test_an_expensive_slot_is_avoided() -> None:
    price = np.ones(SLOTS)
    price[16] = 50.0
    table = TimetableBuilder(np.repeat([0.0, 1.0, 0.0], [8, 8, 8])).build(price)
    row = int(np.searchsorted(LEVELS, 6.0))
    assert table.visits[row][16] == 0.0


@pytest.mark.parametrize("shape", [np.zeros(4), np.array([1.0, -1.0])], ids=["nothing", "negative"])
def test_no_week_is_refused(shape: Floats) -> None:
    with pytest.raises(ValueError, match="week shape"):
        TimetableBuilder(shape).build()


@pytest.fixture(scope="module")
def table() -> Timetable:
    return TimetableBuilder(np.repeat([0.2, 2.0, 0.8], 8)).build()


def rates(sources: int) -> Floats:
    return np.random.default_rng(3).lognormal(-3.0, 1.5, sources)


def frequency(table: Timetable, prices: Floats, of: Floats) -> Floats:
    places = row_places(prices, of) + turns(np.arange(len(of)))
    return table.frequency[np.minimum(places, len(LEVELS) - 1.0).astype(np.int64)]


def test_prices_spend_the_budget(table: Timetable) -> None:
    of = rates(4000)
    prices = allocate(Frequencies([table], np.zeros(4000, dtype=np.int64), of), 300.0)
    assert frequency(table, prices.of_source, of).sum() == pytest.approx(300.0, rel=0.01)


def test_one_price_beats_any_other_division_of_the_budget(table: Timetable) -> None:
    of = rates(500)
    even = np.zeros(500, dtype=np.int64)
    ours = allocate(Frequencies([table], even, of), 40.0)
    rng = np.random.default_rng(5)

    def delay(prices: Floats) -> float:
        level = np.log2(prices / of)
        return float((of * np.interp(level, LEVELS, table.cost)).sum())

    for _ in range(20):
        skewed = ours.of_source * rng.lognormal(0.0, 0.7, 500)
        used = frequency(table, skewed, of).sum()
        same_budget = allocate(Frequencies([table], even, of), float(used))
        assert delay(same_budget.of_source) <= delay(skewed) * 1.01


def test_a_host_keeps_its_limit_and_the_rest_goes_to_others(table: Timetable) -> None:
    of = rates(600)
    hosts = HostLimits(np.repeat([0, 1], 300), np.array([5.0, np.inf]))
    prices = allocate(Frequencies([table], np.zeros(600, dtype=np.int64), of), 40.0, hosts=hosts)
    made = frequency(table, prices.of_source, of)
    assert made[:300].sum() == pytest.approx(5.0, rel=0.05)
    assert made.sum() == pytest.approx(40.0, rel=0.02)
    assert prices.of_source[0] > prices.probe == prices.of_source[-1]


def test_a_source_without_rate_is_never_probed(table: Timetable) -> None:
    prices = allocate(Frequencies([table], np.zeros(2, dtype=np.int64), np.array([0.1, 0.0])), 0.05)
    assert slot_loads(
        [table], np.zeros(2, dtype=np.int64), np.array([0.1, 0.0]), prices.of_source
    ).sum() == pytest.approx(0.05 * SLOTS, rel=0.2)


def test_no_budget_is_refused(table: Timetable) -> None:
    with pytest.raises(InvalidScheduleError, match="greater than 0"):
        allocate(Frequencies([table], np.zeros(1, dtype=np.int64), np.ones(1)), 0.0)


@given(shapes(), shapes())
def test_the_cost_of_a_row_is_that_of_the_gaps_it_runs_into(shape: Floats, importance: Floats) -> None:
    table, costs = TimetableBuilder(shape, importance=importance).build(), WeekCosts(shape[None], importance)
    for row in range(len(LEVELS)):
        if table.gaps[row].min() < 1.0:  # many probes in one slot
            continue
        slot, starts = 0, list[int]()
        while slot not in starts:
            starts.append(slot)
            slot = (slot + int(table.gaps[row, slot])) % SLOTS
        cycle = np.array(starts[starts.index(slot) :])
        gaps = table.gaps[row, cycle]
        waited = costs.between(0, cycle.astype(np.float64), cycle + gaps)
        assert table.cost[row] == pytest.approx(waited.sum() / gaps.sum(), rel=1e-9, abs=1e-12)
