"""What each grammar rule of expressions, queries and triggers means: one function per rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NoReturn, TypeAlias

from lark import Token

from proxyd.core.language.reading.pieces import Complaint
from proxyd.core.model.expression import (
    Aggregate,
    Between,
    Binary,
    Call,
    Case,
    Cast,
    CastType,
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
from proxyd.core.model.profile import After, Then, Trigger

Parts: TypeAlias = list[Any]
"""What was built of the parts of a rule, in order: tokens for words, numbers and texts."""
Rule: TypeAlias = Callable[[Parts, TextSpan], Any]
"""Returns the meaning of a rule, given its parts and the characters that it covers."""


class BuildError(Exception):
    """A piece that the grammar accepts but whose words have no meaning."""

    def __init__(self, complaint: Complaint) -> None:
        super().__init__(complaint.message)
        self.complaint = complaint


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause or option: the attribute that it sets and its value; ``also`` is what else it sets."""

    name: str
    value: Any
    span: TextSpan
    also: Clause | None = None


def refuse(message: str, span: TextSpan) -> NoReturn:
    """Raise an error that becomes the piece's complaint."""
    raise BuildError(Complaint(message, span.start, span.stop))


def token_span(token: Token) -> TextSpan:
    """Return the characters of a token."""
    return TextSpan(token.start_pos or 0, token.end_pos or 0)


def whole(token: Token, what: str) -> int:
    """Return a whole number, or reject the token as ``what``."""
    value = _number(token)
    if not isinstance(value, int):
        refuse(f"{what} is a whole number; found {token.value}", token_span(token))
    return value


def first(parts: Parts, _span: TextSpan) -> Any:
    """Return the only part, for rules that exist for their syntax."""
    return parts[0]


def to_tuple(parts: Parts, _span: TextSpan) -> tuple[Any, ...]:
    """Return all parts."""
    return tuple(parts)


def is_word(word: str) -> Rule:
    """Return a rule that tells whether that word was written and not its opposite."""
    return lambda parts, _: parts[0].type == word


def clause(name: str, read: Rule = first) -> Rule:
    """Return a rule that sets an attribute to what ``read`` returns."""
    return lambda parts, span: Clause(name, read(parts, span), span)


def _attributes(parts: Iterable[Any]) -> dict[str, Any]:
    return {part.name: part.value for part in parts if isinstance(part, Clause)}


def _number(token: Token) -> int | Decimal:
    """Return the value of a number; it is an int if it is written without a point."""
    return int(token.value) if token.value.isdigit() else Decimal(token.value)


def _filled(token: Token) -> str:
    """Return a name, or refuse it if it is empty."""
    if not token.value:
        refuse("a name cannot be empty", token_span(token))
    return str(token.value)


def _path(parts: Parts, span: TextSpan) -> Column:
    """Return a path as written, with qualifiers; only the checker can tell them apart."""
    for token in parts:
        if not all(token.value.split(".")):
            refuse("a name cannot be empty: use single quotes for text", token_span(token))
    return Column(".".join(token.value for token in parts), None, span)


def _class_name(parts: Parts, span: TextSpan) -> ClassName:
    """Return ``CLASS`` or ``"Domain".CLASS``."""
    names = [_filled(token) for token in parts]
    return ClassName(names[-1], names[0] if len(names) == 2 else None, span)


def _operator(parts: Parts, _span: TextSpan) -> str:
    return "<>" if parts[0].value == "!=" else str(parts[0].value)


def _escape(parts: Parts, _span: TextSpan) -> str:
    if len(parts[0].value) != 1:
        refuse("ESCAPE takes one character", token_span(parts[0]))
    return str(parts[0].value)


def _like(*, negated: bool, ignores_case: bool = False) -> Rule:
    return lambda parts, span: Like(parts[0], parts[1], _attributes(parts).get("escape"), negated, ignores_case, span)


def _case(parts: Parts, span: TextSpan, operand: Expression | None = None) -> Case:
    """Return a CASE of its branches, which are pairs, and its ELSE."""
    branches = [part for part in parts if isinstance(part, tuple)]
    conditions, results = (tuple(each) for each in zip(*branches, strict=True))
    return Case(conditions, results, _attributes(parts).get("otherwise"), operand, span)


def _in_list(*, negated: bool) -> Rule:
    return lambda parts, span: InList(parts[0], tuple(parts[1:]), negated, span)


def _between(*, negated: bool) -> Rule:
    return lambda parts, span: Between(parts[0], parts[1], parts[2], negated, span)


def _literal(parts: Parts, span: TextSpan) -> Literal:
    token = parts[0]
    if token.type == "NUMBER":
        return Literal(_number(token), span)
    return Literal(token.value if token.type == "TEXT" else _WORDS[token.type], span)


_WORDS = {"TRUE": True, "FALSE": False, "NULL": None}


def _aggregate_all(parts: Parts, span: TextSpan) -> dict[str, Any]:
    """Return the core of ``COUNT(*)``; other aggregates need an argument."""
    if parts[0] != "COUNT":
        refuse(f"{parts[0]} takes an expression; only COUNT takes *", span)
    return {"function": "COUNT"}


def _join(*, left: bool) -> Rule:
    return lambda parts, _: replace(parts[0], on=parts[1], left_join=left)


