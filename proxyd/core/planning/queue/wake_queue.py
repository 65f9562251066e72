"""Sources that sleep, ordered by the chronon at which they are to be looked at."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush

from proxyd.core.model.chronon import Chronon
from proxyd.core.planning.queue.planned_source import PlannedSource

_SPAN = 16  # chronons; few enough that waking a span of them is cheap compared with the rest


def _order(source: PlannedSource) -> tuple[Chronon, str]:
    return source.wake, source.source_id


class WakeQueue:
    """Wakes sources in order. Those of the current span of chronons are in a heap, later ones in a set for each span.

    A source that is put again leaves its old set, so the queue does not grow when sources are planned again often.

    Examples
    --------
    >>> from proxyd.core.politeness import PolitenessBudget, ProbeLog
    >>> from proxyd.core.planning.policies.demands import Demands
    >>> source = PlannedSource("a", "example.org", ProbeLog(PolitenessBudget(60.0)), Demands(), rate_per_s=0.01)
    >>> sleeping = WakeQueue()
    >>> sleeping.put(source, 1000)
    >>> sleeping.put(source, 200)
    >>> [[source.source_id for source in sleeping.wake_up(now, {"a": source})] for now in (199, 200)]
    [[], ['a']]
    """

    def __init__(self) -> None:
        self._near: list[tuple[Chronon, str]] = []
        self._far: dict[int, set[str]] = {}
        self._spans: list[int] = []
        self._reached = -1

    def put(self, source: PlannedSource, wake: Chronon) -> None:
        """Put a source to sleep until ``wake``."""
        self.remove(source)
        source.wake = wake
        span = wake // _SPAN
        if span <= self._reached:
            heappush(self._near, (wake, source.source_id))
            return
        if span not in self._far:
            self._far[span] = set()
            heappush(self._spans, span)
        self._far[span].add(source.source_id)

    def remove(self, source: PlannedSource) -> None:
        """Forget a source; does nothing if it does not sleep."""
        if (far := self._far.get(source.wake // _SPAN)) is not None:
            far.discard(source.source_id)

    def wake_up(self, now: Chronon, sources: Mapping[str, PlannedSource]) -> list[PlannedSource]:
        """Return the sources whose time has come, in order."""
        while self._spans and self._spans[0] <= now // _SPAN:
            for source_id in self._far.pop(heappop(self._spans)):
                heappush(self._near, (sources[source_id].wake, source_id))
        self._reached = max(self._reached, now // _SPAN)
        woken = []
        while self._near and self._near[0][0] <= now:
            wake, source_id = heappop(self._near)
            source = sources.get(source_id)
            if source is not None and source.wake == wake:
                woken.append(source)
        return woken

    def first(self, count: int, sources: Mapping[str, PlannedSource]) -> list[PlannedSource]:
        """Return the sources that wake first, in order; changes nothing."""
        found: dict[str, PlannedSource] = {}
        for wake, source_id in sorted(self._near):
            source = sources.get(source_id)
            if source is not None and source.wake == wake:
                found[source_id] = source
        for span in sorted(self._spans):
            if len(found) >= count:
                break
            found |= {source.source_id: source for source in sorted((sources[s] for s in self._far[span]), key=_order)}
        return list(found.values())[:count]

    @property
    def next_wake(self) -> Chronon | None:
        """The earliest chronon at which a source may wake, or ``None`` if none sleeps."""
        if self._near:
            return self._near[0][0]
        return self._spans[0] * _SPAN if self._spans else None
