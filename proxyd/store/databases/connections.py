"""The interface of every database: connections that run functions in transactions."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy import URL, Connection, Select, func, select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from proxyd.core.errors import StoreBusyError, StoreError

_T = TypeVar("_T")
LOCKS = 0x70727864  # the class of proxyd's advisory locks in PostgreSQL
MEMBERS = LOCKS + 1  # that of the processes that share a role's work
DATABASE_TIME = select(func.extract("epoch", func.clock_timestamp()))  # PostgreSQL's, by which machines compare
NEWS = 11  # the lock of what planners record one after the other: notifications, and what these depend on
_REMEDIES = {
    sqlite3.SQLITE_BUSY: "end the other program that holds it",
    sqlite3.SQLITE_READONLY: "let proxyd write the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "let proxyd read and write the file and its folder",
    sqlite3.SQLITE_FULL: "free space on its disk",
    sqlite3.SQLITE_IOERR: "check its disk",
    sqlite3.SQLITE_CORRUPT: "replace it by a backup with `proxyd restore FILE`",
    sqlite3.SQLITE_NOTADB: "name another file, or replace it by a backup with `proxyd restore FILE`",
}


_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL})
_QUOTA = sqlite3.SQLITE_IOERR_WRITE  # what SQLite makes of a quota, or of a limit on the size of files
# PostgreSQL's: a deadlock, a conflict, a full disk, no memory, too many connections, a lock that is not to be had, and
# a statement that took too long
_BUSY_STATES = frozenset({"40001", "40P01", "53100", "53200", "53300", "55P03", "57014"})


class StoreReader(Protocol):
    """Runs a query on a connection of its own."""

    async def __call__(
        self, query: Select[*tuple[Any, ...]], values: Mapping[str, object] | None = None, /
    ) -> Sequence[Any]:
        """Return all rows; ``values`` are those of the query's parameters."""


class Connections(Protocol):
    """One or more connections to a database."""

    async def call(self, function: Callable[[Connection], _T]) -> _T:
        """Return ``function(connection)``, run in a transaction; a single connection runs calls in order.

        Raises ``StoreError`` with the database's own message.
        """


class _Upkeep(Protocol):
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
    upkeep: _Upkeep
    waits_s: Callable[[], float] = float
    """Return for how long a read has waited for one of the connections, in seconds; 0 if none does."""


async def breakable(work: Coroutine[Any, Any, _T], break_off: Callable[[], object]) -> _T:
    """Return the result of a thread; a cancellation calls ``break_off`` and waits until the thread ends."""
    working = asyncio.create_task(work, name="thread")
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        break_off()
        await asyncio.gather(working, return_exceptions=True)
        raise


def sqlite_url(database: Path) -> URL:
    """Return the URL of a database file; its name may contain any character.

    >>> sqlite_url(Path("a?b.db")).database
    'a?b.db'
    """
    return URL.create("sqlite", database=str(database))


@contextmanager
def store_errors() -> Iterator[None]:
    """Turn the database driver's errors into ``StoreError``, with the driver's message and what to do.

    It is a ``StoreBusyError`` if the same may succeed later.
    """
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error, OSError) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        detailed = getattr(cause, "sqlite_errorcode", 0)
        code = detailed & 0xFF  # the primary code; the rest names no other remedy
        remedy = f"; {_REMEDIES[code]}" if code in _REMEDIES else ""
        is_busy = code in _BUSY or detailed == _QUOTA or getattr(cause, "sqlstate", None) in _BUSY_STATES
        raise (StoreBusyError if is_busy else StoreError)(f"the database failed: {cause}{remedy}") from error


async def on_own_loop(work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of a coroutine that runs on a loop of its own; a cancellation waits until it has ended."""
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    loop = runner.get_loop()
    working = loop.create_task(work)

    def run() -> _T:
        with runner:
            return loop.run_until_complete(working)

    def break_off() -> None:
        with suppress(RuntimeError):  # the thread has just ended, and its loop with it
            loop.call_soon_threadsafe(working.cancel)

    async def end() -> _T:
        return await asyncio.get_running_loop().run_in_executor(thread, run)

    with ThreadPoolExecutor(max_workers=1) as thread:
        return await breakable(end(), break_off)
