"""What each SET POLICY asks of a page, and what goes on over a new declaration."""

from __future__ import annotations

import pytest

from proxyd.core.model.chronon import Epoch
from proxyd.core.model.profile import PolicyName
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.plan_preview import preview
from proxyd.core.planning.policies.demand import Demands
from proxyd.core.politeness import PolitenessBudget
from proxyd.core.rules.decider import Decider
from tests.fleets import decider, declaration, rule, source

T0 = 1_000_000_000.0
NOW = int(T0 // 10)
DOE = "SET POLICY DOE(3 PROBES PER 2 HOURS, SPACING 10 MINUTES)"


def asked(found: Decider) -> Demands:
    return found.planner.sources["s"].demands


def asking(clauses: str) -> Decider:
    return decider(declaration(source("s"), rule("r", clauses=clauses)), now_s=T0)


def kinds(demands: Demands) -> dict[str, int]:
    names = ("intervals", "fixed", "detecting", "paced", "doe")
    return {name: len(getattr(demands, name)) for name in names if getattr(demands, name)}


@pytest.mark.parametrize(
    ("clauses", "kind"),
    [
        ("", "detecting"),
        ("SET POLICY AUTO SET IMPORTANCE 2 DURING 'Mon'", "detecting"),
        ("SET LIFE WINDOW(3)", "detecting"),
        ("SET LIFE OVERWRITE", "detecting"),
        ("SET POLICY SUP", "intervals"),
        ("SET POLICY FBSUP", "intervals"),
        ("SET POLICY INDEX SET LIFE WINDOW(3)", "detecting"),
        ("SET POLICY UNIFORM(5 MINUTES)", "fixed"),
        (DOE, "doe"),
        ("SET POLICY GOLDEN", "paced"),
        ("SET POLICY MEMORYLESS", "paced"),
        ("SET POLICY ADAPTIVE", "paced"),
    ],
)
def test_a_policy_becomes_one_demand_of_its_kind(clauses: str, kind: str) -> None:
    assert kinds(asked(asking(clauses))) == {kind: 1}


@pytest.mark.parametrize(("clauses", "feedback"), [("SET POLICY SUP", False), ("SET POLICY FBSUP", True)])
def test_only_fbsup_has_feedback(clauses: str, feedback: bool) -> None:
    (demand,) = asked(asking(clauses)).intervals
    assert demand.feedback is feedback


@pytest.mark.parametrize("name", ["GOLDEN", "MEMORYLESS", "ADAPTIVE"])
def test_a_paced_demand_is_of_its_policy_and_says_so(name: str) -> None:
    (demand,) = asked(asking(f"SET POLICY {name}")).paced
    assert (demand.rule, demand.policy, demand.reason) == ("r", PolicyName[name], Reason[name])


def test_doe_asks_for_its_number_and_its_spacing() -> None:
    (demand,) = asked(asking(DOE)).doe
    assert (demand.probes, demand.per_s) == (3, 7200.0)
    assert demand.log.budget == PolitenessBudget(600.0, 3, 7200.0)


def test_what_doe_has_used_is_kept_over_a_new_declaration_unless_its_number_changes() -> None:
    found = asking(DOE)
    (planned,) = found.choose(NOW)
    again = declaration(source("s"), source("t"), rule("r", clauses=DOE))
    found.declare(again, {"r": T0}, T0 + 10.0)
    (kept,) = asked(found).doe
    assert list(kept.log.starts_s) == [planned.start_s]
    other = declaration(source("s"), rule("r", clauses=DOE.replace("3 PROBES", "4 PROBES")))
    found.declare(other, {"r": T0}, T0 + 20.0)
    (fresh,) = asked(found).doe
    assert list(fresh.log.starts_s) == []


def test_every_probe_of_the_page_counts_for_doe() -> None:
    rules = [rule("r", clauses=DOE), rule("u", clauses="SET POLICY UNIFORM(10 SECONDS)")]
    found = decider(declaration(source("s"), *rules), now_s=T0)
    (planned,) = found.choose(NOW)
    assert list(asked(found).doe[0].log.starts_s) == [planned.start_s]
    assert asked(found).earliest_s < T0  # the other rule may go on


def test_where_all_rules_are_doe_the_one_with_probes_left_decides() -> None:
    rules = [rule("a", clauses=DOE), rule("b", clauses="SET POLICY DOE(1 PROBE PER 20 MINUTES)")]
    found = decider(declaration(source("s"), *rules), now_s=T0)
    assert asked(found).earliest_s < T0
    (planned,) = found.choose(NOW)
    assert asked(found).earliest_s == planned.start_s + 600.0


def test_of_two_rules_that_are_due_at_once_the_first_is_served() -> None:
    """MEMORYLESS and ADAPTIVE draw the same gap where both go by the same rate."""
    rules = [rule(name, clauses=f"SET POLICY {name}") for name in ("MEMORYLESS", "ADAPTIVE")]
    found = decider(declaration(source("s", options="EXPECT 1 PER HOUR"), *rules), now_s=T0)
    found.planner.choose(NOW)
    found.planner.finished("s", T0, seen=True)
    for demand in asked(found).paced:
        demand.own_rate_per_s = None
    (planned,) = preview(found.planner, Epoch(NOW + 1, NOW + 10**5), limit=1)
    assert (planned.probe.reason, planned.probe.rule) == (Reason.MEMORYLESS, "MEMORYLESS")
