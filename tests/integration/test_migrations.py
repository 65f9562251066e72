"""The tables are those that the code reads and writes, and what versions before wrote is upgraded without loss."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, MetaData, inspect, select, text

from proxyd.core.errors import StoreError
from proxyd.core.language import SourceText, check
from proxyd.core.model.chronon import ChrononGrid
from proxyd.store.backups import open_connections, open_store
from proxyd.store.databases.schema import migrate
from proxyd.store.databases.tables import metadata
from proxyd.store.listed_rows import Wanted
from tests.former import FIRST, V0_1, V1_0, former_file, former_postgresql
from tests.outboxes import due_deliveries
from tests.servers import PostgresServer

Rows = dict[str, list[dict[str, Any]]]


def differences(connection: Connection) -> list[object]:
    """Return what the code's tables have otherwise than the database's, but for the index of words."""

    def is_compared(_: object, name: str | None, *__: object) -> bool:
        return name is None or not (name.startswith("item_words") or name == "ix_items_words")

    context = MigrationContext.configure(connection, opts={"include_object": is_compared})
    return list(compare_metadata(context, metadata))


def schema(connection: Connection) -> dict[str, str]:
    """Return all that the database says of each table: columns with their defaults, keys and indexes."""
    found = inspect(connection)
    return {name: _described(found, name) for name in found.get_table_names()}


def _described(found: Any, name: str) -> str:
    columns = [(c["name"], str(c["type"]), c["nullable"], c["default"]) for c in found.get_columns(name)]
    indexes = [
        (i["name"], i["column_names"], i["unique"], str(i.get("dialect_options", {}).get("sqlite_where")))
        for i in found.get_indexes(name)
    ]
    key = found.get_pk_constraint(name)["constrained_columns"]
    keys = key, found.get_foreign_keys(name), found.get_unique_constraints(name)
    return repr((sorted(columns), sorted(indexes), keys))


def rows(connection: Connection) -> Rows:
    """Return all rows, in any order."""
    found = MetaData()
    found.reflect(connection)
    tables = [each for each in found.sorted_tables if not each.name.startswith("item_words")]
    return {t.name: [dict(row) for row in connection.execute(select(t)).mappings()] for t in tables}


async def test_the_newest_schema_is_the_one_the_code_knows(database: str | Path) -> None:
    async with open_connections(database) as connections:
        writer = connections.writer
        await migrate(writer)
        await migrate(writer)
        assert await writer.call(differences) == []


@pytest.mark.parametrize("version", [FIRST, V0_1, V1_0])
async def test_an_upgrade_keeps_what_a_version_wrote_and_makes_the_tables_of_a_new_database(
    tmp_path: Path, version: str
) -> None:
    async with open_connections(former_file(version, tmp_path / "old.db")) as old:
        before = await old.writer.call(rows)
        await migrate(old.writer)
        after, tables = await old.writer.call(rows), await old.writer.call(schema)
        assert await old.writer.call(lambda c: c.scalar(text("PRAGMA integrity_check"))) == "ok"
    async with open_connections(tmp_path / "new.db") as new:
        await migrate(new.writer)
        assert tables == await new.writer.call(schema)
    keeps(before, after)


async def test_a_postgresql_database_of_0_1_is_upgraded_without_loss(
    tmp_path: Path, postgresql: PostgresServer
) -> None:
    address = await former_postgresql(former_file(V0_1, tmp_path / "old.db"), postgresql.create())
    async with open_connections(address) as connections:
        before = await connections.writer.call(rows)
        await migrate(connections.writer)
        keeps(before, await connections.writer.call(rows))
        assert await connections.writer.call(differences) == []


def keeps(before: Rows, after: Rows) -> None:
    """Fail if a row is missing, or a column of it that both versions have is another."""
    for name in before.keys() & after.keys() - {"alembic_version", "accounts"}:
        of_both = after[name][0].keys() & before[name][0].keys() - {"lane"} if before[name] else ()
        assert values(after[name], of_both) == values(before[name], of_both), name
    for name in ("probes", "items", "captured", "missed", "delay_item_s") if "accounts" in before else ():
        assert sum(row[name] for row in after["accounts"]) == pytest.approx(sum(r[name] for r in before["accounts"]))


def values(found: list[dict[str, Any]], names: Iterable[str]) -> list[str]:
    return sorted(str([row[name] for name in sorted(names)]) for row in found)


async def test_what_0_1_declared_learned_found_and_owes_is_what_1_0_reads(tmp_path: Path) -> None:
    former = former_file(V0_1, tmp_path / "old.db")
    with closing(sqlite3.connect(former)) as connection:
        learned = dict(connection.execute("SELECT source_id, rate FROM sources"))
    async with open_store(former, ChrononGrid(0.2)) as store, store.writer.running():
        texts = {text.origin: text.text for text in await store.declarations.load_texts()}
        states, streams = await store.load_states(), await store.load_streams()
        items = await store.present_items("s1")
        told = await store.history.find_notifications(Wanted(), before=None, limit=100)
        due = await due_deliveries(store, 1.79602e9)
    assert check([SourceText(origin, text) for origin, text in texts.items()]).errors == ()
    assert (streams["each", "s1"].seen, streams["each", "s1"].captured, streams["third", "s1"].fired_seq) == (6, 3, 10)
    rates = {n: [s.rate.as_of_s, [*s.rate.events], [*s.rate.exposure_s]] for n, s in states.items()}
    assert rates == {name: json.loads(rate) for name, rate in learned.items()}
    assert [item.fields["channel.item.title"] for item in items][-1] == "Nr. s1-0010 <ö & co>"
    assert len(told.rows) == 24
    assert [(each.endpoint, each.attempts) for each in due] == [("http://127.0.0.1:2/down", 2)]


async def test_the_first_schema_of_all_is_filled_in(tmp_path: Path) -> None:
    async with open_connections(former_file(FIRST, tmp_path / "old.db")) as connections:
        await migrate(connections.writer)
        found = await connections.writer.call(rows)
        words = "SELECT rowid FROM item_words WHERE item_words MATCH 'zlutoucky'"
        assert await connections.writer.call(lambda c: c.scalar(text(words))) == found["items"][0]["position"] == 1
    assert json.loads(found["sources"][0]["rate"]) == [1e9, [3.5] * 4, [86_400.0] * 4]
    assert [(row["seen"], row["utility"]) for row in found["streams"]] == [(5, 2.0)]
    assert [row["utility"] for row in found["intervals"]] == [1.0]
    assert found["declared"] == [{"source_id": "s", "declared_s": 0.0}]
    lanes = ["R\nhttps://r.example/hook", "R\nhttps://r.example/done"]
    assert [row["lane"] for row in found["outbox"]] == lanes
    assert [(row["lane"], row["due_s"]) for row in found["lanes"]] == [(lanes[0], 0.0)]
    webhooks = [(row["endpoint"], row["state"], row["since_s"]) for row in found["webhooks"]]
    assert webhooks == [("https://r.example/done", "confirmed", 7.0)]  # whoever has accepted something needs no ping


async def test_hubs_that_0_1_left_are_asked_again(tmp_path: Path) -> None:
    columns = "source_id, url, hub, topic, status, callback_id, secret, is_asked, verified_s, chosen_s, due_s"
    former = former_file(V0_1, tmp_path / "old.db")
    with closing(sqlite3.connect(former)) as connection, connection:
        for name, status in {"left": "demoted", "kept": "active"}.items():
            first = f"'{name}', 'u', 'h', 't', '{status}', 'c', 's', 1, 5, 5, 9"
            connection.execute(
                f"INSERT INTO subscriptions ({columns}, lease_until_s, failures, misses, pushes)"
                f" VALUES ({first}, 9, 0, 3, 4)"
            )
    async with open_connections(former) as connections:
        await migrate(connections.writer)
        found = await connections.writer.call(rows)
    left, kept = sorted(found["subscriptions"], key=lambda row: str(row["status"]), reverse=True)
    assert (left["source_id"], left["status"], left["due_s"], left["misses"], left["told"]) == (
        "left",
        "wanted",
        0,
        0,
        0,
    )
    assert (kept["source_id"], kept["status"], kept["due_s"], kept["misses"]) == ("kept", "active", 9, 0)


async def test_a_database_of_a_newer_proxyd_is_not_touched(database: str | Path) -> None:
    def renumber(connection: Connection) -> None:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    async with open_connections(database) as connections:
        await migrate(connections.writer)
        await connections.writer.call(renumber)
        with pytest.raises(StoreError, match="newer proxyd"):
            await migrate(connections.writer)


async def test_of_two_that_migrate_at_once_one_does_and_both_are_well(postgresql: PostgresServer) -> None:
    address = postgresql.create()
    async with open_connections(address) as one, open_connections(address) as other:
        await asyncio.gather(migrate(one.writer), migrate(other.writer))
        assert await one.writer.call(differences) == []
