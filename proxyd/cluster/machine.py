"""The roles of one machine: planner, prober, notifier, or all; machines of a role share its work."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from math import inf
from multiprocessing.process import BaseProcess

import numpy as np
import structlog
from sqlalchemy import make_url

from proxyd.app import wiring as app
from proxyd.app.network import Network, open_channels, open_network, open_tracer
from proxyd.app.server import ApiSettings, serve_api, serve_health
from proxyd.base.clock import MOST_OFF_S, SystemClock
from proxyd.base.interpreter import tune_interpreter
from proxyd.base.log import configure
from proxyd.base.metrics import ROLES, Metrics
from proxyd.base.ports import Transport
from proxyd.cluster.messages import OUTBOX
from proxyd.cluster.planner_processes import processes, wait_for_end
from proxyd.config.loading import SecretStore, supervision
from proxyd.config.settings import Settings
from proxyd.core.errors import (
    ClusterError,
    ConfigError,
    LeaseLostError,
    OtherSettingsError,
    StoreUnreachableError,
    extra_hint,
)
from proxyd.core.model.chronon import ChrononGrid
from proxyd.daemon import Daemon, DistantNotifier, PushParts, Supervisor
from proxyd.notify.channels.channel_routing import Channels, LeasedChannel
from proxyd.probing.prober import LocalTransport
from proxyd.store.databases.shards import OwnShards
from proxyd.store.followed_rows import FollowedFleet
from proxyd.store.sql_store import SqlStore
from proxyd.tracing import NO_TRACES, Tracer

try:
    from proxyd.cluster.batch_prober import BatchProber, ProberSettings
    from proxyd.cluster.link import ClusterSettings, NatsConnection, open_link
    from proxyd.cluster.nats_transport import NatsTransport, TransportSettings
    from proxyd.cluster.shared_fleet import SharingPlanners, share_fleet
    from proxyd.store.databases.lease import DatabaseTime, Lease
    from proxyd.store.databases.membership import Membership, Tenure, sharing, working_as
except ModuleNotFoundError as error:  # the optional dependency is not installed
    raise ConfigError([extra_hint("cluster")]) from error

_LOOK_S = 2.0  # how often a notifier polls
# The settings on which planners must agree: what they would do to hosts, or to one another, depends on them
_AGREED = {
    *("lease", "chronon", "budget", "budget_zone", "objective", "default_share", "default_target", "probe_price"),
    *(
        "cycle",
        "source_spacing",
        "host_spacing",
        "host_concurrency",
        "host_budget",
        "throttle_scope",
        "throttle_groups",
    ),
}
_CLOCK_S = 2.0  # how often a machine compares its clock
_HOLD = 0.4  # of a lease, for which a silent prober works on: work goes on within two leases
_QUEUE = 0.25  # of a chronon, for which a probe waits for a prober
_PATIENCE = 4.0  # times probe_timeout and host_spacing, for one request with its redirects and robots.txt
log = structlog.get_logger("roles")


class _StoppedError(Exception):
    """The machine stops while it stands by."""


@dataclass(slots=True)
class _Machine:
    """The roles of a process, over a shared network."""

    settings: Settings
    clock: SystemClock
    metrics: Metrics
    network: Network
    channels: Channels
    link: NatsConnection | None
    tracer: Tracer = NO_TRACES
    name: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}")
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    stores: dict[str, SqlStore] = field(default_factory=dict)  # by each role whose work this machine does
    active: set[str] = field(default_factory=set)
    standby: AsyncExitStack = field(default_factory=AsyncExitStack)  # for health checks while not planning
    is_standing_by: bool = False
    is_waiting: bool = False  # for planners of another version
    daemon: Daemon | None = None
    time: DatabaseTime = field(default_factory=DatabaseTime)

    async def run(self) -> None:
        """Do the roles of the settings until ``stop``; the planner ends before the prober and the notifier."""
        role, works_on = self.settings.role, asyncio.Event()
        async with self.standby, asyncio.TaskGroup() as tasks:
            await self._stand_by()
            if self.link is not None:
                refused = tasks.create_task(self.link.server.fail_if_refused(), name="NATS")
            supervisor = Supervisor(supervision(), self.clock, self._prove_alive)
            feeding = tasks.create_task(supervisor.run(), name="watchdog")
            watching = tasks.create_task(self._watch_clock(), name="clock")
            supervisor.ready(f"role {role}")
            if self.link is not None and role in {"all", "prober"}:
                tasks.create_task(self._probe(self.link, works_on), name="prober")
            if self.link is not None and role in {"all", "notifier"}:
                tasks.create_task(self._attend("notifier", lambda: self._notify(works_on)), name="notifier")
            if role in {"all", "planner"}:
                await self._attend("planner", self._plan)
            await self.stopping.wait()
            supervisor.stopping()
            feeding.cancel()
            watching.cancel()
            if self.link is not None:
                refused.cancel()
            works_on.set()

    def stop(self) -> None:
        """Drain and end; returns at once."""
        self.stopping.set()
        if self.daemon is not None:
            self.daemon.stop()

    def reload(self) -> None:
        """Reload the profiles if this machine plans; returns at once."""
        if self.daemon is not None:
            self.daemon.reload_soon()

    # -- roles

    async def _plan(self) -> None:
        """Plan a share of the sources until ``stop``, and look after the declaration if the first shard is ours."""
        settings = self.settings
        joining = sharing(
            settings.database,
            Lease("planner", settings.lease, time=self.time),
            self.name,
            wait=self._wait_for_planners,
            address=await asyncio.to_thread(address_of_listener, settings),
            rest_s=0.0 if self.link is None else _HOLD * settings.lease,
            settings=settings.model_dump(mode="json", include=_AGREED),
        )
        async with joining as joined:
            self.clock.follow(self.time.time_s)
            shares = joined.shares
            transport = self._transport(joined)
            parts = self._parts(joined, transport, lambda: shares.own)
            distant = None if self.link is None else DistantNotifier(self.link.ring, self.clock)
            stored = FollowedFleet(parts.store.read_each)
            built = app.build(settings, parts, metrics=self.metrics, notifier=distant, load=stored.sources)
            share_fleet(built, shares, stored, lambda: not isinstance(transport, NatsTransport) or transport.can_probe)
            await self._step_up()
            known = built.decider.known
            if isinstance(transport, NatsTransport):
                transport.give_turns(lambda host: known.owned.has_host(host))
            planners = SharingPlanners(shares, known, built.decider.hubs, parts.store)
            turns = self.network.turns if self.link is None else None  # otherwise probers make the requests
            async with serve_api(built.queries, ApiSettings.of(settings), planners, turns):
                await self._work(joined, parts.store, lambda: self._run(built.daemon))

    async def _run(self, daemon: Daemon) -> None:
        self.daemon = daemon
        if self.stopping.is_set():
            daemon.stop()
        try:
            await daemon.run()
        finally:
            self.daemon = None

    async def _notify(self, works_on: asyncio.Event) -> None:
        """Deliver until the planner has ended."""
        settings = self.settings
        lease = Lease("notifier", settings.lease, time=self.time)
        async with working_as(settings.database, lease, lease.role, wait=self._wait) as joined:
            self.clock.follow(self.time.time_s)
            parts = self._parts(joined, LocalTransport(self.network.prober, joined.lease.is_held))
            notifier = app.make_notifier(settings, parts, self.metrics)

            async def deliver() -> None:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(parts.store.writer.run(), name="writer")
                    running = tasks.create_task(notifier.run(), name="notifying")
                    looking = tasks.create_task(self._wake_often(notifier.wake_all), name="look")
                    await works_on.wait()
                    looking.cancel()
                    await notifier.drain(settings.drain_timeout)
                    await running
                    parts.store.writer.close()

            await self._work(joined, parts.store, deliver)

    async def _wake_often(self, wake: Callable[[], None]) -> None:
        """Wake whenever the planner sends a message, and regularly in case one is lost."""
        assert self.link is not None
        while True:
            try:
                async with self.link.heeding(OUTBOX, lambda _received: wake()):
                    while self.link.is_up:
                        await self.clock.sleep(_LOOK_S)
                        wake()
            except ClusterError as error:
                log.debug("hints are not heard", error=error.message)
            await self.clock.sleep(_LOOK_S)
            wake()

    async def _probe(self, link: NatsConnection, works_on: asyncio.Event) -> None:
        given = self.settings
        settings = ProberSettings(self.name, given.prober_hosts, given.drain_timeout, given.host_spacing)
        prober = BatchProber(link, self.network.prober, self.clock, self.metrics, settings)
        with self.network.turns.share(prober.turns.wait, is_first=True):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(prober.run(), name="batches")
                self._note("prober", active=True)
                await works_on.wait()
                prober.stop()

    # -- working

    async def _attend(self, role: str, work: Callable[[], Awaitable[None]]) -> None:
        """Do a role's work whenever this machine may, until ``stop``; log each obstacle once."""
        said = ""
        while not self.stopping.is_set():
            try:
                await work()
            except _StoppedError:
                return
            except (StoreUnreachableError, ExceptionGroup) as error:
                _raise_others(error)
                trouble = _trouble(error, role)
                if trouble != said:
                    log.warning(trouble, role=role)
                said, self.is_waiting = trouble, False
            finally:
                self.stores.pop(role, None)
                self._note(role, active=False)
            if role == "planner" and not self.stopping.is_set():
                await self._stand_by()
            with suppress(_StoppedError):
                await self._wait(min(1.0, self.settings.lease / 5.0))

    async def _stand_by(self) -> None:
        """Answer health checks while the API is not served here."""
        if not self.is_standing_by:
            await self.standby.enter_async_context(self._health())
            self.is_standing_by = True

    async def _step_up(self) -> None:
        """Stop answering, to make room for the API."""
        await self.standby.aclose()
        self.is_standing_by = self.is_waiting = False

    async def _work(self, joined: Tenure, store: SqlStore, work: Callable[[], Awaitable[None]]) -> None:
        """Do a role's work as long as this machine has the lease."""
        role = joined.lease.role
        log.info("sharing the work", role=role)
        self._note(role, active=True)
        self.stores[role] = store
        try:
            async with asyncio.TaskGroup() as tasks:
                losing = tasks.create_task(joined.lost(), name=f"end of the {role}")
                await work()
                losing.cancel()
        except* StoreUnreachableError:
            if joined.lease.is_held():
                raise
            await joined.lost()  # the next machine ends our sessions: the lease tells why, their errors do not

    def _note(self, role: str, *, active: bool) -> None:
        """Report whether this machine does a role's work; a planner without other machines does all of it."""
        roles = set(ROLES) if self.link is None else {role}
        self.active = self.active | roles if active else self.active - roles
        self.metrics.take_roles(*self.active)

    async def _prove_alive(self) -> None:
        """Return once the store of each role whose work this machine does has committed something."""
        for store in tuple(self.stores.values()):
            await store.writer.ping()

    @property
    def _is_clock_right(self) -> bool:
        return abs(self.clock.off_s) <= self.settings.chronon + MOST_OFF_S

    async def _watch_clock(self) -> None:
        """Say if the machine's clock differs from that of the database, which changes nothing but confuses people."""
        was_right = True
        while True:
            self.metrics.clock_off.set(self.clock.off_s)
            if was_right and not self._is_clock_right:
                log.warning("the machine's clock is wrong; proxyd uses the database's", ahead_s=round(self.clock.off_s))
            was_right = self._is_clock_right
            await asyncio.sleep(_CLOCK_S)

    async def _wait_for_planners(self, seconds: float) -> None:
        """Wait to look again whether planners of another version have ended; for ever until the lease is taken."""
        self.is_waiting = seconds < inf
        await self._wait(seconds)

    async def _wait(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        if self.stopping.is_set():
            raise _StoppedError

    # -- parts

    def _transport(self, joined: Membership) -> Transport:
        shares, may_send = joined.shares, joined.lease.is_held
        if self.link is None:
            return LocalTransport(self.network.prober, may_send)
        settings = TransportSettings(
            term=shares.number,
            hold_s=_HOLD * self.settings.lease,
            spacing_s=self.settings.host_spacing,
            queue_s=_QUEUE * self.settings.chronon,
            patience_s=_PATIENCE * (self.settings.probe_timeout + self.settings.host_spacing),
        )
        made = NatsTransport(self.link, self.clock, self.metrics, settings, shares, may_send)
        shares.let_succeed(made)
        return made

    def _parts(self, joined: Tenure, transport: Transport, shards: OwnShards | None = None) -> app.Resources:
        return app.Resources(
            clock=self.clock,
            store=SqlStore(
                *(joined.connections, ChrononGrid(self.settings.chronon), shards),
                shared_s=self.settings.commit_wait_s,
            ),
            transport=transport,
            prober=self.network.prober,
            pushes=PushParts(self.network.hubs, self.network.parser, self.settings.public_url),
            channel=LeasedChannel(self.channels, joined.lease.is_held),
            secrets=SecretStore(self.settings),
            rng=np.random.default_rng(),  # noqa: TID251 - here and in ``wiring`` one is made
            tracer=self.tracer,
        )

    @asynccontextmanager
    async def _health(self) -> AsyncIterator[None]:
        def readiness() -> dict[str, bool]:
            checks = {"serving": not self.stopping.is_set(), "clock": self._is_clock_right}
            if self.settings.role in {"all", "planner"}:
                checks["planner"] = self.is_waiting  # or an upgrade would never end those that it waits for
            if self.link is not None:
                checks["transport"] = self.link.is_up
            return checks

        async with serve_health(readiness, self.metrics.render, ApiSettings.of(self.settings)):
            yield


async def serve(settings: Settings) -> None:
    """Run the roles of the settings until SIGTERM or SIGINT."""
    tune_interpreter()
    clock, metrics = SystemClock(), Metrics()
    async with AsyncExitStack() as stack:
        link = await stack.enter_async_context(open_link(_cluster_settings(settings))) if settings.nats else None
        tracer = await stack.enter_async_context(open_tracer(settings))
        network = await stack.enter_async_context(open_network(settings, clock, tracer))
        channels = await stack.enter_async_context(open_channels(settings, network, clock, tracer))
        machine = _Machine(settings, clock, metrics, network, channels, link, tracer)
        app.handle_signals(machine.stop, machine.reload)
        if (parent := multiprocessing.parent_process()) is not None:
            stack.push_async_callback(_cancel, asyncio.create_task(_stop_after(parent, machine), name="parent"))
        async with processes(settings, _serve_beside, machine.stopping):
            await machine.run()
    log.info("stopped")


def _serve_beside(settings: Settings) -> None:
    configure(settings.log_format, settings.log_level)
    asyncio.run(serve(settings))


async def _stop_after(parent: BaseProcess, machine: _Machine) -> None:
    """Stop when the first planner process of this machine has ended, however it ended."""
    await wait_for_end(parent)
    machine.stop()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _cluster_settings(settings: Settings) -> ClusterSettings:
    name = f"proxyd {settings.role} {socket.gethostname()}:{os.getpid()}"
    return ClusterSettings(settings.nats, name)


def _raise_others(error: Exception) -> None:
    """Raise the errors of a group other than those of an unreachable database."""
    if isinstance(error, ExceptionGroup):
        others = error.split(StoreUnreachableError)[1]
        if others is not None:
            raise others


def _trouble(error: Exception, role: str) -> str:
    """Return why this machine does not do a role's work, or no longer."""
    if isinstance(error, OtherSettingsError):
        return f"this planner waits: {error}"
    lost = error.split(LeaseLostError)[0] if isinstance(error, ExceptionGroup) else None
    if lost is not None or isinstance(error, LeaseLostError):
        return f"lost {'leadership' if role == 'planner' else 'its lease'}: {_first(lost or error)}"
    return f"the database is away: {_first(error)}"


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


_POSTGRESQL_PORT = 5432


def address_of_listener(settings: Settings) -> str:
    """Return ``host:port`` of the listener for other machines, or an empty text if they cannot reach it."""
    # A listener on all addresses is reached at the one from which this machine reaches its database, unless that is
    # here too. A listener on loopback is reached only from here, and so if the database is here too. The name of the
    # database may be looked up, which takes time.
    if settings.advertise or settings.database_path is not None:
        return settings.advertise
    host, port = settings.listen_address
    family = socket.AF_INET if host == "0.0.0.0" else socket.AF_UNSPEC
    towards = _address_towards(*_server_of(settings.database), family)
    is_local = host == "localhost" or _is(host, "is_loopback")
    if not towards or is_local != _is(towards, "is_loopback"):
        return ""
    if host == "*" or _is(host, "is_unspecified"):
        host = towards
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _server_of(database: str) -> tuple[str, int]:
    """Return host and port of a database; a Unix socket is on this machine.

    >>> _server_of("postgresql+asyncpg://me:a#b@db.example:6432/proxyd"), _server_of("postgresql+asyncpg:///x?host=/run")
    (('db.example', 6432), ('127.0.0.1', 5432))
    """
    url = make_url(database)
    host = url.host or str(url.query.get("host", ""))
    return ("127.0.0.1" if not host or host.startswith("/") else host), url.port or _POSTGRESQL_PORT


def _address_towards(host: str, port: int, family: socket.AddressFamily) -> str:
    """Return the address of this machine on its way to another one, or an empty text if there is no way."""
    try:
        for found, kind, _, _, address in socket.getaddrinfo(host, port, family, socket.SOCK_DGRAM):
            with socket.socket(found, kind) as way:  # sends nothing
                way.connect(address)
                return str(way.getsockname()[0])
    except OSError:
        pass
    return ""


def _is(host: str, property_name: str) -> bool:
    """Return whether a host is an address that has a property of ``ipaddress``."""
    try:
        return bool(getattr(ip_address(host.partition("%")[0]), property_name))
    except ValueError:
        return False
