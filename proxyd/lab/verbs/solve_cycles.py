"""Frequencies and cycles of many sources, for the objectives of `solve`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from proxyd.core.errors import InvalidScheduleError
from proxyd.lab.algorithms.detection_frequencies import paper_bound, periodic_cost, tight_bound
from proxyd.lab.algorithms.probe_cycles import golden, improved_powers, powers_of_two
from proxyd.lab.algorithms.robot_frequencies import (
    GammaAccess,
    RobotFrequencies,
    cycle_staleness,
    evenly_spaced,
    randomised,
)
from proxyd.lab.verbs.csv_files import CsvRates, Floats
from proxyd.terminal.tables import number

Ints = NDArray[np.int64]
_Cycle: TypeAlias = tuple[Ints, float, float, dict[str, object], str]
"""An order of sources, its cost, a lower bound for every order, the assumptions, and the cost in words."""
_MOST_PLACES = 1_000_000


@dataclass(frozen=True, slots=True)
class Solved:
    """What ``solve`` prints: an answer as JSON; or a line, and a table."""

    answer: dict[str, object]
    text: str
    columns: Sequence[str]
    rows: list[list[str]]


def solve_frequencies(rates: CsvRates, options: argparse.Namespace) -> Solved:
    """Return the best frequencies under ``options.objective``, at ``options.budget`` probes a step."""
    terms: dict[str, object] = {}
    if options.objective == "detection":
        worth = _worth(rates)
        bound = tight_bound(worth, options.budget)
        text = f"detection: at best {number(bound.cost)} items undiscovered on average (the tight bound)"
        per_step, cost, bounds = (
            bound.frequencies,
            bound.cost,
            {"tight": bound.cost, "paper": paper_bound(worth, options.budget)},
        )
    else:
        found, even, terms = _robot(rates, options)
        kind = "accesses drawn at random" if options.objective == "randomised" else "accesses evenly spaced"
        text = f"{options.objective}: cost {number(found.cost)} with {kind}; {_access_text(options)}"
        per_step, cost, bounds = found.frequencies * options.budget, found.cost, {"even": even.cost}
    each, total = list(zip(rates.names, rates.rates.tolist(), per_step.tolist(), strict=True)), float(per_step.sum())
    listed = [{"source": name, "frequency": f, "share": f / total} for name, _, f in each]
    answer = {"objective": options.objective, "frequencies": listed, "value": cost, "bounds": bounds, **terms}
    rows = [[name, number(rate, 6), number(f, 6), number(1 / f, 2) if f > 0 else "never"] for name, rate, f in each]
    return Solved(answer, text, ("source", "rate", "probes a step", "every (steps)"), rows)


def solve_cycle(rates: CsvRates, options: argparse.Namespace) -> Solved:
    """Return the cycle of ``options.method``, measured by ``options.objective``."""
    cycle = _detection_cycle if options.objective == "detection" else _robot_cycle
    order, cost, bound, terms, text = cycle(rates, options)
    places = [rates.names[source] if source >= 0 else None for source in order.tolist()]
    ratio = cost / bound if bound > 0 else 1.0
    answer = {
        "objective": options.objective,
        "method": options.method,
        "cycle": places,
        "length": len(places),
        "cost": cost,
        "bound": bound,
        "ratio": ratio,
        **terms,
    }
    text = f"cycle of {len(places)} places: {text}; {number(ratio)} of the bound {number(bound)}"
    return Solved(answer, text, ("place", "source"), [[str(n), name or "-"] for n, name in enumerate(places, 1)])


def _robot_cycle(rates: CsvRates, options: argparse.Namespace) -> _Cycle:
    found, even, terms = _robot(rates, options)
    order = _order(found.frequencies**2, found.frequencies, 1, options)
    costs = rates.rates if rates.weights is None else rates.weights
    cost = float(costs @ cycle_staleness(rates.rates, _access(options), order))
    return order, cost, even.cost, terms, f"cost {number(cost)}; {_access_text(options)}"


def _detection_cycle(rates: CsvRates, options: argparse.Namespace) -> _Cycle:
    if options.budget != int(options.budget):
        raise InvalidScheduleError(f"--budget {options.budget:g}: a cycle needs a whole number of probes a step")
    worth, c = _worth(rates), int(options.budget)
    bound = tight_bound(worth, c)
    order = _order(worth, bound.frequencies, c, options)
    cost = periodic_cost(worth, order, c)
    if cost == inf:
        raise InvalidScheduleError("a cycle of this --length leaves out a source; make it longer")
    terms: dict[str, object] = {"probes_per_step": c, "paper_bound": paper_bound(worth, c)}
    return order, cost, bound.cost, terms, f"{number(cost)} items undiscovered on average"


def _order(worth: Floats, frequencies: Floats, c: int, options: argparse.Namespace) -> Ints:
    """Return the order of sources; the roots of ``worth`` are proportional to the values that powers of two round."""
    if options.method == "powers":
        return powers_of_two(worth)
    if options.method == "powers-improved":
        return improved_powers(worth, c)
    length = options.length
    if length is None:
        least = float(frequencies[frequencies > 0].min() / frequencies.sum())
        length = min(np.ceil(1 / least), _MOST_PLACES)
    if not 1 <= length <= _MOST_PLACES:
        raise InvalidScheduleError(f"--length {length} must lie between 1 and {_MOST_PLACES}")
    if length < np.count_nonzero(frequencies):
        raise InvalidScheduleError(f"--length {length} is less than the {np.count_nonzero(frequencies)} sources probed")
    return golden(frequencies, int(length))


def _robot(
    rates: CsvRates, options: argparse.Namespace
) -> tuple[RobotFrequencies, RobotFrequencies, dict[str, object]]:
    """Return the chosen frequencies, the evenly spaced ones, which bound every order, and the assumptions."""
    access = _access(options)
    even = evenly_spaced(rates.rates, access, rates.weights)
    found = randomised(rates.rates, access, rates.weights) if options.objective == "randomised" else even
    terms: dict[str, object] = {"access": {"distribution": options.access, "mean": access.mean}}
    return found, even, terms


def _access(options: argparse.Namespace) -> GammaAccess:
    return GammaAccess(1 / options.budget, 1.0 if options.access == "exponential" else inf)


def _access_text(options: argparse.Namespace) -> str:
    return f"{options.access} access times of mean {1 / options.budget:g}"


def _worth(rates: CsvRates) -> Floats:
    return rates.rates if rates.weights is None else rates.rates * rates.weights
