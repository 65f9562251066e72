"""Resolves names and checks types in an expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum

import re2

from proxyd.core.language.checking.scope import Scope
from proxyd.core.language.syntax.check_context import Reporter
from proxyd.core.language.syntax.value_checks import Values, read_time
from proxyd.core.language.syntax.words import did_you_mean
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
    TextSpan,
    Unary,
    re2_options,
)
from proxyd.core.model.profile import FieldType


class Family(Enum):
    """Types that can be compared with each other; the value is the family's name in errors."""

    TEXT = "a text"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    TIME = "a time"
    ANY = "any value"


_FAMILIES = {
    FieldType.STRING: Family.TEXT,
    FieldType.URL: Family.TEXT,
    FieldType.INTEGER: Family.NUMBER,
    FieldType.DECIMAL: Family.NUMBER,
    FieldType.BOOLEAN: Family.BOOLEAN,
    FieldType.TIMESTAMP: Family.TIME,
}


def _family_of(type_: FieldType) -> Family:
    """Return the family of a type."""
    return _FAMILIES[type_]


@dataclass(frozen=True, slots=True)
class _Function:
    """The parameters and the result of a function."""

    parameters: tuple[Family, ...]  # families of the arguments; with `variadic` the last one repeats
    required: int  # the least number of arguments
    result: FieldType | None  # type of the result; `None` if it is that of the first argument
    variadic: bool = False

    def takes(self, count: int) -> bool:
        """Return whether it can be called with that many arguments."""
        return self.required <= count and (self.variadic or count <= len(self.parameters))

    def parameter(self, index: int) -> Family:
        """Return the family of the argument at ``index``."""
        return self.parameters[min(index, len(self.parameters) - 1)]


_TEXT, _NUMBER, _ANY = Family.TEXT, Family.NUMBER, Family.ANY
_PART = _Function((Family.TIME, _TEXT), 1, FieldType.INTEGER)

FUNCTIONS: Mapping[str, _Function] = {
    "ABS": _Function((_NUMBER,), 1, None),
    "DAY": _PART,
    "HOUR": _PART,
    "MINUTE": _PART,
    "MONTH": _PART,
    "WEEKDAY": _PART,
    "YEAR": _PART,
    "COALESCE": _Function((_ANY,), 1, None, variadic=True),
    "CHANGED_WORDS": _Function((_TEXT, _TEXT), 2, FieldType.INTEGER),
    "DIFF": _Function((_TEXT, _TEXT), 2, FieldType.STRING),
    "LENGTH": _Function((_TEXT,), 1, FieldType.INTEGER),
    "LOWER": _Function((_TEXT,), 1, FieldType.STRING),
    "NUMBER": _Function((_TEXT, _TEXT), 1, FieldType.DECIMAL),
    "NULLIF": _Function((_ANY, _ANY), 2, None),
    "REGEXP_SUBSTR": _Function((_TEXT, _TEXT), 2, FieldType.STRING),
    "REPLACE": _Function((_TEXT, _TEXT, _TEXT), 3, FieldType.STRING),
    "ROUND": _Function((_NUMBER, _NUMBER), 1, FieldType.DECIMAL),
    "SUBSTR": _Function((_TEXT, _NUMBER, _NUMBER), 2, FieldType.STRING),
    "TRIM": _Function((_TEXT,), 1, FieldType.STRING),
    "UPPER": _Function((_TEXT,), 1, FieldType.STRING),
}
"""By name in capitals. ``SUBSTR`` counts characters from 1; every argument that is null makes the result null, except
for ``COALESCE`` (its first value that is not null) and ``NULLIF``."""


_MAX_PATTERN = 1000
MAX_LIKE = 10_000
_CAST_TYPES = {
    CastType.DECIMAL: FieldType.DECIMAL,
    CastType.INTEGER: FieldType.INTEGER,
    CastType.STRING: FieldType.STRING,
    CastType.TIMESTAMP: FieldType.TIMESTAMP,
}
_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">="})


