"""Speed of probing: the whole daemon against a bare HTTP loop, and against feedparser, on one origin in one run.

Run ``python benchmarks/prober.py`` (about three minutes); ``--quick`` for few sources, ``--json`` for machines. The
origin is a process of its own on loopback. Each pair of figures is measured by turns, and their medians are compared.
The figures are in docs/decisions/large-fleets.md; ``tests/acceptance/test_overload.py`` asserts those of
``--overload``. ``--everyday`` measures the processor time of a probe where there is time enough, which other work on
the machine hardly changes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from itertools import count, cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import ClassVar

import aiohttp
import feedparser

from proxyd.app import wiring as app
from proxyd.app.wiring import Built
from proxyd.base import log
from proxyd.base.interpreter import tune_interpreter
from proxyd.config.settings import Settings
from proxyd.net.guard import Guard
from proxyd.net.host_turns import HostTokens
from proxyd.net.session import make_session, raise_open_files
from proxyd.probing.document_parser import ParserPool
from proxyd.probing.feeds.feed_items import ParsedFeed
from proxyd.probing.feeds.feed_parser import parse_any_feed
from proxyd.probing.http.fetcher import Fetcher
from proxyd.probing.prober import HttpProber, LocalTransport
from proxyd.store.backups import owner_lock

Line = dict[str, object]

IN_FLIGHT = 32  # hosts, of which each takes one request at a time
ITEMS = 20
CHRONON_S = 0.1
TICK_S = 0.005
EVERYDAY = {"validated": 0.7, "same": 0.1, "changing": 0.1, "page": 0.1}  # how the sources of a usual daemon answer
EVERYDAY_PER_S = 20
BUDGET_PARTS = 0.02, 0.04, 0.08, 0.16, 1.0
_SOURCES_IN_FILE = 500
_SUCCESSES = ("changed", "same_body", "not_modified")
_PROFILE = """CREATE DOMAIN "Bench" AS
CLASS::RSS(channel.item.guid:String,
channel.item.pubDate:Timestamp);

CREATE PROFILE "Bench" AS (DOMAIN "Bench", LANGUAGE "SQL", USER "bench");

INSERT NOTIFICATION "Every_Third"
INTO "Bench"
SET QUERY "SELECT channel.item.guid FROM RSS"
SET TRIGGER "ON INSERT TO RSS WHEN COUNT(*) % 3 = 0"
START NOW
END NEVER
SET UTILITY STRICT;
"""
_TEXT = "&lt;p&gt;Lorem ipsum dolor sit amet, &lt;a href=&quot;/a&quot;&gt;consectetur&lt;/a&gt; elit.&lt;/p&gt; " * 6


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured.

    Parameters
    ----------
    seconds
        How long each rate is measured.
    parallel
        Sources that change whenever they are probed, and documents that feedparser is given at once.
    """

    seconds: float = 3.0
    repeats: int = 3
    sources: int = 512
    parallel: int = 128
    fast: int = 200
    slow: int = 10_000


QUICK = Scale(seconds=0.3, repeats=1, sources=64, parallel=4, fast=20, slow=50)


# -- the origin, a process of its own


def document(numbers: Sequence[int]) -> bytes:
    """Return a feed with an item for each number, about 1 kB each."""
    items = "".join(
        f"<item>\n<title>Post {number}</title>\n<link>https://example.org/{number}/</link>\n"
        f"<dc:creator><![CDATA[Ann]]></dc:creator>\n<category><![CDATA[News]]></category>\n"
        f'<guid isPermaLink="false">{number}</guid>\n<description>{_TEXT}</description>\n</item>\n'
        for number in numbers
    )
    head = '<?xml version="1.0" encoding="UTF-8"?>\n<rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/">'
    return f"{head}<channel><title>News</title><link>https://example.org/</link>\n{items}</channel></rss>".encode()


