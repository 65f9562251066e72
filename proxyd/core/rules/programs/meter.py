"""Limits the work of a rule for one observation: its steps, and the characters of the texts that it makes.

A step is roughly the evaluation of one operator, a quarter of a microsecond; work on texts counts by their length.
Steps and characters depend only on the rule and on what it reads, so the same rule fails on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from proxyd.core.errors import EvaluationError, WorkLimitError
from proxyd.core.model.item import Value

MOST_CHARACTERS = 1_000_000
"""Length of a text that an expression makes, unless it is made of a longer one."""
_SCAN_BITS, _COMPARE_BITS = 6, 10  # a step reads 2**6 characters, or compares 2**10
_WORST_SEARCH_BITS, _SEARCH_BITS = 6, 8  # a step runs 2**6 instructions of a pattern, or 2**8


@dataclass(frozen=True, slots=True)
class Limits:
    """The work that a rule may do for one observation: steps, and characters of all the texts that it makes.

    On the event loop patterns count as much as they may take at worst (``is_on_loop``).
    """

    steps: float
    characters: float
    is_on_loop: bool = False


WORK_LIMITS = Limits(10_000_000, 50_000_000)
"""A rule that needs more fails."""
# A new item that leads to a notification takes some 780 steps. With 30,000 steps, random rules held the event loop for
# up to 77 ms on a busy machine.
QUICK_LIMITS = Limits(10_000, 500_000, is_on_loop=True)
"""A rule that needs more must not run on the event loop: it takes 5 to 10 ms, and a busy machine multiplies that."""


CORRELATION_LIMITS = Limits(30_000, 500_000, is_on_loop=True)
"""For conditions between an event and the rows of other sources; where they need more, all sources may have a row."""


class Meter:
    """Counts the work that a rule does for one observation, and raises when it exceeds the limits."""

    __slots__ = ("_characters_left", "_limits", "_steps_left")

    def __init__(self, limits: Limits = WORK_LIMITS) -> None:
        self._limits = limits
        self._steps_left = limits.steps
        self._characters_left = limits.characters

    @property
    def steps(self) -> float:
        """Number of steps so far."""
        return self._limits.steps - self._steps_left

    @property
    def is_spent(self) -> bool:
        """Whether a limit was exceeded."""
        return self._steps_left < 0 or self._characters_left < 0

    def spend(self, steps: int) -> None:
        """Count steps that are about to be taken; raises ``WorkLimitError`` once there are too many."""
        self._steps_left -= steps
        if self._steps_left < 0:
            raise WorkLimitError(f"it takes more than {self._limits.steps:,.0f} steps for what one probe found")

    def scan(self, characters: int) -> None:
        """Count the reading of a text of that length; raises ``WorkLimitError``."""
        if characters >> _SCAN_BITS:
            self.spend(characters >> _SCAN_BITS)

    def search(self, characters: int, instructions: int) -> None:
        """Count the search of a pattern in a text; raises ``WorkLimitError``."""
        # At worst re2 runs every instruction of the pattern on each character, but it hardly ever does. The worst case
        # is counted only where it would hold up the event loop.
        bits = _WORST_SEARCH_BITS if self._limits.is_on_loop else _SEARCH_BITS
        self.spend(1 + (characters * instructions >> bits))

    def count_compiling(self, instructions: int) -> None:
        """Count the compiling of a pattern, which is done once; raises ``WorkLimitError``."""
        if self._limits.is_on_loop:  # elsewhere a rule takes as many steps every time
            self.spend(instructions)

    def compare(self, left: Value, right: Value) -> None:
        """Count a comparison of two values; raises ``WorkLimitError``."""
        if isinstance(left, str) and isinstance(right, str):
            self.weigh(min(len(left), len(right)))

    def weigh(self, characters: int) -> None:
        """Count the comparing or copying of that many characters; raises ``WorkLimitError``."""
        if characters >> _COMPARE_BITS:
            self.spend(characters >> _COMPARE_BITS)

    def made(self, value: Value) -> Value:
        """Return a value that an expression made; raises ``WorkLimitError`` once all texts together are too long."""
        if isinstance(value, str):
            self._characters_left -= len(value)
            if self._characters_left < 0:
                most = self._limits.characters
                raise WorkLimitError(f"it makes texts of more than {most:,.0f} characters in all for one probe")
        return value


UNMETERED = Meter(Limits(inf, inf))


def check_length(length: int, *parts: str) -> None:
    """Raise ``EvaluationError`` for a text that would be too long, and longer than each of the parts it is made of.

    >>> check_length(2_000_000, "a" * 3_000_000)
    >>> check_length(2_000_000, "a", "b")
    Traceback (most recent call last):
    proxyd.core.errors.EvaluationError: an expression makes a text of 2000000 characters; the limit is 1000000
    """
    if length > MOST_CHARACTERS and length > max(map(len, parts)):
        raise EvaluationError(f"an expression makes a text of {length} characters; the limit is {MOST_CHARACTERS}")
