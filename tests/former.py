"""Databases of versions before, with the data that a daemon of that version wrote (``tests/upgrades``)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from sqlalchemy import BigInteger, Connection, MetaData, NullPool, create_engine, insert, select

from proxyd.store.backups import open_connections
from proxyd.store.databases.connections import sqlite_url
from proxyd.store.databases.tables import WORDS_IN_SQLITE
from tests.upgrades.record import ORIGIN, RECEIVER

FIRST, V0_1, V1_0 = "first", "0.1", "1.0"  # the first schema was never released


_LONG = {  # numbers that have 64 bits in PostgreSQL
    ("attempts", "attempt_id"),
    ("attempts", "position"),
    ("intervals", "interval_id"),
    ("notifications", "position"),
    ("outbox", "position"),
    ("probes", "position"),
}


def former_file(version: str, path: Path, *, origin: str = ORIGIN, receiver: str = RECEIVER) -> Path:
    """Write the database of a version, whose sources and webhooks are at these addresses; return its path."""
    text = (Path(__file__).parent / "upgrades" / f"{version}.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(text.replace(ORIGIN, origin).replace(RECEIVER, receiver))
        if version not in {FIRST, V0_1}:  # the text leaves the index of words out, which is no text
            for statement in WORDS_IN_SQLITE:
                connection.execute(statement)
        connection.commit()
    return path


def without_rows(path: Path) -> Path:
    """Delete all that a database of a version before holds."""
    with closing(sqlite3.connect(path)) as connection, connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            if name != "alembic_version":
                connection.execute(f"DELETE FROM {name}")
    return path


async def former_postgresql(path: Path, address: str) -> str:
    """Make an empty PostgreSQL database that of a file; return its address."""
    engine = create_engine(sqlite_url(path), poolclass=NullPool)
    found = MetaData()
    with engine.connect() as connection:
        found.reflect(connection)
        rows = {t: [dict(row) for row in connection.execute(select(t)).mappings()] for t in found.sorted_tables}
    for table in found.sorted_tables:
        table.indexes.clear()
        for column in table.columns:
            column.type = column.type.as_generic()
            if (table.name, column.name) in _LONG:
                column.type = BigInteger()
            column.server_default = None

    def fill(connection: Connection) -> None:
        found.create_all(connection)
        for table, of_table in rows.items():
            if of_table:
                connection.execute(insert(table), of_table)

    async with open_connections(address) as connections:
        await connections.writer.call(fill)
    return address
