"""A probe of one source plans it exactly as planning all of them does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.planning.allocation.probe_allocator import FleetDemand, FleetLimits, ProbeAllocator, WeekGrid
from proxyd.core.rates.week_bins import WEEK_S

SOURCES = 6
rates_per_s = st.just(0.0) | st.floats(-40.0, 3.0).map(lambda power: 2.0**power)


def planner(*, phased: bool, capped: bool) -> ProbeAllocator:
    shapes = np.random.default_rng(3).uniform(0.0, 2.0, (2, 28))
    phase_s = np.linspace(0.0, 6 * 3600.0, SOURCES, endpoint=False) if phased else None
    importance = np.random.default_rng(4).uniform(0.5, 2.0, 28)
    demand = FleetDemand(
        WeekGrid(6 * 3600.0),
        shapes,
        np.arange(SOURCES) % 2,
        np.geomspace(1e-7, 1e-3, SOURCES),
        last_s=0.0,
        importance=importance,
        phase_s=phase_s,
    )
    capacity = np.full(28, 1.2) if capped else None
    return ProbeAllocator(demand, FleetLimits(1.0, capacity=capacity), now_s=0.0)


PLANNERS = {
    (phased, capped): planner(phased=phased, capped=capped) for phased in (False, True) for capped in (False, True)
}


@pytest.mark.parametrize(("phased", "capped"), PLANNERS)
@given(
    source=st.integers(0, SOURCES - 1),
    rate_per_s=rates_per_s,
    weight=st.sampled_from([0.0, 0.25, 1.0, 3.0]),
    now_s=st.floats(0.0, 60 * WEEK_S) | st.integers(0, 2000).map(lambda slot: slot * 6 * 3600.0),
)
def test_one_probe_plans_as_many_do(
    phased: bool, capped: bool, source: int, rate_per_s: float, weight: float, now_s: float
) -> None:
    found = PLANNERS[phased, capped]
    found.note_probe_of(source, rate_per_s, weight, now_s=now_s)
    alone = float(found.due_s[source])
    found.note_probes(np.array([source]), np.array([rate_per_s]), now_s=now_s)
    assert alone == pytest.approx(float(found.due_s[source]), rel=1e-12)
