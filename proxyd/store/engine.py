"""SQLite, opened the way that loses nothing: one writer, immediate transactions, WAL, an owner's lock."""

from __future__ import annotations

import asyncio
import fcntl
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, Engine, Select, create_engine, event
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from proxyd.errors import StoreError

# SQLite before 3.51.3 can damage a WAL when two connections write or checkpoint at once; Debian 12 ships 3.40. So only
# the writer's one connection writes, and only it checkpoints. A commit is on the disk before anything is sent out: even
# after a power cut no id comes back with other bytes.
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=5000", "wal_autocheckpoint=0")
_READ_PRAGMAS = ("query_only=ON", "busy_timeout=5000")
_READERS, _PEOPLE = 4, 2

T = TypeVar("T")


class Reader(Protocol):
    """Runs a query on a connection of its own."""

    async def __call__(self, query: Select[*tuple[Any, ...]], /) -> Sequence[Any]:
        """Return all rows."""


class Connections:
    """An engine, and the threads on which its blocking calls run: one connection for each.

    A call is one way to a thread and back. asyncio drivers go that way for every statement, cursor and fetch: a read
    took eight turns of the event loop, which under load is most of its time (docs/design.md).
    """

    def __init__(self, engine: Engine, threads: int, name: str) -> None:
        self._engine = engine
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def call(self, function: Callable[[Engine], T]) -> T:
        """Return ``function(engine)``; with one thread, after all that was called before."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, self._engine)

    async def close(self) -> None:
        """Wait for the calls under way and close the connections."""
        await asyncio.to_thread(self._threads.shutdown)
        self._engine.dispose()


@dataclass(frozen=True, slots=True)
class StoreConnections:
    """The one that writes, those that probes and deliveries read with, and those for what people ask."""

    writer: Connections
    readers: Connections
    people: Connections


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
async def sqlite_connections(database: Path) -> AsyncIterator[StoreConnections]:
    """Yield the one connection that writes and those that read; close them at the end."""
    async with AsyncExitStack() as stack:

        def opened(name: str, threads: int, begin: str, pragmas: tuple[str, ...]) -> Connections:
            engine = create_engine(f"sqlite:///{database}", pool_size=threads, max_overflow=0, hide_parameters=True)
            _prepare(engine, begin=begin, pragmas=pragmas)
            connections = Connections(engine, threads, f"store-{name}")
            stack.push_async_callback(connections.close)
            return connections

        yield StoreConnections(
            writer=opened("writer", 1, "BEGIN IMMEDIATE", _PRAGMAS),
            readers=opened("reader", _READERS, "BEGIN", _READ_PRAGMAS),
            people=opened("people", _PEOPLE, "BEGIN", _READ_PRAGMAS),
        )


def prepare_reader(engine: Engine) -> None:
    """Let the connections of an engine read one state of the database for each transaction, and never write."""
    _prepare(engine, begin="BEGIN", pragmas=_READ_PRAGMAS)


def _prepare(engine: Engine, *, begin: str, pragmas: tuple[str, ...]) -> None:
    @event.listens_for(engine, "connect")
    def on_connect(connection: Any, record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)


async def migrate(writer: Connections, revision: str = "head") -> None:
    """Bring the tables to ``revision``."""

    def upgrade(engine: Engine) -> None:
        with engine.begin() as connection:
            command.upgrade(migration_config(connection), revision)

    with store_errors():
        await writer.call(upgrade)


async def migrate_database(database: Path) -> None:
    """Bring the database at that path to the newest schema; the caller holds ``owner_lock``."""
    async with sqlite_connections(database) as connections:
        await migrate(connections.writer)


def migration_config(connection: Connection) -> Config:
    """Return what Alembic's commands need to run the migrations on ``connection``."""
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    config.attributes["connection"] = connection
    return config


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
