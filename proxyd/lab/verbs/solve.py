"""The verb that solves one scheduling problem from CSV files and prints the schedule."""

from __future__ import annotations

import argparse
import json
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from proxyd.core.errors import InvalidScheduleError
from proxyd.terminal.text_tables import number, print_table
from proxyd.terminal.verbs import JSON, Argument, Verb, argument, duration, flag, one_of, preset, verb

if TYPE_CHECKING:
    from proxyd.core.planning.capture.earliest_deadline import CaptureSchedule
    from proxyd.lab.verbs.replay_input import CsvIntervals

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_UNIT = "item-days x importance"
_WEEK = "--week week.csv --weeks 4 --slot 1h --probes 28"
SOLVE = Verb(
    "solve", "solve a scheduling problem that CSV files describe", [f"proxyd solve doe {_WEEK}"], members="PROBLEM"
)


def _one_source_arguments(policy: str) -> list[Argument]:
    week = "CSV of 168 rows hour,rate_per_day,importance; hour 0 is Monday 00:00"
    many = [argument("--probes", "number of probes, including the one at the end of the period", type=int, metavar="N")]
    if policy != "uniform":
        price = "cost of a probe in item-days (doe), the threshold, or the probability (first-arrival)"
        many.append(argument("--price", price, type=float, metavar="P"))
    of_doe = [
        argument("--spacing", "minimum time between probes", type=duration, default=0.0, metavar="30m"),
        argument("--improve", "move the probes off the slots afterwards", choices=("exact", "mu")),
        flag("--curve", "also print the costs of 1, 2, ..., N probes"),
    ]
    return [
        preset(policy=policy),
        argument("--week", week, type=Path, required=True, metavar="WEEK.csv"),
        argument("--weeks", "number of weeks in the period (default 1)", type=int, default=1),
        argument("--slot", "length of a slot (default 1h)", type=duration, default=3600.0, metavar="1h"),
        one_of(*many),
        *(of_doe if policy == "doe" else ()),
        JSON,
    ]


def _capture_arguments(policy: str) -> list[Argument]:
    columns = "CSV source,start,finish[,weight] in chronons, both ends included"
    usual = None if policy == "sup" else "1"
    budget = f"probes a chronon: a number, or a CSV chronon,probes (default: {usual or 'not limited'})"
    epsilon = argument("--epsilon", "cover the front to within this factor", type=float, default=0.0)
    return [
        preset(policy=policy),
        argument("--intervals", columns, type=Path, required=True, metavar="EI.csv"),
        argument("--budget", budget, metavar="C|FILE", default=usual),
        *([epsilon] if policy == "pareto" else ()),
        JSON,
    ]


def _frequency_arguments(kind: str) -> list[Argument]:
    access = "how long accesses take, for robot and randomised; their mean is 1/c (default exponential)"
    methods = ("golden", "powers", "powers-improved")
    length = "least length; golden rounds it up to a Fibonacci number (default: the rarest source occurs once)"
    of_cycle = [
        argument("--method", "how the cycle is built (default golden)", choices=methods, default="golden"),
        argument("--length", length, type=int, metavar="N"),
    ]
    return [
        preset(kind=kind),
        argument("--rates", "CSV source,rate[,weight]", type=Path, required=True, metavar="RATES.csv"),
        argument("--objective", "what to minimise", choices=("robot", "randomised", "detection"), required=True),
        argument("--budget", "probes a step (default 1)", type=float, default=1.0, metavar="c"),
        argument("--access", access, choices=("exponential", "constant"), default="exponential"),
        *(of_cycle if kind == "cycle" else ()),
        JSON,
    ]


