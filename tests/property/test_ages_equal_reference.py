"""Sources that are planned by the age of their newest item are probed at each age as often as others of that rate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gamma

from proxyd.core.planning.allocation.prices import Frequencies
from proxyd.core.planning.allocation.probe_allocator import FleetDemand, FleetLimits, ProbeAllocator, WeekGrid
from proxyd.core.planning.allocation.timetable import Timetable
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
    # slowly: step by step, at each age as often as a source whose rate is the one at that age
    step_s, at_s, probes = 60.0, last_s, 0.0
    factors = age_hazards(shape).factors
    while probes < 1.0:
        cell = min(int((at_s - last_s + age * MEAN_S) / MEAN_S * 32), len(factors) - 1)
        level = np.log2(price / (SLOT_S / MEAN_S * factors[cell]))
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


def test_few_probes_are_priced_and_planned_by_the_mean_rate() -> None:
    found = allocator(24.0, 1e4, 0.0, 0.0)
    table, rate = Timetable.build(np.ones(336)), np.array([SLOT_S / MEAN_S])
    even = Frequencies([table], np.zeros(1, dtype=np.int64), rate)
    price = np.log2(np.array([1e4]))
    assert not found.is_by_age(0)
    assert found.frequencies().frequencies(price) == pytest.approx(even.frequencies(price))
