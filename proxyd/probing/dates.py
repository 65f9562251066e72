"""Times as feeds write them. Pure."""

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
_ISO8601 = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}|\d{8}[Tt]\d{4}|\d{4}-?[Ww]\d{2}")
_UNIX = re.compile(r"(?:\d{9,10}|\d{12,13})$")  # seconds or milliseconds


def time_s(text: str | None, parsed: Sequence[int] | None = None) -> float | None:
    """Return unix seconds of a time in a feed, fractions included, or ``None``.

    ``parsed`` is the feed parser's own reading in UTC, for the forms not understood here; it has no fractions.

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
    parts = parsedate_tz(text)
    return None if parts is None else float(mktime_tz(parts))


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
