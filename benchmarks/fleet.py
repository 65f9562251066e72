"""What a fleet costs, by its size: the start, memory, a source more, a rule more, and a reload that changes nothing.

Run ``python benchmarks/fleet.py`` (an hour: up to 200,000 sources; ``--sizes`` for others); ``--quick`` for few,
``--json`` for machines. The daemon is ``proxyd serve`` on SQLite, which probes an origin on loopback 100 times a
second. While something changes, a client asks for a source again and again: its slowest answer is reported beside it.
Each fleet is measured twice: new, and after two weeks in which it has learned, each source on a host of its own; this
one is also started again once it has a plan. Nothing here is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryDirectory
from time import perf_counter

import aiohttp
from interfaces import Line, Scale, origin, serving, set_up, what_was_learned
from prober import process_tree

from proxyd.base.metrics import Samples, percentile

SIZES, QUICK = (0, 100, 50_000, 200_000), (0, 20)
WANTED_S, WANTED_RELOAD_S = 2.0, 1.0
_PROBES = "proxyd_scheduler_lateness_seconds"
_WATCHED_S, _BUDGET = 30.0, "100/s"


class Fleet:
    """A running daemon with many sources, and its API."""

    def __init__(self, session: aiohttp.ClientSession, daemon: Popen[bytes], base: str) -> None:
        self._session = session
        self._daemon = daemon
        self._base = base
        self._began = perf_counter()

    async def ready(self, what: str = "start") -> Line:
        """Return how long the daemon takes until it is ready."""
        return {"what": f"{what} until ready", "seconds": await self._until(self._is_ready)}

    def first_request(self, asked: Requests, what: str) -> list[Line]:
        """Return how long it took until the origin was first asked, if it was."""
        times = [each for each in asked.times if each > self._began]
        return [{"what": f"{what} until the first request", "seconds": min(times) - self._began}] if times else []

    async def placed(self, sources: int) -> Line:
        """Return how long it took until all sources were planned."""

        async def are_placed() -> bool:
            return await self._metric("proxyd_planned_sources") == sources

        return {"what": "start until all are planned", "seconds": await self._until(are_placed)}

    async def plan(self) -> Line:
        """Return how long it took until there was a plan of the week."""

        async def is_planned() -> bool:
            return await self._metric("proxyd_plan_duration_seconds") > 0

        return {"what": "start until the plan of the week", "seconds": await self._until(is_planned)}

    async def first_probe(self) -> Line:
        """Return how long it took until the first probe."""
        return {"what": "start until the first probe", "seconds": await self._until(self._has_probed)}

    def memory(self, sources: int) -> Line:
        """Return the memory of all its processes, and that of each source if there are many."""
        rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in process_tree(self._daemon.pid)]
        kib = sum(int(rollup.partition("\nPss:")[2].split()[0]) for rollup in rollups)
        return {"what": "memory", "gigabytes": kib / 2**20, "kib_a_source": kib / max(sources, 1)}

    async def change(self, what: str, path: str, text: str, wanted_s: float) -> Line:
        """Return how long a request takes, and the slowest answer meanwhile."""
        asking = asyncio.create_task(self._slowest())
        await asyncio.sleep(0.5)
        began = perf_counter()
        async with self._session.post(self._base + path, data=text.encode()) as answer:
            if answer.status >= 400:
                raise RuntimeError(f"{path}: {answer.status} {(await answer.text())[:300]}")
        seconds = perf_counter() - began
        await asyncio.sleep(0.5)
        asking.cancel()
        slowest_ms = 1000.0 * await asking
        return {"what": what, "seconds": seconds, "slowest_answer_ms": slowest_ms, "ratio": seconds / wanted_s}

    async def lateness(self, watched_s: float) -> Line:
        """Return how late probes start: the 99th percentile over some time."""
        before = await self._buckets()
        await asyncio.sleep(watched_s)
        counts = [(bound, count - dict(before).get(bound, 0.0)) for bound, count in await self._buckets()]
        late_ms, a_second = 1000.0 * (percentile(counts, 0.99) or 0.0), counts[-1][1] / watched_s
        return {"what": "probes", "seconds": watched_s, "a_second": a_second, "late_p99_ms": late_ms}

    # -- how

    async def _slowest(self) -> float:
        """Ask until this is cancelled; return how long the slowest answer took."""
        slowest = 0.0
        try:
            while True:
                began = perf_counter()
                async with self._session.get(f"{self._base}/api/v1/sources?limit=1") as answer:
                    await answer.read()
                slowest = max(slowest, perf_counter() - began)
                await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            return slowest

    async def _until(self, holds: Callable[[], Awaitable[bool]]) -> float:
        while self._daemon.poll() is None:
            try:
                if await holds():
                    return perf_counter() - self._began
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.05)
        raise RuntimeError("the daemon ended")

    async def _is_ready(self) -> bool:
        async with self._session.get(f"{self._base}/readyz") as answer:
            return answer.status == 200

    async def _has_probed(self) -> bool:
        return (await self._buckets())[-1][1] > 0

    async def _metric(self, name: str) -> float:
        async with self._session.get(f"{self._base}/metrics") as answer:
            return Samples.read(await answer.text()).values.get(name, 0.0)

    async def _buckets(self) -> list[tuple[float, float]]:
        async with self._session.get(f"{self._base}/metrics") as answer:
            samples = Samples.read(await answer.text())
        return sorted(samples.buckets.get(f"{_PROBES}_bucket", [(0.0, 0.0)]))


class Requests:
    """When the origin was asked."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def note(self) -> None:
        """Note a request."""
        self.times.append(perf_counter())


