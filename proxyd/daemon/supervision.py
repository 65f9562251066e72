"""The daemon's messages to its supervisor, in the datagrams of systemd's ``sd_notify``."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from proxyd.config import Supervision
from proxyd.errors import StoreError
from proxyd.ports import Clock

_FEEDS = 3  # in each watchdog interval
log = structlog.get_logger("supervision")


class Supervisor:
    """Reports when the daemon runs, reloads and stops, and feeds the watchdog; does nothing without a supervisor.

    ``commit`` returns once the store has committed something, so the watchdog is fed only while the event loop turns
    and the writer commits.
    """

    def __init__(self, told: Supervision | None, clock: Clock, commit: Callable[[], Awaitable[None]]) -> None:
        self._told = told
        self._clock = clock
        self._commit = commit

    def ready(self, status: str) -> None:
        """Report that the daemon runs, or has reloaded; ``status`` is one line for people."""
        self._send("READY=1", f"STATUS={status}")

    def reloading(self) -> None:
        """Report that the daemon reloads its profiles, until ``ready`` is reported again."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={self._clock.monotonic_s() * 1e6:.0f}")

    def stopping(self) -> None:
        """Report that the daemon drains."""
        self._send("STOPPING=1", "STATUS=draining")

    async def run(self) -> None:
        """Feed the watchdog until cancelled; return at once if there is no watchdog."""
        if self._told is None or self._told.watchdog_s is None:
            return
        while True:
            with suppress(StoreError):  # the writer reports it; without a commit the watchdog is not fed
                await self._commit()
                self._send("WATCHDOG=1")
            await self._clock.sleep(self._told.watchdog_s / _FEEDS)

    def _send(self, *lines: str) -> None:
        if self._told is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.setblocking(False)
                out.sendto("\n".join(lines).encode(), self._told.address)
        except OSError as error:
            log.warning("the supervisor did not hear it", said=lines[0], error=str(error))
