"""Chronons, the smallest steps of the plan, and the budget of probes in each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil, floor
from typing import NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

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


_ROUNDING = 1e-9
_QUARTER_S = 900.0


@dataclass(frozen=True, slots=True)
class BudgetHours:
    """A rate for the hours of the day from ``start`` to ``stop``, which may cross midnight.

    Examples
    --------
    >>> BudgetHours(start=22, stop=6, per_s=2.0).holds_at(23)
    True
    """

    start: int
    stop: int
    per_s: float

    def holds_at(self, hour: int) -> bool:
        """Whether the rate holds in ``hour`` (0..23)."""
        if self.start < self.stop:
            return self.start <= hour < self.stop
        return hour >= self.start or hour < self.stop


@dataclass(frozen=True, slots=True)
class Budget:
    """Probes per second, by hour of day; the first entry of ``hours`` that holds decides.

    >>> Budget(1.0).capacity(7, ChrononGrid(10.0))
    10
    >>> [Budget(0.25).capacity(j, ChrononGrid(1.0)) for j in range(8)]
    [0, 0, 0, 1, 0, 0, 0, 1]
    """

    per_s: float
    hours: tuple[BudgetHours, ...] = ()

    def times(self, factor: float) -> Budget:
        """Return a budget with a part of the probes at every hour.

        >>> Budget(1.0, (BudgetHours(start=22, stop=4, per_s=5.0),)).times(0.5).mean_per_s
        1.0
        """
        hours = tuple(replace(each, per_s=factor * each.per_s) for each in self.hours)
        return Budget(factor * self.per_s, hours)

    def rate_per_s(self, time_s: float, zone: ZoneInfo | None = None) -> float:
        """Return the probes per second that are allowed at ``time_s`` (unix seconds)."""
        if not self.hours:
            return self.per_s
        hour = datetime.fromtimestamp(time_s, zone or UTC).hour
        return self._per_s_at(hour)

    def _per_s_at(self, hour: int) -> float:
        return next((entry.per_s for entry in self.hours if entry.holds_at(hour)), self.per_s)

    @property
    def mean_per_s(self) -> float:
        """Probes per second over a whole day.

        >>> Budget(1.0, (BudgetHours(start=22, stop=4, per_s=5.0),)).mean_per_s
        2.0
        """
        return sum(map(self._per_s_at, range(24))) / 24

    def capacity(self, chronon: Chronon, grid: ChrononGrid, zone: ZoneInfo | None = None) -> int:
        """Return ``C_j``, the whole number of probes of ``chronon``.

        A fractional rate is rounded so that any run of chronons gets its rate to within one probe. The budget that one
        chronon does not use is not passed on to the next.
        """
        per_chronon = self.rate_per_s(grid.start_s(chronon), zone) * grid.length_s
        return floor((chronon + 1) * per_chronon + _ROUNDING) - floor(chronon * per_chronon + _ROUNDING)

    def next_room(self, chronon: Chronon, stop: Chronon, grid: ChrononGrid, zone: ZoneInfo | None = None) -> Chronon:
        """Return the first chronon from ``chronon`` on that has room for a probe; ``stop`` if none before it has.

        It looks at few chronons, however many there are.

        >>> [Budget(per_s).next_room(0, 1_000_000, ChrononGrid(10.0)) for per_s in (1.0, 0.01, 0.0)]
        [0, 9, 1000000]
        """
        now = chronon
        while now < stop and not self.capacity(now, grid, zone):
            start_s, until = grid.start_s(now), stop
            if self.hours:  # zones begin their hours at quarters of ours
                until = min(stop, grid.chronon_at((start_s // _QUARTER_S + 1) * _QUARTER_S))
            per_chronon = self.rate_per_s(start_s, zone) * grid.length_s
            if per_chronon > 0:
                until = min(until, ceil((floor(now * per_chronon + _ROUNDING) + 1 - _ROUNDING) / per_chronon) - 2)
            now = max(now + 1, until)
        return min(now, stop)


class Target(NamedTuple):
    """The share of its items' worth, 0 to 1, that a rule is to get.

    ``parts`` holds times, and the part of an item's worth that is lost if a probe comes later; an infinite time stands
    for the source's next item.

    >>> Target(0.9, ((21600.0, 1.0),)).times(1 / 1800)
    Target(share=0.9, parts=((12.0, 1.0),))
    """

    share: float
    parts: tuple[tuple[float, float], ...]

    def times(self, factor: float) -> Target:
        """Return the target with times in another unit."""
        return Target(self.share, tuple((after * factor, part) for after, part in self.parts))


DEFAULT_TARGET = Target(0.9, ((3 * 3600.0, 1.0),))
"""That of a rule without a life, with its time in seconds."""
