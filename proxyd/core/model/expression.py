"""Expressions and queries of the rule language, as trees.

Spans are offsets into the file that declared them. They serve error messages and are not compared, so a tree that is
printed and read again equals the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import Enum
from typing import TypeAlias

import re2

# re2 fills all of it with states before it gives up: with its default of 8 MB a hostile pattern of 20 characters took
# 25 µs for each character of the text, with 1 MB 0.3 µs.
_MEMORY_BYTES = 1 << 20
LIKE_MEMORY_BYTES = 2 << 20
"""What the longest pattern of LIKE or ILIKE needs, whatever its characters are."""


def re2_options(memory_bytes: int = _MEMORY_BYTES) -> re2.Options:
    """Return options for a pattern of bounded size, with no messages to the terminal."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory_bytes
    return options


@dataclass(frozen=True, slots=True, init=False)
class TextSpan:
    """Characters ``start`` to ``stop`` (exclusive) of the text of a file; a large declaration has millions of these."""

    start: int
    length: int

    def __init__(self, start: int, stop: int) -> None:
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "length", stop - start)  # small numbers take no memory of their own

    @property
    def stop(self) -> int:
        """The first character after it."""
        return self.start + self.length


NO_SPAN = TextSpan(0, 0)


class Unit(Enum):
    """Units of a duration."""

    CHRONONS = "CHRONON"
    SECONDS = "SECOND"
    MINUTES = "MINUTE"
    HOURS = "HOUR"
    DAYS = "DAY"
    WEEKS = "WEEK"

    @property
    def seconds(self) -> int | None:
        """Length in seconds; ``None`` for chronons."""
        return _UNIT_SECONDS[self]


_UNIT_SECONDS = {
    Unit.CHRONONS: None,
    Unit.SECONDS: 1,
    Unit.MINUTES: 60,
    Unit.HOURS: 3600,
    Unit.DAYS: 86400,
    Unit.WEEKS: 604800,
}


@dataclass(frozen=True, slots=True)
class Duration:
    """An amount of a unit, kept as written.

    >>> Duration(Decimal(5), Unit.MINUTES).in_seconds(chronon_s=10.0)
    300.0
    >>> Duration(Decimal(10), Unit.CHRONONS).in_seconds(chronon_s=10.0)
    100.0
    """

    amount: Decimal
    unit: Unit

    def in_seconds(self, *, chronon_s: float) -> float:
        """Return the length in seconds."""
        return float(self.amount) * (self.unit.seconds or chronon_s)


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a text, TRUE, FALSE or NULL."""

    value: str | int | Decimal | bool | None
    span: TextSpan = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Column:
    """A field, by its path; ``qualifier`` is a class, an alias, ``OLD`` or ``NEW``.

    After checking, ``path`` is the declared spelling of the full path (for feeds ``channel.item.title``).
    """

    path: str
    qualifier: str | None = None
    span: TextSpan = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Unary:
    """``NOT x`` or ``-x``."""

    operator: str
    operand: Expression
    span: TextSpan = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """Two operands: ``OR AND = <> < <= > >= + - * / % ||``; ``REGEXP`` as well."""

    operator: str
    left: Expression
    right: Expression
    span: TextSpan = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Like:
    """``x [NOT] LIKE pattern [ESCAPE c]``; ``ignores_case`` makes it ILIKE."""

    operand: Expression
    pattern: Expression
    escape: str | None = None
    negated: bool = False
    ignores_case: bool = False
    span: TextSpan = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class InList:
    """``x [NOT] IN (a, b, ...)``."""

    operand: Expression
    options: tuple[Expression, ...]
    negated: bool = False
    span: TextSpan = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Between:
    """``x [NOT] BETWEEN low AND high``."""

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False
    span: TextSpan = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class IsNull:
    """``x IS [NOT] NULL``."""

    operand: Expression
    negated: bool = False
    span: TextSpan = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Case:
    """``CASE [operand] WHEN ... THEN ... [ELSE otherwise] END``; ``results`` are in the order of ``conditions``.

    With an ``operand`` the conditions are the values that it is compared with.
    """

    conditions: tuple[Expression, ...]
    results: tuple[Expression, ...]
    otherwise: Expression | None = None
    operand: Expression | None = None
    span: TextSpan = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar function, its name in upper case."""

    function: str
    arguments: tuple[Expression, ...]
    span: TextSpan = field(default=NO_SPAN, compare=False)


