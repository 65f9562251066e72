"""The fast one-source solvers against the paper's O(n N^2) program and quadrature, written to be obviously right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from proxyd.core.errors import InvalidScheduleError
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.core.planning.kernels.one_source import Grid, optimal, optimal_cycle
from proxyd.lab.algorithms.off_grid import algorithm_10, improve_exactly
from proxyd.lab.algorithms.one_source_layers import all_optimal


@dataclass(frozen=True)
class Problem:
    prefix: Prefix
    grid: Grid
    spacing: float

    def reference(self, most: int) -> list[float]:
        """Return the least cost plus prices of exactly 1, ..., ``most`` probes by the plain recursion."""
        t, size = self.grid.times, len(self.grid.times)
        link = np.full((size, size), np.inf)
        for i in range(size):
            for j in range(i + 1, size):
                if self.spacing - 1e-9 <= t[j] - t[i]:
                    link[i, j] = self.prefix.cost(t[i], t[j]) + self.grid.price[j]
        value = np.full(size, np.inf)
        value[-1] = 0.0
        found = []
        for _ in range(most):
            value = np.min(link + value[None, :], axis=1)
            found.append(float(value[0]))
        return found

    def cost(self, times: NDArray[np.float64]) -> float:
        slots = np.searchsorted(self.grid.times, times)
        start = self.grid.times[:1]
        return self.prefix.total(np.concatenate([start, times])) + float(np.sum(self.grid.price[slots]))


@st.composite
def levels(draw: st.DrawFn, period: float) -> PiecewiseConstant:
    count = draw(st.integers(1, 5))
    inside = sorted(set(draw(st.lists(st.integers(1, int(period) * 2 - 1), min_size=count - 1, max_size=count - 1))))
    values = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=len(inside) + 1, max_size=len(inside) + 1))
    return PiecewiseConstant([0.0, *(x / 2 for x in inside), period], values)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    size = draw(st.integers(2, 12))
    period = float(size)
    prefix = Prefix(draw(levels(period)), draw(levels(period)))
    spacing = draw(st.sampled_from([0.0, 0.0, 1.5, 2.0]))
    price = draw(st.lists(st.sampled_from([0.0, 0.0, 1.0]), min_size=size + 1, max_size=size + 1))
    grid = Grid(np.arange(size + 1.0), spacing=spacing, price=price)
    return Problem(prefix, grid, spacing)


@given(levels(6.0), levels(6.0), st.floats(0, 6), st.floats(0, 6))
def test_costs_equal_quadrature(rate: PiecewiseConstant, weight: PiecewiseConstant, s: float, f: float) -> None:
    assume(s <= f)
    edges = np.linspace(s, f, 20_001)
    t, h = (edges[1:] + edges[:-1]) / 2, (f - s) / 20_000
    lam = np.array([rate.at(x) for x in t])
    waits = np.asarray(weight.integral(f)) - np.asarray(weight.integral(t))
    assert Prefix(rate, weight).cost(s, f) == pytest.approx(float(np.sum(lam * waits) * h), rel=2e-3, abs=2e-3)


@given(problems())
def test_layers_equal_the_plain_recursion_for_every_number_of_probes(problem: Problem) -> None:
    most = len(problem.grid.times)
    for expected, found in zip(problem.reference(most), all_optimal(problem.prefix, problem.grid, most), strict=True):
        if np.isinf(expected):
            assert found is None
        else:
            assert found is not None
            assert problem.cost(found.times) == pytest.approx(expected, abs=1e-9)


@given(problems(), st.integers(1, 13))
def test_the_priced_path_is_the_best_of_at_most_n_probes(problem: Problem, probes: int) -> None:
    best = min(problem.reference(probes))
    if np.isinf(best):
        with pytest.raises(InvalidScheduleError):
            optimal(problem.prefix, problem.grid, probes)
        return
    found = optimal(problem.prefix, problem.grid, probes)
    assert found.probes <= probes
    assert problem.cost(found.times) == pytest.approx(best, abs=1e-9)
    assert np.all(np.diff(np.concatenate([[0.0], found.times])) >= problem.spacing - 1e-9)


def test_equal_weeks_are_all_ties_and_still_exact() -> None:
    week = PiecewiseConstant(np.arange(8.0), [1, 1, 1, 1, 1, 0.2, 0.1])
    prefix = Prefix(week.repeat(8), PiecewiseConstant.constant(1.0, 56.0))
    grid = Grid(np.arange(57.0))
    for probes, layer in enumerate(all_optimal(prefix, grid, 56), 1):
        assert layer is not None
        found = optimal(prefix, grid, probes)
        assert found.cost == pytest.approx(layer.cost, rel=1e-12)
        assert found.probes == probes or layer.cost == pytest.approx(found.cost, rel=1e-12)


@given(problems(), st.integers(1, 6))
def test_improvement_never_hurts_and_keeps_the_spacing(problem: Problem, probes: int) -> None:
    try:
        start = optimal(problem.prefix, problem.grid, probes)
    except InvalidScheduleError:
        return
    for found in (
        improve_exactly(problem.prefix, start.times, spacing=problem.spacing),
        algorithm_10(problem.prefix, start.times, spacing=problem.spacing)[0],
    ):
        assert found.cost <= start.cost + 1e-9
        assert np.all(np.diff(np.concatenate([[0.0], found.times])) >= problem.spacing - 1e-9)


@given(levels(8.0), levels(8.0), st.integers(1, 5))
def test_a_cycle_is_the_best_over_every_start(rate: PiecewiseConstant, weight: PiecewiseConstant, probes: int) -> None:
    slots = np.arange(0.0, 8.0)
    twice = Prefix(rate.repeat(2), weight.repeat(2))
    best = min(optimal(twice, Grid(np.arange(start, start + 9.0)), probes).cost for start in range(8))
    found = optimal_cycle(rate, weight, slots, probes)
    assert found.cost == pytest.approx(best, abs=1e-9)
    around = np.append(found.times, found.times[0] + 8.0)
    assert twice.total(around) == pytest.approx(found.cost, abs=1e-9)
