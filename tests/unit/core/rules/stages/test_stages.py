"""What a probe's findings mean for rules: counts, firings, intervals, lateness. Times are chronons of 10 s."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.rates.rate_blend import ItemCount, ItemTimes
from proxyd.core.rules.stages.observation import Observation
from tests.fleets import WEBHOOK, Drive, changed, decider, declaration, item, rule, source, unchanged

T0 = 1_000_000_000.0


def at(chronon: float) -> float:
    return T0 + 10.0 * chronon


def drive(*rules: str, options: str = "") -> Drive:
    return Drive(decider(declaration(source("s", options=options), *rules), now_s=T0))


def titles(observation: Observation) -> list[list[str]]:
    bodies = [json.loads(sent.body)["data"] for sent in observation.rules.notifications]
    return [[row["channel.item.title"] for row in body["items"]] for body in bodies]


OLD = item("old", T0 - 500)


async def contacted(*rules: str) -> Drive:
    """Return a drive past its first contact with an old item, at chronon 0."""
    found = drive(*rules)
    await found.see(changed("s", [OLD], at(0)))
    return found


async def test_items_at_first_contact_are_seen_and_not_notified() -> None:
    found = drive(rule("r"))
    first = await found.see(changed("s", [item("b", T0 - 10), item("a", T0 - 20)], at(0)))
    assert [event.item.item_id for event in first.found.events] == ["a", "b"]
    assert all(event.seed for event in first.found.events)
    assert not first.rules.notifications
    assert first.rules.streams[0].count == 0


async def test_items_at_first_contact_count_where_start_is_earlier() -> None:
    found = drive(rule("r").replace("START NOW", 'START NOW - "15 SECONDS"'))
    first = await found.see(changed("s", [item("b", T0 - 10), item("a", T0 - 20)], at(0)))
    assert titles(first) == [["b"]]


async def test_every_item_of_a_plain_rule_fires_once_in_time_order() -> None:
    found = await contacted(rule("r"))
    seen = await found.see(changed("s", [item("b", at(2)), item("a", at(1)), item("old", T0 - 500)], at(3)))
    assert titles(seen) == [["a"], ["b"]]
    again = await found.see(changed("s", [item("b", at(2)), item("a", at(1))], at(4)))
    assert not again.rules.notifications


async def test_same_times_are_taken_from_the_end_of_the_page() -> None:
    found = await contacted(rule("r"))
    seen = await found.see(changed("s", [item("x", at(1)), item("y", at(1))], at(3)))
    assert titles(seen) == [["y"], ["x"]]


async def test_one_item_earlier_and_seven_in_this_probe_fire_for_item_3_and_item_6() -> None:
    found = await contacted(rule("r", when="COUNT(*) % 3 = 0"))
    await found.see(changed("s", [item("1", at(1))], at(1)))
    window = [item(str(n), at(n)) for n in range(8, 1, -1)]
    seen = await found.see(changed("s", window, at(9)))
    assert titles(seen) == [["1", "2", "3"], ["4", "5", "6"]]
    assert seen.rules.streams[0].count == 8
    assert [event.item.item_id for event in seen.rules.streams[0].pending] == ["7", "8"]


async def test_intervals_of_the_language_page_example() -> None:
    """Items in chronons 3, 5, 9, 12 with COUNT(*) % 2 = 0: [5,8] and [12,..]; 7 captures the first, 9 misses it."""
    early = await contacted(rule("r", when="COUNT(*) % 2 = 0"))
    seen = await early.see(changed("s", [item("5", at(5)), item("3", at(3))], at(7)))
    assert [(r.start - T0 // 10, r.deadline, r.captured) for r in seen.rules.intervals] == [(5, None, True)]

    late = await contacted(rule("r", when="COUNT(*) % 2 = 0"))
    window = [item("12", at(12)), item("9", at(9)), item("5", at(5)), item("3", at(3))]
    seen = await late.see(changed("s", window, at(12)))
    spans = [(r.start - T0 // 10, r.deadline and r.deadline - T0 // 10, r.captured) for r in seen.rules.intervals]
    assert spans == [(5, 8, False), (12, None, True)]
    assert [json.loads(n.body)["data"]["late"] for n in seen.rules.notifications] == [True, False]
    assert (seen.rules.streams[0].captured, seen.rules.streams[0].missed) == (1, 1)


@pytest.mark.parametrize(("probed", "captured"), [(6, True), (8, True), (9, False)])
async def test_a_window_interval_is_captured_up_to_its_last_chronon(probed: int, captured: bool) -> None:
    found = await contacted(rule("r", clauses="SET LIFE WINDOW(3)"))
    seen = await found.see(changed("s", [item("a", at(5))], at(probed)))
    assert [(r.captured, r.deadline) for r in seen.rules.intervals] == [(captured, int(T0 // 10) + 8)]


async def test_updates_in_one_chronon_are_one_update_for_the_life() -> None:
    found = await contacted(rule("r"))
    seen = await found.see(changed("s", [item("b", at(5.5)), item("a", at(5))], at(6)))
    assert [(r.deadline, r.captured) for r in seen.rules.intervals] == [(None, True)]
    assert len(seen.rules.notifications) == 2
    assert (seen.rules.streams[0].captured, seen.rules.streams[0].missed) == (1, 0)


async def test_conditions_and_queries_see_the_items_fields() -> None:
    found = await contacted(
        rule(
            "r",
            where="title LIKE '%linux%'",
            when="COUNT(*) % 2 = 0",
            query="SELECT title AS t FROM RSS WHERE title <> 'noise' ORDER BY title DESC LIMIT 2",
        )
    )
    window = [item(name, at(n)) for n, name in reversed([*enumerate(["linux 1", "noise", "linux 2", "x"], 1)])]
    seen = await found.see(changed("s", window, at(5)))
    assert [json.loads(n.body)["data"]["items"] for n in seen.rules.notifications] == [
        [{"t": "linux 2"}, {"t": "linux 1"}]
    ]


async def test_end_closes_the_rule_for_later_events() -> None:
    found = await contacted(rule("r", end='NOW + "25 SECONDS"'))
    seen = await found.see(changed("s", [item("late", at(3)), item("in time", at(2))], at(4)))
    assert titles(seen) == [["in time"]]


async def test_an_item_of_the_second_of_start_counts_where_times_are_whole_seconds() -> None:
    """The rule is accepted at 0.6 s past the item's second; the item came at 0.8 s and says only the second."""
    found = await contacted(rule("r").replace("START NOW", "START '2001-09-09T01:46:50.600Z'"))
    assert at(1) == 1_000_000_010.0
    seen = await found.see(
        changed("s", [item("same second", at(1)), item("before", at(1) - 1), item("x", at(1) + 0.5)], at(2))
    )
    assert titles(seen) == [["same second"]]


