"""A database of the version before: items that it knew under another identity, or took for one, fire nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.item import Item
from proxyd.core.rates.rate_blend import NO_EVIDENCE
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.stages.observation import Observation
from proxyd.probing.document_parser import parse_document
from proxyd.probing.documents.document_texts import digest
from proxyd.store.backups import open_connections, open_store
from proxyd.store.sql_store import SqlStore
from tests.databases import migrated_file
from tests.fleets import changed, decider, declaration, rule, source
from tests.former import V0_1, former_file, without_rows

NOON_S = 1772366400.0  # 2026-03-01
T0 = NOON_S + 10_000.0
_UPDATES = rule("u").replace("ON INSERT", "ON UPDATE")


def feed(items: str) -> tuple[Item, ...]:
    return parse_document(f"<rss version='2.0'><channel>{items}</channel></rss>".encode()).items


def hashed(*texts: str | None) -> str:
    return "hash:" + digest(texts)


def stored(item_id: str, *content: str | None, published_s: float | None = None) -> dict[str, Any]:
    """Return an item as that version stored it: ``content`` is title, description, content, link and enclosure."""
    fields = json.dumps({"channel.item.title": content[0]})
    return {"item_id": item_id, "hash": digest(content), "fields": fields, "published_s": published_s}


CASES: Mapping[str, tuple[str, list[dict[str, Any]]]] = {
    "a date tells apart what has no guid": (
        "".join(
            f"<item><title>up</title><pubDate>Sun, 01 Mar 2026 {hour}:00:00 GMT</pubDate></item>"
            for hour in (12, 11, 10)
        ),
        [stored(hashed("up", None), "up", None, None, None, None, published_s=NOON_S)],
    ),
    "an enclosure tells apart what has no guid": (
        "".join(f"<item><title>a</title><enclosure url='https://e.example/{n}'/></item>" for n in (1, 2)),
        [stored(hashed("a", None), "a", None, None, None, "https://e.example/1")],
    ),
    "neither date nor enclosure": (
        "<item><title>a</title></item>",
        [stored(hashed("a", None), "a", None, None, None, None)],
    ),
    "a title of another vocabulary": (
        "<item><guid isPermaLink='false'>1</guid><itunes:title>a</itunes:title></item>",
        [stored("1", None, None, None, None, None)],
    ),
    "an ampersand that the loose parser left escaped": (
        "<item><guid isPermaLink='false'><![CDATA[a?b&c]]></guid><title>t\x0b</title></item>",
        [stored("a?b&amp;c", "t", None, None, None, None)],
    ),
    "a guid": (
        "<item><guid isPermaLink='false'>1</guid><title>a</title></item>",
        [stored("1", "a", None, None, None, None)],
    ),
}


async def database_of_the_version_before(path: Path, items: list[dict[str, Any]], reading: str) -> None:
    def fill(connection: Connection) -> None:
        columns = "source_id, url, reading, first_contact_s, last_success_s, next_seq, failures, not_before_s, rate"
        values = ":source_id, :url, :reading, :at_s, :at_s, :next_seq, 0, 0, :rate, 0"
        rate = json.dumps([None, NO_EVIDENCE.events, NO_EVIDENCE.exposure_s])
        state = {"source_id": "s", "url": "https://s.example/", "reading": reading, "at_s": T0, "rate": rate}
        add_source = text(f"INSERT INTO sources ({columns}, lost_items) VALUES ({values})")
        connection.execute(add_source, state | {"next_seq": len(items) + 1})
        add_item = text(
            "INSERT INTO items "
            "(seq, item_id, content_hash, fields, published_s, source_id, event_s, seen_s, present_s, exact, seed) "
            "VALUES (:seq, :item_id, :hash, :fields, :published_s, 's', :at_s, :at_s, :at_s, false, true)"
        )
        connection.execute(add_item, [{"seq": n, "at_s": T0, **row} for n, row in enumerate(items, 1)])

    async with open_connections(without_rows(former_file(V0_1, path))) as connections:
        await connections.writer.call(fill)


async def see(store: SqlStore, found: Decider, items: tuple[Item, ...], at_s: float) -> Observation:
    outcome = changed("s", items, at_s)
    needed = found.outcomes.query_for(outcome)
    assert needed is not None
    observation = found.observe(outcome, await store.known("s", needed))
    assert observation is not None
    await store.record(observation)
    found.outcomes.finish(outcome, observation)
    return observation


@pytest.mark.parametrize("name", CASES)
async def test_an_upgrade_fires_nothing_and_what_comes_later_fires(tmp_path: Path, name: str) -> None:
    items, rows = CASES[name]
    declared = declaration(source("s"), rule("i"), _UPDATES)
    reading = decider(declared, now_s=T0).known.compiled.requests["s"].reading
    await database_of_the_version_before(tmp_path / "p.db", rows, reading)
    async with open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(10.0)) as store, store.writer.running():
        found = decider(declaration(), now_s=T0)
        found.restore(await store.load_states(), await store.load_streams())
        found.declare(declared, dict.fromkeys(declared.rules, T0), T0)
        for number in (1, 2):
            seen = await see(store, found, feed(items), T0 + 100.0 * number)
            assert seen.rules.notifications == ()
            assert [event.seed for event in seen.found.events] == [True] * (len(feed(items)) - 1) * (number == 1)
        assert await rules_fired(store, found, _with_new(items), T0 + 400.0) == ["i"]
        if "guid" in items:
            edited = items.replace("title>a<", "title>b<").replace("<title>t", "<title>u")
            assert await rules_fired(store, found, edited, T0 + 500.0) == ["u"]


def _with_new(items: str) -> str:
    """Return the feed with an item in front that differs from the first as little as it can."""
    new = items.partition("</item>")[0]
    for old, other in ((">1<", ">2<"), ("a?b", "c?b"), ("example/1", "example/3"), (" 12:", " 14:")):
        new = new.replace(old, other)
    if new == items.partition("</item>")[0]:
        new += "<pubDate>Sun, 01 Mar 2026 13:00:00 GMT</pubDate>"
    return f"{new}</item>{items}"


async def rules_fired(store: SqlStore, found: Decider, items: str, at_s: float) -> list[str]:
    """Return the rules that fire when the feed shows these items."""
    seen = await see(store, found, feed(items), at_s)
    return [one.rule for one in seen.rules.notifications]
