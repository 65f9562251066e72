"""What every store keeps, crossed with every back end (SQLite now)."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Connection, select, update

from proxyd.core.errors import ConflictError, NotFoundError, StoreError
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.delivery import SecretRef, WebhookDelivery
from proxyd.core.model.item import EventKind, Item
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, Validators
from proxyd.core.model.schedule import Probe, Reason
from proxyd.core.planning.queue.planned_source import SourceRecord
from proxyd.core.rates.model_fit import ItemGaps, ModelFit
from proxyd.core.rates.rate_blend import RateEvidence
from proxyd.core.rules.known.context import HistoryQuery, StoreQuery
from proxyd.core.rules.known.estimates import FleetRecord
from proxyd.core.rules.known.state import (
    AcceptedMove,
    IntervalRecord,
    Notification,
    SourceHealth,
    SourceState,
    StoredEvent,
)
from proxyd.core.rules.known.subscriptions import Subscription
from proxyd.core.rules.programs.stream_state import StreamState, Total
from proxyd.core.rules.stages.hints import SiblingHint
from proxyd.core.rules.stages.observation import Observation, RuleResults
from proxyd.core.rules.stages.source_state import Calibration
from proxyd.store.api_rows import Token
from proxyd.store.backups import copy_database, open_store, owner_lock
from proxyd.store.databases.tables import items, metadata, sources
from proxyd.store.declared_rows import StoredText
from proxyd.store.history import MOST_BYTES
from proxyd.store.listed_rows import StoredNotifications, Wanted
from proxyd.store.plan_rows import StoredPlan
from proxyd.store.retention import expire
from proxyd.store.sql_store import SqlStore
from proxyd.store.writer import MAX_BATCH
from tests.databases import migrated_file
from tests.fleets import declaration, rule, source
from tests.observations import altered, observed
from tests.outboxes import due_deliveries, next_due_s
from tests.servers import PostgresServer

OUTCOME = ProbeOutcome("s", OutcomeKind.CHANGED, 1.0, 2.0, 200)
HINT = SiblingHint("s", 0.5, 3.0)
ENDPOINT = WebhookDelivery("https://r.example/", SecretRef("env", "SECRET_A"))


def stored(seq: int, name: str, *, at_s: float = 1.0) -> StoredEvent:
    return StoredEvent(seq, Item(name, {"channel.item.title": name}, at_s, "h" + name), at_s, 2.0, True, False)


def notification(name: str, *, rule_name: str = "r", created_s: float = 2.0, endpoints: int = 1) -> Notification:
    deliveries = tuple(replace(ENDPOINT, url=f"https://r{n}.example/") for n in range(endpoints))
    return Notification(name, rule_name, "s", 1.0, created_s, False, name.encode(), deliveries)


def observation(*sent: Notification, events: tuple[StoredEvent, ...] = ()) -> Observation:
    state = SourceState("s", "https://s.example/", Validators('W/"é"', None), "abc", 1.0, next_seq=1 + len(events))
    return observed(
        state,
        OUTCOME,
        events=events,
        present=tuple(event.item.item_id for event in events),
        streams=(
            StreamState("r", "s", (Total(3, 3, True, True), Total(seen=frozenset({1, 2**64 - 1}))), 7, 2.5, 2, 1, 1.25),
        ),
        intervals=(IntervalRecord("r", "s", 1, 3, None, 4, True, True, 0.5),),
        notifications=sent,
    )


async def test_an_accepted_move_is_stored_with_its_source_and_nothing_else_changes(store: SqlStore) -> None:
    seen = observation(events=(stored(1, "a"),))
    await store.record(seen)
    health = SourceHealth(accepted=AcceptedMove("https://new.example/", "before", 3.0))
    moved = replace(seen.state, url="https://new.example/", reading="after", moved_times=0, health=health)
    await store.move([replace(moved, failures=9)])
    assert await store.load_states() == {"s": moved}
    await store.move([])


async def test_more_observations_than_one_commit_takes_are_all_recorded(store: SqlStore) -> None:
    numbers = range(2 * MAX_BATCH + 3)
    states = [SourceState(f"s{number}", f"https://s{number}.example/") for number in numbers]
    await asyncio.gather(*(store.record(observed(state, OUTCOME)) for state in states))
    assert await store.load_states() == {state.source_id: state for state in states}


async def test_what_is_recorded_with_and_without_a_probe_is_stored_in_turn(store: SqlStore) -> None:
    streams = [StreamState("r", "s", (), captured=count) for count in range(4)]
    seen = [observed(SourceState("s", "https://s.example/"), OUTCOME) for _ in streams]
    await asyncio.gather(
        store.record(altered(seen[0], streams=(streams[0],))),
        store.record_results(RuleResults(streams=(streams[1],))),
        store.record(altered(seen[2], streams=(streams[2],))),
        store.record_results(RuleResults(streams=(streams[3],))),
        store.record(seen[3]),
    )
    assert await store.load_streams() == {("r", "s"): streams[3]}
    await asyncio.gather(
        store.record_results(RuleResults(streams=(streams[1],))),
        store.record(altered(seen[2], streams=(streams[2],))),
    )
    assert await store.load_streams() == {("r", "s"): streams[2]}


@pytest.mark.parametrize("count", [3, 70_000])  # more than a statement may have parameters
async def test_a_query_may_name_any_number_of_sources_and_rules(store: SqlStore, count: int) -> None:
    await store.record(observation(notification("n"), events=(stored(1, "a"), stored(2, "b", at_s=5.0))))
    others = tuple(f"ö'\"{number}" for number in range(count))
    for wanted, found in ((others, []), ((*others, "r"), ["n"])):
        listed = await store.history.find_notifications(Wanted(frozenset(wanted)), before=None, limit=9)
        assert [each.notification_id for each in listed.rows] == found
    asked = HistoryQuery("r", 0, (*others, "s"), 2.0), HistoryQuery("r", 1, others, 0.0)
    known = await store.known("s", StoreQuery((), fields=False, histories=asked))
    assert known.history == {("r", 0): [{"channel.item.title": "b"}], ("r", 1): []}


async def test_an_observation_comes_back_as_it_was(store: SqlStore) -> None:
    seen = observation(events=(stored(1, "a"), stored(2, "b")))
    await store.record(seen)
    assert await store.load_states() == {"s": seen.state}
    assert await store.load_streams() == {("r", "s"): seen.rules.streams[0]}
    needed = StoreQuery(("a", "b", "c"), fields=True)
    assert await store.known_items("s", needed) == {name: stored(1, name).item for name in "ab"}
    assert (await store.known_items("s", replace(needed, fields=False)))["a"].fields == {}
    assert await store.load_events_after("s", 1, kind=EventKind.INSERT, limit=9) == [stored(2, "b")]
    assert await store.load_events("s", 0.0, kind=EventKind.INSERT) == [stored(1, "a"), stored(2, "b")]


async def test_updates_and_deletions_come_back_as_they_were_and_what_went_may_come_again(store: SqlStore) -> None:
    await store.record(observation(events=(stored(1, "a"), stored(2, "b"))))
    new = replace(stored(3, "a").item, fields={"x": 1}, content_hash="other")
    update = replace(stored(3, "a"), item=new, kind=EventKind.UPDATE, old=stored(1, "a").item)
    gone = replace(stored(4, "b"), kind=EventKind.DELETE)
    await store.record(altered(observation(events=(update, gone)), edited=(new,), present=("a",)))
    assert await store.known_items("s", StoreQuery(None, fields=True)) == {"a": new}
    assert await store.load_events("s", 0.0, kind=EventKind.UPDATE) == [update]
    assert await store.load_events_after("s", 2, kind=EventKind.DELETE, limit=9) == [gone]
    await store.record(observation(events=(stored(5, "b"),)))
    assert set(await store.known_items("s", StoreQuery(None, fields=False))) == {"a", "b"}
    assert [event.seq for event in await store.load_events("s", 0.0, kind=EventKind.INSERT)] == [1, 2, 5]


async def test_events_come_with_what_their_items_were_then(store: SqlStore) -> None:
    def changed(seq: int, old: StoredEvent, at_s: float) -> StoredEvent:
        item = replace(old.item, fields={"x": seq}, content_hash=f"x{seq}")
        return replace(old, seq=seq, item=item, kind=EventKind.UPDATE, old=old.item, event_s=at_s, seen_s=at_s)

    first, again = stored(1, "a"), stored(4, "a", at_s=5.0)
    updates = [changed(2, first, 2.0), changed(5, again, 6.0)]
    await store.record(observation(events=(first,)))
    await store.record(altered(observation(events=(updates[0],)), edited=(updates[0].item,), present=("a",)))
    gone = replace(stored(3, "a", at_s=4.0), kind=EventKind.DELETE)
    await store.record(altered(observation(events=(gone,)), present=()))
    await store.record(observation(events=(again, stored(6, "b", at_s=5.0))))
    await store.record(altered(observation(events=(updates[1],)), edited=(updates[1].item,), present=("a", "b")))
    found = {each.seq: each.item for each in await store.history.events("s", before=None, limit=9)}
    assert {seq: found[seq] for seq in (1, 2, 4, 5, 6)} == {
        1: first.item,
        2: updates[0].item,
        4: again.item,
        5: updates[1].item,
        6: stored(6, "b", at_s=5.0).item,
    }
    assert [each.item for each in await store.history.events("s", before=2, limit=1)] == [first.item]


async def test_the_last_known_values_of_silent_fields_come_back(store: SqlStore) -> None:
    await store.record(observation(events=(stored(1, "a"),)))
    silent = replace(stored(2, "a").item, fields={"price": None}, content_hash="x", last_known={"price": 9.5})
    went = replace(stored(2, "a"), item=silent, kind=EventKind.UPDATE, old=stored(1, "a").item)
    await store.record(altered(observation(events=(went,)), edited=(silent,), present=("a",)))
    (known,) = (await store.known_items("s", StoreQuery(None, fields=True))).values()
    assert (known.fields, known.last_known) == ({"price": None}, {"price": 9.5})
    spoken = replace(silent, fields={"price": 8.5}, content_hash="y", last_known={})
    back = replace(stored(3, "a"), item=spoken, kind=EventKind.UPDATE, old=known)
    await store.record(altered(observation(events=(back,)), edited=(spoken,), present=("a",)))
    (known,) = (await store.known_items("s", StoreQuery(None, fields=True))).values()
    assert known.last_known == {}
    found = await store.load_events("s", 0.0, kind=EventKind.UPDATE)
    assert [each.old.last_known for each in found if each.old is not None] == [{}, {"price": 9.5}]


async def test_an_item_goes_on_under_a_new_identity_with_what_was_edited(store: SqlStore) -> None:
    await store.record(observation(events=(stored(1, "old"), stored(2, "b"))))
    new = replace(stored(1, "new").item, content_hash="edited", published_s=7.0)
    await store.record(altered(observation(), renamed=(("old", "new"),), edited=(new,), present=("new",)))
    known = await store.known_items("s", StoreQuery(("new",), fields=True, former_ids=("old", "b")))
    assert known == {"new": new, "b": stored(2, "b").item}


async def test_the_items_shown_last_are_read_if_one_is_new(store: SqlStore) -> None:
    await store.record(observation(events=(stored(1, "a"), stored(2, "b"), stored(3, "c"))))
    for item_ids, shown in ((("x",), "abc"), (("a", "x"), "abc"), (("a", "b", "x"), "abc"), (("a",), "")):
        found = await store.known("s", StoreQuery(item_ids, fields=False, shown=True))
        assert [each.item_id for each in found.shown] == list(shown)
    assert (await store.known("s", StoreQuery(("x",), fields=False))).shown == ()


async def test_items_of_another_page_are_gone_before_those_of_this_one_come(store: SqlStore) -> None:
    await store.record(observation(events=(stored(1, "a"), stored(2, "b"))))
    await store.record(altered(observation(events=(stored(3, "a"),)), starts_afresh=True))
    known = await store.known_items("s", StoreQuery(None, fields=False))
    assert list(known) == ["a"]
    assert [event.seq for event in await store.load_events("s", 0.0, kind=EventKind.INSERT)] == [1, 2, 3]


async def test_the_intervals_of_a_rule_come_back_newest_first_whatever_became_of_them(store: SqlStore) -> None:
    kept = [
        IntervalRecord("r", "s", 1, 3, None, 4, True, True, 0.5),
        IntervalRecord("r", "t", 2, 3, 5, 9, False, True, 60.0),
        IntervalRecord("r", "u", 2, 3, 5, 7, False, True, 40.0, seen=False),
        IntervalRecord("other", "s", 2, 3, 5, 7, True, True, 40.0),
    ]
    await store.record(altered(observation(), intervals=tuple(kept)))
    found = await store.history.intervals("r", 0.0, limit=9)
    assert [(row.source_id, row.captured, row.seen) for row in found] == [
        ("t", False, True),
        ("u", False, False),
        ("s", True, True),
    ]
    assert [row.deadline_s for row in found] == [60.0, 60.0, None]
    assert [row.source_id for row in await store.history.intervals("r", 70.0, limit=1)] == ["t"]
    assert len(await store.history.intervals("r", 70.0, limit=9)) == 2
    weeks = await store.history.rule_week(0.0, 1e9, within_s=50.0)
    assert [(each.rule, each.intervals, each.captured, each.in_time) for each in weeks] == [
        ("other", 1, 1, 1),
        ("r", 3, 1, 1),
    ]
    (week,) = await store.history.rule_week(0.0, 1e9, within_s=50.0, source_id="t")
    assert (week.rule, week.intervals, week.captured) == ("r", 1, 0)


async def test_items_that_came_and_changed_are_counted_by_day(store: SqlStore) -> None:
    day_s = 86400.0
    await store.record(observation(events=(stored(1, "a", at_s=day_s), stored(2, "b", at_s=3 * day_s + 60.0))))
    edit = replace(stored(3, "a", at_s=3 * day_s + 90.0), kind=EventKind.UPDATE, old=Item("a", {}, None, "h"))
    gone = replace(stored(4, "b", at_s=3 * day_s + 95.0), kind=EventKind.DELETE)
    kinds = frozenset({EventKind.UPDATE, EventKind.DELETE})
    await store.record(altered(observation(events=(edit, gone)), kept_kinds=kinds))
    await store.writer.submit(lambda connection: connection.execute(update(items).values(present_s=4 * day_s)))
    found = await store.history.recent_items(["s", "none"], 3 * day_s + 100.0, days=3)
    assert {name: (each.days, each.newest_s) for name, each in found.items()} == {"s": ((1, 0, 2), 3 * day_s + 90.0)}


async def test_changes_are_kept_only_where_a_rule_waits_for_them(store: SqlStore) -> None:
    await store.record(observation(events=(stored(1, "a"),)))
    gone = replace(stored(2, "a"), kind=EventKind.DELETE)
    await store.record(altered(observation(events=(gone,)), kept_kinds=frozenset({EventKind.INSERT})))
    assert await store.load_events("s", 0.0, kind=EventKind.DELETE) == []
    assert await store.known_items("s", StoreQuery(None, fields=False)) == {}


async def test_the_newest_state_of_a_subscription_is_kept_whoever_saved_it(store: SqlStore) -> None:
    """Observations share a commit with those before them: none may overtake what was saved in between."""
    first = Subscription("s", "https://s.example/", "https://hub.example/", "t", callback_id="c")
    saved = [replace(first, pushes=n) for n in range(3)]
    await asyncio.gather(
        store.record(altered(observation(), subscription=saved[0])),
        store.subscriptions.save("s", saved[1]),
        store.record(altered(observation(), subscription=saved[2])),
    )
    assert await store.subscriptions.load() == {"s": saved[2]}
    await store.subscriptions.save("s", None)
    assert await store.subscriptions.load() == {}


async def test_an_observation_is_stored_whole_or_not_at_all(database: str | Path) -> None:
    """A write the database refuses takes nothing of itself along, and ends the writer: the daemon must not go on."""
    broken = observation(notification("n"), events=(stored(2, "b"), stored(2, "c")))

    async def run() -> None:
        async with open_store(database, ChrononGrid(10.0)) as opened, opened.writer.running():
            await opened.record(observation(events=(stored(1, "a"),)))
            with pytest.raises(StoreError, match=r"(?i)unique"):
                await opened.record(broken)
            with pytest.raises(StoreError, match=r"(?i)unique"):
                await opened.record(observation())

    with pytest.raises(StoreError, match=r"(?i)unique"):
        await run()
    async with open_store(database, ChrononGrid(10.0)) as opened:
        assert set(await opened.known_items("s", StoreQuery(("a", "b", "c"), fields=False))) == {"a"}
        assert (await opened.outbox_depth())[0] == 0


async def test_more_items_than_a_statement_takes_are_known(store: SqlStore) -> None:
    events = tuple(stored(n, f"i{n}") for n in range(1, 1301))
    await store.record(observation(events=events))
    assert len(await store.known_items("s", StoreQuery(tuple(e.item.item_id for e in events), fields=False))) == 1300


async def test_a_rule_keeps_its_now_and_its_streams_until_it_is_removed(store: SqlStore) -> None:
    first = declaration(source("a"), rule("r"), rule("other")).rules
    texts = [StoredText("f.profile", "file", "text")]
    assert await store.declarations.accept(texts, first.values(), 10.0) == {"r": 10.0, "other": 10.0}
    await store.record(observation())
    edited = declaration(source("a"), rule("r", query="SELECT link FROM RSS")).rules
    assert await store.declarations.accept(texts, edited.values(), 20.0) == {"r": 10.0}
    assert await store.load_streams() != {}
    changed = declaration(source("a"), rule("r", when="title = 'x'")).rules
    assert await store.declarations.accept([], changed.values(), 30.0) == {"r": 10.0}
    assert await store.load_streams() != {}
    assert await store.declarations.accept([], [], 40.0) == {}
    assert await store.load_streams() == {}
    assert await store.declarations.accept([], changed.values(), 50.0) == {"r": 50.0}
    assert await store.declarations.load_texts() == []


async def test_a_lane_gives_out_one_delivery_at_a_time_in_order(store: SqlStore) -> None:
    await store.record(observation(notification("1", endpoints=2), notification("2"), notification("x", rule_name="q")))
    due = await due_deliveries(store, 5.0, limit=10)
    assert [(d.notification_id, d.endpoint) for d in due] == [
        ("1", "https://r0.example/"),
        ("1", "https://r1.example/"),
        ("x", "https://r0.example/"),
    ]
    await store.record_delivery(due[0], 6.0)
    assert [d.notification_id for d in await due_deliveries(store, 6.0, limit=10)] == ["1", "2", "x"]


async def test_a_failing_delivery_holds_its_lane_back_for_a_while(store: SqlStore) -> None:
    await store.record(observation(notification("1"), notification("2")))
    first = (await due_deliveries(store, 10.0, limit=10))[0]
    await store.record_failure(first, 10.0, next_s=2000.0, error="503")
    assert await next_due_s(store, 609.0) == 610.0
    assert [d.notification_id for d in await due_deliveries(store, 611.0, limit=10)] == ["2"]


async def test_dead_letters_are_kept_and_can_be_replayed_with_the_same_bytes(store: SqlStore) -> None:
    await store.record(observation(notification("1")))
    first = (await due_deliveries(store, 10.0, limit=10))[0]
    await store.record_failure(first, 10.0, next_s=None, error="gone")
    assert await store.outbox_depth() == (0, None, 0, 1)
    assert await store.replay("1", 20.0) == 1
    again = (await due_deliveries(store, 20.0, limit=10))[0]
    assert (again.notification_id, again.body, again.attempts) == ("1", b"1", 0)
    with pytest.raises(NotFoundError):
        await store.replay("nothing", 20.0)


async def test_notifications_are_listed_newest_first_with_their_deliveries(store: SqlStore) -> None:
    await store.record(observation(*[notification(str(n)) for n in range(5)]))
    page = (await store.history.find_notifications(Wanted(rules=frozenset({"r"})), before=None, limit=2)).rows
    assert [row.notification_id for row in page] == ["4", "3"]
    assert page[0].deliveries[0].state == "pending"
    rest = (await store.history.find_notifications(Wanted(), before=page[-1].position, limit=9)).rows
    assert [row.notification_id for row in rest] == ["2", "1", "0"]
    assert (
        await store.history.find_notifications(Wanted(rules=frozenset({"unknown"})), before=None, limit=2)
    ).rows == []


async def test_lists_of_notifications_hold_a_bounded_number_of_bytes(store: SqlStore) -> None:
    sizes = [1, MOST_BYTES, MOST_BYTES // 2, MOST_BYTES // 2, 9, 3 * MOST_BYTES]
    told = [replace(notification(str(n)), body=b"x" * size) for n, size in enumerate(sizes)]
    await store.record(observation(*told))
    pages, before, found = list[list[str]](), None, StoredNotifications([])
    while not pages or found.rest is not None:
        found = await store.history.find_notifications(Wanted(), before=before, limit=4)
        pages.append([row.notification_id for row in found.rows])
        assert found.rest in {found.rows[-1].position, None}
        before = found.rest
    assert pages == [["5"], ["4", "3"], ["2"], ["1"], ["0"]]
    pages, last, until = [], 0, await store.history.newest_position()
    while last < until:
        found = await store.history.find_between(Wanted(), last, until, limit=4)
        pages.append([row.notification_id for row in found.rows])
        last = found.rows[-1].position
    assert (pages, found.rest) == ([["0"], ["1"], ["2", "3"], ["4"], ["5"]], None)


async def test_tokens_are_unique_by_name(store: SqlStore) -> None:
    token = Token("abc", "n", "read", "hash", 1.0, None)
    await store.access.add_token(token)
    assert await store.access.find_token("abc") == token
    assert await store.access.find_token("abd") is None
    with pytest.raises(ConflictError, match="named 'n'"):
        await store.access.add_token(replace(token, token_id="other"))


async def test_accounts_add_up_by_day_and_expire(store: SqlStore) -> None:
    day_s, one = 86400.0, Calibration(1, 2, 1.5, 2, 1.5, 60.0, 45.0, 2, 1.25, 1, 0.5)

    def fit(at_s: float) -> ModelFit:
        gaps = ItemGaps(5.0, 3.0, 6.0, 1.5, 4.0)
        return ModelFit(-6.0, 3.0, 2.5, 1.0, at_s, 2.0, 3.0, gaps=gaps, recent=b"\x00\xff")

    rate = RateEvidence((1.0, 2.0), (3.0, 4.0), 5.0, (0.5, 1.5))
    for name, at_s in (("a", 5.0), ("a", 7.0), ("b", 6.0), ("a", day_s + 1.0), ("a", 9 * day_s)):
        outcome = ProbeOutcome(name, OutcomeKind.CHANGED, at_s, at_s, 200)
        state = SourceState(name, "https://s.example/", fit=fit(at_s), rate=rate)
        await store.record(observed(state, outcome, calibration=one))
    three = Calibration(3, 6, 4.5, 6, 4.5, 180.0, 135.0, 6, 3.75, 3, 1.5)
    assert await store.history.accounts(0.0) == [(0, three), (1, one), (9, one)]
    assert [day for day, _ in await store.history.accounts(1.5 * day_s)] == [1, 9]
    late = ProbeOutcome("a", OutcomeKind.CHANGED, 8.5 * day_s, 8.5 * day_s, 200)
    await store.record(observed(SourceState("a", "https://s.example/"), late, calibration=one))
    assert await store.history.accounts(0.0) == [(0, three), (1, one), (8, one), (9, one)]
    assert (await store.load_states())["b"].fit == fit(6.0)
    assert (await store.load_states())["b"].rate == rate
    assert await expire(store.writer, 10 * day_s, retention_s=8.5 * day_s) == 1
    assert [day for day, _ in await store.history.accounts(0.0)] == [1, 8, 9]


async def test_old_rows_expire_but_not_what_is_shown_or_on_its_way(store: SqlStore) -> None:
    await store.record(observation(*(notification(n) for n in ("pending", "sent", "newest")), events=(stored(1, "a"),)))
    lane = (await due_deliveries(store, 5.0, limit=10))[0]
    await store.record_failure(lane, 5.0, next_s=1e9, error="x")
    for _ in range(2):
        later = (await due_deliveries(store, 900.0, limit=10))[0]
        await store.record_delivery(later, 900.0)
    assert await expire(store.writer, 1e6, retention_s=100.0) == 2  # the interval and "sent"
    listed = (await store.history.find_notifications(Wanted(), before=None, limit=9)).rows
    assert [row.notification_id for row in listed] == ["newest", "pending"]


async def test_the_window_a_source_showed_last_is_known_however_long_ago_that_was(store: SqlStore) -> None:
    await store.record(observation(events=(stored(1, "gone"), stored(2, "still there"))))
    later = altered(observation(), outcome=replace(OUTCOME, finished_s=500.0), present=("still there",))
    await store.record(later)
    await expire(store.writer, 1e9, retention_s=100.0)
    assert set(await store.known_items("s", StoreQuery(("gone", "still there"), fields=False))) == {"still there"}


async def test_how_the_planner_stands_is_stored_with_an_observation(store: SqlStore) -> None:
    interval = ("r", ("intervals", 3, 1, None, True), (1.5, 0.01, 0.02, 4, 2, (10.0, 20.0)))
    demands = (interval, ("u", ("uniform", 10.0), (30.0,)))
    record = SourceRecord(2.0, 0.01, 4.0, 0.02, (1.0, 2.0), 3.0, 2.5, 0.25, 9.0, demands)
    shared = [
        FleetRecord((1.0, trust), (2.0, 3.0), (trust, 0.0), memory="Zm9v", thinning=(trust, 2.0))
        for trust in (0.1, 0.2)
    ]
    await store.record(replace(observation(), record=record, fleet=shared[0]))
    await store.record(replace(observation(), record=record, fleet=shared[1]))
    assert await store.plan.load_sources() == {"s": record}
    assert await store.plan.load_fleet() == shared[1]
    assert await store.load_states() == {"s": observation().state}


async def test_what_siblings_say_is_stored_with_them_until_a_source_is_seen(store: SqlStore) -> None:
    record = SourceRecord(2.0, 0.01, 4.0)
    seen = replace(observation(), record=record)
    await store.record(seen)
    await store.record(replace(altered(observation(), state=replace(seen.state, source_id="other")), hints=(HINT,)))
    assert await store.plan.load_sources() == {"s": replace(record, hidden=0.5, hidden_since_s=3.0)}
    await store.record(seen)
    assert await store.plan.load_sources() == {"s": record}


async def test_the_last_plan_is_stored(store: SqlStore) -> None:
    assert await store.plan.load() is None
    for made_s in (5.0, 7.0):
        await store.plan.save(StoredPlan(1.0, made_s, "settings", b"\x00body"))
    assert await store.plan.load() == StoredPlan(1.0, 7.0, "settings", b"\x00body")


async def test_a_long_queue_of_one_receiver_hides_no_other(store: SqlStore) -> None:
    stuck = [notification(f"stuck {n}") for n in range(50)]
    await store.record(observation(*stuck, notification("other", rule_name="q")))
    for _ in range(3):
        first = (await due_deliveries(store, 10.0, hold_s=0.0, limit=1))[0]
        await store.record_failure(first, 10.0, next_s=10.0, error="x")
    due = await due_deliveries(store, 20.0, hold_s=0.0, limit=2)
    assert [d.notification_id for d in due] == ["stuck 0", "other"]
    rest = await due_deliveries(store, 20.0, hold_s=0.0, limit=2, busy={due[0].lane})
    assert [d.notification_id for d in rest] == ["other"]


async def test_a_backup_is_a_whole_database(store: SqlStore, tmp_path: Path) -> None:
    seen = observation(notification("1"))
    await store.record(seen)
    await store.upkeep.checkpoint()
    await store.upkeep.backup(tmp_path / "copy.db")
    async with open_store(tmp_path / "copy.db", ChrononGrid(10.0)) as copy:
        assert await copy.load_states() == {"s": seen.state}
        assert (await copy.outbox_depth())[0] == 1


async def test_a_copy_holds_what_the_original_does_and_goes_on_counting(
    database: str | Path, tmp_path: Path, postgresql: PostgresServer
) -> None:
    for target in (tmp_path / "copy.db", postgresql.create()):
        await _copied(database, target)


async def _copied(database: str | Path, target: str | Path) -> None:
    grid = ChrononGrid(10.0)
    async with open_store(database, grid) as source, source.writer.running():
        await source.record(observation(notification("1"), events=(stored(1, "a"), stored(2, "b"))))
        before = (
            await source.load_states(),
            (await source.history.find_notifications(Wanted(), before=None, limit=9)).rows,
        )
    counts = await copy_database(database, target)
    assert (counts["items"], counts["notifications"], counts["webhooks"]) == (2, 1, 0)
    async with open_store(target, grid) as copy, copy.writer.running():
        assert (
            await copy.load_states(),
            (await copy.history.find_notifications(Wanted(), before=None, limit=9)).rows,
        ) == before
        await copy.record(observation(notification("2")))
        newer, older = (await copy.history.find_notifications(Wanted(), before=None, limit=9)).rows
        assert newer.position == older.position + 1
    with pytest.raises(StoreError, match="not empty"):
        await copy_database(database, target)
    async with open_store(database, grid) as source, source.writer.running():
        await source.writer.submit(_empty)


def _empty(connection: Connection) -> None:
    for table in reversed(metadata.sorted_tables):
        connection.execute(table.delete())


async def test_six_tasks_that_read_and_write_lose_no_update(store: SqlStore) -> None:
    """The trap: with the driver's own transactions 490 of 600 such updates were lost."""
    await store.record(observation())

    async def count() -> None:
        for _ in range(100):
            await store.writer.submit(increment)

    def increment(connection: Connection) -> None:
        found = connection.execute(select(sources.c.failures)).scalar_one()
        connection.execute(update(sources).values(failures=found + 1))

    await asyncio.gather(*(count() for _ in range(6)))
    assert (await store.load_states())["s"].failures == 600


