"""Pages that are no feeds: rows that come, change and go, OLD and NEW, and pages that vanish."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.item import EventKind, Item, Value
from proxyd.core.model.outcome import NO_VALIDATORS, OutcomeKind, ProbeOutcome, Validators
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rates.rate_blend import ChangedBit, ItemCount
from proxyd.core.rules.answers.explanation import Explainer
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.core.rules.stages.observation import Observation
from tests.fleets import Drive, changed, item, recall, unchanged

T0 = 1_000_000_000.0
CLASSES = """CREATE DOMAIN "D" AS
CLASS::ROW EACH CSS 'tr' KEY id (id:String FROM CSS 'td', n:Integer FROM CSS 'td.n')
CLASS::PAGE;
CREATE SOURCE "s" OF {name} AT 'https://example.org/page';
CREATE PROFILE "P" AS (DOMAIN "D");
"""


def watch(name: str, trigger: str, query: str, *, start: str = "NOW", clauses: str = "") -> str:
    return (
        f'INSERT NOTIFICATION "{name}" INTO "P" SET QUERY "{query}" SET TRIGGER "{trigger}"\n'
        f"START {start} END NEVER SET UTILITY STRICT {clauses};\n"
    )


def drive(*rules: str, page_class: str = "ROW") -> Drive:
    return Drive(accepting(CLASSES.format(name=page_class) + "".join(rules)))


def accepting(text: str) -> Decider:
    checked = check([SourceText("t", text)], CheckSettings())
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    planner = PlannerSettings(grid=ChrononGrid(10.0), budget=Budget(1.0))
    found = Decider(DeciderSettings(planner), np.random.default_rng(1))
    found.declare(checked.declaration, dict.fromkeys(checked.declaration.rules, T0), T0)
    return found


def row(name: str, n: int) -> Item:
    return Item(name, {"id": name, "n": n}, None, f"{name} {n}")


def page(text: str) -> Item:
    return Item("page", {"text": text}, None, text)


def rows(observation: Observation) -> list[list[dict[str, Value]]]:
    return [json.loads(sent.body)["data"]["items"] for sent in observation.rules.notifications]


def kinds(observation: Observation) -> list[tuple[EventKind, str]]:
    return [(event.kind, event.item.item_id) for event in observation.found.events]


def failed(status: int, at_s: float) -> ProbeOutcome:
    kind = OutcomeKind.GONE if status == 410 else OutcomeKind.HTTP_ERROR
    return ProbeOutcome("s", kind, at_s, at_s, status)


async def contacted(*rules: str, items: Sequence[Item], page_class: str = "ROW") -> Drive:
    found = drive(*rules, page_class=page_class)
    first = await found.see(changed("s", items, T0))
    assert all(event.seed for event in first.found.events)
    assert not first.rules.notifications
    return found


async def test_rows_that_come_change_and_go_are_three_kinds_of_events() -> None:
    found = await contacted(
        watch("in", "ON INSERT TO ROW WHEN NEW.n > 1", "SELECT id, n FROM ROW"),
        watch("up", "ON UPDATE TO ROW WHEN NEW.n > OLD.n", "SELECT id, OLD.n, NEW.n, NEW.n - OLD.n AS rise FROM ROW"),
        watch("out", "ON DELETE TO ROW", "SELECT id, OLD.n FROM ROW WHERE OLD.n = 3"),
        items=[row("a", 1), row("b", 2), row("c", 3)],
    )
    seen = await found.see(changed("s", [row("d", 9), row("a", 5), row("b", 1)], T0 + 100))
    assert kinds(seen) == [
        (EventKind.UPDATE, "b"),
        (EventKind.UPDATE, "a"),
        (EventKind.INSERT, "d"),
        (EventKind.DELETE, "c"),
    ]
    assert {sent.rule: json.loads(sent.body)["data"]["items"] for sent in seen.rules.notifications} == {
        "in": [{"id": "d", "n": 9}],
        "up": [{"id": "a", "OLD.n": 1, "NEW.n": 5, "rise": 4}],
        "out": [{"id": "c", "OLD.n": 3}],
    }
    assert seen.found.window.evidence == ItemCount(T0, T0 + 100, 4)


async def test_a_row_that_comes_back_is_new_again() -> None:
    found = await contacted(watch("r", "ON INSERT TO ROW", "SELECT id FROM ROW"), items=[row("a", 1), row("b", 1)])
    gone = await found.see(changed("s", [row("b", 1)], T0 + 100))
    assert kinds(gone) == [(EventKind.DELETE, "a")]
    back = await found.see(changed("s", [row("a", 1), row("b", 1)], T0 + 200))
    assert rows(back) == [[{"id": "a"}]]


async def test_rows_of_a_page_that_was_cut_short_are_not_gone() -> None:
    found = await contacted(watch("r", "ON DELETE TO ROW", "SELECT id FROM ROW"), items=[row("a", 1), row("b", 1)])
    seen = await found.see(replace(changed("s", [row("b", 1)], T0 + 100), truncated=True))
    assert not seen.found.events


async def test_a_page_that_changes_says_what_changed_by_blocks() -> None:
    query = "SELECT DIFF(OLD.text, NEW.text) AS difference FROM PAGE"
    found = await contacted(
        watch("r", "ON UPDATE TO PAGE", query), items=[page("Prices\n\nTea 3\n\nBye")], page_class="PAGE"
    )
    seen = await found.see(changed("s", [page("Prices\n\nTea 4\n\nBye")], T0 + 100))
    assert rows(seen) == [[{"difference": "- Tea 3\n+ Tea 4"}]]
    assert seen.found.window.evidence == ChangedBit(T0, T0 + 100, changed=True)


async def test_what_a_page_overwrote_unseen_is_estimated_apart() -> None:
    """At 1 change in 10 s a probe after 100 s sees one of about ten."""
    found = await contacted(
        watch("r", "ON UPDATE TO PAGE", "SELECT text FROM PAGE"), items=[page("0")], page_class="PAGE"
    )
    for n in range(1, 300):
        await found.see(changed("s", [page(str(n))], T0 + 1.0 * n))
    before = found.decider.known.states["s"].lost_items
    seen = await found.see(changed("s", [page("last")], T0 + 399.0))
    assert seen.found.window.lost_items > 20
    assert found.decider.known.states["s"].lost_items == pytest.approx(before + seen.found.window.lost_items)


async def test_two_404s_may_be_a_mistake_but_the_third_takes_the_rows_away() -> None:
    found = await contacted(watch("r", "ON DELETE TO ROW", "SELECT id FROM ROW"), items=[row("a", 1)])
    for at_s in (T0 + 100, T0 + 200):
        assert not (await found.see(failed(404, at_s))).found.events
    gone = await found.see(failed(404, T0 + 300))
    assert rows(gone) == [[{"id": "a"}]]
    assert [(event.event_s, event.exact) for event in gone.found.events] == [(T0 + 100, False)]
    assert not (await found.see(failed(404, T0 + 400))).found.events


@pytest.mark.parametrize("doubtful", [lambda at_s: failed(404, at_s), lambda at_s: changed("s", [], at_s)])
async def test_what_may_be_gone_is_confirmed_after_the_spacing(doubtful: Callable[[float], ProbeOutcome]) -> None:
    found = await contacted(watch("r", "ON DELETE TO ROW", "SELECT id FROM ROW"), items=[row("a", 1)])
    planned = found.decider.planner.sources["s"]
    await found.see(doubtful(T0 + 100))
    assert planned.asked is Reason.CONFIRMATION
    assert planned.earliest_start_s() == planned.log.earliest_s() < T0 + 500
    await found.see(changed("s", [row("a", 1)], T0 + 200))
    assert planned.asked is None


async def test_an_empty_list_is_read_again_without_the_validators_that_it_came_with() -> None:
    found = await contacted(watch("r", "ON DELETE TO ROW", "SELECT id FROM ROW"), items=[row("a", 1)])
    before = found.decider.known.states["s"].body_hash
    await found.see(replace(changed("s", [], T0 + 100), validators=Validators("empty"), body_hash="empty"))
    request = found.decider.request("s", T0 + 200)
    assert request is not None
    assert (request.validators, request.body_hash) == (NO_VALIDATORS, before)


async def test_a_row_whose_key_is_spelt_in_another_way_goes_on() -> None:
    found = await contacted(
        watch("r", "ON INSERT TO ROW", "SELECT id FROM ROW"), items=[row("tea time", 1), row("b", 1)]
    )
    seen = await found.see(changed("s", [row("tea\u00a0ti\u00adme", 1), row("b", 1), row("c", 1)], T0 + 100))
    assert kinds(seen) == [(EventKind.INSERT, "c")]
    assert not (
        await found.see(changed("s", [row("tea\u00a0ti\u00adme", 1), row("b", 1), row("c", 1)], T0 + 200))
    ).found.events


async def test_rows_whose_key_has_no_value_of_its_type_are_not_taken_for_one() -> None:
    def badge(text: str) -> Item:
        return Item(text, {"id": None, "n": 1}, None, text)

    found = await contacted(watch("r", "ON INSERT TO ROW", "SELECT id FROM ROW"), items=[badge("new"), row("1", 1)])
    seen = await found.see(changed("s", [badge("sold"), row("1", 1)], T0 + 100))
    assert kinds(seen) == [(EventKind.INSERT, "sold"), (EventKind.DELETE, "new")]


async def test_a_page_between_two_404s_counts_from_one_again() -> None:
    found = await contacted(watch("r", "ON DELETE TO ROW", "SELECT id FROM ROW"), items=[row("a", 1)])
    await found.see(failed(404, T0 + 100))
    await found.see(changed("s", [row("a", 1)], T0 + 200))
    assert not (await found.see(failed(404, T0 + 300))).found.events


async def test_gone_for_good_counts_at_once_and_mutes_the_source_for_a_day() -> None:
    found = await contacted(
        watch("r", "ON DELETE TO PAGE", "SELECT text FROM PAGE"), items=[page("x")], page_class="PAGE"
    )
    gone = await found.see(failed(410, T0 + 100))
    assert kinds(gone) == [(EventKind.DELETE, "page")]
    assert gone.state.not_before_s >= T0 + 100 + 86400


async def test_a_page_that_was_missing_when_first_probed_is_new_when_it_appears() -> None:
    found = drive(watch("r", "ON INSERT TO ROW", "SELECT id FROM ROW"))
    for n in (1, 2):
        await found.see(failed(404, T0 + n))
    seen = await found.see(changed("s", [row("a", 1)], T0 + 100))
    assert rows(seen) == [[{"id": "a"}]]


async def test_anything_that_happens_to_a_page_overwrites_it() -> None:
    """The insertion's interval ends with the next probe's discovery of a deletion, not with the next insertion."""
    found = await contacted(watch("r", "ON INSERT TO ROW", "SELECT id FROM ROW"), items=[row("a", 1)])
    seen = await found.see(changed("s", [row("b", 1)], T0 + 100))
    assert [record.deadline for record in seen.rules.intervals] == [None]
    assert kinds(seen) == [(EventKind.INSERT, "b"), (EventKind.DELETE, "a")]


FEED = """CREATE DOMAIN "D" AS CLASS::RSS(channel.item.title:String, channel.item.updated:Timestamp);
CREATE SOURCE "s" OF RSS AT 'https://example.org/feed';
CREATE PROFILE "P" AS (DOMAIN "D");
"""


async def edited_feed(rules: str) -> Observation:
    found = Drive(accepting(FEED + rules))
    one = Item("i", {"channel.item.title": "one", "channel.item.updated": T0 - 9}, T0 - 9, "1")
    two = Item("i", {"channel.item.title": "two", "channel.item.updated": T0 + 60}, T0 - 9, "2")
    await found.see(changed("s", [one], T0))
    return await found.see(changed("s", [two], T0 + 100))


async def test_updates_of_feed_items_are_events_where_a_rule_waits_for_them() -> None:
    seen = await edited_feed(watch("up", "ON UPDATE TO RSS", "SELECT OLD.title AS was, title AS title FROM RSS"))
    assert rows(seen) == [[{"was": "one", "title": "two"}]]
    assert [(event.event_s, event.exact) for event in seen.found.events] == [(T0 + 60, True)]


async def test_updates_of_feed_items_are_no_events_where_no_rule_waits_for_them() -> None:
    seen = await edited_feed(watch("in", "ON INSERT TO RSS", "SELECT title FROM RSS"))
    assert not seen.found.events
    assert [item.item_id for item in seen.found.window.edited] == ["i"]


async def test_pending_updates_are_recalled_with_what_they_were_before() -> None:
    found = await contacted(
        watch("r", "ON UPDATE TO ROW WHEN COUNT(*) % 2 = 0", "SELECT OLD.n AS was, n FROM ROW"), items=[row("a", 1)]
    )
    seen = await found.see(changed("s", [row("a", 2)], T0 + 100))
    stream = found.decider.known.streams["r", "s"]
    recall(found.decider, replace(stream, pending=()), {"s": [seen.found.events[0]]}, T0 + 150)
    again = await found.see(changed("s", [row("a", 3)], T0 + 200))
    assert rows(again) == [[{"was": 1, "n": 2}, {"was": 2, "n": 3}]]


async def test_an_unchanged_page_says_that_nothing_happened() -> None:
    found = await contacted(watch("r", "ON UPDATE TO ROW", "SELECT id FROM ROW"), items=[row("a", 1)])
    seen = await found.see(unchanged("s", T0 + 100))
    assert not seen.found.events
    assert seen.found.window.evidence == ItemCount(T0, T0 + 100, 0)


def redeclare(found: Drive, text: str) -> None:
    checked = check([SourceText("t", text)], CheckSettings())
    assert checked.declaration is not None, [str(error) for error in checked.errors]
    found.decider.declare(checked.declaration, dict.fromkeys(checked.declaration.rules, T0), T0 + 50)


GONE, CAME = (
    watch("gone", "ON DELETE TO ROW", "SELECT id FROM ROW"),
    watch("came", "ON INSERT TO ROW", "SELECT id FROM ROW"),
)


@pytest.mark.parametrize(
    ("old", "new"),
    [("example.org/page", "example.org/other"), ("KEY id (", "KEY n ("), ("FROM CSS 'td.n'", "FROM CSS 'td.m'")],
    ids=["another address", "another key", "another selector"],
)
async def test_another_address_or_reading_starts_afresh_and_reports_nothing(old: str, new: str) -> None:
    found = await contacted(GONE, CAME, items=[row("a", 1), row("b", 1)])
    redeclare(found, CLASSES.format(name="ROW").replace(old, new) + GONE + CAME)
    first = await found.see(changed("s", [row("c", 1)], T0 + 100))
    assert first.found.starts_afresh
    assert all(event.seed for event in first.found.events)
    request = found.decider.request("s", T0 + 100)
    assert request is not None
    assert request.body_hash == "body 1000000100.0"
    second = await found.see(changed("s", [row("c", 1), row("d", 1)], T0 + 200))
    assert kinds(second) == [(EventKind.INSERT, "d")]


async def test_an_outcome_of_another_reading_says_nothing() -> None:
    found = await contacted(CAME, items=[row("a", 1)])
    asked = found.decider.request("s", T0 + 10)
    assert asked is not None
    redeclare(found, CLASSES.format(name="ROW").replace("KEY id (", "KEY n (") + CAME)
    late = changed("s", [row("b", 1)], T0 + 60)
    assert found.decider.observe(late, reading=asked.reading) is None


async def test_a_probe_that_started_before_a_push_does_not_undo_it() -> None:
    found = await contacted(GONE, CAME, items=[row("a", 1)])
    pushed = replace(changed("s", [row("a", 1), row("b", 1)], T0 + 100), is_push=True)
    assert kinds(await found.see(pushed)) == [(EventKind.INSERT, "b")]
    late = changed("s", [row("a", 1)], T0 + 101, started_s=T0 + 99)
    assert not (await found.see(late)).found.events
    again = changed("s", [row("a", 1)], T0 + 200)
    assert kinds(await found.see(again)) == [(EventKind.DELETE, "b")]


async def test_a_page_that_goes_back_after_a_push_is_read_again() -> None:
    found = await contacted(CAME, items=[row("a", 1)])
    await found.see(replace(changed("s", [row("b", 1)], T0 + 100), is_push=True))
    request = found.decider.request("s", T0 + 200)
    assert request is not None
    assert (request.body_hash, request.validators) == (None, NO_VALIDATORS)


async def test_a_page_of_more_rows_than_are_read_asks_only_for_those_it_shows() -> None:
    found = await contacted(CAME, items=[row("a", 1)])
    needed = found.decider.outcomes.query_for(replace(changed("s", [row("b", 1)], T0 + 100), truncated=True))
    assert needed is not None
    assert needed.item_ids == ("b",)


async def test_numbers_that_no_column_holds_are_null() -> None:
    rising = watch("up", "ON UPDATE TO ROW WHEN NEW.n * NEW.n > 0", "SELECT NEW.n FROM ROW")
    found = await contacted(rising, items=[row("a", 1)])
    huge = Item("a", {"id": "a", "n": 10**200}, None, "huge")
    assert not (await found.see(changed("s", [huge], T0 + 100))).rules.notifications


async def test_what_a_seldom_rule_remembers_is_bounded() -> None:
    seldom = watch("r", "ON UPDATE TO PAGE WHEN COUNT(*) % 900 = 0", "SELECT DIFF(OLD.text, NEW.text) AS d FROM PAGE")
    found = await contacted(seldom, items=[page("x")], page_class="PAGE")
    for n in range(40):
        await found.see(changed("s", [page(f"{n}" + "y" * 200_000)], T0 + 10.0 * (n + 1)))
    pending = found.decider.known.streams["r", "s"].pending
    assert 5 <= len(pending) <= 10
    assert pending[-1].item.fields["text"] == "39" + "y" * 200_000


PRICES = """CREATE SOURCE "s" OF SHOP AT 'https://shop.example/1';
CREATE DOMAIN "D" AS CLASS::SHOP(name:String FROM CSS 'h1', price:Decimal FROM CSS '.price');
CREATE PROFILE "P" AS (DOMAIN "D");
"""


def shop(at_s: float, **fields: str | float | None) -> ProbeOutcome:
    return changed("s", [Item("page", {"name": None, "price": None} | fields, None, repr(fields))], at_s)


def shops() -> Drive:
    return Drive(accepting(PRICES + watch("r", "ON UPDATE TO SHOP", "SELECT price FROM SHOP")))


@pytest.mark.parametrize("same", [None, OutcomeKind.NOT_MODIFIED, OutcomeKind.SAME_BODY])
async def test_a_page_without_any_value_is_no_evidence_as_long_as_that_lasts(same: OutcomeKind | None) -> None:
    found = shops()
    await found.see(shop(T0, name="a", price=1.0))
    last = [shop(T0 + 200) if same is None else ProbeOutcome("s", same, T0 + 200, T0 + 200)]
    seen = [await found.see(each) for each in (shop(T0 + 100), *last)]
    assert [each.found.window.evidence for each in seen] == [None, None]
    assert set(seen[-1].state.health.silent) == {"name", "price"}
    assert seen[-1].state.rate == found.memory.observations[0].state.rate
    back = await found.see(shop(T0 + 300, name="b"))
    assert back.found.window.evidence == ChangedBit(T0 + 200, T0 + 300, changed=True)


async def test_a_page_with_one_silent_field_of_two_is_evidence() -> None:
    found = shops()
    await found.see(shop(T0, name="a"))
    seen = await found.see(ProbeOutcome("s", OutcomeKind.NOT_MODIFIED, T0 + 100, T0 + 100))
    assert seen.found.window.evidence == ItemCount(T0, T0 + 100, 0)
    assert set(seen.state.health.silent) == {"price"}


@pytest.mark.parametrize(
    ("fields", "silent"),
    [
        ({"price": 2.0}, set()),
        ({"name": "Lamp", "currency": "EUR"}, {"price"}),
        ({}, {"price", "currency", "name", "availability"}),
    ],
)
async def test_a_shop_that_states_no_availability_is_not_silent(
    fields: dict[str, str | float | None], silent: set[str]
) -> None:
    found = Drive(accepting('CREATE PROFILE "P";\nWATCH \'https://shop.example/lamp\' OF PRICE INTO "P";'))
    blank = dict.fromkeys(("price", "currency", "name", "availability"))
    seen = await found.see(changed("shop.example/lamp", [Item("", blank | fields, None, "x")], T0))
    assert set(seen.state.health.silent) == silent


async def test_silent_sources_are_named_until_they_show_a_value() -> None:
    found = shops()
    await found.see(shop(T0, name="a"))
    assert (Explainer.of(found.decider).silent(), Explainer.of(found.decider).failing()) == (["s"], [])
    await found.see(shop(T0 + 100, name="a", price=2.0))
    assert Explainer.of(found.decider).silent() == []


async def test_a_silent_field_keeps_its_last_value_while_the_rest_of_the_page_changes() -> None:
    found = drive(watch("fall", "ON UPDATE TO ROW WHERE NEW.n < OLD.n", "SELECT OLD.n, NEW.n FROM ROW"))
    silent = [Item("a", {"id": "a", "n": None}, None, f"other {number}") for number in range(3)]
    told = []
    for number, each in enumerate([row("a", 9), *silent, row("a", 7)]):
        told += rows(await found.see(changed("s", [each], T0 + 10.0 * number)))
    assert told == [[{"OLD.n": 9, "NEW.n": 7}]]


@pytest.mark.parametrize(("after_s", "is_news"), [(0.0, True), (0.4, False), (-1.0, False), (0.6, True)])
async def test_an_item_of_the_second_in_which_a_feed_was_empty_is_news(after_s: float, *, is_news: bool) -> None:
    found = Drive(accepting("WATCH 'https://news.example/feed';"))
    await found.see(changed("news.example/feed", [], T0 + 0.5))
    seen = await found.see(changed("news.example/feed", [item("1", T0 + after_s)], T0 + 10.0))
    assert [each.seed for each in seen.found.events] == [not is_news]
