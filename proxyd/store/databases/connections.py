"""What every database offers to the store: connections that run functions in transactions, and the migrations."""

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
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL, Connection, Select, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from proxyd.errors import StoreError

T = TypeVar("T")
log = structlog.get_logger("store")
LOCKS = 0x70727864  # of PostgreSQL's advisory locks, those of proxyd
_MIGRATION = 1  # roles follow
_REMEDIES = {
    sqlite3.SQLITE_BUSY: "end the other program that holds it, then start proxyd again",
    sqlite3.SQLITE_READONLY: "let proxyd write the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "let proxyd read and write the file and its folder",
    sqlite3.SQLITE_FULL: "make room on its disk, then start proxyd again",
    sqlite3.SQLITE_IOERR: "see to its disk, then start proxyd again",
    sqlite3.SQLITE_CORRUPT: "put a backup in its place with `proxyd restore FILE`",
    sqlite3.SQLITE_NOTADB: "name another file, or put a backup in its place with `proxyd restore FILE`",
}


class StoreReader(Protocol):
    """Runs a query on a connection of its own."""

    async def __call__(self, query: Select[*tuple[Any, ...]], /) -> Sequence[Any]:
        """Return all rows."""


class Connections(Protocol):
    """One or more connections to a database."""

    async def call(self, function: Callable[[Connection], T]) -> T:
        """Return ``function(connection)``, run in a transaction; with one connection, after all called before.

        Raises ``StoreError`` with the words of the database.
        """


class Upkeep(Protocol):
    """What keeps a database small and safe, each database in its own way."""

    async def checkpoint(self) -> None:
        """Do what the database wants done every minute."""

    async def vacuum(self, *, whole: bool = False) -> None:
        """Let what was deleted be used again and the statistics of the tables be right; others go on meanwhile.

        Where ``whole`` is set the space is given back to the file system, for which others wait.
        """

    async def backup(self, target: Path) -> None:
        """Write a consistent copy to ``target``, which must not exist; others go on meanwhile.

        A cancellation breaks it off, and waits until it has ended; half a copy may be left.
        """


@dataclass(frozen=True, slots=True)
class StoreConnections:
    """The one that writes, those that probes and deliveries read with, and those for what people ask."""

    writer: Connections
    readers: Connections
    people: Connections
    upkeep: Upkeep


async def breakable(work: Coroutine[Any, Any, T], break_off: Callable[[], object]) -> T:
    """Return what is done in a thread; a cancellation calls ``break_off`` and waits for the end of the thread."""
    working = asyncio.create_task(work, name="thread")
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        break_off()
        await asyncio.gather(working, return_exceptions=True)
        raise


async def migrate(writer: Connections, revision: str = "head") -> None:
    """Bring the tables to ``revision``; of several processes that try at once, one does.

    Raises
    ------
    StoreError
        A newer proxyd made these tables.
    """
    await writer.call(lambda connection: upgrade(connection, revision))


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Bring the tables to ``revision`` in the present transaction; raises as ``migrate`` does."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(LOCKS, _MIGRATION)))
    before = _revision(connection)
    try:
        command.upgrade(migration_config(connection), revision)
    except CommandError as error:
        raise StoreError(f"{error}: a newer proxyd made these tables; use that one") from error
    if before is not None and before != (now := _revision(connection)):
        log.info("tables are brought to the newest schema", before=before, now=now)


def is_newest(connection: Connection) -> bool:
    """Return whether the tables are the newest that this proxyd knows; raises ``StoreError`` where they are newer."""
    found, known = _revision(connection), _revisions()
    if found is not None and found not in known:
        raise StoreError(f"the tables have the schema {found}: a newer proxyd made them; use that one")
    return found == known[0]


@cache
def _revisions() -> tuple[str, ...]:
    """Return the schemas that this proxyd knows, the newest first."""
    return tuple(each.revision for each in ScriptDirectory(str(migrations_folder())).walk_revisions())


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def migration_config(connection: Connection) -> Config:
    """Return what Alembic's commands need to run the migrations on ``connection``."""
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    config.attributes["connection"] = connection
    return config


def migrations_folder() -> Path:
    """Return the folder of the migrations: beside the package in a checkout, inside it in a wheel."""
    package = Path(__file__).resolve().parents[2]
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


def sqlite_url(database: Path) -> URL:
    """Return the address of a file, whatever is in its name.

    >>> sqlite_url(Path("a?b.db")).database
    'a?b.db'
    """
    return URL.create("sqlite", database=str(database))


@contextmanager
def store_errors() -> Iterator[None]:
    """Turn what the database driver raises into ``StoreError``: the driver's own words, and what to do."""
    try:
        yield
    except DBAPIError as error:
        raise StoreError(f"the database failed: {error.orig}{_remedy(error.orig)}") from error
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        raise StoreError(f"the database failed: {error}{_remedy(error)}") from error


def _remedy(error: BaseException | None) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the rest says more than there is a remedy for
    return f"; {_REMEDIES[code]}" if code in _REMEDIES else ""
