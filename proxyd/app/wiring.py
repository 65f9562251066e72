"""Composition: builds one daemon from settings; ``machine`` builds the roles of a cluster with the same parts."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from math import ceil
from zoneinfo import ZoneInfo

import numpy as np
import structlog
from aiohttp import ClientSession

from proxyd.api.auth import Quota, new_token
from proxyd.api.queries import Queries
from proxyd.app.check_settings import browser_missing, check_declaration, check_settings
from proxyd.app.server import ApiSettings, serve_api
from proxyd.base.clock import Signal, SystemClock
from proxyd.base.interpreter import tune_interpreter
from proxyd.base.metrics import Metrics
from proxyd.base.ports import Channel, Clock, Prober, Transport
from proxyd.config import SecretStore, Settings, Supervision, socket_address, supervision
from proxyd.config.profile_files import read_directory
from proxyd.core.errors import ConfigError, NotFoundError
from proxyd.core.language import SourceText, did_you_mean
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness import EndpointLimits
from proxyd.core.rates.week_bins import Cycle
from proxyd.core.rules.answers.explanation import Explainer
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.compiled import probe_request
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.daemon import (
    Daemon,
    DaemonVitals,
    Declarations,
    DeliveryQueries,
    FeedDiscovery,
    LocalNotifier,
    Loops,
    Moves,
    Notifier,
    Observer,
    PlanLoop,
    PlanQueries,
    ProbeLoop,
    Pushes,
    PushParts,
    RuleEvaluation,
    StreamRecall,
    Supervisor,
)
from proxyd.daemon.discovery import Discovered
from proxyd.daemon.plan_loop import LoadSources
from proxyd.daemon.reports import Reports
from proxyd.daemon.source_choices import SourceChoices
from proxyd.net import (
    Guard,
    HostTokens,
    SessionLimits,
    ThrottleScopes,
    make_session,
    raise_open_files,
    room_for_connections,
    user_agent,
)
from proxyd.notify import ChannelResources, Channels, Dispatcher, DispatcherSettings, Pings, make_channels
from proxyd.probing import (
    Fetcher,
    FetchLimits,
    HttpProber,
    HubClient,
    LocalTransport,
    NoBrowser,
    ParserPool,
    ProbeTrace,
    Render,
    Robots,
    robots_limits,
)
from proxyd.probing.browser.page_requests import RenderLimits
from proxyd.store import SqlStore, open_store, owner_lock
from proxyd.store.api_rows import Scope
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
    probes: ProbeLoop
    observer: Observer
    pushes: Pushes
    notifier: Notifier
    plan_loop: PlanLoop
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
        check_settings(settings),
        metrics,
        parts.secrets.resolve,
        load,
    )
    clock, store = parts.clock, parts.store
    observer = Observer(decider, store, clock, metrics, evaluation, parts.tracer)
    probes = ProbeLoop(decider, parts.transport, observer, clock, metrics, parts.tracer)
    plan_loop = PlanLoop(decider, clock, metrics, store.plan, every_s=settings.plan_every)
    loops = Loops(
        probes=probes,
        observer=observer,
        pushes=Pushes(decider, observer, store, clock, metrics, parts.pushes),
        notifier=notifier or make_notifier(settings, parts, metrics),
        plan_loop=plan_loop,
        suspensions=declarations.suspensions,
        transport=parts.transport,
        evaluation=evaluation,
        choices=SourceChoices(decider.known, clock),
    )
    news = _connect_signals(declarations, recall, loops)
    supervisor = Supervisor(parts.supervision, clock, store.writer.ping)
    daemon = Daemon(declarations, store, loops, clock, metrics, settings, supervisor)
    queries = _queries(parts, decider, declarations, loops, news, metrics)
    return Built(
        daemon,
        queries,
        decider,
        declarations,
        recall,
        probes,
        observer,
        loops.pushes,
        loops.notifier,
        plan_loop,
        news,
        metrics,
        parts,
    )


def _connect_signals(declarations: Declarations, recall: StreamRecall, loops: Loops) -> Signal:
    """Let the loops tell each other what has changed; return the signal of news for live pages."""
    news, notifier = Signal(), loops.notifier
    news.listen(notifier.wake)
    declarations.suspensions.released.listen(notifier.wake)
    for each in (recall.news, loops.observer.news):
        each.listen(news.notify)
    declarations.declared.listen(notifier.wake_pings)
    return news


def _queries(
    parts: Resources, decider: Decider, declarations: Declarations, loops: Loops, news: Signal, metrics: Metrics
) -> Queries:
    """Return what the API and the dashboard ask."""
    store, clock, probes = parts.store, parts.clock, loops.probes
    return Queries(
        profiles=declarations,
        suspensions=declarations.suspensions,
        moves=Moves(declarations, decider, loops.observer, store, clock),
        plans=PlanQueries(decider, declarations, store, clock),
        reports=Reports(decider, store, clock),
        choices=loops.choices,
        history=store.history,
        items=store.items,
        news=news,
        discovery=FeedDiscovery(parts.prober),
        deliveries=DeliveryQueries(declarations, store, loops.notifier, parts.channel, parts.secrets, clock),
        access=store.access,
        callbacks=loops.pushes,
        vitals=DaemonVitals(decider.known, Explainer.of(decider), store, probes, parts.transport, metrics, clock),
        clock=clock,
    )


@dataclass(frozen=True, slots=True)
class Network:
    """The outgoing network: the guarded session, and the prober over it."""

    guard: Guard
    session: ClientSession
    prober: HttpProber
    parser: ParserPool
    hubs: HubClient
    turns: HostTokens


def session_limits(settings: Settings, open_files: int) -> SessionLimits:
    """Return the session's limits: it may use all open files but a few, so that slow origins do not hold up others."""
    # Warns if silent origins could use them all: later ones would then seem unreachable
    limits = SessionLimits(room_for_connections(open_files), connections_per_host=max(8, settings.host_concurrency))
    most_per_s = max([settings.budget.per_s, *(hours.per_s for hours in settings.budget.hours)])
    open_at_most = most_per_s * (settings.probe_timeout + limits.keepalive_s)
    if open_at_most > limits.connections:
        advice = "raise the limit of open files, or lower budget or probe_timeout"
        log.warning("too few open files for the budget", open_files=open_files, needed=ceil(open_at_most), do=advice)
    return limits


