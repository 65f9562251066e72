"""What the decider keeps and forgets when declarations change, and how it explains itself."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.model.profile import Declaration
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.answers.explanation import Explainer
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.core.rules.programs.meter import Meter
from tests.fleets import Drive, Meanwhile, changed, decider, declaration, item, rule, source, unchanged

T0 = 1_000_000_000.0
NOW = int(T0 // 10)


def reasons(found: Decider, now: int) -> list[tuple[str, Reason]]:
    return [(p.probe.source_id, p.probe.reason) for p in found.choose(now).probes]


def test_a_source_without_a_rule_is_not_probed() -> None:
    found = decider(declaration(source("a"), source("b"), rule("r", clauses='FROM SOURCES "a"')), now_s=T0)
    assert reasons(found, NOW) == [("a", Reason.FIRST_CONTACT)]
    explained = Explainer.of(found).explain("b", NOW)
    assert explained is not None
    assert explained.blocked_by == "no rule uses it"


def test_nothing_is_probed_before_start_and_after_end() -> None:
    timed = rule("r", end='NOW + "60 SECONDS"').replace("START NOW", 'START NOW + "20 SECONDS"')
    found = decider(declaration(source("a"), timed), now_s=T0, settings={"source_spacing_s": 1.0}, spend=True)
    probed = []
    for chronon in range(NOW, NOW + 10):
        for planned in found.choose(chronon).probes:
            probed.append(chronon - NOW)
            outcome = unchanged("a", planned.start_s) if len(probed) > 1 else changed("a", [], planned.start_s)
            found.outcomes.finish(outcome, found.observe(outcome))
    assert probed == [2, 3, 4, 5]


async def test_a_capture_of_a_count_across_sources_plans_its_own_source_again(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"s{number}" for number in range(30)]
    across = rule("r", when="COUNT(*) ACROSS SOURCES % 2 = 0")
    drive = Drive(decider(declaration(*map(source, names), across), now_s=T0))
    for name in names:
        await drive.see(changed(name, [], T0))
    await drive.see(changed("s0", [item("x", T0 + 105), item("y", T0 + 106)], T0 + 110))
    assert len(drive.decider.captures.wanting("s1")) == 1
    planned: list[str] = []
    reschedule = Planner.reschedule

    def counted(self: Planner, source_id: str, now: int) -> None:
        planned.append(source_id)
        reschedule(self, source_id, now)

    monkeypatch.setattr(Planner, "reschedule", counted)
    await drive.see(changed("s1", [], T0 + 120))
    assert set(planned) == {"s1"}
    assert not drive.decider.captures.wanting("s1")


async def test_an_edited_rule_keeps_its_count_while_its_now_stays() -> None:
    drive = Drive(decider(declaration(source("a"), rule("r", when="COUNT(*) % 3 = 0")), now_s=T0))
    await drive.see(changed("a", [], T0))
    await drive.see(changed("a", [item("x", T0 + 5)], T0 + 10))
    edited = declaration(source("a"), rule("r", when="COUNT(*) % 3 = 0", query="SELECT link FROM RSS"))
    drive.decider.declare(edited, {"r": T0}, T0 + 20)
    assert drive.decider.known.streams["r", "a"].count == 1
    drive.decider.declare(edited, {"r": T0 + 30}, T0 + 30)
    assert drive.decider.known.streams["r", "a"].count == 0


async def test_a_new_rule_with_an_earlier_start_replays_what_is_stored() -> None:
    drive = Drive(decider(declaration(source("a"), rule("r")), now_s=T0))
    seeded = await drive.see(changed("a", [item("old", T0 - 100), item("older", T0 - 9000)], T0))
    early = rule("early").replace("START NOW", 'START NOW - "1 HOUR"')
    backlog = drive.decider.declare(declaration(source("a"), rule("r"), early), {"r": T0, "early": T0 + 10}, T0 + 10)
    assert [(b.program.rule.name, b.source.source_id, b.before_seq) for b in backlog] == [("early", "a", 3)]
    step = drive.decider.recalls.replay(backlog[0], seeded.found.events, T0 + 10).run(Meter())
    drive.decider.known.keep_streams(step.streams)
    assert [n.rule for n in step.notifications] == ["early"]
    assert drive.decider.known.streams["early", "a"].count == 1


async def test_another_address_is_another_page_whose_events_are_numbered_on() -> None:
    drive = Drive(decider(declaration(source("a"), rule("r")), now_s=T0))
    await drive.see(changed("a", [item("x", T0 - 5)], T0))
    moved = declaration(source("a", host="elsewhere.example"), rule("r"))
    drive.decider.declare(moved, {"r": T0}, T0 + 10)
    request = drive.decider.request("a", T0)
    assert request is not None
    assert request.body_hash is None
    again = await drive.see(changed("a", [item("y", T0 - 5)], T0 + 20))
    assert [(event.seq, event.seed) for event in again.found.events] == [(2, True)]


def test_a_throttled_host_is_left_alone_as_a_whole() -> None:
    found = decider(
        declaration(source("a", host="h.example"), source("b", host="h.example"), rule("r")),
        now_s=T0,
        budget=Budget(0.1),
    )
    assert reasons(found, NOW) == [("a", Reason.FIRST_CONTACT)]
    throttled = ProbeOutcome("a", OutcomeKind.THROTTLED, T0, T0, 429, retry_after_s=100.0)
    found.outcomes.finish(throttled, found.observe(throttled))
    waiting = Explainer.of(found).explain("b", NOW + 1)
    assert waiting is not None
    assert (waiting.blocked_by, waiting.earliest_s) == ("throttled host", T0 + 100.0)
    assert [chronon - NOW for chronon in range(NOW + 1, NOW + 12) if reasons(found, chronon)] == [10]


def test_a_source_that_goes_on_throttling_silences_its_neighbours_for_a_minute_at_a_time() -> None:
    found = decider(
        declaration(source("bad", host="h.example"), source("good", host="h.example"), rule("r")),
        now_s=T0,
        settings={"source_spacing_s": 10.0},
        price_item_s=1e-6,
    )
    good = []
    for chronon in range(NOW, NOW + 720):
        for planned in found.choose(chronon).probes:
            name, at_s = planned.probe.source_id, planned.start_s
            throttled = ProbeOutcome(name, OutcomeKind.THROTTLED, at_s, at_s, 429)
            outcome = throttled if name == "bad" else changed(name, [], at_s)
            good += [chronon] if name == "good" else []
            found.outcomes.finish(outcome, found.observe(outcome))
    assert len(good) > 500
    bad = Explainer.of(found).explain("bad", NOW + 720)
    assert bad is not None
    assert bad.blocked_by == "back-off"
    assert bad.next_probe is None or bad.next_probe.probe.reason is Reason.RETRY


def test_a_limit_that_ends_before_the_next_probe_does_not_delay_it() -> None:
    found = decider(declaration(source("a"), rule("r", clauses="SET POLICY UNIFORM(1 HOUR)")), now_s=T0)
    assert reasons(found, NOW) == [("a", Reason.FIRST_CONTACT)]
    read = changed("a", [], T0)
    found.outcomes.finish(read, found.observe(read))
    waiting = Explainer.of(found).explain("a", NOW + 1)
    assert waiting is not None
    assert waiting.next_probe is not None
    assert waiting.earliest_s is not None
    assert waiting.next_probe.start_s > waiting.earliest_s + 10.0
    assert waiting.blocked_by is None


async def test_planned_intervals_follow_a_rate_that_changed() -> None:
    declared = declaration(
        source("a", options="EXPECT 1 PER HOUR"), rule("r", clauses="SET POLICY SUP SET LIFE WINDOW(1 MINUTE)")
    )
    drive = Drive(decider(declared, now_s=T0, settings={"source_spacing_s": 10.0}))
    drive.decider.choose(NOW)
    await drive.see(changed("a", [], T0))
    before = Explainer.of(drive.decider).plan(NOW + 1, limit=2)
    busy = [item(str(n), T0 + 60.0 * n) for n in range(60, 0, -1)]
    chronon = NOW + 361
    await drive.see(changed("a", busy, drive.decider.settings.grid.start_s(chronon)))
    after = Explainer.of(drive.decider).plan(chronon + 1, limit=2)
    assert after[1].start_s - after[0].start_s < (before[1].start_s - before[0].start_s) / 10


def test_a_uniform_rule_is_probed_at_its_period_and_keeps_its_phase_over_a_reload() -> None:
    declared = declaration(source("a"), rule("r", clauses="SET POLICY UNIFORM(1 MINUTE)"))
    found = decider(declared, now_s=T0, settings={"source_spacing_s": 10.0})
    probed = []
    for chronon in range(NOW, NOW + 20):
        if chronon == NOW + 9:
            found.declare(declared, {"r": T0}, found.settings.grid.start_s(chronon))
        for planned in found.choose(chronon).probes:
            probed.append(chronon - NOW)
            outcome = changed("a", [], planned.start_s)
            found.outcomes.finish(outcome, found.observe(outcome))
    assert probed == [0, 3, 9, 15]  # at first contact, then in the phase of the source


async def test_feedback_adds_a_probe_where_too_few_items_were_found() -> None:
    clauses = "SET POLICY {} SET LIFE WINDOW(1 MINUTE)"
    after = {}
    for policy in ("SUP", "FBSUP"):
        declared = declaration(
            source("a", options="EXPECT 60 PER HOUR"),
            rule("r", when="COUNT(*) % 5 = 0", clauses=clauses.format(policy)),
        )
        drive = Drive(decider(declared, now_s=T0, settings={"source_spacing_s": 10.0}))
        drive.decider.choose(NOW)
        await drive.see(changed("a", [], T0))
        planned = Explainer.of(drive.decider).plan(NOW + 1, limit=1)[0]
        chronon = planned.probe.chronon
        for before in range(NOW + 1, chronon):
            assert not drive.decider.choose(before).probes
        assert [p.probe.source_id for p in drive.decider.choose(chronon).probes] == ["a"]
        four = [item(str(n), planned.start_s - 60 * n) for n in range(1, 5)]
        await drive.see(changed("a", four, planned.start_s))
        after[policy] = Explainer.of(drive.decider).plan(chronon + 1, limit=1)[0]
    assert after["SUP"].probe.reason is Reason.INTERVAL
    assert after["FBSUP"].probe.reason is Reason.FEEDBACK
    assert after["FBSUP"].start_s < after["SUP"].start_s


async def test_an_answer_of_the_old_address_says_nothing_of_the_new_one() -> None:
    drive = Drive(decider(declaration(source("a"), rule("r")), now_s=T0))
    asked = drive.decider.request("a", T0)
    assert asked is not None
    drive.decider.declare(declaration(source("a", host="new.example"), rule("r")), {"r": T0}, T0 + 10)
    assert drive.decider.observe(changed("a", [item("x", T0)], T0 + 20), reading=asked.reading) is None


def test_the_new_address_is_contacted_though_the_old_one_just_answered() -> None:
    found = decider(declaration(source("a"), rule("r")), now_s=T0, settings={"source_spacing_s": 10.0})
    assert found.choose(NOW).probes
    asked = found.request("a", T0)
    assert asked is not None
    found.declare(declaration(source("a", host="new.example"), rule("r")), {"r": T0}, T0 + 1)
    late = changed("a", [], T0 + 5)
    found.outcomes.finish(late, found.observe(late, reading=asked.reading))
    assert [p.probe.source_id for c in range(NOW + 1, NOW + 5) for p in found.choose(c).probes] == ["a"]


def test_a_source_whose_probe_is_in_flight_is_in_the_plan() -> None:
    found = decider(declaration(source("a"), rule("r")), now_s=T0)
    assert found.choose(NOW).probes
    assert [planned.probe.source_id for planned in Explainer.of(found).plan(NOW + 1, limit=1)] == ["a"]


def test_a_source_that_is_taken_out_and_put_back_is_not_probed_twice_at_once() -> None:
    with_source = declaration(source("a"), rule("r"))
    found = decider(with_source, now_s=T0, settings={"source_spacing_s": 1.0})
    assert len(found.choose(NOW).probes) == 1
    found.declare(declaration(source("b"), rule("r")), {"r": T0}, T0 + 1)
    found.declare(with_source, {"r": T0}, T0 + 2)
    assert not [p for c in range(NOW + 1, NOW + 9) for p in found.choose(c).probes if p.probe.source_id == "a"]


def test_a_probe_that_failed_or_was_dropped_does_not_use_up_its_period() -> None:
    found = decider(declaration(source("a"), rule("r", clauses="SET POLICY UNIFORM(1 DAY)")), now_s=T0)
    planned = found.choose(NOW).probes[0]
    found.planner.drop(planned, T0)
    planned = found.choose(NOW + 1).probes[0]
    failed = ProbeOutcome("a", OutcomeKind.TIMEOUT, planned.start_s, planned.start_s)
    found.outcomes.finish(failed, found.observe(failed))
    again = [chronon - NOW for chronon in range(NOW + 2, NOW + 100) if found.choose(chronon).probes]
    assert again
    assert again[0] < 40


@pytest.mark.parametrize("clauses", ["SET POLICY FBSUP SET LIFE WINDOW(3)", "SET POLICY SUP", "SET POLICY FBSUP"])
def test_an_absurd_rate_or_a_leap_of_the_clock_costs_no_time(clauses: str) -> None:
    declared = declaration(source("a", options="EXPECT 100000 PER SECOND"), rule("r", clauses=clauses))
    found = decider(declared, now_s=T0)
    first = changed("a", [item(str(n), T0 - 0.001 * n) for n in range(1, 2000)], T0)
    found.choose(NOW)
    found.outcomes.finish(first, found.observe(first))
    leap = NOW + 10**7
    chosen = found.choose(leap).probes
    assert [p.probe.source_id for p in chosen] == ["a"]
    explained = Explainer.of(found).explain("a", leap)
    assert explained is not None
    assert explained.unmet_intervals > 10**6


def test_hours_without_a_budget_probe_nothing() -> None:
    declared = declaration(source("a", options="EXPECT 1 PER HOUR"), rule("r", clauses="SET POLICY SUP"))
    found = decider(declared, now_s=T0, budget=Budget(0.0))
    assert not [planned for chronon in range(NOW, NOW + 500) for planned in found.choose(chronon).probes]


def test_equal_deadlines_starve_nobody() -> None:
    sources = [source(f"s{n}", host=f"h{n}.example") for n in range(6)]
    found = decider(
        declaration(*sources, rule("r", clauses="SET POLICY UNIFORM(1 MINUTE)")),
        now_s=T0,
        budget=Budget(0.05),
        settings={"source_spacing_s": 10.0},
    )
    probes: dict[str, int] = {}
    for chronon in range(NOW, NOW + 360):
        for planned in found.choose(chronon).probes:
            probes[planned.probe.source_id] = probes.get(planned.probe.source_id, 0) + 1
            outcome = changed(planned.probe.source_id, [], planned.start_s)
            found.outcomes.finish(outcome, found.observe(outcome))
    assert len(probes) == 6
    assert max(probes.values()) <= min(probes.values()) + 2


async def test_an_explanation_names_the_next_probe_and_its_reason() -> None:
    drive = Drive(decider(declaration(source("a"), rule("r")), now_s=T0))
    drive.decider.choose(NOW)
    await drive.see(changed("a", [item("x", T0 - 3600), item("y", T0 - 7200)], T0))
    explained = Explainer.of(drive.decider).explain("a", NOW + 1)
    assert explained is not None
    assert explained.next_probe is not None
    assert explained.next_probe.probe.reason is Reason.DETECTION
    assert explained.next_probe == Explainer.of(drive.decider).plan(NOW + 1, limit=1)[0]
    assert explained.rate_per_day > 1.0
    assert Explainer.of(drive.decider).explain("nowhere", NOW) is None


def test_what_the_store_remembers_is_taken_up() -> None:
    first = Drive(decider(declaration(source("a"), rule("r")), now_s=T0)).decider
    outcome = changed("a", [item("x", T0 - 50), item("y", T0 - 100)], T0)
    first.observe(outcome)
    second = Decider(DeciderSettings(PlannerSettings(ChrononGrid(10.0), Budget(1.0))), np.random.default_rng(1))
    second.restore(first.known.states, first.known.streams)
    second.declare(first.known.compiled.declaration, {"r": T0}, T0 + 10)
    known, learned = Explainer.of(second).explain("a", NOW), Explainer.of(first).explain("a", NOW)
    assert known is not None
    assert learned is not None
    assert known.rate_per_day == pytest.approx(learned.rate_per_day, rel=0.02)  # what predicts best is learned again
    assert not second.choose(NOW + 1).probes


def test_a_host_that_throttles_all_its_sources_is_asked_less_and_less() -> None:
    names = [f"s{number}" for number in range(20)]
    found = decider(
        declaration(*(source(name, host="h.example") for name in names), rule("r")),
        now_s=T0,
        settings={"source_spacing_s": 10.0},
        price_item_s=1e-6,
    )
    asked = []
    for chronon in range(NOW, NOW + 720):
        for planned in found.choose(chronon).probes:
            asked.append(planned.start_s - T0)
            throttled = ProbeOutcome(
                planned.probe.source_id, OutcomeKind.THROTTLED, planned.start_s, planned.start_s, 429
            )
            found.outcomes.finish(throttled, found.observe(throttled))
    rounds = [later - earlier for earlier, later in pairwise(asked) if later - earlier > 30.0]
    assert 5 <= len(rounds) <= 7
    assert all(later > 1.5 * earlier for earlier, later in pairwise(rounds))


def spell(outcome: ProbeOutcome, *, fresh_s: float | None = None, period_s: float | None = None) -> ProbeOutcome:
    return replace(outcome, fresh_for_s=fresh_s, period_s=period_s)


@pytest.mark.parametrize(
    ("options", "first", "wait_s"),
    [
        ("", {"fresh_s": 1200.0}, 1200.0),
        ("", {"period_s": 1800.0}, 1800.0),
        ("FRESHNESS OBEY", {"fresh_s": 9e9}, 21600.0),
        ("FRESHNESS IGNORE", {"fresh_s": 9e9}, None),
    ],
    ids=["max-age", "ttl", "capped", "ignored"],
)
def test_what_an_origin_says_of_its_freshness_puts_off_the_next_probe(
    options: str, first: dict[str, float], wait_s: float | None
) -> None:
    found = decider(declaration(source("a", options=options), rule("r")), now_s=T0, settings={"source_spacing_s": 10.0})
    assert reasons(found, NOW) == [("a", Reason.FIRST_CONTACT)]
    read = spell(changed("a", [item("x", T0 - 50.0), item("y", T0 - 20.0)], T0), **first)
    found.outcomes.finish(read, found.observe(read))
    waiting = Explainer.of(found).explain("a", NOW + 2)
    assert waiting is not None
    if wait_s is None:
        assert waiting.blocked_by is None
    else:
        assert (waiting.blocked_by, waiting.earliest_s) == ("freshness", T0 + wait_s)


def test_a_feeds_own_rhythm_holds_on_a_304_too() -> None:
    found = decider(declaration(source("a"), rule("r")), now_s=T0, settings={"source_spacing_s": 10.0})
    found.choose(NOW)
    read = spell(changed("a", [item("x", T0 - 50.0)], T0), period_s=1800.0)
    found.outcomes.finish(read, found.observe(read))
    again = unchanged("a", T0 + 1900.0)
    found.outcomes.finish(again, found.observe(again))
    waiting = Explainer.of(found).explain("a", NOW + 191)
    assert waiting is not None
    assert waiting.earliest_s == T0 + 3700.0


async def test_a_source_that_is_added_later_starts_no_rule_afresh_and_brings_no_old_items() -> None:
    drive = Drive(decider(declaration(source("a"), rule("r"), rule("past", start="'2001-01-01T00:00:00Z'")), now_s=T0))
    await drive.see(changed("a", [item("old", T0 - 50.0)], T0))
    both = declaration(source("a"), source("b"), rule("r"), rule("past", start="'2001-01-01T00:00:00Z'"))
    accepted = {"r": T0, "past": T0}
    assert drive.decider.declare(both, accepted, T0 + 100.0, {"a": T0, "b": T0 + 100.0}) == []
    late = await drive.see(changed("a", [item("late", T0 + 60.0), item("old", T0 - 50.0)], T0 + 130.0))
    assert sorted(each.rule for each in late.rules.notifications) == ["past", "r"]
    shown = [item("newest", T0 + 120.0), item("between", T0 + 60.0), item("ancient", T0 - 900.0)]
    first = await drive.see(changed("b", shown, T0 + 140.0))
    assert [n.rule for n in first.rules.notifications].count("r") == 1
    assert [n.rule for n in first.rules.notifications].count("past") == 3


async def test_a_source_that_goes_and_comes_back_fires_nothing_again() -> None:
    past = rule("past", start="'2001-01-01T00:00:00Z'")
    drive = Drive(decider(declaration(source("a"), source("b"), past), now_s=T0))
    await drive.see(changed("b", [item("one", T0 - 50.0)], T0))
    drive.decider.declare(declaration(source("a"), past), {"past": T0}, T0 + 10.0, {"a": T0})
    back = declaration(source("a"), source("b"), past)
    assert drive.decider.declare(back, {"past": T0}, T0 + 20.0, {"a": T0, "b": T0 + 20.0}) == []
    again = await drive.see(changed("b", [item("two", T0 + 15.0), item("one", T0 - 50.0)], T0 + 30.0))
    assert [json.loads(n.body)["data"]["items"][0]["channel.item.title"] for n in again.rules.notifications] == ["two"]


async def test_a_probe_under_way_is_evaluated_again_for_a_rule_that_has_come() -> None:
    declared = declaration(source("s"), rule("a"))
    drive = Drive(decider(declared, now_s=T0))
    await drive.see(changed("s", [], T0))
    outcome = changed("s", [item("x", T0 + 15.0)], T0 + 20.0)
    more = replace(declaration(source("s"), rule("a"), rule("b")), sources=declared.sources)
    declaring = Meanwhile(lambda: drive.decider.declare(more, {"a": T0, "b": T0 + 10.0}, T0 + 10.0))
    observation = await drive.decider.outcomes.observe(outcome, evaluation=declaring)
    assert not declaring.is_waiting
    assert observation is not None
    assert [each.rule for each in observation.rules.notifications] == ["a", "b"]


async def test_a_probe_of_a_source_that_waits_to_be_placed_is_taken_in() -> None:
    drive = Drive(decider(declaration(source("s"), rule("a"), rule("b", clauses="SET POLICY SUP")), now_s=T0))
    await drive.see(changed("s", [], T0))
    drive.decider.declare(declaration(source("s"), rule("a")), {"a": T0}, T0 + 10.0, in_parts=True)
    assert drive.decider.placement.is_waiting
    seen = await drive.see(changed("s", [item("x", T0 + 15.0)], T0 + 20.0))
    assert [each.rule for each in seen.rules.notifications] == ["a"]
    assert not drive.decider.placement.is_waiting
    assert [each.rule for each in drive.decider.planner.sources["s"].demands.rules] == ["a"]


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(declaration(source("s")), id="no rule asks for it"),
        pytest.param(declaration(source("t"), rule("a")), id="the source is removed"),
        pytest.param(declaration(source("s"), rule("b", clauses="SET POLICY SUP")), id="another rule asks for it"),
    ],
)
def test_a_declaration_may_come_while_an_observation_is_recorded(after: Declaration) -> None:
    found = decider(declaration(source("s"), rule("a")), now_s=T0)
    outcome = changed("s", [item("x", T0)], T0 + 1.0)
    observation = found.observe(outcome)
    found.declare(after, dict.fromkeys(after.rules, T0 + 2.0), T0 + 2.0, in_parts=True)
    found.outcomes.finish(outcome, observation)
    planned = found.planner.sources.get("s")
    asking = [] if planned is None else [demand.rule for demand in planned.demands.rules]
    assert asking == [name for name, each in after.rules.items() if "s" in each.source_ids]
    assert planned is None or asking


def test_sources_are_placed_in_parts_where_a_period_begins() -> None:
    sources = [source(f"s{number}") for number in range(120)]
    found = decider(declaration(*sources, rule("r", start='NOW + "20 SECONDS"')), now_s=T0)
    assert found.choose(NOW, in_parts=True).probes == []
    assert not found.placement.is_waiting
    assert len(found.choose(NOW + 2, in_parts=True).probes) == 10

    def placed() -> int:
        return sum(bool(each.demands.rules) for each in found.planner.sources.values())

    assert [placed(), *(placed() for _ in found.placement.place_in_parts(lambda: T0 + 20.0))] == [50, 100, 120]
    assert len(found.choose(NOW + 3, in_parts=True).probes) == 10


def test_no_source_is_probed_after_its_rule_has_ended_though_it_is_still_to_be_placed() -> None:
    sources = [source(f"s{number}") for number in range(120)]
    found = decider(declaration(*sources, rule("r", end='NOW + "20 SECONDS"')), now_s=T0)
    assert len(found.choose(NOW + 1).probes) == 10
    assert found.choose(NOW + 2, in_parts=True).probes == []
    assert found.placement.is_waiting
    assert [found.choose(NOW + after, in_parts=True).probes for after in range(3, 9)] == [[]] * 6
    assert not any(each.demands.rules for each in found.planner.sources.values())


def test_a_source_that_is_added_while_others_are_placed_is_placed_first() -> None:
    sources = [source(f"s{number}") for number in range(120)]
    found = decider(declaration(), now_s=T0)
    found.declare(declaration(*sources, rule("r")), {"r": T0}, T0, in_parts=True)
    next(found.placement.place_in_parts(lambda: T0))
    found.declare(declaration(*sources, source("more"), rule("r")), {"r": T0}, T0, in_parts=True)
    parts = list(found.placement.place_declared_in_parts(lambda: T0))
    assert (len(parts), len(found.planner.sources)) == (1, 100)
    assert "more" in found.planner.sources
    assert found.placement.is_waiting
    assert list(found.placement.place_declared_in_parts(lambda: T0)) == []


def test_all_that_is_declared_is_placed_though_the_last_of_it_was_placed_before() -> None:
    found = decider(declaration(), now_s=T0)
    found.declare(declaration(*(source(f"s{n}") for n in range(120)), rule("r")), {"r": T0}, T0, in_parts=True)
    found.placement.place_if_waiting("s119", T0)
    assert len(list(found.placement.place_declared_in_parts(lambda: T0))) == 3
    assert not found.placement.is_waiting


def test_what_is_declared_within_a_chronon_is_probed_in_it() -> None:
    found = decider(declaration(source("other"), rule("other")), now_s=T0)
    found.declare(declaration(source("s"), rule("r")), {"r": T0 + 5.5}, T0 + 5.5, in_parts=True)
    assert [each.probe.source_id for each in found.choose(NOW, in_parts=True).probes] == ["s"]
