"""What a process follows of a table is what the table holds, whatever others write, delete or take back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np
import pytest
from sqlalchemy import BigInteger, Connection, cast, delete, literal, select, update
from sqlalchemy.ext.asyncio import create_async_engine

from proxyd.core.model.chronon import ChrononGrid
from proxyd.store.backups import open_connections
from proxyd.store.databases import tables as t
from proxyd.store.databases.postgresql import postgresql_url
from proxyd.store.followed_rows import FollowedRows, is_since
from proxyd.store.sql_store import SqlStore
from proxyd.store.statements import Upsert, execute_many
from tests.servers import PostgresServer

_UPSERT = Upsert(t.declared)
SOURCES = ("abc", "defgh")  # of each of two who write at once


@dataclass
class Followed:
    """A table, and what follows it."""

    database: str
    store: SqlStore
    rows: FollowedRows[float]
    read: int = 0  # rows

    async def is_same(self) -> bool:
        """Look, and return whether what is known is what the table holds."""
        await self.rows.catch_up(self.store.read_each)
        found = await self.store.read(select(t.declared))
        return self.rows.values == {row.source_id: row.declared_s for row in found}


@pytest.fixture
async def followed(postgresql: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Followed]:
    monkeypatch.setattr("proxyd.store.followed_rows._PAGE", 2)
    database = postgresql.create_migrated()
    async with open_connections(database) as connections:
        made = Followed(database, SqlStore(connections, ChrononGrid(10.0)), FollowedRows(t.declared, float))

        def make(row: object) -> float:
            made.read += 1
            return float(row.declared_s)  # type: ignore[attr-defined]

        made.rows = FollowedRows(t.declared, make)
        yield made


def write_something(connection: Connection, sources: str, rng: np.random.Generator) -> None:
    """Write one of the sources, delete it, or delete all and take that back."""
    source_id, kind = sources[rng.integers(len(sources))], rng.integers(5)
    if kind == 0:
        connection.execute(delete(t.declared).where(t.declared.c.source_id == source_id))
    elif kind == 1:
        values = {"declared_s": float(rng.integers(100))}
        connection.execute(update(t.declared).where(t.declared.c.source_id == source_id).values(values))
    elif kind == 2:
        begun = connection.begin_nested()
        connection.execute(delete(t.declared).where(t.declared.c.source_id.in_(list(sources))))
        begun.rollback()
    else:
        with connection.begin_nested():
            execute_many(connection, _UPSERT, [{"source_id": source_id, "declared_s": float(rng.integers(100))}])


@pytest.mark.parametrize("seed", range(4))
async def test_what_is_followed_is_what_is_there(followed: Followed, seed: int) -> None:
    rng = np.random.default_rng(seed)
    engine = create_async_engine(postgresql_url(followed.database))
    async with engine.connect() as one, engine.connect() as other:
        writers = [(one, SOURCES[0]), (other, SOURCES[1])]
        for _ in range(60):
            connection, sources = writers[rng.integers(2)]
            await connection.run_sync(write_something, sources, rng)
            if rng.random() < 0.3:
                await (connection.commit() if rng.random() < 0.7 else connection.rollback())
            if rng.random() < 0.4:
                assert await followed.is_same()
        for connection, _ in writers:
            await connection.commit()
        assert await followed.is_same()
    await engine.dispose()
    read = -1
    while followed.read != read:  # again, as long as a transaction of another test on the server has not ended
        read = followed.read
        assert await followed.is_same()


async def test_another_server_is_read_from_anew(followed: Followed) -> None:
    await followed.store.declarations.load_texts()
    async with followed.store.writer.running():
        await followed.store.declarations.declare_sources(["a", "b", "c"], 7.0)
        assert await followed.is_same()
        followed.rows.values["b"], followed.rows.server = 9.0, "another"  # as if it had lost its last transaction
        assert await followed.is_same()


@pytest.mark.parametrize(
    ("written", "oldest", "is_new"),
    [
        (7, 7, True),
        (8, 7, True),
        (6, 7, False),
        (3, 2**32 - 2, True),
        (2**32 - 3, 2**32 - 2, False),
        (5, 2**33 + 4, True),
        (3, 2**33 + 4, False),
    ],
)
async def test_numbers_of_transactions_begin_again(followed: Followed, written: int, oldest: int, is_new: bool) -> None:
    ((found,),) = await followed.store.read(select(is_since(cast(literal(written), BigInteger), oldest)))
    assert found is is_new
