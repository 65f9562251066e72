"""Schedules are the same to the last bit with and without numba."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

SOLVE = """
import json, sys
import numpy as np
{block}
from proxyd.core.model.chronon import Epoch
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.capture.earliest_deadline import Capacity, edf
from proxyd.core.planning.capture.pareto import pareto
from proxyd.lab.algorithms.counted_horizon import UpdateChances, plan_of_counts
from proxyd.lab.algorithms.overlapping_capture import greedy_capture, most_weight
from proxyd.lab.algorithms.sup_schedules import least_delay_sup, sup
from proxyd.core.planning.kernels.numba_kernels import HAS_NUMBA
from proxyd.core.planning.allocation.probe_allocator import FleetDemand, FleetLimits, WeekGrid
from proxyd.core.planning.allocation.probe_allocator import ProbeAllocator
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.core.planning.kernels.one_source import Grid, optimal
from proxyd.lab.algorithms.one_source_layers import all_optimal

rng = np.random.default_rng(7)
edges = np.arange(301.0)
prefix = Prefix(PiecewiseConstant(edges, rng.uniform(0, 3, 300)), PiecewiseConstant(edges, rng.uniform(0, 2, 300)))
grid = Grid(edges, spacing=2.0, price=rng.uniform(0, 5, 301))
found = [optimal(prefix, grid, 20), *all_optimal(prefix, grid, 20)]
one = [(s.times.tolist(), s.cost) for s in found if s is not None]

jobs = [
    ExecutionInterval(f"s{{k % 9}}", "r", int(a), int(a + b))
    for k, (a, b) in enumerate(zip(rng.integers(0, 200, 120), rng.integers(0, 25, 120), strict=True))
]
alone = [ExecutionInterval(f"{{k}}", j.rule, j.start, j.deadline) for k, j in enumerate(jobs)]
capacity = Capacity.constant(1, Epoch(0, 230))
weights = rng.integers(1, 9, 120).astype(float)
caught = [sup(jobs), least_delay_sup(jobs), edf(alone, capacity), most_weight(alone, weights, capacity)]
caught.append(greedy_capture(jobs, capacity, weights))
captures = [(s.probes, s.captured, s.delay) for s in caught] + [pareto(alone, capacity).points]

week = WeekGrid(3600.0)
shapes, shape_of = rng.uniform(0.1, 2.0, (2, 168)), rng.integers(0, 2, 50)
demand = FleetDemand(week, shapes, shape_of, rng.lognormal(-10, 1.5, 50), last_s=0.0)
planner = ProbeAllocator(demand, FleetLimits(1.0, capacity=np.full(168, 2.0)), now_s=0.0)
fleet = planner.due_s.tolist()
chances = UpdateChances.noisy(rng.uniform(0, 0.5, 30), [3, 8], 0.7)
plans = [plan_of_counts(chances, every=3, life=life, price=0.2) for life in (None, 4)]
counted = [(plan.worth.tolist(), plan.following.tolist()) for plan in plans]
print(json.dumps([HAS_NUMBA, one, captures, fleet, counted]))
"""


def solved(block: str) -> tuple[bool, object]:
    script = SOLVE.format(block=block)
    answer = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    has_numba, *results = json.loads(answer.stdout)
    return has_numba, results


@pytest.mark.long
def test_schedules_are_the_same_with_and_without_numba() -> None:
    compiled, plain = solved(""), solved("sys.modules['numba'] = None")
    assert compiled[0]
    assert not plain[0]
    assert compiled[1] == plain[1]
