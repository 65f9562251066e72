"""The parser of expressions, and of the texts of QUERY and TRIGGER: each method reads what its docstring shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from proxyd.core.language.syntax.nodes import Located
from proxyd.core.language.syntax.scanner import Lexeme
from proxyd.core.language.syntax.token_reader import T, TokenReader, optional, parse_number, parse_plain_text, series
from proxyd.core.language.syntax.words import AGGREGATES, BEFORE_A_PARENTHESIS, can_follow_case
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

_COMPARISONS = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})
_NEGATABLE = frozenset({"REGEXP", "LIKE", "ILIKE", "IN", "BETWEEN"})
_PREDICATES = _COMPARISONS | _NEGATABLE | {"NOT", "IS"}
_SUMS = frozenset({"+", "-", "||"})
_PRODUCTS = frozenset({"*", "/", "%"})
_CONSTANTS: Mapping[str, bool | None] = MappingProxyType({"TRUE": True, "FALSE": False, "NULL": None})
_PRIMARIES = frozenset({"NUMBER", "TEXT", "NAME", "(", "CASE", *_CONSTANTS}) | BEFORE_A_PARENTHESIS
_UNITS = {unit.value: unit for unit in Unit}
_EVENTS = tuple(kind.name for kind in EventKind)
_CAST_TYPES = tuple(type_.value for type_ in CastType)
_JOINS = frozenset({",", "CROSS", "JOIN", "INNER", "LEFT"})
_AFTER_OUTPUT = frozenset({"FROM"})
_AFTER_FROM = _JOINS | {"WHERE", "GROUP", "HAVING", "ORDER", "LIMIT"}
_BEFORE_ON = frozenset({"ON"})


# ---- expressions, loosest first
# Four of these are loops of one form, but one function for them would add four frames to the eight of a level.


def parse_expression(parser: TokenReader) -> Expression:
    """expression = conjunction {OR conjunction}"""
    begin, left = parser.at, _conjunction(parser)
    while parser.take("OR"):
        left = Binary("OR", left, _conjunction(parser), parser.span(begin))
    return left


def _conjunction(parser: TokenReader) -> Expression:
    """conjunction = negation {AND negation}"""
    begin, left = parser.at, _negation(parser)
    while parser.take("AND"):
        left = Binary("AND", left, _negation(parser), parser.span(begin))
    return left


def _negation(parser: TokenReader) -> Expression:
    """negation = {NOT} predicate"""
    begin = parser.at
    while parser.take_prefix("NOT"):
        pass
    first, operand = parser.at, _predicate(parser)
    for at in range(first - 1, begin - 1, -1):
        operand = Unary("NOT", operand, parser.span(at))
    return operand


def _predicate(parser: TokenReader) -> Expression:
    """predicate = sum [comparison sum | [NOT] matching | IS [NOT] NULL]

    comparison = "=" | "<>" | "!=" | "<" | "<=" | ">" | ">="
    """
    begin, left = parser.at, _sum(parser)
    word = parser.take_one(_PREDICATES)
    if word is None:
        return left
    if word in _COMPARISONS:
        return Binary("<>" if word == "!=" else word, left, _sum(parser), parser.span(begin))
    if word == "IS":
        negated = parser.take("NOT")
        parser.expect("NULL")
        return IsNull(left, negated, parser.span(begin))
    if word == "NOT":
        return _matching(parser, begin, left, parser.expect_one(_NEGATABLE), negated=True)
    return _matching(parser, begin, left, word, negated=False)


def _matching(parser: TokenReader, begin: int, left: Expression, word: str, *, negated: bool) -> Expression:
    """matching = REGEXP sum | (LIKE | ILIKE) sum [ESCAPE TEXT] | BETWEEN sum AND sum
    | IN "(" expression {"," expression} ")"
    """
    if word == "REGEXP":
        matched = Binary("REGEXP", left, _sum(parser), parser.span(begin))
        return Unary("NOT", matched, matched.span) if negated else matched
    if word == "IN":
        parser.enter("(")
        options = series(parser, parse_expression)
        parser.leave(")")
        return InList(left, options, negated, parser.span(begin))
    operand = _sum(parser)
    if word == "BETWEEN":
        parser.expect("AND")
        return Between(left, operand, _sum(parser), negated, parser.span(begin))
    return Like(left, operand, optional(parser, "ESCAPE", _character), negated, word == "ILIKE", parser.span(begin))


def _character(parser: TokenReader) -> str:
    character = parse_plain_text(parser)
    if len(character) != 1:
        parser.refuse("ESCAPE takes one character", parser.span(parser.at - 1))
    return character


def _sum(parser: TokenReader) -> Expression:
    """sum = product {("+" | "-" | "||") product}"""
    begin, left = parser.at, _product(parser)
    while (sign := parser.take_one(_SUMS)) is not None:
        left = Binary(sign, left, _product(parser), parser.span(begin))
    return left


def _product(parser: TokenReader) -> Expression:
    """product = signed {("*" | "/" | "%") signed}"""
    begin, left = parser.at, _sign(parser)
    while (sign := parser.take_one(_PRODUCTS)) is not None:
        left = Binary(sign, left, _sign(parser), parser.span(begin))
    return left


def _sign(parser: TokenReader) -> Expression:
    """signed = {"-" | "+"} primary"""
    begin = parser.at
    while parser.take_prefix("-") or parser.take_prefix("+"):
        pass
    first, operand = parser.at, _primary(parser)
    for at in range(first - 1, begin - 1, -1):
        if parser.tokens[at].word == "-":
            operand = Unary("-", operand, parser.span(at))
    return operand


def _primary(parser: TokenReader) -> Expression:
    """primary = NUMBER | TEXT | TRUE | FALSE | NULL | "(" expression ")" | case | cast | aggregate
    | NAME "(" [expression {"," expression}] ")" | path
    """
    token, parser.run = parser.token, 0
    word, shape = token.word, token.shape
    if shape in {"NUMBER", "TEXT"} or word in _CONSTANTS:
        return _literal(parser, parser.advance())
    if word == "(":
        parser.enter("(")
        operand = parse_expression(parser)
        parser.leave(")")
        return operand
    if shape == "WORD" and word:
        following = parser.tokens[parser.at + 1]
        if word in BEFORE_A_PARENTHESIS and following.value == "(":
            return _cast(parser) if word == "CAST" else _aggregate(parser, word)
        if word == "CASE" and _opens_case(following):
            return _case(parser)
    return _call_or_path(parser)


def _call_or_path(parser: TokenReader) -> Expression:
    if parser.token.shape not in ("WORD", "QUOTED"):
        parser.fail(_PRIMARIES)
    begin, name = parser.at, parser.advance()
    if not parser.is_at("("):
        return _path_after(parser, begin)
    parser.enter("(")
    arguments = [] if parser.is_at(")") else [parse_expression(parser)]
    while arguments and parser.take(","):
        arguments.append(parse_expression(parser))
    parser.leave(")")
    return Call(name.value.upper(), tuple(arguments), parser.span(begin))


def _opens_case(following: Lexeme) -> bool:
    return following.shape in ("TEXT", "QUOTED") or can_follow_case(following.value)


def _literal(parser: TokenReader, token: Lexeme) -> Literal:
    span = TextSpan(token.start, token.stop)
    if token.shape == "NUMBER":
        return Literal(int(token.value) if token.value.isdigit() else Decimal(token.value), span)
    return Literal(token.value if token.shape == "TEXT" else _CONSTANTS[token.word], span)


def _case(parser: TokenReader) -> Case:
    """case = CASE [expression] WHEN expression THEN expression {WHEN expression THEN expression}
    [ELSE expression] END
    """
    begin = parser.at
    parser.enter("CASE")
    operand = None if parser.is_at("WHEN") else parse_expression(parser)
    parser.expect("WHEN")
    conditions: list[Expression] = []
    results: list[Expression] = []
    while not conditions or parser.take("WHEN"):
        conditions.append(parse_expression(parser))
        parser.expect("THEN")
        results.append(parse_expression(parser))
    otherwise = parse_expression(parser) if parser.take("ELSE") else None
    parser.leave("END")
    return Case(tuple(conditions), tuple(results), otherwise, operand, parser.span(begin))


def _cast(parser: TokenReader) -> Cast:
    """cast = CAST "(" expression AS (DECIMAL | INTEGER | STRING | TIMESTAMP) ")" """
    begin = parser.at
    parser.expect("CAST")
    parser.enter("(")
    operand = parse_expression(parser)
    parser.expect("AS")
    type_ = CastType(parser.expect_one(_CAST_TYPES))
    parser.leave(")")
    return Cast(operand, type_, parser.span(begin))


def _aggregate(parser: TokenReader, function: str) -> Aggregate:
    """aggregate = (COUNT "(" "*" ")" | (COUNT | SUM | MIN | MAX | AVG) "(" [DISTINCT] expression ")")
    [FILTER "(" WHERE expression ")"] [OVER duration] [ACROSS SOURCES]
    """
    begin, where = parser.at, None
    parser.expect_one(AGGREGATES)
    parser.enter("(")
    distinct = parser.take("DISTINCT")
    argument = None if not distinct and parser.take("*") else parse_expression(parser)
    parser.leave(")")
    if argument is None and function != "COUNT":
        parser.refuse(f"{function} takes an expression; only COUNT takes *", parser.span(begin))
    if parser.take("FILTER"):
        parser.enter("(")
        parser.expect("WHERE")
        where = parse_expression(parser)
        parser.leave(")")
    over = optional(parser, "OVER", parse_duration)
    across = parser.take("ACROSS") and parser.expect("SOURCE")
    return Aggregate(function, argument, distinct, where, over, across, parser.span(begin))


# ---- parts of expressions and statements


def parse_path(parser: TokenReader) -> Column:
    """path = NAME {"." NAME}"""
    begin = parser.at
    parser.expect_name()
    return _path_after(parser, begin)


def _path_after(parser: TokenReader, begin: int) -> Column:
    """Return a path as written, with qualifiers; only the checker can tell them apart."""
    names = [parser.tokens[begin]]
    while parser.take("."):
        names.append(parser.expect_name())
    for name in names:
        if not all(name.value.split(".")):
            span = TextSpan(name.start, name.stop)
            parser.refuse("a name cannot be empty: use single quotes for text", span)
    return Column(".".join(name.value for name in names), None, parser.span(begin))


def parse_class_name(parser: TokenReader) -> ClassName:
    """class_name = NAME ["." NAME]"""
    begin, domain = parser.at, None
    name = _nonempty_name(parser)
    if parser.take("."):
        domain, name = name, _nonempty_name(parser)
    return ClassName(name, domain, parser.span(begin))


def _nonempty_name(parser: TokenReader) -> str:
    name = parser.expect_name().value
    if not name:
        parser.refuse("a name cannot be empty", parser.span(parser.at - 1))
    return name


def parse_duration(parser: TokenReader) -> Duration:
    """duration = NUMBER [unit]"""
    amount = parse_number(parser)
    unit = parser.take_one(_UNITS)
    return Duration(amount, Unit.CHRONONS if unit is None else _UNITS[unit])


def parse_unit(parser: TokenReader) -> Unit:
    """unit = CHRONON | SECOND | MINUTE | HOUR | DAY | WEEK"""
    return _UNITS[parser.expect_one(_UNITS)]


def parse_whole(parser: TokenReader, what: str, token: Lexeme | None = None) -> int:
    """Return a whole number, or refuse the number as ``what``."""
    token = token or parser.expect_value("NUMBER")
    if not token.value.isdigit():
        parser.refuse(f"{what} is a whole number; found {token.value}", TextSpan(token.start, token.stop))
        return 0
    return int(token.value)


def parse_name(parser: TokenReader) -> Located[str]:
    """name = NAME"""
    token = parser.expect_name()
    span = TextSpan(token.start, token.stop)
    if not token.value.strip():
        parser.refuse("a name cannot be empty", span)
    return Located(token.value, span)


def parse_text(parser: TokenReader) -> Located[str]:
    """text = TEXT"""
    token = parser.expect_value("TEXT")
    return Located(token.value, TextSpan(token.start, token.stop))


def parse_located(parser: TokenReader, read: Callable[[TokenReader], T]) -> Located[T]:
    """Return what is read, with its place."""
    begin, value = parser.at, read(parser)
    return Located(value, parser.span(begin))


def in_parentheses(parser: TokenReader, read: Callable[[TokenReader], T]) -> T:
    """Return what is read between parentheses."""
    parser.expect("(")
    value = read(parser)
    parser.expect(")")
    return value


# ---- queries


def parse_select(parser: TokenReader) -> Select:
    """select = SELECT [DISTINCT] ("*" | output {"," output}) FROM from_part"""
    begin = parser.at
    parser.expect("SELECT")
    distinct = parser.take("DISTINCT")
    columns = () if parser.take("*") else series(parser, _output)
    parser.expect("FROM")
    return Select(columns, distinct=distinct, **_from_part(parser), span=parser.span(begin))


def _output(parser: TokenReader) -> OutputColumn:
    """output = expression [alias]"""
    return OutputColumn(parse_expression(parser), _alias(parser, _AFTER_OUTPUT))


def _alias(parser: TokenReader, keywords: Collection[str]) -> str | None:
    """alias = [AS] NAME

    Without AS, a keyword that may follow is none.
    """
    if not parser.take("AS") and (parser.token.word in keywords or not parser.is_at_name()):
        return None
    return _nonempty_name(parser)


def _from_part(parser: TokenReader) -> dict[str, Any]:
    """from_part = from_list [WHERE expression] [GROUP group_by] [HAVING expression] [ORDER order_by] [LIMIT limit]

    Each of these is also read alone, after an error before it.
    """
    return {
        "sources": _from_list(parser),
        "where": optional(parser, "WHERE", parse_expression),
        "group_by": optional(parser, "GROUP", _group_by) or (),
        "having": optional(parser, "HAVING", parse_expression),
        "order_by": optional(parser, "ORDER", _order_by) or (),
        "limit": optional(parser, "LIMIT", _limit),
    }


def _from_list(parser: TokenReader) -> tuple[FromClass, ...]:
    """from_list = from_class {("," | CROSS JOIN) from_class | join}

    join = [INNER | LEFT [OUTER]] JOIN from_class ON expression
    """
    sources = [_from_class(parser, _AFTER_FROM)]
    while (word := parser.take_one(_JOINS)) is not None:
        if word == "LEFT":
            parser.take("OUTER")
        if word not in (",", "JOIN"):
            parser.expect("JOIN")
        if word in (",", "CROSS"):
            sources.append(_from_class(parser, _AFTER_FROM))
            continue
        source = _from_class(parser, _BEFORE_ON)
        parser.expect("ON")
        sources.append(replace(source, on=parse_expression(parser), left_join=word == "LEFT"))
    return tuple(sources)


def _from_class(parser: TokenReader, keywords: Collection[str]) -> FromClass:
    """from_class = class_name ([OVER duration] [alias] | alias OVER duration)"""
    begin, name = parser.at, parse_class_name(parser)
    over = optional(parser, "OVER", parse_duration)
    alias = _alias(parser, keywords)
    if over is None and alias is not None:
        over = optional(parser, "OVER", parse_duration)
    return FromClass(name, alias, over, span=parser.span(begin))


def _group_by(parser: TokenReader) -> tuple[Expression, ...]:
    """group_by = BY expression {"," expression}"""
    parser.expect("BY")
    return series(parser, parse_expression)


def _order_by(parser: TokenReader) -> tuple[OrderTerm, ...]:
    """order_by = BY order_term {"," order_term}"""
    parser.expect("BY")
    return series(parser, _order_term)


def _order_term(parser: TokenReader) -> OrderTerm:
    """order_term = expression [ASC | DESC] [NULLS (FIRST | LAST)]"""
    expression = parse_expression(parser)
    descending = parser.take_one(("ASC", "DESC")) == "DESC"
    nulls = optional(parser, "NULLS", lambda parser: parser.expect_one(("FIRST", "LAST")))
    return OrderTerm(expression, descending, None if nulls is None else nulls == "FIRST")


def _limit(parser: TokenReader) -> int:
    """limit = NUMBER"""
    return parse_whole(parser, "LIMIT")


# ---- triggers


def parse_trigger(parser: TokenReader) -> Trigger:
    """trigger = ON event TO class_name [after] [WHERE expression] [WHEN expression | THEN then]"""
    begin = parser.at
    parser.expect("ON")
    kind, page_class = _event_to_class(parser)
    after = parse_after(parser)
    where = optional(parser, "WHERE", parse_expression)
    condition = optional(parser, "WHEN", parse_expression)
    then = optional(parser, "THEN", _then) if condition is None else None
    return Trigger(kind, page_class, where, condition, after, then, parser.span(begin))


def _then(parser: TokenReader) -> Then:
    """then = [NO] event TO class_name [WHERE expression] WITHIN duration"""
    begin, is_absent = parser.at - 1, parser.take("NO")
    kind, page_class = _event_to_class(parser)
    where = optional(parser, "WHERE", parse_expression)
    parser.expect("WITHIN")
    return Then(kind, page_class, parse_duration(parser), where, is_absent, parser.span(begin))


def _event_to_class(parser: TokenReader) -> tuple[EventKind, ClassName]:
    kind = parse_event(parser)
    parser.expect("TO")
    return kind, parse_class_name(parser)


def parse_event(parser: TokenReader) -> EventKind:
    """event = INSERT | UPDATE | DELETE | FAILURE | RECOVERY | MOVED | EMPTY | TROUBLE | SLOW | HEALTH | PROBE"""
    return EventKind[parser.expect_one(_EVENTS)]


def parse_after(parser: TokenReader) -> After | None:
    """after = AFTER NUMBER (PROBES | unit)"""
    begin = parser.at
    if not parser.take("AFTER"):
        return None
    number = parser.expect_value("NUMBER")
    if (unit := parser.take_one(_UNITS)) is not None:
        return After(time=Duration(Decimal(number.value), _UNITS[unit]), span=parser.span(begin))
    parser.expect("PROBE")
    return After(probes=parse_whole(parser, "the number of probes", number), span=parser.span(begin))


QUERY_CLAUSES: Mapping[str, Callable[[TokenReader], Any]] = MappingProxyType(
    {
        "FROM": _from_part,
        "WHERE": parse_expression,
        "GROUP": _group_by,
        "HAVING": parse_expression,
        "ORDER": _order_by,
        "LIMIT": _limit,
    }
)
"""What stands after the word that begins a clause of a query."""
TRIGGER_CLAUSES: Mapping[str, Callable[[TokenReader], Any]] = MappingProxyType(
    {"WHERE": parse_expression, "WHEN": parse_expression, "THEN": _then}
)
