"""Arithmetic as SQL has it: null for what is no number, whole quotients of whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite

from proxyd.core.model.item import Value


def arithmetic(operator: str, left: Value, right: Value) -> Value:
    """Return the result of an operator; null unless both values are numbers and the result is finite.

    >>> arithmetic("/", 7, 2), arithmetic("/", 7.0, 2), arithmetic("%", -7, 2), arithmetic("/", 1, 0)
    (3, 3.5, -1, None)
    """
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return None
    if operator in "/%" and right == 0:
        return None
    try:
        result = ARITHMETIC[operator](left, right)
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


ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _quotient,
    "%": _remainder,
}
