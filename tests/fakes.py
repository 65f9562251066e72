"""Small stand-ins for the ports."""

from __future__ import annotations

import asyncio
from dataclasses import fields
from typing import Any, cast

from proxyd.api.queries import Queries


class FakeClock:
    """A clock that moves only when it is told to; sleepers wake in the order of their times."""

    def __init__(self, time_s: float = 1_000_000_000.0, monotonic_s: float = 5000.0) -> None:
        self._offset_s = time_s - monotonic_s
        self._monotonic_s = monotonic_s
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self._slept = asyncio.Event()

    def time_s(self) -> float:
        return self._monotonic_s + self._offset_s

    def wall_s(self) -> float:
        return self.time_s()

    off_s = 0.0

    def monotonic_s(self) -> float:
        return self._monotonic_s

    @property
    def sleepers(self) -> int:
        """How many tasks are waiting."""
        return len(self._sleepers)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        sleeper = (self._monotonic_s + seconds, asyncio.get_running_loop().create_future())
        self._sleepers.append(sleeper)
        self._slept.set()
        try:
            await sleeper[1]
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)

    async def someone_sleeps(self) -> None:
        """Wait until a task sleeps, however long it takes it to come there."""
        while not self._sleepers:
            await self.another_sleeps()

    async def another_sleeps(self) -> None:
        """Wait until one more task sleeps than do now, or one again."""
        self._slept.clear()
        await self._slept.wait()

    async def advance(self, seconds: float) -> None:
        """Move on, waking each sleeper at its own time and letting it run before time goes on."""
        await settle()
        until_s = self._monotonic_s + seconds
        while due := [sleeper for sleeper in self._sleepers if sleeper[0] <= until_s]:
            wake_s, future = min(due, key=lambda sleeper: sleeper[0])
            self._sleepers.remove((wake_s, future))
            self._monotonic_s = max(self._monotonic_s, wake_s)
            if not future.done():
                future.set_result(None)
            await settle()
        self._monotonic_s = max(self._monotonic_s, until_s)
        await settle()

    def jump(self, seconds: float) -> None:
        """Let time pass while nothing runs, as when the whole process is stopped."""
        self._monotonic_s += seconds


async def settle(rounds: int = 12) -> None:
    """Let every task that can run do so."""
    for _ in range(rounds):
        await asyncio.sleep(0)


def no_queries() -> Queries:
    """Return ports without anything behind them: handlers are bound to them and never called."""
    nothing = cast("Any", None)
    return Queries(*[nothing] * len(fields(Queries)))