@dataclass(frozen=True, slots=True)
class _Typed:
    """A resolved expression and its type; ``None`` is the type of NULL, or unknown after an error."""

    expression: Expression
    type: FieldType | None

    @property
    def family(self) -> Family | None:
        """The family of its type."""
        return _family_of(self.type) if self.type is not None else None

    @property
    def span(self) -> TextSpan:
        """The place where it was written."""
        return self.expression.span


class ExpressionChecker:
    """Resolves and types the expressions of one clause.

    Parameters
    ----------
    place
        The clause, as errors name it.
    aggregates
        Whether the clause may contain aggregates.
    in_query
        Whether the clause belongs to a query, not to a trigger.
    """

    def __init__(
        self, scope: Scope, reporter: Reporter, values: Values, *, place: str, aggregates: bool, in_query: bool
    ) -> None:
        self._scope = scope
        self._reporter = reporter
        self._values = values
        self.place = place
        self._aggregates = aggregates
        self._in_query = in_query

    def check(self, expression: Expression) -> _Typed:
        """Return the expression with its names resolved, and its type."""
        match expression:
            case Literal():
                return _Typed(expression, _literal_type(expression.value))
            case Column():
                return _Typed(*self._scope.resolve(expression, self._reporter))
            case Unary() | Binary():
                return self._unary(expression) if isinstance(expression, Unary) else self._binary(expression)
            case Call() | Cast():
                return self._call(expression) if isinstance(expression, Call) else self._cast(expression)
            case Aggregate() | Case():
                return self._aggregate(expression) if isinstance(expression, Aggregate) else self._case(expression)
            case _:
                return self._predicate(expression)

    def condition(self, expression: Expression) -> Expression:
        """Return the resolved condition; report an expression that is not true or false."""
        typed = self.check(expression)
        self._want(typed, Family.BOOLEAN, f"{self.place} takes a condition")
        return typed.expression

    # ---- operators

    def _unary(self, unary: Unary) -> _Typed:
        operand = self.check(unary.operand)
        resolved = replace(unary, operand=operand.expression)
        if unary.operator == "NOT":
            self._want(operand, Family.BOOLEAN, "NOT takes a condition")
            return _Typed(resolved, FieldType.BOOLEAN)
        self._want(operand, Family.NUMBER, "- takes a number")
        return _Typed(resolved, operand.type if operand.family is Family.NUMBER else None)

    def _binary(self, binary: Binary) -> _Typed:
        left, right = self.check(binary.left), self.check(binary.right)
        operator = binary.operator
        if operator in _COMPARISONS:
            left, right = self._comparable([left, right], operator)
        elif operator == "-" and Family.TIME in (left.family, right.family):
            left, right = _as_time(left, self._reporter), _as_time(right, self._reporter)
        resolved = replace(binary, left=left.expression, right=right.expression)
        if operator in ("AND", "OR"):
            for side in (left, right):
                self._want(side, Family.BOOLEAN, f"{operator} takes conditions")
        elif operator == "REGEXP":
            self._want(left, Family.TEXT, "REGEXP takes a text")
            self._regexp(right)
        elif operator == "||":
            for side in (left, right):
                self._want(side, Family.TEXT, "|| joins texts")
            return _Typed(resolved, FieldType.STRING)
        elif operator not in _COMPARISONS:
            return _Typed(resolved, self._arithmetic(binary, left, right))
        return _Typed(resolved, FieldType.BOOLEAN)

    def _arithmetic(self, binary: Binary, left: _Typed, right: _Typed) -> FieldType | None:
        operator = binary.operator
        if operator in ("/", "%") and _is_zero(right.expression):
            self._reporter.error(f"the right side of {operator} must not be 0", right.span)
        if operator in ("+", "-") and Family.TIME in (left.family, right.family):
            return self._time_arithmetic(binary, left, right)
        for side in (left, right):
            self._want(side, Family.NUMBER, f"{operator} takes numbers")
        both_whole = left.type is right.type is FieldType.INTEGER
        return FieldType.INTEGER if both_whole and operator != "/" else FieldType.DECIMAL

    def _time_arithmetic(self, binary: Binary, left: _Typed, right: _Typed) -> FieldType | None:
        """Return the type of time - time (seconds), time + seconds, seconds + time or time - seconds."""
        families = (left.family, right.family)
        if binary.operator == "-" and families == (Family.TIME, Family.TIME):
            return FieldType.DECIMAL
        shifts: list[tuple[Family | None, Family | None]]
        shifts = [(Family.TIME, Family.NUMBER), (Family.TIME, None)]
        if binary.operator == "+":
            shifts += [(Family.NUMBER, Family.TIME), (None, Family.TIME)]
        if families not in shifts:
            self._reporter.error(f"{binary.operator} cannot combine a time and {_shown(left, right)}", binary.span)
            return None
        return FieldType.TIMESTAMP

    def _predicate(self, expression: Like | InList | Between | IsNull) -> _Typed:
        resolved: Expression
        match expression:
            case Like():
                resolved = self._like(expression)
            case InList():
                operands = [self.check(each) for each in (expression.operand, *expression.options)]
                first, *rest = self._comparable(operands, "IN")
                options = tuple(each.expression for each in rest)
                resolved = replace(expression, operand=first.expression, options=options)
            case Between():
                operands = [self.check(each) for each in (expression.operand, expression.low, expression.high)]
                first, low, high = self._comparable(operands, "BETWEEN")
                resolved = replace(expression, operand=first.expression, low=low.expression, high=high.expression)
            case IsNull():
                resolved = replace(expression, operand=self.check(expression.operand).expression)
        return _Typed(resolved, FieldType.BOOLEAN)

    def _like(self, like: Like) -> Like:
        operand, pattern = self.check(like.operand), self.check(like.pattern)
        word = "ILIKE" if like.ignores_case else "LIKE"
        self._want(operand, Family.TEXT, f"{word} takes a text")
        self._want(pattern, Family.TEXT, f"the pattern of {word} is a text")
        text = like.pattern.value if isinstance(like.pattern, Literal) else None
        if isinstance(text, str) and len(text) > MAX_LIKE:
            self._reporter.error(f"the pattern of {word} may have {MAX_LIKE} characters at most", pattern.span)
        elif like.escape is not None and isinstance(text, str) and _ends_in_escape(text, like.escape):
            self._reporter.error(f"the pattern of {word} ends with its ESCAPE character", pattern.span)
        return replace(like, operand=operand.expression, pattern=pattern.expression)

    def _case(self, case: Case) -> _Typed:
        """Return CASE with its results of one kind; texts among times are read as times."""
        operands = [self.check(each) for each in case.conditions]
        operand = None
        if case.operand is not None:
            operand, *operands = self._comparable([self.check(case.operand), *operands], "CASE")
        else:
            for each in operands:
                self._want(each, Family.BOOLEAN, "WHEN takes a condition")
        given = [*case.results, *([] if case.otherwise is None else [case.otherwise])]
        results = self._of_one_kind([self.check(each) for each in given], "CASE cannot give {} and {}")
        expressions = [each.expression for each in results]
        resolved = Case(
            tuple(each.expression for each in operands),
            tuple(expressions[: len(case.results)]),
            None if case.otherwise is None else expressions[-1],
            None if operand is None else operand.expression,
            case.span,
        )
        return _Typed(resolved, _joint_type(results))

    def _regexp(self, pattern: _Typed, word: str = "REGEXP") -> None:
        written = pattern.expression
        if not isinstance(written, Literal) or not isinstance(written.value, str):
            if not (isinstance(written, Column) and pattern.type is None):  # an unknown field is already reported
                self._reporter.error(f"{word} takes its pattern as a text in single quotes", pattern.span)
            return
        if len(written.value) > _MAX_PATTERN:
            self._reporter.error(f"a pattern may have {_MAX_PATTERN} characters at most", pattern.span)
            return
        problem = _pattern_problem(written.value)
        if problem:
            self._reporter.error(f"this pattern is not valid: {problem}", pattern.span)

    # ---- functions and aggregates

    def _call(self, call: Call) -> _Typed:
        arguments = [self.check(each) for each in call.arguments]
        resolved = replace(call, arguments=tuple(each.expression for each in arguments))
        function = FUNCTIONS.get(call.function)
        if function is None:
            suggestion = did_you_mean(call.function, FUNCTIONS) or f" There are {', '.join(sorted(FUNCTIONS))}."
            self._reporter.error(f"there is no function {call.function}.{suggestion}", call.span)
            return _Typed(resolved, None)
        if not function.takes(len(arguments)):
            most = "or more" if function.variadic else f"to {len(function.parameters)}"
            fixed = function.required == len(function.parameters) and not function.variadic
            count = f"{function.required}" if fixed else f"{function.required} {most}"
            plural = "" if count == "1" else "s"
            self._reporter.error(f"{call.function} takes {count} argument{plural}; found {len(arguments)}", call.span)
            return _Typed(resolved, function.result)
        for index, argument in enumerate(arguments):
            self._want(argument, function.parameter(index), f"{call.function} takes")
        if call.function == "NUMBER" and len(arguments) == 2:
            self._language(arguments[1])
        elif call.function == "REGEXP_SUBSTR":
            self._regexp(arguments[1], "REGEXP_SUBSTR")
        if function.parameters[0] is Family.ANY:
            arguments = self._comparable(arguments, call.function)
            resolved = replace(call, arguments=tuple(each.expression for each in arguments))
        first = next((each.type for each in arguments if each.type is not None), None)
        return _Typed(resolved, function.result if function.result is not None else first)

    def _language(self, argument: _Typed) -> None:
        """Report a language that is written out and not known; one that is read gives null."""
        written = argument.expression
        if isinstance(written, Literal) and isinstance(written.value, str):
            self._values.locale(written.value, argument.span)

    def _cast(self, cast: Cast) -> _Typed:
        """Return a checked CAST; true and false cannot become a time."""
        operand = self.check(cast.operand)
        target = _CAST_TYPES[cast.type]
        if target is FieldType.TIMESTAMP and operand.family is Family.BOOLEAN:
            self._reporter.error("CAST cannot make a time of true or false", operand.span)
        return _Typed(replace(cast, operand=operand.expression), target)

    def _aggregate(self, aggregate: Aggregate) -> _Typed:
        if not self._aggregates:
            self._reporter.error(f"{aggregate.function} is not allowed in {self.place}", aggregate.span)
            return _Typed(aggregate, None)
        _check_aggregate_options(aggregate, self._reporter, self._values, in_query=self._in_query)
        argument = self._inside(f"{aggregate.function}(...)").check(aggregate.argument) if aggregate.argument else None
        where = None
        if aggregate.where is not None:
            where = self._inside("FILTER").condition(aggregate.where)
        resolved = replace(aggregate, argument=argument.expression if argument else None, where=where)
        return _Typed(resolved, self._aggregate_type(aggregate.function, argument))

    def _aggregate_type(self, function: str, argument: _Typed | None) -> FieldType | None:
        if function == "COUNT" or argument is None:
            return FieldType.INTEGER
        if function in ("SUM", "AVG"):
            self._want(argument, Family.NUMBER, f"{function} takes")
            return argument.type if function == "SUM" and argument.type is FieldType.INTEGER else FieldType.DECIMAL
        if argument.family is Family.BOOLEAN:
            self._reporter.error(f"{function} takes values that have an order", argument.span)
        return argument.type

    def _inside(self, place: str) -> ExpressionChecker:
        """Return a checker for the inside of an aggregate."""
        return ExpressionChecker(
            self._scope, self._reporter, self._values, place=place, aggregates=False, in_query=self._in_query
        )

    # ---- types

    def _want(self, typed: _Typed, family: Family, what: str) -> None:
        """Report an operand of another family; ``what`` names the operator or function."""
        if typed.family in (None, family) or family is Family.ANY:
            return
        shown = typed.family.value if typed.family else ""
        needs = what if what.rpartition(" ")[2] != "takes" else f"{what} {family.value}"
        self._reporter.error(f"{needs}; this is {shown}", typed.span)

    def _comparable(self, operands: Sequence[_Typed], operator: str) -> list[_Typed]:
        """Return the operands, with texts read as times if others are times; report those that cannot be compared."""
        return self._of_one_kind(operands, f"{operator} cannot compare {{}} with {{}}")

    def _of_one_kind(self, operands: Sequence[_Typed], message: str) -> list[_Typed]:
        """Return the operands; ``message`` reports the first one of another kind, and takes the names of both."""
        if any(each.family is Family.TIME for each in operands):
            operands = [_as_time(each, self._reporter) for each in operands]
        known = [each for each in operands if each.family is not None]
        for each in known[1:]:
            if each.family is not known[0].family:
                first, other = known[0].family, each.family
                assert first is not None
                assert other is not None
                self._reporter.error(message.format(first.value, other.value), each.span)
                break
        return list(operands)