class OriginProtocol(asyncio.Protocol):
    """Answers ``/validated`` (304), ``/same`` (the same bytes), ``/changing`` (an item more) and ``/slow`` (drips).

    ``/page`` is a page of which a number changes. Each address counts by itself.
    """

    _numbers: ClassVar[defaultdict[bytes, Iterator[int]]] = defaultdict(lambda: count(ITEMS))
    _not_modified = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'
    _drip_s = 10.0

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every whole request."""
        self._received += data
        while b"\r\n\r\n" in self._received:
            request, _, self._received = self._received.partition(b"\r\n\r\n")
            self._answer(request)

    def _answer(self, request: bytes) -> None:
        assert self._transport is not None
        numbers = self._numbers[request.split(None, 2)[1]]
        if request.startswith(b"GET /slow"):
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/rss+xml\r\nContent-Length: 1000000\r\n\r\n"
            )
            self._drip()
        elif request.startswith(b"GET /validated") and b"If-None-Match:" in request:
            self._transport.write(self._not_modified)
        elif request.startswith(b"GET /changing"):
            newest = next(numbers)
            self._transport.write(_response(document(range(newest, newest - ITEMS, -1))))
        elif request.startswith(b"GET /page"):
            self._transport.write(
                _response(b"<title>Page</title><p>Lorem %d ipsum</p>" % next(numbers), kind="text/html")
            )
        else:
            self._transport.write(_SAME if request.startswith(b"GET /same") else _VALIDATED)

    def _drip(self) -> None:
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.write(b" ")
            asyncio.get_running_loop().call_later(self._drip_s, self._drip)


def _response(body: bytes, headers: str = "", kind: str = "application/rss+xml") -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


_SAME = _response(document(range(ITEMS)))
_VALIDATED = _response(document(range(ITEMS)), 'ETag: "1"\r\n')


async def serve_origin() -> None:
    """Listen on every address of loopback and say on which port; for ever."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(OriginProtocol, "0.0.0.0", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def origin() -> Iterator[int]:
    """Run the origin while the context is open; yields its port."""
    command = [sys.executable, __file__, "--origin"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


# -- what is measured


@dataclass(slots=True)
class Lag:
    """How late the event loop was for a tick, in seconds; one list for all ticks."""

    late_s: list[float] = field(default_factory=list)

    async def watch(self) -> None:
        """Tick until it is cancelled."""
        while True:
            due_s = perf_counter() + TICK_S
            await asyncio.sleep(TICK_S)
            self.late_s.append(perf_counter() - due_s)

    def line(self) -> Line:
        """Return its quantiles in milliseconds."""
        late = sorted(self.late_s)
        p50, p99 = (1000.0 * late[int(part * (len(late) - 1))] for part in (0.5, 0.99))
        return {"lag_p50_ms": p50, "lag_p99_ms": p99, "lag_max_ms": 1000.0 * late[-1]}


async def rate(done: Callable[[], float], seconds: float, lag: Lag) -> float:
    """Return how many a second are done, at least one of them, and watch the event loop meanwhile."""
    watch = asyncio.ensure_future(lag.watch())
    began, before = perf_counter(), done()
    await asyncio.sleep(seconds)
    await until(lambda: done() > before)
    per_s = (done() - before) / (perf_counter() - began)
    watch.cancel()
    return per_s


def host(number: int) -> str:
    """Return an address of loopback that no other number has."""
    return f"127.{1 + number // 65536}.{number // 256 % 256}.{number % 256}"


def urls(port: int, path: str, sources: int, hosts: int) -> list[str]:
    """Return addresses of sources, spread over hosts."""
    return [f"http://{host(1 + number % hosts)}:{port}/{path}/{number}" for number in range(sources)]


async def bare(targets: Sequence[str], headers: dict[str, str], seconds: float, lag: Lag) -> float:
    """Return GETs a second of a loop that does nothing else, with the session of the daemon."""
    done = count()
    async with make_session(Guard(_settings(Path()).networks), contact="") as session, asyncio.TaskGroup() as tasks:
        loops = [
            tasks.create_task(_get_for_ever(session, targets[first::IN_FLIGHT], headers, done))
            for first in range(IN_FLIGHT)
        ]
        await asyncio.sleep(0.2)
        per_s = await rate(lambda: next(done), seconds, lag)
        for loop in loops:
            loop.cancel()
    return per_s


async def paced(targets: Sequence[str], headers: dict[str, str], seconds: float) -> float:
    """Return the processor time of a GET of such a loop at the pace of the everyday mix.

    At full speed a GET takes a ninth of it: the caches stay warm.
    """
    number = round(seconds * EVERYDAY_PER_S)
    async with make_session(Guard(_settings(Path()).networks), contact="") as session:
        began_s = process_time()
        for target, _ in zip(cycle(targets), range(number), strict=False):
            async with session.get(target, headers=headers) as response:
                await response.read()
            await asyncio.sleep(1.0 / EVERYDAY_PER_S)
    return (process_time() - began_s) / number


async def _get_for_ever(
    session: aiohttp.ClientSession, targets: Sequence[str], headers: dict[str, str], done: Iterator[int]
) -> None:
    for target in cycle(targets):
        async with session.get(target, headers=headers) as response:
            await response.read()
        next(done)


def _settings(folder: Path, **changes: object) -> Settings:
    values: dict[str, object] = {
        "profiles": folder / "profiles",
        "database": str(folder / "bench.db"),
        "chronon": CHRONON_S,
        "budget": "10000/s",
        "probe_price": 1e-12,
        "source_spacing": 0.001,
        "host_spacing": 0.0,
        "allow_networks": ["127.0.0.0/8"],
        "probe_timeout": 600.0,
        "drain_timeout": 0.5,
    }
    return Settings.model_validate(values | changes)


@asynccontextmanager
async def daemon(targets: Sequence[str], *, fast_path: bool = True, **changes: object) -> AsyncIterator[Built]:
    """Run a daemon with one rule over all sources while the context is open; yields its control."""
    with TemporaryDirectory(prefix="proxyd-bench-") as name:
        settings = _settings(Path(name), **changes)
        settings.profiles.mkdir()
        _write_profiles(settings.profiles, targets)
        with owner_lock(settings.database):
            async with _parts(settings, fast_path=fast_path) as parts, asyncio.TaskGroup() as tasks:
                built = app.build(settings, parts)
                tasks.create_task(built.daemon.run(), name="daemon")
                yield built
                built.daemon.stop()


@asynccontextmanager
async def _parts(settings: Settings, *, fast_path: bool) -> AsyncIterator[app.Resources]:
    """Open what a daemon acts through, if need be with parsers that leave every feed to feedparser."""
    async with app.open_parts(settings) as parts, AsyncExitStack() as opened:
        if not fast_path:
            session = await opened.enter_async_context(make_session(Guard(settings.networks), contact=""))
            pool = await opened.enter_async_context(ParserPool(slow_path, workers=settings.parser_processes))
            fetcher = Fetcher(session, Guard(settings.networks), HostTokens(parts.clock, 0.0), parts.clock)
            parts = replace(parts, transport=LocalTransport(HttpProber(fetcher, pool, parts.clock)))
        yield parts


def slow_path(body: bytes, content_type: str | None = None, url: str = "", *_: object) -> ParsedFeed:
    """Return what the daemon reads without its fast path."""
    return parse_any_feed(body, content_type, url)


def feedparser_alone(body: bytes, *_: object) -> ParsedFeed:
    """Let feedparser parse and return nothing of it."""
    feedparser.parse(BytesIO(body), sanitize_html=False, resolve_relative_uris=False)
    return ParsedFeed(items=(), version="")


def _write_profiles(folder: Path, targets: Sequence[str]) -> None:
    """Write the rule and its sources, as many to a file as one may hold."""
    (folder / "rule.profile").write_text(_PROFILE, encoding="utf-8")
    kinds = ["PAGE" if "/page/" in target else "RSS" for target in targets]
    named = enumerate(zip(kinds, targets, strict=True))
    lines = [f"CREATE SOURCE \"s{number}\" OF {kind} AT '{target}';\n" for number, (kind, target) in named]
    for first in range(0, len(lines), _SOURCES_IN_FILE):
        text = "".join(lines[first : first + _SOURCES_IN_FILE])
        (folder / f"sources-{first}.profile").write_text(text, encoding="utf-8")


def successes(control: Built) -> float:
    """Return how many probes saw the state of their source and are recorded."""
    registry = control.metrics.registry
    return sum(registry.get_sample_value("proxyd_probes_total", {"outcome": kind}) or 0.0 for kind in _SUCCESSES)


async def until(is_so: Callable[[], bool], within_s: float = 120.0) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(within_s):
        while not is_so():  # noqa: ASYNC110 - the daemon tells nobody what it has done
            await asyncio.sleep(0.02)


async def probing(targets: Sequence[str], seconds: float, lag: Lag, *, budget: str = "10000/s") -> float:
    """Return probes a second of the daemon, after each source was probed twice."""
    async with daemon(targets, budget=budget) as control:
        await until(lambda: successes(control) >= 2 * len(targets))
        return await rate(lambda: successes(control), seconds, lag)


async def reading(targets: Sequence[str], seconds: float, lag: Lag, *, workers: int, fast_path: bool) -> float:
    """Return items a second that the daemon reads of sources that changed whenever they are probed."""
    async with daemon(targets, fast_path=fast_path, parser_processes=workers) as control:
        await until(lambda: successes(control) >= 2 * len(targets))
        return ITEMS * await rate(lambda: successes(control), seconds, lag)


async def parsing(parallel: int, seconds: float, lag: Lag, *, workers: int) -> float:
    """Return items a second that feedparser alone reads in a pool of as many workers."""
    body, done = document(range(ITEMS)), count()

    async def parse_for_ever(pool: ParserPool) -> None:
        while True:
            await pool.parse(body)
            next(done)

    async with ParserPool(feedparser_alone, workers=workers) as pool, asyncio.TaskGroup() as tasks:
        await asyncio.gather(*(pool.parse(body) for _ in range(workers)))
        loops = [tasks.create_task(parse_for_ever(pool)) for _ in range(parallel)]
        per_s = ITEMS * await rate(lambda: next(done), seconds, lag)
        for loop in loops:
            loop.cancel()
    return per_s


@dataclass(frozen=True, slots=True)
class Lateness:
    """Probes of fast sources beside slow ones that are open; the memory is that of all sources and their probes."""

    late_p99_s: float
    opening_s: float
    memory_bytes: int
    lag: Lag


async def lateness(port: int, scale: Scale, slow: int) -> Lateness:
    """Return how late probes of fast sources are while ``slow`` others answer and do not end."""
    fast = urls(port, "validated", scale.fast, scale.fast)
    stuck = [f"http://{host(1 + scale.fast + number)}:{port}/slow/{number}" for number in range(slow)]
    before, lag = _memory_bytes(), Lag()
    async with daemon([*fast, *stuck], source_spacing=0.5, budget="2000/s") as control:
        began = perf_counter()
        await until(lambda: len(control.decider.planner.in_flight) >= slow and successes(control) >= 2 * len(fast))
        opening_s = perf_counter() - began
        buckets = _late_counts(control)
        await rate(lambda: successes(control), max(1.0, scale.seconds), lag)
        ended = {edge_s: number - buckets[edge_s] for edge_s, number in _late_counts(control).items()}
        return Lateness(_quantile(ended, 0.99), opening_s, _memory_bytes() - before, lag)


def _late_counts(control: Built) -> dict[float, float]:
    """Return how many probes were at most so late; of slow ones none has ended."""
    samples = next(iter(control.metrics.lateness.collect())).samples
    return {float(each.labels["le"]): each.value for each in samples if each.name.endswith("_bucket")}


def _quantile(counts: dict[float, float], part: float) -> float:
    """Return a quantile of a cumulative histogram, straight between its edges."""
    wanted = part * max(counts.values())
    low_s = low = 0.0
    for edge_s, number in counts.items():
        if number >= wanted:
            return low_s + (edge_s - low_s) * (wanted - low) / max(number - low, 1.0)
        low_s, low = edge_s, number
    return low_s


def _memory_bytes() -> int:
    """Return what this process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


# -- the lines


Measure = Callable[[Lag], Coroutine[None, None, float]]


def compare(what: str, unit: str, ours: Measure, theirs: Measure, repeats: int) -> Line:
    """Measure two rates by turns and return the median of the first, its ratio to the other's, and their spreads."""
    lag, first, second = Lag(), [], []
    for _ in range(repeats):
        second.append(asyncio.run(theirs(Lag())))
        first.append(asyncio.run(ours(lag)))
    per_s = statistics.median(first)
    return {
        "what": what,
        "unit": unit,
        "seconds": 1.0 / per_s,
        "per_s": per_s,
        "spread": _spread(first),
        "against_per_s": statistics.median(second),
        "against_spread": _spread(second),
        "ratio": per_s / statistics.median(second),
        **lag.line(),
    }


def _spread(values: Sequence[float]) -> float:
    """Return how far the greatest and the least are apart, as a part of the median."""
    return (max(values) - min(values)) / statistics.median(values)


def against_loop(port: int, scale: Scale) -> list[Line]:
    """Compare the daemon with a bare loop of the same requests."""
    measured = []
    for what, path, headers in (
        ("304", "validated", {"If-None-Match": '"1"'}),
        ("same bytes", "same", dict[str, str]()),
    ):
        targets = urls(port, path, scale.sources, IN_FLIGHT)
        ours, theirs = partial(probing, targets, scale.seconds), partial(bare, targets, headers, scale.seconds)
        measured.append(compare(f"{what}, bare loop", "probes", ours, theirs, scale.repeats))
    return measured


async def within_budgets(targets: Sequence[str], seconds: float, lag: Lag) -> list[float]:
    """Return probes a second of one daemon within each of some budgets, the last of which is far more than it can."""
    async with daemon(targets) as control:
        await until(lambda: successes(control) >= 2 * len(targets))
        rates = []
        for part in BUDGET_PARTS:
            control.decider.planner.share(part)
            await asyncio.sleep(seconds / 3)
            rates.append(await rate(lambda: successes(control), seconds, lag))
        return rates


def against_itself(port: int, scale: Scale) -> list[Line]:
    """Compare the daemon with far more due than it can do with the best that it does within smaller budgets."""
    targets = urls(port, "validated", scale.sources, IN_FLIGHT)
    lag = Lag()
    measured = [asyncio.run(within_budgets(targets, scale.seconds, lag)) for _ in range(scale.repeats)]
    beyond = [rates[-1] for rates in measured]
    ratios = [rates[-1] / max(rates) for rates in measured]
    return [
        {
            "what": "304, more due than can be done",
            "unit": "probes",
            "seconds": 1.0 / statistics.median(beyond),
            "per_s": statistics.median(beyond),
            "spread": _spread(beyond),
            "against_per_s": statistics.median(max(rates) for rates in measured),
            "against_spread": _spread([max(rates) for rates in measured]),
            "ratio": statistics.median(ratios),
            **lag.line(),
        }
    ]


def against_feedparser(port: int, scale: Scale) -> list[Line]:
    """Compare the daemon with feedparser alone in as many processes, first without the fast path."""
    measured = []
    targets = urls(port, "changing", scale.parallel, scale.parallel)
    for workers, fast_path in ((1, False), (2, False), (2, True)):
        ours = partial(reading, targets, scale.seconds, workers=workers, fast_path=fast_path)
        theirs = partial(parsing, scale.parallel, scale.seconds, workers=workers)
        what = f"{'fast path' if fast_path else 'slow path'}, {workers} parsers, feedparser"
        measured.append(compare(what, "items", ours, theirs, scale.repeats))
    return measured


def beside_slow_origins(port: int, scale: Scale) -> list[Line]:
    """Compare how late probes start with and without slow origins."""
    without = [asyncio.run(lateness(port, scale, 0)) for _ in range(scale.repeats)]
    beside = [asyncio.run(lateness(port, scale, scale.slow)) for _ in range(scale.repeats)]
    late_s, alone_s = ([each.late_p99_s for each in measured] for measured in (beside, without))
    lag = Lag([late_s for each in beside for late_s in each.lag.late_s])
    return [
        {
            "what": f"{scale.slow} slow origins open",
            "seconds": statistics.median(each.opening_s for each in beside),
            "late_p99_ms": 1000.0 * statistics.median(late_s),
            "against_late_p99_ms": 1000.0 * statistics.median(alone_s),
            "ratio": statistics.median(late_s) / statistics.median(alone_s),
            "kib_each": max(each.memory_bytes for each in beside) / 1024.0 / scale.slow,
            **lag.line(),
        }
    ]


def everyday(port: int, scale: Scale) -> list[Line]:
    """Return the processor time of a probe by how its source answers, and of a bare loop's request of the same."""
    measured: list[Line] = []
    kinds: dict[str, dict[str, float]] = {"only 304s": {"validated": 1.0}, "unchanged bodies": {"same": 1.0}}
    for what, parts in (kinds | {"everyday mix": EVERYDAY}).items():
        counts = {path: max(1, round(part * scale.sources)) for path, part in parts.items()}
        targets = [target for path, count_of in counts.items() for target in urls(port, path, count_of, IN_FLIGHT)]
        bare_s = asyncio.run(paced(targets, {"If-None-Match": '"1"'}, scale.seconds * 5))
        measured.append(asyncio.run(costs(f"{what}, processor time", targets, scale.seconds * 10, bare_s)))
    return measured


async def costs(what: str, targets: Sequence[str], seconds: float, bare_s: float) -> Line:
    """Return the processor time of a probe in the daemon and in its parsers."""
    async with daemon(targets, chronon=10.0, budget="2000/s", source_spacing=1.0) as control:
        await until(lambda: successes(control) >= 2 * len(targets))
        control.decider.planner.share(EVERYDAY_PER_S / 2000)
        await asyncio.sleep(2.0)
        before, began_s, parsers_s = successes(control), process_time(), _children_s()
        await asyncio.sleep(seconds)
        probes = max(1.0, successes(control) - before)
        daemon_s, parsers_s = process_time() - began_s, _children_s() - parsers_s
    return {
        "what": what,
        "probes": probes,
        "daemon_ms": 1000.0 * daemon_s / probes,
        "parsers_ms": 1000.0 * parsers_s / probes,
        "bare_ms": 1000.0 * bare_s,
        "ratio": bare_s * probes / (daemon_s + parsers_s),
    }


def _children_s() -> float:
    """Return the processor time of the processes that parse, and of the server that forks them."""
    tree = process_tree(os.getpid())
    fields = [fields for pid, fields in tree.items() if pid != os.getpid() and "--origin" not in _command(pid)]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")


def process_tree(root: int) -> dict[int, list[str]]:
    """Return a process and those below it, with the fields of their ``stat`` that follow the name."""
    fields_of: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields_of[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    below = [root]
    for parent in below:
        below += [pid for pid, fields in fields_of.items() if int(fields[1]) == parent]
    return {pid: fields_of[pid] for pid in below}


def _command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def overload_lines(scale: Scale) -> list[Line]:
    """Return how the daemon does with more due than it can do: against a bare loop, and against its best; once each."""
    scale = replace(scale, repeats=1)
    with origin() as port:
        return [*against_loop(port, scale)[:1], *against_itself(port, scale)]


def lines(scale: Scale) -> list[Line]:
    """Return every measurement."""
    with origin() as port:
        return [
            *against_loop(port, scale),
            *against_itself(port, scale),
            *against_feedparser(port, scale),
            *beside_slow_origins(port, scale),
        ]


def print_table(measured: Sequence[Line]) -> None:
    """Print what people read."""
    print(f"{'':34}{'a second':>10}{'against':>10}{'ratio':>7}{'spreads':>12}{'lag p50, p99, max in ms':>26}")
    for line in measured:
        lag = ", ".join(f"{line[f'lag_{part}_ms']:.1f}" for part in ("p50", "p99", "max"))
        if "per_s" in line:
            rates = f"{line['per_s']:10.0f}{line['against_per_s']:10.0f}{line['ratio']:7.2f}"
            spreads = f"{line['spread']:.0%}, {line['against_spread']:.0%}"
        else:
            late = f"late p99 {line['late_p99_ms']:.1f} ms, {line['against_late_p99_ms']:.1f} without"
            rates, spreads = late, f"{line['kib_each']:.0f} KiB each"
        print(f"{line['what']:34}{rates}{spreads:>12}{lag:>26}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sources, for a test that it still runs")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--overload", action="store_true", help="only with more due than can be done")
    parser.add_argument("--everyday", action="store_true", help="only the processor time of a probe")
    parser.add_argument("--origin", action="store_true", help="only serve the origin; the benchmark starts it so")
    options = parser.parse_args()
    log.configure("auto", "error")
    tune_interpreter()
    if options.origin:
        raise_open_files()
        asyncio.run(serve_origin())
        return
    scale = QUICK if options.quick else Scale()
    if options.everyday:
        with origin() as port:
            for line in everyday(port, scale):
                print(json.dumps(line))
        return
    measured = (overload_lines if options.overload else lines)(scale)
    if options.json:
        print(json.dumps(measured))
    else:
        print_table(measured)


if __name__ == "__main__":
    main()
