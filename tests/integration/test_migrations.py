"""The migrations make exactly the tables that the code reads and writes, and can be gone back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, insert, inspect, select, text

from proxyd.core.errors import StoreError
from proxyd.store.backups import open_connections
from proxyd.store.databases.schema import migrate, migration_config, migrations_folder
from proxyd.store.databases.tables import metadata
from tests.servers import PostgresServer

REVISIONS = sorted(path.name[:4] for path in migrations_folder().glob("versions/[0-9]*.py"))
ROWS: dict[str, dict[str, Any]] = {
    "sources": {
        "source_id": "s",
        "url": "https://s.example/",
        "etag": '"1"',
        "last_start_s": 1e9,
        "last_success_s": 1e9,
        "last_outcome": "changed",
        "next_seq": 8,
        "failures": 0,
        "not_before_s": 0.0,
        "rate": "[1000000000.0, [3.5, 3.5, 3.5, 3.5], [86400.0, 86400.0, 86400.0, 86400.0]]",
        "lost_items": 0.0,
    },
    "items": {
        "source_id": "s",
        "seq": 7,
        "item_id": "guid:7",
        "content_hash": "h",
        "fields": '{"title": "Žluťoučký"}',
        "words": "zlutoucky",
        "event_s": 1e9,
        "seen_s": 1e9,
        "present_s": 1e9,
        "exact": True,
        "seed": False,
    },
    "streams": {
        "rule": "R",
        "source_id": "s",
        "counts": "[]",
        "fired_seq": 7,
        "captured": 2,
        "missed": 1,
        "utility": 2.0,
    },
    "notifications": {
        "position": 41,
        "notification_id": "ntf_1",
        "rule": "R",
        "source_id": "s",
        "event_s": 1e9,
        "created_s": 1e9,
        "late": False,
        "body": b'{"type": "proxyd.notification"}',
    },
    "outbox": {
        "position": 42,
        "notification_id": "ntf_1",
        "endpoint": "https://r.example/hook",
        "secret_kind": "env",
        "secret_name": "SECRET_A",
        "lane": "R\nhttps://r.example/hook",
        "state": "pending",
        "attempts": 2,
        "first_attempt_s": 1e9,
        "next_s": 1e9,
        "last_error": "status 500",
    },
    "lanes": {"lane": "R\nhttps://r.example/hook", "endpoint": "https://r.example/hook", "due_s": 0.0},
}


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


def fill(connection: Connection) -> None:
    for name, row in ROWS.items():
        connection.execute(insert(metadata.tables[name]), row)


def rows(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    return {name: [dict(row) for row in connection.execute(select(metadata.tables[name])).mappings()] for name in ROWS}


def down_to(revision: str, connection: Connection) -> None:
    command.downgrade(migration_config(connection), revision)


async def test_the_newest_schema_is_the_one_the_code_knows(database: str | Path) -> None:
    async with open_connections(database) as connections:
        writer = connections.writer
        await migrate(writer)
        await migrate(writer)
        assert await writer.call(differences) == []


@pytest.mark.parametrize(
    "revisions", [REVISIONS[-5:], pytest.param(REVISIONS, marks=pytest.mark.long)], ids=["the last four", "all"]
)
async def test_who_goes_back_and_forth_again_loses_nothing(database: str | Path, revisions: Sequence[str]) -> None:
    async with open_connections(database) as connections:
        writer = connections.writer
        await migrate(writer)
        await writer.call(fill)
        before, of_revision = await writer.call(rows), {revisions[-1]: await writer.call(schema)}
        for revision in reversed(revisions[:-1]):
            await writer.call(partial(down_to, revision))
            assert await writer.call(differences) != []
            of_revision[revision] = await writer.call(schema)
        for revision in revisions[1:]:
            await migrate(writer, revision)
            assert await writer.call(schema) == of_revision[revision], revision
        assert await writer.call(differences) == []
        assert await writer.call(rows) == before


async def test_going_back_before_the_first_revision_leaves_nothing(database: str | Path) -> None:
    async with open_connections(database) as connections:
        writer = connections.writer
        await migrate(writer)
        before = await writer.call(schema)
        await writer.call(fill)
        await writer.call(lambda connection: down_to("base", connection))
        assert list(await writer.call(schema)) == ["alembic_version"]
        await migrate(writer)
        assert await writer.call(schema) == before


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


async def test_webhooks_that_accepted_something_before_there_were_pings_need_none(database: str | Path) -> None:
    delivered = (
        "INSERT INTO outbox (notification_id, endpoint, lane, secret_kind, secret_name, kind, form, state, attempts,"
        " next_s, done_s) SELECT notification_id, endpoint || '/' || :state, lane || :state, secret_kind, secret_name,"
        " kind, form, :state, attempts, next_s, 7.0 FROM outbox LIMIT 1"
    )

    def before_pings(connection: Connection) -> None:
        fill(connection)
        down_to("0005", connection)
        connection.execute(text(delivered), [{"state": "delivered"}, {"state": "dead"}])

    def told(connection: Connection) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(text("SELECT endpoint, state, since_s FROM webhooks"))]

    async with open_connections(database) as connections:
        writer = connections.writer
        await migrate(writer)
        await writer.call(before_pings)
        await migrate(writer)
        found = await writer.call(told)
    assert found == [("https://r.example/hook/delivered", "confirmed", 7.0)]
