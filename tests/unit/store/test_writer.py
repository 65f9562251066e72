"""Whoever hands something to a writer learns what became of it, however the writer ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar
from unittest.mock import MagicMock

import pytest
from sqlalchemy import Connection

from proxyd.core.errors import StoreError, StoreUnreachableError
from proxyd.store.writer import Writer
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
