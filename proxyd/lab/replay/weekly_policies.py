"""The one-source policies for a fleet: every source has the same probes a week, placed by its week's shape."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from proxyd.core.model.chronon import Chronon
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.planning.allocation.fleet_demand import WeekGrid
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.core.planning.kernels.golden_turns import turns
from proxyd.lab.algorithms.one_source_baselines import parameter_for
from proxyd.lab.replay.replay import Floats, Ints, Terms
from proxyd.lab.replay.replay_policies import Learner

_ITEMS = 8.0
Place = Callable[[Floats, int], Ints]
"""A function of a week's shape by slot and a number of probes; it returns the slots to probe, from 0."""


class WeeklyPolicy:
    """Probes every source ``n`` times a week, at the slots that a one-source solver finds.

    As in the papers, the budget is per source and not shared. A fractional number of probes is reached by turns, with
    other sources in each week.

    Parameters
    ----------
    place
        The solver.
    """

    def __init__(self, terms: Terms, place: Place) -> None:
        self._terms, self._place = terms, place
        self._learner = Learner(terms)
        self._grid = WeekGrid(terms.slot_s)
        self._week_ends = terms.epoch.start
        self._number = 0
        self._planned: dict[Chronon, list[int]] = {}
        self._late: list[int] = []

    def choose(self, now: Chronon, room: int) -> Ints:
        """Return the sources planned for this chronon, and those that an earlier one had no room for."""
        if now >= self._week_ends:
            self._plan(now)
        wanted = list(dict.fromkeys([*self._late, *self._planned.pop(now, [])]))
        self._late = wanted[room:]
        return np.array(wanted[:room], dtype=np.int64)

    def observe(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> None:
        """Learn the shapes of the weeks."""
        self._learner.observe(now, probed, item_of, times_s)

    def _plan(self, now: Chronon) -> None:
        """Plan the week from ``now`` on."""
        terms, per_slot = self._terms, round(self._terms.slot_s / self._terms.grid.length_s)
        weeks = self._learner.slots(now, self._grid)
        mean = terms.pace * per_slot * self._grid.slots / terms.sources
        self._number += 1
        counts = np.floor(mean + turns(np.arange(terms.sources) + self._number)).astype(np.int64)
        first = self._grid.slot_at(terms.grid.start_s(now))
        solved: dict[tuple[int, int], Ints] = {}
        for source, (shape, count) in enumerate(zip(weeks.of_source.tolist(), counts.tolist(), strict=True)):
            if count and (shape, count) not in solved:
                solved[shape, count] = self._place(weeks.shapes[shape], count)
            for slot in solved.get((shape, count), np.zeros(0, dtype=np.int64)):
                ahead = (int(slot) - first) % self._grid.slots
                self._planned.setdefault(now + ahead * per_slot, []).append(source)
        self._week_ends = now + self._grid.slots * per_slot


def parametric_slots(policy: str) -> Place:
    """Return the solver of ``threshold`` or ``first-arrival``, at the parameter that makes ``probes`` probes.

    >>> parametric_slots("threshold")(np.ones(8), 2)
    array([0, 4])
    """

    def place(shape: Floats, probes: int) -> Ints:
        slots = len(shape)
        # the rate does not matter here: with few items, probabilities stay well below 1
        week = PiecewiseConstant(np.arange(slots + 1.0), shape * (_ITEMS / shape.sum()))
        prefix = Prefix(week, PiecewiseConstant.constant(1.0, float(slots)))
        _, schedule = parameter_for(prefix, policy, min(probes, slots), step=1.0)
        return np.unique(np.round(schedule.times).astype(np.int64) % slots)

    return place
