"""Whoever hands something to a writer learns what became of it, however the writer ended."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar
from unittest.mock import MagicMock

import pytest
from sqlalchemy import Connection

from proxyd.core.errors import StoreBusyError, StoreError, StoreUnreachableError
from proxyd.store.audit_rows import SqlAudit
from proxyd.store.writer import MAX_BATCH, Writer, take_all
from tests.fakes import settle

T = TypeVar("T")


class Hanging:
    """A connection that never answers."""

    async def call(self, function: Callable[[Connection], T]) -> T:
        return await asyncio.Future()


@pytest.mark.parametrize("waiting", [0, 2], ids=["idle", "in a commit"])
async def test_a_writer_that_is_cancelled_leaves_nobody_waiting(waiting: int) -> None:
    writer = Writer(Hanging())
    running = asyncio.create_task(writer.run())
    writes = [asyncio.create_task(writer.submit(lambda _: None)) for _ in range(waiting)]
    await settle()
    running.cancel()
    await asyncio.wait([running])
    for write in (*writes, writer.submit(lambda _: None)):
        with pytest.raises(StoreUnreachableError):
            await write


class Direct:
    """A connection that runs what it is given at once, and counts the transactions."""

    def __init__(self) -> None:
        self.called = 0

    async def call(self, function: Callable[[Connection], T]) -> T:
        self.called += 1
        return function(MagicMock())


def _writing(result: T) -> Callable[[Connection], T]:
    return lambda _: result


async def test_what_is_written_before_the_end_is_committed_and_what_comes_after_is_refused() -> None:
    connection = Direct()
    writer = Writer(connection)
    writes = [asyncio.create_task(writer.submit(_writing(number))) for number in range(3)]
    await settle()
    writer.close()
    await writer.run()
    assert [await write for write in writes] == [0, 1, 2]
    assert connection.called == 1
    with pytest.raises(StoreError, match="the store is closing"):
        await writer.submit(lambda _: None)


async def test_a_caller_who_left_does_not_keep_the_others_of_his_batch_from_their_results() -> None:
    writer = Writer(Direct())
    first, second = (asyncio.create_task(writer.submit(_writing(name))) for name in "ab")
    await settle()
    first.cancel()
    writer.close()
    await asyncio.gather(writer.run(), asyncio.wait([first]))
    assert await second == "b"
    assert first.cancelled()


class Busy:
    """A connection whose first commits fail, and that has room once it was made."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.rooms = 0
        self.info: dict[str, object] = {}

    async def call(self, function: Callable[[Connection], T]) -> T:
        result = function(MagicMock(info=self.info))
        if self.failures:
            self.failures -= 1
            raise StoreBusyError("the disk is full")
        return result

    async def make_room(self) -> None:
        self.rooms += 1
        raise StoreError("there is none")


async def test_a_busy_database_is_waited_for_and_what_a_transaction_took_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxyd.store.writer._AGAIN_S", 0.0)
    connection, waiting = Busy(2), deque("ab")
    writer = Writer(connection, connection.make_room)
    taken: list[list[str]] = []

    def take(on: Connection) -> None:
        taken.append(take_all(on, waiting))
        if len(taken) == 1:
            waiting.append("c")

    async with writer.running():
        await asyncio.gather(writer.submit(take), writer.submit(take))
        assert (connection.rooms, writer.waits_for, writer.waits_s) == (2, "", 0.0)
    assert taken == [["a", "b"], ["c"], ["a", "b", "c"], [], ["a", "b", "c"], []]


async def test_who_asks_a_busy_database_for_a_sign_of_life_is_told_why_there_is_none() -> None:
    writer = Writer(Busy(1_000_000))
    running = asyncio.create_task(writer.run())
    with pytest.raises(StoreBusyError, match="the disk is full"):
        await writer.ping()
    assert writer.waits_for == "the disk is full"
    assert writer.waits_s > 0
    writer.close()
    with pytest.raises(StoreBusyError):
        await running


async def test_a_deed_is_noted_later_and_delays_nobody_while_the_database_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("proxyd.store.writer._AGAIN_S", 0.0)
    connection, noted = Busy(1_000_000), list[str]()
    monkeypatch.setattr("proxyd.store.audit_rows.note_deed", lambda *given: noted.append(given[3]))
    monkeypatch.setattr("proxyd.store.audit_rows._MOST_WAITING", 2)
    writer = Writer(connection)
    audit = SqlAudit(writer, MagicMock())
    async with asyncio.timeout(50), writer.running():
        for did in ("sign in", "test", "reload"):
            await audit.note(did, "", "", now_s=0.0)
        noted.clear()
        connection.failures = 0
        await writer.submit(lambda _: None)
    assert noted == ["sign in", "test"]


async def test_writes_that_may_wait_share_a_transaction_and_are_taken_along_by_one_that_may_not() -> None:
    connection = Direct()
    writer = Writer(connection, shared_s=60.0)
    async with asyncio.timeout(50), writer.running():
        await writer.submit(_writing(0), may_wait=True)  # nothing was committed just before: it need not wait
        waiting = [asyncio.create_task(writer.submit(_writing(number), may_wait=True)) for number in range(3)]
        await settle()
        assert connection.called == 1
        assert not any(each.done() for each in waiting)
        assert await writer.submit(_writing("now")) == "now"
        assert [await each for each in waiting] == [0, 1, 2]
        assert connection.called == 2


async def test_writes_that_may_wait_are_committed_when_the_wait_is_over_when_they_are_many_and_at_the_end() -> None:
    connection = Direct()
    writer = Writer(connection, shared_s=0.05)
    async with asyncio.timeout(50), writer.running():
        await writer.submit(_writing(0))
        await writer.submit(_writing(1), may_wait=True)
        assert connection.called == 2
    writer = Writer(connection, shared_s=60.0)
    async with asyncio.timeout(50), writer.running():
        await writer.submit(_writing(0))
        many = [writer.submit(_writing(number), may_wait=True) for number in range(MAX_BATCH)]
        assert await asyncio.gather(*many) == list(range(MAX_BATCH))
        last = asyncio.create_task(writer.submit(_writing("last"), may_wait=True))
        await settle()
        assert not last.done()
    assert await last == "last"
