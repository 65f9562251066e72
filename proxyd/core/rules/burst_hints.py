"""Burst hints: when sources of a host change together, those that were not looked at are probed earlier."""

from __future__ import annotations

from math import ceil

import numpy as np

from proxyd.core.planning.planner import Planner
from proxyd.core.rates.bursts import KEPT, Bursts
from proxyd.core.rates.evidence import Evidence, item_times
from proxyd.core.rates.week_bins import Cycle

_INDEPENDENT = 20.0  # hosts whose sources change more independently have no bursts
_DUE_PER_S, _MOST_DUE = 20.0, 2000  # sources that one look makes due: by length of a chronon, and in some 30 ms


class BurstHints:
    """Watches the hosts whose sources change together, and tells the planner when the others may have changed too.

    Times are those of the cycle. A host is looked at once in a chronon at most, if a probe of it has ended.
    """

    def __init__(self, planner: Planner, cycle: Cycle, chronon_s: float) -> None:
        self._planner = planner
        self._cycle = cycle
        self._most = min(_MOST_DUE, ceil(_DUE_PER_S * chronon_s))
        self._bursts: dict[str, Bursts] = {}
        self._looked: dict[str, str] = {}  # by host one of its sources that were probed since the last look

    def learn(self, source_id: str, evidence: Evidence | None) -> None:
        """Take in what a probe showed."""
        week, planned = self._planner.week, self._planner.sources.get(source_id)
        told = None if evidence is None else item_times(evidence)
        if week is None or planned is None or told is None or source_id not in week:
            return
        if (k := week.concentration(source_id)) > _INDEPENDENT:
            self._bursts.pop(planned.host, None)
            return
        bursts = self._bursts.setdefault(planned.host, Bursts())
        bursts.k = k
        now_s = float(self._cycle.week_s(told.until_s))
        since_s = float(self._cycle.week_s(told.since_s))
        bursts.looked(np.array([since_s]), now_s, week.expected(source_id, bursts.bins(now_s))[None, :])
        bursts.found(float(self._cycle.week_s(time_s)) for time_s in told.times_s[-KEPT * KEPT :])
        self._looked[planned.host] = source_id

    def give(self, now_s: float) -> None:
        """Let the sources be due that may have changed in a burst; they are probed in the chronon that begins now."""
        week, at_s = self._planner.week, float(self._cycle.week_s(now_s))
        left = self._most
        while self._looked and left > 0:  # the hosts that remain have their turn in the next chronon
            host, source_id = next(iter(self._looked.items()))
            del self._looked[host]
            bursts = self._bursts.get(host)
            if week is None or bursts is None:
                continue
            factors = bursts.factors(at_s)
            if not np.any(factors > 1.0):
                continue
            due = week.burst(source_id, bursts.bins(at_s), factors, now_s=now_s, next_s=now_s, most=left)
            self._planner.wake(due, now_s)
            left -= len(due)
