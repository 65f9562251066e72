"""The interface of every database: connections that run functions in transactions, and migrations."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import structlog
from sqlalchemy import URL, Connection, Select, func, select, true
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from proxyd.errors import StoreError
from proxyd.lean_imports import without

with without("mako.ext.pygmentplugin"):  # Mako would load lexers for error pages
    from alembic import command
    from alembic.config import Config
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

T = TypeVar("T")
log = structlog.get_logger("store")
LOCKS = 0x70727864  # the class of proxyd's advisory locks in PostgreSQL
MEMBERS = LOCKS + 1  # that of the processes that share a role's work
_IDLE = "idle_in_transaction_session_timeout"  # a busy machine may pause a migration for longer than a lease
_MIGRATION = 1  # the numbers after it belong to the roles
NEWS = 11  # the lock of what planners record one after the other: notifications, and what these depend on
_REMEDIES = {
    sqlite3.SQLITE_BUSY: "end the other program that holds it, then start proxyd again",
    sqlite3.SQLITE_READONLY: "let proxyd write the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "let proxyd read and write the file and its folder",
    sqlite3.SQLITE_FULL: "free space on its disk, then start proxyd again",
    sqlite3.SQLITE_IOERR: "check its disk, then start proxyd again",
    sqlite3.SQLITE_CORRUPT: "replace it by a backup with `proxyd restore FILE`",
    sqlite3.SQLITE_NOTADB: "name another file, or replace it by a backup with `proxyd restore FILE`",
}


class StoreReader(Protocol):
    """Runs a query on a connection of its own."""

    async def __call__(self, query: Select[*tuple[Any, ...]], /) -> Sequence[Any]:
        """Return all rows."""


class Connections(Protocol):
    """One or more connections to a database."""

    async def call(self, function: Callable[[Connection], T]) -> T:
        """Return ``function(connection)``, run in a transaction; a single connection runs calls in order.

        Raises ``StoreError`` with the database's own message.
        """


class Upkeep(Protocol):
    """Maintenance, which each database does in its own way."""

    async def checkpoint(self) -> None:
        """Do the maintenance that the database needs every minute."""

    async def vacuum(self, *, whole: bool = False) -> None:
        """Reuse the space of deleted rows and renew the statistics; other work continues.

        If ``whole`` is set, the space goes back to the file system, and other work waits.
        """

    async def backup(self, target: Path) -> None:
        """Write a consistent copy to ``target``, which must not exist; other work continues.

        A cancellation interrupts the copy and waits until it has stopped; half a copy may remain.
        """


@dataclass(frozen=True, slots=True)
class StoreConnections:
    """One connection that writes, one set for probes and deliveries to read with, and one for people's queries."""

    writer: Connections
    readers: Connections
    people: Connections
    upkeep: Upkeep


async def breakable(work: Coroutine[Any, Any, T], break_off: Callable[[], object]) -> T:
    """Return the result of a thread; a cancellation calls ``break_off`` and waits until the thread ends."""
    working = asyncio.create_task(work, name="thread")
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        break_off()
        await asyncio.gather(working, return_exceptions=True)
        raise


async def migrate(writer: Connections, revision: str = "head") -> None:
    """Migrate the tables to ``revision``; if several processes try at once, one does it.

    Raises
    ------
    StoreError
        A newer proxyd made these tables.
    """
    await writer.call(lambda connection: upgrade(connection, revision))


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Migrate the tables to ``revision`` in the current transaction; raises as ``migrate`` does."""
    if connection.dialect.name == "postgresql":
        if connection.scalar(select(func.current_setting(_IDLE))) != "0":
            connection.execute(select(func.set_config(_IDLE, "60s", true())))
        connection.execute(select(func.pg_advisory_xact_lock(LOCKS, _MIGRATION)))
    before = _known_revision(connection)
    command.upgrade(migration_config(connection), revision)
    if before is not None and before != (now := _revision(connection)):
        log.info("tables are brought to the newest schema", before=before, now=now)


def is_newest(connection: Connection) -> bool:
    """Return whether the tables have the newest schema; raises ``StoreError`` if a newer proxyd made them."""
    return _known_revision(connection) == _revisions()[0]


def _known_revision(connection: Connection) -> str | None:
    """Return the schema of the tables, if there are any; raises ``StoreError`` if a newer proxyd made them."""
    found = _revision(connection)
    if found is not None and found not in _revisions():
        raise StoreError(f"the tables have the schema {found}: a newer proxyd created them; use that version")
    return found


@cache
def _revisions() -> tuple[str, ...]:
    """Return the schema revisions that this proxyd knows, newest first."""
    return tuple(each.revision for each in ScriptDirectory(str(migrations_folder())).walk_revisions())


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def migration_config(connection: Connection) -> Config:
    """Return the configuration with which Alembic runs the migrations on ``connection``."""
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    config.attributes["connection"] = connection
    return config


def migrations_folder() -> Path:
    """Return the folder of the migrations: next to the package in a checkout, inside it in a wheel."""
    package = Path(__file__).resolve().parents[2]
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


def sqlite_url(database: Path) -> URL:
    """Return the URL of a database file; its name may contain any character.

    >>> sqlite_url(Path("a?b.db")).database
    'a?b.db'
    """
    return URL.create("sqlite", database=str(database))


@contextmanager
def store_errors() -> Iterator[None]:
    """Turn the database driver's errors into ``StoreError``, with the driver's message and what to do."""
    try:
        yield
    except DBAPIError as error:
        raise StoreError(f"the database failed: {error.orig}{_remedy(error.orig)}") from error
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise StoreError(f"the database failed: {error}{_remedy(error)}") from error


def _remedy(error: BaseException | None) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code; the rest names no other remedy
    return f"; {_REMEDIES[code]}" if code in _REMEDIES else ""
