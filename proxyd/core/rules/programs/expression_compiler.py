"""Compiles expressions to closures with SQL's three-valued logic; ``None`` is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial, singledispatchmethod
from types import MappingProxyType
from typing import TypeAlias

from proxyd.core.model.chronon import all_zones
from proxyd.core.model.expression import (
    Aggregate,
    Between,
    Binary,
    Call,
    Case,
    Cast,
    CastType,
    Column,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Unary,
    children,
)
from proxyd.core.model.field_values import coerce, is_equal, is_less, parse_iso
from proxyd.core.model.item import EventKind, UpdateEvent, Value
from proxyd.core.model.numbers import plain_number, read_number
from proxyd.core.model.profile import PROBE_FIELDS, FieldType, PageClass
from proxyd.core.rules.programs.function_values import (
    ARITHMETIC,
    FUNCTIONS,
    PARTS_OF_TIMES,
    READINGS,
    STEPS,
    Regex,
    arithmetic,
    cast,
    count_word_changes,
    diff,
    like_matcher,
    like_read,
    number,
)
from proxyd.core.rules.programs.meter import UNMETERED, Meter, check_length

_STEPS_PER_OPERATOR = 2
_STEPS_PER_NUMBER = 400  # to read one as people write it
_NUMERIC = frozenset({FieldType.INTEGER, FieldType.DECIMAL})
NO_FIELDS: Mapping[str, Value] = MappingProxyType({})
_NO_TABLES: Mapping[str, Mapping[str, Value]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Row:
    """The values that an expression reads."""

    fields: Mapping[str, Value]  # the fields of the only class, by lower-case path
    aggregates: Sequence[Value] = ()  # the values of the aggregates, in the compiler's order
    # ``new``, ``old``: the fields of the event after and before it; empty if there is no such state
    new: Mapping[str, Value] = field(default_factory=lambda: NO_FIELDS)
    old: Mapping[str, Value] = field(default_factory=lambda: NO_FIELDS)
    # the fields of several classes, by class name or alias
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


def _count_steps(closure: Closure, steps: int) -> Closure:
    def evaluate(row: Row) -> Value:
        row.meter.spend(steps)
        return closure(row)

    return evaluate


class Compiler:
    """Turns checked expressions into closures.

    ``aggregates`` collects the distinct aggregates, and at which place ``Row.aggregates`` must hold each. ``paths``
    and ``old_paths`` collect the lower-case paths of the fields that are read from items and from their old states.
    """

    def __init__(
        self,
        event_class: PageClass,  # of OLD and NEW, and of all fields if there are no ``tables``
        tables: Mapping[str, PageClass] = MappingProxyType({}),  # by name or alias, if an expression reads several
        own_class: PageClass | None = None,  # of unqualified fields, if it differs from the event's
        mark: str | None = None,  # the decimal mark where a number is ambiguous, by the LOCALE of the rule's sources
    ) -> None:
        self._mark = mark
        self._event_types = _types(event_class)
        self._own_types = _types(own_class or event_class)
        self._table_types = {name: _types(page_class) for name, page_class in tables.items()}
        self.aggregates: dict[Aggregate, int] = {}
        self.paths: set[str] = set()
        self.old_paths: set[str] = set()

    def compile(self, expression: Expression) -> Closure:
        """Return a closure from a row to the expression's value; it counts each of its operators as evaluated."""
        return _count_steps(self._closure(expression), _size(expression))

    def compile_optional(self, expression: Expression | None) -> Closure | None:
        """Return the closure of an expression that a rule may leave out."""
        return None if expression is None else self.compile(expression)

    def compile_sides(self, left: Expression, right: Expression) -> tuple[Closure, Closure]:
        """Return closures to the values that the two sides of a comparison compare; they count as ``compile`` does."""
        one, other = self._operands(left, right)
        return _count_steps(one, _size(left)), _count_steps(other, _size(right))

    @singledispatchmethod
    def _closure(self, expression: Expression) -> Closure:
        raise TypeError(f"{type(expression).__name__} is not an expression")

    @_closure.register
    def _constant(self, node: Literal) -> Closure:
        return self._literal(node.value)

    def _literal(self, value: str | float | Decimal | None) -> Closure:
        plain: Value = float(value) if isinstance(value, Decimal) else value
        return lambda row: plain

    @_closure.register
    def _column(self, node: Column) -> Closure:
        path, name = node.path.lower(), node.qualifier
        read = partial(_read, path=path, field_type=self.type_of(node), mark=self._mark)
        if name == "OLD":
            self.old_paths.add(path)
            return lambda row: read(row, row.old)
        self.paths.add(path)
        if name == "NEW":
            return lambda row: read(row, row.new)
        if name in self._table_types:
            return lambda row: read(row, row.tables[name])
        return lambda row: read(row, row.fields)

    def type_of(self, node: Column) -> FieldType:
        """Return the declared type of a field."""
        is_event = node.qualifier in {"OLD", "NEW"}
        types = self._event_types if is_event else self._table_types.get(node.qualifier or "", self._own_types)
        return types.get(node.path.lower(), FieldType.STRING)

    @_closure.register
    def _aggregate(self, aggregate: Aggregate) -> Closure:
        index = self.aggregates.setdefault(aggregate, len(self.aggregates))
        return lambda row: row.aggregates[index]

    @_closure.register
    def _unary(self, node: Unary) -> Closure:
        operand = self._closure(node.operand)
        if node.operator.upper() == "NOT":
            return lambda row: _not(operand(row))
        return lambda row: _negative(operand(row))

    @_closure.register
    def _binary(self, node: Binary) -> Closure:
        operator = node.operator.upper()
        if operator == "REGEXP":
            return self._regexp(node)
        left, right = self._operands(node.left, node.right)
        if operator == "AND":
            return lambda row: _and(left(row), right, row)
        if operator == "OR":
            return lambda row: _or(left(row), right, row)
        if operator == "||":
            return lambda row: _made(row, _null_or(_join_texts, left(row), right(row)))
        function = _BINARY[operator]
        if operator in ARITHMETIC:
            return lambda row: _null_or(function, left(row), right(row))

        def compare(row: Row) -> Value:
            one, other = left(row), right(row)
            row.meter.compare(one, other)
            return _null_or(function, one, other)

        return compare

    def _regexp_substr(self, node: Call) -> Closure:
        operand, regex = self._closure(node.arguments[0]), _written_regex(node.arguments[1])

        def found(row: Row) -> Value:
            text = operand(row)
            return None if text is None else _made(row, regex.found(str(text), row.meter))

        return found

    def _regexp(self, node: Binary) -> Closure:
        operand, regex = self._closure(node.left), _written_regex(node.right)

        def regexp(row: Row) -> Value:
            text = operand(row)
            return None if text is None else regex.matches(str(text), row.meter)

        return regexp

    def _operands(self, *nodes: Expression) -> list[Closure]:
        """Compile the operands of a comparison; a text compared with a Timestamp is read as ISO 8601."""
        timestamps = any(isinstance(n, Column) and self.type_of(n) is FieldType.TIMESTAMP for n in nodes)
        return [
            self._literal(parse_iso(n.value))
            if timestamps and isinstance(n, Literal) and isinstance(n.value, str)
            else self._closure(n)
            for n in nodes
        ]

    @_closure.register
    def _like(self, node: Like) -> Closure:
        operand, pattern = self._closure(node.operand), self._closure(node.pattern)
        escape, ignores_case = node.escape, node.ignores_case
        written = node.pattern.value if isinstance(node.pattern, Literal) else None
        fixed = like_matcher(written, escape=escape, ignores_case=ignores_case) if isinstance(written, str) else None

        def like(row: Row) -> Value:
            text, like_text = operand(row), pattern(row)
            if text is None or like_text is None:
                return None
            if fixed is not None:
                return fixed(str(text), row.meter) != node.negated
            found = like_read(str(like_text), str(text), row.meter, escape=escape, ignores_case=ignores_case)
            return found != node.negated

        return like

    @_closure.register
    def _case(self, node: Case) -> Closure:
        results = [self._closure(each) for each in node.results]
        otherwise = self._literal(None) if node.otherwise is None else self._closure(node.otherwise)
        if node.operand is None:
            tests = [self._closure(each) for each in node.conditions]
            pairs = list(zip(tests, results, strict=True))
            return lambda row: next((result for test, result in pairs if is_true(test(row))), otherwise)(row)
        operand, *values = self._operands(node.operand, *node.conditions)
        pairs = list(zip(values, results, strict=True))

        def simple_case(row: Row) -> Value:
            value = operand(row)
            found = (result for each, result in pairs if is_true(_null_or(is_equal, value, each(row))))
            _weigh(row, value, len(pairs))
            return next(found, otherwise)(row)

        return simple_case

    @_closure.register
    def _in(self, node: InList) -> Closure:
        operand, *options = self._operands(node.operand, *node.options)

        def is_in(row: Row) -> Value:
            value = operand(row)
            _weigh(row, value, len(options))
            return _negate_if(node.negated, _in(value, [option(row) for option in options]))

        return is_in

    @_closure.register
    def _between(self, node: Between) -> Closure:
        operand, low, high = self._operands(node.operand, node.low, node.high)

        def between(row: Row) -> Value:
            value = operand(row)
            _weigh(row, value, 2)
            above = _null_or(_BINARY[">="], value, low(row))
            inside = _and(above, lambda row: _null_or(_BINARY["<="], value, high(row)), row)
            return _negate_if(node.negated, inside)

        return between

    @_closure.register
    def _is_null(self, node: IsNull) -> Closure:
        operand, negated = self._closure(node.operand), node.negated
        return lambda row: (operand(row) is None) != negated

    @_closure.register
    def _call(self, node: Call) -> Closure:
        arguments = [self._closure(argument) for argument in node.arguments]
        name = node.function.upper()
        if name in {"DIFF", "CHANGED_WORDS"}:
            old, new = arguments
            compare = diff if name == "DIFF" else count_word_changes
            return lambda row: _made(row, compare(old(row), new(row), row.meter))
        if name == "NUMBER":
            return self._number(arguments)
        if name == "REGEXP_SUBSTR":
            return self._regexp_substr(node)
        function, readings, steps = FUNCTIONS[name], READINGS.get(name, 1), STEPS.get(name, 0)
        if name in PARTS_OF_TIMES and len(arguments) > 1:
            all_zones()  # reads files

        def call(row: Row) -> Value:
            values = [argument(row) for argument in arguments]
            row.meter.scan(readings * sum(len(value) for value in values if isinstance(value, str)))
            if steps:
                row.meter.spend(steps)
            return _made(row, function(*values))

        return call

    def _number(self, arguments: Sequence[Closure]) -> Closure:
        mark = self._mark

        def read(row: Row) -> Value:
            text, *language = (argument(row) for argument in arguments)
            _weigh_number(row, text)
            return number(text, *language, mark=mark) if None not in language else None

        return read

    @_closure.register
    def _cast(self, node: Cast) -> Closure:
        operand, target, mark = self._closure(node.operand), node.type, self._mark
        is_time = self.is_time(node.operand)

        def convert(row: Row) -> Value:
            value = operand(row)
            _weigh_number(row, value)
            return row.meter.made(cast(value, target, is_time=is_time, mark=mark))

        return convert

    def is_time(self, expression: Expression) -> bool:
        """Return whether a value is a time, and is shown as one."""
        match expression:
            case Column():
                return self.type_of(expression) is FieldType.TIMESTAMP
            case Cast():
                return expression.type is CastType.TIMESTAMP
            case Aggregate("MIN" | "MAX", first) | Call("COALESCE" | "NULLIF", (first, *_)) if first is not None:
                return self.is_time(first)
            case Case(_, results, otherwise):
                return any(self.is_time(each) for each in (*results, otherwise) if each is not None)
            case Binary("+" | "-", left, right):
                return self.is_time(left) != self.is_time(right)
        return False