async def test_item_times_are_clipped_to_the_time_between_the_probes() -> None:
    found = await contacted(rule("r"))
    seen = await found.see(
        changed("s", [item("future", at(99)), item("ancient", T0 - 9e6), item("fine", at(1)), OLD], at(2))
    )
    assert [(e.item.item_id, e.event_s, e.exact) for e in seen.found.events] == [
        ("ancient", at(0), False),
        ("fine", at(1), True),
        ("future", at(2), False),
    ]
    assert seen.found.delays_s == [10.0]


async def test_items_without_times_lie_in_the_middle_and_are_not_exact() -> None:
    found = await contacted(rule("r"))
    seen = await found.see(changed("s", [item("a"), item("old", T0 - 500)], at(4)))
    assert [(e.event_s, e.exact) for e in seen.found.events] == [(at(2), False)]
    assert seen.found.window.evidence == ItemCount(at(0), at(4), 1)


async def test_a_feed_that_dates_everything_alike_is_not_believed() -> None:
    found = drive(rule("r"))
    for chronon in (0, 2):
        await found.see(changed("s", [], at(chronon)))
    seen = await found.see(changed("s", [item(n, at(1)) for n in "abc"], at(4)))
    assert {(e.event_s, e.exact) for e in seen.found.events} == {(at(3), False)}


