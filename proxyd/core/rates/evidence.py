"""What one probe says about the update rate, in descending quality: item times, a count, or one bit."""

from __future__ import annotations

from collections.abc import Sequence
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


def item_times(evidence: Evidence) -> ItemTimes | None:
    """Return the times of the items, an empty tuple if nothing changed; ``None`` if they are not known."""
    if isinstance(evidence, ItemTimes):
        return evidence
    found = evidence.count or evidence.at_least if isinstance(evidence, ItemCount) else evidence.changed
    return None if found else ItemTimes(evidence.since_s, evidence.until_s, ())


_SELDOM = 0.01  # how often a steady source shows a gap that is taken for a wrong date
_FEWEST = 3  # dates that can outvote one
_MOST_WRONG = 0.25  # share of the dates


def plausible_times(times_s: Sequence[float], until_s: float) -> Sequence[float]:
    """Return sorted times without the oldest ones, if wrong dates are the likely reason of the gap after them.

    A history begins at its oldest time, so a single wrong one would decide how long it is. A gap is too long if a
    source with the other times shows it in less than one of a hundred histories.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``.

    Examples
    --------
    >>> plausible_times([0.0, 90.0, 93.0, 97.0], 100.0)
    [90.0, 93.0, 97.0]
    >>> plausible_times([80.0, 90.0, 93.0, 97.0], 100.0)
    [80.0, 90.0, 93.0, 97.0]
    """
    most = min(int(_MOST_WRONG * len(times_s)), len(times_s) - _FEWEST)
    wrong = 0
    for first in range(1, most + 1):
        rest, rest_s = len(times_s) - first, until_s - times_s[first]
        if times_s[first] - times_s[first - 1] > rest_s * (_SELDOM ** (-1.0 / rest) * 2.0 ** (first / rest) - 1.0):
            wrong = first
    return times_s[wrong:]
