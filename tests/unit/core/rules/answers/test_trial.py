"""What a declaration would ask of the budget, against the daemon that really declares it."""

from __future__ import annotations

import pytest

from proxyd.cluster.division import Division
from proxyd.cluster.shared_fleet import Sharing
from proxyd.core.model.chronon import Budget
from proxyd.core.model.profile import Declaration
from proxyd.core.planning.chunks import run_all
from proxyd.core.rules.answers.advice import Trial, demand_besides_week, demand_per_s, differs_little
from proxyd.core.rules.answers.explanation import Explainer
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
    assert cost.before_per_s == demand_per_s(running(*before))
    assert cost.after_per_s == demand_per_s(running(*after)) == pytest.approx(0.3)
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


@pytest.mark.parametrize(("limit", "a_day"), [("2 PROBES PER DAY", 2.0), ("SPACING 6 HOURS", 4.0)])
def test_it_asks_for_no_more_than_the_politeness_of_a_source_allows(limit: str, a_day: float) -> None:
    wanted = [source("a", options=f"EXPECT 5 PER HOUR POLITENESS {limit}"), rule("r", clauses="WITHIN 10 MINUTES")]
    cost = Trial.of(running(source("a"), rule("r"), price_item_s=None), declaration(*wanted), T0).cost()
    assert cost.after_per_s * DAY_S == pytest.approx(a_day)


def test_it_changes_nothing() -> None:
    found, wanted = running(source("a"), rule("r")), declaration(source("b"), rule("r", clauses=EVERY_TENTH))
    planned = Explainer.of(found).plan(int(T0), limit=5)
    cost = Trial.of(found, wanted, T0).cost()
    assert (cost.added, cost.removed) == (1, 1)
    assert list(found.planner.sources) == ["a"]
    assert Explainer.of(found).plan(int(T0), limit=5) == planned


def test_rules_that_the_budget_does_not_let_be_met_are_named() -> None:
    sources = [source(f"s{n}", host=f"h{n}.example", options="EXPECT 6 PER HOUR") for n in range(6)]
    wanted = declaration(*sources, rule("short", clauses="SET POLICY FBSUP SET LIFE WINDOW(1 MINUTE)"), rule("r"))
    cost = Trial.of(running(source("a"), rule("r"), budget_per_s=0.005), wanted, T0).cost()
    assert cost.budget_per_s == pytest.approx(0.005)
    assert cost.after_per_s > 0.005
    (short,) = cost.unmet
    assert short.rule == "short"
    assert 0 < sum(short.unmet.values()) <= short.intervals


def small_trial(found: Decider, wanted: Declaration, now_s: float) -> Trial:
    """Return a trial of what differs only."""
    programs = found.known.compiled.programs
    accepted = {name: programs[name].accepted_s if name in programs else now_s for name in wanted.rules}
    swap = found.compile(wanted, accepted, {}, T0)
    return Trial.of_difference(found, swap, now_s, run_all(demand_besides_week(found.planner)))


FLEET = [source(f"s{n}", host=f"h{n}.example", options=f"EXPECT {1 + n % 5} PER HOUR") for n in range(30)]
MORE = [source(f"t{n}", host=f"h{n}.example", options="EXPECT 3 PER HOUR") for n in range(3)]
EDITS = {
    "sources more": [*FLEET, *MORE, rule("r"), rule("q", clauses="SET LIFE WINDOW(1 HOUR)")],
    "sources less": [*FLEET[4:], rule("r"), rule("q", clauses="SET LIFE WINDOW(1 HOUR)")],
    "a rule for one": [
        *FLEET,
        rule("r"),
        rule("q", clauses="SET LIFE WINDOW(1 HOUR)"),
        rule("one", clauses='FROM SOURCES "s3" WITHIN 30 MINUTES FOR 90 %'),
    ],
    "nothing": [*FLEET, rule("r"), rule("q", clauses="SET LIFE WINDOW(1 HOUR)")],
}


