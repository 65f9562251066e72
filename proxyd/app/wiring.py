"""Composition: builds one daemon from settings; ``machine`` builds the roles of a cluster with the same parts."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

import numpy as np
import structlog

from proxyd.api.auth import new_token
from proxyd.api.queries import Queries
from proxyd.app.check_settings import check_settings
from proxyd.app.network import open_channels, open_network, open_tracer
from proxyd.app.server import ApiSettings, serve_api
from proxyd.base.clock import Signal, SystemClock
from proxyd.base.doers import COMMAND_LINE, NO_LIMITS, OwnerLimits, acting
from proxyd.base.interpreter import tune_interpreter
from proxyd.base.metrics import Metrics
from proxyd.base.ports import Channel, Clock, Prober, Transport
from proxyd.config.loading import SecretStore, Supervision, supervision
from proxyd.config.settings import Settings
from proxyd.core.errors import NotFoundError
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.endpoints import EndpointLimits
from proxyd.core.rates.week_bins import Cycle
from proxyd.core.rules.answers.explanation import Explainer
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.daemon import (
    Daemon,
    DaemonVitals,
    Declarations,
    DeliveryQueries,
    DomainWatch,
    FeedDiscovery,
    FeedHub,
    LinkMails,
    LoadSources,
    LocalNotifier,
    Loops,
    Moves,
    Notifier,
    Observer,
    PastQueries,
    PlanLoop,
    PlanQueries,
    PlanWorker,
    ProbeLoop,
    Pushes,
    PushParts,
    Reading,
    Reports,
    RuleEvaluation,
    SiteQueries,
    SourceChoices,
    StreamRecall,
    Supervisor,
)
from proxyd.net.host_turns import ThrottleScopes
from proxyd.notify.dispatcher import Dispatcher, DispatcherSettings
from proxyd.notify.pings import Pings
from proxyd.probing.prober import LocalTransport
from proxyd.store.api_rows import Scope
from proxyd.store.backups import open_store, owner_lock
from proxyd.store.sql_store import SqlStore
from proxyd.tracing import NO_TRACES, Tracer

log = structlog.get_logger("app")


def _decider_settings(settings: Settings) -> DeciderSettings:
    """Return the decider's settings."""
    host_probes, host_window_s = settings.host_window
    planner = PlannerSettings(
        grid=ChrononGrid(settings.chronon),
        budget=settings.budget,
        budget_zone=ZoneInfo(settings.budget_zone),
        spend=settings.objective == "spend",
        price_item_s=None if settings.probe_price is None else settings.probe_price * 3600.0,
        default_share=settings.default_share,
        default_target=settings.default_target,
        host_spacing_s=settings.host_spacing,
        host_probes=host_probes,
        host_window_s=host_window_s,
        first_day_s=settings.first_day,
    )
    return DeciderSettings(
        planner=planner,
        epoch_s=settings.epoch,
        source_spacing_s=settings.source_spacing,
        subscribes=bool(settings.public_url),
        cycle=Cycle(settings.cycle),
        zone=settings.zone,
        throttle_scope=ThrottleScopes(by_domain=settings.throttle_scope == "domain", groups=settings.groups),
    )


def _dispatcher_settings(settings: Settings) -> DispatcherSettings:
    """Return the dispatcher's settings."""
    limits = EndpointLimits(settings.endpoint_concurrency, *settings.endpoint_window)
    return DispatcherSettings(settings.delivery_hold, endpoints=limits)


@dataclass(frozen=True, slots=True)
class Resources:
    """The daemon's connections to the outside; tests supply their own."""

    clock: Clock
    store: SqlStore
    transport: Transport
    prober: Prober
    pushes: PushParts
    channel: Channel
    secrets: SecretStore
    rng: np.random.Generator
    supervision: Supervision | None = None
    tracer: Tracer = NO_TRACES


