"""Sources that are planned by the age of their newest item: their probes equal a slow reference, and are few enough."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gamma

from proxyd.core.model.arrays import Ints
from proxyd.core.planning.allocation.prices import Frequencies
from proxyd.core.planning.allocation.probe_allocator import FleetDemand, FleetLimits, ProbeAllocator, WeekGrid
from proxyd.core.planning.allocation.timetable import TimetableBuilder
from proxyd.core.rates.age_hazards import age_hazards
from proxyd.core.rates.model_fit import SHAPES

SLOT_S, MEAN_S = 1800.0, 86400.0
shapes = st.sampled_from(SHAPES)


def allocator(shape: float, price: float, newest_s: float, last_s: float) -> ProbeAllocator:
    demand = FleetDemand(
        WeekGrid(SLOT_S),
        np.ones((1, 336)),
        np.zeros(1, dtype=np.int64),
        [1 / MEAN_S],
        last_s,
        gaps=np.array([[shape, MEAN_S, newest_s]]),
    )
    return ProbeAllocator(demand, FleetLimits(1e6, least_price=price), now_s=-np.inf)


@given(shapes)
def test_the_rate_at_each_age_is_the_hazard_of_the_gaps(shape: float) -> None:
    ages = (np.arange(64) + 0.5) / 32
    hazards = gamma.pdf(ages, shape, scale=1 / shape) / gamma.sf(ages, shape, scale=1 / shape)
    assert age_hazards(shape).factors[:64] == pytest.approx(np.maximum(hazards, 0.003), rel=0.08, abs=0.01)


@settings(max_examples=40)
@given(shapes, st.floats(0.05, 400.0), st.floats(0.0, 4.5))
def test_the_next_probe_comes_when_the_frequencies_of_all_ages_add_up_to_one(
    shape: float, price: float, age: float
) -> None:
    last_s = 50 * MEAN_S
    found = allocator(shape, price, last_s - age * MEAN_S, last_s)
    if not found.is_by_age(0):
        return
    # slowly: step by step, at each age as often as a source whose rate is what a probe is worth at that age
    step_s, at_s, probes = 60.0, last_s, 0.0
    worth = age_hazards(shape).worth
    while probes < 1.0:
        cell = min(int((at_s - last_s + age * MEAN_S) / MEAN_S * 32), len(worth) - 1)
        level = np.log2(price / (SLOT_S / MEAN_S * worth[cell]))
        probes += float(found.tables[0].frequencies(np.array([level]))[0]) * step_s / SLOT_S
        at_s += step_s
    assert found.due_s[0] == pytest.approx(at_s, abs=2 * step_s)


@pytest.mark.parametrize("shape", [2.0, 8.0, 24.0, 96.0])
@pytest.mark.parametrize("price", [2.0, 8.0, 30.0])
def test_as_many_probes_are_made_as_are_priced(shape: float, price: float) -> None:
    found, rng = allocator(shape, price, 0.0, 0.0), np.random.Generator(np.random.PCG64(1))
    items_s = MEAN_S * np.cumsum(rng.gamma(shape, 1 / shape, 400))
    now_s, probes = 0.0, 0
    while now_s < items_s[-1]:
        newest_s = items_s[max(0, int(np.searchsorted(items_s, now_s, side="right")) - 1)]
        found.note_gaps(0, (shape, MEAN_S, min(float(newest_s), now_s)))
        found.note_probe_of(0, 1 / MEAN_S, 1.0, now_s=now_s)
        now_s, probes = float(found.due_s[0]), probes + 1
    priced = float(found.frequencies().frequencies(np.log2(np.array([price])))[0]) / SLOT_S
    assert probes / now_s == pytest.approx(priced, rel=0.18)


def least_cost(shape: float, price: float, waits: Ints, cells: int) -> tuple[float, float]:
    """Return the cost a mean gap of waits by age, in cells, and the least of all: by policy iteration on cells."""
    size = len(waits)
    survival = np.maximum(gamma.sf(np.arange(2 * size + 1) / cells, shape, scale=1 / shape), 1e-300)
    density, step = -np.diff(survival), np.arange(size)
    renewals = np.zeros(size)  # expected items in each cell after an item
    for at in range(size):
        renewals[at] = density[at] + renewals[:at] @ density[:at][::-1]
    reached, behind = step[:, None] + step, step - step[:, None]
    first, none = density[reached] / survival[:size, None], survival[reached + 1] / survival[:size, None]
    waiting = step + 0.5 + np.array([renewals[:n] @ (step[:n] + 0.5)[::-1] for n in range(size)])
    costs = first @ np.where(behind >= 0, waiting[np.maximum(behind, 0)], 0.0) / cells + price
    newest = np.array([[renewals[n - 1 - u] * survival[u] if u < n else 0.0 for u in range(size)] for n in range(size)])
    newest[step, step] = survival[:size]
    newest /= newest.sum(axis=1, keepdims=True)
    older, of_rule = np.minimum(reached + 1, size - 1), 0.0
    for turn in range(40):
        moves, later = np.zeros((size, size)), waits[:, None] - step
        rows, columns = np.nonzero(later >= 0)
        moves[rows, later[rows, columns]] = first[rows, columns]
        chances = moves @ newest
        chances[step, older[step, waits]] += none[step, waits]
        system = np.eye(size) - chances / chances.sum(axis=1, keepdims=True)
        system[:, 0] = (waits + 1) / cells
        solved = np.linalg.solve(system, costs[step, waits])
        of_rule, values = solved[0] if turn == 0 else of_rule, np.append(0.0, solved[1:])
        found = np.where(behind >= 0, (newest @ values)[np.maximum(behind, 0)], 0.0)
        better = np.argmin(costs + first @ found + none * values[older] - solved[0] * (step + 1) / cells, axis=1)
        if np.array_equal(better, waits):
            break
        waits = better
    return float(of_rule), float(solved[0])


@pytest.mark.parametrize("probes", [2.0, 5.0])
@pytest.mark.parametrize("shape", [4.0, 12.0, 24.0])
def test_waits_and_probes_cost_little_more_than_the_least(shape: float, probes: float) -> None:
    hazards, cells, size = age_hazards(shape), 32, 96
    by_age = np.array([hazards.wait(probes * np.sqrt(hazards.worth), age / cells) for age in range(size)])
    waits = np.clip(np.round(by_age * cells).astype(np.int64) - 1, 0, size - 1)
    cost, least = least_cost(shape, 1 / (2 * probes**2), waits, cells)
    assert least <= cost < 1.02 * least


def test_few_probes_are_priced_and_planned_by_the_mean_rate() -> None:
    found = allocator(24.0, 1e4, 0.0, 0.0)
    table, rate = TimetableBuilder(np.ones(336)).build(), np.array([SLOT_S / MEAN_S])
    even = Frequencies([table], np.zeros(1, dtype=np.int64), rate)
    price = np.log2(np.array([1e4]))
    assert not found.is_by_age(0)
    assert found.frequencies().frequencies(price) == pytest.approx(even.frequencies(price))
