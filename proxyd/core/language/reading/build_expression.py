"""Turns trees of expressions, queries and triggers into nodes of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

from lark import Token, v_args
from lark.tree import Meta
from lark.visitors import Transformer_NonRecursive

from proxyd.core.language.reading.pieces import Complaint
from proxyd.core.model.expression import (
    Aggregate,
    Between,
    Binary,
    Call,
    ClassName,
    Column,
    Duration,
    Expression,
    FromClass,
    InList,
    IsNull,
    Like,
    Literal,
    OrderTerm,
    OutputColumn,
    Select,
    TextSpan,
    Unary,
    Unit,
)
from proxyd.core.model.item import EventKind
from proxyd.core.model.profile import Trigger


class BuildError(Exception):
    """A piece that the grammar accepts but whose words have no meaning."""

    def __init__(self, complaint: Complaint) -> None:
        super().__init__(complaint.message)
        self.complaint = complaint


@dataclass(frozen=True, slots=True)
class Part:
    """One optional part of a query or aggregate, by the attribute it sets."""

    name: str
    value: Any


def refuse(message: str, span: TextSpan) -> NoReturn:
    """Raise an error that becomes the piece's complaint."""
    raise BuildError(Complaint(message, span.start, span.stop))


def span_of(meta: Meta) -> TextSpan:
    """Return the characters that a tree covers."""
    return TextSpan(meta.start_pos, meta.end_pos)


def token_span(token: Token) -> TextSpan:
    """Return the characters of a token."""
    return TextSpan(token.start_pos or 0, token.end_pos or 0)


def number(token: Token) -> int | Decimal:
    """Return the value of a number; it is an int if it is written without a point."""
    return int(token.value) if token.value.isdigit() else Decimal(token.value)


def whole(token: Token, what: str) -> int:
    """Return a whole number, or reject the token as ``what``."""
    value = number(token)
    if not isinstance(value, int):
        refuse(f"{what} is a whole number; found {token.value}", token_span(token))
    return value


def _parts(children: Sequence[Any]) -> dict[str, Any]:
    return {child.name: child.value for child in children if isinstance(child, Part)}


