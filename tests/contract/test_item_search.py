"""Stored items are found by their words, and updates that no rule awaits are kept for people; in every database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar, cast

import pytest
from sqlalchemy import Connection, select

from proxyd.core.errors import BadSearchError, BusyError
from proxyd.core.model.item import EventKind, Item, Value
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.rules.known.state import SourceState, StoredEvent
from proxyd.probing.documents.document_texts import clean
from proxyd.store import item_rows
from proxyd.store.databases import tables as t
from proxyd.store.item_rows import SqlItemSearch
from proxyd.store.retention import expire, expire_items, fitting_since_s, measure_items
from proxyd.store.rows import MOST_BEGUN, MOST_TERMS, MOST_WORDS, words_of
from proxyd.store.sql_store import SqlStore
from tests.hostile import CONTROLS, HUGE, MARKUP
from tests.observations import altered, observed

T = TypeVar("T")
DAY_S = 86400.0


def news(seq: int, title: str, text: str = "", *, at_s: float = 2.0, **others: Value) -> StoredEvent:
    link = f"https://s.example/{seq}"
    fields = {"channel.item.title": title, "channel.item.description": text, "channel.item.link": link, **others}
    return StoredEvent(seq, Item(f"i{seq}", fields, at_s, f"h{seq}"), at_s, at_s, True, False)


async def record(store: SqlStore, *events: StoredEvent, source: str = "s", at_s: float = 2.0) -> None:
    outcome = ProbeOutcome(source, OutcomeKind.CHANGED, at_s - 1.0, at_s, 200)
    state = SourceState(source, f"https://{source}.example/", next_seq=1 + len(events))
    await store.record(observed(state, outcome, events=events, present=[each.item.item_id for each in events]))


async def found(store: SqlStore, text: str, *, source: str | None = None, limit: int = 9) -> list[str]:
    return [each.item_id for each in await store.items.search(text, source_id=source, before=None, limit=limit)]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("kernel", ["i3", "i1"]),
        ("KERNEL 6.18", ["i1"]),
        ('"long term"', ["i1"]),
        ('"term long"', []),
        ("term long", ["i1"]),
        ("kern*", ["i4", "i3", "i1"]),
        ("kern", []),
        ("kernel -panic", ["i1"]),
        ("zlutoucky", ["i2"]),
        ("ŽLUŤOUČKÝ kůň", ["i2"]),
        ("amp", []),
        ("R&D", ["i2"]),
        ("script", []),
        ("evil", []),
        ("дом", ["i4"]),
        ("ДОМ -kernel", ["i4"]),
        ("д*", ["i4"]),
        ("example", []),
        ("words : kernel", []),
        ('kernel"', ["i3", "i1"]),
    ],
)
async def test_a_search_finds_words_phrases_and_beginnings(store: SqlStore, text: str, ids: list[str]) -> None:
    await record(
        store,
        news(1, "Kernel 6.18", "<p>A <b>long</b>-term release</p>"),
        news(2, "Žluťoučký kůň", "R&amp;D <script>evil()</script>"),
        news(3, "Kernel panic"),
        news(4, "Дом", "kernels"),
    )
    assert await found(store, text) == ids


async def test_a_search_pages_from_the_newest_on_and_keeps_to_a_source(store: SqlStore) -> None:
    await record(store, *(news(number, f"Release {number}") for number in range(1, 6)), source="my-source")
    await record(store, *(news(number, f"Release {number}") for number in range(1, 3)), source="my_source")
    first = await store.items.search("release", source_id=None, before=None, limit=4)
    assert [(each.source_id, each.title) for each in first[:3]] == [
        ("my_source", "Release 2"),
        ("my_source", "Release 1"),
        ("my-source", "Release 5"),
    ]
    rest = await store.items.search("release", source_id=None, before=first[-1].position, limit=9)
    assert [each.title for each in rest] == ["Release 3", "Release 2", "Release 1"]
    assert len(await found(store, "release", source="my-source")) == 5
    assert await found(store, "release", source="source") == []
    assert first[0].link == "https://s.example/2"
    assert first[0].is_exact


async def test_a_search_finds_items_as_they_are_now_and_not_what_was_deleted(store: SqlStore) -> None:
    await record(store, news(1, "Kettle on sale"), news(2, "Teapot"), news(9, "The newest item stays"))
    new = replace(news(1, "Kettle sold out").item, content_hash="other")
    outcome = ProbeOutcome("s", OutcomeKind.CHANGED, 2.0, 3.0, 200)
    await store.record(altered(observed(SourceState("s", "https://s.example/"), outcome), edited=(new,)))
    assert (await found(store, "sale"), await found(store, "sold")) == ([], ["i1"])
    gone = replace(news(3, "Teapot"), item=news(2, "Teapot").item, kind=EventKind.DELETE)
    await record(store, gone, at_s=900.0)
    (teapot,) = await store.items.search("teapot", source_id=None, before=None, limit=9)
    assert teapot.is_gone
    await expire(store.writer, 1000.0, retention_s=500.0)
    assert await found(store, "teapot") == []


@pytest.mark.parametrize(
    "text",
    ["", "  ", "-kernel", '"" - *', "a " * (MOST_TERMS + 1), "kernel a*", "A*", "ab* " * (MOST_BEGUN + 1)],
)
async def test_a_search_for_nothing_or_too_much_is_refused(store: SqlStore, text: str) -> None:
    with pytest.raises(BadSearchError):
        await found(store, text)


def test_only_the_beginning_of_long_texts_is_read() -> None:
    expands = "\N{ARABIC LIGATURE SALLALLAHOU ALAYHE WASALLAM}" * 60_000  # each becomes eighteen characters
    found = words_of({"title": "calm", **{f"f{number}": f"{number}{expands}" for number in range(40)}})
    assert found.startswith("calm 0")
    assert len(found) <= MOST_WORDS


class Held:
    """Connections of which each call waits until ``free`` is set."""

    def __init__(self) -> None:
        self.free = asyncio.Event()
        self.under_way = 0

    async def call(self, _function: Callable[[Connection], T]) -> T:
        self.under_way += 1
        await self.free.wait()
        self.under_way -= 1
        return cast("T", [])


async def test_one_search_runs_at_a_time_and_none_waits_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held()
    searches = SqlItemSearch(held)
    waiting = [asyncio.create_task(searches.search("kernel", source_id=None, before=None, limit=9)) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert held.under_way == 1
    monkeypatch.setattr(item_rows, "_MOST_WAIT_S", 0.0)
    with pytest.raises(BusyError, match="other searches take long; try again in a few seconds"):
        await searches.search("kernel", source_id=None, before=None, limit=9)
    held.free.set()
    assert await asyncio.gather(*waiting) == [[], [], []]


async def test_hostile_titles_are_stored_and_never_break_a_search(store: SqlStore) -> None:
    titles = [clean(each) for each in (MARKUP | CONTROLS | HUGE).values()]
    await record(store, *(news(number, title) for number, title in enumerate(titles, start=1)), news(900, "calm"))
    for title in titles:
        try:
            listed = await found(store, title[:900], limit=500)
        except BadSearchError:
            continue
        assert listed == sorted(listed, key=lambda name: -int(name[1:]))
    assert await found(store, "calm") == ["i900"]


async def test_an_update_that_no_rule_awaits_is_kept_once_a_day_with_what_the_item_was(store: SqlStore) -> None:
    await record(store, news(1, "Kettle for 30"))
    for seq, (title, at_s) in enumerate([("25", 100.0), ("24", 200.0), ("23", 200.0 + DAY_S)], start=2):
        update = replace(news(seq, f"Kettle for {title}", at_s=at_s), kind=EventKind.UPDATE)
        update = replace(update, item=replace(update.item, item_id="i1"))
        state = SourceState("s", "https://s.example/", next_seq=seq + 1, unawaited=seq - 1)
        outcome = ProbeOutcome("s", OutcomeKind.CHANGED, at_s - 1.0, at_s, 200)
        await store.record(altered(observed(state, outcome), unawaited=(update,), edited=(update.item,)))
    kept = await store.history.events("s", before=None, limit=9)
    titles = [(e.seq, e.old and e.old.fields["channel.item.title"], e.item.fields["channel.item.title"]) for e in kept]
    assert titles == [
        (4, "Kettle for 24", "Kettle for 23"),
        (2, "Kettle for 30", "Kettle for 25"),
        (1, None, "Kettle for 30"),
    ]
    assert (await store.load_states())["s"].items_seen == 1


async def test_items_are_measured_by_day_and_the_oldest_days_go_first(store: SqlStore) -> None:
    for day in range(5):
        at_s = (20_000.25 + day) * DAY_S
        await record(store, news(day + 1, f"Item {day}", "x" * 500, at_s=at_s), at_s=at_s)
    sizes = await measure_items(store.read)
    assert sizes.items == 5
    assert list(sizes.bytes_by_day) == [20_000 + day for day in range(5)]
    assert 5 * 1000 < sizes.total_bytes < 5 * 1500
    assert fitting_since_s(sizes, sizes.total_bytes) is None
    since_s = fitting_since_s(sizes, sizes.total_bytes * 0.5)
    assert since_s == 20_003 * DAY_S
    assert await expire_items(store.writer, since_s) == 3
    left = await store.writer.submit(lambda c: c.scalars(select(t.items.c.seq).order_by(t.items.c.seq)).all())
    assert list(left) == [4, 5]
    assert fitting_since_s(await measure_items(store.read), 0.0) == 20_004 * DAY_S
