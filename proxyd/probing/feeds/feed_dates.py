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
_ISO8601 = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}|\d{8}[Tt]\d{4}|\d{4}-?[Ww]\d{2}")
_UNIX = re.compile(r"(?:\d{9,10}|\d{12,13})$")  # seconds or milliseconds


def time_s(text: str | None, parsed: Sequence[int] | None = None) -> float | None:
    """Return unix seconds of a time in a feed, fractions included, or ``None``.

    ``parsed`` is the feed parser's own reading in UTC, used for other forms; it has no fractions.

    >>> time_s("2026-03-01T12:00:00.25Z")
    1772366400.25
    >>> time_s("Sun, 01 Mar 2026 13:00:00 +0100")
    1772366400.0
    >>> time_s("gestern") is None
    True
    """
    stripped = (text or "").strip()
    for form, read in _FORMS:
        if form.match(stripped):
            seconds = _attempt(read, stripped)
            if seconds is not None:
                return seconds
    return None if parsed is None else _attempt(_from_tuple, parsed)


def _iso8601_s(text: str) -> float:
    moment = datetime.fromisoformat(text.upper().replace(" +", "+"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _unix_s(text: str) -> float:
    return float(text) / (1.0 if len(text) <= 10 else 1000.0)


def _rfc822_s(text: str) -> float | None:
    plain = _attempt(_plain_rfc822_s, text)
    if plain is not None:
        return plain
    parts = parsedate_tz(text)
    return None if parts is None else float(mktime_tz(parts))


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
