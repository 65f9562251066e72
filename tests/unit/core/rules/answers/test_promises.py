"""What is promised and expected: before a plan, in a plan, and where something prevents it."""

from __future__ import annotations

from itertools import islice, takewhile

import pytest

from proxyd.core.model.chronon import Budget
from proxyd.core.planning.chunks import run_all
from proxyd.core.rates.model_fit import NO_GAPS
from proxyd.core.rules.answers.advice import Advice, advise
from proxyd.core.rules.answers.explanation import Explainer
from proxyd.core.rules.decider import Decider
from tests.fleets import ONE_A_SECOND, Drive, changed, decider, declaration, item, rule, source

T0 = 1_000_000_000.0
HOUR_S = 3600.0


def promising(
    clauses: str,
    *,
    when: str = "",
    budget: Budget = ONE_A_SECOND,
    spacing_s: float = 60.0,
    price_item_s: float | None = None,
    spend: bool = False,
) -> Decider:
    """Return a decider of one source with an item about every hour and a rule, without a price."""
    declared = declaration(source("s", options="EXPECT 1 PER HOUR"), rule("r", when=when, clauses=clauses))
    settings = {"source_spacing_s": spacing_s}
    return decider(declared, now_s=T0, budget=budget, settings=settings, price_item_s=price_item_s, spend=spend)


async def planned(found: Decider) -> Decider:
    """Let the source be seen, and plan its week."""
    await Drive(found).see(changed("s", [item(str(n), T0 - HOUR_S * n) for n in range(1, 50)], T0))
    found.planner.sources["s"].gaps = NO_GAPS  # so regular that it would be planned by their age
    week = found.fleet(T0).plan()
    assert week is not None
    run_all(found.switch_plan(week, T0))
    return found


def why(found: Decider) -> str:
    told = Explainer.of(found).explain("s", found.settings.grid.chronon_at(T0))
    assert told is not None
    return told.policies["r"].because


def advice(found: Decider) -> Advice:
    now = found.settings.grid.chronon_at(T0)
    return advise(found.settings.planner, found.planner.week, run_all(Explainer.of(found).ahead(now)).forecast())


async def gap_s(found: Decider) -> float:
    """Return the time to the next probe after the source was seen, without a plan."""
    await Drive(found).see(changed("s", [item("1", T0 - 1.0)], T0))
    told = Explainer.of(found).explain("s", found.settings.grid.chronon_at(T0))
    assert told is not None
    assert told.next_probe is not None
    return told.next_probe.start_s - T0


@pytest.mark.parametrize(
    ("clauses", "promise"),
    [
        ("", "90 % within 3 hours"),
        ("WITHIN 10 MINUTES", "90 % within 10 minutes"),
        ("WITHIN 10 MINUTES FOR 95 %", "95 % within 10 minutes"),
        ("SET LIFE OVERWRITE SET TARGET 80 %", "80 % before the next item"),
    ],
)
def test_a_rule_says_what_it_promises(clauses: str, promise: str) -> None:
    assert why(promising(clauses)).startswith(f"it is to see {promise}, with no more probes than that takes")


def test_without_targets_the_price_or_the_budget_decides() -> None:
    assert why(promising("", price_item_s=360.0)) == "a probe is made when it is worth its price"
    assert why(promising("", spend=True)) == "probes are made where the budget helps most"


@pytest.mark.parametrize(
    ("period", "told"), [("2 SECONDS", "2 seconds"), ("1 MINUTE", "minute"), ("90 MINUTES", "90 minutes")]
)
def test_uniform_says_how_often(period: str, told: str) -> None:
    assert why(promising(f"SET POLICY UNIFORM({period})")) == f"a probe every {told}, as the rule says"


def test_sup_says_what_auto_would_see_with_as_many_probes() -> None:
    told = why(promising("SET POLICY SUP WITHIN 30 MINUTES"))
    assert told == "the rule sets it; it sees about 14% in time, and AUTO at least 50% with as many probes"


async def test_before_a_plan_even_gaps_meet_the_target() -> None:
    """Nine of ten items within 36 minutes take a probe every 40."""
    assert await gap_s(promising("WITHIN 36 MINUTES FOR 90 %")) == pytest.approx(2400.0, abs=10.0)
    assert await gap_s(promising("WITHIN 36 MINUTES FOR 45 %")) == pytest.approx(4800.0, abs=10.0)


