"""Group commit: many small writes share one transaction; each is atomic, and they run in order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

import structlog
from sqlalchemy import Connection, text

from proxyd.core.errors import ProxydError, StoreBusyError, StoreError, StoreUnreachableError
from proxyd.store.databases.connections import Connections

_T = TypeVar("_T")
_Write: TypeAlias = Callable[[Connection], _T]
_Result: TypeAlias = tuple[Any, ProxydError | None]
MAX_BATCH = 64
_AGAIN_S = 1.0
_TAKEN = "taken"  # where the transaction keeps what it took
log = structlog.get_logger("store")


@dataclass(slots=True)
class _Queued:
    write: _Write[Any]
    done: asyncio.Future[Any]
    is_last: bool
    may_wait: bool


class Writer:
    """Runs writes one after the other on the only writing connection.

    ``run`` is a task of its own. While the database is busy (locked, or its disk is full) it tries again. If the
    database fails, the writes of its batch fail too, and it raises ``StoreError``, which ends the daemon: a monitor
    that cannot remember must not go on.

    ``make_room`` is called when the database is busy; it may free space on a full disk. ``finish`` is called in each
    transaction, after its writes. Writes that may wait do so until ``shared_s`` seconds after the last commit.
    """

    def __init__(
        self,
        connection: Connections,
        make_room: Callable[[], Awaitable[None]] | None = None,
        finish: Callable[[Connection], None] | None = None,
        shared_s: float = 0.0,
    ) -> None:
        self.waits_for = ""  # why it waits for the database; empty while it does not
        self._waits_since_s = 0.0
        self._connection = connection
        self._make_room = make_room
        self._finish = finish
        self._shared_s = shared_s
        self._committed_s = -inf
        self._queue: asyncio.Queue[_Queued | None] = asyncio.Queue()
        self._arrived = asyncio.Event()
        self._failed: StoreError | None = None
        self._closed = False

    async def submit(self, write: _Write[_T], *, is_last: bool = False, may_wait: bool = False) -> _T:
        """Run ``write`` in a transaction and return its result once it is committed.

        It may run in the writer's thread, so data that it shares with the event loop must allow that. A write may
        refuse by raising a ``ProxydError`` before it has changed anything; the others in its batch go on. One that
        ``is_last`` runs at the end of its transaction. One that ``may_wait`` does so for others to share it.
        """
        if self._failed is not None:
            raise self._failed
        if self._closed:
            raise StoreError("the store is closing")
        done: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._put(_Queued(write, done, is_last, may_wait))
        return await done

    @property
    def waits_s(self) -> float:
        """For how long it has waited for the database, in seconds; 0 if it does not."""
        return asyncio.get_running_loop().time() - self._waits_since_s if self.waits_for else 0.0

    async def ping(self) -> None:
        """Prove that writes are committed; raise ``StoreBusyError`` while the database is busy."""
        committing = asyncio.create_task(self.submit(lambda on: on.execute(text("SELECT 1"))), name="ping")
        try:
            while not committing.done():
                if self.waits_for:
                    raise StoreBusyError(self.waits_for)
                await asyncio.wait([committing], timeout=_AGAIN_S)
        finally:
            committing.cancel()
        committing.result()

    async def run(self) -> None:
        """Commit batches until ``close``."""
        batch: list[_Queued] = []
        try:
            while batch := await self._next_batch():
                await self._commit(batch)
        except StoreError as error:
            self._give_up(batch, error)
            raise
        except (asyncio.CancelledError, Exception):  # otherwise the callers would wait forever, also after a bug
            self._give_up(batch, StoreUnreachableError("the store was closed; whether this was committed is not known"))
            raise

    def close(self) -> None:
        """End ``run`` once all earlier writes have been committed; refuse later ones."""
        self._closed = True
        self._put(None)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the writer while the context is open, for callers without a task group."""
        task = asyncio.create_task(self.run(), name="writer")
        try:
            yield
        finally:
            self.close()
            await task

    def _put(self, queued: _Queued | None) -> None:
        self._queue.put_nowait(queued)
        self._arrived.set()

    async def _next_batch(self) -> list[_Queued]:
        batch: list[_Queued] = []
        while len(batch) < MAX_BATCH and (not batch or await self._has_more(batch)):
            queued = await self._queue.get()
            if queued is None:
                if batch:
                    self._queue.put_nowait(None)
                break
            batch.append(queued)
        return batch

    async def _has_more(self, batch: Sequence[_Queued]) -> bool:
        """Wait for one more write as long as all of a batch may wait; return whether one has come."""
        left_s = self._committed_s + self._shared_s - asyncio.get_running_loop().time()
        if self._queue.empty() and left_s > 0 and all(queued.may_wait for queued in batch):
            self._arrived.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    await self._arrived.wait()
        return not self._queue.empty()

    def _give_up(self, batch: list[_Queued], error: StoreError) -> None:
        """Fail the writes of a batch, and those that wait."""
        self._failed = error
        while not self._queue.empty():
            if (queued := self._queue.get_nowait()) is not None:
                batch.append(queued)
        for queued in batch:
            if not queued.done.done():
                queued.done.set_exception(error)

    async def _commit(self, batch: list[_Queued]) -> None:
        batch.sort(key=attrgetter("is_last"))
        results = await self._results(batch)
        self._committed_s = asyncio.get_running_loop().time()
        for queued, (result, refusal) in zip(batch, results, strict=True):
            if queued.done.done():
                continue
            if refusal is not None:
                queued.done.set_exception(refusal)
            else:
                queued.done.set_result(result)

    async def _results(self, batch: Sequence[_Queued]) -> list[_Result]:
        """Return the results of a batch once it is committed, however long the database is busy."""
        while True:
            taken = _Taken()
            try:
                results = await self._connection.call(partial(self._run, batch, taken))
            except StoreBusyError as error:
                taken.put_back()
                await self._wait(error)
            else:
                if self.waits_for:
                    log.info("the database is written again", after_s=round(self.waits_s, 1))
                    self.waits_for = ""
                return results

    def _run(self, batch: Sequence[_Queued], taken: _Taken, connection: Connection) -> list[_Result]:
        connection.info[_TAKEN] = taken
        results = _results_of([queued.write for queued in batch if not queued.is_last], connection)
        if self._finish is not None:
            self._finish(connection)
        return results + _results_of([queued.write for queued in batch if queued.is_last], connection)

    async def _wait(self, error: StoreBusyError) -> None:
        """Wait before the next attempt; raise ``error`` if the store is closing meanwhile."""
        if not self.waits_for:
            self._waits_since_s = asyncio.get_running_loop().time()
            log.warning("the database is not written: no probes are made until it is", error=str(error))
        self.waits_for = str(error)
        if self._make_room is not None:
            with suppress(StoreError):  # the next attempt says what is wrong
                await self._make_room()
        if self._closed:
            raise error
        await asyncio.sleep(_AGAIN_S)


class _Taken(list[tuple[deque[Any], list[Any]]]):
    """What a transaction took from deques."""

    def put_back(self) -> None:
        """Put all back in order, before what came meanwhile."""
        for waiting, entries in reversed(self):
            waiting.extendleft(reversed(entries))


def take_all(connection: Connection, waiting: deque[_T]) -> list[_T]:
    """Take all waiting entries for a transaction; they come back if it is rolled back.

    The event loop may append more at any time.
    """
    # In this way, writes that wait for the same commit share their statements: the first does the work of all
    entries = [waiting.popleft() for _ in range(len(waiting))]
    connection.info[_TAKEN].append((waiting, entries))
    return entries


def _results_of(writes: Sequence[_Write[Any]], connection: Connection) -> list[_Result]:
    """Run writes one after the other; one that refuses does so before it has changed anything."""
    results: list[_Result] = []
    for write in writes:
        try:
            results.append((write(connection), None))
        except ProxydError as error:
            results.append((None, error))
    return results
