"""Hints of unseen items: when a source has changed, its siblings and its host's other sources may have too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, inf

import numpy as np

from proxyd.core.planning.planner import Planner
from proxyd.core.rates.rate_blend import Evidence, ItemTimes, item_times
from proxyd.core.rates.siblings import FRESH_S, KEPT, TOGETHER_S, Bursts, RecentChanges, Siblings
from proxyd.core.rates.week_bins import Cycle
from proxyd.core.rules.known.state import StoredEvent

_INDEPENDENT = 20.0  # hosts whose sources change more independently have no bursts
_DUE_PER_S, _MOST_DUE = 20.0, 2000  # sources that one look makes due: by length of a chronon, and in some 30 ms


@dataclass(frozen=True, slots=True)
class SiblingHint:
    """So many items may wait at a source if it was not seen since ``since_s``."""

    source_id: str
    items: float
    since_s: float


class Hints:
    """Remembers which sources changed when, and tells the planner which others to probe earlier.

    Siblings are pairs of sources that often change one after the other. A burst is a time in which many sources of one
    host change. Times of bursts are those of the cycle; a host is looked at once a chronon, if a probe of it has ended.
    """

    def __init__(self, planner: Planner, cycle: Cycle, chronon_s: float) -> None:
        self._planner = planner
        self._cycle = cycle
        self._most_due = min(_MOST_DUE, ceil(_DUE_PER_S * chronon_s))
        self._changes = RecentChanges()
        self._bursts: dict[str, Bursts] = {}
        self._probed: dict[str, str] = {}  # by host, one of its sources that were probed since the host was looked at
        self.siblings: Siblings = {}

    def restore(self, changes: Iterable[tuple[str, float]]) -> None:
        """Take over pairs of a source and the time of an item, oldest first."""
        for source_id, time_s in changes:
            self._changes.note_changes(source_id, [self._cycle.week_s(time_s)])

    def changes(self) -> list[tuple[int, str]]:
        """Return which sources changed when, in the form that ``siblings_of`` takes."""
        return self._changes.snapshot()

    def mass_times(self, evidence: Evidence | None) -> tuple[float, ...]:
        """Return the times of the items that came in mass changes."""
        week = self._planner.week
        if week is None or not isinstance(evidence, ItemTimes):
            return ()
        at_s = ((time_s, float(self._cycle.week_s(time_s))) for time_s in evidence.times_s)
        return tuple(
            time_s for time_s, week_s in at_s if self._changes.is_mass(week_s, week.expect_of_all(week_s, TOGETHER_S))
        )

    def learn(self, source_id: str, evidence: Evidence | None) -> None:
        """Remember what a probe showed."""
        if evidence is None:
            return
        if isinstance(evidence, ItemTimes):
            self._changes.note_changes(source_id, (self._cycle.week_s(time_s) for time_s in evidence.times_s))
        seen = item_times(evidence)
        if seen is not None:
            self._learn_burst(source_id, seen)

    def _learn_burst(self, source_id: str, seen: ItemTimes) -> None:
        week, planned = self._planner.week, self._planner.sources.get(source_id)
        if week is None or planned is None or source_id not in week:
            return
        if (k := week.concentration(source_id)) > _INDEPENDENT:
            self._bursts.pop(planned.host, None)
            return
        bursts = self._bursts.setdefault(planned.host, Bursts())
        bursts.k = k
        now_s = float(self._cycle.week_s(seen.until_s))
        since_s = float(self._cycle.week_s(seen.since_s))
        bursts.note_look(np.array([since_s]), now_s, week.expect(source_id, bursts.bins(now_s))[None, :])
        bursts.note_items(float(self._cycle.week_s(time_s)) for time_s in seen.times_s[-KEPT * KEPT :])
        self._probed[planned.host] = source_id

    def siblings_to_probe(self, source_id: str, events: Sequence[StoredEvent], now_s: float) -> tuple[SiblingHint, ...]:
        """Return the siblings that may have changed with a source and were not seen since."""
        newest_s = max((event.event_s for event in events if event.exact and not event.seed), default=None)
        if newest_s is None or (now_s - newest_s) * self._cycle.speed > FRESH_S:
            return ()
        pairs = [(self._planner.sources.get(name), items) for name, items in self.siblings.get(source_id, ())]
        return tuple(
            SiblingHint(sibling.source_id, items, newest_s)
            for sibling, items in pairs
            if sibling is not None and items > sibling.hidden and (sibling.last_seen_s or inf) < newest_s
        )

    def hasten_siblings(self, hints: Iterable[SiblingHint], now_s: float) -> None:
        """Let these siblings be probed earlier."""
        for hint in hints:
            self._planner.hint(hint.source_id, hint.items, since_s=hint.since_s, now_s=now_s)

    def hasten_bursts(self, now_s: float) -> None:
        """Let the sources be due that may have changed in a burst; they are probed in the chronon that begins now."""
        week, at_s = self._planner.week, float(self._cycle.week_s(now_s))
        left = self._most_due
        while self._probed and left > 0:  # the hosts that remain have their turn in the next chronon
            host, source_id = next(iter(self._probed.items()))
            del self._probed[host]
            bursts = self._bursts.get(host)
            if week is None or bursts is None:
                continue
            factors = bursts.factors(at_s)
            if not np.any(factors > 1.0):
                continue
            due = week.burst(source_id, bursts.bins(at_s), factors, now_s=now_s, next_s=now_s, most=left)
            self._planner.wake(due, now_s)
            left -= len(due)
