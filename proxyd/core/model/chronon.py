"""Chronons, the smallest steps of the plan, and the budget of probes in each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import IntEnum
from functools import cache
from math import ceil, floor
from typing import NamedTuple, TypeAlias
from zoneinfo import ZoneInfo, available_timezones

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


@cache
def zone_names() -> frozenset[str]:
    """Return the names of all time zones; the first call reads the file system for 0.1 s."""
    return frozenset(available_timezones())


@cache
def all_zones() -> Mapping[str, ZoneInfo]:
    """Return all time zones by name; the first call reads 600 files, and so belongs to a declaration, not to a rule."""
    # To look up a zone by a text of a source imported modules and read files at each call, for 0.1 s
    return {name: ZoneInfo(name) for name in zone_names()}


class Weekday(IntEnum):
    """The days of the week; Monday is 0."""

    MONDAY = 0
    TUESDAY = 1
    WEDNESDAY = 2
    THURSDAY = 3
    FRIDAY = 4
    SATURDAY = 5
    SUNDAY = 6


def read_clock(text: str) -> time | None:
    """Return the time of day that a text names, or ``None``.

    >>> read_clock("08:00"), read_clock("8 o'clock")
    (datetime.time(8, 0), None)
    """
    found = _CLOCK.fullmatch(text.strip())
    return None if found is None else time(int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class WallTime:
    """``AT '08:00' IN 'Europe/Berlin'``: each day, or on one day of the week; in UTC without a zone.

    Examples
    --------
    >>> eight = WallTime("08:00", "Europe/Berlin")
    >>> eight.next_s(1_774_569_600.0) - 1_774_569_600.0  # on Friday, 27 March 2026, at 00:00 UTC: in seven hours
    25200.0
    >>> eight.next_s(1_774_828_800.0) - 1_774_828_800.0  # on the Monday after, in summer: in six hours
    21600.0
    """

    at: str
    zone: str | None = None
    weekday: Weekday | None = None

    def next_s(self, after_s: float) -> float:
        """Return when it comes next after a time, both in unix seconds; ``at`` must be a time of day.

        A time that the clocks skip in spring comes as much later; one that they show twice in autumn comes once, at
        first.
        """
        clock = read_clock(self.at)
        assert clock is not None
        zone: tzinfo = UTC if self.zone is None else ZoneInfo(self.zone)
        local = datetime.fromtimestamp(after_s, zone).date()
        days = (local + timedelta(days=ahead) for ahead in range(-1, 9))
        wanted = (day for day in days if self.weekday is None or day.weekday() == self.weekday)
        times_s = (datetime.combine(day, clock, zone).timestamp() for day in wanted)
        return next(at_s for at_s in times_s if at_s > after_s)


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