@asynccontextmanager
async def open_tracer(settings: Settings) -> AsyncIterator[Tracer]:
    """Open the trace exporter; nothing is imported if traces are off."""
    if not settings.traces:
        yield NO_TRACES
        return
    try:
        otlp = import_module("proxyd.tracing.otlp")
    except ModuleNotFoundError as error:
        raise ConfigError(["traces: proxyd[tracing] is not installed; install it, or leave traces empty"]) from error
    async with otlp.open_tracer(settings.traces) as tracer:
        yield tracer


@asynccontextmanager
async def _open_browser(
    settings: Settings, fetcher: Fetcher, session: ClientSession, guard: Guard
) -> AsyncIterator[Render]:
    """Open what renders pages; nothing is imported without a browser."""
    missing = browser_missing(settings)
    if missing is not None:
        yield NoBrowser(missing)
        return
    browser = import_module("proxyd.probing.browser.chromium")
    limits = RenderLimits(total_s=settings.probe_timeout, body_bytes=settings.max_body_bytes)
    loader = browser.PageLoader(fetcher, session, guard, user_agent(settings.contact), limits)
    async with browser.open_chromium(settings.browser, loader) as chromium:
        yield chromium


@asynccontextmanager
async def open_network(settings: Settings, clock: Clock, tracer: Tracer = NO_TRACES) -> AsyncIterator[Network]:
    """Open the network session and the parsers; close them in reverse order."""
    guard = Guard(settings.networks, settings.allow_ports)
    allowed = session_limits(settings, raise_open_files())
    async with (
        make_session(guard, contact=settings.contact, proxy=settings.proxy, limits=allowed) as session,
        ParserPool(workers=settings.parser_processes) as parser,
    ):
        probes, window_s = settings.host_window
        tokens = HostTokens(
            clock, settings.host_spacing, probes=probes, window_s=window_s, concurrency=settings.host_concurrency
        )
        limits = FetchLimits(total_s=settings.probe_timeout, body_bytes=settings.max_body_bytes)
        fetcher = Fetcher(session, guard, tokens, clock, limits, tracer)
        async with _open_browser(settings, fetcher, session, guard) as browser:
            prober = HttpProber(
                fetcher,
                parser,
                clock,
                resolve_secret=SecretStore(settings).resolve,
                robots=Robots(Fetcher(session, guard, tokens, clock, robots_limits(limits), tracer), clock),
                browser=browser,
                tracer=tracer,
            )
            yield Network(guard, session, prober, parser, HubClient(session, guard, tokens), tokens)


