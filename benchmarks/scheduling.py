"""Speed of the schedulers: each line compares in one run, ours against a reference, against itself, or against a limit.

Run ``python benchmarks/scheduling.py`` (about two minutes with numba); ``--quick`` for small sizes, ``--json`` for
machines. Nothing here is asserted: the figures are in docs/decisions/replays.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np

from proxyd.core.model.arrays import Floats
from proxyd.core.model.chronon import Budget, ChrononGrid, Epoch, Target
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.allocation.fleet_state import FleetState
from proxyd.core.planning.allocation.probe_allocator import FleetDemand, FleetLimits, ProbeAllocator, WeekGrid
from proxyd.core.planning.allocation.targets import FleetTargets
from proxyd.core.planning.allocation.timetable import TimetableBuilder
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.capture.earliest_deadline import Capacity, edf
from proxyd.core.planning.capture.pareto import pareto
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.core.planning.kernels.losses import Losses, window
from proxyd.core.planning.kernels.numba_kernels import HAS_NUMBA
from proxyd.core.planning.kernels.one_source import Grid, optimal
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.policies.auto import DetectionDemand
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog
from proxyd.core.rates.week_shapes import WeekShapes
from proxyd.lab.algorithms.one_source_layers import all_optimal
from proxyd.lab.algorithms.overlapping_capture import most_weight
from proxyd.lab.algorithms.sup_schedules import least_delay_arrays, sup_arrays

Line = dict[str, object]


def best_of(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the least of some running times, in seconds; a first run that compiles is not one of them."""
    work()
    times = []
    for _ in range(repeats):
        began = perf_counter()
        work()
        times.append(perf_counter() - began)
    return min(times)


def one_source(slots: int, rng: np.random.Generator) -> tuple[Prefix, Grid]:
    """Return a random problem of ``slots`` slots."""
    edges = np.arange(slots + 1.0)
    even = PiecewiseConstant.constant(1.0, float(slots))
    return Prefix(PiecewiseConstant(edges, rng.uniform(0.0, 5.0, slots)), even), Grid(edges)


def quadratic_layers(prefix: Prefix, grid: Grid, layers: int) -> Floats:
    """Return the costs of some layers by the plain recursion over all pairs of slots, vectorised by rows."""
    L, A, G = prefix.at(grid.times)
    size = len(L)
    value = np.full(size, np.inf)
    value[-1] = 0.0
    for _ in range(layers):
        best = np.full(size, np.inf)
        for i in range(size - 1):
            best[i] = np.min(value[i + 1 :] + A[i + 1 :] * (L[i + 1 :] - L[i]) - (G[i + 1 :] - G[i]))
        value = best
    return value


def solver_against_recursion(slots: int, probes: int, rng: np.random.Generator) -> Line:
    """Compare one number of probes by a price with the paper's recursion, of which five layers are timed."""
    prefix, grid = one_source(slots, rng)
    ours = best_of(lambda: optimal(prefix, grid, probes))
    timed = min(5, probes)
    theirs = best_of(lambda: quadratic_layers(prefix, grid, timed), repeats=1) / timed * probes
    return {"what": f"priced, N={slots}, n={probes}", "seconds": ours, "against": "O(n N^2)", "ratio": theirs / ours}


