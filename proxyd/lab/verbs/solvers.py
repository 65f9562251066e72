"""The problems given to `solve` that need no intervals, and their solutions: one source, frequencies and cycles."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TypeAlias

import numpy as np

from proxyd.core.errors import InvalidScheduleError
from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.core.planning.kernels.one_source import Grid, OneSourceSchedule, optimal
from proxyd.lab.algorithms.detection_frequencies import paper_bound, periodic_cost, tight_bound
from proxyd.lab.algorithms.off_grid import algorithm_10, improve_exactly
from proxyd.lab.algorithms.one_source_baselines import first_arrival, parameter_for, threshold, uniform
from proxyd.lab.algorithms.one_source_layers import all_optimal
from proxyd.lab.algorithms.probe_cycles import best_powers, golden, powers_of_two
from proxyd.lab.algorithms.robot_frequencies import (
    GammaAccess,
    RobotFrequencies,
    cycle_staleness,
    evenly_spaced,
    randomise,
)
from proxyd.lab.verbs.replay_input import CsvRates, read_week
from proxyd.terminal.text_tables import number

_MOST_SLOTS = 2_000_000
_MOST_LINKS = 100_000_000
_MOST_WEEKS = 10_000


@dataclass(frozen=True)
class _OneSourceProblem:
    """A repeating week, its slots, and the number of probes or their price; times in days."""

    policy: str
    rate: PiecewiseConstant
    weight: PiecewiseConstant
    weeks: int
    slot: float
    probes: int | None
    price: float | None
    spacing: float
    improve: str | None

    def __post_init__(self) -> None:
        if not 1 <= self.weeks <= _MOST_WEEKS:
            raise InvalidScheduleError(f"--weeks {self.weeks}: it must lie between 1 and {_MOST_WEEKS}")
        if not 0 < self.slot <= self.period:
            raise InvalidScheduleError("--slot must be longer than 0 and no longer than the period; write 1h")
        if self.period / self.slot > _MOST_SLOTS:
            raise InvalidScheduleError(f"--slot makes more than {_MOST_SLOTS} slots; make it longer")
        if self.probes is not None and self.probes < 1:
            raise InvalidScheduleError(f"--probes {self.probes}: at least 1, the one at the end of the period")
        if self.price is not None:
            self._check_price(self.price)

    def _check_price(self, price: float) -> None:
        if self.policy == "first-arrival" and not 0 < price < 1:
            raise InvalidScheduleError(f"--price {price:g}: for first-arrival it is a probability, between 0 and 1")
        if self.policy == "threshold" and not 0 < price < inf:
            raise InvalidScheduleError(f"--price {price:g}: for threshold it is a cost in item-days, greater than 0")
        if not 0 <= price < inf:
            raise InvalidScheduleError(f"--price {price:g}: it is a cost in item-days for each probe, 0 or more")

    @property
    def period(self) -> float:
        """Length of the period."""
        return self.weeks * self.rate.stop

    @cached_property
    def prefix(self) -> Prefix:
        """Costs over the whole period."""
        return Prefix(self.rate.repeat(self.weeks), self.weight.repeat(self.weeks))

    @cached_property
    def slots(self) -> Floats:
        """The times at which a probe is allowed, including start and end."""
        count = int(np.floor(self.period / self.slot + 1e-9))
        inside = np.arange(count + 1) * self.slot
        return np.append(inside[inside < self.period - 1e-9 * self.slot], self.period)


@dataclass(frozen=True, slots=True)
class _Solution:
    """Probe times in days, their cost, and the parameter of a baseline."""

    times: Floats
    cost: float
    exact: bool
    note: str
    parameter_name: str = ""
    parameter: float | None = None


def problem_of(options: argparse.Namespace) -> _OneSourceProblem:
    """Return the problem that the options state."""
    rate, weight = read_week(options.week)
    return _OneSourceProblem(
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


def solve_one_source(problem: _OneSourceProblem) -> _Solution:
    """Return the probes of the problem's policy."""
    if problem.policy == "doe":
        return _doe(problem)
    if problem.policy == "uniform":
        found = uniform(problem.prefix, problem.probes or 1)
        return _Solution(found.times, found.cost, False, "evenly spaced; they need not lie on slots")
    name = "threshold" if problem.policy == "threshold" else "probability"
    if problem.price is None:
        parameter, found = parameter_for(problem.prefix, problem.policy, problem.probes or 1, step=problem.slot)
    else:
        make = threshold if problem.policy == "threshold" else first_arrival
        parameter, found = problem.price, make(problem.prefix, problem.price, step=problem.slot)
    return _Solution(found.times, found.cost, False, "a baseline; doe finds the optimum on the slots", name, parameter)


