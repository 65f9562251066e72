"""The proxy dilemma (Roitman, Gal and Raschid): completeness against delay, instead of the paper's complexity bounds.

The paper reports no measurements. It asks for the Pareto set, by enumeration or an approximation scheme. Here
successive shortest paths give the exact set, compared with an enumeration of small instances and with covers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np

from proxyd.core.model.chronon import Chronon, Epoch
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.capture.earliest_deadline import Capacity, edf
from proxyd.core.planning.capture.pareto import ParetoFront, epsilon_cover, pareto
from proxyd.lab.algorithms.overlapping_capture import greedy_capture, lp_bound, most_weight, weight_of_captures
from proxyd.lab.papers.figure import Dataset, Figure, Updates, office_week

_Row = tuple[str | float | int, ...]

_EPSILONS = (0.02, 0.05, 0.1, 0.2, 0.5)
_EXACT, _BOUND = "exact", "bound"


@dataclass(frozen=True, slots=True)
class _Workload:
    """Profiles over the updates of pages, and the epoch."""

    # Size of the workload; the epoch has `chronons`
    pages: int
    chronons: int
    updates: int
    # Longest life of an update in chronons; the next update of its page may end it earlier, so that a page's
    # intervals are disjoint
    window: int
    profiles: int  # number of profiles, to which pages are dealt in turn

    def draw(self, rng: np.random.Generator) -> list[ExecutionInterval]:
        """Return disjoint intervals of Zipf pages under a weekly cycle."""
        return disjoint(self.draw_updates(rng), window=self.window, profiles=self.profiles)

    def draw_updates(self, rng: np.random.Generator) -> Updates:
        """Return the updates."""
        dataset = Dataset("dilemma", self.pages, self.updates, 0.5, office_week(8, 18, outside=0.2))
        return dataset.draw(rng).updates(self.chronons)

    def capacity(self, probes: int) -> Capacity:
        """Return a capacity of ``probes`` in each chronon."""
        return Capacity.constant(probes, Epoch(0, self.chronons))


def disjoint(updates: Updates, *, window: int, profiles: int) -> list[ExecutionInterval]:
    """Return an interval for each chronon with updates: ``window`` chronons long, or until the page's next update.

    >>> found = disjoint(Updates.of([[2, 5, 5, 30]], 40), window=9, profiles=1)
    >>> [(interval.start, interval.deadline) for interval in found]
    [(2, 4), (5, 14), (30, 39)]
    """
    found = []
    for page, own in enumerate(updates.of_page):
        starts = np.unique(own)
        ends = np.minimum(np.append(starts[1:] - 1, updates.epoch - 1), starts + window)
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            found.append(ExecutionInterval(f"page{page:04d}", f"profile{page % profiles:03d}", start, end))
    return found


def enumerate_schedules(intervals: Sequence[ExecutionInterval], *, chronons: int, probes: int) -> list[int]:
    """Return the least delay for each number of captured intervals, by enumerating every schedule.

    Schedules that have captured the same intervals up to a chronon are merged; the one with least delay is kept,
    which loses nothing. It requires disjoint intervals on each page.

    Examples
    --------
    >>> known = [ExecutionInterval(page, "p", start, end) for page, start, end in (("a", 0, 0), ("b", 0, 3))]
    >>> enumerate_schedules(known, chronons=4, probes=1)
    [0, 0, 1]
    """
    least: dict[int, int] = {0: 0}
    for now in range(chronons):
        least = _after(least, intervals, now, probes)
    best: dict[int, int] = {}
    for captured, delay in least.items():
        count = captured.bit_count()
        best[count] = min(delay, best.get(count, delay))
    return [best[count] for count in sorted(best)]


def _after(least: dict[int, int], intervals: Sequence[ExecutionInterval], now: Chronon, probes: int) -> dict[int, int]:
    """Return the captured sets (as bits) after every choice at ``now``, and their least delays."""
    open_now = [n for n, interval in enumerate(intervals) if now in interval]
    found: dict[int, int] = {}
    for captured, delay in least.items():
        waiting = [n for n in open_now if not captured >> n & 1]
        for size in range(min(probes, len(waiting)) + 1):
            for chosen in combinations(waiting, size):
                more = captured | sum(1 << n for n in chosen)
                cost = delay + sum(now - intervals[n].start for n in chosen)
                found[more] = min(cost, found.get(more, cost))
    return found


def figures(*, rng: np.random.Generator, quick: bool) -> Iterator[Figure]:
    """Yield fronts, enumerations, covers, sizes, weights and overlapping intervals.

    Parameters
    ----------
    rng
        Generator for the updates and the weights.
    quick
        Use fewer and smaller workloads.
    """
    fronts, small, sizes, weights, overlap = rng.spawn(5)
    chosen = _Workload(40, 300, 600, 20, 10) if quick else _Workload(200, 1000, 4000, 20, 50)
    intervals = chosen.draw(fronts)
    found = {probes: pareto(intervals, chosen.capacity(probes)) for probes in _budgets(len(intervals), chosen)}
    yield _fronts(chosen, intervals, found)
    yield _covers(chosen, found)
    yield _enumerations(small, 3 if quick else 12)
    yield _sizes(sizes, quick=quick)
    yield _weights(chosen, weights)
    yield _overlapping(chosen, overlap, quick=quick)


def _budgets(intervals: int, workload: _Workload) -> tuple[int, ...]:
    """Return budgets below, at and above the intervals' average need."""
    mean = max(1, round(intervals / workload.chronons))
    return tuple(sorted({max(1, mean // 2), mean, 2 * mean}))


def _fronts(workload: _Workload, intervals: list[ExecutionInterval], fronts: dict[int, ParetoFront]) -> Figure:
    rows: list[_Row] = []
    remarks = []
    for probes, front in fronts.items():
        exact = _EXACT if front.exact else _BOUND
        for captured, delay in _thin_out(front.points):
            name = f"Pareto set, C = {probes}"
            rows.append((name, _per_profile(delay, workload), round(front.completeness(captured), 4), exact))
        schedule = edf(intervals, workload.capacity(probes))
        share = round(schedule.captured / len(intervals), 4)
        rows.append((f"EDF, C = {probes}", _per_profile(schedule.delay, workload), share, _EXACT))
        least = int(front.delays[schedule.captured])
        more = f"{schedule.delay / least:.1f} times the least" if least else f"{schedule.delay} where 0 is possible"
        remarks.append(f"C = {probes}: {schedule.captured} captured, total delay {more}")
    return Figure(
        "proxy-dilemma-1-front",
        f"Completeness against delay: {workload.pages} pages, {len(intervals)} intervals, {workload.profiles} profiles",
        ("schedule", "D_avg [chronons a profile]", "completeness", "exact or bound"),
        tuple(rows),
        x="D_avg [chronons a profile]",
        y=("completeness",),
        by="schedule",
        note="The paper defines this set and prints none. Every point is optimal; at most 40 of each set are shown. "
        "EDF captures the most and does not look at delay. " + "; ".join(remarks) + ".",
    )


def _thin_out(points: Sequence[tuple[int, int]], most: int = 40) -> list[tuple[int, int]]:
    chosen = np.unique(np.linspace(0, len(points) - 1, min(most, len(points))).round().astype(int))
    return [points[n] for n in chosen.tolist()]


def _per_profile(delay: float, workload: _Workload) -> float:
    return round(delay / workload.profiles, 3)


def _covers(workload: _Workload, fronts: dict[int, ParetoFront]) -> Figure:
    rows = [
        (f"C = {probes}", epsilon, len(epsilon_cover(front, epsilon)), len(front.points))
        for probes, front in fronts.items()
        for epsilon in _EPSILONS
    ]
    return Figure(
        "proxy-dilemma-2-cover",
        f"Points that cover the Pareto set within a factor 1 + epsilon, {workload.pages} pages",
        ("budget", "epsilon", "points of the cover", "points of the set"),
        tuple(rows),
        x="epsilon",
        y=("points of the cover",),
        by="budget",
        note="In place of the paper's approximation scheme: the least cover of the exact set, a point (k, D) being met "
        "by (k', D') with k <= k' (1 + epsilon) and D' <= D (1 + epsilon). Definition 2 of the paper asks for "
        "D' <= D (1 - epsilon), less delay than the optimal point has, which no schedule gives. The scheme takes "
        "O(n^2 K^2 / epsilon) for each point, the exact set polynomial time for all.",
    )


def _enumerations(rng: np.random.Generator, instances: int) -> Figure:
    rows: list[_Row] = []
    equal = 0
    for n, child in enumerate(rng.spawn(instances)):
        probes = 1 + n % 2
        workload = _Workload(4 + n % 3, 8 + n % 4, 14, 4, 2)
        intervals = workload.draw(child)
        known = enumerate_schedules(intervals, chronons=workload.chronons, probes=probes)
        front = pareto(intervals, workload.capacity(probes))
        same = front.delays.tolist() == known
        equal += same
        choices = sum(comb(workload.pages, size) for size in range(probes + 1))
        rows.append(
            (
                workload.pages,
                workload.chronons,
                probes,
                len(intervals),
                f"{float(choices) ** workload.chronons:.1e}",
                len(known) - 1,
                known[-1],
                len(front.points),
                "yes" if same else "no",
            )
        )
    return Figure(
        "proxy-dilemma-3-enumeration",
        "The Pareto set by successive shortest paths compared with an enumeration of all schedules",
        ("n", "K", "C", "intervals", "schedules", "most captured", "its delay", "points", "equal"),
        tuple(rows),
        note=f"Equal for every number of captured intervals in {equal} of {instances} instances. The paper puts the "
        "enumeration at O(n^(2 K C)) for the set.",
    )


def _sizes(rng: np.random.Generator, *, quick: bool) -> Figure:
    shapes = ((20, 100), (40, 200)) if quick else ((20, 100), (50, 200), (100, 500), (200, 1000), (400, 1000))
    rows: list[_Row] = []
    for pages, chronons in shapes:
        workload = _Workload(pages, chronons, 10 * pages, 20, pages // 4)
        intervals = workload.draw(rng)
        probes = max(1, round(len(intervals) / chronons))
        front = pareto(intervals, workload.capacity(probes))
        most = len(front.delays) - 1
        schedule = edf(intervals, workload.capacity(probes))
        rows.append(
            (
                pages,
                chronons,
                probes,
                len(intervals),
                round(front.completeness(most), 4),
                _per_profile(float(front.delays[-1]), workload),
                _per_profile(schedule.delay, workload),
                len(front.points),
                len(epsilon_cover(front, 0.1)),
                _EXACT if front.exact else _BOUND,
            )
        )
    columns = ("n", "K", "C", "intervals", "completeness", "least D_avg", "D_avg of EDF", "points", "cover 0.1", "kind")
    return Figure(
        "proxy-dilemma-4-sizes",
        "The Pareto set at growing sizes: its end of most captured, and how many points it has",
        columns,
        tuple(rows),
        note="Completeness is the most that any schedule captures; D_avg in chronons a profile, the least for it and "
        "that of EDF, which captures as many. An enumeration of the smallest would try more schedules than 10^100.",
    )


def _weights(workload: _Workload, rng: np.random.Generator) -> Figure:
    intervals = workload.draw(rng)
    heavy = rng.integers(1, 6, workload.pages).astype(np.float64)
    weights = np.array([heavy[int(interval.source_id[4:])] for interval in intervals])
    rows: list[_Row] = []
    for probes in _budgets(len(intervals), workload):
        capacity = workload.capacity(probes)
        best = most_weight(intervals, weights, capacity)
        greedy = greedy_capture(intervals, capacity, weights)
        plain = edf(intervals, capacity)
        bound = lp_bound(intervals, capacity, weights)
        rows += [
            (probes, "most weight", best.weight, best.captured, bound, _EXACT if best.exact else _BOUND),
            (probes, "greedy", greedy.weight, greedy.captured, bound, _EXACT if greedy.exact else _BOUND),
            (probes, "EDF", weight_of_captures(plain, intervals, weights), plain.captured, bound, _BOUND),
        ]
    return Figure(
        "proxy-dilemma-5-weights",
        f"Weighted profiles: weight captured, {workload.pages} pages of weights 1 to 5",
        ("C", "schedule", "weight", "captured", "LP bound", "exact or bound"),
        tuple(rows),
        note="Disjoint intervals: the most weight is found exactly and meets the bound of the linear program. Least "
        "delay for a given weight is weakly NP-hard, so no front is drawn here.",
    )


def _overlapping(workload: _Workload, rng: np.random.Generator, *, quick: bool) -> Figure:
    updates = workload.draw_updates(rng)
    windows = (5, 20) if quick else (0, 5, 10, 20, 40)
    rows: list[_Row] = []
    for probes in _budgets(len(updates), workload):
        for window in windows:
            intervals = [
                ExecutionInterval(f"page{page:04d}", "rule", start, min(start + window, workload.chronons - 1))
                for page, start in zip(updates.pages.tolist(), updates.chronons.tolist(), strict=True)
            ]
            schedule = greedy_capture(intervals, workload.capacity(probes))
            bound = schedule.bound if schedule.bound is not None else float(len(intervals))
            kind = _EXACT if schedule.exact else _BOUND
            share = round(schedule.captured / bound, 4) if bound else 1.0
            rows.append((f"C = {probes}", window, schedule.captured, bound, share, len(intervals), kind))
    return Figure(
        "proxy-dilemma-6-overlap",
        f"Overlapping intervals: greedy capture over the bound of the linear program, {workload.pages} pages",
        ("budget", "Y [chronons]", "captured", "bound", "captured over bound", "intervals", "exact or bound"),
        tuple(rows),
        x="Y [chronons]",
        y=("captured over bound",),
        by="budget",
        note="The paper leaves overlapping intervals of one resource to future work. The problem is NP-complete: no "
        "schedule captures more than the bound, and 'exact' says that greedy met it.",
    )
