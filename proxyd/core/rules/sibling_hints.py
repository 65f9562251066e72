"""Sibling hints: when a source has changed, its siblings are probed earlier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf

from proxyd.core.planning.planner import Planner
from proxyd.core.rates.evidence import Evidence, ItemTimes
from proxyd.core.rates.siblings import FRESH_S, RecentChanges, Siblings
from proxyd.core.rates.week_bins import Cycle
from proxyd.core.rules.state import StoredEvent


@dataclass(frozen=True, slots=True)
class SiblingHint:
    """So many items may wait at a source if it was not seen since ``since_s``."""

    source_id: str
    items: float
    since_s: float


class SiblingHints:
    """Remembers which sources changed when, and tells the planner which siblings may have new items."""

    def __init__(self, planner: Planner, cycle: Cycle) -> None:
        self._planner = planner
        self._cycle = cycle
        self._changes = RecentChanges()
        self.siblings: Siblings = {}

    def restore(self, changes: Iterable[tuple[str, float]]) -> None:
        """Take over pairs of a source and the time of an item, oldest first."""
        for source_id, time_s in changes:
            self._changes.saw(source_id, [self._cycle.week_s(time_s)])

    def learn(self, source_id: str, evidence: Evidence | None) -> None:
        """Remember the times of a source's items."""
        if isinstance(evidence, ItemTimes):
            self._changes.saw(source_id, (self._cycle.week_s(time_s) for time_s in evidence.times_s))

    def changes(self) -> list[tuple[int, str]]:
        """Return which sources changed when, in the form that ``siblings_of`` takes."""
        return self._changes.snapshot()

    def hints(self, source_id: str, events: Sequence[StoredEvent], now_s: float) -> tuple[SiblingHint, ...]:
        """Return the siblings of a source that changed which were not seen since, and may have changed too."""
        newest_s = max((event.event_s for event in events if event.exact and not event.seed), default=None)
        if newest_s is None or (now_s - newest_s) * self._cycle.speed > FRESH_S:
            return ()
        pairs = [(self._planner.sources.get(name), items) for name, items in self.siblings.get(source_id, ())]
        return tuple(
            SiblingHint(sibling.source_id, items, newest_s)
            for sibling, items in pairs
            if sibling is not None and items > sibling.hidden and (sibling.last_seen_s or inf) < newest_s
        )

    def give(self, hints: Iterable[SiblingHint], now_s: float) -> None:
        """Let these siblings be probed earlier."""
        for hint in hints:
            self._planner.hint(hint.source_id, hint.items, since_s=hint.since_s, now_s=now_s)
