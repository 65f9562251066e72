from __future__ import annotations

import calendar
import time

import pytest

from proxyd.probing.feeds.fast_feeds import parse_clean_feed
from proxyd.probing.feeds.feed_dates import time_s
from proxyd.probing.feeds.feed_parser import parse_any_feed, parse_feed

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
        ("Sun, 01 Mar 2026 13:00:00 +01:00", NOON_S),
        ("Sun, 01 Mar 2026 13:00:00 GMT+0100", NOON_S),
        ("Sun, 01 Mar 2026 13:00:00 GMT+1", NOON_S),
        ("Sun, 01 Mar 2026 10:00:00 UTC-02:00", NOON_S),
        ("Sun, 01 Mar 2026 12:00:00.75 GMT (noon)", NOON_S),
        ("2026-03-01T13:00:00GMT+01:00", NOON_S),
        ("2026-03-01 12:00:00 UTC", NOON_S),
        ("2026-03-01 07:00:00 -0500", NOON_S),
        ("2026-03-01T13:00:00.5 CET", NOON_S + 0.5),
        ("Sun, 01 Mar 2026 13:00:00 CET", NOON_S),
        ("Sun, 01 Mar 2026 14:00:00 CEST", NOON_S),
        ("Sun, 01 Mar 2026 13:00:00 BST", NOON_S),
        ("Sun, 01 Mar 2026 21:00:00 JST", NOON_S),
        ("Sun, 01 Mar 2026 15:00 MSK", NOON_S),
        ("Sun, 01 Mar 2026 12:00:00 XYZ", NOON_S),
        ("Sun, 01 Mar 2026 12:00:00 -0000", NOON_S),
        ("1970-01-01T00:00:00Z", 0.0),
        ("0001-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00+09:00", None),
        ("Mon, 01 Jan 0001 00:00:00 +0000", None),
        ("0001-01-01 00:00:00 UTC", None),
        ("2026-03-01 12:00:00 Central European Time", None),
        (f"Sun, 01 Mar 2026 12:00:00{' ' * 60_000}x y", None),
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


def test_a_year_without_time_is_none_however_it_was_read() -> None:
    assert time_s("x", (1, 1, 1, 0, 0, 0, 0, 1, 0)) is None


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_times_do_not_depend_on_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert time_s("Sun, 01 Mar 2026 12:00:00 XYZ") == time_s("Sun, 01 Mar 2026 12:00:00") == NOON_S
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("date", ["Mon, 01 Jan 0001 00:00:00 +0000", "0001-01-01T00:00:00Z"])
def test_both_readers_know_no_time_of_an_item_of_year_1(date: str) -> None:
    body = f"<rss version='2.0'><channel><item><guid>1</guid><pubDate>{date}</pubDate></item></channel></rss>".encode()
    fast = parse_clean_feed(body)
    assert fast is not None
    assert fast == parse_any_feed(body)
    assert fast.items[0].published_s is None


def test_a_sitemap_knows_no_time_of_year_1() -> None:
    body = b"<urlset><url><loc>https://e.example/</loc><lastmod>0001-01-01</lastmod></url></urlset>"
    assert parse_feed(body).items[0].published_s is None
