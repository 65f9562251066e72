"""Work on an event loop of its own: in a thread that neither waits for this loop nor holds it up."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from proxyd.store.databases.connections import breakable

T = TypeVar("T")


async def on_own_loop(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that runs on a loop of its own; a cancellation waits until it has ended."""
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    loop = runner.get_loop()
    working = loop.create_task(work)

    def run() -> T:
        with runner:
            return loop.run_until_complete(working)

    def break_off() -> None:
        with suppress(RuntimeError):  # the thread has just ended, and its loop with it
            loop.call_soon_threadsafe(working.cancel)

    async def end() -> T:
        return await asyncio.get_running_loop().run_in_executor(thread, run)

    with ThreadPoolExecutor(max_workers=1) as thread:
        return await breakable(end(), break_off)
