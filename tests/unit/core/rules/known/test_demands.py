"""What each SET POLICY asks of a page, and what goes on over a new declaration."""

from __future__ import annotations

from typing import TypeVar

import pytest

from proxyd.core.model.chronon import Epoch
from proxyd.core.model.profile import PolicyName
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.kernels.counted_events import MOST_KINDS
from proxyd.core.planning.plan_preview import preview
from proxyd.core.planning.policies.auto import DetectionDemand
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.policies.doe import DoeDemand
from proxyd.core.planning.policies.paced import PacedDemand, UniformDemand
from proxyd.core.planning.policies.rule_demand import RuleDemand
from proxyd.core.planning.policies.sup import IntervalDemand
from proxyd.core.politeness.host_budgets import PolitenessBudget
from proxyd.core.rules.decider import Decider
from tests.fleets import decider, declaration, rule, source

D = TypeVar("D", bound=RuleDemand)
T0 = 1_000_000_000.0
NOW = int(T0 // 10)
DOE = "SET POLICY DOE(3 PROBES PER 2 HOURS, SPACING 10 MINUTES)"


def asked(found: Decider) -> Demands:
    return found.planner.sources["s"].demands


def asking(clauses: str) -> Decider:
    return decider(declaration(source("s"), rule("r", clauses=clauses)), now_s=T0)


def only(found: Decider, kind: type[D]) -> D:
    """Return the only demand of its kind."""
    (demand,) = (each for each in asked(found).rules if isinstance(each, kind))
    return demand


@pytest.mark.parametrize(
    ("clauses", "kind"),
    [
        ("", DetectionDemand),
        ("SET POLICY AUTO SET IMPORTANCE 2 DURING 'Mon'", DetectionDemand),
        ("SET LIFE WINDOW(3)", DetectionDemand),
        ("SET LIFE OVERWRITE", DetectionDemand),
        ("SET POLICY SUP", IntervalDemand),
        ("SET POLICY FBSUP", IntervalDemand),
        ("SET POLICY INDEX SET LIFE WINDOW(3)", DetectionDemand),
        ("SET POLICY UNIFORM(5 MINUTES)", UniformDemand),
        (DOE, DoeDemand),
        ("SET POLICY GOLDEN", PacedDemand),
        ("SET POLICY MEMORYLESS", PacedDemand),
        ("SET POLICY ADAPTIVE", PacedDemand),
    ],
)
def test_a_policy_becomes_one_demand_of_its_kind(clauses: str, kind: type[RuleDemand]) -> None:
    assert [type(demand) for demand in asked(asking(clauses)).rules] == [kind]


@pytest.mark.parametrize(("clauses", "feedback"), [("SET POLICY SUP", False), ("SET POLICY FBSUP", True)])
def test_only_fbsup_has_feedback(clauses: str, feedback: bool) -> None:
    assert only(asking(clauses), IntervalDemand).feedback is feedback


@pytest.mark.parametrize("name", ["GOLDEN", "MEMORYLESS", "ADAPTIVE"])
def test_a_paced_demand_is_of_its_policy_and_says_so(name: str) -> None:
    demand = only(asking(f"SET POLICY {name}"), PacedDemand)
    assert (demand.rule, demand.policy, demand.reason) == ("r", PolicyName[name], Reason[name])


def test_doe_asks_for_its_number_and_its_spacing() -> None:
    demand = only(asking(DOE), DoeDemand)
    assert (demand.probes, demand.per_s) == (3, 7200.0)
    assert demand.starts.budget == PolitenessBudget(600.0, 3, 7200.0)


def test_what_doe_has_used_is_kept_over_a_new_declaration_unless_its_number_changes() -> None:
    found = asking(DOE)
    (planned,) = found.choose(NOW).probes
    again = declaration(source("s"), source("t"), rule("r", clauses=DOE))
    found.declare(again, {"r": T0}, T0 + 10.0)
    assert list(only(found, DoeDemand).starts.starts_s) == [planned.start_s]
    other = declaration(source("s"), rule("r", clauses=DOE.replace("3 PROBES", "4 PROBES")))
    found.declare(other, {"r": T0}, T0 + 20.0)
    assert list(only(found, DoeDemand).starts.starts_s) == []


def test_every_probe_of_the_page_counts_for_doe() -> None:
    rules = [rule("r", clauses=DOE), rule("u", clauses="SET POLICY UNIFORM(10 SECONDS)")]
    found = decider(declaration(source("s"), *rules), now_s=T0)
    (planned,) = found.choose(NOW).probes
    assert list(only(found, DoeDemand).starts.starts_s) == [planned.start_s]
    assert asked(found).earliest_s < T0  # the other rule may go on


def test_where_all_rules_are_doe_the_one_with_probes_left_decides() -> None:
    rules = [rule("a", clauses=DOE), rule("b", clauses="SET POLICY DOE(1 PROBE PER 20 MINUTES)")]
    found = decider(declaration(source("s"), *rules), now_s=T0)
    assert asked(found).earliest_s < T0
    (planned,) = found.choose(NOW).probes
    assert asked(found).earliest_s == planned.start_s + 600.0


def test_of_two_rules_that_are_due_at_once_the_first_is_served() -> None:
    """MEMORYLESS and ADAPTIVE draw the same gap where both go by the same rate."""
    rules = [rule(name, clauses=f"SET POLICY {name}") for name in ("MEMORYLESS", "ADAPTIVE")]
    found = decider(declaration(source("s", options="EXPECT 1 PER HOUR"), *rules), now_s=T0)
    found.planner.choose(NOW)
    found.planner.finish("s", T0, seen=True)
    for demand in asked(found).rules:
        assert isinstance(demand, PacedDemand)
        demand.own_rate_per_s = None
    (planned,) = preview(found.planner, Epoch(NOW + 1, NOW + 10**5), limit=1)
    assert (planned.probe.reason, planned.probe.rule) == (Reason.MEMORYLESS, "MEMORYLESS")


def test_what_a_life_cuts_off_a_slow_utility_is_lost_at_its_end() -> None:
    """After two of the eight hours in which it loses its worth an item is lost, not half of it."""
    steps = asked(asking("WITHIN 2 HOURS")).losses.steps
    assert [(step.after, step.delay) for step in steps] == [(7200.0, 1.0)]
    slow = rule("r", clauses="WITHIN 2 HOURS").replace("SET UTILITY STRICT", "SET UTILITY LINEAR(8 HOURS)")
    found = decider(declaration(source("s"), slow), now_s=T0)
    assert [(step.after, step.delay) for step in asked(found).losses.steps] == [(3600.0, 0.25), (7200.0, 0.75)]


def test_the_first_kinds_of_counting_rules_are_planned_by_their_counts_and_the_others_by_each_item() -> None:
    kinds = [rule(f"n{n}", when=f"COUNT(*) % {n} = 0") for n in range(2, 4 + MOST_KINDS)]
    same = rule("same", when="COUNT(*) % 2 = 0")
    found = decider(declaration(source("s"), *kinds, same), now_s=T0)
    by_count = {demand.rule for demand in asked(found).rules if demand.counts_items}
    assert by_count == {f"n{n}" for n in range(2, 2 + MOST_KINDS)} | {"same"}
    by_item = {demand.rule for demand in asked(found).rules if isinstance(demand, DetectionDemand)}
    assert by_item == {f"n{n}" for n in range(2 + MOST_KINDS, 4 + MOST_KINDS)}
