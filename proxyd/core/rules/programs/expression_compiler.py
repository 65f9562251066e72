"""Compiles expressions to closures with SQL's three-valued logic; ``None`` is unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial, singledispatchmethod
from math import isfinite
from types import MappingProxyType
from typing import TypeAlias

import re2

from proxyd.core.model.expression import (
    Aggregate,
    Between,
    Binary,
    Call,
    Case,
    Column,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Unary,
)
from proxyd.core.model.field_values import coerce, is_equal, is_less, parse_iso
from proxyd.core.model.item import EventKind, UpdateEvent, Value
from proxyd.core.model.profile import FieldType, PageClass
from proxyd.core.rules.programs.like_patterns import like_matcher
from proxyd.core.rules.programs.meter import UNMETERED, Meter, check_length
from proxyd.core.rules.programs.scalar_functions import FUNCTIONS

NO_FIELDS: Mapping[str, Value] = MappingProxyType({})
_NO_TABLES: Mapping[str, Mapping[str, Value]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Row:
    """The values that an expression reads.

    Parameters
    ----------
    fields
        The fields of the only class, by lower-case path.
    aggregates
        The values of the aggregates, in the compiler's order.
    new, old
        The fields of the event after and before it; empty if there is no such state.
    tables
        The fields of several classes, by class name or alias.
    meter
        Limits the texts that expressions make of them.
    """

    fields: Mapping[str, Value]
    aggregates: Sequence[Value] = ()
    new: Mapping[str, Value] = field(default_factory=lambda: NO_FIELDS)
    old: Mapping[str, Value] = field(default_factory=lambda: NO_FIELDS)
    tables: Mapping[str, Mapping[str, Value]] = field(default_factory=lambda: _NO_TABLES)
    meter: Meter = UNMETERED

    @classmethod
    def of(cls, event: UpdateEvent, fields: Mapping[str, Value] | None = None, meter: Meter = UNMETERED) -> Row:
        """Return the row of an event, or of other ``fields`` that are evaluated because of it."""
        is_gone = event.kind is EventKind.DELETE
        before = event.item if is_gone else event.old
        return cls(
            event.item.fields if fields is None else fields,
            new=NO_FIELDS if is_gone else event.item.fields,
            old=NO_FIELDS if before is None else before.fields,
            meter=meter,
        )


Closure: TypeAlias = Callable[[Row], Value]


class Compiler:
    """Turns checked expressions into closures.

    ``aggregates`` collects the distinct aggregates in the order in which ``Row.aggregates`` must hold them. ``paths``
    and ``old_paths`` collect the lower-case paths of the fields that are read from items and from their old states.

    Parameters
    ----------
    event_class
        The class of the event: of ``OLD`` and ``NEW``, and of all fields if there are no ``tables``.
    tables
        The classes by name or alias, if an expression reads several.
    own_class
        The class of unqualified fields, if it differs from the event's.
    """

    def __init__(
        self,
        event_class: PageClass,
        tables: Mapping[str, PageClass] = MappingProxyType({}),
        own_class: PageClass | None = None,
    ) -> None:
        self._event_types = _types(event_class)
        self._own_types = _types(own_class or event_class)
        self._table_types = {name: _types(page_class) for name, page_class in tables.items()}
        self.aggregates: list[Aggregate] = []
        self.paths: set[str] = set()
        self.old_paths: set[str] = set()

    @singledispatchmethod
    def compile(self, expression: Expression) -> Closure:
        """Return a closure from a row to the expression's value."""
        raise TypeError(f"{type(expression).__name__} is not an expression")

    @compile.register
    def _constant(self, node: Literal) -> Closure:
        return self._literal(node.value)

    def _literal(self, value: str | float | Decimal | None) -> Closure:
        plain: Value = float(value) if isinstance(value, Decimal) else value
        return lambda row: plain

    @compile.register
    def _column(self, node: Column) -> Closure:
        path, field_type, name = node.path.lower(), self.type_of(node), node.qualifier
        if name == "OLD":
            self.old_paths.add(path)
            return lambda row: coerce(row.old.get(path), field_type, path=path)
        self.paths.add(path)
        if name == "NEW":
            return lambda row: coerce(row.new.get(path), field_type, path=path)
        if name in self._table_types:
            return lambda row: coerce(row.tables[name].get(path), field_type, path=path)
        return lambda row: coerce(row.fields.get(path), field_type, path=path)

    def type_of(self, node: Column) -> FieldType:
        """Return the declared type of a field."""
        is_event = node.qualifier in {"OLD", "NEW"}
        types = self._event_types if is_event else self._table_types.get(node.qualifier or "", self._own_types)
        return types.get(node.path.lower(), FieldType.STRING)

    @compile.register
    def _aggregate(self, aggregate: Aggregate) -> Closure:
        if aggregate not in self.aggregates:
            self.aggregates.append(aggregate)
        index = self.aggregates.index(aggregate)
        return lambda row: row.aggregates[index]

    @compile.register
    def _unary(self, node: Unary) -> Closure:
        operand = self.compile(node.operand)
        if node.operator.upper() == "NOT":
            return lambda row: _not(operand(row))
        return lambda row: _negative(operand(row))

    @compile.register
    def _binary(self, node: Binary) -> Closure:
        operator = node.operator.upper()
        if operator == "REGEXP" and isinstance(node.right, Literal):
            return _regexp(self.compile(node.left), str(node.right.value))
        left, right = self._operands(node.left, node.right)
        if operator == "AND":
            return lambda row: _and(left(row), lambda: right(row))
        if operator == "OR":
            return lambda row: _not(_and(_not(left(row)), lambda: _not(right(row))))
        if operator == "||":
            return lambda row: row.meter.made(_null_or(_joined, left(row), right(row)))
        function = _BINARY[operator]
        return lambda row: _null_or(function, left(row), right(row))

    def _operands(self, *nodes: Expression) -> list[Closure]:
        """Compile the operands of a comparison; a text compared with a Timestamp is read as ISO 8601."""
        timestamps = any(isinstance(n, Column) and self.type_of(n) is FieldType.TIMESTAMP for n in nodes)
        return [
            self._literal(parse_iso(n.value))
            if timestamps and isinstance(n, Literal) and isinstance(n.value, str)
            else self.compile(n)
            for n in nodes
        ]

    @compile.register
    def _like(self, node: Like) -> Closure:
        operand, pattern = self.compile(node.operand), self.compile(node.pattern)
        match_like = partial(like_matcher, escape=node.escape, ignores_case=node.ignores_case)
        written = node.pattern.value if isinstance(node.pattern, Literal) else None
        fixed = match_like(written) if isinstance(written, str) else None

        def like(row: Row) -> Value:
            text, like_text = operand(row), pattern(row)
            if text is None or like_text is None:
                return None
            return (fixed or match_like(str(like_text)))(str(text)) != node.negated

        return like

    @compile.register
    def _case(self, node: Case) -> Closure:
        results = [self.compile(each) for each in node.results]
        otherwise = _unknown if node.otherwise is None else self.compile(node.otherwise)
        if node.operand is None:
            tests = [self.compile(each) for each in node.conditions]
            pairs = list(zip(tests, results, strict=True))
            return lambda row: next((result for test, result in pairs if is_true(test(row))), otherwise)(row)
        operand, *values = self._operands(node.operand, *node.conditions)
        pairs = list(zip(values, results, strict=True))

        def simple_case(row: Row) -> Value:
            value = operand(row)
            found = (result for each, result in pairs if is_true(_null_or(is_equal, value, each(row))))
            return next(found, otherwise)(row)

        return simple_case

    @compile.register
    def _in(self, node: InList) -> Closure:
        operand, *options = self._operands(node.operand, *node.options)
        return lambda row: _negate_if(node.negated, _in(operand(row), [option(row) for option in options]))

    @compile.register
    def _between(self, node: Between) -> Closure:
        operand, low, high = self._operands(node.operand, node.low, node.high)

        def between(row: Row) -> Value:
            value = operand(row)
            inside = _and(_null_or(_BINARY[">="], value, low(row)), lambda: _null_or(_BINARY["<="], value, high(row)))
            return _negate_if(node.negated, inside)

        return between

    @compile.register
    def _is_null(self, node: IsNull) -> Closure:
        operand, negated = self.compile(node.operand), node.negated
        return lambda row: (operand(row) is None) != negated

    @compile.register
    def _call(self, node: Call) -> Closure:
        function = FUNCTIONS[node.function.upper()]
        arguments = [self.compile(argument) for argument in node.arguments]
        return lambda row: row.meter.made(function(*(argument(row) for argument in arguments)))


