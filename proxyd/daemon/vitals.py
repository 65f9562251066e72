"""The daemon's own health: its metrics, and whether it is ready for traffic."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from proxyd.base.clock import MOST_OFF_S
from proxyd.base.metrics import Metrics, Samples
from proxyd.base.ports import Clock, Transport
from proxyd.core.errors import StoreError
from proxyd.core.rules.answers.explanation import Explainer
from proxyd.core.rules.known.knowledge import Knowledge
from proxyd.daemon.probe_loop import ProbeLoop
from proxyd.store.sql_store import SqlStore

_FRESH_CHRONONS = 10
_PING_S = 2.0
_MOST_UNANSWERED_S = 300.0  # a probe that times out is an outcome too


@dataclass(frozen=True, slots=True)
class DaemonVitals:
    """Answers from the metrics, the store and the probe loop."""

    known: Knowledge
    explainer: Explainer
    store: SqlStore
    probes: ProbeLoop
    transport: Transport
    registry: Metrics
    clock: Clock

    async def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format, with fresh gauges."""
        await self._refresh()
        return self.registry.render()

    async def samples(self) -> Samples:
        """Return the metrics' samples, with fresh gauges."""
        await self._refresh()
        return self.registry.samples()

    async def _refresh(self) -> None:
        metrics = self.registry
        metrics.unanswered.set(self.probes.silence_s(self.clock.time_s()))
        metrics.store_waits.set(self.store.writer.waits_s)
        metrics.session_waits.set(self.store.session_waits_s())
        metrics.models_off.set(len(self.explainer.misfits()))
        with suppress(TimeoutError):  # a wait for the database must not hide that it is waited for
            async with asyncio.timeout(_PING_S):
                await self._read_outbox()
        counts = self.known.streams.of_rules(self.known.compiled.declaration.rules)
        metrics.completeness.set(1.0 if counts.completeness is None else counts.completeness)
        metrics.utility.set(1.0 if counts.utility is None else counts.utility)

    async def _read_outbox(self) -> None:
        metrics = self.registry
        depth, oldest_s, held, dead = await self.store.outbox_depth()
        metrics.outbox_depth.set(depth)
        metrics.outbox_held.set(held)
        metrics.outbox_age.set(0.0 if oldest_s is None else max(0.0, self.clock.time_s() - oldest_s))
        metrics.outbox_dead.set(dead)
        metrics.endpoints_disabled.set(len(await self.store.list_disabled_endpoints()))

    @property
    def probers_aside(self) -> Mapping[str, str]:
        """The probers that have no work because they fail where others do not, and why."""
        return self.transport.aside

    async def readiness(self) -> dict[str, bool]:
        """Return whether the writer commits, the plan is fresh and probes have outcomes."""
        # Migrations ran before anything listened
        try:
            async with asyncio.timeout(_PING_S):
                await self.store.writer.ping()
            writes = True
        except (StoreError, TimeoutError):
            writes = False
        age_s = self.clock.time_s() - self.probes.last_chosen_s
        fresh_s = _FRESH_CHRONONS * self.known.grid.length_s
        return {
            "migrations": True,
            "writer": writes,
            "plan": 0 <= age_s <= fresh_s,
            "transport": self.transport.is_up,
            "probes": self.probes.silence_s(self.clock.time_s()) <= _MOST_UNANSWERED_S,
            "clock": abs(self.clock.off_s) <= self.known.grid.length_s + MOST_OFF_S,
            "serving": not self.probes.is_draining,
        }
