"""Times of day come once a day, or once a week, and stay what the clock shows through daylight saving."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from proxyd.core.model.chronon import WallTime, Weekday, read_clock
from proxyd.core.model.field_values import iso_time, moment_s, parse_iso

NEW_YEAR_S = 1_767_225_600.0  # 2026-01-01T00:00Z
YEAR_S = 366 * 86400.0


def times_of(wanted: WallTime) -> list[datetime]:
    """Return when a time of day comes in a year, in its own zone."""
    found, at_s = [], NEW_YEAR_S
    while (at_s := wanted.next_s(at_s)) < NEW_YEAR_S + YEAR_S:
        found.append(datetime.fromtimestamp(at_s, ZoneInfo(wanted.zone or "UTC")))
    return found


@pytest.mark.parametrize("zone", [None, "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Auckland"])
def test_eight_in_the_morning_is_eight_on_every_day_of_the_year(zone: str | None) -> None:
    found = times_of(WallTime("08:00", zone))
    assert {(each.hour, each.minute) for each in found} == {(8, 0)}
    days = [each.date() for each in found]
    assert days == [days[0] + timedelta(days=number) for number in range(len(days))]
    assert len(days) >= 365


def test_a_time_that_the_clocks_skip_comes_an_hour_later_on_that_day() -> None:
    found = {each.date(): each.strftime("%H:%M") for each in times_of(WallTime("02:30", "Europe/Berlin"))}
    assert found.pop(date(2026, 3, 29)) == "03:30"
    assert set(found.values()) == {"02:30"}


def test_a_time_that_the_clocks_show_twice_comes_once() -> None:
    found = [each for each in times_of(WallTime("02:30", "Europe/Berlin")) if each.date() == date(2026, 10, 25)]
    assert [(each.strftime("%H:%M"), each.fold) for each in found] == [("02:30", 0)]


@pytest.mark.parametrize("weekday", Weekday)
def test_a_weekly_time_comes_each_week_on_its_day(weekday: Weekday) -> None:
    found = times_of(WallTime("08:00", "Europe/Berlin", weekday))
    assert {each.weekday() for each in found} == {weekday}
    assert len(found) in {52, 53}


def test_it_comes_after_the_time_that_is_asked_for() -> None:
    noon_s = NEW_YEAR_S + 43_200.0
    assert WallTime("12:00").next_s(noon_s - 0.5) == noon_s
    assert WallTime("12:00").next_s(noon_s) == noon_s + 86_400.0


@pytest.mark.parametrize("text", ["", "24:00", "08:60", "8", "8am", "-1:00", "08:00:00"])
def test_what_is_not_a_time_of_day_is_not_read(text: str) -> None:
    assert read_clock(text) is None


@pytest.mark.parametrize(
    ("now", "text", "meant"),
    [
        ("2026-10-25T00:15Z", "02:30", "2026-10-25T00:30"),
        ("2026-10-25T00:45Z", "02:30", "2026-10-25T01:30"),
        ("2026-10-25T01:15Z", "02:30", "2026-10-25T01:30"),
        ("2026-10-25T01:30Z", "2:30", "2026-10-26T01:30"),
        ("2026-10-25T01:15Z", "2026-10-25T02:30", "2026-10-25T01:30"),
        ("2026-10-25T01:45Z", "2026-10-25T02:30", "2026-10-25T00:30"),
        ("2026-03-29T00:45Z", "02:30", "2026-03-29T01:30"),
        ("2026-03-29T01:45Z", "02:30", "2026-03-30T00:30"),
        ("2026-06-01T23:30Z", "07:00Z", "2026-06-02T07:00"),
        ("2026-06-01T23:30Z", "7:00+09:00", "2026-06-02T22:00"),
    ],
)
def test_until_a_time_of_day_is_the_next_time_that_clocks_show_it(now: str, text: str, meant: str) -> None:
    found_s = moment_s(text, parse_iso(now) or 0.0, ZoneInfo("Europe/Berlin"))
    assert found_s is not None
    assert iso_time(found_s) == f"{meant}:00.000Z"


@pytest.mark.parametrize(
    "text", ["", "0700Z", "07Z", "0700", "07", "7:0", "25:00", "07:00 Z", "soon", "\u0667:00", "12:\u0663\u0660"]
)
def test_until_what_is_not_a_time_is_refused(text: str) -> None:
    assert moment_s(text, NEW_YEAR_S, None) is None