def _written_regex(pattern: Expression) -> Regex:
    if not isinstance(pattern, Literal):
        raise TypeError("the pattern of a regular expression is written in the rule")
    return Regex(str(pattern.value))


def columns_of(expression: Expression) -> Iterator[Column]:
    """Yield the columns that an expression names."""
    if isinstance(expression, Column):
        yield expression
    for child in children(expression):
        yield from columns_of(child)


def qualifiers_of(expression: Expression) -> set[str | None]:
    """Return the names before the columns of an expression."""
    return {each.qualifier for each in columns_of(expression)}


def _size(expression: Expression) -> int:
    return _STEPS_PER_OPERATOR + sum(_size(each) for each in children(expression))


def _read(row: Row, fields: Mapping[str, Value], *, path: str, field_type: FieldType, mark: str | None = None) -> Value:
    value = fields.get(path)
    if isinstance(value, str) and field_type is not FieldType.STRING:
        row.meter.scan(len(value))
        if field_type in _NUMERIC:
            return coerce(value, field_type, read_number=partial(_read_number, row, mark))
    return coerce(value, field_type, path=path)


def _read_number(row: Row, mark: str | None, text: str) -> float | int | None:
    """Return the number in a text of a feed, which costs much more than a plain number."""
    if plain_number(text) is None:
        row.meter.spend(_STEPS_PER_NUMBER)
    return read_number(text, mark)