def test_a_database_has_one_owner_also_by_another_path(tmp_path: Path) -> None:
    (tmp_path / "linked").mkdir()
    link = tmp_path / "linked" / "other.db"
    link.symlink_to(tmp_path / "p.db")
    for path in (tmp_path / "p.db", link):
        with (
            owner_lock(tmp_path / "p.db"),
            pytest.raises(StoreError, match="in use by another proxyd"),
            owner_lock(path),
        ):
            pass


async def test_a_store_that_was_closed_leaves_no_thread_behind(tmp_path: Path) -> None:
    """The trap: threads that nobody ends keep the process from ending."""
    async with open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(10.0)) as opened, opened.writer.running():
        await opened.record(observation())
        assert any(thread.name.startswith("store-writer") for thread in threading.enumerate())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("store-")]


async def test_since_when_a_source_is_declared_is_kept_while_it_is(store: SqlStore) -> None:
    assert await store.declarations.declare_sources(["a", "b"], 10.0) == {"a": 10.0, "b": 10.0}
    assert await store.declarations.declare_sources(["a", "c"], 20.0) == {"a": 10.0, "c": 20.0}
    assert await store.declarations.declare_sources(["a", "b"], 30.0) == {"a": 10.0, "b": 30.0}


async def test_a_probe_comes_back_with_what_it_cost(store: SqlStore) -> None:
    outcome = replace(OUTCOME, requests=3, body_bytes=12)
    seen = observed(SourceState("s", "https://s.example/"), outcome, probe=Probe("s", 0, Reason.DETECTION))
    await store.record(seen)
    (probe,) = await store.history.made_probes("s", before=None, limit=2)
    assert (probe.requests, probe.body_bytes, probe.duration_s) == (3, 12, 1.0)
