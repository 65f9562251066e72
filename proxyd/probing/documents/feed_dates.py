"""Reads the times in feeds and pages: right, or not at all. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_MONTH_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_NAMES = {  # how the names of months begin in the languages of feeds that were seen; none has two meanings
    1: "jan ene gen ιαν янв січ sty oca",  # noqa: RUF001 - Greek
    2: "feb fev fév φεβ фев лют lut şub",
    3: "mar mär mrz maa mrt már μάρ μαρ мар бер",  # noqa: RUF001 - Cyrillic
    4: "apr abr avr ápr απρ апр кві kwi nis",
    5: "may mai maj mag mei máj μάι μαι μαΐ мая май тра",
    6: "jun giu juin jún ιούν ιουν июн чер cze haz",  # noqa: RUF001 - Greek
    7: "jul lug juil júl ιούλ ιουλ июл лип lipi lipc tem",
    8: "aug ago aoû aou αύγ αυγ авг сер sie ağu",  # noqa: RUF001 - Greek
    9: "sep set szep σεπ сен вер wrz eyl",
    10: "oct okt out ott οκτ окт жов paź eki",
    11: "nov νοέ νοε ноя лис kas",
    12: "dec dez dic déc des δεκ дек гру gru ara",  # noqa: RUF001 - Cyrillic
}
_BEGINNINGS = {begin: number for number, begins in _NAMES.items() for begin in begins.split()}
_PLAIN_RFC822 = re.compile(
    r"(?:[A-Z][a-z]{2}, )?([0-9]{1,2}) ([A-Z][a-z]{2}) ([12][0-9]{3}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) "
    r"(?:GMT|([+-])([0-9]{2})([0-9]{2}))"
)
_WEEKDAY = r"(?:[^\W\d_]{2,14}(?![^\W\d_])\.?,?\s*)?"
_ORDINAL = r"(?:st\b|nd\b|rd\b|th\b|er\b|\.|\u00ba)?"
_NAME = r"(?P<name>[^\W\d_]{3,14})\.?"
_YEAR_OR_MONTH = re.compile(r"(?P<year>(?:19|20)\d\d)(?:-(?P<month>\d\d))?\Z")
_DAYS = tuple(
    re.compile(_WEEKDAY + form, re.IGNORECASE)
    for form in (
        r"(?P<year>\d{4})(?P<mark>[-/.])(?P<month>\d{1,2})(?P=mark)(?P<day>\d{1,2})(?!\d)\.?",
        r"(?P<year>(?:19|20)\d\d)(?P<month>\d\d)(?P<day>\d\d)(?!\d)",
        rf"(?P<day>\d{{1,2}}){_ORDINAL}[\s-]*(?:de\s+|of\s+)?{_NAME},?[\s-]*(?:de\s+|del\s+)?(?P<year>\d{{4}}|\d\d)(?!\d)(?:\s?[гр]\.)?",  # noqa: RUF001
        rf"{_NAME}[\s-]+(?P<day>\d{{1,2}}){_ORDINAL},?\s+(?P<year>\d{{4}})(?!\d)",
        rf"(?P<year>\d{{4}})[-\s.]+{_NAME}[-\s]+(?P<day>\d{{1,2}})(?!\d)\.?",
        r"(?P<day>\d{1,2})\.\s?(?P<month>\d{1,2})\.\s?(?P<year>\d{4})(?!\d)",
        r"(?P<year>\d{4})\s?[年년]\s?(?P<month>\d{1,2})\s?[月월]\s?(?P<day>\d{1,2})\s?[日일](?:\s?[(（]\w{1,3}[)）])?",  # noqa: RUF001
        r"(?P<first>\d{1,2})(?P<mark>[/-])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4})(?!\d)",
    )
)
_DATES = (*_DAYS, _YEAR_OR_MONTH)  # the latter without a word before it: "March 2026" is no day of January
_ASCTIME = re.compile(
    r"(?P<day>\D+\d{1,2}(?:\s+[A-Za-z]{3})?)\s+(?P<clock>\d{1,2}:\d{2}:\d{2}[^\d]*?[+-]?(?:\d{4})?)\s+(?P<year>\d{4})"
)
_ZONE = (
    r"(?P<zone>[A-Za-z]{1,5})?\s*(?:(?P<sign>[+\u2212-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{2}))?"
    r"(?:\s+[A-Za-z]{2,5})?)?\s*(?:\((?P<comment>[^()]*)\)|\[[^\[\]]*\])?(?:\s+m=[+-][\d.]+)?"
)  # also as Go, JavaScript and Java write it: +0100 CET m=+0.1, GMT+0100 (CET), +01:00[Europe/Berlin]
_TIME_OF_DAY = re.compile(
    r"(?=[\sTt,])(?:\s*,)?\s*(?:[Tt]|at\b|um\b|[-\u2013]\s)?\s*(?P<hour>\d{1,2})(?::|\.(?=\d\d))(?P<minute>\d{1,2})"
    r"(?:[:.](?P<second>\d{1,2})(?P<fraction>[.,]\d{1,9})?)?(?:\s*(?P<half>[AaPp])\.?[Mm]\b\.?|\s*[Uu]hr\b)?\s*" + _ZONE
)
_HOUR_ALONE = re.compile(r"[Tt](?P<hour>\d{2})" + _ZONE)
_DAY_ALONE = re.compile(r"\s*" + _ZONE)
_LONGEST = 100
_YEAR_0 = re.compile(r"\b0\d{3}\b")
_CLOCK = re.compile(r"(?:[Tt]|\s)\d{1,2}[:.]\d")  # behind it such a number is an offset: 10.15.00 +0100
_MOST_OFFSET_S = 14 * 3600.0  # of Kiribati
_FIRST_S = -2_208_988_800.0  # 1900; programs write year 1 for "no time"
_LAST_S = 253_402_300_799.0  # the last second of 9999
_PIVOT = 69  # of years with two digits, as in POSIX
_ZONE_HOURS = {  # ahead of UTC
    "UTC": 0,
    "UT": 0,
    "GMT": 0,
    "Z": 0,
    "WET": 0,
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


def time_s(text: str | None) -> float | None:
    """Return unix seconds of a time in a document, fractions included, or ``None`` if it is not known for sure.

    A time without a zone is in UTC. A zone that is not known, and days and months that could be either, are not read.

    >>> time_s("2026-03-01T12:00:00.25Z")
    1772366400.25
    >>> time_s("Sun, 01 Mar 2026 13:00:00 +0100"), time_s("2026/03/01 12:00")
    (1772366400.0, 1772366400.0)
    >>> time_s("gestern") is None, time_s("0001-01-01T00:00:00Z") is None, time_s("03/01/2026") is None
    (True, True, True)
    """
    written = (text or "").strip()
    seconds = next((found for read in _READERS if (found := _attempt(read, written)) is not None), None)
    return seconds if seconds is not None and _FIRST_S <= seconds <= _LAST_S else None


def says_none(text: str) -> bool:
    """Return whether a text is the zero time with which programs say that they know none, such as Go's year 1.

    >>> says_none("Mon, 01 Jan 0001 00:00:00 +0000"), says_none("Sun, 01 Mar 2026 00:01:00 +0001")
    (True, False)
    """
    return _YEAR_0.search(_CLOCK.split(text, maxsplit=1)[0]) is not None


def _plain_iso8601_s(text: str) -> float | None:
    if _ISO8601.match(text) is None:
        return None
    moment = datetime.fromisoformat(text.upper().replace(" +", "+"))
    if abs((moment.utcoffset() or timedelta()).total_seconds()) > _MOST_OFFSET_S:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _plain_rfc822_s(text: str) -> float | None:
    """Return unix seconds of the commonest form, several times faster, or ``None`` for other forms."""
    found = _PLAIN_RFC822.fullmatch(text)
    if found is None or found[2] not in _MONTHS or text.endswith("-0000"):
        return None
    moment = datetime(
        int(found[3]), _MONTHS[found[2]], int(found[1]), int(found[4]), int(found[5]), int(found[6]), tzinfo=UTC
    )
    offset_s = 3600 * int(found[8] or 0) + 60 * int(found[9] or 0)
    if offset_s > _MOST_OFFSET_S:
        return None
    return moment.timestamp() + (offset_s if found[7] == "-" else -offset_s)


def _unix_s(text: str) -> float | None:
    return float(text) / (1.0 if len(text) <= 10 else 1000.0) if _UNIX.match(text) else None


def _written_s(text: str) -> float | None:
    """Return unix seconds of a time in words and numbers, or ``None`` if a part of it is not understood."""
    if len(text) > _LONGEST or says_none(text):
        return None
    if (last := _ASCTIME.fullmatch(text)) is not None:
        text = f"{last['day']} {last['year']} {last['clock']}"
    for form in _DATES:
        date = form.match(text)
        day = None if date is None else _day(date.groupdict())
        if date is not None and day is not None:
            return _on_day_s(day, text[date.end() :], has_fractions="name" not in date.groupdict())
    return None


def _day(date: dict[str, str | None]) -> datetime | None:
    """Return the beginning of a day, or ``None`` if day and month could be either."""
    year, name = int(date["year"] or 0), date.get("name")
    if year < 100:
        year += 2000 if year < _PIVOT else 1900
    if (first := date.get("first")) is not None:
        month, day = sorted((int(first), int(date["second"] or 0)))
        return datetime(year, month, day, tzinfo=UTC) if day > 12 or month == day else None
    month = _month(name) if name else int(date.get("month") or 1)
    return datetime(year, month, int(date.get("day") or 1), tzinfo=UTC)


def _month(name: str) -> int:
    """Return the number of a month by its name; raises ``ValueError`` for other words.

    >>> _month("Sept"), _month("März"), _month("juillet")
    (9, 3, 7)
    """
    begins = (name.lower()[:length] for length in (4, 3))
    number = next((_BEGINNINGS[begin] for begin in begins if begin in _BEGINNINGS), None)
    if number is None:
        raise ValueError(name)
    return number


def _on_day_s(day: datetime, text: str, *, has_fractions: bool) -> float | None:
    """Return unix seconds of a day and the time of day that follows, or ``None`` if that is another text."""
    found = _TIME_OF_DAY.fullmatch(text) or _HOUR_ALONE.fullmatch(text) or _DAY_ALONE.fullmatch(text)
    if found is None:
        return None
    since_midnight = _time_of_day(found.groupdict())
    fraction = found.groupdict().get("fraction") if has_fractions else None
    seconds = (day + since_midnight).timestamp() - _offset_s(found)
    return seconds if fraction is None else seconds + float(fraction.replace(",", "."))


def _time_of_day(clock: dict[str, str | None]) -> timedelta:
    """Return the time since midnight; raises ``ValueError`` for one that no clock shows."""
    hour, minute, second = (int(clock.get(part) or 0) for part in ("hour", "minute", "second"))
    half = clock.get("half")
    if half and hour <= 12:
        hour = hour % 12 + (12 if half in "Pp" else 0)
    if hour > 24 or minute > 59 or second > 60 or (hour == 24 and (minute or second)):
        raise ValueError(clock)
    return timedelta(hours=hour, minutes=minute, seconds=second)


def _offset_s(found: re.Match[str]) -> float:
    """Return by how many seconds a time's zone is ahead of UTC, which it is in if it names none.

    Raises ``ValueError`` for an offset that no place has, and for an unknown name, which may also be "noon".
    """
    if found["sign"] is None:
        name = (found["zone"] or found["comment"] or "UTC").strip().upper()
        if name not in _ZONE_HOURS:
            raise ValueError(name)
        return 3600.0 * _ZONE_HOURS[name]
    offset_s = 3600.0 * int(found["hours"]) + 60.0 * int(found["minutes"] or 0)
    if offset_s > _MOST_OFFSET_S:
        raise ValueError(found[0])
    return offset_s if found["sign"] == "+" else -offset_s


_READERS: tuple[Callable[[str], float | None], ...] = (_plain_iso8601_s, _plain_rfc822_s, _unix_s, _written_s)


def _attempt(read: Callable[[str], float | None], text: str) -> float | None:
    try:
        return read(text)
    except (ValueError, OverflowError):
        return None
