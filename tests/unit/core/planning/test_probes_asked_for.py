"""Probes that somebody asks for: made at once, within politeness, and once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.schedule import Constraint, Reason
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.policies.auto import DetectionDemand
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog

GRID = ChrononGrid(10.0)


def planner(**changes: object) -> Planner:
    """Return a planner of one source that was seen at 0, is asked a minute apart at most, and is not due for long."""
    found = Planner(PlannerSettings(GRID, Budget(1.0), price_item_s=1e9, overflow=1.0, host_spacing_s=0.0))
    log = ProbeLog(PolitenessBudget(60.0))
    source = PlannedSource("a", "a.example", log, Demands([DetectionDemand("r")]), 1e-5, last_seen_s=0.0)
    found.put(replace(source, **changes), now=0)  # type: ignore[arg-type]
    return found


def reasons(found: Planner, *chronons: int) -> list[Reason]:
    return [planned.probe.reason for now in chronons for planned in found.choose(now).probes]


@pytest.mark.parametrize(
    "changes", [{}, {"fresh_until_s": 1e6}, {"not_before_s": 1e6}, {"pushed_until_s": 1e6}, {"last_seen_s": None}]
)
def test_it_is_made_at_once_whatever_freshness_back_off_and_pushes_say(changes: dict[str, object]) -> None:
    found = planner(**changes)
    found.ask("a", 100.0)
    (planned,) = found.choose(10).probes
    assert planned.probe.reason is (Reason.FIRST_CONTACT if "last_seen_s" in changes else Reason.ASKED)
    found.finish("a", 101.0, seen=True)
    assert reasons(found, *range(11, 60)) == []


def test_it_waits_for_the_politeness_of_its_source_and_for_throttles() -> None:
    found = planner()
    found.sources["a"].log.record(90.0)
    found.ask("a", 100.0)
    assert found.limits.obstacle_at(found.sources["a"], 100.0) is Constraint.SOURCE_POLITENESS
    assert reasons(found, *range(10, 15)) == []
    found.limits.blocks.block("a.example", 200.0)
    assert reasons(found, *range(15, 20)) == []
    assert reasons(found, 20) == [Reason.ASKED]


def test_it_is_made_once_also_if_it_fails_and_again_if_it_was_never_started() -> None:
    found = planner()
    found.ask("a", 100.0)
    (planned,) = found.choose(10).probes
    found.drop(planned, 105.0)
    (planned,) = found.choose(11).probes
    assert planned.probe.reason is Reason.ASKED
    found.finish("a", 115.0, seen=False)
    assert reasons(found, *range(12, 60)) == []
