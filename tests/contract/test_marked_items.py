"""What a person reads: views, marks, and up to where a source was read, in every database."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest
from sqlalchemy import func, select

from proxyd.core.model.item import EventKind, Item
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.rules.known.state import SourceState, StoredEvent
from proxyd.store import item_rows
from proxyd.store.databases import tables as t
from proxyd.store.item_rows import SHOWN_SEEDS, FullText, Shelf, View
from proxyd.store.retention import expire
from proxyd.store.sql_store import SqlStore
from tests.observations import observed


def item(source: str, seq: int, *, at_s: float = 2.0, seed: bool = False) -> StoredEvent:
    fields = {"channel.item.title": f"{source}{seq}", "channel.item.link": f"https://{source}.example/{seq}"}
    return StoredEvent(seq, Item(f"i{seq}", fields, at_s, f"h{seq}"), at_s, at_s, True, seed)


async def record(store: SqlStore, source: str, *events: StoredEvent, at_s: float = 2.0) -> None:
    outcome = ProbeOutcome(source, OutcomeKind.CHANGED, at_s - 1.0, at_s, 200)
    state = SourceState(source, f"https://{source}.example/", next_seq=1 + len(events))
    present = [each.item.item_id for each in events if each.kind is EventKind.INSERT]
    await store.record(observed(state, outcome, events=events, present=present))


async def titles(store: SqlStore, shelf: Shelf, *, limit: int = 50) -> list[str]:
    """Return the titles of all pages of a shelf."""
    found, before = list[str](), None
    while True:
        page = await store.reading.find(shelf, before=before, limit=limit)
        found += [each.title for each in page.items]
        if page.rest is None:
            return found
        before = page.rest


async def positions(store: SqlStore) -> dict[str, int]:
    page = await store.reading.find(Shelf(View.ALL), before=None, limit=500)
    return {each.title: each.position for each in page.items}


async def test_new_items_are_unread_and_of_those_at_first_contact_only_the_newest(store: SqlStore) -> None:
    await record(store, "a", *(item("a", seq, seed=True) for seq in range(1, SHOWN_SEEDS + 6)))
    await record(store, "a", item("a", SHOWN_SEEDS + 6))
    unread = [f"a{seq}" for seq in range(SHOWN_SEEDS + 6, 5, -1)]
    assert await titles(store, Shelf()) == unread
    assert await titles(store, Shelf(), limit=3) == unread
    assert len(await titles(store, Shelf(View.ALL))) == SHOWN_SEEDS + 6
    counts = await store.reading.count(Shelf())
    assert (dict(counts.by_source), counts.is_more) == ({"a": SHOWN_SEEDS + 1}, False)


async def test_a_change_of_a_page_is_an_item_to_read_and_none_of_the_source(store: SqlStore) -> None:
    kettle = Item("kettle", {"name": "Kettle", "price": 30, "link": "https://a.example/1"}, None, "h1")
    cheap = replace(kettle, fields=dict(kettle.fields) | {"price": 25}, content_hash="h2")
    await record(store, "a", StoredEvent(1, kettle, 2.0, 2.0, False, seed=True))
    change = StoredEvent(2, cheap, 6.0, 8.0, False, seed=False, kind=EventKind.UPDATE, old=kettle)
    outcome = ProbeOutcome("a", OutcomeKind.CHANGED, 7.0, 8.0, 200)
    state = SourceState("a", "https://a.example/", next_seq=3)
    await store.record(observed(state, outcome, events=[change], edited=[cheap], present=["kettle"]))
    await record(store, "f", item("f", 1), at_s=9.0)
    new = replace(item("f", 1).item, content_hash="h2")
    of_feed = replace(item("f", 2), item=new, kind=EventKind.UPDATE, old=item("f", 1).item)
    await record(store, "f", of_feed, at_s=9.0)  # a feed's item is read as it is now
    page = await store.reading.find(Shelf(), before=None, limit=9)
    told = [(each.title, each.text, each.event, each.is_update, each.is_gone) for each in page.items]
    assert told == [
        ("f1", "", 1, False, False),
        ("Kettle", "30 → 25", 2, True, False),
        ("Kettle", "25", 1, False, False),
    ]
    found = await store.items.search("kettle", source_id="a", before=None, limit=9)
    assert [each.event for each in found] == [2, 1]
    assert [each.seq for each in await store.history.events("a", before=None, limit=9)] == [2, 1]
    assert [each.item_id for each in await store.present_items("a")] == ["kettle"]
    assert len(await store.load_events_after("a", 0, kind=EventKind.INSERT, limit=9)) == 1
    assert (await store.history.recent_items(["a"], 9.0, days=1))["a"].days == (2,)
    await store.reading.mark([page.items[1].position], now_s=9.0, read=True, starred=True)
    assert await titles(store, Shelf(View.STARRED)) == ["Kettle"]
    assert await titles(store, Shelf()) == ["f1", "Kettle"]


async def test_today_shows_what_came_since_a_time_read_or_not(store: SqlStore) -> None:
    for seq, at_s in enumerate([1000.0, 90_000.0, 90_010.0], start=1):
        await record(store, "a", item("a", seq, at_s=at_s), at_s=at_s)
    at = await positions(store)
    await store.reading.mark([at["a2"]], now_s=1.0, read=True)
    page = await store.reading.find(Shelf(View.TODAY, since_s=86_400.0), before=None, limit=9)
    assert [(each.title, each.is_read) for each in page.items] == [("a3", False), ("a2", True)]


async def test_an_item_keeps_its_star_and_is_unread_again_below_what_was_read(store: SqlStore) -> None:
    for source in "ab":
        await record(store, source, *(item(source, seq) for seq in (1, 2, 3)))
    at = await positions(store)
    await store.reading.mark([at["a1"], at["b1"]], now_s=5.0, starred=True)
    await store.reading.mark_up_to(at["b3"])
    assert await titles(store, Shelf()) == []
    await store.reading.mark([at["a2"], at["b1"]], now_s=6.0, read=False)
    assert await titles(store, Shelf()) == ["b1", "a2"]
    assert await titles(store, Shelf(sources=frozenset("a"))) == ["a2"]
    assert await titles(store, Shelf(View.STARRED)) == ["b1", "a1"]
    assert await titles(store, Shelf(View.STARRED, sources=frozenset("b"))) == ["b1"]
    await store.reading.mark_up_to(at["b3"], ["b"])
    assert await titles(store, Shelf()) == ["a2"]
    await store.reading.mark([at["b1"]], now_s=7.0, starred=False)
    assert await titles(store, Shelf(View.STARRED)) == ["a1"]


async def test_marks_are_those_of_a_person(store: SqlStore) -> None:
    await record(store, "a", item("a", 1), item("a", 2))
    at = await positions(store)
    await store.reading.mark([at["a1"]], now_s=5.0, read=True, starred=True, person="anna")
    await store.reading.mark_up_to(at["a2"], ["a"], "anna")
    assert await titles(store, Shelf(person="anna")) == []
    assert await titles(store, Shelf()) == ["a2", "a1"]
    assert await titles(store, Shelf(View.STARRED)) == []
    article = await store.reading.article(at["a1"], "anna")
    assert article is not None
    assert (article.item.is_starred, article.fields["channel.item.title"]) == (True, "a1")


async def test_what_is_not_there_cannot_be_marked(store: SqlStore) -> None:
    assert await store.reading.mark([7], now_s=5.0, read=True) == 0
    assert await store.reading.article(7) is None
    assert await store.reading.newer(Shelf(View.ALL), 7) is None


async def test_starred_items_outlive_retention_and_marks_go_with_their_items(store: SqlStore) -> None:
    await record(store, "a", *(item("a", seq) for seq in (1, 2, 3)))
    at = await positions(store)
    await store.reading.mark([at["a1"]], now_s=5.0, starred=True)
    await store.reading.mark([at["a2"]], now_s=5.0, read=True)
    gone = [replace(item("a", 3 + seq), item=item("a", seq).item, kind=EventKind.DELETE) for seq in (1, 2, 3)]
    await record(store, "a", *gone, at_s=900.0)
    await record(store, "b", item("b", 1))
    await expire(store.writer, 1000.0, retention_s=500.0)
    assert set(await positions(store)) == {"a1", "b1"}
    count = select(func.count()).select_from(t.marks)
    assert await store.writer.submit(lambda on: on.scalar(count)) == 1
    await store.reading.mark([at["a1"]], now_s=5.0, starred=False)
    await expire(store.writer, 1000.0, retention_s=500.0)
    assert set(await positions(store)) == {"b1"}


async def test_the_text_of_a_page_is_kept_as_long_as_its_item(store: SqlStore) -> None:
    await record(store, "a", item("a", 1))
    at = await positions(store)
    for text in (FullText("", "status 503", 5.0), FullText("<p>x</p>", "", 9.0)):
        await store.reading.keep_full(at["a1"], text)
        article = await store.reading.article(at["a1"])
        assert article is not None
        assert article.full == text
    await store.reading.keep_full(99, FullText("", "gone", 5.0))
    gone = replace(item("a", 2), item=item("a", 1).item, kind=EventKind.DELETE)
    await record(store, "a", gone, at_s=900.0)
    await record(store, "b", item("b", 1))
    await expire(store.writer, 1000.0, retention_s=500.0)
    count = select(func.count()).select_from(t.articles)
    assert await store.writer.submit(lambda on: on.scalar(count)) == 0


async def test_the_newest_item_stays_so_that_no_other_gets_its_position(store: SqlStore) -> None:
    await record(store, "a", item("a", 1), item("a", 2))
    gone = [replace(item("a", 2 + seq), item=item("a", seq).item, kind=EventKind.DELETE) for seq in (1, 2)]
    await record(store, "a", *gone, at_s=900.0)
    await expire(store.writer, 1000.0, retention_s=500.0)
    assert set(await positions(store)) == {"a2"}


async def test_a_page_looks_at_a_limited_number_of_items(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await record(store, "a", *(item("a", seq) for seq in range(1, 41)))
    at = await positions(store)
    monkeypatch.setattr(item_rows, "_MOST_SCANNED", 10)
    await store.reading.mark([at[f"a{seq}"] for seq in range(10, 41)], now_s=5.0, read=True)
    page = await store.reading.find(Shelf(), before=None, limit=5)
    assert (page.items, page.rest) == ([], at["a31"])
    assert await titles(store, Shelf(), limit=5) == [f"a{seq}" for seq in range(9, 0, -1)]
    assert (await store.reading.count(Shelf())).is_more


@dataclass
class Model:
    """Marks as a person thinks of them: a set of unread items, and a set of starred ones."""

    items: list[str] = field(default_factory=list)  # in order
    unread: set[str] = field(default_factory=set)
    starred: set[str] = field(default_factory=set)

    def shelf(self, view: View, sources: frozenset[str] | None) -> list[str]:
        kept = {View.UNREAD: self.unread, View.STARRED: self.starred}.get(view, set(self.items))
        return [each for each in reversed(self.items) if each in kept and (sources is None or each[0] in sources)]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
async def test_marks_and_views_equal_sets_of_items(store: SqlStore, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, model, seqs = random.Random(seed), Model(), dict.fromkeys("abcd", 0)
    monkeypatch.setattr(item_rows, "_FEW_SOURCES", 2)  # so that three sources count as many
    for step in range(40):
        at = await positions(store)
        known = rng.sample(model.items, min(len(model.items), rng.randint(1, 4)))
        chosen = frozenset(rng.sample("abcd", rng.randint(1, 3)))
        what = rng.choice(["insert", "insert", "read", "unread", "star", "unstar", "up to", "up to sources"])
        if what == "insert":
            source, count = rng.choice("abcd"), rng.randint(1, 5)
            new = [item(source, seqs[source] + 1 + n, at_s=10.0 + step) for n in range(count)]
            seqs[source] += count
            await record(store, source, *new, at_s=10.0 + step)
            names = [f"{source}{each.seq}" for each in new]
            model.items += names
            model.unread |= set(names)
        elif what in {"read", "unread"}:
            await store.reading.mark([at[name] for name in known], now_s=float(step), read=what == "read")
            model.unread = model.unread - set(known) if what == "read" else model.unread | set(known)
        elif what in {"star", "unstar"}:
            await store.reading.mark([at[name] for name in known], now_s=float(step), starred=what == "star")
            model.starred = model.starred - set(known) if what == "unstar" else model.starred | set(known)
        elif known:
            sources = None if what == "up to" else chosen
            covered = {n for n in model.items if at[n] <= at[known[0]] and (sources is None or n[0] in sources)}
            await store.reading.mark_up_to(at[known[0]], sources)
            model.unread -= covered
        for view in (View.UNREAD, rng.choice([View.ALL, View.STARRED])):
            for sources in (None, chosen):
                expected = model.shelf(view, sources)
                assert await titles(store, Shelf(view, sources), limit=rng.choice([5, 50])) == expected, (step, what)
        assert (await store.reading.count(Shelf(sources=chosen))).total == len(model.shelf(View.UNREAD, chosen))
        if known:
            at, on_shelf = await positions(store), model.shelf(View.ALL, chosen)[::-1]
            newer = next((at[name] for name in on_shelf if at[name] > at[known[0]]), None)
            assert await store.reading.newer(Shelf(View.ALL, chosen), at[known[0]]) == newer


async def test_items_are_counted_up_to_a_limit(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in "abc":
        await record(store, source, *(item(source, seq) for seq in range(1, 5)))
    assert [await store.reading.total(each) for each in (None, {"a", "c"}, {"x"}, set[str]())] == [12, 8, 0, 0]
    monkeypatch.setattr(item_rows, "_CHUNK", 1)
    monkeypatch.setattr(item_rows, "MOST_TOTAL", 6)
    assert [await store.reading.total(each) for each in (None, {"a", "b", "c"}, {"b"})] == [6, 6, 4]
