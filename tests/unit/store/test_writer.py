"""Whoever hands something to a writer learns what became of it, however the writer ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest
from sqlalchemy import Connection

from proxyd.errors import StoreUnreachableError
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
