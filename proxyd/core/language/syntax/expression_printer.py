"""Prints expressions, queries and triggers with as few parentheses as their meaning allows."""

from __future__ import annotations

import re
from decimal import Decimal

from proxyd.core.language.syntax.quoting import format_duration, quote_name, quote_text
from proxyd.core.language.syntax.words import RESERVED, can_follow_case
from proxyd.core.model.expression import (
    Aggregate,
    Between,
    Binary,
    Call,
    Case,
    Cast,
    ClassName,
    Column,
    Expression,
    FromClass,
    InList,
    IsNull,
    Like,
    Literal,
    OrderTerm,
    OutputColumn,
    Select,
    Unary,
)
from proxyd.core.model.profile import After, Then, Trigger

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_WORD = re.compile(r"\W")
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _OPERAND = range(1, 9)
_LEVELS = {"OR": _OR, "AND": _AND, "+": _SUM, "-": _SUM, "||": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT}


def _word(name: str, *, first: bool = True) -> str:
    plain = _PLAIN.fullmatch(name) is not None
    return name if plain and not (first and name.upper() in RESERVED) else quote_name(name)


def format_path(path: str) -> str:
    """Return a field's path; parts that would be read as something else are quoted.

    >>> format_path("channel.item.title"), format_path("order.my part")
    ('channel.item.title', '"order"."my part"')
    """
    first, *rest = path.split(".")
    return ".".join([_word(first), *(_word(part, first=False) for part in rest)])


def format_class(page_class: ClassName) -> str:
    """Return a class's name with the domain, if that was written."""
    domain = f"{quote_name(page_class.domain)}." if page_class.domain is not None else ""
    return domain + _word(page_class.name)


def format_expression(expression: Expression) -> str:
    """Return the expression on one line."""
    return _format(expression)[0]


def _format(expression: Expression) -> tuple[str, int]:
    """Return the text and the precedence of its outermost operator."""
    match expression:
        case Literal():
            return _literal(expression.value)
        case Column() | Call() | Cast() | Aggregate() | Case():
            return _operand(expression), _OPERAND
        case Unary():
            return _unary(expression)
        case Binary():
            return _binary(expression)
        case _:
            return _predicate(expression), _COMPARE


def _operand(expression: Column | Call | Cast | Aggregate | Case) -> str:
    match expression:
        case Column():
            qualifier = f"{_word(expression.qualifier)}." if expression.qualifier else ""
            return qualifier + format_path(expression.path)
        case Call():
            arguments = ", ".join(format_expression(each) for each in expression.arguments)
            return f"{_word(expression.function)}({arguments})"
        case Cast():
            return f"CAST({format_expression(expression.operand)} AS {expression.type.value})"
        case Aggregate():
            return _aggregate(expression)
        case Case():
            return _case(expression)


def _at(expression: Expression, level: int) -> str:
    """Return the text of an operand, in parentheses if it binds more loosely than its place needs."""
    text, own = _format(expression)
    return text if own >= level else f"({text})"


def _literal(value: str | int | Decimal | bool | None) -> tuple[str, int]:
    if isinstance(value, str):
        return quote_text(value), _OPERAND
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value], _OPERAND
    return str(value), _SIGN if value < 0 else _OPERAND


def _unary(expression: Unary) -> tuple[str, int]:
    if expression.operator == "NOT":
        return f"NOT {_at(expression.operand, _NOT)}", _NOT
    operand = _at(expression.operand, _SIGN)
    return f"-{' ' if operand.startswith('-') else ''}{operand}", _SIGN


def _binary(expression: Binary) -> tuple[str, int]:
    operator = expression.operator
    level = _LEVELS.get(operator, _COMPARE)
    left = _at(expression.left, level if operator in _LEVELS else _SUM)
    right = _at(expression.right, level + 1)
    return f"{left} {operator} {right}", level


def _predicate(expression: Like | InList | Between | IsNull) -> str:
    operand = _at(expression.operand, _SUM)
    negated = "NOT " if expression.negated else ""
    match expression:
        case Like():
            escape = f" ESCAPE {quote_text(expression.escape)}" if expression.escape is not None else ""
            word = "ILIKE" if expression.ignores_case else "LIKE"
            return f"{operand} {negated}{word} {_at(expression.pattern, _SUM)}{escape}"
        case InList():
            options = ", ".join(format_expression(each) for each in expression.options)
            return f"{operand} {negated}IN ({options})"
        case Between():
            low, high = _at(expression.low, _SUM), _at(expression.high, _SUM)
            return f"{operand} {negated}BETWEEN {low} AND {high}"
        case IsNull():
            return f"{operand} IS {negated}NULL"