@pytest.mark.parametrize(
    ("edit", "budget_per_s"),
    [
        pytest.param(edit, per_s, id=f"{edit}-a budget that is {left}", marks=[pytest.mark.long] * (not is_short))
        for edit in EDITS
        for left, per_s, is_short in (("left", 1.0, True), ("short", 0.002, edit == "a rule for one"))
    ],
)
async def test_a_trial_of_what_differs_says_about_what_one_of_all_says(edit: str, budget_per_s: float) -> None:
    found = running(*EDITS["nothing"], budget_per_s=budget_per_s, chronon_s=60.0, price_item_s=None)
    drive = Drive(found)
    for name in found.planner.sources:
        await drive.see(changed(name, [item("0", T0)], T0 + 600.0))
    week = found.fleet(T0 + 3600.0).plan()
    assert week is not None
    run_all(found.switch_plan(week, T0 + 3600.0))
    wanted = declaration(*EDITS[edit])
    some, whole = (make(found, wanted, T0 + 7200.0).cost() for make in (small_trial, Trial.of))
    assert some.before_per_s == pytest.approx(whole.before_per_s, rel=0.05)
    assert some.after_per_s == pytest.approx(whole.after_per_s, rel=0.1)
    assert (some.added, some.removed) == (whole.added, whole.removed)
    assert ("one" in some.targets) == (edit == "a rule for one")
    if "one" in some.targets:
        assert some.targets["one"].expected == pytest.approx(whole.targets["one"].expected, abs=0.1)
        assert some.targets["one"].is_met == whole.targets["one"].is_met == (budget_per_s == 1.0)


@pytest.mark.parametrize(("small_fleet", "is_large"), [(33, False), (32, True)])
def test_of_a_large_fleet_only_what_differs_is_tried(
    small_fleet: int, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxyd.core.rules.answers.advice._SMALL_FLEET", small_fleet)
    found = running(*FLEET, rule("r"))
    swap = found.compile(declaration(*FLEET, *MORE, rule("r")), {"r": T0}, {}, T0)
    assert differs_little(swap) == is_large
    assert not differs_little(found.compile(declaration(*MORE, rule("r")), {"r": T0}, {}, T0))
    trial = small_trial(found, declaration(*FLEET, *MORE, rule("r")), T0)
    assert set(trial.wanted.sources) == {"t0", "t1", "t2"}
    cost = trial.cost()
    assert (cost.added, cost.removed) == (3, 0)
    assert cost.after_per_s > cost.before_per_s == demand_per_s(found)


def test_the_budget_of_all_planners_is_compared_with_what_all_ask_for() -> None:
    found = running(*FLEET, rule("r"))
    asked = demand_per_s(found)
    found.planner.share(0.25)
    cost = small_trial(found, declaration(*FLEET, *MORE, rule("r")), T0).cost()
    assert cost.budget_per_s == 1.0
    assert cost.before_per_s == pytest.approx(4 * asked)
    assert cost.after_per_s > cost.before_per_s


def test_a_planner_without_sources_tells_what_the_sources_of_others_would_cost() -> None:
    mine, theirs = source("a", host="a.example"), [source(f"b{n}", host=f"b{n}.example") for n in range(2)]
    found, more = running(mine, *theirs, rule("r", clauses=EVERY_TENTH)), rule("s", clauses=EVERY_TENTH)
    Sharing(found).release(Division(frozenset()), list(found.planner.sources))
    run_all(found.placement.place_in_parts(lambda: T0))
    found.planner.share(0.0)
    cost = small_trial(found, declaration(mine, *theirs, more), T0).cost()
    assert not found.planner.sources
    assert cost.before_per_s == pytest.approx(0.3)
    assert cost.after_per_s == pytest.approx(0.3)


def test_all_sources_of_a_joint_rule_are_tried_together() -> None:
    sources = [source("a", host="a.example"), source("b", host="b.example"), source("c", host="c.example")]
    both = rule("both", when="COUNT(*) ACROSS SOURCES = 2", clauses='FROM SOURCES "a", "b"')
    found = running(*sources, both)
    other = [source("a", host="a.example", options="EXPECT 1 PER HOUR"), *sources[1:]]
    trial = small_trial(found, declaration(*other, both), T0)
    assert set(trial.running.sources) == set(trial.wanted.sources) == {"a", "b"}
    assert trial.wanted.rules["both"].source_ids == ("a", "b")
