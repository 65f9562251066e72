"""Functions of expressions, and aggregates over rows: what they return, and what a call costs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import islice
from math import floor, isfinite, trunc

from proxyd.core.errors import WorkLimitError
from proxyd.core.model.expression import Aggregate, CastType
from proxyd.core.model.field_values import coerce, is_less, iso_time
from proxyd.core.model.item import Value
from proxyd.core.model.notations import mark_of
from proxyd.core.model.numbers import read_number
from proxyd.core.model.profile import FieldType
from proxyd.core.model.text_blocks import diff_blocks
from proxyd.core.model.wall_time import all_zones
from proxyd.core.rules.programs.meter import UNMETERED, Meter, check_length


def arithmetic(operator: str, left: Value, right: Value) -> Value:
    """Return the result of an operator; null unless both values are numbers and the result is finite.

    >>> arithmetic("/", 7, 2), arithmetic("/", 7.0, 2), arithmetic("%", -7, 2), arithmetic("/", 1, 0)
    (3, 3.5, -1, None)
    """
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return None
    if operator in "/%" and right == 0:
        return None
    try:
        result = ARITHMETIC[operator](left, right)
        return result if isfinite(result) else None
    except (OverflowError, ZeroDivisionError):
        return None


def _quotient(left: float, right: float) -> float:
    """Divide as SQL does: the quotient of whole numbers is whole, truncated towards zero."""
    if isinstance(left, int) and isinstance(right, int):
        whole = abs(left) // abs(right)
        return whole if (left < 0) == (right < 0) else -whole
    return left / right


def _remainder(left: float, right: float) -> float:
    return left - right * int(_quotient(left, right))


ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": _remainder,
}


_MOST_COUNT, _MOST_DIGITS = 2**31, 400
_EARLIEST_S, _LATEST_S = -62135510400.0, 253402214400.0  # a day within the years 1 and 9999, for every zone


def _strict(function: Callable[..., Value]) -> Callable[..., Value]:
    return lambda *arguments: None if any(a is None for a in arguments) else function(*arguments)


def _substr(text: Value, start: Value, length: Value = None) -> Value:
    """Return a substring, counting characters from 1; a negative start counts from the end."""
    characters = str(text)
    if not isinstance(start, int | float) or not isinstance(length, int | float | None):
        return None
    first = _whole_count(start)
    begin = first - 1 if start >= 0 else len(characters) + first
    stop = len(characters) if length is None else begin + max(0, _whole_count(length))
    return characters[max(0, begin) : max(0, stop)]


def _whole_count(count: float) -> int:
    """Return a number of characters; 1e308 as an integer has a thousand bits."""
    return int(min(max(count, -_MOST_COUNT), _MOST_COUNT))


def _round(value: Value, digits: Value = 0) -> Value:
    """Return a number rounded half away from zero."""
    if not isinstance(value, int | float) or not isinstance(digits, int | float):
        return None
    if abs(digits) > _MOST_DIGITS:
        return None
    try:
        scale = 10.0 ** int(digits)
        rounded = floor(abs(value) * scale + 0.5) / scale
    except (OverflowError, ZeroDivisionError, ValueError):
        return None
    result = rounded if value >= 0 else -rounded
    return int(result) if int(digits) <= 0 else result


def _coalesce(*values: Value) -> Value:
    return next((value for value in values if value is not None), None)


def _nullif(value: Value, other: Value) -> Value:
    return None if value is not None and value == other else value


def _replace(text: Value, old: Value, new: Value) -> Value:
    whole, before, after = str(text), str(old), str(new)
    if not before:
        return text
    check_length(len(whole) + whole.count(before) * (len(after) - len(before)), whole)
    return whole.replace(before, after)


def _part(name: str) -> Callable[..., Value]:
    """Return a function that extracts a part of a time, in UTC or a named zone."""

    def part(time_s: Value, zone: Value = None) -> Value:
        place = UTC if zone is None else all_zones().get(str(zone))
        if not isinstance(time_s, int | float) or place is None or not _EARLIEST_S <= time_s <= _LATEST_S:
            return None
        moment = datetime.fromtimestamp(time_s, place)
        found: int = moment.isoweekday() if name == "weekday" else getattr(moment, name)
        return found

    return part


def number(text: Value, language: Value = None, *, mark: str | None = None) -> Value:
    """Return the number that a text holds; ``mark`` settles ambiguous ones unless a language is given."""
    if not isinstance(text, str) or (language is not None and mark_of(str(language)) is None):
        return None
    return read_number(text, mark if language is None else mark_of(str(language)))


def cast(value: Value, target: CastType, *, is_time: bool, mark: str | None = None) -> Value:
    """Return a value as another type, or null; a fraction is cut off where an integer is wanted."""
    if value is None:
        return None
    if target is CastType.STRING:
        return iso_time(float(value)) if is_time and isinstance(value, int | float) else _shown(value)
    if target is CastType.TIMESTAMP:
        return coerce(value, FieldType.TIMESTAMP)
    found = read_number(value, mark) if isinstance(value, str) else value + 0
    return found if target is CastType.DECIMAL or found is None else coerce(trunc(found), FieldType.INTEGER)


def _shown(value: Value) -> str:
    return value if isinstance(value, str) else json.dumps(value)


PARTS_OF_TIMES = ("YEAR", "MONTH", "DAY", "WEEKDAY", "HOUR", "MINUTE")
READINGS: Mapping[str, int] = {"LOWER": 2, "UPPER": 3, "REPLACE": 5}
"""How often a function reads its texts, where that is more than once: to change letters, or to find and join parts."""
STEPS: Mapping[str, int] = {"ROUND": 12, **dict.fromkeys(PARTS_OF_TIMES, 16)}
"""The steps of a function besides its texts, where they are more than those of an operator."""

FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "LOWER": _strict(lambda text: str(text).lower()),
    "UPPER": _strict(lambda text: str(text).upper()),
    "LENGTH": _strict(lambda text: len(str(text))),
    "TRIM": _strict(lambda text: str(text).strip()),
    "SUBSTR": _strict(_substr),
    "REPLACE": _strict(_replace),
    "ABS": _strict(lambda value: abs(value) if isinstance(value, int | float) else None),
    "ROUND": _strict(_round),
    "COALESCE": _coalesce,
    "NULLIF": _nullif,
    **{name: _part(name.lower()) for name in PARTS_OF_TIMES},
}
"""Functions whose work grows with the length of their texts; ``diff`` stands apart."""


def diff(old: Value, new: Value, meter: Meter) -> Value:
    """Return the changes between two texts, as lines with their signs; raises ``EvaluationError``."""
    if old is None or new is None:
        return None
    return "\n".join(map(str, diff_blocks(str(old), str(new), spend=meter.spend)))


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

    Examples
    --------
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
        """Return the window at ``time_s`` with a new value; null is not added.

        Raises ``WorkLimitError`` if there are more than ``MOST_IN_WINDOW`` values, or ``MOST_CHARACTERS`` in texts.
        """
        kept = [each for each in self.values if each[0] > time_s - self.length_s]
        if value is not None:
            kept.append((time_s, value))
        if len(kept) > MOST_IN_WINDOW:
            raise WorkLimitError(f"its OVER has more than {MOST_IN_WINDOW:,} values in the time; look back less far")
        if isinstance(value, str) and sum(len(v) for _, v in kept if isinstance(v, str)) > MOST_CHARACTERS:
            raise WorkLimitError(f"its OVER has texts of more than {MOST_CHARACTERS:,} characters; look back less far")
        return replace(self, values=tuple(kept))


def aggregate_of(aggregate: Aggregate, values: Sequence[Value], meter: Meter = UNMETERED) -> Value:
    """Return an aggregate of values that passed its FILTER; for ``COUNT(*)`` any values but null will do.

    Raises ``EvaluationError``.
    """
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
