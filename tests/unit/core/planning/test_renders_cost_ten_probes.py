"""A source that a browser renders spends ten units of the budget, over as many chronons as it needs."""

from __future__ import annotations

import pytest

from proxyd.core.model.chronon import Budget, ChrononGrid, Epoch
from proxyd.core.model.profile import RENDER_UNITS
from proxyd.core.model.schedule import Constraint
from proxyd.core.planning.plan_preview import play, preview
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.policies.paced import UniformDemand
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog

LENGTH_S = 10.0


def planner(per_chronon: float, *, rendered: int = 0, plain: int = 0) -> Planner:
    """Return a planner whose sources all want a probe in every chronon."""
    found = Planner(PlannerSettings(ChrononGrid(LENGTH_S), Budget(per_chronon / LENGTH_S), host_spacing_s=0.0))
    names = [(f"r{n}", RENDER_UNITS) for n in range(rendered)] + [(f"s{n}", 1) for n in range(plain)]
    for name, units in names:
        demands = Demands([UniformDemand("r", period=1, next_due=0)])
        log = ProbeLog(PolitenessBudget(0.0))
        source = PlannedSource(name, name, log, demands, 0.01, last_seen_s=0.0, probe_units=units)
        found.put(source, now=0)
    return found


def chosen(found: Planner, chronons: int) -> list[list[str]]:
    """Return the names that each chronon chooses, every probe ending at once."""
    return [[each.probe.source_id for each in choice.probes] for _, choice in play(found, Epoch(0, chronons))]


def test_a_render_takes_ten_slots_of_its_chronon() -> None:
    (names,) = chosen(planner(16, rendered=1, plain=20), 1)
    assert (len(names), "r0" in names) == (7, True)


def test_what_the_chronon_cannot_pay_is_paid_by_the_next_ones() -> None:
    found = planner(4, rendered=1, plain=20)
    assert [len(names) for names in chosen(found, 4)][:3] == [
        1,
        0,
        1,
    ]  # the third pays two units, and begins the next render


def test_a_render_begins_only_after_the_last_one_is_paid() -> None:
    counts = [sum(name.startswith("r") for name in names) for names in chosen(planner(4, rendered=5), 10)]
    assert counts == [1, 0, 1, 0, 0, 1, 0, 1, 0, 0]


def test_who_waits_for_that_is_held_back_by_the_budget() -> None:
    found = planner(4, rendered=2)
    choice = found.choose(0)
    assert choice.held_back == [("r1", Constraint.BUDGET)]
    assert choice.spent == 4


@pytest.mark.parametrize("per_chronon", [0.25, 1, 4, 10, 23])
def test_the_budget_holds_up_to_the_rest_of_one_render(per_chronon: float) -> None:
    found, capacity, units, spent = planner(per_chronon, rendered=7, plain=7), 0, 0, 0
    for now in range(200):
        capacity += found.settings.capacity(now)
        choice = found.choose(now)
        for each in choice.probes:
            units += RENDER_UNITS if each.probe.source_id.startswith("r") else 1
            found.finish(each.probe.source_id, each.start_s, seen=True)
        spent += choice.spent
        assert units < capacity + RENDER_UNITS
        assert spent <= capacity


def test_chronons_that_are_not_looked_at_pay_too() -> None:
    found = planner(1, rendered=1)
    assert len(found.choose(0).probes) == 1
    found.finish("r0", 1.0, seen=True)
    assert len(found.choose(20).probes) == 1


def test_a_render_that_is_not_begun_costs_no_later_chronon_anything() -> None:
    found = planner(4, rendered=1, plain=20)
    (render,) = found.choose(0).probes
    found.drop(render, LENGTH_S)
    assert len(found.choose(1).probes) > 0


def test_a_preview_plans_renders_as_the_planner_does() -> None:
    ahead = [each.probe.source_id for each in preview(planner(4, rendered=2, plain=3), Epoch(0, 30))]
    assert ahead == [name for names in chosen(planner(4, rendered=2, plain=3), 30) for name in names]


def test_a_delay_counts_a_tenth_for_each_unit_that_a_render_costs() -> None:
    found = planner(1, rendered=1, plain=1)
    assert found.sources["r0"].weight == pytest.approx(found.sources["s0"].weight / RENDER_UNITS)
