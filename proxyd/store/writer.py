"""Group commit: many small writes share one transaction; each is atomic, and they run in order of arrival."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Connection, text

from proxyd.core.errors import ProxydError, StoreError, StoreUnreachableError
from proxyd.store.databases.connections import Connections

T = TypeVar("T")
Write: TypeAlias = Callable[[Connection], T]
Result: TypeAlias = tuple[Any, ProxydError | None]
MAX_BATCH = 64


@dataclass(slots=True)
class _Queued:
    write: Write[Any]
    done: asyncio.Future[Any]


class Writer:
    """Runs writes one after the other on the only writing connection.

    ``run`` is a task of its own. If the database fails, the writes of its batch fail too, and it raises ``StoreError``,
    which ends the daemon: a monitor that cannot remember must not go on.
    """

    def __init__(self, connection: Connections) -> None:
        self._connection = connection
        self._queue: asyncio.Queue[_Queued | None] = asyncio.Queue()
        self._failed: StoreError | None = None
        self._closed = False

    async def submit(self, write: Write[T]) -> T:
        """Run ``write`` in a transaction and return its result once it is committed.

        It may run in the writer's thread, so data that it shares with the event loop must allow that. A write may
        refuse by raising a ``ProxydError`` before it has changed anything; the others in its batch go on.
        """
        if self._failed is not None:
            raise self._failed
        if self._closed:
            raise StoreError("the store is closing")
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.put_nowait(_Queued(write, done))
        return await done

    async def ping(self) -> None:
        """Prove that writes are committed."""
        await self.submit(lambda connection: connection.execute(text("SELECT 1")))

    async def run(self) -> None:
        """Commit batches until ``close``."""
        batch: list[_Queued] = []
        try:
            while batch := await self._next_batch():
                await self._commit(batch)
        except StoreError as error:
            self._give_up(batch, error)
            raise
        except asyncio.CancelledError:  # otherwise the callers would wait forever
            self._give_up(batch, StoreUnreachableError("the store was closed; whether this was committed is not known"))
            raise

    def close(self) -> None:
        """End ``run`` once all earlier writes have been committed; refuse later ones."""
        self._closed = True
        self._queue.put_nowait(None)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the writer while the context is open, for callers without a task group."""
        task = asyncio.create_task(self.run(), name="writer")
        try:
            yield
        finally:
            self.close()
            await task

    async def _next_batch(self) -> list[_Queued]:
        first = await self._queue.get()
        if first is None:
            return []
        batch = [first]
        while len(batch) < MAX_BATCH and not self._queue.empty():
            queued = self._queue.get_nowait()
            if queued is None:
                self._queue.put_nowait(None)
                break
            batch.append(queued)
        return batch

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
        writes = [queued.write for queued in batch]
        results = await self._connection.call(lambda connection: _run(connection, writes))
        for queued, (result, refusal) in zip(batch, results, strict=True):
            if queued.done.done():
                continue
            if refusal is not None:
                queued.done.set_exception(refusal)
            else:
                queued.done.set_result(result)


def take_all(waiting: deque[T]) -> list[T]:
    """Take all waiting entries; the event loop may append more at any time."""
    # In this way, writes that wait for the same commit share their statements: the first does the work of all
    return [waiting.popleft() for _ in range(len(waiting))]


def _run(connection: Connection, writes: Sequence[Write[Any]]) -> list[Result]:
    """Run writes one after the other; one that refuses does so before it has changed anything."""
    results: list[Result] = []
    for write in writes:
        try:
            results.append((write(connection), None))
        except ProxydError as error:
            results.append((None, error))
    return results
