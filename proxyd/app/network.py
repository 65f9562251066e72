"""The outgoing network of a process: the guarded session, parsers, browser and channels; and single probes over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from math import ceil

import structlog
from aiohttp import ClientSession

from proxyd.app.check_settings import browser_missing, check_declaration
from proxyd.base.clock import SystemClock
from proxyd.base.ports import Clock
from proxyd.config.loading import SecretStore
from proxyd.config.profile_files import read_directory
from proxyd.config.settings import Settings
from proxyd.core.errors import ConfigError, NotFoundError
from proxyd.core.language import SourceText, did_you_mean
from proxyd.core.language.watch_wishes import VALUE_CLASS
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from proxyd.core.model.profile import SITE_CLASS
from proxyd.core.model.site import CONNECTIONS
from proxyd.core.rules.known.compiled import probe_request
from proxyd.daemon import Discovered, FeedDiscovery, Way
from proxyd.net.guard import Guard
from proxyd.net.host_turns import HostTokens
from proxyd.net.session import SessionLimits, make_session, raise_open_files, room_for_connections, user_agent
from proxyd.notify.channels import ChannelResources
from proxyd.notify.channels.channel_routing import Channels, make_channels
from proxyd.probing.browser.page_requests import RenderLimits
from proxyd.probing.document_parser import ParserPool
from proxyd.probing.http.fetcher import Fetcher, FetchLimits, ProbeTrace
from proxyd.probing.http.hubs import HubClient
from proxyd.probing.http.robots import Robots, robots_limits
from proxyd.probing.prober import HttpProber, NoBrowser, Render
from proxyd.tracing import NO_TRACES, Tracer

log = structlog.get_logger("app")


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
            hubs = HubClient(session, guard, tokens, HostTokens(clock, settings.host_spacing))
            yield Network(guard, session, prober, parser, hubs, tokens)


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
        is_connection = target.partition("://")[0] in CONNECTIONS
        return ProbeRequest(target, target, page_class=SITE_CLASS if is_connection else None)
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


async def discover(
    settings: Settings, url: str, way: Way, *, reads: str = "", value: tuple[str, bool] | None = None
) -> Discovered:
    """Return what an address holds, or what the built-in class ``reads`` reads there.

    A ``value`` is a CSS selector, and whether it leads to a number: then that alone is read.
    """
    async with open_network(settings, SystemClock()) as network:
        discovery = FeedDiscovery(network.prober)
        if value is None:
            return await discovery.look(url, way, reads=reads)
        selector, is_number = value
        return Discovered(await discovery.read_value(url, selector, way, is_number=is_number), VALUE_CLASS)
