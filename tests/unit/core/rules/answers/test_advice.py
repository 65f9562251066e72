"""Budget advice: which rules are not met, by how much, and what would do."""

from __future__ import annotations

from functools import cache

import pytest

from proxyd.core.model.chronon import Budget, Epoch
from proxyd.core.planning.capture.earliest_deadline import Capacity, edf
from proxyd.core.planning.chunks import run_all
from proxyd.core.planning.plan_preview import PlanForecast
from proxyd.core.rules.answers.advice import Advice, advise
from tests.fleets import Drive, changed, decider, declaration, item, rule, source

T0 = 1_000_000_000.0
LENGTH = 720


@cache
def advice(budget_per_s: float, sources: int = 6) -> Advice:
    """Return the advice for sources with an item about every 10 minutes, each captured within a minute."""
    declared = declaration(
        *(source(f"s{n}", host=f"h{n}.example", options=f"EXPECT {5 + n} PER HOUR") for n in range(sources)),
        rule("short", clauses="SET POLICY FBSUP SET LIFE WINDOW(1 MINUTE)"),
    )
    found = decider(declared, now_s=T0, budget=Budget(budget_per_s), settings={"source_spacing_s": 10.0})
    now = found.settings.grid.chronon_at(T0)
    coming = run_all(PlanForecast.of(found.planner, Epoch(now, now + LENGTH))).forecast()
    return advise(found.settings.planner, found.planner.week, coming)


def test_a_budget_that_is_too_small_says_so_by_rule_and_how_much_would_do() -> None:
    few, enough = advice(0.005), advice(1.0)
    (short,) = few.rules
    assert short.rule == "short"
    assert 0 < short.unmet["budget"] < short.intervals
    assert enough.rules[0].unmet == {}
    assert few.needed_per_s is not None
    assert few.needed_per_s > few.budget_per_s
    assert few.needed_per_s == pytest.approx(enough.needed_per_s, rel=0.1)
    assert advice(1.2 * few.needed_per_s).rules[0].unmet == {}


def test_the_front_captures_no_fewer_than_are_planned() -> None:
    few = advice(0.005)
    captured, delay_s = few.front[-1]
    assert all(later > earlier for (earlier, _), (later, _) in zip(few.front, few.front[1:], strict=False))
    (short,) = few.rules
    assert short.intervals - sum(short.unmet.values()) <= captured < short.intervals
    assert 0 <= delay_s <= 60.0


def test_without_intervals_there_is_nothing_to_say_of_rules() -> None:
    found = decider(declaration(source("s"), rule("r")), now_s=T0)
    now = found.settings.grid.chronon_at(T0)
    coming = run_all(PlanForecast.of(found.planner, Epoch(now, now + 10))).forecast()
    said = advise(found.settings.planner, None, coming)
    assert (said.rules, said.front, said.needed_per_s, said.trade) == ((), (), None, ())


def test_what_the_needed_budget_captures_is_everything() -> None:
    found = decider(
        declaration(
            source("s", options="EXPECT 6 PER HOUR"), rule("r", clauses="SET POLICY FBSUP SET LIFE WINDOW(1 MINUTE)")
        ),
        now_s=T0,
    )
    now = found.settings.grid.chronon_at(T0)
    coming = run_all(PlanForecast.of(found.planner, Epoch(now, now + LENGTH))).forecast()
    assert edf(coming.intervals, Capacity.constant(1, coming.epoch)).captured == len(coming.intervals) > 5


async def test_two_points_more_take_as_many_probes_as_a_plan_with_that_share() -> None:
    names = {f"s{n}": 2 + 3 * n for n in range(6)}
    texts = [source(name, host=f"{name}.example", options=f"EXPECT {each} PER DAY") for name, each in names.items()]
    found = decider(declaration(*texts, rule("r")), now_s=T0, chronon_s=60.0, price_item_s=3600.0)
    for name in names:
        await Drive(found).see(changed(name, [item("0", T0)], T0 + 60.0))
    week = found.fleet(T0 + 3600.0).plan()
    assert week is not None
    now = found.settings.grid.chronon_at(T0)
    coming = run_all(PlanForecast.of(found.planner, Epoch(now, now + 10))).forecast()
    more_per_s = advise(found.settings.planner, week, coming).two_points_per_s
    assert more_per_s is not None
    present, more = week.trade([week.probes_per_s, week.probes_per_s + more_per_s])
    assert more.captured - present.captured == pytest.approx(0.02, abs=0.006)
