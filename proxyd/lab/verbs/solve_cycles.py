"""Frequencies and cycles of many sources, for the objectives of `solve`."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from proxyd.errors import InvalidScheduleError
from proxyd.lab.algorithms.detection_frequencies import paper_bound, periodic_cost, tight_bound
from proxyd.lab.algorithms.probe_cycles import golden, improved_powers, powers_of_two
from proxyd.lab.algorithms.robot_frequencies import (
    GammaAccess,
    RobotFrequencies,
    cycle_staleness,
    evenly_spaced,
    randomised,
)
from proxyd.lab.verbs.csv_files import CsvRates
from proxyd.terminal.tables import number

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_MOST_PLACES = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class SolvedFrequencies:
    """How often to probe each source, and the objective's value."""

    objective: str
    names: tuple[str, ...]
    per_step: Floats
    value: float
    bounds: dict[str, float]
    terms: dict[str, object]
    text: str

    def to_json(self) -> dict[str, object]:
        """Return the output of ``--json``."""
        total = float(self.per_step.sum())
        listed = [
            {"source": name, "frequency": frequency, "share": frequency / total}
            for name, frequency in zip(self.names, self.per_step.tolist(), strict=True)
        ]
        return {
            "objective": self.objective,
            "frequencies": listed,
            "value": self.value,
            "bounds": self.bounds,
            **self.terms,
        }


@dataclass(frozen=True, slots=True, eq=False)
class SolvedCycle:
    """A repeating order of probes, ``None`` for an idle place, with its cost and a lower bound for every order."""

    objective: str
    method: str
    places: list[str | None]
    cost: float
    bound: float
    terms: dict[str, object]
    cost_text: str

    @property
    def text(self) -> str:
        """What a person wants to know first."""
        return f"{self.cost_text}; {number(self.ratio)} of the bound {number(self.bound)}"

    @property
    def ratio(self) -> float:
        """The cost divided by the bound."""
        return self.cost / self.bound if self.bound > 0 else 1.0

    def to_json(self) -> dict[str, object]:
        """Return the output of ``--json``."""
        return {
            "objective": self.objective,
            "method": self.method,
            "cycle": self.places,
            "length": len(self.places),
            "cost": self.cost,
            "bound": self.bound,
            "ratio": self.ratio,
            **self.terms,
        }


def solve_frequencies(rates: CsvRates, options: argparse.Namespace) -> SolvedFrequencies:
    """Return the best frequencies under ``options.objective``, at ``options.budget`` probes a step."""
    if options.objective == "detection":
        worth = _worth(rates)
        bound = tight_bound(worth, options.budget)
        text = f"detection: at best {number(bound.cost)} items undiscovered on average (the tight bound)"
        bounds = {"tight": bound.cost, "paper": paper_bound(worth, options.budget)}
        return SolvedFrequencies("detection", rates.names, bound.frequencies, bound.cost, bounds, {}, text)
    found, even, terms = _robot(rates, options)
    kind = "accesses drawn at random" if options.objective == "randomised" else "accesses evenly spaced"
    text = f"{options.objective}: cost {number(found.cost)} with {kind}; {_access_text(options)}"
    return SolvedFrequencies(
        options.objective, rates.names, found.frequencies * options.budget, found.cost, {"even": even.cost}, terms, text
    )


def solve_cycle(rates: CsvRates, options: argparse.Namespace) -> SolvedCycle:
    """Return the cycle of ``options.method``, measured by ``options.objective``."""
    if options.objective == "detection":
        return _detection_cycle(rates, options)
    found, even, terms = _robot(rates, options)
    order = _order(found.frequencies**2, found.frequencies, 1, options)
    costs = rates.rates if rates.weights is None else rates.weights
    stale = cycle_staleness(rates.rates, _access(options), order)
    cost = float(costs @ stale)
    text = f"cost {number(cost)}; {_access_text(options)}"
    return SolvedCycle(options.objective, options.method, _named(order, rates), cost, even.cost, terms, text)


def _detection_cycle(rates: CsvRates, options: argparse.Namespace) -> SolvedCycle:
    if options.budget != int(options.budget):
        raise InvalidScheduleError(f"--budget {options.budget:g}: a cycle needs a whole number of probes a step")
    worth, c = _worth(rates), int(options.budget)
    bound = tight_bound(worth, c)
    order = _order(worth, bound.frequencies, c, options)
    cost = periodic_cost(worth, order, c)
    if cost == inf:
        raise InvalidScheduleError("a cycle of this --length leaves out a source; make it longer")
    terms: dict[str, object] = {"probes_per_step": c, "paper_bound": paper_bound(worth, c)}
    text = f"{number(cost)} items undiscovered on average"
    return SolvedCycle("detection", options.method, _named(order, rates), cost, bound.cost, terms, text)


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


def _named(order: Ints, rates: CsvRates) -> list[str | None]:
    return [rates.names[source] if source >= 0 else None for source in order.tolist()]