async def test_a_plan_meets_the_target_and_says_so() -> None:
    found = await planned(promising("WITHIN 1 HOUR FOR 95 %"))
    assert why(found).endswith("; 95 % expected")
    outlook = advice(found).targets["r"]
    assert outlook.limit is None
    assert outlook.made == pytest.approx(0.95 / HOUR_S, rel=0.3)


async def test_a_small_budget_a_slow_host_and_politeness_are_told_apart() -> None:
    poor = await planned(promising("WITHIN 10 MINUTES", budget=Budget(1 / 3600)))
    assert why(poor).endswith(", because of budget")
    assert advice(poor).targets["r"].needed > 3 * advice(poor).targets["r"].made
    polite = await planned(promising("WITHIN 10 MINUTES", spacing_s=HOUR_S))
    assert why(polite).endswith(", because of source politeness")
    slow = promising("WITHIN 10 MINUTES")
    slow.planner.limits.hosts.space("example.org", HOUR_S)
    assert why(await planned(slow)).endswith(", because of host politeness")


async def test_advice_says_what_each_share_takes() -> None:
    found = advice(await planned(promising("WITHIN 1 HOUR")))
    shares = found.shares
    assert [each.share for each in shares] == [0.8, 0.9, 0.95, 0.99]
    made = [each.probes_per_s for each in shares]
    assert made == sorted(made)
    assert all(each.expected >= each.share - 0.01 for each in shares)
    assert found.two_points_per_s is not None
    assert made[2] < made[2] + found.two_points_per_s < made[3]


async def test_where_less_than_two_points_are_missing_no_probes_bring_two_more() -> None:
    assert advice(await planned(promising("WITHIN 1 HOUR FOR 99 %"))).two_points_per_s is None


async def test_a_share_that_the_spacing_of_a_source_prevents_is_not_advised() -> None:
    polite = await planned(promising("WITHIN 10 MINUTES", spacing_s=660.0))
    assert [each.share for each in advice(polite).shares] == [0.8, 0.9]


async def test_a_rule_that_counts_items_needs_fewer_probes_for_its_share() -> None:
    every, third = [
        await planned(promising("WITHIN 20 MINUTES FOR 80 %", when=when)) for when in ("", "COUNT(*) % 3 = 0")
    ]
    assert "every 3 items count as one; 8" in why(third)
    assert advice(third).targets["r"].limit is None
    assert advice(third).targets["r"].made < 0.9 * advice(every).targets["r"].made


async def probes_in_three_days(clauses: str) -> int:
    found = await planned(promising(clauses))
    coming = Explainer.of(found).preview_of("s", found.settings.grid.chronon_at(T0))
    return sum(1 for _ in takewhile(lambda probe: probe.start_s < T0 + 72 * HOUR_S, coming))


@pytest.mark.parametrize("policy", ["GOLDEN", "MEMORYLESS", "ADAPTIVE"])
@pytest.mark.parametrize("life", ["", "WITHIN 1 HOUR"])
async def test_policies_that_only_choose_the_times_make_as_many_probes_as_auto(policy: str, life: str) -> None:
    assert await probes_in_three_days(f"SET POLICY {policy} {life}") == pytest.approx(
        await probes_in_three_days(life), rel=0.3
    )


@pytest.mark.parametrize("lives", [(5, 10, 20, 40, 80), (10, 13, 16, 19, 22, 70)])
async def test_each_of_many_lives_on_a_source_is_kept(lives: tuple[int, ...]) -> None:
    """At even gaps the share in time is about the life over the gap; only four lives are told apart."""
    rules = [rule(f"r{life}", clauses=f"WITHIN {life} MINUTES FOR 90 %") for life in lives]
    declared = declaration(source("s", options="EXPECT 1 PER HOUR"), *rules)
    found = await planned(decider(declared, now_s=T0, settings={"source_spacing_s": 60.0}, price_item_s=None))
    for name, outlook in advice(found).targets.items():
        kept = min(1.0, float(name[1:]) * 60.0 * outlook.made)
        assert outlook.expected <= kept + 0.05
        assert kept >= 0.85


