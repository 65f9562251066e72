"""The verb that solves one scheduling problem from CSV files and prints the schedule."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace

import numpy as np

from proxyd.core.planning.capture.capacity import Capacity
from proxyd.core.planning.capture.earliest_deadline import edf
from proxyd.core.planning.capture.pareto import epsilon_cover, pareto
from proxyd.core.planning.capture.spans import CaptureSchedule
from proxyd.errors import InvalidScheduleError
from proxyd.lab.algorithms.overlapping_capture import greedy_capture, most_weight
from proxyd.lab.algorithms.sup import least_delay_sup
from proxyd.lab.verbs.csv_files import CsvIntervals, read_capacity, read_intervals, read_rates, read_week
from proxyd.lab.verbs.solve_cycles import solve_cycle, solve_frequencies
from proxyd.lab.verbs.solve_one_source import OneSourceProblem, cost_curve, solve_one_source
from proxyd.terminal.tables import number, print_table

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_UNIT = "item-days x importance"
_CERTIFIED_CHRONONS = 2_000_000


def one_source(options: argparse.Namespace) -> int:
    """Print the probes of one source."""
    problem = _problem(options)
    found = solve_one_source(problem)
    curve = cost_curve(problem, len(found.times)) if getattr(options, "curve", False) else None
    if options.json:
        answer: dict[str, object] = {
            "policy": options.policy,
            "probes": len(found.times),
            "expected_cost": found.cost,
            "unit": _UNIT,
            "times_h": np.round(found.times * 24, 9).tolist(),
            "exact": found.exact,
            "period_h": problem.weeks * 168.0,
        }
        if found.parameter is not None:
            answer[found.parameter_name] = found.parameter
        if curve is not None:
            answer["curve"] = [{"probes": probes, "expected_cost": cost} for probes, cost in curve]
        print(json.dumps(answer, indent=2))
        return 0
    times = np.concatenate([[0.0], found.times])
    rows = [
        [
            str(n),
            number(times[n] * 24, 3),
            _moment(float(times[n])),
            number(problem.prefix.cost(times[n - 1], times[n])),
        ]
        for n in range(1, len(times))
    ]
    print(f"{options.policy}: {len(found.times)} probes, expected cost {number(found.cost)} {_UNIT}")
    if found.parameter is not None:
        print(f"{found.parameter_name.replace('_', ' ')} {number(found.parameter, 6)}")
    print_table(["probe", "time h", "moment", "expected cost"], rows, notes=[found.note])
    if curve is not None:
        print()
        print_table(["probes", f"expected cost ({_UNIT})"], [[str(n), number(cost)] for n, cost in curve])
    return 0


def capture(options: argparse.Namespace) -> int:
    """Print the probes that capture execution intervals, or the Pareto front."""
    intervals = read_intervals(options.intervals)
    if options.policy == "pareto":
        return _front(options, intervals)
    capacity = None if options.budget is None else read_capacity(options.budget, intervals.given)
    if options.policy == "edf" and capacity is not None:
        found = _most_captured(intervals, capacity)
    else:
        found = least_delay_sup(intervals.given)
    fits = capacity is None or _fits(found, capacity)
    count = len(intervals.given)
    if options.json:
        answer = {
            "policy": options.policy,
            "probes": len(found.probes),
            "schedule": [{"source": source, "chronon": chronon} for source, chronon in found.probes],
            "intervals": count,
            "captured": found.captured,
            "delay": found.delay,
            "weight": found.weight if intervals.weights is None else _weight(found, intervals),
            "bound": found.bound,
            "exact": found.exact,
            "within_budget": fits,
        }
        print(json.dumps(answer, indent=2))
        return 0
    print(f"{options.policy}: {len(found.probes)} probes capture {found.captured} of {count} intervals")
    print(f"total delay {found.delay} chronons, {number(found.delay / max(1, found.captured), 2)} for each captured")
    rows = [[str(n), source, str(chronon)] for n, (source, chronon) in enumerate(found.probes, 1)]
    print_table(["probe", "source", "chronon"], rows, notes=_remarks(found, fits=fits))
    return 0


def frequencies(options: argparse.Namespace) -> int:
    """Print how often to probe each source, or a cycle of probes."""
    if not 0 < options.budget <= 1e9:
        raise InvalidScheduleError(f"--budget {options.budget:g}: there must be more than 0 probes a step, at most 1e9")
    rates = read_rates(options.rates, positive=options.objective != "detection")
    if options.kind == "cycle":
        cycle = solve_cycle(rates, options)
        if options.json:
            print(json.dumps(cycle.to_json(), indent=2))
            return 0
        print(f"cycle of {len(cycle.places)} places: {cycle.text}")
        print_table(["place", "source"], [[str(n), name or "-"] for n, name in enumerate(cycle.places, 1)])
        return 0
    found = solve_frequencies(rates, options)
    if options.json:
        print(json.dumps(found.to_json(), indent=2))
        return 0
    print(found.text)
    rows = [
        [name, number(float(rate), 6), number(float(f), 6), number(1 / float(f), 2) if f > 0 else "never"]
        for name, rate, f in zip(rates.names, rates.rates, found.per_step, strict=True)
    ]
    print_table(["source", "rate", "probes a step", "every (steps)"], rows)
    return 0


def _problem(options: argparse.Namespace) -> OneSourceProblem:
    rate, weight = read_week(options.week)
    return OneSourceProblem(
        policy=options.policy,
        rate=rate,
        weight=weight,
        weeks=options.weeks,
        slot=options.slot / 86400,
        probes=options.probes,
        price=getattr(options, "price", None),
        spacing=getattr(options, "spacing", 0.0) / 86400,
        improve=getattr(options, "improve", None),
    )


def _front(options: argparse.Namespace, intervals: CsvIntervals) -> int:
    if not 0 <= options.epsilon < np.inf:
        raise InvalidScheduleError(f"--epsilon {options.epsilon:g}: it must be 0, for the whole front, or greater")
    front = pareto(intervals.given, read_capacity(options.budget, intervals.given))
    points = epsilon_cover(front, options.epsilon) if options.epsilon else front.points
    if options.json:
        answer = {
            "front": [{"captured": captured, "delay": delay} for captured, delay in points],
            "intervals": len(intervals.given),
            "epsilon": options.epsilon,
            "exact": front.exact,
        }
        print(json.dumps(answer, indent=2))
        return 0
    rows = [[str(captured), f"{front.completeness(captured):.4f}", str(delay)] for captured, delay in points]
    whole = "every point that no schedule betters" if front.exact else "not exact: intervals of one source overlap"
    note = f"covers the front to within {options.epsilon:g}" if options.epsilon else whole
    print(f"pareto: {len(points)} points, {len(intervals.given)} intervals")
    print_table(["captured", "completeness", "delay (chronons)"], rows, notes=[note])
    return 0


def _most_captured(intervals: CsvIntervals, capacity: Capacity) -> CaptureSchedule:
    """Return the schedule that captures most intervals or weight; if that is hard, a greedy one with a bound."""
    given, weights = intervals.given, intervals.weights
    if weights is None or np.all(weights == weights[0]):
        found = _weighed(edf(given, capacity), 1.0 if weights is None else float(weights[0]))
    else:
        found = most_weight(given, weights, capacity)
    if found.exact:
        return found
    ends = [interval.start if interval.deadline is None else interval.deadline for interval in given]
    lengths = sum(end - interval.start + 1 for interval, end in zip(given, ends, strict=True))
    greedy = greedy_capture(given, capacity, weights, certify=lengths <= _CERTIFIED_CHRONONS)
    best = max(greedy, found, key=lambda schedule: (schedule.weight, -schedule.delay))
    bound = greedy.bound
    exact = bound is not None and best.weight >= bound - 1e-9 * max(1.0, bound)
    return CaptureSchedule(best.probes, best.captured, best.delay, exact, best.weight, bound)


def _weighed(found: CaptureSchedule, weight: float) -> CaptureSchedule:
    """Return the schedule with this weight for every interval."""
    bound = None if found.bound is None else found.bound * weight
    return replace(found, weight=found.weight * weight, bound=bound)


def _weight(found: CaptureSchedule, intervals: CsvIntervals) -> float:
    """Return the weight that the schedule captures, according to the file."""
    probed: dict[str, list[int]] = {}
    for source, chronon in found.probes:
        probed.setdefault(source, []).append(chronon)
    weights = np.ones(len(intervals.given)) if intervals.weights is None else intervals.weights
    served = 0.0
    for interval, weight in zip(intervals.given, weights.tolist(), strict=True):
        chronons = np.array(probed.get(interval.source_id, []))
        at = int(np.searchsorted(chronons, interval.start))
        if at < len(chronons) and int(chronons[at]) in interval:
            served += weight
    return served


def _fits(found: CaptureSchedule, capacity: Capacity) -> bool:
    chronons = np.array([chronon for _, chronon in found.probes], dtype=np.int64) - capacity.epoch.start
    used = np.bincount(chronons, minlength=len(capacity.epoch))
    return bool(np.all(used <= capacity.probes))


def _remarks(found: CaptureSchedule, *, fits: bool) -> list[str]:
    remarks = ["exact: no schedule does better"]
    if not found.exact:
        remarks = [f"not proved best: intervals of one source overlap; it has weight {number(found.weight, 2)}"]
        if found.bound is not None:
            remarks.append(f"and no schedule has more than {number(found.bound, 2)}")
    if not fits:
        remarks.append("it does not fit the budget; `proxyd solve edf` keeps to one")
    return remarks


def _moment(day: float) -> str:
    minutes = round(day * 1440)
    days, rest = divmod(minutes, 1440)
    return f"week {days // 7 + 1} {_DAYS[days % 7]} {rest // 60:02d}:{rest % 60:02d}"
