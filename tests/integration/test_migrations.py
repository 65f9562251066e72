"""The migrations make exactly the tables that the code reads and writes, and can be gone back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, insert, inspect, select, text

from proxyd.store.engine import migrate, migration_config, migrations_folder, sqlite_connections
from proxyd.store.tables import metadata

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
        "lane": "r.example",
        "state": "pending",
        "attempts": 2,
        "first_attempt_s": 1e9,
        "next_s": 1e9,
        "last_error": "status 500",
    },
}


def differences(engine: Engine) -> list[object]:
    """Return what the code's tables have otherwise than the database's."""
    with engine.connect() as connection:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))


def schema(engine: Engine) -> dict[str, str]:
    """Return all that the database says of each table: columns with their defaults, keys and indexes."""
    found = inspect(engine)
    return {name: _described(found, name) for name in found.get_table_names()}


def _described(found: Any, name: str) -> str:
    columns = [(c["name"], str(c["type"]), c["nullable"], c["default"]) for c in found.get_columns(name)]
    indexes = [
        (i["name"], i["column_names"], i["unique"], str(i.get("dialect_options", {}).get("sqlite_where")))
        for i in found.get_indexes(name)
    ]
    keys = found.get_pk_constraint(name), found.get_foreign_keys(name), found.get_unique_constraints(name)
    return repr((sorted(columns), sorted(indexes), keys))


def fill(engine: Engine) -> None:
    with engine.begin() as connection:
        for name, row in ROWS.items():
            connection.execute(insert(metadata.tables[name]), row)


def rows(engine: Engine) -> dict[str, list[dict[str, Any]]]:
    with engine.connect() as connection:
        return {
            name: [dict(row) for row in connection.execute(select(metadata.tables[name])).mappings()] for name in ROWS
        }


def down_to(revision: str, engine: Engine) -> None:
    with engine.begin() as connection:
        command.downgrade(migration_config(connection), revision)


async def test_the_newest_schema_is_the_one_the_code_knows(tmp_path: Path) -> None:
    async with sqlite_connections(tmp_path / "p.db") as connections:
        writer = connections.writer
        await migrate(writer)
        await migrate(writer)
        assert await writer.call(differences) == []


@pytest.mark.parametrize("revision", REVISIONS[:-1])
async def test_who_goes_back_and_forth_again_loses_nothing(tmp_path: Path, revision: str) -> None:
    async with sqlite_connections(tmp_path / "p.db") as connections:
        writer = connections.writer
        await migrate(writer)
        await writer.call(fill)
        before = await writer.call(schema), await writer.call(rows)
        await writer.call(lambda engine: down_to(revision, engine))
        assert await writer.call(differences) != []
        await migrate(writer)
        assert await writer.call(differences) == []
        assert (await writer.call(schema), await writer.call(rows)) == before


async def test_going_back_before_the_first_revision_leaves_nothing(tmp_path: Path) -> None:
    async with sqlite_connections(tmp_path / "p.db") as connections:
        writer = connections.writer
        await migrate(writer)
        before = await writer.call(schema)
        await writer.call(fill)
        await writer.call(lambda engine: down_to("base", engine))
        assert list(await writer.call(schema)) == ["alembic_version"]
        await migrate(writer)
        assert await writer.call(schema) == before


async def test_webhooks_that_accepted_something_before_there_were_pings_need_none(tmp_path: Path) -> None:
    delivered = (
        "INSERT INTO outbox (notification_id, endpoint, lane, secret_kind, secret_name, kind, form, state, attempts,"
        " next_s, done_s) SELECT notification_id, endpoint || '/' || :state, lane || :state, secret_kind, secret_name,"
        " kind, form, :state, attempts, next_s, 7.0 FROM outbox LIMIT 1"
    )

    def before_pings(engine: Engine) -> None:
        fill(engine)
        down_to("0005", engine)
        with engine.begin() as connection:
            connection.execute(text(delivered), [{"state": "delivered"}, {"state": "dead"}])

    def told(engine: Engine) -> list[tuple[Any, ...]]:
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text("SELECT endpoint, state, since_s FROM webhooks"))]

    async with sqlite_connections(tmp_path / "p.db") as connections:
        writer = connections.writer
        await migrate(writer)
        await writer.call(before_pings)
        await migrate(writer)
        found = await writer.call(told)
    assert found == [("https://r.example/hook/delivered", "confirmed", 7.0)]