class CastType(Enum):
    """The types that CAST converts to."""

    DECIMAL = "DECIMAL"
    INTEGER = "INTEGER"
    STRING = "STRING"
    TIMESTAMP = "TIMESTAMP"


@dataclass(frozen=True, slots=True)
class Cast:
    """``CAST(operand AS type)``."""

    operand: Expression
    type: CastType
    span: TextSpan = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``COUNT SUM MIN MAX AVG``; ``argument`` is ``None`` for ``COUNT(*)``.

    ``across`` counts the class as one stream (``ACROSS SOURCES``); ``over`` limits it to a window of time.
    """

    function: str
    argument: Expression | None = None
    distinct: bool = False
    where: Expression | None = None
    over: Duration | None = None
    across: bool = False
    span: TextSpan = field(default=NO_SPAN, compare=False)


Expression: TypeAlias = (
    Literal | Column | Unary | Binary | Like | InList | Between | IsNull | Case | Call | Cast | Aggregate
)


@dataclass(frozen=True, slots=True)
class ClassName:
    """A page class, with its domain if that was written."""

    name: str
    domain: str | None = None
    span: TextSpan = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class FromClass:
    """A class in a FROM list; ``over`` reads history; ``on`` is its join condition."""

    page_class: ClassName
    alias: str | None = None
    over: Duration | None = None
    on: Expression | None = None
    left_join: bool = False
    span: TextSpan = field(default=NO_SPAN, compare=False)


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """One column of a SELECT."""

    expression: Expression
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class OrderTerm:
    """One term of ORDER BY. ``nulls_first`` is ``None`` if it was not written."""

    expression: Expression
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class Select:
    """A query. Empty ``columns`` mean ``SELECT *``."""

    columns: tuple[OutputColumn, ...]
    sources: tuple[FromClass, ...]
    distinct: bool = False
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    order_by: tuple[OrderTerm, ...] = ()
    limit: int | None = None
    span: TextSpan = field(default=NO_SPAN, compare=False)


def children(expression: Expression) -> Iterator[Expression]:
    """Yield the operands directly below an expression."""
    for each in fields(expression):
        value = getattr(expression, each.name)
        for child in value if isinstance(value, tuple) else (value,):
            if isinstance(child, Expression):
                yield child


def has_aggregate(expression: Expression) -> bool:
    """Return whether an aggregate occurs anywhere in the expression."""
    waiting = [expression]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Aggregate):
            return True
        waiting.extend(children(each))
    return False


def is_mixed(expression: Expression) -> bool:
    """Return whether an expression has aggregates, and fields outside of them."""
    waiting, has_field = [expression], False
    while waiting:
        each = waiting.pop()
        has_field |= isinstance(each, Column)
        waiting.extend(() if isinstance(each, Aggregate) else children(each))
    return has_field and has_aggregate(expression)


def conjuncts(condition: Expression | None) -> Iterator[Expression]:
    """Yield the conditions that are joined by AND."""
    match condition:
        case None:
            return
        case Binary("AND", left, right):
            yield from conjuncts(left)
            yield from conjuncts(right)
        case _:
            yield condition


def conjunction(*terms: Expression | None) -> Expression | None:
    """Return the conditions joined by AND, or ``None`` if there are none."""
    joined: Expression | None = None
    for term in terms:
        joined = term if joined is None else joined if term is None else Binary("AND", joined, term, joined.span)
    return joined
