"""The fates of execution intervals: completeness and utility of streams, rules and profiles."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterable
from dataclasses import dataclass

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

    def __setitem__(self, key: tuple[str, str], stream: StreamState) -> None:
        """Keep a stream as the newest."""
        change = _counts_of(stream) - (_counts_of(self.data[key]) if key in self.data else NO_CAPTURES)
        self._counts[key[0]] = self._counts.get(key[0], NO_CAPTURES) + change
        self.data[key] = stream

    def __delitem__(self, key: tuple[str, str]) -> None:
        """Forget a stream."""
        self._counts[key[0]] -= _counts_of(self.data.pop(key))

    def of_rules(self, rules: Iterable[str]) -> CaptureCounts:
        """Return the sum of the counts of some rules."""
        return sum((self._counts.get(rule, NO_CAPTURES) for rule in rules), NO_CAPTURES)


def _counts_of(stream: StreamState) -> CaptureCounts:
    return CaptureCounts(stream.captured, stream.missed, stream.utility)
