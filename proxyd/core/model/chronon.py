"""Chronons, the smallest time steps of a plan, and the grid that ties them to unix time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import floor
from typing import TypeAlias

Chronon: TypeAlias = int
"""Index of a time step; never a float."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """A finite run of chronons, ``start`` inclusive and ``stop`` exclusive.

    >>> len(Epoch(3, 7)), 6 in Epoch(3, 7), 7 in Epoch(3, 7)
    (4, True, False)
    """

    start: Chronon
    stop: Chronon

    def __post_init__(self) -> None:
        if self.stop < self.start:
            raise ValueError(f"an epoch cannot stop at {self.stop} before it starts at {self.start}")

    def __len__(self) -> int:
        return self.stop - self.start

    def __contains__(self, chronon: object) -> bool:
        return isinstance(chronon, int) and self.start <= chronon < self.stop

    def __iter__(self) -> Iterator[Chronon]:
        return iter(range(self.start, self.stop))


@dataclass(frozen=True, slots=True)
class ChrononGrid:
    """Chronons of ``length_s`` seconds, number 0 starting at unix time 0.

    >>> grid = ChrononGrid(length_s=10.0)
    >>> grid.chronon_at(25.0), grid.start_s(2), grid.ceil(61.0)
    (2, 20.0, 7)
    """

    length_s: float

    def __post_init__(self) -> None:
        if self.length_s <= 0:
            raise ValueError("a chronon must last longer than 0 s")

    def chronon_at(self, time_s: float) -> Chronon:
        """Return the chronon that contains ``time_s`` (unix seconds)."""
        return floor(time_s / self.length_s + 1e-9)

    def start_s(self, chronon: Chronon) -> float:
        """Return the unix time at which ``chronon`` starts."""
        return chronon * self.length_s

    def ceil(self, duration_s: float) -> int:
        """Return the least number of chronons that last at least ``duration_s``."""
        return -floor(-duration_s / self.length_s + 1e-9)
