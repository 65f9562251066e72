"""The contracts between the loops of the daemon and the world. Their docstrings are what every implementation keeps."""

from __future__ import annotations

from typing import Protocol

from proxyd.model.outcome import ProbeOutcome, ProbeRequest


class Clock(Protocol):
    """Reads time and waits for it."""

    def time_s(self) -> float:
        """Return unix seconds."""

    def monotonic_s(self) -> float:
        """Return seconds that never go back; only differences mean something."""

    async def sleep(self, seconds: float) -> None:
        """Wait; returns at once where ``seconds`` is not positive."""


class Prober(Protocol):
    """Turns a request into an outcome; whatever the origin does, it returns and never raises for it."""

    async def probe(self, request: ProbeRequest) -> ProbeOutcome:
        """Fetch and read one source once, within the prober's limits of time and size."""
