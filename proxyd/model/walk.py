"""Walking over expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from proxyd.model.expression import Aggregate, Expression


def children(expression: Expression) -> Iterator[Expression]:
    """Yield the operands directly below an expression."""
    for each in fields(expression):
        value = getattr(expression, each.name)
        for child in value if isinstance(value, tuple) else (value,):
            if isinstance(child, Expression):
                yield child


def has_aggregate(expression: Expression) -> bool:
    """Return whether an aggregate stands anywhere in the expression."""
    waiting = [expression]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Aggregate):
            return True
        waiting.extend(children(each))
    return False
