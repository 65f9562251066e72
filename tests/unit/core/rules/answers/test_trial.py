"""What a declaration would ask of the budget, against the daemon that really declares it."""

from __future__ import annotations

import pytest

from proxyd.core.model.budget import Budget
from proxyd.core.rules.answers.trial import Trial, asked_per_s
from proxyd.core.rules.decider import Decider
from tests.fleets import decider, declaration, rule, source

T0 = 1_700_000_000.0
EVERY_TENTH = "SET POLICY UNIFORM(10 SECONDS)"


def running(*statements: str, budget_per_s: float = 1.0) -> Decider:
    return decider(declaration(*statements), now_s=T0, chronon_s=1.0, budget=Budget(budget_per_s), host_spacing_s=0.0)


def test_it_is_what_the_daemon_asks_for_once_it_is_declared() -> None:
    before, after = [source("a"), rule("r")], [source("a"), source("b"), source("c"), rule("r", clauses=EVERY_TENTH)]
    wanted = declaration(*after)
    cost = Trial.of(running(*before), wanted, T0).cost()
    assert cost.before_per_s == asked_per_s(running(*before))
    assert cost.after_per_s == asked_per_s(running(*after)) == pytest.approx(0.3)
    assert (cost.added, cost.removed, cost.unmet) == (2, 0, ())


def test_it_changes_nothing() -> None:
    found, wanted = running(source("a"), rule("r")), declaration(source("b"), rule("r", clauses=EVERY_TENTH))
    planned = found.explainer.plan(int(T0), limit=5)
    cost = Trial.of(found, wanted, T0).cost()
    assert (cost.added, cost.removed) == (1, 1)
    assert list(found.planner.sources) == ["a"]
    assert found.explainer.plan(int(T0), limit=5) == planned


def test_rules_that_the_budget_does_not_let_be_met_are_named() -> None:
    sources = [source(f"s{n}", host=f"h{n}.example", options="EXPECT 6 PER HOUR") for n in range(6)]
    wanted = declaration(*sources, rule("short", clauses="SET POLICY FBSUP SET LIFE WINDOW(1 MINUTE)"), rule("r"))
    cost = Trial.of(running(source("a"), rule("r"), budget_per_s=0.005), wanted, T0).cost()
    assert cost.budget_per_s == pytest.approx(0.005)
    assert cost.after_per_s > 0.005
    (short,) = cost.unmet
    assert short.rule == "short"
    assert 0 < sum(short.unmet.values()) <= short.intervals