@v_args(meta=True)
class ExpressionBuilder(Transformer_NonRecursive[Token, Any]):
    """Builds the contents of QUERY and TRIGGER."""

    def path(self, meta: Meta, children: list[Token]) -> Column:
        """Return a path as written, with qualifiers; only the checker can tell them apart."""
        for token in children:
            if not all(token.value.split(".")):
                refuse("a name cannot be empty", token_span(token))
        return Column(".".join(token.value for token in children), None, span_of(meta))

    def class_name(self, meta: Meta, children: list[Token]) -> ClassName:
        """Return ``CLASS`` or ``"Domain".CLASS``."""
        for token in children:
            if not token.value:
                refuse("a name cannot be empty", token_span(token))
        domain = children[0].value if len(children) == 2 else None
        return ClassName(children[-1].value, domain, span_of(meta))

    def duration(self, meta: Meta, children: list[Any]) -> Duration:
        """Return an amount of a unit, CHRONONS if no unit is given."""
        return Duration(Decimal(children[0].value), children[1] if len(children) == 2 else Unit.CHRONONS)

    def unit(self, meta: Meta, children: list[Token]) -> Unit:
        """Return the unit that a keyword names."""
        return Unit(children[0].type)

    # ---- operators

    def _operator(self, meta: Meta, children: list[Token]) -> str:
        return "<>" if children[0].value == "!=" else str(children[0].value)

    comparison = add_operator = multiply_operator = _operator

    def binary(self, meta: Meta, children: list[Any]) -> Binary:
        """Return ``left operator right``."""
        left, operator, right = children
        return Binary(operator, left, right, span_of(meta))

    def disjoin(self, meta: Meta, children: list[Expression]) -> Binary:
        """Return ``left OR right``."""
        return Binary("OR", children[0], children[1], span_of(meta))

    def conjoin(self, meta: Meta, children: list[Expression]) -> Binary:
        """Return ``left AND right``."""
        return Binary("AND", children[0], children[1], span_of(meta))

    def negate(self, meta: Meta, children: list[Expression]) -> Unary:
        """Return ``NOT x``."""
        return Unary("NOT", children[0], span_of(meta))

    def minus(self, meta: Meta, children: list[Expression]) -> Unary:
        """Return ``-x``."""
        return Unary("-", children[0], span_of(meta))

    def plus(self, meta: Meta, children: list[Expression]) -> Expression:
        """Return ``x``; a leading plus has no effect."""
        return children[0]

    def regexp(self, meta: Meta, children: list[Expression]) -> Binary:
        """Return ``x REGEXP pattern``."""
        return Binary("REGEXP", children[0], children[1], span_of(meta))

    def not_regexp(self, meta: Meta, children: list[Expression]) -> Unary:
        """Return ``NOT x REGEXP pattern``."""
        return Unary("NOT", self.regexp(meta, children), span_of(meta))

    def escape(self, meta: Meta, children: list[Token]) -> Part:
        """Return the character after ESCAPE."""
        if len(children[0].value) != 1:
            refuse("ESCAPE takes one character", token_span(children[0]))
        return Part("escape", children[0].value)

    def _like(self, meta: Meta, children: list[Any], *, negated: bool) -> Like:
        escape = _parts(children).get("escape")
        return Like(children[0], children[1], escape, negated, span_of(meta))

    def like(self, meta: Meta, children: list[Any]) -> Like:
        """Return ``x LIKE pattern``."""
        return self._like(meta, children, negated=False)

    def not_like(self, meta: Meta, children: list[Any]) -> Like:
        """Return ``x NOT LIKE pattern``."""
        return self._like(meta, children, negated=True)

    def in_list(self, meta: Meta, children: list[Expression]) -> InList:
        """Return ``x IN (...)``."""
        return InList(children[0], tuple(children[1:]), negated=False, span=span_of(meta))

    def not_in_list(self, meta: Meta, children: list[Expression]) -> InList:
        """Return ``x NOT IN (...)``."""
        return InList(children[0], tuple(children[1:]), negated=True, span=span_of(meta))

    def between(self, meta: Meta, children: list[Expression]) -> Between:
        """Return ``x BETWEEN low AND high``."""
        return Between(children[0], children[1], children[2], negated=False, span=span_of(meta))

    def not_between(self, meta: Meta, children: list[Expression]) -> Between:
        """Return ``x NOT BETWEEN low AND high``."""
        return Between(children[0], children[1], children[2], negated=True, span=span_of(meta))

    def is_null(self, meta: Meta, children: list[Expression]) -> IsNull:
        """Return ``x IS NULL``."""
        return IsNull(children[0], negated=False, span=span_of(meta))

    def is_not_null(self, meta: Meta, children: list[Expression]) -> IsNull:
        """Return ``x IS NOT NULL``."""
        return IsNull(children[0], negated=True, span=span_of(meta))

    # ---- operands

    def literal(self, meta: Meta, children: list[Token]) -> Literal:
        """Return a number, text, TRUE, FALSE or NULL."""
        token = children[0]
        words = {"TRUE": True, "FALSE": False, "NULL": None}
        if token.type == "NUMBER":
            return Literal(number(token), span_of(meta))
        return Literal(token.value if token.type == "TEXT" else words[token.type], span_of(meta))

    def column(self, meta: Meta, children: list[Column]) -> Column:
        """Return the path."""
        return children[0]

    def call(self, meta: Meta, children: list[Any]) -> Call:
        """Return a function call; the checker decides whether the function exists."""
        return Call(children[0].value.upper(), tuple(children[1:]), span_of(meta))

    def aggregate_all(self, meta: Meta, children: list[Any]) -> dict[str, Any]:
        """Return ``COUNT(*)``; other aggregates need an argument."""
        if children[0] != "COUNT":
            refuse(f"{children[0]} takes an expression; only COUNT takes *", span_of(meta))
        return {"function": "COUNT"}

    def aggregate_name(self, meta: Meta, children: list[Token]) -> str:
        """Return the aggregate's name in capitals."""
        return str(children[0].type)

    def aggregate_of(self, meta: Meta, children: list[Any]) -> dict[str, Any]:
        """Return an aggregate of an expression."""
        return {"function": children[0], "argument": children[1]}

    def aggregate_distinct(self, meta: Meta, children: list[Any]) -> dict[str, Any]:
        """Return an aggregate of distinct values."""
        return {"function": children[0], "argument": children[1], "distinct": True}

    def filter(self, meta: Meta, children: list[Expression]) -> Part:
        """Return the condition of FILTER."""
        return Part("where", children[0])

    def aggregate_over(self, meta: Meta, children: list[Duration]) -> Part:
        """Return the window of OVER."""
        return Part("over", children[0])

    def across(self, meta: Meta, children: list[Any]) -> Part:
        """Return the mark of ACROSS SOURCES."""
        return Part("across", value=True)

    def aggregate(self, meta: Meta, children: list[Any]) -> Aggregate:
        """Return an aggregate with its options."""
        return Aggregate(**children[0], **_parts(children), span=span_of(meta))

    # ---- queries

    def distinct(self, meta: Meta, children: list[Any]) -> Part:
        """Return the mark of DISTINCT."""
        return Part("distinct", value=True)

    def output(self, meta: Meta, children: list[Any]) -> OutputColumn:
        """Return one column of a SELECT."""
        if len(children) == 2 and not children[1].value:
            refuse("a name cannot be empty", token_span(children[1]))
        return OutputColumn(children[0], children[1].value if len(children) == 2 else None)

    def all_columns(self, meta: Meta, children: list[Any]) -> Part:
        """Return no columns, which stands for ``*``."""
        return Part("columns", ())

    def columns(self, meta: Meta, children: list[OutputColumn]) -> Part:
        """Return the columns of a SELECT."""
        return Part("columns", tuple(children))

    def over(self, meta: Meta, children: list[Duration]) -> Part:
        """Return the history window of a class."""
        return Part("over", children[0])

    def alias(self, meta: Meta, children: list[Token]) -> Part:
        """Return the alias of a class."""
        if not children[0].value:
            refuse("a name cannot be empty", token_span(children[0]))
        return Part("alias", children[0].value)

    def from_class(self, meta: Meta, children: list[Any]) -> FromClass:
        """Return a class of a FROM list."""
        return FromClass(children[0], **_parts(children), span=span_of(meta))

    def comma_join(self, meta: Meta, children: list[FromClass]) -> FromClass:
        """Return a class joined without a condition."""
        return children[0]

    def _join(self, children: list[Any], *, left: bool) -> FromClass:
        joined: FromClass = children[0]
        return FromClass(joined.page_class, joined.alias, joined.over, children[1], left, joined.span)

    def inner_join(self, meta: Meta, children: list[Any]) -> FromClass:
        """Return a class joined on a condition."""
        return self._join(children, left=False)

    def left_join(self, meta: Meta, children: list[Any]) -> FromClass:
        """Return a class joined on a condition as the optional side."""
        return self._join(children, left=True)

    def from_list(self, meta: Meta, children: list[FromClass]) -> Part:
        """Return the classes of FROM."""
        return Part("sources", tuple(children))

    def where(self, meta: Meta, children: list[Expression]) -> Part:
        """Return the condition of WHERE."""
        return Part("where", children[0])

    def group_by(self, meta: Meta, children: list[Expression]) -> Part:
        """Return the terms of GROUP BY."""
        return Part("group_by", tuple(children))

    def having(self, meta: Meta, children: list[Expression]) -> Part:
        """Return the condition of HAVING."""
        return Part("having", children[0])

    def direction(self, meta: Meta, children: list[Token]) -> Part:
        """Return whether an order is descending."""
        return Part("descending", children[0].type == "DESC")

    def first_last(self, meta: Meta, children: list[Token]) -> bool:
        """Return whether FIRST was written."""
        return bool(children[0].type == "FIRST")

    def nulls(self, meta: Meta, children: list[bool]) -> Part:
        """Return whether nulls come first."""
        return Part("nulls_first", children[0])

    def order_term(self, meta: Meta, children: list[Any]) -> OrderTerm:
        """Return one term of ORDER BY."""
        return OrderTerm(children[0], **_parts(children))

    def order_by(self, meta: Meta, children: list[OrderTerm]) -> Part:
        """Return the terms of ORDER BY."""
        return Part("order_by", tuple(children))

    def limit(self, meta: Meta, children: list[Token]) -> Part:
        """Return the most rows that are wanted."""
        return Part("limit", whole(children[0], "LIMIT"))

    def select(self, meta: Meta, children: list[Part]) -> Select:
        """Return the whole query."""
        return Select(**_parts(children), span=span_of(meta))

    # ---- triggers

    def event(self, meta: Meta, children: list[Token]) -> EventKind:
        """Return the event that the trigger waits for."""
        return EventKind[children[0].type]

    def trigger(self, meta: Meta, children: list[Any]) -> Trigger:
        """Return the whole trigger."""
        return Trigger(children[0], children[1], children[2] if len(children) == 3 else None, span_of(meta))