def _types(page_class: PageClass) -> dict[str, FieldType]:
    return {field.path.lower(): field.type for field in page_class.fields}


def is_true(value: Value) -> bool:
    """Return whether a condition holds; an unknown condition does not.

    >>> is_true(True), is_true(None), is_true(0)
    (True, False, False)
    """
    return bool(value) if value is not None else False


def _unknown(_row: Row) -> Value:
    return None


def _not(value: Value) -> Value:
    return None if value is None else not value


def _negate_if(negated: bool, value: Value) -> Value:
    return _not(value) if negated else value


def _and(left: Value, right: Callable[[], Value]) -> Value:
    if left is not None and not left:
        return False
    other = right()
    if other is not None and not other:
        return False
    return None if left is None or other is None else True


def _null_or(function: Callable[[Value, Value], Value], left: Value, right: Value) -> Value:
    return None if left is None or right is None else function(left, right)


def _joined(left: Value, right: Value) -> Value:
    one, other = str(left), str(right)
    check_length(len(one) + len(other), one, other)
    return one + other


def _negative(value: Value) -> Value:
    return -value if isinstance(value, int | float) else None


def _in(value: Value, options: Sequence[Value]) -> Value:
    if value is None:
        return None
    if any(option is not None and is_equal(value, option) for option in options):
        return True
    return None if any(option is None for option in options) else False


def _arithmetic(operator: str, left: Value, right: Value) -> Value:
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return None
    if operator in "/%" and right == 0:
        return None
    try:
        result = _ARITHMETIC[operator](left, right)
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


_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": _remainder,
}


_BINARY: Mapping[str, Callable[[Value, Value], Value]] = {
    "=": is_equal,
    "<>": lambda a, b: not is_equal(a, b),
    "!=": lambda a, b: not is_equal(a, b),
    "<": is_less,
    ">": lambda a, b: is_less(b, a),
    "<=": lambda a, b: not is_less(b, a),
    ">=": lambda a, b: not is_less(a, b),
    "REGEXP": lambda a, b: re2.search(str(b), str(a)) is not None,
    **{op: partial(_arithmetic, op) for op in _ARITHMETIC},
}


def _regexp(operand: Closure, pattern: str) -> Closure:
    compiled = re2.compile(pattern)

    def regexp(row: Row) -> Value:
        value = operand(row)
        return None if value is None else compiled.search(str(value)) is not None

    return regexp