async def test_the_evidence_is_the_best_kind_there_is() -> None:
    found = drive(rule("r"))
    first = await found.see(changed("s", [item("b", T0 - 10), item("a", T0 - 40)], at(0)))
    assert first.found.window.evidence == ItemTimes(T0 - 40, at(0), (T0 - 10,))
    second = await found.see(unchanged("s", at(1)))
    assert second.found.window.evidence == ItemCount(at(0), at(1), 0)
    third = await found.see(changed("s", [item("c", at(1.5)), item("b", T0 - 10)], at(2)))
    assert third.found.window.evidence == ItemTimes(at(1), at(2), (at(1.5),))


async def test_an_overflowed_feed_is_noticed_and_its_lost_items_estimated() -> None:
    found = await contacted(rule("r"))
    await found.see(changed("s", [item("a", at(1))], at(1)))
    window = [item(str(n), at(n)) for n in range(20, 10, -1)]
    seen = await found.see(changed("s", window, at(20)))
    assert seen.found.window.lost_items == pytest.approx(9.0)  # one a chronon: 2 to 10 slid off
    assert seen.found.window.evidence == ItemTimes(at(11), at(20), tuple(at(n) for n in range(12, 21)))
    assert found.decider.known.states["s"].lost_items == pytest.approx(9.0)


async def test_a_feed_that_is_wholly_new_but_not_newer_has_lost_nothing() -> None:
    found = await contacted(rule("r"))
    seen = await found.see(changed("s", [item("b", T0 - 600), item("a", T0 - 700)], at(5)))
    assert seen.found.window.lost_items == 0.0


async def test_edited_items_are_stored_again_and_fire_nothing() -> None:
    found = await contacted(rule("r"))
    edited = replace(item("old", T0 - 500), content_hash="other")
    seen = await found.see(changed("s", [edited], at(1)))
    assert seen.found.window.edited == (edited,)
    assert not seen.rules.notifications


async def test_a_failed_probe_changes_nothing_but_the_back_off() -> None:
    found = await contacted(rule("r"))
    before = found.decider.known.states["s"]
    failed = ProbeOutcome("s", OutcomeKind.TIMEOUT, at(1), at(2), detail="30 s")
    seen = await found.see(failed)
    assert not seen.found.events
    assert not seen.rules.streams
    assert seen.state.failures == 1
    assert seen.state.not_before_s > at(2)
    assert seen.state.last_success_s == before.last_success_s
    after = await found.see(unchanged("s", at(99)))
    assert (after.state.failures, after.state.not_before_s) == (0, 0.0)


async def test_the_id_of_a_notification_depends_on_the_event_alone() -> None:
    first = await (await contacted(rule("r"))).see(changed("s", [item("a", at(1))], at(3)))
    second = await (await contacted(rule("r"))).see(changed("s", [item("a", at(1))], at(3)))
    assert first.rules.notifications == second.rules.notifications


async def test_deliveries_go_to_the_rules_webhooks() -> None:
    found = await contacted(rule("r", clauses=WEBHOOK))
    seen = await found.see(changed("s", [item("a", at(1))], at(3)))
    assert [getattr(d, "url", "") for d in seen.rules.notifications[0].deliveries] == ["https://receiver.example/hook"]


@pytest.mark.parametrize("time_s", [-1e15, -62135596801.0, 253402300800.0, 1e15])
async def test_times_no_calendar_holds_end_nothing(time_s: float) -> None:
    found = await contacted(rule("r", query="SELECT title, pubDate FROM RSS"))
    seen = await found.see(changed("s", [item("x", at(1)), item("a", time_s), OLD], at(3)))
    assert ["a"] in titles(seen)


async def test_a_waiting_event_keeps_only_what_the_query_reads() -> None:
    found = await contacted(rule("r", when="COUNT(*) % 9 = 0", query="SELECT title FROM RSS WHERE link <> 'x'"))
    seen = await found.see(changed("s", [item("a", at(1), description="long " * 99)], at(3)))
    assert [set(e.item.fields) for e in seen.rules.streams[0].pending] == [{"channel.item.title", "channel.item.link"}]


async def test_values_that_do_not_fit_their_type_are_counted() -> None:
    found = await contacted(rule("r"))
    odd = item("a", at(1))
    odd = replace(odd, fields={**odd.fields, "channel.item.pubdate": "not a time"})
    seen = await found.see(changed("s", [odd], at(3)))
    assert seen.found.unfit_values == 1