def make_notifier(settings: Settings, parts: Resources, metrics: Metrics) -> LocalNotifier:
    """Return the notifier, which pings new webhooks first."""
    dispatcher = Dispatcher(
        parts.store,
        parts.channel,
        parts.secrets.resolve,
        parts.clock,
        parts.rng,
        metrics,
        _dispatcher_settings(settings),
    )
    pings = Pings(
        parts.store.webhooks,
        parts.channel,
        parts.secrets.resolve,
        parts.clock,
        parts.rng,
        dispatcher.wake,
        asks=settings.ping_webhooks,
    )
    return LocalNotifier(dispatcher, pings)


@dataclass(frozen=True, slots=True)
class Built:
    """A daemon, its queries for the API, and the parts that they are made of."""

    daemon: Daemon
    queries: Queries
    decider: Decider
    declarations: Declarations
    recall: StreamRecall
    loops: Loops
    news: Signal
    metrics: Metrics
    resources: Resources


def build(
    settings: Settings,
    parts: Resources,
    *,
    metrics: Metrics | None = None,
    notifier: Notifier | None = None,
    load: LoadSources | None = None,
) -> Built:
    """Return a daemon over ``parts``; it delivers in this process unless another notifier is given.

    ``load`` returns what is stored of each source, if not all of it is this daemon's.
    """
    metrics = metrics or Metrics()
    decider = Decider(_decider_settings(settings), parts.rng)
    evaluation = RuleEvaluation(metrics)
    recall = StreamRecall(decider, parts.store, evaluation)
    declarations = Declarations(
        settings.profiles,
        recall,
        parts.clock,
        replace(check_settings(settings), is_secret_set=lambda secret: parts.secrets.resolve(secret) is not None),
        metrics,
        parts.secrets.resolve,
        load,
    )
    plan_worker = PlanWorker()
    declarations.compute = plan_worker.compute
    clock, store = parts.clock, parts.store
    observer = Observer(decider, store, clock, metrics, evaluation, parts.tracer)
    loops = Loops(
        probes=ProbeLoop(decider, parts.transport, observer, clock, metrics, parts.tracer),
        observer=observer,
        pushes=Pushes(decider, observer, store, clock, metrics, parts.pushes),
        notifier=notifier or make_notifier(settings, parts, metrics),
        plan_loop=PlanLoop(
            decider, clock, metrics, store.plan, every_s=settings.plan_every, compute=plan_worker.compute
        ),
        suspensions=declarations.suspensions,
        transport=parts.transport,
        evaluation=evaluation,
        plan_worker=plan_worker,
        choices=SourceChoices(decider.known, clock),
        domains=DomainWatch(decider.known, parts.prober, clock, settings.rdap_url),
        hub=FeedHub(declarations, store, parts.pushes.hub, clock, parts.rng, metrics, parts.pushes.public_url),
    )
    news = _connect_signals(declarations, recall, loops)
    supervisor = Supervisor(parts.supervision, clock, store.writer.ping)
    daemon = Daemon(declarations, store, loops, clock, metrics, settings, supervisor)
    queries = _queries(parts, decider, declarations, loops, news, metrics, settings)
    return Built(
        daemon,
        queries,
        decider,
        declarations,
        recall,
        loops,
        news,
        metrics,
        parts,
    )


def _connect_signals(declarations: Declarations, recall: StreamRecall, loops: Loops) -> Signal:
    """Let the loops tell each other what has changed; return the signal of news for live pages."""
    news, notifier = Signal(), loops.notifier
    news.listen(notifier.wake)
    news.listen(loops.hub.news.notify)
    declarations.suspensions.released.listen(notifier.wake)
    for each in (recall.news, loops.observer.news):
        each.listen(news.notify)
    declarations.declared.listen(notifier.wake_pings)
    return news


