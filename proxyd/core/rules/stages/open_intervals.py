"""The open joint intervals, found by the sources that they want, however many there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from proxyd.core.rules.stages.joint_intervals import JointInterval


class OpenIntervals:
    """Open joint intervals by id, in the order in which they were opened."""

    def __init__(self, intervals: Iterable[JointInterval] = ()) -> None:
        self._by_id: dict[str, JointInterval] = {}
        self._wanting: dict[str, dict[str, None]] = {}  # ids by source
        for interval in intervals:
            self.keep(interval)

    def __iter__(self) -> Iterator[JointInterval]:
        return iter(self._by_id.values())

    def get(self, interval_id: str) -> JointInterval | None:
        """Return an interval, or ``None`` if it is not open."""
        return self._by_id.get(interval_id)

    def wanting(self, source_id: str) -> list[JointInterval]:
        """Return the intervals that want a source."""
        return [self._by_id[interval_id] for interval_id in self._wanting.get(source_id, ())]

    def keep(self, interval: JointInterval) -> None:
        """Add an interval, or put it in place of what it was before."""
        before = self._by_id.get(interval.interval_id)
        wanted, was_wanted = set(interval.wanted), set(() if before is None else before.wanted)
        for source_id in was_wanted - wanted:
            self._forget(source_id, interval.interval_id)
        for source_id in wanted - was_wanted:
            self._wanting.setdefault(source_id, {})[interval.interval_id] = None
        self._by_id[interval.interval_id] = interval

    def drop(self, interval_id: str) -> JointInterval | None:
        """Remove and return an interval; ``None`` if it is not open."""
        interval = self._by_id.pop(interval_id, None)
        for source_id in () if interval is None else set(interval.wanted):
            self._forget(source_id, interval_id)
        return interval

    def _forget(self, source_id: str, interval_id: str) -> None:
        wanting = self._wanting[source_id]
        del wanting[interval_id]
        if not wanting:
            del self._wanting[source_id]
