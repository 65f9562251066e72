"""Values of fields: conversion to their types, and their form in a notification."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from proxyd.core.model.item import Value
from proxyd.core.model.numbers import plain_number
from proxyd.core.model.profile import FieldType

_EARLIEST_S, _LATEST_S = -62135596800.0, 253402300799.0  # years 1 to 9999
_LARGEST = 2**63
TIMESTAMP_PATHS = frozenset({"channel.item.pubdate", "channel.item.updated"})


def iso_time(time_s: float) -> str:
    """Return unix seconds as ISO 8601 in UTC, to the millisecond; such times sort as texts.

    >>> iso_time(0.0), iso_time(1.5)
    ('1970-01-01T00:00:00.000Z', '1970-01-01T00:00:01.500Z')
    """
    time_s = min(max(time_s, _EARLIEST_S), _LATEST_S)
    return datetime.fromtimestamp(round(time_s, 3), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def minute_of(time_s: float) -> str:
    """Return unix seconds for people, in UTC and to the minute.

    >>> minute_of(90.0)
    '1970-01-01 00:01 UTC'
    """
    return f"{datetime.fromtimestamp(min(max(time_s, _EARLIEST_S), _LATEST_S), UTC):%Y-%m-%d %H:%M} UTC"


def parse_iso(text: str) -> float | None:
    """Return the unix seconds of an ISO 8601 time (UTC if it names no zone), or ``None``.

    >>> parse_iso("1970-01-02"), parse_iso("soon")
    (86400.0, None)
    """
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    time_s = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return time_s if _EARLIEST_S <= time_s <= _LATEST_S else None


def coerce(
    value: Value,
    field_type: FieldType,
    *,
    path: str = "",
    read_number: Callable[[str], float | int | None] = plain_number,
) -> Value:
    """Return ``value`` as its declared type, or ``None`` if it does not fit.

    A feed's times, which are declared as String, are read as ISO 8601. ``read_number`` reads the texts of numbers.

    >>> coerce("12", FieldType.INTEGER), coerce("twelve", FieldType.INTEGER), coerce("yes", FieldType.BOOLEAN)
    (12, None, True)
    """
    if value is None:
        return None
    match field_type:
        case FieldType.STRING | FieldType.URL:
            return iso_time(float(value)) if path in TIMESTAMP_PATHS and isinstance(value, float) else str(value)
        case FieldType.BOOLEAN:
            return _boolean(value)
        case FieldType.TIMESTAMP:
            return float(value) if isinstance(value, int | float) else parse_iso(value)
        case FieldType.INTEGER:
            number = read_number(str(value))
            is_whole = number is not None and number == int(number) and abs(number) < _LARGEST
            return int(number) if number is not None and is_whole else None
        case FieldType.DECIMAL:
            return read_number(str(value))


def _boolean(value: Value) -> bool | None:
    text = str(value).strip().lower()
    if text in {"true", "yes", "1", "on", "t", "y"}:
        return True
    return False if text in {"false", "no", "0", "off", "f", "n"} else None


__all__ = ["TIMESTAMP_PATHS", "coerce", "is_equal", "is_less", "iso_time", "parse_iso"]


def is_equal(left: Value, right: Value) -> bool:
    """Return whether two values that are not null are equal: as numbers if both are numbers, otherwise as texts."""
    a, b = _comparable(left, right)
    return a == b


def is_less(left: Value, right: Value) -> bool:
    """Return whether one value comes before another; neither may be null."""
    a, b = _comparable(left, right)
    return a < b  # type: ignore[operator]  # both numbers or both texts


def _comparable(left: Value, right: Value) -> tuple[float, float] | tuple[str, str]:
    if isinstance(left, int | float) and isinstance(right, int | float):
        return left, right
    return str(left), str(right)
