"""The planner of the daemon at 10,000 to a million sources: its plan of the week, what that does to the loop, memory.

Run ``python benchmarks/planning.py`` (some minutes, and 4 GiB); ``--quick`` for small sizes, ``--json`` for machines.
The plan is made by the daemon's own ``PlanLoop``, in its thread; beside it a task sleeps 5 ms at a time and measures by
how much it wakes up late. Nothing here is asserted: the figures are in docs/decisions/large-fleets.md.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter, process_time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy, as ``proxyd.__main__`` sets it

import numpy as np

from proxyd.base import log
from proxyd.base.clock import SystemClock
from proxyd.base.interpreter import tune_interpreter
from proxyd.base.metrics import Metrics
from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.chronon import Budget, Chronon, ChrononGrid
from proxyd.core.planning.policies.auto import DetectionDemand
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.core.rates.week_counts import WeekCounts, pack
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.compiled import compile_declaration
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.daemon import PlanLoop
from tests.fleets import KeptPlan

Line = dict[str, object]

SIZES = (10_000, 100_000, 1_000_000)
QUICK = (500, 2_000)
PART_A_MINUTE = 0.01  # of the sources may be probed
SOURCES_A_HOST = 10
TICK_S = 0.005
WEEKS_SEEN = 4
_PART = 10_000
_POLITE = PolitenessBudget(60.0)
_TEXT = """CREATE DOMAIN "D" AS CLASS::RSS(channel.item.title:String);
CREATE PROFILE "P" AS (DOMAIN "D", LANGUAGE "SQL", USER "u");
CREATE SOURCE "s" OF RSS AT 'https://s.example/';
INSERT NOTIFICATION "r" INTO "P" SET QUERY "SELECT title FROM RSS" SET TRIGGER "ON INSERT TO RSS"
START NOW END NEVER SET UTILITY STRICT;
"""


# -- a fleet that was seen before


def seen_fleet(sources: int, now_s: float, rng: np.random.Generator) -> Decider:
    """Return a decider that knows the weeks of as many sources; its planner has no pages yet."""
    budget = Budget(sources * PART_A_MINUTE / 60.0)
    planner = PlannerSettings(ChrononGrid(1.0), budget, price_item_s=1.0)
    decider = Decider(DeciderSettings(planner), rng)
    names = [f"source-{number}" for number in range(sources)]
    _declare(decider, names, now_s)
    for begin in range(0, sources, _PART):
        decider.known.estimates.weeks.update(_weeks(names[begin : begin + _PART], now_s, rng))
    return decider


def _declare(decider: Decider, names: Sequence[str], now_s: float) -> None:
    """Let the decider have one rule and sources that are all alike but for their names."""
    checked = check([SourceText("bench", _TEXT)], CheckSettings())
    assert checked.declaration is not None
    accepted = dict.fromkeys(checked.declaration.rules, now_s)
    compiled = compile_declaration(checked.declaration, accepted, {}, chronon_s=1.0).after
    like = checked.declaration.sources["s"]
    many = replace(checked.declaration, sources={name: replace(like, source_id=name) for name in names})
    decider.known.compiled = replace(compiled, declaration=many, sources=many.sources)


def _weeks(names: Sequence[str], now_s: float, rng: np.random.Generator) -> dict[str, WeekCounts]:
    """Return what some weeks showed of each source: office hours here, nights there, or no pattern."""
    hours = np.arange(168)
    office = np.where((hours % 24 >= 9) & (hours % 24 < 17) & (hours < 120), 4.0, 0.1)
    kinds = np.array([office, np.roll(office, 12), np.ones(168)])
    rates = rng.lognormal(np.log(1 / 24), 1.5, len(names))
    means = kinds[rng.integers(0, len(kinds), len(names))] * rates[:, None] * WEEKS_SEEN
    counts = rng.poisson(means).astype(np.float32)
    since_s = now_s - WEEKS_SEEN * WEEK_S
    return {
        name: WeekCounts(pack(row), float(row.sum()), since_s, now_s) for name, row in zip(names, counts, strict=True)
    }


def put_pages(decider: Decider, now_s: float) -> None:
    """Give the planner a page for each source, seen just now, as a declaration would."""
    now = decider.settings.grid.chronon_at(now_s)
    for number, (name, week) in enumerate(decider.known.estimates.weeks.items()):
        host = f"host-{number // SOURCES_A_HOST}"
        rate_per_s = (week.items + 0.1) / (WEEKS_SEEN * WEEK_S)
        page = PlannedSource(
            name, host, ProbeLog(_POLITE), Demands([DetectionDemand("r")]), rate_per_s, last_seen_s=now_s
        )
        page.record(now_s - 60.0)
        decider.planner.put(page, now)


def stagger(decider: Decider, now_s: float, rng: np.random.Generator) -> None:
    """Let each page have been seen somewhen within its gap, as the next plan takes it: a fleet that ran for long."""
    week = decider.planner.week
    assert week is not None
    pages = decider.planner.sources
    for (name, page), passed in zip(pages.items(), rng.uniform(size=len(pages)), strict=True):
        due_s = week.due_s(name)
        assert due_s is not None
        page.last_seen_s = now_s - float(passed) * min(WEEK_S, max(0.0, due_s - now_s))


# -- what is measured


@dataclass(frozen=True)
class Lag:
    """By how much a task woke up late, in seconds, ascending."""

    late_s: tuple[float, ...]

    def ms(self, part: float) -> float:
        """Return the lag that a part of the wakings did not exceed, in milliseconds."""
        return 1e3 * self.late_s[min(len(self.late_s) - 1, int(part * len(self.late_s)))]


async def lag_beside(work: Awaitable[None]) -> Lag:
    """Return the lag of the event loop while ``work`` goes on."""
    late_s: list[float] = []

    async def tick() -> None:
        while True:
            began = perf_counter()
            await asyncio.sleep(TICK_S)
            late_s.append(perf_counter() - began - TICK_S)

    ticking = asyncio.create_task(tick())
    await asyncio.sleep(0)
    await work
    await asyncio.sleep(2 * TICK_S)
    ticking.cancel()
    return Lag(tuple(sorted(late_s)))


async def plan_line(decider: Decider, what: str) -> Line:
    """Time a plan of the week from snapshot to taking over, and the lag of the loop meanwhile."""
    plan_loop = PlanLoop(decider, SystemClock(), Metrics(), KeptPlan(), every_s=3600.0)
    began, used_s = perf_counter(), process_time()
    lag = await lag_beside(plan_loop.plan())
    seconds, used_s = perf_counter() - began, process_time() - used_s
    lags = {"lag_p50_ms": lag.ms(0.5), "lag_p99_ms": lag.ms(0.99), "lag_max_ms": lag.ms(1.0)}
    return {
        "what": f"{what}, {len(decider.planner.sources)} sources",
        "seconds": seconds,
        "processor_s": used_s,
        **lags,
    }


def choose_line(decider: Decider, first: Chronon, chronons: int) -> Line:
    """Time the choice in each of some chronons, every probe answered at once, and planning its source anew."""
    planner = decider.planner
    choosing, using, following, made, awake = [], [], 0.0, 0, 0
    for now in range(first, first + chronons):
        began, used_s = perf_counter(), process_time()
        choice = planner.choose(now)
        chosen = choice.probes
        using.append(process_time() - used_s)
        choosing.append(perf_counter() - began)
        awake = max(awake, len(chosen) + len(choice.held_back) + choice.passed_over)
        used_s = process_time()
        for planned in chosen:
            planner.start(planned, planned.start_s)
            planner.finish(planned.probe.source_id, planned.start_s, seen=True)
        following += process_time() - used_s
        made += len(chosen)
    wall, processor = (np.quantile(each, [0.5, 0.99]) * 1e3 for each in (choosing, using))
    times = {"p50_ms": wall[0], "p99_ms": wall[1], "processor_p50_ms": processor[0], "processor_p99_ms": processor[1]}
    what = f"choose, {len(planner.sources)} sources, {made / chronons:.1f} probes a chronon"
    us = 1e6 * following / max(1, made)
    return {"what": what, "seconds": sum(choosing), **times, "most_due": awake, "us_a_probe": us}


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure(sources: int, chronons: int) -> list[Line]:
    """Return the figures of one size; memory is what grows from before the pages are put to when a plan is in use."""
    rng, clock = np.random.Generator(np.random.PCG64(1)), SystemClock()
    decider = seen_fleet(sources, clock.time_s(), rng)
    before = resident()
    put_pages(decider, clock.time_s())
    lines = [asyncio.run(plan_line(decider, "first plan"))]
    stagger(decider, clock.time_s(), rng)
    lines.append(asyncio.run(plan_line(decider, "plan again")))
    grown = resident() - before
    lines.append(choose_line(decider, decider.settings.grid.chronon_at(clock.time_s()) + 1, chronons))
    kib = grown / 1024 / sources
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return [{**line, "planner_kib_a_source": kib, "peak_gib": peak} for line in lines]


def compared(measured: Sequence[Line], sizes: Sequence[int]) -> list[Line]:
    """Return the lines with the seconds of each over those of the size before."""
    each = len(measured) // len(sizes)
    before = [None] * each + [line["seconds"] for line in measured]
    return [
        line if other is None else {**line, "ratio": float(str(line["seconds"])) / float(str(other))}
        for line, other in zip(measured, before, strict=False)
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, for a test that it still runs")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sources", type=int, nargs="+", help=f"how many, {SIZES} by default")
    options = parser.parse_args()
    log.configure("json", "error")
    tune_interpreter()
    sizes = options.sources or (QUICK if options.quick else SIZES)
    measure(QUICK[0], 10)  # kernels are compiled, modules loaded
    measured = [line for size in sizes for line in measure(size, 20 if options.quick else 600)]
    measured = compared(measured, sizes)
    if options.json:
        print(json.dumps(measured))
        return
    for line in measured:
        shown = (f"{name} {each:.4g}" if isinstance(each, float) else f"{name} {each}" for name, each in line.items())
        print(", ".join(shown))


if __name__ == "__main__":
    main()