def solver_against_itself(slots: int, rng: np.random.Generator) -> Line:
    """Compare twice the slots, at as many slots a probe, with once."""
    (prefix, grid), (prefix_2, grid_2) = one_source(slots, rng), one_source(2 * slots, rng)
    once = best_of(lambda: optimal(prefix, grid, slots // 24), repeats=7)
    twice = best_of(lambda: optimal(prefix_2, grid_2, slots // 24), repeats=7)
    return {"what": f"priced, N={2 * slots}", "seconds": twice, "against": "half as many slots", "ratio": twice / once}


def layers(slots: int, probes: int, rng: np.random.Generator) -> Line:
    """Time all numbers of probes up to ``probes``."""
    prefix, grid = one_source(slots, rng)
    seconds = best_of(lambda: all_optimal(prefix, grid, probes), repeats=1)
    return {"what": f"layers, N={slots}, n={probes}", "seconds": seconds}


def timetable(slots: int) -> Line:
    """Time one timetable."""
    shape = np.tile(np.repeat([0.1, 1.0, 0.1], slots // 3), 1)
    return {"what": f"timetable, {slots} slots", "seconds": best_of(lambda: TimetableBuilder(shape).build())}


def capture(intervals: int, rng: np.random.Generator) -> list[Line]:
    """Time SUP on many intervals and the capacity solvers on a tenth and a hundredth of them."""
    sources = rng.integers(0, max(1, intervals // 200), intervals)
    starts = rng.integers(0, 10_000, intervals)
    deadlines = starts + rng.integers(0, 60, intervals)
    few = [
        ExecutionInterval(f"s{number}", "r", int(start), int(deadline))
        for number, (start, deadline) in enumerate(
            zip(starts[: intervals // 100], deadlines[: intervals // 100], strict=True)
        )
    ]
    capacity = Capacity.constant(1, Epoch(0, 10_061))
    weights = rng.uniform(1.0, 5.0, len(few))
    return [
        {
            "what": f"SUP, {intervals} intervals",
            "seconds": best_of(lambda: sup_arrays(sources, starts, deadlines), repeats=1),
        },
        {
            "what": f"least-delay SUP, {intervals} intervals",
            "seconds": best_of(lambda: least_delay_arrays(sources, starts, deadlines), repeats=1),
        },
        {"what": f"EDF, {len(few)} intervals", "seconds": best_of(lambda: edf(few, capacity))},
        {"what": f"weighted, {len(few)} intervals", "seconds": best_of(lambda: most_weight(few, weights, capacity))},
        {"what": f"Pareto, {len(few)} intervals", "seconds": best_of(lambda: pareto(few, capacity))},
    ]


def fleet(sources: int, rng: np.random.Generator) -> list[Line]:
    """Time the plan of a week for many sources with four shapes, with and without a capacity, and its memory."""
    grid = WeekGrid(1800.0)
    day = np.repeat(np.tile(np.repeat([0.1, 1.0, 0.1], [9, 8, 7]), 7), 2)
    shapes = np.array([np.roll(day, 12 * number) for number in range(4)])
    shape_of, rates = rng.integers(0, 4, sources), rng.lognormal(-9.0, 2.0, sources) / 1800.0
    lines: list[Line] = []
    per_slot = sources / grid.slots
    for name, capacity in (("", None), (", capacity", np.full(grid.slots, 2 * per_slot))):
        demand = FleetDemand(grid, shapes, shape_of, rates, last_s=4 * 86400.0)
        began = perf_counter()
        planner = ProbeAllocator(demand, FleetLimits(per_slot, capacity), now_s=4 * 86400.0)
        made = 0
        room = sources if capacity is None else int(2 * per_slot)
        for slot in range(grid.slots):
            now_s = 4 * 86400.0 + slot * 1800.0
            chosen = planner.choose(now_s, room)
            planner.note_probes(chosen, planner.rate_per_s[chosen], now_s=now_s)
            made += len(chosen)
        gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        what = f"a week's plan, {sources} sources, {made} probes{name}"
        lines.append({"what": what, "seconds": perf_counter() - began, "peak_gib": gib})
    return lines


def lives(sources: int, rng: np.random.Generator) -> Line:
    """Compare a plan for three lives with targets with one for delay alone, of as many sources."""
    weeks = WeekShapes(rng.uniform(0.2, 2.0, (4, 168)), rng.integers(0, 4, sources))
    names = [f"s{number}" for number in range(sources)]
    rates, kind_of = rng.lognormal(np.log(3 / 86400), 1.5, sources), rng.integers(0, 3, sources)
    delay = FleetState(names, rates, np.ones(sources), np.zeros(sources), weeks, probes_per_s=sources / 8640.0)
    lives_s = (600.0, 3600.0, 6 * 3600.0)
    targets = FleetTargets([Target(0.9, ((life_s, 1.0),)) for life_s in lives_s], [(0,), (1,), (2,)], kind_of)
    losses = [Losses(window(life_s, 1.0)) for life_s in lives_s]
    in_time = replace(delay, losses=(losses, kind_of), targets=targets, rules=("a", "b", "c"))
    once, again = (best_of(partial(WeekPlan.of, state), repeats=1) for state in (delay, in_time))
    what = f"a plan of {sources} sources with three lives and targets"
    return {"what": what, "seconds": again, "against": "delay alone", "ratio": again / once}


def replanning(sources: int) -> float:
    """Return seconds a probe of the daemon's planner: chosen, ended, planned anew."""
    settings = PlannerSettings(grid=ChrononGrid(1.0), budget=Budget(20.0), host_spacing_s=0.0, price_item_s=5.0)
    planner = Planner(settings)
    for number in range(sources):
        name = f"s{number}"
        page = PlannedSource(
            name, name, ProbeLog(PolitenessBudget(1.0)), Demands([DetectionDemand("r")]), 10.0 / sources**2
        )
        page.last_seen_s = -float(number) * 0.05
        planner.put(page, 0)
    began, made = perf_counter(), 0
    for now in range(1, 60):
        for planned in planner.choose(now).probes:
            planner.finish(planned.probe.source_id, planned.start_s, seen=True)
            made += 1
    return (perf_counter() - began) / max(1, made)


def replanning_grows_slowly(few: int, many: int) -> Line:
    """Compare the time a probe among many sources with that among few."""
    once, again = replanning(few), replanning(many)
    return {"what": f"re-plan, {many} sources", "seconds": again, "against": f"{few} sources", "ratio": again / once}


def lines(*, quick: bool) -> list[Line]:
    """Return every measurement."""
    rng = np.random.Generator(np.random.PCG64(1))
    scale = 16 if quick else 1
    return [
        solver_against_recursion(8064 // scale, 336 // scale, rng),
        solver_against_itself(8064 // scale, rng),
        layers(8064 // scale, 336 // scale, rng),
        timetable(336),
        *capture(1_000_000 // scale**2, rng),
        *fleet(1_000_000 // scale**2, rng),
        lives(1_000_000 // scale**2, rng),
        replanning_grows_slowly(1000, 32_000 // scale),
    ]


def without_numba(measured: list[Line], *, quick: bool) -> list[Line]:
    """Return the same lines with how many times longer they take without numba, measured in a process of its own."""
    script = f"import sys, runpy; sys.modules['numba'] = None; sys.argv = {sys.argv[:1]!r} + sys.argv[1:]; "
    command = [sys.executable, "-c", f"{script}runpy.run_path({__file__!r}, run_name='__main__')", "--json"]
    command += ["--quick"] if quick else []
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    plain = {line["what"]: line["seconds"] for line in json.loads(answer.stdout)}
    return [{**line, "plain_ratio": plain[str(line["what"])] / float(str(line["seconds"]))} for line in measured]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, for a test that it still runs")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plain", action="store_true", help="also without numba")
    options = parser.parse_args()
    measured = lines(quick=options.quick)
    if options.plain and HAS_NUMBA:
        measured = without_numba(measured, quick=options.quick)
    if options.json:
        print(json.dumps(measured))
        return
    print("with numba" if HAS_NUMBA else "without numba")
    for line in measured:
        print(
            "  ".join(f"{key} {value:.4g}" if isinstance(value, float) else str(value) for key, value in line.items())
        )


if __name__ == "__main__":
    main()
