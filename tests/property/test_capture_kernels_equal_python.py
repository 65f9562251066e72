"""Kernels give the same with and without the compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module

import numpy as np
import pytest

from proxyd.core.model.chronon import Epoch
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.capture.earliest_deadline import Capacity, edf
from proxyd.core.planning.capture.pareto import pareto
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.core.planning.kernels.numba_kernels import HAS_NUMBA
from proxyd.core.planning.kernels.one_source import Grid
from proxyd.lab.algorithms.counted_horizon import UpdateChances, plan_of_counts
from proxyd.lab.algorithms.one_source_layers import all_optimal
from proxyd.lab.algorithms.overlapping_capture import greedy_capture, most_weight
from proxyd.lab.algorithms.sup_schedules import least_delay_sup, sup

MODULES = (
    "proxyd.core.planning.capture.capture_kernels",
    "proxyd.core.planning.capture.earliest_deadline",
    "proxyd.core.planning.capture.pareto",
    "proxyd.lab.algorithms.counted_horizon",
    "proxyd.lab.algorithms.one_source_layers",
    "proxyd.lab.algorithms.overlapping_capture",
    "proxyd.lab.algorithms.sup_schedules",
)

pytestmark = pytest.mark.skipif(not HAS_NUMBA, reason="numba is not installed: there is nothing to compare")


@contextmanager
def without_compiler() -> Iterator[int]:
    """Run the plain functions in place of the compiled ones; gives how many there are."""
    replaced = 0
    with pytest.MonkeyPatch.context() as patch:
        for name in MODULES:
            module = import_module(name)
            for attribute, value in list(vars(module).items()):
                if hasattr(value, "py_func"):
                    patch.setattr(module, attribute, value.py_func)
                    replaced += 1
        yield replaced


def scenario(seed: int) -> tuple[list[ExecutionInterval], Capacity, list[float]]:
    rng = np.random.default_rng(seed)
    starts, lengths, sources = rng.integers(-3, 40, 80), rng.integers(0, 12, 80), rng.integers(0, 25, 80)
    found = [
        ExecutionInterval(f"s{source}", "r", int(start), int(start + length))
        for source, start, length in zip(sources, starts, lengths, strict=True)
    ]
    return found, Capacity(Epoch(0, 40), rng.integers(0, 3, 40)), rng.random(80).tolist()


def front(intervals: list[ExecutionInterval], capacity: Capacity, _: list[float]) -> object:
    found = pareto(intervals, capacity)
    return found.delays.tolist(), found.captured.tolist(), found.used.tolist(), found.schedule(len(found.captured))


SOLVERS: dict[str, Callable[[list[ExecutionInterval], Capacity, list[float]], object]] = {
    "sup": lambda intervals, _, __: sup(intervals),
    "least delay sup": lambda intervals, _, __: least_delay_sup(intervals),
    "edf": lambda intervals, capacity, _: edf(intervals, capacity),
    "most weight": lambda intervals, capacity, weights: most_weight(intervals, weights, capacity),
    "pareto": front,
    "greedy": lambda intervals, capacity, weights: greedy_capture(intervals, capacity, weights, certify=False),
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", range(3))
def test_plain_python_gives_what_the_compiled_kernels_give(seed: int, solver: str) -> None:
    compiled = SOLVERS[solver](*scenario(seed))
    with without_compiler() as replaced:
        assert replaced >= 15
        assert SOLVERS[solver](*scenario(seed)) == compiled


def counted(seed: int, life: int | None) -> object:
    rng = np.random.default_rng(seed)
    chances = UpdateChances.noisy(rng.uniform(0, 0.5, 15), [3, 8], 0.7)
    plan = plan_of_counts(chances, every=3, life=life, price=0.2)
    return plan.worth.tolist(), plan.following.tolist()


def layers(seed: int, spacing: float) -> object:
    rng, edges = np.random.default_rng(seed), np.arange(41.0)
    costs = Prefix(PiecewiseConstant(edges, rng.uniform(0, 3, 40)), PiecewiseConstant(edges, rng.integers(0, 3, 40)))
    found = all_optimal(costs, Grid(edges, spacing=spacing, price=rng.uniform(0, 5, 41)), 12)
    return [None if each is None else (each.times.tolist(), each.cost) for each in found]


@pytest.mark.parametrize(("solver", "option"), [(counted, None), (counted, 4), (layers, 2.0), (layers, 5.0)])
def test_plans_of_one_source_are_the_same(solver: Callable[[int, object], object], option: object) -> None:
    compiled = solver(1, option)
    with without_compiler():
        assert solver(1, option) == compiled
