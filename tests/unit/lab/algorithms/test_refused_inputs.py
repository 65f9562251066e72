"""What the laboratory's algorithms say about inputs that they cannot use, and what they make of extreme ones."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
import pytest

from proxyd.core.errors import InvalidScheduleError, SchedulingError, UnknownPolicyError
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.lab.algorithms.detection_frequencies import memoryless, periodic_cost, tight_bound
from proxyd.lab.algorithms.off_grid import improve_exactly
from proxyd.lab.algorithms.one_source_baselines import first_arrival, parameter_for, threshold
from proxyd.lab.algorithms.probe_cycles import cycle_of_powers, golden
from proxyd.lab.algorithms.robot_frequencies import GammaAccess, cycle_staleness, evenly_spaced, randomise

PERIOD = Prefix(PiecewiseConstant.constant(1.0, 4.0), PiecewiseConstant.constant(1.0, 4.0))
QUIET_FIRST = PiecewiseConstant([0.0, 2.0, 4.0], [0.0, 1.0])
LATE = Prefix(QUIET_FIRST, QUIET_FIRST)
ACCESS = GammaAccess(1.0)


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: tight_bound([1.0, -1.0], 1), "rates must be a list of finite numbers, none negative"),
        (lambda: memoryless([], 1), "rates must be a list of finite numbers, none negative"),
        (lambda: tight_bound([1.0], 0), "there must be more than 0 probes a step"),
        (lambda: golden([0.0, 0.0]), "at least one of them positive"),
        (lambda: cycle_of_powers([1, 30]), "the cycle would have 1073741824 steps; leave out the slowest sources"),
        (lambda: evenly_spaced([1.0, 0.0], ACCESS), "mutation rates must be finite and greater than 0"),
        (lambda: randomise([1.0, 2.0], ACCESS, [1.0]), "there must be one weight for each page"),
        (lambda: randomise([1.0, 2.0], ACCESS, [0.0, 0.0]), "one of them positive"),
    ],
)
def test_rates_and_budgets_without_a_meaning_are_refused(refused: Callable[[], object], message: str) -> None:
    with pytest.raises(SchedulingError, match=message):
        refused()


@pytest.mark.parametrize(
    ("refused", "message"),
    [
        (lambda: threshold(PERIOD, 0.0), "the threshold must be greater than 0"),
        (lambda: threshold(PERIOD, inf), "the threshold must be greater than 0"),
        (lambda: first_arrival(PERIOD, 1.0), "the probability must lie between 0 and 1"),
        (lambda: first_arrival(LATE, 1e-300), "the parameter is too small: the next probe would be due at once"),
        (lambda: parameter_for(PERIOD, "threshold", 0), "a schedule has at least one probe"),
        (lambda: improve_exactly(PERIOD, [2.0]), "probes must increase and end where the period ends"),
        (lambda: improve_exactly(PERIOD, [3.0, 2.0, 4.0]), "probes must increase and end where the period ends"),
    ],
)
def test_schedules_that_cannot_be_made_are_refused(refused: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidScheduleError, match=message):
        refused()


def test_a_parameter_that_would_make_endless_probes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxyd.lab.algorithms.one_source_baselines._MOST_PROBES", 5)
    with pytest.raises(InvalidScheduleError, match="more than 5 probes would be due"):
        first_arrival(PERIOD, 0.1)


def test_a_policy_without_a_parameter_names_those_that_have_one() -> None:
    with pytest.raises(UnknownPolicyError, match="'uniform' has no parameter; use threshold or first-arrival"):
        parameter_for(PERIOD, "uniform", 2)


def test_sources_that_never_change_are_drawn_alike() -> None:
    assert memoryless([0.0, 0.0, 0.0, 0.0], 1).tolist() == [0.25] * 4


def test_a_source_that_is_never_probed_costs_without_end() -> None:
    assert periodic_cost([1.0, 1.0], [0]) == inf
    assert periodic_cost([1.0, 0.0], [0]) == 1.0


def test_a_page_that_is_never_accessed_is_always_out_of_date() -> None:
    stale = cycle_staleness([1.0, 1.0], ACCESS, [0])
    assert stale[1] == 1.0
    assert 0.0 < stale[0] < 1.0
    assert np.isfinite(stale).all()
