"""The cost of gaps against integrals and brute force: every cost is Monge, and its cheapest path is the cheapest."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from proxyd.core.planning.allocation.timetable import LEVELS, TimetableBuilder
from proxyd.core.planning.kernels.losses import (
    STEPS,
    GapSums,
    Losses,
    Step,
    fill_links,
    first_costs,
    gap_costs,
    halving,
    linear,
    links_in_arrays,
    links_of,
    merge_steps,
    overwritten_items,
    window,
)

Floats = NDArray[np.float64]

lives = st.floats(0.3, 30.0)
delays = st.sampled_from([0.1, 1.0, 30.0, 1000.0])


@st.composite
def losses(draw: st.DrawFn) -> Losses:
    kind = draw(st.sampled_from(["late", "linear", "halving", "overwritten", "mixed"]))
    life, delay = draw(lives), draw(delays)
    if kind == "late":
        return Losses(window(life, delay))
    if kind == "linear":
        return Losses(linear(life, delay))
    if kind == "halving":
        return Losses(halving(life, delay))
    if kind == "overwritten":
        return Losses((), delay, 1 / life)
    return Losses(merge_steps([*window(life, delay), *linear(draw(lives), delay)]), draw(delays), 1 / life)


@st.composite
def grids(draw: st.DrawFn) -> tuple[Floats, Floats]:
    factor = st.sampled_from([0.0, 0.1, 1.0, 5.0])
    slots = draw(st.integers(2, 30))
    rates = draw(st.lists(factor, min_size=slots, max_size=slots).filter(any))
    weights = draw(st.lists(st.sampled_from([0.2, 1.0, 3.0]), min_size=slots, max_size=slots))
    return np.array(rates) / np.mean(rates), np.array(weights) / np.mean(weights)


def costs_of(grid: tuple[Floats, Floats], lost: Losses) -> Floats:
    """Return the cost of every gap, infinite below the diagonal."""
    sums = GapSums.of(*grid, lost)
    edges = len(sums.L)
    start, stop = np.indices((edges, edges))
    return np.where(stop > start, gap_costs(sums.at(start), sums.at(stop)), np.inf)


@given(grids(), losses())
def test_costs_are_monge(grid: tuple[Floats, Floats], lost: Losses) -> None:
    costs = costs_of(grid, lost)
    edges = len(costs)
    for i in range(edges - 3):
        for j in range(i + 2, edges - 1):
            inner, outer = costs[i, j] + costs[i + 1, j + 1], costs[i, j + 1] + costs[i + 1, j]
            assert inner <= outer + 1e-9 * max(1.0, outer)


@given(grids(), losses(), st.sampled_from([0.01, 1.0, 20.0, 500.0]))
def test_the_path_is_the_cheapest_of_all(grid: tuple[Floats, Floats], lost: Losses, price: float) -> None:
    costs, sums = costs_of(grid, lost), GapSums.of(*grid, lost)
    edges = len(costs)
    best = np.zeros(edges)
    for i in range(edges - 2, -1, -1):
        best[i] = (costs[i, i + 1 :] + price + best[i + 1 :]).min()
    found = links_of(first_costs(sums, edges - 1, edges - 1), np.full((1, edges - 1), price), 1, np.array([2.0]))
    assert found is not None
    (links,) = found
    path = [0]
    while path[-1] < edges - 1:
        path.append(int(links[path[-1]]))
    assert sum(costs[i, j] + price for i, j in pairwise(path)) == pytest.approx(best[0], rel=1e-9)


@given(grids(), losses(), st.lists(st.floats(0.01, 300.0), min_size=1, max_size=3), st.integers(1, 3))
def test_the_compiled_paths_are_those_found_in_arrays(
    grid: tuple[Floats, Floats], lost: Losses, prices: list[float], weeks: int
) -> None:
    slots, usual = len(grid[0]), np.sqrt(2.0 * np.array(prices))
    sums = GapSums.of(np.tile(grid[0], weeks), np.tile(grid[1], weeks), lost)
    costs = first_costs(sums, slots, weeks * slots)
    by_slot = np.outer(prices, np.linspace(1.0, 1.5, slots))
    known, found = links_in_arrays(costs, by_slot, weeks * slots, usual), np.empty(by_slot.shape, dtype=np.int64)
    assert known is not None
    later, (stops, begins) = np.empty(weeks * slots + 1), np.empty((2, weeks * slots + 1), dtype=np.int64)
    assert fill_links(costs, by_slot, usual, later, stops, begins, found)
    np.testing.assert_array_equal(found, known)
    too_few = costs[:, : max(1, int((known - np.arange(slots)).max()) - 1)]
    is_enough = links_in_arrays(too_few, by_slot, weeks * slots, usual) is not None
    assert fill_links(too_few, by_slot, usual, later, stops, begins, found) == is_enough


@given(grids(), lives)
def test_lost_items_are_those_that_waited_too_long(grid: tuple[Floats, Floats], life: float) -> None:
    rates, weights = grid
    sums = GapSums.of(rates, weights, Losses((Step(life, 1.0),)))
    fine = 200
    times = (np.arange(len(rates) * fine) + 0.5) / fine
    items = np.repeat(rates * weights, fine) / fine
    for start, stop in ((0, len(rates)), (1, len(rates)), (0, len(rates) // 2 + 1)):
        came = (times > start) & (times < stop) & (stop - times > life)
        assert sums.lost(np.array(start), np.array(stop))[0] == pytest.approx(items[came].sum(), abs=0.2)


def test_linear_and_halving_steps_lose_what_their_utility_does() -> None:
    gap = np.array([3.0, 10.0, 40.0])
    within = np.minimum(gap, 10.0)
    assert Losses(linear(10.0, 1.0)).of_even_gap(gap) == pytest.approx(gap - within + within**2 / 20, abs=0.2)
    kept = (1 - 0.5 ** (gap / 10.0)) * 10.0 / np.log(2)
    assert Losses(halving(10.0, 1.0)).of_even_gap(gap) == pytest.approx(gap - kept, abs=0.9)


def test_the_path_takes_nearly_the_items_that_are_overwritten() -> None:
    items = np.linspace(0.0, 12.0, 200)
    sums = [GapSums.of(np.array([x]), np.ones(1), Losses((), 1.0, 1.0)) for x in items]
    ends = [each._replace(G=each.A * each.L) for each in sums]  # without the delay
    waits = np.array([gap_costs(each.at(np.array(0)), each.at(np.array(1))) for each in ends])
    assert waits == pytest.approx(overwritten_items(items), abs=0.07)


@given(st.lists(st.builds(Step, lives, delays), min_size=1, max_size=9))
def test_merged_steps_count_the_same(steps: list[Step]) -> None:
    few = merge_steps(steps)
    assert len(few) <= STEPS
    assert sum(step.delay for step in few) == pytest.approx(sum(step.delay for step in steps))
    mean, before = (sum(step.delay * step.after for step in each) for each in (few, steps))
    assert mean == pytest.approx(before)


@given(st.lists(st.builds(Step, lives, delays), min_size=1, max_size=9))
def test_steps_that_are_merged_early_come_no_later(steps: list[Step]) -> None:
    few = merge_steps(steps, early=True)
    assert len(few) <= STEPS
    assert sum(step.delay for step in few) == pytest.approx(sum(step.delay for step in steps))
    assert few[0].after == min(step.after for step in steps if step.delay > 0)
    assert {step.after for step in few} <= {step.after for step in steps}


@given(losses(), st.integers(0, 100))
def test_a_row_loses_what_its_probes_miss(lost: Losses, row: int) -> None:
    """Follows a row of an even and of an uneven week for a long time, and integrates what each probe loses."""
    for shape in (np.ones(24), np.repeat([0.2, 2.0, 0.8], 8)):
        table = TimetableBuilder(shape, losses=lost).build()
        place = row * (len(LEVELS) - 1) // 100
        if np.any((table.gaps[place] < 1) & (table.visits[place] > 0)) or table.frequency[place] < 1 / 200:
            continue  # several probes of a slot, and rows of very many weeks, need no path
        weeks = 40
        sums = GapSums.of(np.tile(shape / shape.mean(), 2 * weeks), np.ones(24 * 2 * weeks), lost)
        at, total, begun = 0, np.zeros(STEPS + 1), 0
        while (stop := at + max(1, int(table.gaps[place, at % 24]))) < 24 * 2 * weeks:
            if at >= 24 * weeks:
                total += sums.lost(np.array(at), np.array(stop))
            else:
                begun = stop
            at = stop
        measured = total / max(1, at - begun)
        assert measured == pytest.approx(table.lost[place], abs=0.08 + 2 / weeks)