def _queries(
    parts: Resources,
    decider: Decider,
    declarations: Declarations,
    loops: Loops,
    news: Signal,
    metrics: Metrics,
    settings: Settings,
) -> Queries:
    """Return what the API and the dashboard ask."""
    store, clock, probes = parts.store, parts.clock, loops.probes
    senders = declarations, store, loops.notifier, parts.channel, parts.secrets, clock
    return Queries(
        profiles=declarations,
        suspensions=declarations.suspensions,
        moves=Moves(declarations, decider, loops.observer, store, clock),
        plans=PlanQueries(decider, declarations, clock),
        past=PastQueries(decider, declarations, store.history, clock),
        reports=Reports(decider, store, clock),
        sites=SiteQueries(declarations, store.sites, clock, settings.sites_of_status_pages),
        choices=loops.choices,
        history=store.history,
        items=store.items,
        reading=Reading(declarations, store.reading, parts.prober, clock, settings.zone),
        news=news,
        discovery=FeedDiscovery(parts.prober),
        deliveries=DeliveryQueries(*senders, settings.zone),
        access=store.access,
        people=store.people,
        audit=store.audit,
        callbacks=loops.pushes,
        hub=loops.hub,
        mails=LinkMails(parts.channel, clock, settings.public_url, bool(settings.smtp and settings.mail_from)),
        vitals=DaemonVitals(decider.known, Explainer.of(decider), store, probes, parts.transport, metrics, clock),
        clock=clock,
    )


@asynccontextmanager
async def open_parts(settings: Settings) -> AsyncIterator[Resources]:
    """Open the store and the network; close them in reverse order."""
    clock = SystemClock()
    async with (
        open_store(settings.database, ChrononGrid(settings.chronon), shared_s=settings.commit_wait_s) as store,
        open_tracer(settings) as tracer,
        open_network(settings, clock, tracer) as network,
        open_channels(settings, network, clock, tracer) as channels,
    ):
        yield Resources(
            clock=clock,
            store=store,
            transport=LocalTransport(network.prober),
            prober=network.prober,
            pushes=PushParts(network.hubs, network.parser, settings.public_url),
            channel=channels,
            secrets=SecretStore(settings),
            rng=np.random.default_rng(),  # noqa: TID251 - here and in ``machine`` one is made
            supervision=supervision(),
            tracer=tracer,
        )


async def serve(
    settings: Settings,
    *,
    started: Callable[[Daemon], None] | None = None,
    ready: Callable[[Built], Awaitable[None]] | None = None,
) -> None:
    """Run the daemon until SIGTERM or SIGINT; call ``started`` before it runs, and ``ready`` once it does."""
    tune_interpreter()
    with owner_lock(settings.database):
        async with open_parts(settings) as parts:
            built = build(settings, parts)
            daemon = built.daemon
            handle_signals(daemon.stop, daemon.reload_soon)
            if started is not None:
                started(daemon)
            if ready is not None:
                daemon.when_ready(lambda: ready(built))
            async with serve_api(built.queries, ApiSettings.of(settings)):
                await daemon.run()
    log.info("stopped")


async def create_token(
    settings: Settings,
    name: str,
    scope: Scope,
    *,
    expires_in_s: float | None,
    profiles: Sequence[str] = (),
    person: str | None = None,
    limits: OwnerLimits = NO_LIMITS,
) -> str:
    """Create a token in a database that no daemon holds, and return its text."""
    now_s = SystemClock().time_s()
    token, shown = new_token(
        name, scope, now_s=now_s, expires_in_s=expires_in_s, profiles=profiles, person=person, limits=limits
    )
    with owner_lock(settings.database):
        async with open_store(settings.database, ChrononGrid(settings.chronon)) as store, store.writer.running():
            if person is not None and await store.people.find(person) is None:
                raise NotFoundError(f"there is no person {person!r}; `proxyd person list` shows them")
            with acting(COMMAND_LINE):
                await store.access.add_token(token)
    return shown


def handle_signals(stop: Callable[[], None], reload: Callable[[], None]) -> None:
    """Let SIGTERM and SIGINT stop the daemon in order, a second SIGINT at once, and SIGHUP load the profiles again."""
    loop = asyncio.get_running_loop()

    def stop_at_key() -> None:
        stop()
        # Somebody who presses Ctrl-C again does not want to wait for the drain; what it would have done is done at the
        # next start, as after a kill.
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    loop.add_signal_handler(signal.SIGTERM, stop)
    loop.add_signal_handler(signal.SIGINT, stop_at_key)
    loop.add_signal_handler(signal.SIGHUP, reload)
