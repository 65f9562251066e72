"""Who delivers: this process, or another one, which is told that there is something."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from proxyd.errors import ClusterError
from proxyd.notify import Dispatcher, Pings
from proxyd.ports import Clock
from proxyd.signals import Signal

log = structlog.get_logger("notify")


class Notifying(Protocol):
    """Sees what is in the outbox through, and asks new webhooks first."""

    def wake(self) -> None:
        """Look at the outbox now: something was put in."""

    def wake_pings(self) -> None:
        """Look for new webhooks now: something was declared."""

    async def run(self) -> None:
        """Deliver until ``drain``."""

    async def drain(self, timeout_s: float) -> None:
        """Begin nothing more, and wait for what is under way."""


@dataclass(frozen=True, slots=True)
class Notifier:
    """Delivers itself."""

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

    async def drain(self, timeout_s: float) -> None:
        """Begin nothing more, and wait for what is under way."""
        self.pings.stop()
        await self.dispatcher.drain(timeout_s)


class DistantNotifier:
    """Tells the notifier elsewhere; one that does not hear it looks by itself a little later."""

    def __init__(self, ring: Callable[[], Awaitable[None]], clock: Clock) -> None:
        self._ring = ring
        self._clock = clock
        self._wake = Signal()
        self._draining = False

    def wake(self) -> None:
        """Tell it."""
        self._wake.notify()

    def wake_pings(self) -> None:
        """Tell it."""
        self._wake.notify()

    async def run(self) -> None:
        """Tell it whenever there is something, until ``drain``."""
        while not self._draining:
            await self._wake.sleep(self._clock)
            try:
                await self._ring()
            except ClusterError as error:
                log.debug("the notifier could not be told", error=error.message)

    async def drain(self, timeout_s: float) -> None:
        """Tell nothing more; what is under way elsewhere is not waited for."""
        self._draining = True
        self._wake.notify()
