"""The demo: an origin, a receiver and the real daemon between them, in one process and offline."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from aiohttp import web

from proxyd.api.auth import new_token
from proxyd.app import wiring as app
from proxyd.app.server import ApiSettings, serve_api
from proxyd.base import log
from proxyd.base.metrics import Metrics, Samples, percentile
from proxyd.base.ports import Clock
from proxyd.config.settings import Settings
from proxyd.core.errors import ProxydError
from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.core.model.schedule import Measures, Times, found_s, measure
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.programs.message_program import heading
from proxyd.lab.replay.replay import clairvoyant_probes, uniform_probes
from proxyd.lab.traces import STEADY, Week, poisson_events, zipf_rates
from proxyd.notify.channels.webhook import signature, signing_keys
from proxyd.store.backups import owner_lock

_CHRONON_S = 0.2
_PRICE_ITEM_S = 0.4  # delay that a probe must save: about 20 probes a second do
_SHORTEST_S = 1.0
_HEADSTART_S = 0.7
_DRAIN_S = 10.0
_TOO_LATE_S = 1.0  # five chronons: by then what a better plan saves is lost
_SECRET = "demo"
_PROFILE = """CREATE DOMAIN "Demo" AS
CLASS::ATOM(channel.item.guid:String, channel.item.title:String,
channel.item.pubDate:Timestamp);

{sources}
CREATE PROFILE "Demo" AS (DOMAIN "Demo", LANGUAGE "SQL", USER "demo");

INSERT NOTIFICATION "Every_Item"
INTO "Demo"
SET QUERY "SELECT channel.item.guid, channel.item.title FROM ATOM"
SET TRIGGER "ON INSERT TO ATOM"
START '{start}'
END '{end}'
SET UTILITY STRICT
SET DELIVERY WEBHOOK '{webhook}' SECRET FILE '{secret}';
"""


async def run_demo(duration_s: float, seed: int) -> _Results:
    """Run the demo and return the measurements."""
    if duration_s < _SHORTEST_S:
        raise ProxydError(f"a demo of {duration_s:g} s shows nothing; give it {_SHORTEST_S:g} s or more")
    log.configure("auto", "warning")
    progress = _show_progress if sys.stderr.isatty() else _show_nothing
    with TemporaryDirectory(prefix="proxyd-demo-") as folder:
        return await run(Path(folder), duration_s, seed, progress)


@dataclass(frozen=True, slots=True)
class _Stage:
    """The daemon's surroundings; ``start_s`` and ``stop_s`` in unix seconds."""

    workload: _DemoWorkload
    origin: Origin
    receiver: Receiver
    decider: Decider
    clock: Clock
    metrics: Metrics
    start_s: float
    stop_s: float

    def late_s(self) -> float:
        """Return how late the latest twentieth of the probes started at least, in seconds."""
        lateness = Samples.of(self.metrics.lateness.collect()).buckets
        return percentile(lateness.get("proxyd_scheduler_lateness_seconds_bucket", []), 0.95) or 0.0

    def requests_s(self) -> list[Times]:
        """Return when each feed was requested, in seconds from the start."""
        return [np.array(times, dtype=np.float64) - self.start_s for times in self.origin.requests_s]


async def run(folder: Path, duration_s: float, seed: int, progress: Callable[[str], None]) -> _Results:
    """Run the demo in an empty ``folder`` and return the results."""
    rng = np.random.Generator(np.random.PCG64(seed))
    workload = _make_workload(duration_s, rng)
    settings = make_settings(folder)
    async with _stage_daemon(settings, workload, rng.bytes(32)) as stage:
        await _watch(stage, progress)
        await _settle(stage)
    grid, late_s = ChrononGrid(settings.chronon), stage.late_s()
    return _make_results(workload, stage.requests_s(), stage.receiver, grid=grid, seed=seed, late_s=late_s)


