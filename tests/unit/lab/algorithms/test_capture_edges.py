"""Intervals and epochs at the edge, and capacities and weights that are refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from proxyd.core.errors import SchedulingError
from proxyd.core.model.chronon import Epoch
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.capture.earliest_deadline import Capacity, edf
from proxyd.core.planning.capture.pareto import pareto
from proxyd.lab.algorithms.overlapping_capture import lp_bound, most_weight

INTERVALS = [
    ExecutionInterval("a", "news", 0, 5),
    ExecutionInterval("a", "prices", 4, None),
    ExecutionInterval("b", "news", 2, 3),
    ExecutionInterval("c", "prices", 0, 9),
]


def test_an_open_interval_ends_with_the_epoch() -> None:
    schedule = edf([ExecutionInterval("a", "r", 2, None)], Capacity(Epoch(0, 5), [1, 1, 0, 0, 1]))
    assert schedule.probes == (("a", 4),)


def test_an_empty_epoch_captures_nothing() -> None:
    nothing = Capacity(Epoch(3, 3), [])
    assert edf(INTERVALS, nothing).probes == ()
    assert pareto(INTERVALS, nothing).points == ((0, 0),)
    assert most_weight(INTERVALS, np.ones(4), nothing).bound == 0.0


@pytest.mark.parametrize("room", [[1], [1, -1], [1, 0.5], [[1, 1]]])
def test_capacities_that_are_none_are_refused(room: list[float]) -> None:
    with pytest.raises(ValueError, match="capacities"):
        Capacity(Epoch(0, 2), room)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0, 1.0, -1.0], [1.0, 1.0, 1.0, np.inf]])
def test_weights_that_are_none_are_refused(weights: list[float]) -> None:
    with pytest.raises(ValueError, match="weights"):
        most_weight(INTERVALS, weights, Capacity.constant(1, Epoch(0, 10)))


def test_a_bound_without_its_solver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(SchedulingError, match=r"pip install 'proxyd\[lab\]'"):
        lp_bound([ExecutionInterval("a", "r", 0, 1)], Capacity.constant(1, Epoch(0, 4)))