def _as_time(typed: _Typed, reporter: Reporter) -> _Typed:
    """Return a text as the time that it is; other values as they are."""
    literal = typed.expression
    if not isinstance(literal, Literal) or not isinstance(literal.value, str):
        return typed
    seconds = read_time(literal.value)
    if seconds is None:
        reporter.error(f"{literal.value!r} is not an ISO 8601 time", typed.span)
        return _Typed(literal, None)
    return _Typed(Literal(Decimal(repr(seconds)), literal.span), FieldType.TIMESTAMP)


def _pattern_problem(pattern: str) -> str | None:
    """Return why re2 rejects a regular expression, or ``None``."""
    try:
        re2.compile(pattern, re2_options())
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
    except UnicodeEncodeError:
        return "it contains an unpaired surrogate"
    return None


def _joint_type(operands: Sequence[_Typed]) -> FieldType | None:
    """Return the type that holds the values of all operands; ``None`` if there is none, or nothing but NULL."""
    types = {each.type for each in operands if each.type is not None}
    families = {_family_of(each) for each in types}
    if len(types) < 2:
        return next(iter(types), None)
    joint = {Family.NUMBER: FieldType.DECIMAL, Family.TEXT: FieldType.STRING}
    return joint.get(families.pop()) if len(families) == 1 else None


