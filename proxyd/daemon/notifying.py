"""Delivery of the outbox: by this process, or by another one that is told of new deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from proxyd.base.clock import Signal
from proxyd.base.ports import Clock
from proxyd.core.errors import ClusterError
from proxyd.notify import Dispatcher, Pings

log = structlog.get_logger("notify")


class Notifying(Protocol):
    """Delivers what is in the outbox, and pings new webhooks first."""

    def wake(self) -> None:
        """Look at the outbox now: it has new deliveries."""

    def wake_pings(self) -> None:
        """Look for new webhooks now: some were declared."""

    async def run(self) -> None:
        """Deliver until ``drain``."""

    async def busy_endpoints(self) -> frozenset[str]:
        """Return the endpoints to which this process is sending something."""

    async def drain(self, timeout_s: float) -> None:
        """Start no more deliveries, and wait for the running ones."""


@dataclass(frozen=True, slots=True)
class Notifier:
    """Delivers in this process."""

    dispatcher: Dispatcher
    pings: Pings

    def wake(self) -> None:
        """Look at the outbox now."""
        self.dispatcher.wake()

    def wake_pings(self) -> None:
        """Look for new webhooks now."""
        self.pings.wake()

    async def run(self) -> None:
        """Deliver until ``drain``."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.dispatcher.run(), name="deliveries")
            tasks.create_task(self.pings.run(), name="pings")

    def wake_all(self) -> None:
        """Look at everything now: this process delivers to other endpoints than before."""
        self.wake()
        self.wake_pings()

    async def busy_endpoints(self) -> frozenset[str]:
        """Return the endpoints to which something is being sent."""
        return await self.dispatcher.under_way()

    async def drain(self, timeout_s: float) -> None:
        """Start no more deliveries, and wait for the running ones."""
        self.pings.stop()
        await self.dispatcher.drain(timeout_s)


class DistantNotifier:
    """Wakes the notifier on another machine, which also polls in case it misses a message."""

    def __init__(self, ring: Callable[[], Awaitable[None]], clock: Clock) -> None:
        self._ring = ring
        self._clock = clock
        self._wake = Signal()
        self._draining = False

    def wake(self) -> None:
        """Wake it."""
        self._wake.notify()

    def wake_pings(self) -> None:
        """Wake it."""
        self._wake.notify()

    async def run(self) -> None:
        """Wake it whenever there are new deliveries, until ``drain``."""
        while not self._draining:
            await self._wake.sleep(self._clock)
            try:
                await self._ring()
            except ClusterError as error:
                log.debug("the notifier could not be told", error=error.message)

    async def busy_endpoints(self) -> frozenset[str]:
        """Return none: another process sends."""
        return frozenset()

    async def drain(self, timeout_s: float) -> None:
        """Send no more messages; deliveries on the other machine are not awaited."""
        self._draining = True
        self._wake.notify()
