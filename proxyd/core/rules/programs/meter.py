"""Limits on the texts that a rule's expressions make."""

from __future__ import annotations

from math import inf

from proxyd.core.model.item import Value
from proxyd.errors import EvaluationError

MOST_CHARACTERS = 1_000_000
"""Length of a text that an expression makes longer than those it is made of."""
MOST_MADE = 50_000_000
"""Characters of all texts that the expressions of a rule make while one observation is taken in."""


class Meter:
    """Counts the characters of the texts that expressions make."""

    __slots__ = ("_left",)

    def __init__(self, most: float = MOST_MADE) -> None:
        self._left = most

    def made(self, value: Value) -> Value:
        """Return a value that an expression made; raise ``EvaluationError`` once all texts together are too long."""
        if isinstance(value, str):
            self._left -= len(value)
            if self._left < 0:
                raise EvaluationError(f"its expressions make texts of more than {MOST_MADE} characters in all")
        return value


UNMETERED = Meter(inf)


def check_length(length: int, *parts: str) -> None:
    """Raise ``EvaluationError`` for a text that would be too long, and longer than each of the parts it is made of.

    >>> check_length(2_000_000, "a" * 3_000_000)
    >>> check_length(2_000_000, "a", "b")
    Traceback (most recent call last):
    proxyd.errors.EvaluationError: an expression makes a text of 2000000 characters; the limit is 1000000
    """
    if length > MOST_CHARACTERS and length > max(map(len, parts)):
        raise EvaluationError(f"an expression makes a text of {length} characters; the limit is {MOST_CHARACTERS}")