def _shown(left: _Typed, right: _Typed) -> str:
    other = right if left.family is Family.TIME else left
    return other.family.value if other.family else Family.ANY.value


def _literal_type(value: str | int | Decimal | bool | None) -> FieldType | None:
    if isinstance(value, bool):
        return FieldType.BOOLEAN
    if isinstance(value, int):
        return FieldType.INTEGER
    if isinstance(value, Decimal):
        return FieldType.DECIMAL
    return FieldType.STRING if isinstance(value, str) else None


def _is_zero(expression: Expression) -> bool:
    while isinstance(expression, Unary) and expression.operator == "-":
        expression = expression.operand
    return isinstance(expression, Literal) and expression.value is not None and expression.value == 0


def _ends_in_escape(pattern: str, escape: str) -> bool:
    at = 0
    while at < len(pattern):
        if pattern[at] == escape:
            if at == len(pattern) - 1:
                return True
            at += 1
        at += 1
    return False


def _check_aggregate_options(aggregate: Aggregate, reporter: Reporter, values: Values, *, in_query: bool) -> None:
    """Report options that do not fit."""
    span = aggregate.span
    if in_query:
        if aggregate.over is not None:
            reporter.error("in a query, OVER follows a class in FROM, as in FROM RSS OVER 7 DAYS", span)
        if aggregate.across:
            reporter.error("ACROSS SOURCES is only allowed in triggers", span)
    else:
        values.durations([("OVER", aggregate.over)], span)
