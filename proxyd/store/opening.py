"""Opens a store over the database that the settings name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path

from proxyd.core.errors import StoreError
from proxyd.core.model.chronon import ChrononGrid
from proxyd.store.databases.connections import StoreConnections
from proxyd.store.databases.schema import copy_between, is_newest, migrate
from proxyd.store.databases.sqlite import file_lock, sqlite_connections
from proxyd.store.sql_store import SqlStore

POSTGRESQL = ("postgresql:", "postgresql+asyncpg:")
_NO_LEASE_S = 0.0  # for sessions that do not lead: they keep their locks however long a copy takes


def is_postgresql(database: str | Path) -> bool:
    """Return whether a database is given by a PostgreSQL URL.

    >>> is_postgresql("postgresql+asyncpg://db.example/proxyd"), is_postgresql("data/proxyd.db")
    (True, False)
    """
    return str(database).startswith(POSTGRESQL)


def owner_lock(database: str | Path) -> AbstractContextManager[None]:
    """Hold a database file for this process only; PostgreSQL needs no such lock, as its sessions hold their own.

    Raises
    ------
    StoreError
        Another process holds it, or its folder cannot be written.
    """
    return nullcontext() if is_postgresql(database) else file_lock(Path(database))


def open_connections(
    database: str | Path, *, role: str = "store", lease_s: float = _NO_LEASE_S
) -> AbstractAsyncContextManager[StoreConnections]:
    """Open connections to a database: a file's path or a PostgreSQL URL."""
    if not is_postgresql(database):
        return sqlite_connections(Path(database))
    from proxyd.store.databases.postgresql import postgresql_connections

    return postgresql_connections(str(database), name=role, lease_s=lease_s)


@asynccontextmanager
async def open_store(database: str | Path, grid: ChrononGrid) -> AsyncIterator[SqlStore]:
    """Open the database, migrate it to the newest schema and yield its store.

    The caller holds a file's ``owner_lock`` and runs ``store.writer.run()``.

    Raises
    ------
    StoreError
        A daemon of another version uses the database.
    """
    async with open_connections(database) as connections:
        if is_postgresql(database) and not await connections.writer.call(is_newest):
            await _lock_out(connections)
        await migrate(connections.writer)
        yield SqlStore(connections, grid)


@asynccontextmanager
async def owned_connections(database: str | Path) -> AsyncIterator[StoreConnections]:
    """Open connections to a database and keep every daemon out of it.

    Raises
    ------
    StoreError
        A daemon uses the database.
    """
    with owner_lock(database):
        async with open_connections(database) as connections:
            if is_postgresql(database):
                await _lock_out(connections)
            yield connections


async def _lock_out(connections: StoreConnections) -> None:
    from proxyd.store.databases.postgresql import LOCK_OF, session_of

    for role, number in LOCK_OF.items():
        if not await session_of(connections).take_lock(number):
            raise StoreError(f"a daemon uses this database as {role}; stop every daemon that uses it first")


async def copy_database(source: str | Path, target: str | Path) -> dict[str, int]:
    """Copy a whole database to one that is empty or does not exist yet; return the number of rows in each table.

    It copies a single snapshot, completely or not at all; no daemon may use either database.

    Raises
    ------
    StoreError
        The target is not empty, the source lacks the newest tables, or a daemon uses one of them.
    """
    async with owned_connections(source) as reading, owned_connections(target) as writing:
        await migrate(writing.writer)
        return await copy_between(reading, writing)


async def migrate_database(database: str | Path) -> None:
    """Migrate a database that no daemon uses to the newest schema."""
    async with owned_connections(database) as connections:
        await migrate(connections.writer)
