"""The fates of execution intervals: completeness and utility of streams, rules and profiles."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterable
from dataclasses import dataclass

from proxyd.core.rates.matching import MatchingShare
from proxyd.core.rules.state import StreamState


@dataclass(frozen=True, slots=True)
class CaptureCounts:
    """Captured and missed execution intervals, and the utility ``gained``, at most 1 for each interval.

    Examples
    --------
    >>> both = CaptureCounts(captured=1, gained=1.0) + CaptureCounts(missed=1, gained=0.5)
    >>> both.completeness, both.utility
    (0.5, 0.75)
    >>> CaptureCounts().completeness is None
    True
    """

    captured: int = 0
    missed: int = 0
    gained: float = 0.0

    def __add__(self, other: CaptureCounts) -> CaptureCounts:
        return CaptureCounts(self.captured + other.captured, self.missed + other.missed, self.gained + other.gained)

    def __sub__(self, other: CaptureCounts) -> CaptureCounts:
        return CaptureCounts(self.captured - other.captured, self.missed - other.missed, self.gained - other.gained)

    @property
    def completeness(self) -> float | None:
        """Captured intervals over all intervals; ``None`` without any interval."""
        return self.captured / self._all if self._all else None

    @property
    def utility(self) -> float | None:
        """Gained utility over possible utility; ``None`` without any interval."""
        return self.gained / self._all if self._all else None

    @property
    def _all(self) -> int:
        return self.captured + self.missed


NO_CAPTURES = CaptureCounts()
_ALL_MATCH = MatchingShare()


class StreamTable(UserDict[tuple[str, str], StreamState]):
    """Streams by rule and source; the counts of each rule are kept up to date.

    Examples
    --------
    >>> streams = StreamTable()
    >>> for captured in (1, 2):
    ...     streams["r", "a"] = StreamState("r", "a", (), captured=captured)
    >>> streams["r", "b"] = StreamState("r", "b", (), missed=1)
    >>> streams.of_rules(["r"])
    CaptureCounts(captured=2, missed=1, gained=0.0)
    >>> del streams["r", "b"]
    >>> streams.of_rules(["r", "unknown"]).missed
    0
    """

    def __init__(self, streams: Iterable[StreamState] = ()) -> None:
        super().__init__()
        self.restore(streams)

    def restore(self, streams: Iterable[StreamState]) -> None:
        """Replace the content by these streams."""
        self.data = {(each.rule, each.source_id): each for each in streams}
        sums: dict[str, list[float]] = {}  # there are many streams at the start, so avoid one object for each
        for (rule, _), each in self.data.items():
            total = sums.setdefault(rule, [0, 0, 0.0])
            total[0] += each.captured
            total[1] += each.missed
            total[2] += each.utility
        self._counts = {rule: CaptureCounts(int(total[0]), int(total[1]), total[2]) for rule, total in sums.items()}
        self._matching: dict[str, MatchingShare] = {}
        for (rule, source_id), each in self.data.items():
            if source_id and each.seen:
                self._match(rule, (0, 0), _matched(each))

    def __setitem__(self, key: tuple[str, str], stream: StreamState) -> None:
        """Keep a stream as the newest."""
        change = _counts_of(stream) - (_counts_of(self.data[key]) if key in self.data else NO_CAPTURES)
        self._counts[key[0]] = self._counts.get(key[0], NO_CAPTURES) + change
        if key[1]:
            self._match(key[0], _matched(self.data.get(key)), _matched(stream))
        self.data[key] = stream

    def __delitem__(self, key: tuple[str, str]) -> None:
        """Forget a stream."""
        stream = self.data.pop(key)
        self._counts[key[0]] -= _counts_of(stream)
        if key[1]:
            self._match(key[0], _matched(stream), (0, 0))

    def matching(self, rule: str, source_id: str) -> float:
        """Return the expected share of a source's events that a rule counts."""
        return self._matching.get(rule, _ALL_MATCH).of(*_matched(self.data.get((rule, source_id))))

    def _match(self, rule: str, old: tuple[int, int], new: tuple[int, int]) -> None:
        if old != new:
            self._matching[rule] = self._matching.get(rule, _ALL_MATCH).changed(old, new)

    def of_rules(self, rules: Iterable[str]) -> CaptureCounts:
        """Return the sum of the counts of some rules."""
        return sum((self._counts.get(rule, NO_CAPTURES) for rule in rules), NO_CAPTURES)


def _matched(stream: StreamState | None) -> tuple[int, int]:
    """Return a stream's events, and those that the rule counted."""
    return (0, 0) if stream is None or not stream.totals else (stream.seen, min(stream.count, stream.seen))


def _counts_of(stream: StreamState) -> CaptureCounts:
    return CaptureCounts(stream.captured, stream.missed, stream.utility)
