"""What is counted of rules: intervals captured and missed, and the share of events that match."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass

from proxyd.core.rules.programs.stream_state import StreamState

_LEAST_K, _MOST_K = 0.1, 1e4


@dataclass(frozen=True, slots=True)
class MatchingShare:
    """The share of events that match, learned from all sources of a rule.

    A source's share is Beta with the mean of all sources and a concentration k, found from how much the sources differ.
    Where they differ a lot, a source's own events decide soon; where they are alike, those of all sources do.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``. The counts are beta-binomial: ``m (1 - m) n (1 + (n - 1) / (k + 1))`` is
    the variance of the matching ones of n events. Before any event, all are taken to match.

    Examples
    --------
    >>> share = MatchingShare()
    >>> for matched in (10, 0, 0, 0, 0):
    ...     share = share.after((0, 0), (10, matched))
    >>> round(share.of(10, 10), 2), round(share.of(10, 0), 2), round(share.of(0, 0), 2)
    (0.99, 0.0, 0.22)
    """

    # ``seen``, ``matched``: events of all sources, and those that matched
    seen: float = 0.0
    matched: float = 0.0
    # ``seen_squares``, ``matched_squares``, ``products``: sums over the sources of the squares of both, and of their
    # products
    seen_squares: float = 0.0
    matched_squares: float = 0.0
    products: float = 0.0

    def after(self, old: tuple[int, int], new: tuple[int, int]) -> MatchingShare:
        """Return the share after the events, and the matching ones, of a source changed from ``old`` to ``new``."""
        (n0, m0), (n1, m1) = old, new
        return MatchingShare(
            self.seen + n1 - n0,
            self.matched + m1 - m0,
            self.seen_squares + n1 * n1 - n0 * n0,
            self.matched_squares + m1 * m1 - m0 * m0,
            self.products + n1 * m1 - n0 * m0,
        )

    @property
    def mean(self) -> float:
        """The share over all sources."""
        return (1.0 + self.matched) / (1.0 + self.seen)

    def of(self, seen: int, matched: int) -> float:
        """Return the expected share of a source with so many events and matching ones."""
        k = self._concentration
        return (k * self.mean + matched) / (k + seen)

    @property
    def _concentration(self) -> float:
        """How alike the sources are: events of its own after which a source counts as much as all others."""
        mean = self.mean
        spread, pairs = mean * (1.0 - mean), self.seen_squares - self.seen
        if spread <= 0 or pairs <= 0:
            return 1.0
        squares = self.matched_squares - 2 * mean * self.products + mean * mean * self.seen_squares
        together = (squares / spread - self.seen) / pairs
        return min(max(1.0 / together - 1.0, _LEAST_K), _MOST_K) if together > 0 else _MOST_K


@dataclass(frozen=True, slots=True)
class CaptureCounts:
    """Captured and missed execution intervals, and the utility ``gained``, at most 1 for each interval.

    >>> both = CaptureCounts(captured=1, gained=1.0) + CaptureCounts(missed=1, gained=0.5)
    >>> both.completeness, both.utility, CaptureCounts().completeness
    (0.5, 0.75, None)
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


_NO_CAPTURES = CaptureCounts()
_ALL_MATCH = MatchingShare()


