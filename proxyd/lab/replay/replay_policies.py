"""Policies of a replay: each drives the daemon's planning objects with the findings so far."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

import numpy as np

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.model.chronon import Chronon, Epoch
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.planning.allocation.probe_allocator import WeekGrid
from proxyd.core.planning.allocation.week_plan import by_slot
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.core.planning.kernels.golden_turns import turns
from proxyd.core.planning.policies.rule_demand import Findings, FiringPattern, PlannedInterval
from proxyd.core.planning.policies.sup import IntervalDemand
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.core.rates.week_shapes import WeekShapes
from proxyd.lab.algorithms.detection_frequencies import tight_bound
from proxyd.lab.algorithms.one_source_baselines import parameter_for
from proxyd.lab.algorithms.probe_cycles import best_powers, golden, powers_of_two
from proxyd.lab.algorithms.step_policies import CyclePolicy, DetectionPolicy, DuePolicy, GreedyPolicy, IndexPolicy, Wic
from proxyd.lab.replay.fleet_model import FleetModel
from proxyd.lab.replay.replay import Terms

DAY_S = 86400.0
_LEAST_RATE = 1e-12


class Learner:
    """The knowledge of a replayed policy: the history, and the findings of its own probes."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.model = FleetModel(terms.sources, start_s=terms.history_start_s)
        if terms.start_s > terms.history_start_s:
            self.model.read(terms.history, until_s=terms.start_s, since_s=terms.known_from_s)
        self._seen_s = np.full(terms.sources, terms.start_s)

    def observe(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> None:
        """Record the results of the probes of ``now``."""
        now_s = self.terms.grid.start_s(now)
        self.model.observe(probed, self._seen_s[probed], now_s, item_of, times_s)
        self._seen_s[probed] = now_s

    def rates_per_s(self, now: Chronon, sources: Ints | None = None) -> Floats:
        """Return the estimated rates in items per second, all greater than 0."""
        rates = self.model.rates.per_s(self.terms.grid.start_s(now), sources)
        return np.maximum(rates, _LEAST_RATE)

    def refresh(self, now: Chronon) -> None:
        """Update the population's mean."""
        self.model.rates.refresh(self.terms.grid.start_s(now))

    def slots(self, now: Chronon, grid: WeekGrid) -> WeekShapes:
        """Return week shapes by slot of the plan."""
        weeks = self.model.week_shapes(self.terms.grid.start_s(now))
        return WeekShapes(by_slot(weeks.shapes, grid.slots), weeks.of_source)


class Timer:
    """Tells when a period has passed, in chronons."""

    def __init__(self, terms: Terms, period_s: float) -> None:
        self._period = max(1, terms.grid.ceil(period_s))
        self._next = terms.epoch.start

    def ring_if_due(self, now: Chronon) -> bool:
        """Return whether a period has passed since the last ring; the first call rings at once."""
        if now < self._next:
            return False
        self._next = now + self._period
        return True


class UniformPolicy:
    """Probes the sources in turn, at an even pace."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._turn = 0

    def choose(self, now: Chronon, room: int) -> Ints:
        """Return the next sources in turn."""
        count = min(room, self._terms.even(now), self._terms.sources)
        chosen = np.arange(self._turn, self._turn + count) % self._terms.sources
        self._turn = (self._turn + count) % self._terms.sources
        return chosen

    def observe(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> None:
        """Learn nothing."""


class _StepPolicy:
    """Drives a detection policy at an even pace, made again from learned rates (items a chronon) every ``every_s``."""

    def __init__(self, terms: Terms, make: Callable[[Floats], DetectionPolicy], *, every_s: float = WEEK_S) -> None:
        self._terms = terms
        self._make = make
        self._learner = Learner(terms)
        self._timer = Timer(terms, every_s)
        self._policy: DetectionPolicy | None = None

    def choose(self, now: Chronon, room: int) -> Ints:
        """Return the policy's choice for the pace of this chronon."""
        if self._policy is None or self._timer.ring_if_due(now):
            self._learner.refresh(now)
            self._policy = self._make(self._learner.rates_per_s(now) * self._terms.grid.length_s)
        count = min(room, self._terms.even(now))
        return self._policy.choose(now - self._terms.epoch.start, count) if count else np.zeros(0, dtype=np.int64)

    def observe(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> None:
        """Learn the rates, and tell the policy."""
        self._learner.observe(now, probed, item_of, times_s)
        if self._policy is not None:
            found = np.bincount(item_of, minlength=len(probed))
            self._policy.observe(now - self._terms.epoch.start, probed, found)


class LearnedIndexPolicy:
    """Drives the index policy, or the greedy one, at an even pace; a source's rate is the one at its last probe."""

    def __init__(self, terms: Terms, make: type[IndexPolicy] = IndexPolicy) -> None:
        self._terms = terms
        self._learner = Learner(terms)
        self._policy = make(self._learner.rates_per_s(terms.epoch.start) * terms.grid.length_s)
        self._week = Timer(terms, WEEK_S)

    def choose(self, now: Chronon, room: int) -> Ints:
        """Return the sources with the largest index: the most expected items, or their waiting."""
        if self._week.ring_if_due(now):
            self._learner.refresh(now)
            self._policy.rates = self._learner.rates_per_s(now) * self._terms.grid.length_s
        return self._policy.choose(now - self._terms.epoch.start, min(room, self._terms.even(now)))

    def observe(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> None:
        """Learn the rates of the probed sources."""
        self._learner.observe(now, probed, item_of, times_s)
        self._policy.rates[probed] = self._learner.rates_per_s(now, probed) * self._terms.grid.length_s


def greedy_policy(terms: Terms) -> LearnedIndexPolicy:
    """Return the greedy policy."""
    return LearnedIndexPolicy(terms, GreedyPolicy)


def due_policy(terms: Terms) -> _StepPolicy:
    """Return due times at the optimal frequencies."""
    return _StepPolicy(terms, lambda rates: DuePolicy(rates, terms.pace))


def powers_policy(terms: Terms) -> _StepPolicy:
    """Return the paper's cycles of powers of two."""
    return _StepPolicy(terms, lambda rates: CyclePolicy(powers_of_two(rates)))


def best_powers_policy(terms: Terms) -> _StepPolicy:
    """Return cycles of powers of two at the best scale, with idle places used."""
    most = max(1, round(terms.pace))
    return _StepPolicy(terms, lambda rates: CyclePolicy(best_powers(rates, most)), every_s=4 * WEEK_S)


def golden_cycle_policy(terms: Terms) -> _StepPolicy:
    """Return the paper's golden cycle of all sources together, at the optimal frequencies."""
    return _StepPolicy(terms, lambda rates: CyclePolicy(golden(tight_bound(rates, terms.pace).frequencies)))


_ITEMS = 8.0
_Place = Callable[[Floats, int], Ints]
"""A function of a week's shape by slot and a number of probes; it returns the slots to probe, from 0."""


class WeeklyPolicy:
    """Probes every source ``n`` times a week, at the slots that a one-source solver (``place``) finds.

    As in the papers, the budget is per source and not shared. A fractional number of probes is reached by turns, with
    other sources in each week.
    """

    def __init__(self, terms: Terms, place: _Place) -> None:
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


def parametric_slots(policy: str) -> _Place:
    """Return the solver of ``threshold`` or ``first-arrival``, at the parameter that makes ``probes`` probes."""

    def place(shape: Floats, probes: int) -> Ints:
        slots = len(shape)
        # the rate does not matter here: with few items, probabilities stay well below 1
        week = PiecewiseConstant(np.arange(slots + 1.0), shape * (_ITEMS / shape.sum()))
        prefix = Prefix(week, PiecewiseConstant.constant(1.0, float(slots)))
        _, schedule = parameter_for(prefix, policy, min(probes, slots), step=1.0)
        return np.unique(np.round(schedule.times).astype(np.int64) % slots)

    return place


_RULE = "every event"


class _Demanding:
    """A learner with one interval demand for each source."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.learner = Learner(terms)
        self.demands = [
            IntervalDemand(_RULE, FiringPattern(), terms.life_s, feedback=False, grid=terms.grid)
            for _ in range(terms.sources)
        ]
        for demand, rate in zip(self.demands, self.learner.rates_per_s(terms.epoch.start).tolist(), strict=True):
            demand.anchor(terms.start_s, rate_per_s=rate, count=0)
        self._found = np.zeros(terms.sources, dtype=np.int64)

    def take_in(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> Floats:
        """Learn from probes, update the demands, and return the rates of the probed sources."""
        self.learner.observe(now, probed, item_of, times_s)
        rates = self.learner.rates_per_s(now, probed)
        new = np.bincount(item_of, minlength=len(probed))
        self._found[probed] += new
        now_s = self.terms.grid.start_s(now)
        for source, rate, found in zip(probed.tolist(), rates.tolist(), new.tolist(), strict=True):
            demand, count = self.demands[source], int(self._found[source])
            demand.note_findings(Findings(now_s, rate, count, found > 0))
        return rates

    def pending(self, source: int, now: Chronon) -> PlannedInterval:
        """Return the uncaught interval of a source that ends first."""
        interval = self.demands[source].pending(now)
        assert interval is not None  # rates are greater than 0
        return interval

    def renew(self, now: Chronon) -> None:
        """Plan the demands again from the current rates, as the daemon does once an epoch."""
        self.learner.refresh(now)
        now_s = self.terms.grid.start_s(now)
        for source, rate in enumerate(self.learner.rates_per_s(now).tolist()):
            self.demands[source].lay(now_s, rate_per_s=rate, count=int(self._found[source]))


class EdfPolicy:
    """Probes open intervals, the earliest deadline first, as soon as the even pace has room."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._own = _Demanding(terms)
        start = terms.epoch.start
        self._sleeping = [(self._own.pending(source, start).start, source) for source in range(terms.sources)]
        heapify(self._sleeping)
        self._open: list[tuple[Chronon, int]] = []
        self._epoch = Timer(terms, DAY_S)

    def choose(self, now: Chronon, room: int) -> Ints:
        """Return the sources of the open intervals that end first."""
        if self._epoch.ring_if_due(now):
            self._own.renew(now)
        while self._sleeping and self._sleeping[0][0] <= now:
            self._open_next(heappop(self._sleeping)[1], now)
        chosen: list[int] = []
        while self._open and len(chosen) < min(room, self._terms.even(now)):
            deadline, source = heappop(self._open)
            if deadline >= now:
                chosen.append(source)
            else:
                self._open_next(source, now)
        for source in chosen:
            self._own.demands[source].note_probe(now)
        return np.array(chosen, dtype=np.int64)

    def observe(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> None:
        """Learn, and wait for the next intervals."""
        self._own.take_in(now, probed, item_of, times_s)
        for source in probed.tolist():
            self._open_next(source, now + 1)

    def _open_next(self, source: int, now: Chronon) -> None:
        interval = self._own.pending(source, now)
        if interval.start <= now:
            heappush(self._open, (interval.deadline, source))
        else:
            heappush(self._sleeping, (interval.start, source))


class WicPolicy:
    """WIC on the learned rates, which it updates every week."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._learner = Learner(terms)
        self._epoch = Epoch(terms.epoch.start, terms.epoch.start)
        self._policy: Wic | None = None

    def choose(self, now: Chronon, room: int) -> Ints:
        """Return the sources with the greatest expected utility, at an even pace."""
        if now >= self._epoch.stop:
            self._renew(now)
        assert self._policy is not None
        return self._policy.choose(now, min(room, self._terms.even(now)))

    def observe(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> None:
        """Learn the rates."""
        self._learner.observe(now, probed, item_of, times_s)

    def _renew(self, now: Chronon) -> None:
        terms = self._terms
        self._learner.refresh(now)
        self._epoch = Epoch(now, min(now + terms.grid.ceil(WEEK_S), terms.epoch.stop))
        chance = -np.expm1(-self._learner.rates_per_s(now) * terms.grid.length_s)
        chances = np.broadcast_to(chance[:, None], (terms.sources, len(self._epoch)))
        if self._policy is not None:
            self._policy.renew(chances, self._epoch)
            return
        life = None if terms.life_s is None else terms.grid.ceil(terms.life_s)
        self._policy = Wic(chances, terms.sources, epoch=self._epoch, life=life)
