"""The daemon: every loop under one task group. If a loop fails, it ends the others and the process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import structlog

from proxyd.base.clock import Signal
from proxyd.base.interpreter import growing
from proxyd.base.metrics import ROLES, Metrics
from proxyd.base.ports import Clock, Transport
from proxyd.config.loading import Supervision
from proxyd.config.settings import Settings
from proxyd.core.errors import StoreBusyError, StoreError
from proxyd.daemon.declarations import Declarations
from proxyd.daemon.delivery_queries import Notifier
from proxyd.daemon.domain_watch import DomainWatch
from proxyd.daemon.feed_hub import FeedHub
from proxyd.daemon.housekeeping import Housekeeping, measure_lag
from proxyd.daemon.observer import Observer
from proxyd.daemon.plan_loop import PlanLoop, PlanWorker
from proxyd.daemon.probe_loop import ProbeLoop
from proxyd.daemon.pushes import Pushes
from proxyd.daemon.rule_evaluation import RuleEvaluation
from proxyd.daemon.source_choices import SourceChoices
from proxyd.daemon.suspensions import Suspensions
from proxyd.store.sql_store import SqlStore

_FEEDS = 3  # in each watchdog interval


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
                with suppress(StoreBusyError):  # but it is while a lock or a full disk is waited for
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


log = structlog.get_logger("daemon")
_LOOK_S = 1.0  # between two looks at the profiles folder


@dataclass(frozen=True, slots=True)
class Loops:
    """The loops that run with the daemon, apart from the store's writer and the watch over the profiles."""

    probes: ProbeLoop
    observer: Observer
    pushes: Pushes
    notifier: Notifier
    plan_loop: PlanLoop
    suspensions: Suspensions
    transport: Transport
    evaluation: RuleEvaluation
    plan_worker: PlanWorker
    choices: SourceChoices
    domains: DomainWatch
    hub: FeedHub


