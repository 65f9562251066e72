"""The fleet planner in virtual time: budgets, capacity, spacing, and delay no worse than what it is compared with."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from proxyd.core.errors import InvalidScheduleError, SchedulingError
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.planning.allocation.probe_allocator import FleetDemand, FleetLimits, ProbeAllocator, WeekGrid
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.core.planning.kernels.losses import WeekCosts
from proxyd.lab.algorithms.detection_frequencies import tight_bound

Floats = NDArray[np.float64]
SLOT_S = 3600.0
GRID = WeekGrid(SLOT_S)
MONDAY_S = 4 * 86400.0
OFFICE = np.tile(np.repeat([0.05, 1.0, 0.05], [9, 8, 7]), 7)


def planner(rates: Floats, shape: Floats, limits: FleetLimits, weights: Floats | None = None) -> ProbeAllocator:
    shape_of = np.zeros(len(rates), dtype=np.int64)
    demand = FleetDemand(GRID, shape[None, :], shape_of, rates / SLOT_S, MONDAY_S, weights)
    return ProbeAllocator(demand, limits, now_s=MONDAY_S)


def play(fleet: ProbeAllocator, weeks: int, room: int, *, spend: bool = False) -> tuple[Floats, NDArray[np.int64]]:
    """Return the mean expected items undiscovered of each source after the first week, and the load of each slot."""
    rates = fleet.rate_per_s * SLOT_S
    shape = fleet.shapes[0] / fleet.shapes[0].mean()
    waiting, total, loads = np.zeros(len(rates)), np.zeros(len(rates)), []
    for slot in range(weeks * GRID.slots):
        chosen = fleet.choose(MONDAY_S + slot * SLOT_S, room, spend=spend)
        loads.append(len(chosen))
        waiting[chosen] = 0.0
        fleet.note_probes(chosen, fleet.rate_per_s[chosen], now_s=MONDAY_S + slot * SLOT_S)
        if slot >= GRID.slots:
            total += waiting + rates * shape[slot % GRID.slots] / 2
        waiting += rates * shape[slot % GRID.slots]
    return total / ((weeks - 1) * GRID.slots), np.array(loads)


def some_rates(sources: int) -> Floats:
    return np.arange(1.0, sources + 1) ** -1.0


def test_an_even_week_comes_near_the_tight_bound() -> None:
    rates = some_rates(200)
    undiscovered, loads = play(planner(rates, np.ones(GRID.slots), FleetLimits(10.0)), 6, 10_000)
    bound = tight_bound(rates, 10.0).cost - rates.sum() / 2  # its probes come at the end of a step, ours at the start
    assert loads[GRID.slots :].mean() == pytest.approx(10.0, rel=0.03)
    assert bound * 0.97 <= undiscovered.sum() <= bound * 1.04


def test_a_week_with_a_shape_is_used() -> None:
    rates = some_rates(200)
    shaped, loads = play(planner(rates, OFFICE, FleetLimits(2.0)), 6, 10_000)
    blind = planner(rates, np.ones(GRID.slots), FleetLimits(2.0))
    blind.shapes = OFFICE[None, :]
    flat, same = play(blind, 6, 10_000)
    assert loads[GRID.slots :].sum() == pytest.approx(same[GRID.slots :].sum(), rel=0.05)
    assert shaped.sum() < 0.85 * flat.sum()


def test_a_capacity_is_kept_and_pricing_it_helps() -> None:
    rates = some_rates(300)
    limits = FleetLimits(2.0, capacity=np.full(GRID.slots, 4.0))
    priced, loads = play(planner(rates, OFFICE, limits), 6, 4)
    flat_cap, _ = play(planner(rates, OFFICE, FleetLimits(2.0)), 6, 4)
    assert loads.max() <= 4
    assert loads[GRID.slots :].mean() == pytest.approx(2.0, rel=0.1)
    assert priced.sum() < flat_cap.sum()


def test_equal_sources_are_staggered_under_a_capacity() -> None:
    limits = FleetLimits(5.0, capacity=np.full(GRID.slots, 5.0))
    _, loads = play(planner(np.full(100, 0.01), OFFICE, limits), 4, 5, spend=True)
    assert loads[GRID.slots :].min() == 5


def test_weights_take_probes_from_others() -> None:
    rates, weights = np.full(100, 0.05), np.repeat([9.0, 1.0], 50)
    undiscovered, _ = play(planner(rates, np.ones(GRID.slots), FleetLimits(2.0), weights), 6, 10_000)
    assert undiscovered[50:].sum() / undiscovered[:50].sum() == pytest.approx(3.0, rel=0.15)


def test_a_silent_source_is_not_probed_until_its_rate_is_known() -> None:
    fleet = planner(np.array([0.5, 0.0]), np.ones(GRID.slots), FleetLimits(1.0))
    assert np.isinf(fleet.due_s[1])


@pytest.mark.parametrize("slot_s", [0.0, -1.0, 1000.0, np.inf])
def test_a_week_is_a_whole_number_of_slots(slot_s: float) -> None:
    with pytest.raises(InvalidScheduleError, match="whole number of slots"):
        WeekGrid(slot_s)


@pytest.mark.parametrize(("start", "finish"), [(3.5, 20.25), (160.0, 170.0), (2000.75, 2900.5), (5.0, 5.0)])
def test_waiting_costs_what_the_one_source_prefix_says(start: float, finish: float) -> None:
    rng = np.random.default_rng(2)
    shape, importance = rng.uniform(0.0, 2.0, GRID.slots), rng.uniform(0.5, 2.0, GRID.slots)
    edges = np.arange(GRID.slots + 1.0)
    weeks = [PiecewiseConstant(edges, values / values.mean()).repeat(20) for values in (shape, importance)]
    costs = WeekCosts(shape[None, :], importance)
    ours = costs.between(np.zeros(1, dtype=np.int64), np.array([start]), np.array([finish]))
    assert ours[0] == pytest.approx(Prefix(weeks[0], weeks[1]).cost(start, finish), abs=1e-6)


def test_sources_need_as_many_rates_and_a_week_as_many_factors() -> None:
    flat, shape_of = np.ones((1, GRID.slots)), np.zeros(3, dtype=np.int64)
    with pytest.raises(SchedulingError, match="as many rates"):
        ProbeAllocator(FleetDemand(GRID, flat, shape_of, [1.0, 1.0], MONDAY_S), FleetLimits(1.0), now_s=MONDAY_S)
    with pytest.raises(SchedulingError, match="none negative"):
        ProbeAllocator(FleetDemand(GRID, flat, shape_of, [1.0, -1.0, 1.0], MONDAY_S), FleetLimits(1.0), now_s=MONDAY_S)
    with pytest.raises(SchedulingError, match="as many factors"):
        ProbeAllocator(FleetDemand(GRID, flat[:, 1:], shape_of, [1.0] * 3, MONDAY_S), FleetLimits(1.0), now_s=MONDAY_S)


def test_a_capacity_may_come_later() -> None:
    capacity = np.where(np.arange(GRID.slots) < 84, 0.1, 4.0)
    late = planner(np.full(30, 0.3), np.ones(GRID.slots), FleetLimits(2.0))
    late.reprice(FleetLimits(2.0, capacity=capacity), now_s=MONDAY_S)
    first = planner(np.full(30, 0.3), np.ones(GRID.slots), FleetLimits(2.0, capacity=capacity))
    assert np.array_equal(late.due_s, first.due_s)


@pytest.mark.parametrize("capacity", [None, np.full(GRID.slots, 3.0)], ids=["an average alone", "a capacity"])
def test_the_gaps_of_all_timetables_are_held_once(capacity: Floats | None) -> None:
    shapes = np.array([OFFICE, 1.1 - OFFICE])
    demand = FleetDemand(GRID, shapes, np.arange(20) % 2, some_rates(20) / SLOT_S, MONDAY_S)
    fleet = ProbeAllocator(demand, FleetLimits(2.0, capacity), now_s=MONDAY_S)
    for table, gaps in zip(fleet.tables, fleet._gaps, strict=True):
        assert table.gaps.ctypes.data == gaps.ctypes.data


def test_a_sample_of_a_large_fleet_has_every_kind_however_they_are_ordered() -> None:
    taken, _ = FleetLimits(100.0).sample(40_000)
    assert np.bincount(taken % 4, minlength=4).min() > 2_400
