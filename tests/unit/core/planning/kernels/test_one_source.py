"""The figures of ALGORITHMS 1 for one source, to the digits printed there."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from proxyd.core.planning.kernels.one_source import Grid, optimal
from proxyd.lab.algorithms.off_grid import improve_exactly
from proxyd.lab.algorithms.one_source_baselines import parameter_for, threshold, uniform
from proxyd.lab.algorithms.one_source_layers import all_optimal
from proxyd.lab.papers.politeness_paper import DBWORLD, MICRONET

HOUR, MINUTE = 1 / 24, 1 / 1440
PREFIX = DBWORLD.prefix(1)


def grid(slot: float) -> Grid:
    return Grid(np.linspace(0.0, 28.0, round(28 / slot) + 1))


def test_expected_items_of_four_weeks() -> None:
    assert DBWORLD.intensity().integral(28.0) == pytest.approx(116.45, abs=5e-3)
    assert MICRONET.intensity().integral(28.0) == pytest.approx(24.77, abs=5.1e-3)


def test_uniform() -> None:
    assert uniform(PREFIX, 28).cost == pytest.approx(59.8187, abs=1e-4)
    assert uniform(MICRONET.prefix(1), 7).cost == pytest.approx(48.0795, abs=1e-4)


@pytest.mark.parametrize(("slot", "cost"), [(HOUR, 46.7536), (15 * MINUTE, 46.7480)])
def test_the_optimum_on_slots(slot: float, cost: float) -> None:
    assert optimal(PREFIX, grid(slot), 28).cost == pytest.approx(cost, abs=1e-4)
    layers = all_optimal(PREFIX, grid(slot), 28)[-1]
    assert layers is not None
    assert layers.cost == pytest.approx(cost, abs=1e-4)


def test_the_optimum_of_micronet() -> None:
    assert optimal(MICRONET.prefix(1), grid(HOUR), 7).cost == pytest.approx(39.6966, abs=1e-4)


def test_exact_moves_from_the_quarter_hours() -> None:
    found = improve_exactly(PREFIX, optimal(PREFIX, grid(15 * MINUTE), 28).times)
    assert found.cost == pytest.approx(46.7478, abs=1e-4)


@pytest.mark.parametrize(("step", "cost"), [(None, 61.7981), (MINUTE, 61.7865), (HOUR, 60.1258)])
def test_first_arrival(step: float | None, cost: float) -> None:
    _, found = parameter_for(PREFIX, "first-arrival", 28, step=step)
    assert found.probes == 28
    assert found.cost == pytest.approx(cost, abs=1e-4)


@pytest.mark.parametrize(("step", "cost"), [(None, 51.2593), (HOUR, 51.0604)])
def test_threshold(step: float | None, cost: float) -> None:
    _, found = parameter_for(PREFIX, "threshold", 28, step=step)
    assert found.probes == 28
    assert found.cost == pytest.approx(cost, abs=1e-4)


def test_threshold_on_minutes_is_within_two_in_ten_thousand_of_the_printed_figure() -> None:
    _, found = parameter_for(PREFIX, "threshold", 28, step=MINUTE)
    assert found.cost == pytest.approx(51.2506, abs=1e-4)
    assert found.cost == pytest.approx(51.2434, rel=2e-4)


def test_at_the_parameter_every_probe_costs_the_same() -> None:
    parameter, found = parameter_for(PREFIX, "threshold", 28)
    times = np.concatenate([[0.0], found.times])
    costs = [PREFIX.cost(s, f) for s, f in pairwise(times)]
    assert costs == pytest.approx([parameter] * 28)
    assert threshold(PREFIX, parameter).probes == 28


@pytest.mark.parametrize("probes", [1, 2, 3])
def test_first_arrival_with_few_probes_of_a_busy_source(probes: int) -> None:
    """So many items come between two probes that the probability is 1 in double precision."""
    probability, found = parameter_for(PREFIX, "first-arrival", probes)
    assert found.probes == probes
    assert probability == pytest.approx(1.0)


def test_a_coarse_step_joins_probes() -> None:
    _, found = parameter_for(PREFIX, "threshold", 28, step=2.0)
    assert found.times.tolist() == np.arange(2.0, 29.0, 2.0).tolist()
