"""Quiet hours end when a walk minute by minute says so, in any zone and over changes of daylight saving."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxyd.core.model.day_parts import QuietHours, leaves_time, parse_week_parts, quiet_until_s

ZONES = [None, "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]
SPRING_S = datetime(2026, 3, 27, tzinfo=UTC).timestamp()  # the weekend on which Europe's clocks are put forward
AUTUMN_S = datetime(2026, 10, 23, tzinfo=UTC).timestamp()
_days = st.sampled_from(["", "Mon", "Sat,Sun", "Mon-Fri", "Fri-Mon", "tue, thu"])
_clocks = st.builds("{:02}:{:02}".format, st.integers(0, 23), st.sampled_from([0, 15, 59]))
_parts = st.builds(lambda days, first, last: f"{days} {first}-{last}", _days, _clocks, _clocks) | _days
_texts = st.lists(_parts, min_size=1, max_size=3).map(", ".join).filter(lambda text: parse_week_parts(text) is not None)


def minute_by_minute(quiet: QuietHours, at_s: float) -> float | None:
    """Return the end of quiet hours by looking at each minute."""
    zone = UTC if quiet.zone is None else ZoneInfo(quiet.zone)
    parts = parse_week_parts(quiet.during) or ()

    def holds(time_s: float) -> bool:
        return any(part.holds(datetime.fromtimestamp(time_s, zone)) for part in parts)

    if not holds(at_s):
        return None
    minute_s = at_s // 60 * 60 + 60
    while holds(minute_s):
        minute_s += 60
    return minute_s


@given(_texts, st.sampled_from(ZONES), st.sampled_from([SPRING_S, AUTUMN_S]), st.integers(0, 6 * 86400))
@example("22:00-07:00", "Europe/Berlin", SPRING_S, 2 * 86400)
@example("22:00-02:30", "Europe/Berlin", SPRING_S, 86400 + 84600)  # the clocks skip the end
@example("22:00-02:30", "Europe/Berlin", AUTUMN_S, 86400 + 84600)  # they show it twice
def test_quiet_hours_end_at_the_first_minute_that_is_not_quiet(
    text: str, zone: str | None, begun_s: float, later_s: int
) -> None:
    parts = parse_week_parts(text)
    assert parts is not None
    if not leaves_time(parts):
        return
    quiet, at_s = QuietHours(text, zone), begun_s + later_s
    assert quiet.end_s(at_s) == minute_by_minute(quiet, at_s)


@pytest.mark.parametrize(
    "text", ["", ",", "Mon,", "Mon-Tue-Wed", "22-7", "24:00-01:00", "9:00-9:00", "Mon 25:00-26:00"]
)
def test_what_names_no_hours_is_refused(text: str) -> None:
    assert parse_week_parts(text) is None


def test_twenty_parts_are_enough() -> None:
    assert len(parse_week_parts(", ".join(["Mon 1:00-2:00"] * 20)) or ()) == 20
    assert parse_week_parts(", ".join(["Mon 1:00-2:00"] * 21)) is None


@pytest.mark.parametrize(
    ("text", "leaves"),
    [("Mon-Sun", False), ("00:00-24:00", False), ("12:00-00:00, 0:00-11:59", True), ("Mon-Sat", True)],
)
def test_hours_that_never_end_are_found(text: str, *, leaves: bool) -> None:
    assert leaves_time(parse_week_parts(text) or ()) is leaves


def test_of_several_quiet_hours_all_must_hold() -> None:
    night, weekend = QuietHours("22:00-07:00"), QuietHours("Sat,Sun")
    saturday_s = datetime(2026, 11, 28, 23, tzinfo=UTC).timestamp()
    assert quiet_until_s((), saturday_s) is None
    assert quiet_until_s((night, weekend), saturday_s) == saturday_s + 8 * 3600
    assert quiet_until_s((night, weekend), saturday_s + 12 * 3600) is None
