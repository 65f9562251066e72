"""What a declaration would ask of the budget, against the daemon that really declares it."""

from __future__ import annotations

import pytest

from proxyd.core.model.budget import Budget
from proxyd.core.rules.answers.trial import Trial, asked_per_s
from proxyd.core.rules.decider import Decider
from tests.fleets import Drive, changed, decider, declaration, item, rule, source

T0, DAY_S = 1_700_000_000.0, 86400.0
EVERY_TENTH = "SET POLICY UNIFORM(10 SECONDS)"


def running(*statements: str, budget_per_s: float = 1.0, chronon_s: float = 1.0, **planner: object) -> Decider:
    planner |= {"budget": Budget(budget_per_s), "host_spacing_s": 0.0}
    return decider(declaration(*statements), now_s=T0, chronon_s=chronon_s, **planner)  # type: ignore[arg-type]


def test_it_is_what_the_daemon_asks_for_once_it_is_declared() -> None:
    before, after = [source("a"), rule("r")], [source("a"), source("b"), source("c"), rule("r", clauses=EVERY_TENTH)]
    wanted = declaration(*after)
    cost = Trial.of(running(*before), wanted, T0).cost()
    assert cost.before_per_s == asked_per_s(running(*before))
    assert cost.after_per_s == asked_per_s(running(*after)) == pytest.approx(0.3)
    assert (cost.added, cost.removed, cost.unmet) == (2, 0, ())


async def test_seen_sources_cost_what_their_plan_costs() -> None:
    """An item at nine each morning takes few probes a day, where even gaps would take one every three hours."""
    found = running(source("a"), rule("r", clauses="WITHIN 3 HOURS FOR 90 %"), chronon_s=600.0, price_item_s=None)
    drive, morning = Drive(found), T0 - T0 % DAY_S + 9 * 3600.0
    names = [item(str(n), morning + n * DAY_S) for n in range(57)]
    for n in range(1, 57):
        await drive.see(changed("a", names[: n + 1], morning + n * DAY_S + 600.0))
    at_s = morning + 57 * DAY_S
    strict = declaration(source("a"), rule("r", clauses="WITHIN 3 HOURS FOR 90 %"), rule("s", clauses="WITHIN 1 HOUR"))
    cost = Trial.of(found, strict, at_s).cost()
    assert 0.5 / DAY_S < cost.before_per_s < 5 / DAY_S
    assert cost.after_per_s >= cost.before_per_s
    assert set(cost.targets) == {"s"}
    assert cost.targets["s"].share == 0.9
    assert found.planner.week is None


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
