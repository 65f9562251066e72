"""What one probe says about the update rate, in descending quality: item times, a count, or one bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ItemTimes:
    """Exact times of the items that appeared in (``since_s``, ``until_s``], in unix seconds."""

    since_s: float
    until_s: float
    times_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ItemCount:
    """``count`` items appeared in (``since_s``, ``until_s``]; ``at_least`` if the feed's window overflowed."""

    since_s: float
    until_s: float
    count: int
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class ChangedBit:
    """Whether anything changed in (``since_s``, ``until_s``]; the number of changes is unknown."""

    since_s: float
    until_s: float
    changed: bool


Evidence: TypeAlias = ItemTimes | ItemCount | ChangedBit
