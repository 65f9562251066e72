"""The one-source problem given to `solve`, and its solution."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from proxyd.core.errors import InvalidScheduleError
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.core.planning.one_source.optimal_schedule import Grid, OneSourceSchedule, all_optimal, optimal
from proxyd.lab.algorithms.off_grid import algorithm_10, improve_exactly
from proxyd.lab.algorithms.one_source_baselines import first_arrival, parameter_for, threshold, uniform
from proxyd.lab.verbs.csv_files import Floats, read_week
from proxyd.terminal.tables import number

_MOST_SLOTS = 2_000_000
_MOST_LINKS = 100_000_000
_MOST_WEEKS = 10_000


@dataclass(frozen=True)
class OneSourceProblem:
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
class Solution:
    """Probe times in days, their cost, and the parameter of a baseline."""

    times: Floats
    cost: float
    exact: bool
    note: str
    parameter_name: str = ""
    parameter: float | None = None


def problem_of(options: argparse.Namespace) -> OneSourceProblem:
    """Return the problem that the options state."""
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


def solve_one_source(problem: OneSourceProblem) -> Solution:
    """Return the probes of the problem's policy."""
    if problem.policy == "doe":
        return _doe(problem)
    if problem.policy == "uniform":
        found = uniform(problem.prefix, problem.probes or 1)
        return Solution(found.times, found.cost, False, "evenly spaced; they need not lie on slots")
    name = "threshold" if problem.policy == "threshold" else "probability"
    if problem.price is None:
        parameter, found = parameter_for(problem.prefix, problem.policy, problem.probes or 1, step=problem.slot)
    else:
        make = threshold if problem.policy == "threshold" else first_arrival
        parameter, found = problem.price, make(problem.prefix, problem.price, step=problem.slot)
    return Solution(found.times, found.cost, False, "a baseline; doe finds the optimum on the slots", name, parameter)


def cost_curve(problem: OneSourceProblem, probes: int) -> list[tuple[int, float]]:
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


def _doe(problem: OneSourceProblem) -> Solution:
    found = _on_slots(problem)
    note = f"optimal on slots of {number(problem.slot * 24, 4)} h"
    if problem.probes is not None and found.probes < problem.probes:
        note += f"; {problem.probes} probes cannot be made or would not cost less"
    if problem.improve is None:
        return Solution(found.times, found.cost, found.exact, note)
    if problem.improve == "exact":
        moved = improve_exactly(problem.prefix, found.times, spacing=problem.spacing)
        note += f"; then moved off them, which saved {number(found.cost - moved.cost)}"
    else:
        moved, moves = algorithm_10(problem.prefix, found.times, spacing=problem.spacing)
        note += f"; then {moves} mu-moves, which saved {number(found.cost - moved.cost)}"
    return Solution(moved.times, moved.cost, False, note)


def _on_slots(problem: OneSourceProblem) -> OneSourceSchedule:
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
