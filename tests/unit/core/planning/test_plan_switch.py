"""A plan of the week is taken over in parts: whatever happens between them, no probe is lost or made twice."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest

from proxyd.core.model.chronon import Budget, ChrononGrid, Epoch
from proxyd.core.planning.allocation.fleet_state import FleetState
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.chunks import PART, run_all
from proxyd.core.planning.plan_preview import play
from proxyd.core.planning.planner import Planner, switch_plan
from proxyd.core.planning.policies.auto import DetectionDemand
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.policies.paced import UniformDemand
from proxyd.core.planning.queue.due_times import LEARNS_EVERY_S
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog
from proxyd.core.rates.week_shapes import WeekShapes

SOURCES = 3 * PART + 7
NOW = 40 * 86400
AHEAD = Epoch(NOW, NOW + 60)


def page(number: int, *, seen_s: float | None, demands: Demands | None = None) -> PlannedSource:
    log = ProbeLog(PolitenessBudget(30.0))
    asked = demands or Demands([DetectionDemand("r")])
    return PlannedSource(f"s{number}", f"host{number}", log, asked, 1e-4 * (1 + number % 7), last_seen_s=seen_s)


def fleet(*, budget_per_s: float = 5.0) -> Planner:
    """Return a planner of pages seen at several times; some were not yet, and some have other rules too."""
    planner = Planner(PlannerSettings(ChrononGrid(1.0), Budget(budget_per_s), host_spacing_s=0.0))
    for number in range(SOURCES):
        seen_s = None if number % 50 == 0 else NOW - 20.0 * (number % 11)
        both = Demands([DetectionDemand("r"), UniformDemand("f", 600, NOW + number)])
        planner.put(page(number, seen_s=seen_s, demands=both if number % 40 == 3 else None), NOW)
    return planner


def plan_of(planner: Planner, *, rate: float = 1.0) -> WeekPlan:
    pages = [each for each in planner.sources.values() if each.last_seen_s is not None]
    return WeekPlan.of(
        FleetState(
            [each.source_id for each in pages],
            np.array([rate * each.rate_per_s for each in pages]),
            np.ones(len(pages)),
            np.array([each.last_seen_s for each in pages], dtype=np.float64),
            WeekShapes(np.ones((1, 168)), np.zeros(len(pages), dtype=np.int64)),
            probes_per_s=2.0,
        )
    )


def test_in_parts_it_is_what_it_is_at_once() -> None:
    at_once = fleet()
    week = plan_of(at_once, rate=0.5)
    in_parts, other = deepcopy(at_once), deepcopy(week)
    run_all(switch_plan(at_once, week, NOW))
    steps = sum(1 for _ in switch_plan(in_parts, other, NOW))
    assert steps > 2
    assert {s: p.wake for s, p in at_once.sources.items()} == {s: p.wake for s, p in in_parts.sources.items()}
    assert list(play(at_once, AHEAD)) == list(play(in_parts, AHEAD))


def test_pages_wake_as_if_each_were_planned_by_itself() -> None:
    planner = fleet()
    run_all(switch_plan(planner, plan_of(planner), NOW))
    wakes = {source_id: each.wake for source_id, each in planner.sources.items()}
    for source_id in planner.sources:
        planner.reschedule(source_id, NOW)
    assert {source_id: each.wake for source_id, each in planner.sources.items()} == wakes


def test_new_pages_that_the_plan_does_not_know_yet_wake_as_their_rates_ask() -> None:
    planner = fleet()
    week = plan_of(planner)
    for number in range(0, SOURCES, 5):  # first seen while the plan was made, or before it was begun
        new = page(number, seen_s=NOW - 5.0)
        new.learns_until_s = NOW + 86400.0
        planner.put(new, NOW)
    run_all(switch_plan(planner, week, NOW))
    wakes = {source_id: each.wake for source_id, each in planner.sources.items()}
    unknown = [name for name in planner.sources if name not in week]
    assert len(unknown) > 1
    for source_id in planner.sources:
        planner.reschedule(source_id, NOW)
    assert {source_id: each.wake for source_id, each in planner.sources.items()} == wakes
    gaps_s = [planner.due_times.detection_s(planner.sources[name]) - NOW for name in unknown]
    assert max(gaps_s) < LEARNS_EVERY_S / 2.0


def test_pages_may_go_or_be_put_again_between_the_parts() -> None:
    planner = fleet()
    for step, _ in enumerate(switch_plan(planner, plan_of(planner), NOW)):
        for number in range(step, SOURCES, 23):
            planner.remove(f"s{number}")
        for number in range(step + 5, SOURCES, 23):
            planner.put(page(number, seen_s=NOW - 10.0), NOW)
    planner.wake_due(NOW + 10**9)
    queues = planner.queues
    found = [name for name in planner.sources if name in queues.awake or name in queues.due or name in queues.unseen]
    assert found == list(planner.sources)
    assert len(found) == len(queues.awake) + len(queues.due) + len(queues.unseen) < SOURCES


def test_what_is_probed_between_the_parts_is_made_once_and_counts_in_both_plans() -> None:
    planner = fleet()
    run_all(switch_plan(planner, plan_of(planner), NOW))
    week, now, probed = plan_of(planner), NOW, []
    for _ in switch_plan(planner, week, NOW):
        now += 1
        for planned in planner.choose(now).probes:
            planner.finish(planned.probe.source_id, planned.start_s, seen=True)
            probed.append(planned)
    assert planner.week is week
    assert len(probed) == len({planned.probe.source_id for planned in probed}) > 0
    for planned in probed:
        due_s = week.due_s(planned.probe.source_id)
        assert due_s is None or due_s > planned.start_s
    assert not {p.probe.source_id for p in planner.choose(now + 1).probes} & {p.probe.source_id for p in probed}


def test_a_probe_in_flight_over_the_change_is_not_made_again() -> None:
    planner = fleet()
    flying = {planned.probe.source_id for planned in planner.choose(NOW).probes}
    assert flying
    run_all(switch_plan(planner, plan_of(planner), NOW))
    again = {planned.probe.source_id for now in range(NOW + 1, NOW + 30) for planned in planner.choose(now).probes}
    assert not again & flying
    assert len(planner.in_flight) == len(flying) + len(again)


def test_pages_may_come_and_go_between_the_parts() -> None:
    planner = fleet()
    week = plan_of(planner)
    for number, _ in enumerate(switch_plan(planner, week, NOW)):
        planner.remove(f"s{SOURCES - 1 - number}")
        planner.put(page(SOURCES + number, seen_s=NOW - 1.0), NOW)
        planner.put(page(number, seen_s=NOW - 500.0), NOW)
    assert week.behind(["s1"], np.array([[planner.sources["s1"].rate_per_s, 1.0, NOW - 500.0]])).tolist() == [False]
    chosen = [planned.probe.source_id for _, choice in play(planner, AHEAD) for planned in choice.probes]
    assert f"s{SOURCES - 1}" not in planner.sources
    assert set(chosen) <= planner.sources.keys()


def test_a_source_whose_hub_promises_no_more_is_planned_as_others_again() -> None:
    planner = fleet()
    pushed, other = planner.sources["s1"], planner.sources["s8"]  # of one rate
    pushed.pushed_until_s, pushed.left_out = NOW + 60.0, 0.02
    pushed.last_seen_s = other.last_seen_s
    run_all(switch_plan(planner, plan_of(planner), NOW))
    planner.reschedule("s1", NOW)
    assert planner.week is not None

    def gap_s(source: PlannedSource) -> float:
        assert planner.week is not None
        assert source.last_seen_s is not None
        return (planner.week.due_s(source.source_id) or 0.0) - source.last_seen_s

    assert gap_s(pushed) > 5 * gap_s(other)
    planner.queues.wake_up(NOW + 60, planner.sources)
    assert gap_s(pushed) == pytest.approx(gap_s(other), rel=0.05)