def _weigh_number(row: Row, value: Value) -> None:
    if isinstance(value, str):
        row.meter.scan(len(value))
        row.meter.spend(_STEPS_PER_NUMBER)


def _made(row: Row, value: Value) -> Value:
    if isinstance(value, str):
        row.meter.scan(len(value))
    return row.meter.made(value)


def _weigh(row: Row, value: Value, times: int) -> None:
    """Count the comparisons of a value with so many others."""
    if isinstance(value, str):
        row.meter.weigh(len(value) * times)


def _types(page_class: PageClass) -> dict[str, FieldType]:
    of_probe = {path: field.type for path, field in PROBE_FIELDS.items()}
    return of_probe | {field.path.lower(): field.type for field in page_class.fields}


def is_true(value: Value) -> bool:
    """Return whether a condition holds; an unknown condition does not.

    >>> is_true(True), is_true(None), is_true(0)
    (True, False, False)
    """
    return bool(value) if value is not None else False


def _not(value: Value) -> Value:
    return None if value is None else not value


def _negate_if(negated: bool, value: Value) -> Value:
    return _not(value) if negated else value


def _and(left: Value, right: Closure, row: Row) -> Value:
    if left is not None and not left:
        return False
    other = right(row)
    if other is not None and not other:
        return False
    return None if left is None or other is None else True


def _or(left: Value, right: Closure, row: Row) -> Value:
    if left:
        return True
    other = right(row)
    if other:
        return True
    return None if left is None or other is None else False


def _null_or(function: Callable[[Value, Value], Value], left: Value, right: Value) -> Value:
    return None if left is None or right is None else function(left, right)


def _join_texts(left: Value, right: Value) -> Value:
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


_BINARY: Mapping[str, Callable[[Value, Value], Value]] = {
    "=": is_equal,
    "<>": lambda a, b: not is_equal(a, b),
    "!=": lambda a, b: not is_equal(a, b),
    "<": is_less,
    ">": lambda a, b: is_less(b, a),
    "<=": lambda a, b: not is_less(b, a),
    ">=": lambda a, b: not is_less(a, b),
    **{op: partial(arithmetic, op) for op in ARITHMETIC},
}
