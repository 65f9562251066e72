"""Signals, by which one part of the daemon wakes another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

from proxyd.base.ports import Clock


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
        for listener in self._listeners:
            listener()

    async def sleep(self, clock: Clock, seconds: float = inf) -> None:
        """Sleep until ``seconds`` have passed or something is notified; for one loop alone.

        Returns at once if something was notified since the loop last slept.
        """
        waiting: list[asyncio.Future[object]] = [asyncio.ensure_future(self._since.wait())]
        if seconds < inf:
            waiting.append(asyncio.ensure_future(clock.sleep(seconds)))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
            self._since = self._next
