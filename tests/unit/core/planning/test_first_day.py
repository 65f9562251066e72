"""A new source is asked every 20 minutes, with what is left of the budget, for a day at most."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.policies.auto import DetectionDemand
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog
from proxyd.core.rules.known.state import SourceState

GRID = ChrononGrid(10.0)
DAY_S = 86400.0


def planner(count: int, *, budget: Budget, until_s: float = DAY_S) -> Planner:
    """Return a planner of sources that were seen at 0, are new until a time, and are not due for long otherwise."""
    found = Planner(PlannerSettings(GRID, budget, price_item_s=1e9, overflow=1.0, host_spacing_s=0.0))
    for number in range(count):
        log, demands = ProbeLog(PolitenessBudget(60.0)), Demands([DetectionDemand("r")])
        name = f"s{number}"
        found.put(PlannedSource(name, name, log, demands, 1e-5, last_seen_s=0.0, learns_until_s=until_s), now=0)
    return found


def probed_s(found: Planner, stop_s: float) -> dict[str, list[float]]:
    """Return when each source was probed; every probe sees it."""
    starts: dict[str, list[float]] = {}
    for now in range(round(stop_s / GRID.length_s)):
        for planned in found.choose(now).probes:
            assert planned.probe.reason is Reason.LEARNING
            starts.setdefault(planned.probe.source_id, []).append(planned.start_s)
            found.finish(planned.probe.source_id, planned.start_s + 1.0, seen=True)
    return starts


def test_it_is_asked_every_20_minutes_until_its_day_is_over() -> None:
    starts = probed_s(planner(3, budget=Budget(1.0)), 1.5 * DAY_S)
    assert len(starts) == 3
    for times in starts.values():
        gaps = [after - before for before, after in pairwise([0.0, *times])]
        assert all(1200.0 - 10.0 <= gap <= 1320.0 + 20.0 for gap in gaps)
        assert DAY_S - 1350.0 <= times[-1] <= DAY_S


@pytest.mark.parametrize("a_minute", [1.0, 0.2])
def test_it_is_asked_as_often_with_a_budget_that_leaves_most_chronons_without_room(a_minute: float) -> None:
    (times,) = probed_s(planner(1, budget=Budget(a_minute / 60.0)), DAY_S / 2).values()
    gaps = [after - before for before, after in pairwise([0.0, *times])]
    assert all(1200.0 - 10.0 <= gap <= 1320.0 + 60.0 / a_minute + 20.0 for gap in gaps)
    assert len(times) > 20


def test_those_that_find_no_room_wait_for_their_next_turn_and_are_not_looked_at_meanwhile() -> None:
    found = planner(500, budget=Budget(0.1))
    most = 0
    for now in range(720):
        choice = found.choose(now)
        assert len(choice.probes) <= 1
        most = max(most, len(found.queues.awake))
        assert choice.held_back == []
        for planned in choice.probes:
            found.finish(planned.probe.source_id, planned.start_s + 1.0, seen=True)
    assert most < 50


def test_none_loses_its_turn_to_a_chronon_that_is_nearly_over() -> None:
    found = planner(3, budget=Budget(1.0))
    now = GRID.chronon_at(1800.0)
    assert found.choose(now, from_s=1809.5).probes == []
    assert len(found.choose(now + 1).probes) == 3


def test_a_source_is_new_until_two_items_came_or_its_day_is_over() -> None:
    state = SourceState("s", "https://s.example/")
    assert state.learns_until_s(DAY_S) == 0.0
    contacted = SourceState("s", "https://s.example/", first_contact_s=100.0, arrivals=1)
    assert contacted.learns_until_s(DAY_S) == 100.0 + DAY_S
    known = replace(contacted, arrivals=2)
    assert (known.learns_until_s(DAY_S), known.learns_until_s(0.0)) == (100.0 + 3600.0, 100.0)