def make_settings(folder: Path) -> Settings:
    """Return the daemon's settings, independent of the environment and of settings files."""
    return Settings.model_validate(
        {
            "profiles": folder / "profiles",
            "database": str(folder / "demo.db"),
            "secrets": folder / "secrets",
            "chronon": _CHRONON_S,
            "budget": "40/s",  # an upper bound; the price decides how many probes are made
            "probe_price": _PRICE_ITEM_S / 3600.0,
            "epoch": _WEEK_S,
            "cycle": _WEEK_S,
            "plan_every": _WEEK_S / 7,
            "source_spacing": _CHRONON_S,
            "host_spacing": 0.0,
            "allow_networks": ["127.0.0.0/8"],
            "drain_timeout": _DRAIN_S,
            "listen": "127.0.0.1:0",
            "socket": folder / "demo.sock",
        }
    )


@asynccontextmanager
async def _stage_daemon(settings: Settings, workload: _DemoWorkload, key: bytes) -> AsyncIterator[_Stage]:
    """Run the daemon between an origin and a receiver while the context is open; drain it at the end."""
    secret = "whsec_" + base64.b64encode(key).decode()
    with owner_lock(settings.database):
        async with app.open_parts(settings) as parts:
            start_s = float(ceil(parts.clock.time_s() + _HEADSTART_S))
            stop_s = start_s + workload.duration_s
            origin = Origin([times + start_s for times in workload.times_s], parts.clock, window=_WINDOW)
            receiver = Receiver(secret)
            async with origin.serving() as [address], receiver.serving() as webhook:
                _write_files(settings, secret, _profile(address, webhook, start_s, stop_s))
                built = app.build(settings, parts)
                async with (
                    serve_api(built.queries, ApiSettings.of(settings)) as addresses,
                    asyncio.TaskGroup() as tasks,
                ):
                    tasks.create_task(built.daemon.run(), name="daemon")
                    await _invite(parts, addresses)
                    yield _Stage(
                        *(workload, origin, receiver, built.decider, parts.clock, built.metrics), start_s, stop_s
                    )
                    built.daemon.stop()


async def _invite(parts: app.Resources, addresses: Sequence[str]) -> None:
    """Tell on the terminal where the dashboard is while the demo runs, and the token to sign in with."""
    if sys.stderr.isatty():
        token, shown = new_token("demo", "write", now_s=parts.clock.time_s(), expires_in_s=None)
        await parts.store.access.add_token(token)
        print(f"dashboard: http://{addresses[0]}/ while this runs; sign in with {shown}", file=sys.stderr)


async def _watch(stage: _Stage, progress: Callable[[str], None]) -> None:
    """Wait for the end of the demo."""
    while (left_s := stage.stop_s - stage.clock.time_s()) > 0:
        probes = sum(len(times) for times in stage.origin.requests_s)
        progress(f"{left_s:.0f} s left, {probes} probes, {stage.receiver.delivered.notifications} notifications")
        await stage.clock.sleep(min(1.0, left_s))
    progress("")


async def _settle(stage: _Stage) -> None:
    """Wait until all probed items have arrived, or long enough; the daemon starts no more probes after END."""
    try:
        async with asyncio.timeout(_DRAIN_S):
            planner = stage.decider.planner
            while planner.in_flight:
                await stage.clock.sleep(_CHRONON_S)
            await stage.receiver.has(_readable_items(stage.workload, stage.requests_s()))
    except TimeoutError:
        return  # what is missing counts as not delivered


def _write_files(settings: Settings, secret: str, profile: str) -> None:
    settings.profiles.mkdir()
    (settings.profiles / "demo.profile").write_text(profile, encoding="utf-8")
    secrets = settings.profiles.parent / "secrets"
    secrets.mkdir(mode=0o700)
    (secrets / _SECRET).write_text(secret, encoding="utf-8")


def _profile(origin: str, webhook: str, start_s: float, stop_s: float) -> str:
    sources = "".join(
        f"CREATE SOURCE \"feed-{feed:02d}\" OF ATOM AT '{origin}/feeds/{feed}.atom';\n" for feed in range(_FEEDS)
    )
    return _PROFILE.format(sources=sources, start=_iso_time(start_s), end=_iso(stop_s), webhook=webhook, secret=_SECRET)