async def test_a_short_life_of_a_rule_that_counts_is_promised_beside_a_long_one() -> None:
    counted = rule("c", when="COUNT(*) % 3 = 0", clauses="WITHIN 2 MINUTES FOR 90 %")
    declared = declaration(source("s", options="EXPECT 1 PER HOUR"), counted, rule("p", clauses="WITHIN 20 MINUTES"))
    found = await planned(decider(declared, now_s=T0, settings={"source_spacing_s": 10.0}, price_item_s=None))
    outlook = advice(found).targets["c"]
    assert outlook.expected <= 120.0 * outlook.made + 0.05


def test_without_a_budget_that_is_what_holds_a_source_back() -> None:
    found = promising("", budget=Budget(0.0))
    told = Explainer.of(found).explain("s", found.settings.grid.chronon_at(T0))
    assert told is not None
    assert (told.next_probe, told.blocked_by) == (None, "the budget allows no probe")


async def test_a_small_miss_is_not_rounded_to_everything() -> None:
    found = await planned(promising("WITHIN 1 HOUR FOR 99.6 %"))
    assert why(found).endswith("; 99.6 % expected")


@pytest.mark.parametrize("clauses", ["WITHIN 5 MINUTES FOR 90 %", "WITHIN 1 HOUR FOR 70 %", ""])
async def test_each_rule_on_a_source_of_its_own_gets_what_it_is_told(clauses: str) -> None:
    """Between two rows of a timetable, as at a life, no source is rounded to the one with far fewer probes."""
    names = [f"s{n}" for n in range(10)]
    sources = [source(name, host=f"{name}.example", options="EXPECT 1 PER HOUR") for name in names]
    rules = [rule(f"r {name}", clauses=f'FROM SOURCES "{name}" {clauses}') for name in names]
    declared = declaration(*sources, *rules)
    found = decider(declared, now_s=T0, settings={"source_spacing_s": 60.0}, price_item_s=None)
    for n, name in enumerate(names):
        items = [item(f"{n} {k}", T0 - HOUR_S * k - 37.0 * n) for k in range(1, 50)]
        await Drive(found).see(changed(name, items, T0))
        found.planner.sources[name].gaps = NO_GAPS
    week = found.fleet(T0).plan()
    assert week is not None
    run_all(found.switch_plan(week, T0))
    now = found.settings.grid.chronon_at(T0) + 1
    for name in names:
        times = [T0, *(probe.start_s for probe in islice(Explainer.of(found).preview_of(name, now), 40))]
        assert (times[-1] - times[0]) / 40 == pytest.approx(1.0 / week.outlooks[f"r {name}"].made, rel=0.1)


@pytest.mark.parametrize(("life", "spacing_s"), [("5 SECONDS", 10.0), ("1 MINUTE", 300.0), ("1 MINUTE", 1800.0)])
async def test_a_source_that_may_not_be_probed_as_often_as_its_rule_asks_is_probed_as_often_as_it_may(
    life: str, spacing_s: float
) -> None:
    found = await planned(promising(f"WITHIN {life} FOR 95 %", spacing_s=spacing_s))
    coming = Explainer.of(found).preview_of("s", found.settings.grid.chronon_at(T0) + 1)
    times = [probe.start_s for probe in islice(coming, 20)]
    assert (times[-1] - times[0]) / 19 == pytest.approx(spacing_s, rel=0.1)


async def test_a_probe_is_called_by_the_rule_that_wants_it_soonest() -> None:
    rules = [rule("a slow one", clauses="WITHIN 3 HOURS"), rule("b", clauses="WITHIN 10 MINUTES")]
    declared = declaration(source("s", options="EXPECT 1 PER HOUR"), *rules)
    found = await planned(decider(declared, now_s=T0, settings={"source_spacing_s": 60.0}, price_item_s=None))
    told = Explainer.of(found).explain("s", found.settings.grid.chronon_at(T0))
    assert told is not None
    assert told.next_probe is not None
    assert told.next_probe.probe.rule == "b"
    assert "within 10 minutes" in told.because