@asynccontextmanager
async def running(folder: Path, base: str) -> AsyncIterator[Fleet]:
    """Yield a daemon that starts."""
    with serving(folder) as (daemon, token):
        headers = {"Authorization": f"Bearer {token}"}
        async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=600.0)) as session:
            yield Fleet(session, daemon, base)


async def of_new(folder: Path, sources: int, watched_s: float) -> list[Line]:
    """Return the figures of a new fleet of one size."""
    source = "CREATE SOURCE \"more\" OF FEED0000 AT 'http://127.0.0.1:{port}/more';"
    rule = (
        'INSERT NOTIFICATION "{name}" INTO "p0000" SET QUERY "SELECT title FROM FEED0000" '
        'SET TRIGGER "ON INSERT TO FEED0000{when}" START NOW END NEVER SET UTILITY STRICT;'
    )
    scale = Scale(domains=1, sources=sources)  # each rule asks for all of them
    async with origin(folder) as port:
        base = await asyncio.to_thread(set_up, folder, scale, port, budget=_BUDGET, left=lambda *_: ())
        async with running(folder, base) as fleet:
            found = [await fleet.ready()]
            if sources:
                found.append(await fleet.first_probe())
            found.append(fleet.memory(sources))
            api = "/api/v1/profiles"
            found.append(await fleet.change("a source more", api, source.format(port=port), WANTED_S))
            found.append(await fleet.change("a rule more", api, rule.format(name="more", when=""), WANTED_S))
            counted = rule.format(name="ninth", when=" WHEN COUNT(*) % 9 = 0")
            found.append(await fleet.change("a counted rule more", api, counted, WANTED_S))
            third = source.format(port=port).replace("more", "third")
            found.append(await fleet.change("a source more, asked for by all", api, third, WANTED_S))
            wanted_s = WANTED_RELOAD_S * max(1.0, sources / 1e5)
            found.append(await fleet.change("a reload that changes nothing", "/api/v1/reload", "", wanted_s))
            found.append(await fleet.lateness(watched_s))
    return found


async def of_learned(folder: Path, sources: int, watched_s: float) -> list[Line]:
    """Return the figures of a fleet of one size that has learned."""
    scale, asked = Scale(domains=_domains(sources), sources=sources, hosts=sources), Requests()
    async with origin(folder, at="0.0.0.0", asked=asked.note) as port:
        base = await asyncio.to_thread(set_up, folder, scale, port, budget=_BUDGET, left=what_was_learned)
        async with running(folder, base) as fleet:
            found = [await fleet.ready(), fleet.memory(sources), await fleet.placed(sources), fleet.memory(sources)]
            found += [await fleet.plan(), await fleet.lateness(watched_s)]
        await asyncio.sleep(2.0)  # until the origin has seen the last requests
        async with running(folder, base) as fleet:
            found += [await fleet.ready("another start"), fleet.memory(sources)]
            found += fleet.first_request(asked, "another start")
    return found


def _domains(sources: int) -> int:
    return max(1, min(100, sources // 10))


def lines_of(sources: int, watched_s: float) -> list[Line]:
    """Return the figures of fleets of one size."""
    found = list[Line]()
    for fleet, measure in (("new", of_new), ("learned", of_learned)) if sources else (("new", of_new),):
        with TemporaryDirectory(prefix="proxyd-fleet-") as name:
            lines = asyncio.run(measure(Path(name), sources, watched_s))
        found += [{"sources": sources, "fleet": fleet} | line for line in lines]
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sources, for a test that it still runs")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N", help="numbers of sources")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    measured: list[Line] = []
    for sources in QUICK if options.quick else options.sizes:
        lines = lines_of(sources, 2.0 if options.quick else _WATCHED_S)
        measured += lines
        for line in lines if not options.json else ():
            shown = (f"{name} {each:.4g}" if isinstance(each, float) else f"{each}" for name, each in line.items())
            print(", ".join(shown), flush=True)
    if options.json:
        print(json.dumps(measured))


if __name__ == "__main__":
    main()
