"""SQLite, opened so that nothing is lost: one writer, immediate transactions, WAL and an owner's lock."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import pwd
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event

from proxyd.core.errors import StoreError, StoreInUseError
from proxyd.store.databases.connections import StoreConnections, breakable, sqlite_url, store_errors

# SQLite before 3.51.3 can damage a WAL when two connections write or checkpoint at once; Debian 12 ships 3.40. So only
# the writer's one connection writes and checkpoints. A commit is on the disk before anything is sent out: even after
# a power cut, no id comes back with other bytes.
_PRAGMAS = (
    *("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=5000"),
    # Pages, some 8 MiB, and bytes. A log that was written back only once a minute filled a small disk: 67 MB beside
    # 4 MB of content, and a daemon that was restarted within a minute never wrote it back.
    *("wal_autocheckpoint=2000", "journal_size_limit=16777216"),
)
_READ_PRAGMAS = ("query_only=ON", "busy_timeout=5000")
_READERS, _PEOPLE = 4, 2
_STEPS = 100_000  # virtual machine steps, some milliseconds, between checks for cancellation

_T = TypeVar("_T")


class _ThreadConnections:
    """An engine and the threads that run its blocking calls: one connection for each thread.

    A call goes to a thread and back once. asyncio drivers do so for every statement, cursor and fetch: a read took
    eight turns of the event loop. Behind 333 probes that start at once this was most of the time from response to
    webhook (p99 549 ms).
    """

    def __init__(self, engine: Engine, threads: int, name: str) -> None:
        self._engine = engine
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def call(self, function: Callable[[Connection], _T]) -> _T:
        """Return ``function(connection)``, run in a transaction; a single thread runs calls in order."""
        return await self.call_bare(lambda engine: _in_transaction(engine, function))

    async def call_bare(self, function: Callable[[Engine], _T]) -> _T:
        """Return ``function(engine)``, for work that must not be in a transaction."""
        with store_errors():
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, self._engine)

    async def close(self) -> None:
        """Wait for the current calls and close the connections."""
        await asyncio.to_thread(self._threads.shutdown)
        self._engine.dispose()


class _SqliteUpkeep:
    """Maintenance of SQLite: only the writer checkpoints the log, and copies use a connection of their own."""

    def __init__(self, writer: _ThreadConnections, people: _ThreadConnections) -> None:
        self._writer = writer
        self._people = people

    async def checkpoint(self) -> None:
        """Move the write-ahead log into the database file; writes wait."""
        await self._writer.call_bare(lambda engine: _run(engine, "PRAGMA wal_checkpoint(TRUNCATE)"))

    async def vacuum(self, *, whole: bool = False) -> None:
        """Renew the statistics; if ``whole`` is set, return the space of deleted rows to the file system."""
        if whole:
            await self._writer.call_bare(lambda engine: _run(engine, "VACUUM"))
        await self._writer.call_bare(lambda engine: _run(engine, "PRAGMA optimize"))

    async def backup(self, target: Path) -> None:
        """Write a consistent copy to ``target``, which must not exist; writes continue."""
        over = Event()
        copying = self._people.call_bare(lambda engine: copy_file(Path(engine.url.database or ""), target, over))
        await breakable(copying, over.set)


def end_when(over: Event | None, connection: sqlite3.Connection) -> None:
    """Make a connection's work fail once ``over`` is set."""
    connection.set_progress_handler(None if over is None else over.is_set, _STEPS)


@contextmanager
def file_lock(database: Path) -> Iterator[None]:
    """Hold the database for this process only.

    Raises ``StoreInUseError``: another process holds it; ``StoreError``: the file or its folder cannot be written.
    """
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        handle = database.resolve().with_suffix(".lock").open("a")  # the same one for all links to the file
        database.touch(mode=0o600)
    except OSError as error:
        raise StoreError(_unwritable(error, database.parent)) from error
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StoreInUseError(f"{database} is in use by another proxyd; stop it, or use it instead") from error
        yield


def _unwritable(error: OSError, folder: Path) -> str:
    """Return which file or folder cannot be written; if permissions are missing, its owner and what to do."""
    reason = error.strerror or error
    if isinstance(error, PermissionError):
        for path in (Path(error.filename), folder):
            with suppress(OSError):  # it does not exist
                whose = f"it belongs to {_owner(path)}; run proxyd as that user, or change its owner with chown"
                return f"{path} cannot be written: {reason}; {whose}"
    return f"{folder} cannot be written: {reason}"


def _owner(path: Path) -> str:
    number = path.stat().st_uid
    with suppress(KeyError):
        return pwd.getpwuid(number).pw_name
    return f"user {number}"


@asynccontextmanager
async def sqlite_connections(database: Path) -> AsyncIterator[StoreConnections]:
    """Yield the one connection that writes and those that read; close them at the end."""
    async with AsyncExitStack() as stack:

        def open_file(name: str, threads: int, begin: str, pragmas: tuple[str, ...]) -> _ThreadConnections:
            engine = create_engine(sqlite_url(database), pool_size=threads, max_overflow=0, hide_parameters=True)
            _prepare(engine, begin=begin, pragmas=pragmas)
            connections = _ThreadConnections(engine, threads, f"store-{name}")
            stack.push_async_callback(connections.close)
            return connections

        writer = open_file("writer", 1, "BEGIN IMMEDIATE", _PRAGMAS)
        readers = open_file("reader", _READERS, "BEGIN", _READ_PRAGMAS)
        people = open_file("people", _PEOPLE, "BEGIN", _READ_PRAGMAS)
        yield StoreConnections(writer, readers, people, _SqliteUpkeep(writer, people))


def prepare_reader(engine: Engine) -> None:
    """Make an engine's connections read one snapshot in each transaction, and never write."""
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


def _in_transaction(engine: Engine, function: Callable[[Connection], _T]) -> _T:
    with engine.begin() as connection:
        return function(connection)


def _run(engine: Engine, statement: str) -> None:
    with engine.connect() as connection:
        connection.connection.cursor().execute(statement).close()


def copy_file(source: Path, target: Path, over: Event | None = None) -> None:
    """Copy a snapshot of a database to a file that does not exist, on a connection of its own."""
    # Fails once `over` is set. On return the copy is on the disk, which VACUUM INTO does not ensure.
    uri = f"{source.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        end_when(over, connection)
        target.touch(0o600, exist_ok=False)  # it holds secrets; SQLite fills it
        connection.execute("VACUUM INTO ?", (str(target),))
    sync(target)
    sync(target.parent)


def sync(path: Path) -> None:
    """Return once a file, or a folder's entries, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():  # some file systems cannot sync folders
            raise
    finally:
        os.close(handle)
