"""Reads the times in feeds. Pure."""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime
from email.utils import mktime_tz, parsedate_tz
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_Text = TypeVar("_Text")

_RFC822 = re.compile(r"(?:[A-Za-z]{3,9},?\s+)?\d{1,2}[\s-][A-Za-z]{3,9}[\s-]\d{2,4}\s+\d{1,2}:\d{2}")
_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_PLAIN_RFC822 = re.compile(
    r"(?:[A-Z][a-z]{2}, )?([0-9]{1,2}) ([A-Z][a-z]{2}) ([12][0-9]{3}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) "
    r"(?:GMT|([+-])([0-9]{2})([0-9]{2}))"
)
_CLOCK = re.compile(
    r"(?P<day>.*?)(?P<clock>\d{1,2}:\d{2}(?::\d{2})?)(?P<fraction>[.,]\d{1,9})?\s*+(?P<zone>[A-Za-z]{1,5})?\s*+"
    r"(?:(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{2}))?)?\s*+(?:\([^()]*\))?"
)
_LONGEST = 100
_YEAR_0 = re.compile(r"\b0\d{3}\b")
_FIRST_S = -2_208_988_800.0  # 1900; programs write year 1 for "no time"
_ZONE_HOURS = {  # ahead of UTC
    "CET": 1,
    "CEST": 2,
    "MET": 1,
    "MEST": 2,
    "MEZ": 1,
    "MESZ": 2,
    "WEST": 1,
    "BST": 1,
    "IST": 5.5,
    "MSK": 3,
    "EET": 2,
    "EEST": 3,
    "SAST": 2,
    "HKT": 8,
    "SGT": 8,
    "AWST": 8,
    "JST": 9,
    "KST": 9,
    "AEST": 10,
    "AEDT": 11,
    "NZST": 12,
    "NZDT": 13,
    "AST": -4,
    "ADT": -3,
    "EST": -5,
    "EDT": -4,
    "CST": -6,
    "CDT": -5,
    "MST": -7,
    "MDT": -6,
    "PST": -8,
    "PDT": -7,
    "AKST": -9,
    "AKDT": -8,
    "HST": -10,
    "BRT": -3,
}
_ISO8601 = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}|\d{8}[Tt]\d{4}|\d{4}-?[Ww]\d{2}")
_UNIX = re.compile(r"(?:\d{9,10}|\d{12,13})$")  # seconds or milliseconds


def time_s(text: str | None, parsed: Sequence[int] | None = None) -> float | None:
    """Return unix seconds of a time in a feed, fractions included, or ``None``.

    ``parsed`` is the feed parser's own reading in UTC, used for other forms; it has no fractions.

    >>> time_s("2026-03-01T12:00:00.25Z")
    1772366400.25
    >>> time_s("Sun, 01 Mar 2026 13:00:00 +0100")
    1772366400.0
    >>> time_s("gestern") is None, time_s("0001-01-01T00:00:00Z") is None
    (True, True)
    """
    seconds = _written_s((text or "").strip())
    if seconds is None and parsed is not None:
        seconds = _attempt(_from_tuple, parsed)
    return seconds if seconds is not None and seconds >= _FIRST_S else None


def says_none(text: str) -> bool:
    """Return whether a text is the zero time with which programs say that they know none, such as Go's year 1.

    >>> says_none("Mon, 01 Jan 0001 00:00:00 +0000"), says_none("Sun, 01 Mar 2026 00:01:00 +0001")
    (True, False)
    """
    return _YEAR_0.search(text.partition(":")[0]) is not None


def _written_s(text: str) -> float | None:
    for form, read in _FORMS:
        if form.match(text):
            seconds = _attempt(read, text)
            if seconds is not None:
                return seconds
    return None


def _iso8601_s(text: str) -> float:
    plain = _attempt(_plain_iso8601_s, text)
    return _zoned_iso8601_s(text) if plain is None else plain


def _plain_iso8601_s(text: str) -> float:
    moment = datetime.fromisoformat(text.upper().replace(" +", "+"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _zoned_iso8601_s(text: str) -> float:
    """Return unix seconds of a time whose zone is a name, or stands apart."""
    found = _clock_of(text)
    moment = datetime.fromisoformat(f"{found['day']}{found['clock']}{found['fraction'] or ''}".upper())
    return moment.replace(tzinfo=UTC).timestamp() - _offset_s(found)


def _clock_of(text: str) -> re.Match[str]:
    found = _CLOCK.fullmatch(text) if len(text) <= _LONGEST else None
    if found is None:
        raise ValueError(text)
    return found


def _offset_s(found: re.Match[str]) -> float:
    """Return by how many seconds a time's zone is ahead of UTC; unknown names count as UTC."""
    if found["sign"] is None:
        return 3600.0 * _ZONE_HOURS.get((found["zone"] or "").upper(), 0)
    offset_s = 3600.0 * int(found["hours"]) + 60.0 * int(found["minutes"] or 0)
    return -offset_s if found["sign"] == "-" else offset_s


def _unix_s(text: str) -> float:
    return float(text) / (1.0 if len(text) <= 10 else 1000.0)


def _rfc822_s(text: str) -> float | None:
    plain = _attempt(_plain_rfc822_s, text)
    if plain is not None:
        return plain
    found = _clock_of(text)
    parts = parsedate_tz(f"{found['day']}{found['clock']} +0000")
    return None if parts is None or says_none(text) else mktime_tz(parts) - _offset_s(found)


def _plain_rfc822_s(text: str) -> float | None:
    """Return unix seconds of the commonest form, several times faster, or ``None`` for other forms."""
    found = _PLAIN_RFC822.fullmatch(text)
    if found is None or found[2] not in _MONTHS or text.endswith("-0000"):
        return None
    moment = datetime(
        int(found[3]), _MONTHS[found[2]], int(found[1]), int(found[4]), int(found[5]), int(found[6]), tzinfo=UTC
    )
    offset_s = 3600 * int(found[8] or 0) + 60 * int(found[9] or 0)
    return moment.timestamp() + (offset_s if found[7] == "-" else -offset_s)


def _from_tuple(parsed: Sequence[int]) -> float:
    return float(calendar.timegm(tuple(parsed)))


_FORMS: tuple[tuple[re.Pattern[str], Callable[[str], float | None]], ...] = (
    (_ISO8601, _iso8601_s),
    (_RFC822, _rfc822_s),
    (_UNIX, _unix_s),
)


def _attempt(read: Callable[[_Text], float | None], value: _Text) -> float | None:
    try:
        return read(value)
    except (ValueError, OverflowError, TypeError, IndexError):
        return None
