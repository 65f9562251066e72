"""What one probe says about the update rate, in descending quality: item times, a count, or one bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ItemTimes:
    """Exact times of the items that appeared in (``since_s``, ``until_s``], in unix seconds.

    Examples
    --------
    >>> len(ItemTimes(since_s=0.0, until_s=60.0, times_s=(12.0, 50.0)).times_s)
    2
    """

    since_s: float
    until_s: float
    times_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ItemCount:
    """``count`` items appeared in (``since_s``, ``until_s``]; ``at_least`` if the feed's window overflowed.

    Examples
    --------
    >>> ItemCount(since_s=0.0, until_s=60.0, count=20, at_least=True).at_least
    True
    """

    since_s: float
    until_s: float
    count: int
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class ChangedBit:
    """Whether anything changed in (``since_s``, ``until_s``]; the number of changes is unknown.

    Examples
    --------
    >>> ChangedBit(since_s=0.0, until_s=60.0, changed=False).changed
    False
    """

    since_s: float
    until_s: float
    changed: bool


Evidence: TypeAlias = ItemTimes | ItemCount | ChangedBit