def _trigger(parts: Parts, span: TextSpan) -> Trigger:
    after = next((part for part in parts if isinstance(part, After)), None)
    then = next((part for part in parts if isinstance(part, Then)), None)
    return Trigger(parts[0], parts[1], **_attributes(parts), after=after, then=then, span=span)


def _then(*, is_absent: bool) -> Rule:
    def read(parts: Parts, span: TextSpan) -> Then:
        return Then(parts[0], parts[1], parts[-1], **_attributes(parts), is_absent=is_absent, span=span)

    return read


_EXPRESSIONS: dict[str, Rule] = {
    "path": _path,
    "class_name": _class_name,
    "duration": lambda parts, _: Duration(Decimal(parts[0].value), parts[1] if len(parts) == 2 else Unit.CHRONONS),
    "unit": lambda parts, _: Unit(parts[0].type),
    "comparison": _operator,
    "add_operator": _operator,
    "multiply_operator": _operator,
    "binary": lambda parts, span: Binary(parts[1], parts[0], parts[2], span),
    "disjoin": lambda parts, span: Binary("OR", parts[0], parts[1], span),
    "conjoin": lambda parts, span: Binary("AND", parts[0], parts[1], span),
    "negate": lambda parts, span: Unary("NOT", parts[0], span),
    "minus": lambda parts, span: Unary("-", parts[0], span),
    "plus": first,
    "regexp": lambda parts, span: Binary("REGEXP", parts[0], parts[1], span),
    "not_regexp": lambda parts, span: Unary("NOT", Binary("REGEXP", parts[0], parts[1], span), span),
    "escape": clause("escape", _escape),
    "like": _like(negated=False),
    "not_like": _like(negated=True),
    "ilike": _like(negated=False, ignores_case=True),
    "not_ilike": _like(negated=True, ignores_case=True),
    "branch": to_tuple,
    "otherwise": clause("otherwise"),
    "searched_case": _case,
    "simple_case": lambda parts, span: _case(parts[1:], span, parts[0]),
    "in_list": _in_list(negated=False),
    "not_in_list": _in_list(negated=True),
    "between": _between(negated=False),
    "not_between": _between(negated=True),
    "is_null": lambda parts, span: IsNull(parts[0], negated=False, span=span),
    "is_not_null": lambda parts, span: IsNull(parts[0], negated=True, span=span),
    "literal": _literal,
    "column": first,
    "cast_type": lambda parts, _: CastType(str(parts[0].type)),
    "cast": lambda parts, span: Cast(parts[0], parts[1], span),
    "call": lambda parts, span: Call(parts[0].value.upper(), tuple(parts[1:]), span),
    "aggregate_name": lambda parts, _: str(parts[0].type),
    "aggregate_all": _aggregate_all,
    "aggregate_of": lambda parts, _: {"function": parts[0], "argument": parts[1]},
    "aggregate_distinct": lambda parts, _: {"function": parts[0], "argument": parts[1], "distinct": True},
    "filter": clause("where"),
    "aggregate_over": clause("over"),
    "across": clause("across", lambda *_: True),
    "aggregate": lambda parts, span: Aggregate(**parts[0], **_attributes(parts), span=span),
}

_QUERIES: dict[str, Rule] = {
    "distinct": clause("distinct", lambda *_: True),
    "output": lambda parts, _: OutputColumn(parts[0], _filled(parts[1]) if len(parts) == 2 else None),
    "all_columns": clause("columns", to_tuple),
    "columns": clause("columns", to_tuple),
    "over": clause("over"),
    "alias": clause("alias", lambda parts, _: _filled(parts[0])),
    "from_class": lambda parts, span: FromClass(parts[0], **_attributes(parts), span=span),
    "comma_join": first,
    "inner_join": _join(left=False),
    "left_join": _join(left=True),
    "from_list": clause("sources", to_tuple),
    "from_part": to_tuple,
    "where": clause("where"),
    "group_by": clause("group_by", to_tuple),
    "having": clause("having"),
    "direction": clause("descending", is_word("DESC")),
    "first_last": is_word("FIRST"),
    "nulls": clause("nulls_first"),
    "order_term": lambda parts, _: OrderTerm(parts[0], **_attributes(parts)),
    "order_by": clause("order_by", to_tuple),
    "limit": clause("limit", lambda parts, _: whole(parts[0], "LIMIT")),
    "select": lambda parts, span: Select(**_attributes(parts), span=span),
}

_TRIGGERS: dict[str, Rule] = {
    "event": lambda parts, _: EventKind[parts[0].type],
    "after_probes": lambda parts, span: After(probes=whole(parts[0], "the number of probes"), span=span),
    "after_time": lambda parts, span: After(time=Duration(Decimal(parts[0].value), parts[1]), span=span),
    "when": clause("condition"),
    "trigger": _trigger,
    "then_event": _then(is_absent=False),
    "then_no": _then(is_absent=True),
}

EXPRESSION_RULES: Mapping[str, Rule] = MappingProxyType(_EXPRESSIONS | _QUERIES | _TRIGGERS)
"""The rules of the texts of QUERY and TRIGGER, and of durations and class names, which statements use too."""