def _iso_time(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat()


def _show_progress(text: str) -> None:
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _show_nothing(_text: str) -> None:
    """Discard progress messages when nobody watches."""


_LOOPBACK = ("127.0.0.1",)
_ENTRY = """<entry><id>{id}</id><title>Item {number} of feed {feed}</title>
<link href="http://demo.invalid/{feed}/{number}"/><published>{time}</published><updated>{time}</updated>
<summary>Nothing happened, {number} times.</summary></entry>
"""
_FEED = """<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:demo:{feed}</id><title>Feed {feed}</title><updated>{time}</updated>
{entries}</feed>
"""


def item_id(feed: int, number: int) -> str:
    """Return the identity of an item: its feed and its number in the feed.

    >>> item_id(7, 31)
    'urn:demo:7:31'
    """
    return f"urn:demo:{feed}:{number}"


def _read_item_id(text: str) -> tuple[int, int]:
    """Return the feed and the number of an identity.

    >>> _read_item_id("urn:demo:7:31")
    (7, 31)
    """
    feed, number = text.removeprefix("urn:demo:").split(":")
    return int(feed), int(number)


class Origin:
    """Serves ``/feeds/N.atom`` on loopback and records when each feed was requested.

    Parameters
    ----------
    times_s
        When the items of each feed appear, unix seconds, ascending.
    window
        Number of entries that a feed shows, newest first.
    """

    def __init__(self, times_s: Sequence[Times], clock: Clock, *, window: int) -> None:
        self._times_s = times_s
        self._clock = clock
        self._window = window
        self.requests_s: list[list[float]] = [[] for _ in times_s]

    @asynccontextmanager
    async def serving(self, hosts: Sequence[str] = _LOOPBACK) -> AsyncIterator[list[str]]:
        """Listen on a free port of each host while the context is open; yield their addresses."""
        app = web.Application()
        app.router.add_get("/feeds/{feed:\\d+}.atom", self._answer)
        async with listening(app, hosts) as addresses:
            yield addresses

    async def _answer(self, request: web.Request) -> web.Response:
        feed = int(request.match_info["feed"])
        if feed >= len(self._times_s):
            raise web.HTTPNotFound
        now_s = self._clock.time_s()
        self.requests_s[feed].append(now_s)
        count = int(np.searchsorted(self._times_s[feed], now_s, side="right"))
        headers = {"ETag": f'"{count}"', "Cache-Control": "no-cache"}
        if count:
            headers["Last-Modified"] = format_datetime(_moment(self._times_s[feed][count - 1]), usegmt=True)
        if _is_known(request, count):
            return web.Response(status=304, headers=headers)
        body = self._page(feed, count)
        return web.Response(text=body, content_type="application/atom+xml", headers=headers)

    def _page(self, feed: int, count: int) -> str:
        times = [_iso(time_s) for time_s in self._times_s[feed][max(0, count - self._window) : count]]
        entries = [
            _ENTRY.format(id=item_id(feed, number), feed=feed, number=number, time=time)
            for number, time in zip(range(count - 1, -1, -1), reversed(times), strict=False)
        ]
        return _FEED.format(feed=feed, time=times[-1] if times else _iso(0.0), entries="".join(entries))


@asynccontextmanager
async def listening(app: web.Application, hosts: Sequence[str] = _LOOPBACK) -> AsyncIterator[list[str]]:
    """Serve ``app`` on a free port of each host while the context is open; yield their addresses."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        for host in hosts:
            await web.TCPSite(runner, host, 0).start()
        yield [f"http://{host}:{port}" for host, port in runner.addresses]
    finally:
        await runner.cleanup()


def _is_known(request: web.Request, count: int) -> bool:
    """Return whether the client has the page; Last-Modified is ignored, as whole seconds are too coarse here."""
    return any(tag.value == str(count) for tag in request.if_none_match or ())


def _moment(time_s: float) -> datetime:
    return datetime.fromtimestamp(float(time_s), UTC)


def _iso(time_s: float) -> str:
    return _moment(time_s).isoformat(timespec="microseconds")


_SHOWN = 5


@dataclass(slots=True)
class _Delivered:
    """The notifications that came; ``undelivered`` items were read by the daemon, but did not arrive in time."""

    notifications: int = 0
    verified: int = 0
    duplicates: int = 0
    disordered: int = 0
    undelivered: int = 0

    @property
    def is_fine(self) -> bool:
        """Whether every item arrived, once, in order and correctly signed."""
        return self.notifications == self.verified and not (self.duplicates or self.disordered or self.undelivered)


class Receiver:
    """Accepts signed notifications of one item each, and counts errors; ``newest`` are the titles of the last few."""

    def __init__(self, secret: str) -> None:
        (self._key,) = signing_keys(secret)
        self._newest: dict[tuple[str, int], int] = {}
        self._came = asyncio.Event()
        self.items: set[tuple[int, int]] = set()
        self.newest: deque[str] = deque(maxlen=_SHOWN)
        self.delivered = _Delivered()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Listen on a free port of loopback while the context is open; yield the webhook's address."""
        app = web.Application()
        app.router.add_post("/hook", self._accept)
        async with listening(app) as [address]:
            yield f"{address}/hook"

    async def has(self, expected: set[tuple[int, int]]) -> None:
        """Wait until every expected item, by feed and number, has arrived."""
        while not expected <= self.items:
            self._came.clear()
            await self._came.wait()

    async def _accept(self, request: web.Request) -> web.Response:
        body = await request.read()
        if json.loads(body)["type"] == "proxyd.ping":
            return web.Response(status=204)
        self.delivered.notifications += 1
        its_id, timestamp, sent = (
            request.headers.get(f"webhook-{part}", "") for part in ("id", "timestamp", "signature")
        )
        if not hmac.compare_digest(signature(self._key, its_id, timestamp, body).encode(), sent.encode()):
            return web.Response(status=401)
        self.delivered.verified += 1
        self._note(body)
        self._came.set()
        return web.Response(status=204)

    def _note(self, body: bytes) -> None:
        data = json.loads(body)["data"]
        self.newest.append(heading(data))
        for row in data["items"]:
            feed, number = _read_item_id(row["channel.item.guid"])
            stream = (data["rule"], feed)
            self.delivered.duplicates += (feed, number) in self.items
            self.delivered.disordered += number < self._newest.get(stream, -1)
            self._newest[stream] = max(number, self._newest.get(stream, -1))
            self.items.add((feed, number))


_ROWS = {
    "proxyd": "as it ran: real requests to the origin",
    "uniform": "the same items, as many probes, every feed equally often",
    "clairvoyant": "the same items, at most as many probes, every item known beforehand",
}


@dataclass(frozen=True, slots=True)
class _Results:
    """The three schedules over the same items, the deliveries, and the titles of the last of them."""

    measures: dict[str, Measures]
    delivered: _Delivered
    unseen: int
    duration_s: float
    seed: int
    newest: tuple[str, ...] = ()
    late_s: float = 0.0  # of the latest twentieth of the probes

    def to_json(self) -> str:
        """Return one object for each schedule."""
        objects = {
            name: {
                "completeness": found.completeness,
                "mean_delay_s": found.mean_delay_s,
                "p95_delay_s": found.p95_delay_s,
                "probes": found.probes,
            }
            for name, found in self.measures.items()
        }
        extra = {
            "items": self.measures["proxyd"].events,
            "unseen": self.unseen,
            "notifications": self.delivered.notifications,
            "verified": self.delivered.verified,
            "duplicates": self.delivered.duplicates,
            "out_of_order": self.delivered.disordered,
            "undelivered": self.delivered.undelivered,
            "probes_late_s": self.late_s,
        }
        return json.dumps(objects | {"proxyd": objects["proxyd"] | extra}, indent=2)

    def to_text(self) -> str:
        """Return a table for 80 columns."""
        sent = self.delivered
        items = self.measures["proxyd"].events
        lines = [f"{_FEEDS} feeds, {items} items in {self.duration_s:g} s, seed {self.seed}", ""]
        lines.append(f"{'':<12}{'completeness':>13}{'mean delay':>13}{'p95 delay':>12}{'probes':>9}")
        for name, found in self.measures.items():
            delays = f"{found.mean_delay_s:>11.2f} s{found.p95_delay_s:>10.2f} s"
            lines.append(f"{name:<12}{found.completeness:>11.1%}  {delays}{found.probes:>9}")
        lines += ["", *(f"{name:<12} {text}" for name, text in _ROWS.items()), ""]
        lines.append(
            f"{sent.notifications} notifications: {sent.verified} signatures verified, {sent.duplicates} repeated, "
            f"{sent.disordered} out of order, {sent.undelivered} not delivered"
        )
        if self.late_s > _TOO_LATE_S:
            lines += [
                f"this machine was too slow: one probe in twenty started {self.late_s:.1f} s late or more,",
                "so these figures say little of proxyd; try again when the machine is less busy",
            ]
        lines += ["", "the last of what was told:", *(f"  {title}" for title in self.newest)] if self.newest else []
        return "\n".join(lines)


def _readable_items(workload: _DemoWorkload, requests_s: Sequence[Times]) -> set[tuple[int, int]]:
    """Return the demo's items, by feed and number, that the responses to ``requests_s`` showed."""
    items = set()
    for feed, (times, requests, history) in enumerate(
        zip(workload.times_s, requests_s, workload.histories(), strict=True)
    ):
        found = found_s(times, requests, window=_WINDOW)
        items |= {(feed, int(number)) for number in np.flatnonzero(~np.isnan(found)) if number >= history}
    return items


def _make_results(
    workload: _DemoWorkload,
    requests_s: Sequence[Times],
    receiver: Receiver,
    *,
    grid: ChrononGrid,
    seed: int,
    late_s: float,
) -> _Results:
    """Return the measures of the daemon and the baselines; times in seconds from the start."""
    stop_s, events = workload.duration_s, workload.events_s()
    probes = [times[(times >= 0.0) & (times < stop_s)] for times in requests_s]
    count = sum(times.size for times in probes)
    schedules = {
        "proxyd": probes,
        "uniform": uniform_probes(_FEEDS, count, start_s=0.0, stop_s=stop_s),
        "clairvoyant": clairvoyant_probes(events, count, epoch=Epoch(0, grid.ceil(stop_s)), grid=grid),
    }
    measures = {
        name: measure(events, schedule, grid=grid, end_s=stop_s, window=_WINDOW) for name, schedule in schedules.items()
    }
    readable = _readable_items(workload, requests_s)
    delivered = replace(receiver.delivered, undelivered=len(readable - receiver.items))
    unseen = sum(times.size for times in events) - len(readable)
    return _Results(measures, delivered, unseen, stop_s, seed, tuple(receiver.newest), late_s)


_FEEDS = 60
_EXPONENT = 1.2
_ITEMS_PER_S = 8.0
_WEEK_S = 20.0
_HISTORY_S = 60 * _WEEK_S
_WINDOW = 20
_WORKING, _NIGHT, _WEEKEND = 3.0, 0.2, 0.1
WEEK_FACTORS = (_WORKING, _NIGHT) * 5 + (_WEEKEND, _WEEKEND) * 2
"""Days and nights of a week that begins on Monday."""


@dataclass(frozen=True, slots=True)
class _DemoWorkload:
    """When the items of each feed appear, in seconds from the start of the demo; earlier ones are negative."""

    times_s: tuple[Times, ...]
    rates_per_s: Times  # mean rates of the feeds
    duration_s: float

    def events_s(self) -> list[Times]:
        """Return the items that appear during the demo."""
        return [times[times >= 0.0] for times in self.times_s]

    def histories(self) -> list[int]:
        """Return the number of items in each feed before the start."""
        return [int(np.count_nonzero(times < 0.0)) for times in self.times_s]


def _make_workload(duration_s: float, rng: np.random.Generator) -> _DemoWorkload:
    """Return feeds in an order independent of their rates; every second has a weekly pattern, in one of three zones."""
    # All share the same weekend days: zones lie half a day ahead or behind
    rates = rng.permutation(zipf_rates(_FEEDS, exponent=_EXPONENT, total_per_s=_ITEMS_PER_S))
    times = []
    for feed, rate in enumerate(rates):
        piece_s = _WEEK_S / len(WEEK_FACTORS)
        week = Week(_WEEK_S, WEEK_FACTORS, piece_s * int(rng.integers(-1, 2))) if feed % 2 else STEADY
        found = poisson_events(float(rate), week, start_s=-_HISTORY_S, stop_s=duration_s, rng=rng)
        times.append(np.unique(np.floor(found * 1000.0)) / 1000.0)  # whole milliseconds, as the feeds write them
    return _DemoWorkload(tuple(times), rates, duration_s)