def cost_curve(problem: _OneSourceProblem, probes: int) -> list[tuple[int, float]]:
    """Return the least cost of at most 1, 2, ..., ``probes`` probes on the slots."""
    if probes * len(problem.slots) > _MOST_LINKS:
        raise InvalidScheduleError("--curve needs too much memory here; take longer slots or fewer probes")
    grid = Grid(problem.slots, spacing=problem.spacing)
    curve: list[tuple[int, float]] = []
    least = inf
    for count, schedule in enumerate(all_optimal(problem.prefix, grid, probes), 1):
        if schedule is not None:
            least = min(least, schedule.cost)
        if least < inf:
            curve.append((count, least))
    return curve


def _doe(problem: _OneSourceProblem) -> _Solution:
    found = _on_slots(problem)
    note = f"optimal on slots of {number(problem.slot * 24, 4)} h"
    if problem.probes is not None and found.probes < problem.probes:
        note += f"; {problem.probes} probes cannot be made or would not cost less"
    if problem.improve is None:
        return _Solution(found.times, found.cost, found.exact, note)
    if problem.improve == "exact":
        moved = improve_exactly(problem.prefix, found.times, spacing=problem.spacing)
        note += f"; then moved off them, which saved {number(found.cost - moved.cost)}"
    else:
        moved, moves = algorithm_10(problem.prefix, found.times, spacing=problem.spacing)
        note += f"; then {moves} mu-moves, which saved {number(found.cost - moved.cost)}"
    return _Solution(moved.times, moved.cost, False, note)


def _on_slots(problem: _OneSourceProblem) -> OneSourceSchedule:
    """Return the best probes on the slots: at most the given number, or all that are worth their price."""
    slots = problem.slots
    if problem.price is not None:
        grid = Grid(slots, spacing=problem.spacing, price=np.full(len(slots), problem.price))
        return optimal(problem.prefix, grid, len(slots))
    wanted = problem.probes or 1
    found = optimal(problem.prefix, Grid(slots, spacing=problem.spacing), wanted)
    missing = min(wanted, len(slots) - 1) - found.probes
    if missing == 0 or problem.spacing > problem.slot:
        return found
    # without items or importance, fewer probes cost the same: the others are free
    spare = np.setdiff1d(np.arange(1, len(slots)), np.searchsorted(slots, found.times))
    times = np.sort(np.concatenate([found.times, slots[spare[:missing]]]))
    return OneSourceSchedule(times, problem.prefix.total(np.concatenate([slots[:1], times])))


_Cycle: TypeAlias = tuple[Ints, float, float, dict[str, object], str]
"""An order of sources, its cost, a lower bound for every order, the assumptions, and the cost in words."""
_MOST_PLACES = 1_000_000


@dataclass(frozen=True, slots=True)
class _Solved:
    """What ``solve`` prints: an answer as JSON; or a line, and a table."""

    answer: dict[str, object]
    text: str
    columns: Sequence[str]
    rows: list[list[str]]


def solve_frequencies(rates: CsvRates, options: argparse.Namespace) -> _Solved:
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
        if not per_step.all():
            text += "; what changes faster than these accesses can follow is never asked"
    each, total = list(zip(rates.names, rates.rates.tolist(), per_step.tolist(), strict=True)), float(per_step.sum())
    listed = [{"source": name, "frequency": f, "share": f / total} for name, _, f in each]
    answer = {"objective": options.objective, "frequencies": listed, "value": cost, "bounds": bounds, **terms}
    rows = [[name, number(rate, 6), number(f, 6), number(1 / f, 2) if f > 0 else "never"] for name, rate, f in each]
    return _Solved(answer, text, ("source", "rate", "probes a step", "every (steps)"), rows)


def solve_cycle(rates: CsvRates, options: argparse.Namespace) -> _Solved:
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
    return _Solved(answer, text, ("place", "source"), [[str(n), name or "-"] for n, name in enumerate(places, 1)])


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
        return best_powers(worth, c)
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
    found = randomise(rates.rates, access, rates.weights) if options.objective == "randomised" else even
    terms: dict[str, object] = {"access": {"distribution": options.access, "mean": access.mean}}
    return found, even, terms


def _access(options: argparse.Namespace) -> GammaAccess:
    return GammaAccess(1 / options.budget, 1.0 if options.access == "exponential" else inf)


def _access_text(options: argparse.Namespace) -> str:
    return f"{options.access} access times of mean {1 / options.budget:g}"


def _worth(rates: CsvRates) -> Floats:
    return rates.rates if rates.weights is None else rates.rates * rates.weights
