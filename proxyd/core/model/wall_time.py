"""Times of day as people say them, in a zone: they follow its daylight saving."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import IntEnum
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


@cache
def zone_names() -> frozenset[str]:
    """Return the names of all time zones; the first call reads the file system for 0.1 s."""
    return frozenset(available_timezones())


@cache
def all_zones() -> Mapping[str, ZoneInfo]:
    """Return all time zones by name; the first call reads 600 files, and so belongs to a declaration, not to a rule.

    To look up a zone by a text of a source imported modules and read files at each call, for 0.1 s.
    """
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
