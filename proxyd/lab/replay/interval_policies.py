"""Policies that capture execution intervals: each source has a rule that fires with every event, and its life."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np

from proxyd.core.model.chronon import Chronon, Epoch
from proxyd.core.planning.policies.expected_intervals import FiringPattern, PlannedInterval
from proxyd.core.planning.policies.sup import IntervalDemand
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.lab.algorithms.wic import Wic
from proxyd.lab.replay.replay import Floats, Ints, Terms
from proxyd.lab.replay.replay_policies import DAY_S, Learner, Timer

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
            demand.follow(now_s, rate_per_s=rate, count=count, fired=found > 0)
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
        if self._epoch.rings(now):
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
            self._own.demands[source].probed(now)
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