class StreamTable(MutableMapping[tuple[str, str], StreamState]):
    """Streams by rule and source; the counts of each rule are kept up to date.

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
        self.restore(streams)

    def restore(self, streams: Iterable[StreamState]) -> None:
        """Replace the content by these streams."""
        self._streams: dict[str, dict[str, StreamState]] = {}  # by rule, then by source
        self._counts: dict[str, CaptureCounts] = {}
        self._matching: dict[str, MatchingShare] = {}
        of_rules: dict[str, list[StreamState]] = {}
        for each in streams:
            of_rules.setdefault(each.rule, []).append(each)
        for rule, found in of_rules.items():
            self.replace(rule, found)

    def replace(self, rule: str, streams: Iterable[StreamState]) -> None:
        """Replace the streams of a rule."""
        self.forget(rule)
        found = self._streams[rule] = {each.source_id: each for each in streams}
        captured, missed, gained = 0, 0, 0.0  # there are many streams at the start, so avoid one object for each
        for source_id, each in found.items():
            captured, missed, gained = captured + each.captured, missed + each.missed, gained + each.utility
            if source_id and each.seen:
                self._match(rule, (0, 0), _match_counts(each))
        self._counts[rule] = CaptureCounts(captured, missed, gained)

    def begin(self, rule: str, streams: Iterable[StreamState]) -> None:
        """Keep streams that have seen nothing."""
        self._streams.setdefault(rule, {}).update((each.source_id, each) for each in streams)
        self._counts.setdefault(rule, _NO_CAPTURES)

    def forget(self, rule: str) -> None:
        """Forget the streams of a rule."""
        for known in (self._streams, self._counts, self._matching):
            known.pop(rule, None)

    def keep(self, rules: Container[str]) -> None:
        """Forget the streams of all other rules."""
        for rule in [each for each in self._streams if each not in rules]:
            self.forget(rule)

    def of_rule(self, rule: str) -> Mapping[str, StreamState]:
        """Return the streams of a rule by source."""
        return self._streams.get(rule, {})

    def copy(self) -> dict[tuple[str, str], StreamState]:
        """Return all streams by rule and source; this may be done in a thread while streams come and go."""
        copied = ((rule, dict(of_rule)) for rule, of_rule in dict(self._streams).items())
        return {(rule, source_id): each for rule, of_rule in copied for source_id, each in of_rule.items()}

    def __len__(self) -> int:
        return sum(map(len, self._streams.values()))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((rule, source_id) for rule, of_rule in self._streams.items() for source_id in of_rule)

    def __getitem__(self, key: tuple[str, str]) -> StreamState:
        """Return a stream; raises ``KeyError`` if there is none."""
        return self._streams[key[0]][key[1]]

    def __setitem__(self, key: tuple[str, str], stream: StreamState) -> None:
        """Keep a stream as the newest."""
        rule, source_id = key
        of_rule = self._streams.setdefault(rule, {})
        before = of_rule.get(source_id)
        change = _counts_of(stream) - (_NO_CAPTURES if before is None else _counts_of(before))
        self._counts[rule] = self._counts.get(rule, _NO_CAPTURES) + change
        if source_id:
            self._match(rule, _match_counts(before), _match_counts(stream))
        of_rule[source_id] = stream

    def __delitem__(self, key: tuple[str, str]) -> None:
        """Forget a stream."""
        rule, source_id = key
        stream = self._streams[rule].pop(source_id)
        self._counts[rule] -= _counts_of(stream)
        if source_id:
            self._match(rule, _match_counts(stream), (0, 0))

    def matching(self, rule: str, source_id: str) -> float:
        """Return the expected share of a source's events that a rule counts."""
        return self._matching.get(rule, _ALL_MATCH).of(*_match_counts(self.get((rule, source_id))))

    def _match(self, rule: str, old: tuple[int, int], new: tuple[int, int]) -> None:
        if old != new:
            self._matching[rule] = self._matching.get(rule, _ALL_MATCH).after(old, new)

    def of_rules(self, rules: Iterable[str]) -> CaptureCounts:
        """Return the sum of the counts of some rules."""
        found = [self._counts[rule] for rule in rules if rule in self._counts]  # each scrape sums those of all rules
        captured, missed = sum(each.captured for each in found), sum(each.missed for each in found)
        return CaptureCounts(captured, missed, sum((each.gained for each in found), 0.0))


def _match_counts(stream: StreamState | None) -> tuple[int, int]:
    """Return a stream's events, and those that the rule counted."""
    return (0, 0) if stream is None or not stream.totals else (stream.seen, min(stream.count, stream.seen))


def _counts_of(stream: StreamState) -> CaptureCounts:
    return CaptureCounts(stream.captured, stream.missed, stream.utility)
