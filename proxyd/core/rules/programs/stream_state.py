"""The state of a rule on a source: what its program has counted so far, and how long a condition has held there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice
from math import isfinite
from typing import NamedTuple

from proxyd.core.errors import WorkLimitError
from proxyd.core.model.expression import Aggregate
from proxyd.core.model.field_values import is_less
from proxyd.core.model.item import UpdateEvent, Value
from proxyd.core.model.profile import Trigger
from proxyd.core.rules.programs.meter import UNMETERED, Meter

MOST_DISTINCT = 10_000
MOST_IN_WINDOW = 10_000
MOST_CHARACTERS = 4_000_000
"""Characters of the texts in a window; a rule whose state is full fails."""
_STEPS_PER_VALUE, _COPIED_PER_STEP = 4, 16


def distinct_hash(value: Value) -> int:
    """Return the 64 bits by which DISTINCT knows a value; equal numbers have the same.

    A set of the values themselves grew to 1.8 GB in nine probes.

    >>> distinct_hash(5) == distinct_hash(5.0), distinct_hash(5) == distinct_hash("5")
    (True, False)
    """
    if isinstance(value, str):
        data = b"t" + value.encode("utf-8", "surrogatepass")
    else:
        data = b"n%d" % value if value is not None and value == value // 1 else b"n" + repr(value).encode()
    return int.from_bytes(blake2b(data, digest_size=8).digest())


def aggregate_input(value: Value, aggregate: Aggregate) -> Value:
    """Return what a window of an aggregate needs of a value: only MIN and MAX need a text itself.

    >>> [aggregate_input("a long text", Aggregate(name)) for name in ("COUNT", "MAX")]
    [False, 'a long text']
    """
    if not isinstance(value, str) or aggregate.function in {"MIN", "MAX"}:
        return value
    return f"{distinct_hash(value):x}" if aggregate.distinct else False


@dataclass(frozen=True, slots=True)
class Total:
    """A running total that is enough for COUNT, SUM, MIN, MAX and AVG.

    >>> total = Total().add(3).add(None).add(1)
    >>> [total.value(name) for name in ("COUNT", "SUM", "MIN", "MAX", "AVG")]
    [2, 4, 1, 3, 2.0]
    >>> Total(seen=frozenset()).add("a").add("a").value("COUNT"), Total().value("SUM")
    (1, None)
    """

    count: int = 0  # of values that are not null
    sum: float = 0  # of the numbers among them
    least: Value = None
    most: Value = None
    # the hashes of the distinct values so far if only those count, otherwise ``None``
    seen: frozenset[int] | None = None

    @classmethod
    def of(cls, aggregate: Aggregate) -> Total:
        """Return the total of no values."""
        is_distinct = aggregate.distinct and aggregate.function not in {"MIN", "MAX"}  # to which it means nothing
        return cls(seen=frozenset() if is_distinct else None)

    def add(self, value: Value) -> Total:
        """Return the total with one more value, not null; raises ``WorkLimitError`` if the state is full."""
        if value is None:
            return self
        seen = self.seen
        if seen is not None:
            name = distinct_hash(value)
            if name in seen:
                return self
            if len(seen) >= MOST_DISTINCT:
                most = f"its DISTINCT has more than {MOST_DISTINCT:,} values"
                raise WorkLimitError(f"{most}, which a rule cannot keep; count them OVER a time")
            seen |= {name}
            value = False if isinstance(value, str) else value  # MIN and MAX, which need it, are not distinct
        return Total(
            count=self.count + 1,
            sum=self.sum + value if isinstance(value, int | float) else self.sum,
            least=value if self.least is None or is_less(value, self.least) else self.least,
            most=value if self.most is None or is_less(self.most, value) else self.most,
            seen=seen,
        )

    @property
    def steps(self) -> int:
        """Work of adding a value, in steps."""
        return _STEPS_PER_VALUE + (len(self.seen) // _COPIED_PER_STEP if self.seen else 0)

    def value(self, function: str) -> Value:
        """Return COUNT, SUM, MIN, MAX or AVG; without values all but COUNT are null."""
        if function == "COUNT":
            return self.count
        if not self.count:
            return None
        if function in {"MIN", "MAX"}:
            return self.least if function == "MIN" else self.most
        found = self.sum if function == "SUM" else self.sum / self.count
        return found if isfinite(found) else None


@dataclass(frozen=True, slots=True)
class Window:
    """The values of the last ``length_s`` seconds with their times.

    >>> window = Window(60.0).add(0.0, 1).add(50.0, 2).add(60.0, 3)
    >>> [value for _, value in window.values]
    [2, 3]
    """

    length_s: float
    values: tuple[tuple[float, Value], ...] = field(default=())

    @property
    def steps(self) -> int:
        """Work of adding a value, in steps."""
        return 1 + len(self.values) // 4

    def add(self, time_s: float, value: Value) -> Window:
        """Return the window at ``time_s`` with a new value, if not null; raises ``WorkLimitError`` if it is full."""
        kept = [each for each in self.values if each[0] > time_s - self.length_s]
        if value is not None:
            kept.append((time_s, value))
        if len(kept) > MOST_IN_WINDOW:
            raise WorkLimitError(f"its OVER has more than {MOST_IN_WINDOW:,} values in the time; look back less far")
        if isinstance(value, str) and sum(len(v) for _, v in kept if isinstance(v, str)) > MOST_CHARACTERS:
            raise WorkLimitError(f"its OVER has texts of more than {MOST_CHARACTERS:,} characters; look back less far")
        return replace(self, values=tuple(kept))


def aggregate_of(aggregate: Aggregate, values: Sequence[Value], meter: Meter = UNMETERED) -> Value:
    """Return an aggregate of values that passed its FILTER, of COUNT(*) any but null; raises ``EvaluationError``."""
    meter.spend(_STEPS_PER_VALUE * len(values))
    meter.weigh(2 * sum(len(value) for value in values if isinstance(value, str)))
    known = [value for value in values if value is not None]
    if aggregate.distinct:
        known = list(islice(dict.fromkeys(known), MOST_DISTINCT))
    if aggregate.function == "COUNT":
        return len(known)
    if not known:
        return None
    if aggregate.function in {"MIN", "MAX"}:
        return _extreme(known, largest=aggregate.function == "MAX")
    total: float = 0
    for value in known:
        total += value if isinstance(value, int | float) else 0
    found = total if aggregate.function == "SUM" else total / len(known)
    return found if isfinite(found) else None


def _extreme(values: Sequence[Value], *, largest: bool) -> Value:
    best = values[0]
    for value in values:
        if is_less(best, value) if largest else is_less(value, best):
            best = value
    return best


class Spell(NamedTuple):
    """A condition that has held since a time, in so many probes; ``last_s`` is the end of the last of them."""

    probes: int
    since_s: float
    last_s: float

    @classmethod
    def continue_with(cls, before: Spell | None, now_s: float) -> Spell:
        """Return the spell with one more probe that ended at ``now_s``.

        >>> Spell.continue_with(Spell(1, 60.0, 60.0), 120.0)
        Spell(probes=2, since_s=60.0, last_s=120.0)
        """
        return cls(1, now_s, now_s) if before is None else cls(before.probes + 1, before.since_s, now_s)

    def as_of(self, now_s: float) -> Spell:
        """Return the spell without times later than ``now_s``."""
        return Spell(self.probes, min(self.since_s, now_s), min(self.last_s, now_s))


@dataclass(frozen=True, slots=True)
class Lasting:
    """AFTER as a rule asks for it: a number of probes, or seconds."""

    probes: int | None
    length_s: float = 0.0

    @classmethod
    def of(cls, trigger: Trigger, chronon_s: float) -> Lasting:
        """Return how long the condition of a trigger must last."""
        after = trigger.lasting
        return cls(after.probes, 0.0 if after.time is None else after.time.in_seconds(chronon_s=chronon_s))

    def is_met(self, spell: Spell | None) -> bool:
        """Whether a spell has lasted so long."""
        if spell is None:
            return False
        return spell.probes >= self.probes if self.probes else spell.last_s - spell.since_s >= self.length_s


MAX_PENDING = 1000


@dataclass(frozen=True, slots=True)
class StreamState:
    """The state since START of one rule on one source, or on all sources of its class if ``source_id`` is empty."""

    rule: str
    source_id: str
    # totals of the trigger's aggregates over the events that passed WHERE; the first is ``COUNT(*)``
    totals: tuple[Total, ...]
    # ``fired_seq``, ``fired_s``: the event on which it last fired, and when that event was seen (unix seconds)
    fired_seq: int = 0
    fired_s: float = 0.0
    # ``captured``, ``missed``: intervals by fate
    captured: int = 0
    missed: int = 0
    utility: float = 0.0  # utility gained so far, at most 1 for each interval
    seen: int = 0  # events since START before WHERE
    # what its totals count, in the form of ``counting_of``; a stream of an earlier version does not say it
    counting: str = ""
    # the events since it last fired, rebuilt from stored ones; only the newest ``MAX_PENDING`` are kept
    pending: tuple[UpdateEvent, ...] = field(default=(), compare=False)
    # windows of the aggregates over a recent time, rebuilt in the same way
    windows: tuple[Window | None, ...] = field(default=(), compare=False)

    @property
    def count(self) -> int:
        """Events since START that passed WHERE."""
        return self.totals[0].count
