"""DOE against every choice of slots there is, and how the week plan tells its times."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.planning.allocation.fleet_state import FleetState
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.policies.doe import DoeDemand, doe_slots
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S, Cycle
from proxyd.core.rates.week_shapes import WeekShapes

Floats = NDArray[np.float64]
SLOTS = 8
DAY_S = 86400.0
WEEK = Cycle()
START_S = MONDAY_S + 2900 * WEEK_S
factors = st.lists(st.sampled_from([0.0, 0.5, 1.0, 4.0]), min_size=SLOTS, max_size=SLOTS).map(np.array)


def cost(shape: Floats, importance: Floats, times: tuple[float, ...]) -> float:
    """Return what a week costs in which ``times`` are probed, and probed again in every other."""
    edges = np.arange(2 * len(shape) + 1.0)
    twice = (PiecewiseConstant(edges, np.tile(each, 2)) for each in (shape, importance))
    prefix = Prefix(*twice)
    return sum(prefix.cost(a, b) for a, b in pairwise((*times, times[0] + len(shape))))


@given(factors, factors, st.integers(1, 3))
def test_no_choice_of_slots_costs_less(shape: Floats, importance: Floats, probes: int) -> None:
    found = doe_slots(shape, importance, probes, float(SLOTS))
    if found is None:
        assert not shape.any() or np.ptp(shape) == np.ptp(importance) == 0
        return
    assert len(found) <= probes
    best = min(cost(shape, importance, times) for times in combinations(np.arange(float(SLOTS)), probes))
    assert cost(shape, importance, tuple(found.tolist())) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize(
    ("probes", "period_slots", "count"),
    [(1, 336.0, 1), (28, 4 * 336.0, 7), (3, 2 * 336.0, 2), (1, 3 * 336.0, 1), (2, 48.0, 14), (10, 168.0, 20)],
)
def test_a_week_holds_its_share_of_the_number(probes: int, period_slots: float, count: int) -> None:
    shape = np.tile(np.repeat([0.1, 1.0, 0.3], 16), 7) * np.repeat(np.arange(1.0, 8.0), 48)
    found = doe_slots(shape, np.ones(336), probes, period_slots)
    assert found is not None
    assert len(found) == count
    assert np.all(np.diff(found) > 0)
    assert 0 <= found[0] <= found[-1] < 336


def test_each_day_of_a_week_is_probed_alike() -> None:
    shape = np.tile(np.repeat([0.0, 1.0, 0.0], 16), 7)
    found = doe_slots(shape, np.ones(336), 2, 48.0)
    assert found is not None
    np.testing.assert_array_equal(found.reshape(7, 2) - 48.0 * np.arange(7)[:, None], [found[:2]] * 7)
    assert 16 < found[0] < found[1] == 32


@pytest.mark.parametrize(
    ("shape", "probes", "period_slots"),
    [
        (np.ones(336), 7, 336.0),
        (np.zeros(336), 7, 336.0),
        (np.arange(336.0), 7, 100.0),
        (np.arange(336.0), 1, 5 * 48.0),
        (np.arange(336.0), 25, 48.0),
        (np.arange(336.0), 1, 1.0),
    ],
    ids=["an even week", "a week of nothing", "2.4 hours", "five days", "closer than an hour", "every slot"],
)
def test_probes_are_even_where_no_choice_is_better_or_none_repeats(
    shape: Floats, probes: int, period_slots: float
) -> None:
    assert doe_slots(shape, np.ones(336), probes, period_slots) is None


def planned(cycle: Cycle = WEEK, zone_s: float = 0.0) -> WeekPlan:
    """Return the plan of two sources with items from 9 to 17 o'clock, one of them with DOE rules."""
    office = np.tile(np.repeat([0.0, 1.0, 0.0], [9, 8, 7]), 7)
    weeks = WeekShapes(np.array([office]), np.zeros(2, dtype=np.int64))
    asked = ((7, WEEK_S / cycle.speed), (1, DAY_S / 2.4 / cycle.speed))
    state = FleetState(
        ("a", "b"), np.full(2, 1e-4), np.ones(2), np.full(2, cycle.time_s(START_S)), weeks, 1e-3, doe={"a": asked}
    )
    return WeekPlan.of(replace(state, cycle=cycle, zone_s=np.array([zone_s, 0.0])))


