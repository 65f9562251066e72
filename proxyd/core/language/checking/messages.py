"""Checks SET MESSAGE: a text in which ``{field}`` stands for a value."""

from __future__ import annotations

import re

from proxyd.core.language.checking.check_context import Reporter
from proxyd.core.language.checking.scope import Scope
from proxyd.core.language.nodes import Located
from proxyd.core.model.expression import Column, Expression, Select, has_aggregate
from proxyd.core.model.profile import MessageName, MessageTemplate

_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_MOST_PLACES = 50


def check_message(message: Located[str], query: Select, scope: Scope, reporter: Reporter) -> MessageTemplate:
    """Return the template of a message; report names that are neither columns nor fields."""
    parts: list[str | MessageName | Expression] = []
    at = 0
    for found in _PLACE.finditer(message.value):
        parts.append(message.value[at : found.start()])
        at = found.end()
        if found[0] in ("{{", "}}"):
            parts.append(found[0][0])
        elif found[1] is None or not found[1].strip():
            doubled = "".join(char * 2 for char in found[0])
            reporter.error(f"{found[0]} in SET MESSAGE stands alone: write {{field}}, or {doubled}", message.span)
        elif (value := _value(found[1].strip(), query, scope, message, reporter)) is not None:
            parts.append(value)
    if sum(not isinstance(part, str) for part in parts) > _MOST_PLACES:
        reporter.error(f"SET MESSAGE may hold {_MOST_PLACES} values at most", message.span)
    return MessageTemplate(tuple(part for part in [*parts, message.value[at:]] if part != ""))


def _value(
    name: str, query: Select, scope: Scope, message: Located[str], reporter: Reporter
) -> MessageName | Expression | None:
    """Return what a name in braces stands for: rule or source, a column of the query, or a field."""
    for column in query.columns:
        if _is_called(name, column.alias, column.expression):
            return column.expression
    if name.lower() in {each.value for each in MessageName}:
        return MessageName(name.lower())
    if query.group_by or query.distinct or any(has_aggregate(column.expression) for column in query.columns):
        shown = ", ".join(_shown(column.alias, column.expression) for column in query.columns)
        reporter.error(
            f"SET MESSAGE: {{{name}}} is no column of this query, which groups rows. It has {shown}.", message.span
        )
        return None
    return scope.resolve(Column(name, None, message.span), reporter)[0]


def _is_called(name: str, alias: str | None, expression: Expression) -> bool:
    if alias is not None:
        return alias.casefold() == name.casefold()
    return isinstance(expression, Column) and expression.qualifier is None and _ends_with(expression.path, name)


def _ends_with(path: str, name: str) -> bool:
    return f".{path.lower()}".endswith(f".{name.lower()}")


def _shown(alias: str | None, expression: Expression) -> str:
    return alias or (expression.path if isinstance(expression, Column) else "a column without a name")
