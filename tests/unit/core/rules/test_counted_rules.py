"""AUTO rules that fire on every n-th item: their probes follow what was counted, within the budget of all rules."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from proxyd.api.wire import Explained
from proxyd.api.wire.explained import explanation
from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.chunks import run_all
from proxyd.core.planning.kernels.counted_events import CountedRule, ItemsLine
from proxyd.core.planning.kernels.losses import NO_LOSSES, Losses
from proxyd.core.planning.policies.auto import CountedDemand
from proxyd.core.planning.policies.rule_demand import FiringPattern
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.core.rules.answers.explanation import Explainer
from proxyd.core.rules.decider import Decider
from proxyd.lab.replay import policy_registry
from proxyd.lab.replay.policy_registry import DeciderPolicy
from proxyd.lab.replay.replay import ProbesMade, Terms, replay, split
from proxyd.lab.traces import MONDAY_S, model_trace
from tests.fleets import Drive, changed, decider, declaration, item, rule, source

T0 = 1_000_000_000.0
NOW = int(T0 // 10)
HOURLY = "EXPECT 24 PER DAY"
EVERY_5TH = "COUNT(*) % 5 = 0"


def counted_of(found: Decider) -> CountedDemand:
    (demand,) = found.planner.sources["a"].demands.rules
    assert isinstance(demand, CountedDemand)
    return demand


def counting(*rules: str, sources: tuple[str, ...] = ("a",)) -> Decider:
    declared = declaration(*(source(name, options=HOURLY) for name in sources), *rules)
    return decider(declared, now_s=T0, settings={"source_spacing_s": 10.0})


async def seen(found: Decider, items: int, at_s: float) -> None:
    """Let a probe find so many items."""
    await Drive(found).see(changed("a", [item(f"{at_s}/{n}", at_s - 60.0 * n) for n in range(items)], at_s))


@pytest.fixture
def known_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every rate count as known."""
    monkeypatch.setattr("proxyd.core.planning.queue.planned_source._KNOWN_ITEMS", 0.0)


async def test_a_source_of_unknown_rate_is_due_for_single_items_too() -> None:
    counted, every = counting(rule("r", when=EVERY_5TH)), counting(rule("r"))
    for found in (counted, every):
        await seen(found, 0, T0)
    first, second = (next(Explainer.of(found).preview_of("a", NOW + 1)).start_s for found in (counted, every))
    assert first == pytest.approx(second, abs=0.1 * (second - T0))


def told(found: Decider, now: int) -> Explained:
    explained = Explainer.of(found).explain("a", now)
    assert explained is not None
    return explanation(explained)


@pytest.mark.usefixtures("known_rates")
async def test_the_next_probe_comes_sooner_the_more_items_were_counted() -> None:
    found = counting(rule("r", when=EVERY_5TH))
    await seen(found, 0, T0)
    demand, waits_s = counted_of(found), []
    for count in range(6):
        demand.count = count
        found.planner.reschedule("a", NOW + 1)
        planned = next(Explainer.of(found).preview_of("a", NOW + 1))
        assert planned.probe.reason is Reason.COUNTED
        waits_s.append(planned.start_s - T0)
    assert waits_s[:5] == sorted(waits_s[:5], reverse=True)
    assert waits_s[4] < waits_s[0] / 2
    assert waits_s[5] == waits_s[0]


def test_another_week_moves_the_next_probe_at_once() -> None:
    """Otherwise only a restart would take the plan's new week into account."""
    demand = CountedDemand("r", FiringPattern(3), CountedRule(3, NO_LOSSES, missed_s=1e6))
    even, late = np.arange(8.0), np.concatenate([np.zeros(7), [7.0]])
    lines = [ItemsLine(sums, 0.0, 86400.0, 1e-4) for sums in (even, late, even)]
    first, other, again = (demand.next_s(0.0, line, price_s=600.0) for line in lines)
    assert first == again
    assert other > first + 86400.0


@pytest.mark.usefixtures("known_rates")
async def test_an_item_that_a_sibling_hints_at_brings_the_probe_forward() -> None:
    found = counting(rule("r", when=EVERY_5TH))
    await seen(found, 0, T0)
    before = next(Explainer.of(found).preview_of("a", NOW + 1))
    found.planner.hint("a", 1.0, since_s=T0 + 1.0, now_s=T0 + 10.0)
    after = next(Explainer.of(found).preview_of("a", NOW + 1))
    per_s = found.planner.sources["a"].rate_per_s
    assert after.probe.reason is Reason.SIBLING
    assert before.start_s - after.start_s == pytest.approx(1 / per_s, abs=20.0)


async def test_what_a_probe_finds_is_the_count() -> None:
    found = counting(rule("r", when=EVERY_5TH))
    await seen(found, 0, T0)
    await seen(found, 7, T0 + 600.0)
    demand = counted_of(found)
    assert (demand.count, demand.to_come, demand.number) == (7, 3, 5)


async def test_items_that_do_not_pass_where_are_not_counted() -> None:
    found = counting(rule("r", when=EVERY_5TH).replace("ON INSERT TO RSS", "ON INSERT TO RSS WHERE title LIKE '%x%'"))
    await seen(found, 0, T0)
    before = counted_of(found).passing
    await seen(found, 4, T0 + 600.0)
    demand = counted_of(found)
    assert demand.count == 0
    assert demand.passing == pytest.approx(before / 5, rel=0.01)
    assert found.planner.sources["a"].weight_at_price == pytest.approx(before / 5, rel=0.01)