def dues_s(plan: WeekPlan, per_s: float, last_s: float, count: int) -> list[float]:
    found = []
    for _ in range(count):
        due_s = plan.doe_due_s("a", 7, per_s, last_s)
        assert due_s is not None
        found.append(last_s := due_s)
    return found


def test_the_times_come_one_after_the_other_week_by_week() -> None:
    dues = dues_s(planned(), WEEK_S, START_S, 21)
    np.testing.assert_allclose(np.diff(dues[::7]), WEEK_S)
    np.testing.assert_allclose(np.array(dues[7:]) - dues[:-7], WEEK_S)
    hours = (np.array(dues) - START_S) % DAY_S / 3600.0
    assert np.all((hours > 9.0) & (hours < 18.0))


def test_a_probe_between_two_times_waits_for_the_later() -> None:
    plan = planned()
    first, second = dues_s(plan, WEEK_S, START_S, 2)
    assert plan.doe_due_s("a", 7, WEEK_S, first - 1.0) == pytest.approx(first)
    assert plan.doe_due_s("a", 7, WEEK_S, (first + second) / 2) == pytest.approx(second)


def test_the_times_are_of_the_clocks_where_the_week_lives() -> None:
    utc, east = dues_s(planned(), WEEK_S, START_S, 7), dues_s(planned(zone_s=7200.0), WEEK_S, START_S, 7)
    np.testing.assert_allclose(east, np.array(utc) - 7200.0)


def test_a_short_cycle_has_the_times_of_a_week_in_miniature() -> None:
    cycle = Cycle(3600.0)
    start_s = cycle.time_s(START_S)
    small = np.array(dues_s(planned(cycle), 3600.0, start_s, 9)) - start_s
    np.testing.assert_allclose(
        small * cycle.speed, np.array(dues_s(planned(), WEEK_S, START_S, 9)) - START_S, atol=1e-3
    )


@pytest.mark.parametrize(
    ("source_id", "probes", "per_s"),
    [("a", 1, DAY_S / 2.4), ("a", 8, WEEK_S), ("b", 7, WEEK_S), ("c", 7, WEEK_S)],
    ids=[
        "no part of a week",
        "a rule newer than the plan",
        "a source without such a rule",
        "a source newer than the plan",
    ],
)
def test_without_times_in_the_plan_probes_are_even(source_id: str, probes: int, per_s: float) -> None:
    assert planned().doe_due_s(source_id, probes, per_s, START_S) is None


@pytest.mark.parametrize("takes_s", [0.0, 0.25], ids=["at once", "in a quarter of a second"])
def test_as_many_probes_are_made_as_the_number_allows(takes_s: float) -> None:
    """A chronon lost in each gap left 327 of 360."""
    planner = Planner(PlannerSettings(ChrononGrid(1.0), Budget(3.0)))
    demand = DoeDemand("r", probes=6, per_s=60.0, starts=ProbeLog(PolitenessBudget(3.0, 6, 60.0)))
    log = ProbeLog(PolitenessBudget(0.5))
    planner.put(PlannedSource("a", "example.org", log, Demands([demand]), rate_per_s=0.1), now=0)
    starts_s = list[float]()
    for now in range(3600):
        for planned in planner.choose(now, from_s=now + 0.4 if not starts_s else -inf).probes:
            starts_s.append(planned.start_s)
            planner.finish("a", planned.start_s + takes_s, seen=True)
    assert len(starts_s) >= 358
    assert all(later_s - start_s > 60.0 - 1e-6 for start_s, later_s in zip(starts_s, starts_s[6:], strict=False))
