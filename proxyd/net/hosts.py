"""Tokens that space the requests to a host, and turns that let few of them run at once."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from proxyd.ports import Clock

_SWEEP_AT = 1024


@dataclass(slots=True)
class _Lane:
    """One host: who holds the lock is next; ``users`` counts who runs, the holder and the queue."""

    slots: asyncio.Semaphore
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    granted_s: float | None = None


class HostTokens:
    """Spaces the starts of requests to one host, first come, first served.

    Parameters
    ----------
    spacing_s
        Least time between the starts of two requests to the same host.
    concurrency
        Most turns at one host at once; tokens alone are not limited by it.
    idle_s
        A host nobody asked for in this time may be forgotten; memory grows with the hosts of that time only.
    """

    def __init__(self, clock: Clock, spacing_s: float, *, concurrency: int = 1, idle_s: float = 600.0) -> None:
        self._clock = clock
        self._concurrency = concurrency
        self._spacing_s = spacing_s
        self._keep_s = max(idle_s, spacing_s)
        self._lanes: dict[str, _Lane] = {}
        self._sweep_at = _SWEEP_AT

    def __len__(self) -> int:
        """Return how many hosts are remembered."""
        return len(self._lanes)

    async def take(self, host: str, spacing_s: float = 0.0) -> None:
        """Wait until a request to ``host`` may start, then return: the token is spent.

        ``spacing_s`` asks for more than the general spacing before this request. A caller that is cancelled while
        it waits gives up its place and spends nothing.
        """
        gap_s = max(self._spacing_s, spacing_s)
        self._keep_s = max(self._keep_s, gap_s)
        lane = self._lane(_canonical(host))
        lane.users += 1
        try:
            async with lane.lock:
                await self._wait_until(lane.granted_s, gap_s)
                lane.granted_s = self._clock.monotonic_s()
        finally:
            lane.users -= 1

    @asynccontextmanager
    async def turn(self, host: str, spacing_s: float = 0.0) -> AsyncIterator[None]:
        """Wait for a place at ``host`` and its token, and hold the place while the block runs.

        Nobody may wait for another turn inside the block: two callers would wait for each other.
        """
        lane = self._lane(_canonical(host))
        lane.users += 1
        try:
            async with lane.slots:
                await self.take(host, spacing_s)
                yield
        finally:
            lane.users -= 1

    async def _wait_until(self, granted_s: float | None, gap_s: float) -> None:
        if granted_s is None:
            return
        while (left_s := granted_s + gap_s - self._clock.monotonic_s()) > 0:
            await self._clock.sleep(left_s)

    def _lane(self, host: str) -> _Lane:
        lane = self._lanes.get(host)
        if lane is None:
            if len(self._lanes) >= self._sweep_at:
                self._forget_idle()
            lane = self._lanes[host] = _Lane(asyncio.Semaphore(self._concurrency))
        return lane

    def _forget_idle(self) -> None:
        before_s = self._clock.monotonic_s() - self._keep_s
        self._lanes = {host: lane for host, lane in self._lanes.items() if not _is_idle(lane, before_s)}
        self._sweep_at = max(_SWEEP_AT, 2 * len(self._lanes))


def _is_idle(lane: _Lane, before_s: float) -> bool:
    return lane.users == 0 and (lane.granted_s is None or lane.granted_s <= before_s)


def _canonical(host: str) -> str:
    return host.rstrip(".").lower()
