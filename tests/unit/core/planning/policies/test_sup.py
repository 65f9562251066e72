"""Planned intervals follow the rate by which their source is planned."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.planning.policies.rule_demand import Findings, FiringPattern
from proxyd.core.planning.policies.sup import IntervalDemand

GRID = ChrononGrid(1.0)
STEP_S = 10


def demand_of(*, every: int, rate_per_s: float, feedback: bool = False) -> IntervalDemand:
    """Return a demand that is laid at 0, with intervals of 5 s."""
    demand = IntervalDemand("r", FiringPattern(every), 5.0, feedback=feedback, grid=GRID)
    demand.anchor(0.0, rate_per_s=rate_per_s, count=0)
    return demand


def starts(demand: IntervalDemand, number: int, now: int) -> list[int]:
    """Return when the next intervals begin, if each is caught when it begins."""
    begins = []
    for _ in range(number):
        interval = demand.pending(now)
        assert interval is not None
        now = max(now, interval.start)
        demand.note_probe(now)
        begins.append(interval.start)
    return begins


@pytest.mark.parametrize("feedback", [False, True], ids=["SUP", "FBSUP"])
def test_intervals_are_as_far_apart_as_the_present_rate_has_them(feedback: bool) -> None:
    demand = demand_of(every=3, rate_per_s=0.068, feedback=feedback)
    demand.note_findings(Findings(60.0, rate_per_s=0.1, events=3, fired=True))
    gaps = [later - begin for begin, later in pairwise(starts(demand, 30, 60))]
    assert set(gaps[1:]) <= {29, 30, 31}


@given(rates=st.lists(st.floats(0.01, 0.5), min_size=1, max_size=200), every=st.integers(1, 4))
def test_as_many_intervals_begin_as_the_rates_expect_firings(rates: list[float], every: int) -> None:
    demand, begun, expected = demand_of(every=every, rate_per_s=rates[0]), 0, 0.0
    for step, rate_per_s in enumerate(rates):
        demand.note_findings(Findings(float(step * STEP_S), rate_per_s=rate_per_s, events=0, fired=False))
        expected += min(rate_per_s, every) * STEP_S / every
        for now in range(step * STEP_S, (step + 1) * STEP_S):
            while (interval := demand.pending(now)) is not None and interval.start <= now:
                demand.note_probe(now)
                begun += 1
    assert abs(begun + demand.missed - expected) <= 2


def test_a_rate_that_is_learned_often_pushes_no_interval_away() -> None:
    demand = demand_of(every=1, rate_per_s=0.001)
    for now in range(0, 900, 10):
        demand.note_findings(Findings(float(now), rate_per_s=0.001 + 1e-7 * (now % 3), events=0, fired=False))
    interval = demand.pending(900)
    assert interval is not None
    assert 995 <= interval.start <= 1000
