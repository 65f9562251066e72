"""What is due and finds no room waits, however much it is: the best goes first, and none is counted wrongly."""

from __future__ import annotations

from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.schedule import Constraint
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.policies.auto import DetectionDemand
from proxyd.core.planning.policies.demands import Demands, detection_index
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog

NOW = 1000


def planner(*pages: PlannedSource, budget_per_s: float = 1.0, host_spacing_s: float = 0.0) -> Planner:
    settings = PlannerSettings(ChrononGrid(1.0), Budget(budget_per_s), price_item_s=1.0, host_spacing_s=host_spacing_s)
    found = Planner(settings)
    for page in pages:
        found.put(page, NOW)
    return found


def page(name: str, *, rate_per_s: float = 0.1, seen_s: float | None = 0.0, host: str = "") -> PlannedSource:
    log = ProbeLog(PolitenessBudget(30.0))
    return PlannedSource(name, host or name, log, Demands([DetectionDemand("r")]), rate_per_s, last_seen_s=seen_s)


def test_the_best_go_first_however_many_wait() -> None:
    pages = [page(f"s{n}", rate_per_s=0.01 * (1 + n * 37 % 1009), seen_s=float(n % 13)) for n in range(1009)]
    found = planner(*pages, budget_per_s=600.0)
    choice = found.choose(NOW)
    chosen = {planned.probe.source_id for planned in choice.probes}
    ranked = sorted(pages, key=lambda each: -detection_index(each.rate_per_s, NOW - (each.last_seen_s or 0.0)))
    assert chosen == {each.source_id for each in ranked[:600]}
    assert choice.passed_over == 409


def test_first_contacts_go_before_what_is_due() -> None:
    found = planner(page("old", rate_per_s=100.0), page("new", seen_s=None))
    assert [[p.probe.source_id for p in found.choose(now).probes] for now in (NOW, NOW + 1)] == [["new"], ["old"]]


def test_what_finds_no_room_is_counted_each_time_until_it_is_probed() -> None:
    found = planner(page("fast", rate_per_s=1.0), page("slow", rate_per_s=0.5))
    choice = found.choose(NOW)
    assert ([p.probe.source_id for p in choice.probes], choice.passed_over) == (["fast"], 1)
    assert found.postponements("slow") == {Constraint.BUDGET: 1}
    choice = found.choose(NOW + 1)
    assert ([p.probe.source_id for p in choice.probes], choice.passed_over) == (["slow"], 0)
    assert (found.postponements("slow"), found.postponements("fast")) == ({Constraint.BUDGET: 1}, {})


def test_what_the_machine_leaves_out_is_counted_apart_from_what_the_budget_does() -> None:
    found = planner(*(page(f"s{n}", rate_per_s=4.0 - n) for n in range(4)), budget_per_s=2.0)
    choice = found.choose(NOW, most=1.0)
    assert [p.probe.source_id for p in choice.probes] == ["s0"]
    assert (choice.limit, choice.passed_over) == (Constraint.OVERLOAD, 3)
    assert found.postponements("s1") == {Constraint.OVERLOAD: 1}
    choice = found.choose(NOW + 1, most=2.0)
    assert {p.probe.source_id for p in choice.probes} == {"s1", "s2"}
    assert (choice.limit, choice.passed_over) == (Constraint.BUDGET, 1)
    assert (found.postponements("s1"), found.postponements("s3")) == (
        {Constraint.OVERLOAD: 1},
        {Constraint.OVERLOAD: 1, Constraint.BUDGET: 1},
    )


def test_what_its_host_holds_back_is_counted_for_that_and_takes_no_room() -> None:
    found = planner(
        page("a", rate_per_s=3.0, host="h"),
        page("b", rate_per_s=2.0, host="h"),
        page("c"),
        budget_per_s=2.0,
        host_spacing_s=5.0,
    )
    choice = found.choose(NOW)
    assert {p.probe.source_id for p in choice.probes} == {"a", "c"}
    assert choice.held_back == [("b", Constraint.HOST_POLITENESS)]
    assert (choice.passed_over, found.postponements("b")) == (0, {Constraint.HOST_POLITENESS: 1})
    assert [p.probe.source_id for now in range(NOW + 1, NOW + 6) for p in found.choose(now).probes] == ["b"]


def test_what_waits_is_forgotten_with_its_page() -> None:
    found = planner(page("a", rate_per_s=3.0), page("b"), page("c"))
    found.choose(NOW)
    found.remove("b")
    assert [p.probe.source_id for now in (NOW + 1, NOW + 2) for p in found.choose(now).probes] == ["c"]