async def test_another_rule_of_the_source_may_want_it_sooner() -> None:
    alone, both = counting(rule("r", when=EVERY_5TH)), counting(rule("r", when=EVERY_5TH), rule("s"))
    for found in (alone, both):
        await seen(found, 0, T0)
    first, second = (Explainer.of(found).preview_of("a", NOW + 1) for found in (alone, both))
    assert next(second).start_s < next(first).start_s
    assert both.planner.sources["a"].demands.losses.every == 1
    assert alone.planner.sources["a"].demands.losses.every == 5


@pytest.mark.parametrize(
    ("when", "clauses", "is_counted"),
    [
        (EVERY_5TH, "", True),
        ("COUNT(*) % 64 = 3", "SET LIFE WINDOW(1 HOUR)", True),
        ("COUNT(*) % 65 = 0", "", False),
        ("COUNT(*) % 1 = 0", "", False),
        ("COUNT(*) > 3", "", False),
        (EVERY_5TH, "SET POLICY UNIFORM(1 HOUR)", False),
        (EVERY_5TH, "SET POLICY GOLDEN", False),
    ],
)
def test_which_rules_are_planned_by_their_counts(when: str, clauses: str, is_counted: bool) -> None:
    found = counting(rule("r", when=when, clauses=clauses)).planner.sources["a"].demands
    assert any(demand.counts_items for demand in found.rules) is is_counted
    assert bool(found)


async def test_explain_names_the_item_that_the_rule_waits_for() -> None:
    found = counting(rule("r", when="COUNT(*) % 3 = 1"))
    await seen(found, 0, T0)
    lines = told(found, NOW + 1).summary
    (line,) = (line for line in lines if line.startswith("next probe: "))
    assert " chance of the 1st item by then, " in line
    assert not any(line.startswith("rule r waits for") for line in lines)
    await seen(found, 2, T0 + 600.0)
    shown = told(found, NOW + 61)
    assert shown.counted["r"].number == 3
    assert 0.0 < shown.counted["r"].chance < 1.0
    assert any("the 3rd item since its last notification" in line for line in shown.summary)


@pytest.mark.usefixtures("known_rates")
async def test_previews_count_the_items_that_are_expected() -> None:
    found = counting(rule("r", when=EVERY_5TH))
    await seen(found, 0, T0)
    probes = Explainer.of(found).preview_of("a", NOW + 1)
    gaps = np.diff([next(probes).start_s for _ in range(12)])
    assert 0 < gaps.min() < gaps.max()
    assert counted_of(found).count == 0


def test_without_a_price_a_probe_comes_at_once() -> None:
    rule_ = CountedRule(5, Losses(), missed_s=1e6)
    assert 0.0 < rule_.next_s(4, 0.0, ItemsLine.even(0.001), price_s=0.0) < 1.0


def terms_of(life_s: float, *, probes: int, sources: int, weeks: int) -> tuple[Terms, tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(4)
    trace = model_trace("poisson", sources=sources, weeks=6 + weeks, rng=rng, rate_per_week=20.0, exponent=0.5)
    start_s, grid = MONDAY_S + 6 * WEEK_S, ChrononGrid(600.0)
    before, after = split(trace, start_s)
    first = grid.chronon_at(start_s)
    epoch = Epoch(first, first + round(weeks * WEEK_S / grid.length_s))
    terms = Terms(grid, epoch, probes, before, MONDAY_S, 1800.0, life_s=life_s, in_time=True)
    return terms, after


def in_time(made: ProbesMade, after: tuple[np.ndarray, ...], terms: Terms, every: int) -> float:
    """Return the share of firings that a probe found within the life."""
    found = []
    for events, chronons in zip(after, made.of_each(terms.sources), strict=True):
        fired, probes_s = events[every - 1 :: every], chronons * terms.grid.length_s
        next_s = np.append(probes_s, np.inf)[np.searchsorted(probes_s, fired)]
        found += (next_s - fired <= (terms.life_s or 0.0) + terms.grid.length_s).tolist()
    return float(np.mean(found))


@pytest.mark.long
def test_probes_are_in_time_for_counted_items_far_more_often_than_even_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    text = policy_registry._RULE.replace('ON INSERT TO RSS"', 'ON INSERT TO RSS WHEN COUNT(*) % 10 = 0"')
    monkeypatch.setattr(policy_registry, "_RULE", text)
    monkeypatch.setattr(policy_registry, "DAY_S", 4 * 86400.0)
    terms, after = terms_of(12 * 3600.0, probes=90, sources=15, weeks=2)
    made = replay(after, DeciderPolicy(terms), terms)
    assert 0.9 * terms.probes < made.count <= terms.probes
    even = terms.probes / terms.sources * 12 * 3600.0 / (terms.stop_s - terms.start_s)
    assert in_time(made, after, terms, 10) > 2.5 * even


@pytest.mark.long
def test_a_plan_makes_as_many_probes_as_the_budget_leaves() -> None:
    text = policy_registry._RULE.replace('ON INSERT TO RSS"', 'ON INSERT TO RSS WHEN COUNT(*) % 5 = 0"')
    terms, after = terms_of(12 * 3600.0, probes=1000, sources=60, weeks=2)
    with patch.object(policy_registry, "_RULE", text):
        policy = DeciderPolicy(terms)
    week = policy._decider.fleet(terms.start_s).plan(probes_per_s=480 / (terms.stop_s - terms.start_s))
    assert week is not None
    run_all(policy._decider.switch_plan(week, terms.start_s))
    with patch.object(policy, "_day", type("Never", (), {"ring_if_due": lambda self, now: False})()):
        made = replay(after, policy, terms)
    assert made.count == pytest.approx(480, rel=0.12)
