"""The daemon: every loop under one task group. A loop that fails ends them all, and the process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from proxyd.clock import sleep_or_wake
from proxyd.daemon.declarations import Declarations
from proxyd.daemon.housekeeping import Chores, housekeeping
from proxyd.daemon.planning import Planning
from proxyd.daemon.probing import ProbeLoop
from proxyd.daemon.pushes import Pushes
from proxyd.daemon.vitals import measure_lag
from proxyd.metrics import ROLES, Metrics
from proxyd.notify import Dispatcher, Pings
from proxyd.ports import Clock
from proxyd.store import SqlStore

log = structlog.get_logger("daemon")


@dataclass(frozen=True, slots=True)
class DaemonSettings:
    """How the daemon looks after itself; times in seconds."""

    reload_interval_s: float
    drain_timeout_s: float
    chores: Chores


@dataclass(frozen=True, slots=True)
class Loops:
    """What runs while the daemon does, beside the store's writer and the watch over the profiles."""

    probes: ProbeLoop
    pushes: Pushes
    dispatcher: Dispatcher
    pings: Pings
    planning: Planning


class Daemon:
    """Starts from the store, runs until ``stop``, drains, and leaves everything recorded."""

    def __init__(
        self,
        declarations: Declarations,
        store: SqlStore,
        loops: Loops,
        clock: Clock,
        metrics: Metrics,
        settings: DaemonSettings,
    ) -> None:
        self._declarations = declarations
        self._store = store
        self._loops = loops
        self._clock = clock
        self._metrics = metrics
        self._settings = settings
        self._stopping = asyncio.Event()
        self._look = asyncio.Event()
        self._forced = False

    def stop(self) -> None:
        """Begin to drain; returns at once."""
        self._stopping.set()
        self._look.set()

    def reload_soon(self) -> None:
        """Reload the profiles whether or not a file changed; returns at once."""
        self._forced = True
        self._look.set()

    async def run(self) -> None:
        """Run until ``stop``."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._store.writer.run(), name="writer")
            await self._declarations.start()
            async with asyncio.TaskGroup() as running:  # all that writes; the writer outlives it
                running.create_task(self._watch_profiles(), name="profiles")
                running.create_task(self._loops.probes.run(), name="probes")
                running.create_task(self._loops.pushes.run(), name="pushes")
                running.create_task(self._loops.dispatcher.run(), name="deliveries")
                running.create_task(self._loops.pings.run(), name="pings")
                running.create_task(self._loops.planning.run(), name="planning")
                lag = running.create_task(measure_lag(self._clock, self._metrics), name="lag")
                declared = self._declarations.current
                log.info("running", rules=len(declared.rules), sources=len(declared.sources))
                self._metrics.take_roles(*ROLES)
                async with housekeeping(self._store, self._clock, self._metrics, self._settings.chores):
                    await self._stopping.wait()
                self._metrics.take_roles()
                await self._drain()
                lag.cancel()
            self._store.writer.close()
        log.info("stopped")

    async def _drain(self) -> None:
        log.info("draining")
        loops, timeout_s = self._loops, self._settings.drain_timeout_s
        loops.pushes.stop()
        loops.pings.stop()
        loops.planning.stop()
        await asyncio.gather(loops.probes.drain(timeout_s), loops.dispatcher.drain(timeout_s))

    async def _watch_profiles(self) -> None:
        while not self._stopping.is_set():
            await sleep_or_wake(self._clock, self._settings.reload_interval_s, self._look)
            if self._forced:
                self._forced = False
                await self._declarations.reload()
            else:
                await self._declarations.reload_if_changed()
