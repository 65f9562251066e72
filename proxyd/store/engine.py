"""SQLite, opened the way that loses nothing: one writer, immediate transactions, WAL, an owner's lock."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from proxyd.errors import StoreError

# SQLite before 3.51.3 can damage a WAL when two connections write or checkpoint at once; Debian 12 ships 3.40. So only
# the writer's one connection writes, and only it checkpoints. A commit is on the disk before anything is sent out: even
# after a power cut no id comes back with other bytes.
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=5000", "wal_autocheckpoint=0")


# The writer waits for a checkpoint or a long deletion on its one connection instead of giving up.
_WRITER_WAIT_S = 86400.0


@contextmanager
def owner_lock(database: Path) -> Iterator[None]:
    """Hold the database for this process alone.

    Raises
    ------
    StoreError
        Another process holds it, or its folder cannot be written.
    """
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        handle = database.with_suffix(".lock").open("a")
        database.touch(mode=0o600)
    except OSError as error:
        raise StoreError(f"{database.parent} cannot be written: {error.strerror or error}") from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreError(f"{database} is in use by another proxyd; stop it, or talk to it instead") from error
        yield


@asynccontextmanager
async def sqlite_engines(database: Path) -> AsyncIterator[tuple[AsyncEngine, AsyncEngine]]:
    """Yield the engine of the one writer and the engine of the readers; dispose of both at the end."""
    url = f"sqlite+aiosqlite:///{database}"
    writer = create_async_engine(url, pool_size=1, max_overflow=0, pool_timeout=_WRITER_WAIT_S)
    readers = create_async_engine(url, pool_size=4, max_overflow=4)
    _prepare(writer, begin="BEGIN IMMEDIATE", pragmas=_PRAGMAS)
    _prepare(readers, begin="BEGIN", pragmas=("query_only=ON", "busy_timeout=5000"))
    try:
        yield writer, readers
    finally:
        await readers.dispose()
        await writer.dispose()


def _prepare(engine: AsyncEngine, *, begin: str, pragmas: tuple[str, ...]) -> None:
    @event.listens_for(engine.sync_engine, "connect")
    def on_connect(connection: Any, record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)


async def migrate(writer: AsyncEngine, revision: str = "head") -> None:
    """Bring the tables to ``revision``; works with a running event loop."""
    with store_errors():
        async with writer.begin() as connection:
            await connection.run_sync(_upgrade, revision)


async def migrate_database(database: Path) -> None:
    """Bring the database at that path to the newest schema; the caller holds ``owner_lock``."""
    async with sqlite_engines(database) as (writer, _):
        await migrate(writer)


def _upgrade(connection: Connection, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def migrations_folder() -> Path:
    """Return the folder of the migrations: beside the package in a checkout, inside it in a wheel."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


@contextmanager
def store_errors() -> Iterator[None]:
    """Turn what the database driver raises into ``StoreError`` with the driver's own words."""
    try:
        yield
    except DBAPIError as error:
        raise StoreError(f"the database failed: {error.orig}") from error
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise StoreError(f"the database failed: {error}") from error
