from __future__ import annotations

import calendar
import time

import pytest

from proxyd.core.model.profile import FieldType
from proxyd.probing.documents.feed_dates import time_s
from proxyd.probing.feeds.fast_feeds import parse_clean_feed
from proxyd.probing.feeds.feed_parser import parse_any_feed, parse_feed
from proxyd.probing.pages.page_values import value_as_type

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
        ("Sun, 01 Mar 2026 12:0:0 Z", NOON_S),
        ("Sun, 01 Mar 2026 13.00.00 +0100", NOON_S),
        ("Sun  1 Mar 13:00:00 CET 2026", NOON_S),
        ("2026年3月1日(日) 12:00", NOON_S),
        ("2026년 3월 1일 12:00", NOON_S),
        ("вс, 01 мар 2026 15:00:00 +0300", NOON_S),
        ("1 марта 2026 г. 12:00", NOON_S),  # noqa: RUF001
        ("1 березня 2026 р., 12:00", NOON_S),  # noqa: RUF001
        ("1 marca 2026, 12:00", NOON_S),
        ("1 Mart 2026 12:00", NOON_S),
        ("1 marca 2026", NOON_S - 43200.0),
        ("2 lipca 2026", NOON_S - 43200.0 + 123 * 86400.0),
        ("2 lipnja 2026", None),  # of Croatians, who call June so
        ("1 listopada 2026", None),  # November to Poles, October to Croats
        ("1 Mar 2026 1.5", None),
        ("2026-03-01T13:00:00.5 CET", NOON_S + 0.5),
        ("Sun, 01 Mar 2026 13:00:00 CET", NOON_S),
        ("Sun, 01 Mar 2026 14:00:00 CEST", NOON_S),
        ("Sun, 01 Mar 2026 13:00:00 BST", NOON_S),
        ("Sun, 01 Mar 2026 21:00:00 JST", NOON_S),
        ("Sun, 01 Mar 2026 15:00 MSK", NOON_S),
        ("Sun, 01 Mar 2026 12:00:00 XYZ", None),
        ("Sun, 01 Mar 2026 12:00:00 -0000", NOON_S),
        ("1970-01-01T00:00:00Z", 0.0),
        ("0001-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00+09:00", None),
        ("Mon, 01 Jan 0001 00:00:00 +0000", None),
        ("0001-01-01 00:00:00 UTC", None),
        ("2026-03-01 12:00:00 Central European Time", None),
        (f"Sun, 01 Mar 2026 12:00:00{' ' * 60_000}x y", None),
        ("March 2026", None),
        ("Spring 2026", None),
        ("2026-03-01 noon", None),
        ("Sun, 01 Mar 2026 13:00:00 (CET)", NOON_S),
        ("Sun, 01 Mar 2026 12:00:00 +9900", None),
        ("Sun, 01 Mar 2026 12:00:00 UTC+25:00", None),
        ("2026-03-01T12:00:00+23:00", None),
        ("2026/03/01 12:00", NOON_S),
        ("2026.03.01 12:00", NOON_S),
        ("Sun, 2026/03/01 07:00:00 EST", NOON_S),
        ("2026-3-1 12:00", NOON_S),
        ("2026-03-01 13:00:00 +0100 CET", NOON_S),
        ("2026-03-01 13:00:00.5 +0100 CET m=+0.000001", NOON_S + 0.5),
        ("2026-03-01T13:00:00+01:00[Europe/Berlin]", NOON_S),
        ("2026-03-01T12:00:00Z[UTC]", NOON_S),
        ("2026-03-01T12", NOON_S),
        ("2026-03-01T12:00:9Z", NOON_S + 9),
        ("2026-02-28T24:00:00Z", NOON_S - 43200),
        ("2026-03-01", NOON_S - 43200),
        ("2026-03-01+01:00", NOON_S - 46800),
        ("2026-03", NOON_S - 43200),
        ("20260301", NOON_S - 43200),
        ("Sun,01 Mar 2026 12:00:00 GMT", NOON_S),
        ("Sun, 01 Mar 2026 08:28:28 PM", NOON_S + 30508),
        ("Sun, 01 Mar 2026 12:00:00 AM GMT", NOON_S - 43200),
        ("Sun, 01 Mar 2026 12:00 p.m.", NOON_S),
        ("Sun Mar  1 12:00:00 2026", NOON_S),
        ("Sun Mar 1 13:00:00 CET 2026", NOON_S),
        ("Sun Mar 01 13:00:00 +0100 2026", NOON_S),
        ("Sun Mar 01 2026 13:00:00 GMT+0100 (Central European Standard Time)", NOON_S),
        ("Sunday, March 1, 2026 - 12:00", NOON_S),
        ("March 1, 2026 12:00 PM", NOON_S),
        ("March 1st, 2026 at 12:00", NOON_S),
        ("Sun, 01-Mar-26 12:00:00 GMT", NOON_S),
        ("1 March 2026", NOON_S - 43200),
        ("01.03.2026 12:00", NOON_S),
        ("So, 1. M\u00e4rz 2026 um 12:00 Uhr", NOON_S),
        ("dim., 01 mars 2026 13:00:00 +0100", NOON_S),
        ("1 de marzo de 2026 12:00", NOON_S),
        ("13/03/2026 12:00", NOON_S + 12 * 86400),
        ("03/13/2026 12:00", NOON_S + 12 * 86400),
        ("03/01/2026 12:00", None),
        ("01-03-2026", None),
        ("12:00:00 PM", None),
        ("2026-060", None),
        ("26-03-01", None),
        ("31 Feb 2026 12:00", None),
        ("Sun, 01 Mar 2026 25:00:00 GMT", None),
        ("Sun, 01 Xyz 2026 12:00:00 GMT", None),
        ("1 Mar 2026 or 2 Mar 2026", None),
        ("2026-03-01 10:00 and later", None),
        ("2026-13-01T12:00:00Z", None),
        ("Sun, 99 Mar 2026 12:00:00 GMT", None),
        ("9999-12-31T23:59:59-23:00", None),
        ("gestern", None),
        ("", None),
        (None, None),
    ],
)
def test_times_are_read_right_or_not_at_all(text: str | None, expected: float | None) -> None:
    assert time_s(text) == expected


@pytest.mark.parametrize("text", ["2026/03/01 12:00", "Sun Mar  1 12:00:00 2026", "2026-03-01 12:00:00 +0000 UTC"])
def test_feeds_pages_and_sitemaps_read_the_same_times(text: str) -> None:
    item = f"<item><guid>1</guid><pubDate>{text}</pubDate></item>"
    sitemap = f"<urlset><url><loc>https://e.example/</loc><lastmod>{text}</lastmod></url></urlset>"
    feed = parse_feed(f"<rss version='2.0'><channel>{item}</channel></rss>".encode())
    assert [feed.items[0].published_s, parse_feed(sitemap.encode()).items[0].published_s] == [NOON_S, NOON_S]
    assert value_as_type(text, FieldType.TIMESTAMP) == NOON_S


def test_a_day_without_marks_is_no_number_of_seconds() -> None:
    assert value_as_type("20260301", FieldType.TIMESTAMP) == NOON_S - 43200
    assert value_as_type("1772366400", FieldType.TIMESTAMP) == NOON_S


@pytest.mark.parametrize("zone", ["Europe/Berlin", "UTC"])
def test_times_do_not_depend_on_the_zone_of_the_machine(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert time_s("Sun, 01 Mar 2026 12:00:00") == time_s("Sun, 01 Mar 2026 12:00:00 UTC") == NOON_S
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
