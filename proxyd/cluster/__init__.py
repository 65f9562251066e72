"""Brings probe requests to the prober: in this process, as here, or over NATS on other machines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from proxyd.base.ports import MaySend, Prober, TakeStray, Unmade, always
from proxyd.core.errors import LeaseLostError
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest


class LocalTransport:
    """The Transport port over this process's prober, which itself keeps the hosts' turns.

    ``may_send`` is asked before each request.
    """

    def __init__(self, prober: Prober, may_send: MaySend = always) -> None:
        self._prober = prober
        self._may_send = may_send
        self._stopped = asyncio.Event()

    @asynccontextmanager
    async def probe(self, request: ProbeRequest) -> AsyncIterator[ProbeOutcome | Unmade]:
        """Yield the outcome of a probe."""
        try:
            outcome: ProbeOutcome | Unmade = await self._prober.probe(request, self._may_send)
        except LeaseLostError:
            outcome = Unmade.LOST
        yield outcome

    async def run(self, take_stray: TakeStray) -> None:
        """Wait for ``stop``: there are no stray outcomes here."""
        await self._stopped.wait()

    def stop(self) -> None:
        """End ``run``; returns at once."""
        self._stopped.set()

    @property
    def is_up(self) -> bool:
        """Whether probes can be made."""
        return True

    @property
    def aside(self) -> Mapping[str, str]:
        """No prober: there is only this one."""
        return {}