def _one_source(options: argparse.Namespace) -> int:
    """Print the probes of one source."""
    from proxyd.lab.verbs.solvers import cost_curve, problem_of, solve_one_source

    problem = problem_of(options)
    found = solve_one_source(problem)
    curve = cost_curve(problem, len(found.times)) if getattr(options, "curve", False) else None
    if options.json:
        answer: dict[str, object] = {
            "policy": options.policy,
            "probes": len(found.times),
            "expected_cost": found.cost,
            "unit": _UNIT,
            "times_h": (found.times * 24).round(9).tolist(),
            "exact": found.exact,
            "period_h": problem.weeks * 168.0,
        }
        if found.parameter is not None:
            answer[found.parameter_name] = found.parameter
        if curve is not None:
            answer["curve"] = [{"probes": probes, "expected_cost": cost} for probes, cost in curve]
        print(json.dumps(answer, indent=2))
        return 0
    times = [0.0, *found.times.tolist()]
    rows = [
        [str(n), number(times[n] * 24, 3), _moment(times[n]), number(problem.prefix.cost(times[n - 1], times[n]))]
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
    from proxyd.lab.algorithms.overlapping_capture import fits, most_captured, weight_of_captures
    from proxyd.lab.algorithms.sup_schedules import least_delay_sup
    from proxyd.lab.verbs.replay_input import read_capacity, read_intervals

    intervals = read_intervals(options.intervals)
    if options.policy == "pareto":
        return _front(options, intervals)
    capacity = None if options.budget is None else read_capacity(options.budget, intervals.given)
    if options.policy == "edf" and capacity is not None:
        found = most_captured(intervals.given, capacity, intervals.weights)
    else:
        found = least_delay_sup(intervals.given)
    is_within = capacity is None or fits(found, capacity)
    count, weights = len(intervals.given), intervals.weights
    if options.json:
        answer = {
            "policy": options.policy,
            "probes": len(found.probes),
            "schedule": [{"source": source, "chronon": chronon} for source, chronon in found.probes],
            "intervals": count,
            "captured": found.captured,
            "delay": found.delay,
            "weight": found.weight if weights is None else weight_of_captures(found, intervals.given, weights),
            "bound": found.bound,
            "exact": found.exact,
            "within_budget": is_within,
        }
        print(json.dumps(answer, indent=2))
        return 0
    print(f"{options.policy}: {len(found.probes)} probes capture {found.captured} of {count} intervals")
    print(f"total delay {found.delay} chronons, {number(found.delay / max(1, found.captured), 2)} for each captured")
    rows = [[str(n), source, str(chronon)] for n, (source, chronon) in enumerate(found.probes, 1)]
    print_table(["probe", "source", "chronon"], rows, notes=_remarks(found, fits=is_within))
    return 0


def _frequencies(options: argparse.Namespace) -> int:
    """Print how often to probe each source, or a cycle of probes."""
    from proxyd.lab.verbs.replay_input import read_rates
    from proxyd.lab.verbs.solvers import solve_cycle, solve_frequencies

    if not 0 < options.budget <= 1e9:
        raise InvalidScheduleError(f"--budget {options.budget:g}: there must be more than 0 probes a step, at most 1e9")
    rates = read_rates(options.rates, positive=options.objective != "detection")
    found = (solve_cycle if options.kind == "cycle" else solve_frequencies)(rates, options)
    if options.json:
        print(json.dumps(found.answer, indent=2))
    else:
        print(found.text)
        print_table(found.columns, found.rows)
    return 0


def _front(options: argparse.Namespace, intervals: CsvIntervals) -> int:
    from proxyd.core.planning.capture.pareto import epsilon_cover, pareto
    from proxyd.lab.verbs.replay_input import read_capacity

    if not 0 <= options.epsilon < inf:
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
    whole = "every point that no schedule improves" if front.exact else "not exact: intervals of one source overlap"
    note = f"covers the front to within {options.epsilon:g}" if options.epsilon else whole
    print(f"pareto: {len(points)} points, {len(intervals.given)} intervals")
    print_table(["captured", "completeness", "delay (chronons)"], rows, notes=[note])
    return 0


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


_ONE_SOURCE = {
    "doe": "find the probes of one source with the least expected delay (optimal on the slots)",
    "threshold": "probe one source when the expected cost since its last probe reaches a threshold",
    "first-arrival": "probe one source when an item has probably come",
    "uniform": "probe one source at even intervals",
}
_CAPTURE = {
    "sup": "find the fewest probes that capture every interval, with the least delay",
    "edf": "find the most intervals that a budget can capture, earliest deadline first",
    "pareto": "compare completeness with delay: every point that no schedule improves",
}
_FREQUENCIES = {"frequencies": "find how often to probe each source", "cycle": "find an order of probes"}
PROBLEMS = [
    verb(f"solve {name}", f"proxyd solve {name} {example}", takes=arguments_of(name), text=text)(run)
    for run, arguments_of, example, problems in (
        (_one_source, _one_source_arguments, _WEEK, _ONE_SOURCE),
        (capture, _capture_arguments, "--intervals intervals.csv", _CAPTURE),
        (_frequencies, _frequency_arguments, "--rates rates.csv --objective robot", _FREQUENCIES),
    )
    for name, text in problems.items()
]
