"""Parts of the week in words, such as ``Mon-Fri 22:00-07:00``, and the hours in which nothing is sent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import count
from math import gcd
from zoneinfo import ZoneInfo

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PART = re.compile(
    r"\s*(?P<days>[A-Za-z]{3}(?:\s*[-,]\s*[A-Za-z]{3})*)?"
    r"\s*(?:(?P<from>[0-9]{1,2}:[0-9]{2})\s*-\s*(?P<to>[0-9]{1,2}:[0-9]{2}))?\s*"
)
_MOST_PARTS = 20
_QUARTER = 15


@dataclass(frozen=True, slots=True)
class _During:
    """A part of the week: days (0 is Monday) from ``start`` to ``stop``, in minutes of the day, ``stop`` exclusive.

    If ``stop`` is not after ``start``, it lies in the next day.
    """

    days: frozenset[int]
    start: int
    stop: int

    def holds(self, local: datetime) -> bool:
        """Whether a time is in this part; a period over midnight belongs to the day on which it begins.

        >>> during = parse_during("Fri 22:00-07:00")
        >>> during.holds(datetime(2026, 11, 28, 6, 59)), during.holds(datetime(2026, 11, 28, 7))  # a Saturday
        (True, False)
        """
        minute = local.hour * 60 + local.minute
        if self.start < self.stop:
            return local.weekday() in self.days and self.start <= minute < self.stop
        if minute >= self.start:
            return local.weekday() in self.days
        return minute < self.stop and (local - timedelta(days=1)).weekday() in self.days


def parse_during(text: str) -> _During | None:
    """Return the part of the week that a text names, or ``None``.

    >>> during = parse_during("Mon-Fri 09:00-18:00")
    >>> sorted(during.days), during.start, during.stop
    ([0, 1, 2, 3, 4], 540, 1080)
    """
    match = _PART.fullmatch(text)
    return None if match is None else _during(match)


def _during(match: re.Match[str]) -> _During | None:
    if not match[0].strip():
        return None
    days = _read_days(match["days"])
    start, stop = (_read_minute(each) for each in (match["from"] or "0:00", match["to"] or "24:00"))
    if days is None or start is None or stop is None or start in (stop, 1440):
        return None
    return _During(days, start, stop)


def _read_days(text: str | None) -> frozenset[int] | None:
    if text is None:
        return frozenset(range(7))
    days: set[int] = set()
    for part in text.lower().split(","):
        ends = [end.strip() for end in part.split("-")]
        if len(ends) > 2 or not set(ends) <= set(_DAYS):
            return None
        first, last = _DAYS.index(ends[0]), _DAYS.index(ends[-1])
        days.update((first + step) % 7 for step in range((last - first) % 7 + 1))
    return frozenset(days)


def _read_minute(text: str) -> int | None:
    hour, minute = (int(part) for part in text.split(":"))
    total = hour * 60 + minute
    return total if minute < 60 and total <= 1440 else None


def parse_week_parts(text: str) -> tuple[_During, ...] | None:
    """Return the parts of the week that a text lists, or ``None``.

    >>> [sorted(part.days) for part in parse_week_parts("Mon-Fri 22:00-07:00, Sat,Sun")]
    [[0, 1, 2, 3, 4], [5, 6]]
    """
    parts: list[_During] = []
    at = 0
    while at <= len(text) and len(parts) < _MOST_PARTS:
        match = _PART.match(text, at)
        during = None if match is None else _during(match)
        if match is None or during is None:
            return None
        parts.append(during)
        at = match.end() + 1
        if match.end() == len(text):
            return tuple(parts)
        if text[match.end()] != ",":
            return None
    return None


def leaves_time(parts: Sequence[_During]) -> bool:
    """Whether some minute of the week is in none of the parts."""
    days = (datetime(2026, 1, 5) + timedelta(days=day) for day in range(7))  # noqa: DTZ001 - any week, from a Monday
    moments = (day + timedelta(minutes=edge) for day in days for edge in _edges(parts))
    return any(not any(part.holds(moment) for part in parts) for moment in moments)


def _edges(parts: Sequence[_During]) -> list[int]:
    """Return the minutes of the day at which any of the parts may begin or end."""
    return sorted({0} | {minute % 1440 for part in parts for minute in (part.start, part.stop)})


@dataclass(frozen=True, slots=True)
class QuietHours:
    """``QUIET DURING 'Mon-Fri 22:00-07:00, Sat,Sun' IN 'Europe/Berlin'``: when nothing is sent; without a zone in UTC.

    >>> berlin = QuietHours("22:00-07:00", "Europe/Berlin")
    >>> berlin.end_s(1_774_656_000.0) - 1_774_656_000.0  # Saturday, 28 March 2026, 01:00: in six hours
    21600.0
    >>> berlin.end_s(1_774_738_800.0) - 1_774_738_800.0  # a day later at 00:00; the clocks are put forward at 2:00
    21600.0
    >>> berlin.end_s(1_774_688_400.0) is None
    True
    """

    during: str
    zone: str | None = None

    def end_s(self, at_s: float) -> float | None:
        """Return when they end that hold at a time, both in unix seconds; ``None`` if none do."""
        zone: tzinfo = UTC if self.zone is None else ZoneInfo(self.zone)
        parts = parse_week_parts(self.during)
        assert parts is not None

        def is_quiet(time_s: float) -> bool:
            local = datetime.fromtimestamp(time_s, zone)
            return any(part.holds(local) for part in parts)

        if not is_quiet(at_s):
            return None
        step_s = 60.0 * gcd(_QUARTER, *_edges(parts))  # clocks are put forward and back at a quarter of an hour
        return next(end_s for end_s in count((at_s // step_s + 1.0) * step_s, step_s) if not is_quiet(end_s))


def quiet_until_s(hours: Sequence[QuietHours], at_s: float) -> float | None:
    """Return until when all of some quiet hours hold that hold at a time, or ``None`` if one of them does not."""
    ends_s = [each.end_s(at_s) for each in hours]
    known = [end_s for end_s in ends_s if end_s is not None]
    return min(known) if known and len(known) == len(ends_s) else None