def _case(case: Case) -> str:
    parts = ["CASE" if case.operand is None else f"CASE {_case_operand(case.operand)}"]
    for condition, result in zip(case.conditions, case.results, strict=True):
        parts.append(f"WHEN {format_expression(condition)} THEN {format_expression(result)}")
    if case.otherwise is not None:
        parts.append(f"ELSE {format_expression(case.otherwise)}")
    return " ".join([*parts, "END"])


def _case_operand(operand: Expression) -> str:
    """Return what stands between CASE and WHEN, in parentheses if CASE would be read as a name before it."""
    text, level = _format(operand)
    word = _NO_WORD.split(text, 1)[0] or text[:1]
    return text if level == _OPERAND and can_follow_case(word) and word.upper() != "WHEN" else f"({text})"


def _aggregate(aggregate: Aggregate) -> str:
    argument = "*" if aggregate.argument is None else format_expression(aggregate.argument)
    text = f"{aggregate.function}({'DISTINCT ' if aggregate.distinct else ''}{argument})"
    if aggregate.where is not None:
        text += f" FILTER (WHERE {format_expression(aggregate.where)})"
    if aggregate.over is not None:
        text += f" OVER {format_duration(aggregate.over)}"
    return f"{text} ACROSS SOURCES" if aggregate.across else text


# ---- queries


def format_select(select: Select) -> str:
    """Return the query, with each clause on its own line."""
    columns = ", ".join(_output(column) for column in select.columns) or "*"
    lines = [f"SELECT {'DISTINCT ' if select.distinct else ''}{columns}", f"FROM {_from_list(select)}"]
    if select.where is not None:
        lines.append(f"WHERE {format_expression(select.where)}")
    if select.group_by:
        lines.append(f"GROUP BY {', '.join(format_expression(each) for each in select.group_by)}")
    if select.having is not None:
        lines.append(f"HAVING {format_expression(select.having)}")
    if select.order_by:
        lines.append(f"ORDER BY {', '.join(_order_term(each) for each in select.order_by)}")
    if select.limit is not None:
        lines.append(f"LIMIT {select.limit}")
    return "\n".join(lines)


def _output(column: OutputColumn) -> str:
    alias = f" AS {_word(column.alias)}" if column.alias is not None else ""
    return format_expression(column.expression) + alias


def _order_term(term: OrderTerm) -> str:
    nulls = {None: "", True: " NULLS FIRST", False: " NULLS LAST"}[term.nulls_first]
    return format_expression(term.expression) + (" DESC" if term.descending else "") + nulls


def _from_list(select: Select) -> str:
    text = _from_class(select.sources[0])
    for source in select.sources[1:]:
        if source.on is None:
            text += f", {_from_class(source)}"
        else:
            word = "LEFT JOIN" if source.left_join else "JOIN"
            text += f"\n{word} {_from_class(source)} ON {format_expression(source.on)}"
    return text


def _from_class(source: FromClass) -> str:
    over = f" OVER {format_duration(source.over)}" if source.over is not None else ""
    alias = f" AS {_word(source.alias)}" if source.alias is not None else ""
    return format_class(source.page_class) + over + alias


def format_trigger(trigger: Trigger) -> str:
    """Return ``ON INSERT TO class``, with WHERE, and WHEN or THEN, on lines of their own."""
    lines = [f"ON {trigger.kind.name} TO {format_class(trigger.page_class)}{_after(trigger.after)}"]
    for word, condition in (("WHERE", trigger.where), ("WHEN", trigger.condition)):
        if condition is not None:
            lines.append(f"{word} {format_expression(condition)}")
    return "\n".join([*lines, *(format_then(each) for each in [trigger.then] if each is not None)])


def format_then(then: Then) -> str:
    """Return ``THEN event WITHIN duration``."""
    where = "" if then.where is None else f" WHERE {format_expression(then.where)}"
    event = f"{'NO ' if then.is_absent else ''}{then.kind.name} TO {format_class(then.page_class)}"
    return f"THEN {event}{where} WITHIN {format_duration(then.within)}"


def _after(after: After | None) -> str:
    return "" if after is None else f" {format_after(after)}"


def format_after(after: After) -> str:
    """Return ``AFTER 3 PROBES`` or ``AFTER 1 HOUR``."""
    if after.time is not None:
        unit = after.time.unit.value
        return f"AFTER {after.time.amount} {unit}{'' if after.time.amount == 1 else 'S'}"
    return f"AFTER {after.probes} {'PROBE' if after.probes == 1 else 'PROBES'}"