class Daemon:
    """Starts from the store, runs until ``stop``, drains, and leaves everything recorded."""

    def __init__(
        self,
        declarations: Declarations,
        store: SqlStore,
        loops: Loops,
        clock: Clock,
        metrics: Metrics,
        settings: Settings,
        supervisor: Supervisor,
    ) -> None:
        self._declarations = declarations
        self._store = store
        self._loops = loops
        self._clock = clock
        self._metrics = metrics
        self._settings = settings
        self._supervisor = supervisor
        self._housekeeping = Housekeeping(store, clock, metrics, settings)
        self._roles = ROLES if settings.database_path is not None else ()  # otherwise the machine reports them
        self._stopping, self._drained = asyncio.Event(), asyncio.Event()
        self._keeps_house = False
        self._look = Signal()
        self._forced = False
        self._on_ready: Callable[[], Awaitable[None]] | None = None

    def when_ready(self, tell: Callable[[], Awaitable[None]]) -> None:
        """Have a function called once the daemon is ready; call this before ``run``."""
        self._on_ready = tell

    def stop(self) -> None:
        """Start to drain; returns at once."""
        self._stopping.set()
        self._look.notify()

    def reload_soon(self) -> None:
        """Reload the profiles even if no file changed; returns at once."""
        self._forced = True
        self._look.notify()

    async def run(self) -> None:
        """Run until ``stop``; a database that stays busy does not keep it from ending."""
        try:
            async with self._loops.evaluation, self._loops.plan_worker, asyncio.TaskGroup() as tasks:
                tasks.create_task(self._store.writer.run(), name="writer")
                if await self._begin(tasks):
                    giving_up = tasks.create_task(self._stop_waiting(), name="end of waiting")
                    await self._work()
                    giving_up.cancel()
                self._store.writer.close()
        except* StoreError:
            busy = self._store.writer.waits_for
            if not (busy and self._stopping.is_set()):
                raise
            said = "ended while the database was busy: what is not recorded is probed and sent again after the start"
            log.warning(said, error=busy)

    async def _stop_waiting(self) -> None:
        """Refuse what waits for a busy database once the drain is over: a lock may be held for hours."""
        await self._stopping.wait()
        await self._clock.sleep(self._settings.drain_timeout)
        while not self._store.writer.waits_for:
            await self._clock.sleep(_LOOK_S)
        self._store.writer.close()

    async def _begin(self, tasks: asyncio.TaskGroup) -> bool:
        """Run the declaration; return whether that was done before ``stop``."""
        with growing():
            return await self._declarations.gate.start(self._declarations.start, self._stopping, tasks)

    async def _work(self) -> None:
        """Run all loops until ``stop``, and end them."""
        async with asyncio.TaskGroup() as running:  # everything that writes; the writer outlives it
            passing = []
            running.create_task(self._look_after(), name="declaration")
            running.create_task(self._loops.probes.run(), name="probes")
            running.create_task(self._loops.pushes.run(), name="pushes")
            running.create_task(self._loops.notifier.run(), name="notifying")
            running.create_task(self._loops.transport.run(self._loops.observer.take_stray), name="transport")
            running.create_task(self._loops.plan_loop.run(), name="planning")
            passing.append(running.create_task(self._declarations.gate.run(), name="planners"))
            keeping_ready = self._loops.choices.follow(self._declarations.declared)
            passing.append(running.create_task(keeping_ready, name="names of sources"))
            passing.append(running.create_task(self._loops.domains.run(), name="domains"))
            passing.append(running.create_task(self._supervisor.run(), name="watchdog"))
            passing.append(running.create_task(measure_lag(self._clock, self._metrics), name="lag"))
            declared = self._declarations.declaration
            log.info("running", rules=len(declared.rules), sources=len(declared.sources))
            for role in self._roles:
                self._metrics.role_active.labels(role).set(1)
            self._supervisor.ready(self._status())
            if self._on_ready is not None:
                await self._on_ready()
            await self._stopping.wait()
            for role in self._roles:
                self._metrics.role_active.labels(role).set(0)
            await self._drain()
            for each in passing:
                each.cancel()

    async def _look_after(self) -> None:
        """Look after the declaration and the tables; one of several planners does."""
        if not await self._declarations.gate.controls_before(self._stopping):
            return
        self._keeps_house = True
        async with self._housekeeping.running(), asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch_profiles(), name="profiles")
            tasks.create_task(self._loops.suspensions.run(), name="suspensions")
            tasks.create_task(self._loops.hub.run(), name="hub")
            await self._drained.wait()

    async def _drain(self) -> None:
        loops, timeout_s = self._loops, self._settings.drain_timeout
        log.info("draining", probes=len(loops.probes.under_way()), waits_at_most_s=timeout_s)
        self._supervisor.stopping()
        loops.pushes.stop()
        loops.plan_loop.stop()
        loops.suspensions.stop()
        loops.hub.stop()
        keeping = [self._housekeeping.drain(timeout_s)] if self._keeps_house else []
        await asyncio.gather(self._end_probes(timeout_s), loops.notifier.drain(timeout_s), *keeping)
        self._drained.set()

    async def _end_probes(self, timeout_s: float) -> None:
        """Wait for running probes if a prober is up; the next planner records later reports."""
        loops = self._loops
        await loops.probes.drain(timeout_s if loops.transport.is_up else 0.0)
        loops.transport.stop()

    async def _watch_profiles(self) -> None:
        while not self._stopping.is_set():
            await self._look.sleep(self._clock, _LOOK_S)
            if self._forced:
                self._forced = False
                await self._reload()
            else:
                await self._declarations.reload_if_changed()

    async def _reload(self) -> None:
        self._supervisor.reloading()
        errors = await self._declarations.reload()
        self._supervisor.ready(self._status() + ("; the changed profiles have errors, see the log" if errors else ""))

    def _status(self) -> str:
        declared = self._declarations.declaration
        return f"{len(declared.rules)} rules, {len(declared.sources)} sources"
