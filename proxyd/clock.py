"""The one place that reads the clock."""

from __future__ import annotations

import asyncio
import time

from proxyd.ports import Clock


class SystemClock:
    """The Clock port over the operating system's clocks."""

    def time_s(self) -> float:
        """Return unix seconds."""
        return time.time()  # noqa: TID251 - this is the one place

    def monotonic_s(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()  # noqa: TID251 - this is the one place

    async def sleep(self, seconds: float) -> None:
        """Wait; returns at once where ``seconds`` is not positive."""
        await asyncio.sleep(max(0.0, seconds))


async def sleep_or_wake(clock: Clock, seconds: float, wake: asyncio.Event) -> None:
    """Wait for ``seconds`` or until ``wake`` is set, whichever comes first, and clear ``wake``."""
    sleeper = asyncio.ensure_future(clock.sleep(seconds))
    waker = asyncio.ensure_future(wake.wait())
    try:
        await asyncio.wait((sleeper, waker), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sleeper, waker):
            task.cancel()
        wake.clear()