@asynccontextmanager
async def open_channels(
    settings: Settings, network: Network, clock: Clock, tracer: Tracer = NO_TRACES
) -> AsyncIterator[Channels]:
    """Open the channels; close them at the end."""
    with ExitStack() as stack:
        yield make_channels(ChannelResources(settings, network.session, network.guard, clock, stack.callback, tracer))


def request_of(settings: Settings, target: str, api_texts: Sequence[SourceText]) -> ProbeRequest:
    """Return a request that probes an address as a feed, or a source as a profile or one of ``api_texts`` declares it.

    Raises ``NotFoundError``: ``target`` is neither an address nor the name of a source; ``ConfigError`` or
    ``ProfileError``: the profiles cannot be read.
    """
    if "://" in target:
        return ProbeRequest(target, target)
    texts = read_directory(settings.profiles)
    declaration = check_declaration(texts, settings)
    if target not in declaration.sources and api_texts:
        declaration = check_declaration([*api_texts, *texts], settings)
    source = declaration.sources.get(target)
    if source is None:
        hint = did_you_mean(target, declaration.sources)
        raise NotFoundError(f"{target!r} is not a declared source; an address starts with https:// or http://.{hint}")
    return probe_request(source, declaration)


async def probe_once(settings: Settings, request: ProbeRequest, trace: ProbeTrace) -> ProbeOutcome:
    """Return the outcome of one probe, without a daemon or a store."""
    async with open_network(settings, SystemClock()) as network:
        return await network.prober.probe(request, trace=trace)


@asynccontextmanager
async def open_parts(settings: Settings) -> AsyncIterator[Resources]:
    """Open the store and the network; close them in reverse order."""
    clock = SystemClock()
    async with (
        open_store(settings.database, ChrononGrid(settings.chronon)) as store,
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
    ready: Callable[[Built], None] | None = None,
) -> None:
    """Run the daemon until SIGTERM or SIGINT; call ``started`` before it runs, and ``ready`` once it does."""
    tune_interpreter()
    with owner_lock(settings.database):
        async with open_parts(settings) as parts:
            built = build(settings, parts)
            daemon = built.daemon
            _handle_signals(daemon)
            if started is not None:
                started(daemon)
            if ready is not None:
                daemon.when_ready(lambda: ready(built))
            async with serve_api(built.queries, api_settings(settings)):
                await daemon.run()
    log.info("stopped")


async def create_token(settings: Settings, name: str, scope: Scope, *, expires_in_s: float | None) -> str:
    """Create a token in a database that no daemon holds, and return its text."""
    token, shown = new_token(name, scope, now_s=SystemClock().time_s(), expires_in_s=expires_in_s)
    with owner_lock(settings.database):
        async with open_store(settings.database, ChrononGrid(settings.chronon)) as store, store.writer.running():
            await store.access.add_token(token)
    return shown


def api_settings(settings: Settings) -> ApiSettings:
    """Return the API's settings."""
    host, port = settings.listen_address
    requests, window_s = settings.api_window
    quota, socket = None if requests is None else Quota(requests, window_s), settings.socket_path
    return ApiSettings(host, port, socket, socket_address(socket), quota, settings.own_hosts)


def _handle_signals(daemon: Daemon) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, daemon.stop)
    loop.add_signal_handler(signal.SIGINT, daemon.stop)
    loop.add_signal_handler(signal.SIGHUP, daemon.reload_soon)


async def discover(settings: Settings, url: str, *, locale: str | None = None, wants_price: bool = False) -> Discovered:
    """Return what an address holds; with ``wants_price`` its page is read for its price alone."""
    async with open_network(settings, SystemClock()) as network:
        return await FeedDiscovery(network.prober).look(url, locale=locale, wants_price=wants_price)
