"""The one place that reads the clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxyd.base.ports import Clock

_SLOW = 0.5  # of the usual speed, while the machine's clock is behind


class SystemClock:
    """The Clock port over the operating system's clocks.

    Where the machine's clock is put back, ``time_s`` runs at half speed until that has caught up: plans, retries and
    retention go on, and no moment comes twice.

    Examples
    --------
    >>> wall, steady = iter([1000.0, 990.0, 1000.0, 1020.0]), iter([0.0, 10.0, 20.0, 40.0])
    >>> clock = SystemClock(lambda: next(wall), lambda: next(steady))
    >>> clock.time_s(), clock.time_s(), clock.time_s()
    (1005.0, 1010.0, 1020.0)
    """

    def __init__(
        self,
        wall_s: Callable[[], float] = time.time,  # noqa: TID251 - this is the one place
        monotonic_s: Callable[[], float] = time.monotonic,  # noqa: TID251 - this is the one place
    ) -> None:
        self._wall_s = wall_s
        self._monotonic_s = monotonic_s
        self._now_s = wall_s()
        self._read_s = monotonic_s()

    def time_s(self) -> float:
        """Return unix seconds that never go back."""
        read_s = self._monotonic_s()
        least_s = self._now_s + _SLOW * (read_s - self._read_s)
        self._now_s, self._read_s = max(self._wall_s(), least_s), read_s
        return self._now_s

    def wall_s(self) -> float:
        """Return the unix seconds of the machine's clock."""
        return self._wall_s()

    def monotonic_s(self) -> float:
        """Return seconds that never go back."""
        return self._monotonic_s()

    async def sleep(self, seconds: float) -> None:
        """Wait; return at once if ``seconds`` is not positive."""
        await asyncio.sleep(max(0.0, seconds))


def awake_or_asleep_s() -> float:
    """Return seconds that never go back and also pass while the machine sleeps; any thread may ask."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


async def wait_until(clock: Clock, time_s: float) -> None:
    """Wait until that time by the machine's clock, which may be set back or forward meanwhile."""
    while (left_s := time_s - clock.time_s()) > 0:
        await clock.sleep(left_s)
