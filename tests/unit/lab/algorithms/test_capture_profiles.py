"""Completeness and delay per profile, and capacities that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.model.chronon import Epoch
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.capture.capacity import Capacity
from proxyd.core.planning.capture.earliest_deadline import edf
from proxyd.core.planning.capture.pareto import pareto
from proxyd.core.planning.capture.spans import CaptureSchedule
from proxyd.lab.algorithms.overlapping_capture import most_weight
from proxyd.lab.algorithms.profile_capture import ProfileMeasures, per_profile

INTERVALS = [
    ExecutionInterval("a", "news", 0, 5),
    ExecutionInterval("a", "prices", 4, None),
    ExecutionInterval("b", "news", 2, 3),
    ExecutionInterval("c", "prices", 0, 9),
]
SCHEDULE = CaptureSchedule((("a", 3), ("a", 7), ("b", 4), ("z", 1)), 2, 6)


def test_a_rule_is_its_own_profile() -> None:
    report = per_profile(INTERVALS, SCHEDULE)
    assert report.profiles == {"news": ProfileMeasures(2, 1, 3), "prices": ProfileMeasures(2, 1, 3)}
    assert (report.completeness, report.average_delay) == (0.5, 3.0)
    assert report.profiles["news"].completeness == 0.5
    assert report.profiles["news"].mean_delay == 3.0


def test_rules_can_share_a_profile() -> None:
    report = per_profile(INTERVALS, SCHEDULE, profiles={"news": "desk", "prices": "desk"})
    assert report.profiles == {"desk": ProfileMeasures(4, 2, 6)}
    assert report.average_delay == 6.0


def test_without_intervals_all_is_captured() -> None:
    report = per_profile([], SCHEDULE)
    assert (report.completeness, report.average_delay, dict(report.profiles)) == (1.0, 0.0, {})


def test_a_schedule_without_probes_captures_nothing() -> None:
    report = per_profile(INTERVALS, CaptureSchedule((), 0, 0))
    assert report.completeness == 0.0
    assert report.profiles["news"].mean_delay == 0.0


def test_what_the_front_says_is_what_the_profiles_say() -> None:
    disjoint = INTERVALS[1:]
    front = pareto(disjoint, Capacity(Epoch(0, 10), [0, 0, 0, 1, 0, 1, 0, 1, 0, 0]))
    assert front.delays.tolist() == [0, 1, 2, 9]
    for captured, delay in enumerate(front.delays.tolist()):
        report = per_profile(disjoint, front.schedule(captured))
        assert report.completeness == front.completeness(captured)
        assert report.average_delay * len(report.profiles) == delay


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
