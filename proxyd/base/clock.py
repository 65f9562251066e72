"""The one place that reads the clock, and wake-ups that wait on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import tzinfo
from math import inf

import tzlocal

from proxyd.base.ports import Clock

MOST_OFF_S = 2.0
"""By how much more than a chronon a machine's clock may be wrong before it is reported."""
_SLOW = 0.5  # of the usual speed, while the machine's clock is behind


def zone_name(zone: tzinfo | None) -> str:
    """Return the name of a time zone, ``None`` for that of this machine; empty if the machine's has no name."""
    return str(zone) if zone is not None else tzlocal.get_localzone_name() or ""


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
        self._machine_s = self._wall_s = wall_s
        self._monotonic_s = monotonic_s
        self._now_s = wall_s()
        self._read_s = monotonic_s()

    def follow(self, wall_s: Callable[[], float]) -> None:
        """Take the time from elsewhere from now on; the first time it may jump, so nothing must be planned yet."""
        if wall_s != self._wall_s:
            self._wall_s, self._now_s, self._read_s = wall_s, wall_s(), self._monotonic_s()

    @property
    def off_s(self) -> float:
        """How far the machine's clock is ahead of the time that is followed, in seconds; negative if it is behind."""
        return self._machine_s() - self._wall_s()

    def time_s(self) -> float:
        """Return unix seconds that never go back."""
        read_s = self._monotonic_s()
        least_s = self._now_s + _SLOW * (read_s - self._read_s)
        self._now_s, self._read_s = max(self._wall_s(), least_s), read_s
        return self._now_s

    def wall_s(self) -> float:
        """Return the unix seconds of the machine's clock, or of the one that is followed."""
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


class Signal:
    """Wakes the loop that sleeps on it and those who wait for ``next``, and calls the listeners.

    Examples
    --------
    >>> heard, signal = [], Signal()
    >>> signal.listen(lambda: heard.append("news"))
    >>> waiting = signal.next
    >>> signal.notify()
    >>> heard, waiting.is_set(), signal.next.is_set()
    (['news'], True, False)
    """

    def __init__(self) -> None:
        self._next = asyncio.Event()
        self._since = self._next  # what was notified since the loop last slept has set it
        self._listeners: list[Callable[[], None]] = []
        self._woken: asyncio.Future[None] | None = None  # of the loop, while it sleeps

    @property
    def next(self) -> asyncio.Event:
        """The event that the next notification sets; take it before you read what may change."""
        return self._next

    def listen(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` at every notification."""
        self._listeners.append(listener)

    def notify(self) -> None:
        """Wake those who wait, and call those who listen."""
        self._next.set()
        self._next = asyncio.Event()
        self._wake()
        for listener in self._listeners:
            listener()

    async def sleep(self, clock: Clock, seconds: float = inf) -> None:
        """Sleep until ``seconds`` have passed or something is notified; for one loop alone.

        Returns at once if something was notified since the loop last slept.
        """
        if self._since.is_set():
            self._since = self._next
            await asyncio.sleep(0)
            return
        self._woken = asyncio.get_running_loop().create_future()
        ending = asyncio.ensure_future(clock.sleep(seconds)) if seconds < inf else None
        if ending is not None:
            ending.add_done_callback(self._wake)
        try:
            await self._woken
        finally:
            self._woken = None
            if ending is not None:
                ending.remove_done_callback(self._wake)
                ending.cancel()
            self._since = self._next

    def _wake(self, _: object = None) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)
