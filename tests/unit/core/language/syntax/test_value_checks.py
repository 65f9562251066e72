from __future__ import annotations

import pytest

from proxyd.core.language import SourceText, check
from proxyd.core.language.syntax.value_checks import read_time
from proxyd.core.model.day_parts import parse_during


@pytest.mark.parametrize(
    ("text", "days", "start", "stop"),
    [
        ("Mon-Fri 09:00-18:00", [0, 1, 2, 3, 4], 540, 1080),
        ("sat,sun", [5, 6], 0, 1440),
        ("Fri-Mon", [0, 4, 5, 6], 0, 1440),
        ("22:00-6:00", list(range(7)), 1320, 360),
        ("Mon,Wed-Thu 00:00-24:00", [0, 2, 3], 0, 1440),
    ],
)
def test_parts_of_the_week_are_read(text: str, days: list[int], start: int, stop: int) -> None:
    during = parse_during(text)
    assert during is not None
    assert (sorted(during.days), during.start, during.stop) == (days, start, stop)


@pytest.mark.parametrize(
    "text", ["", "Mon-", "Foo", "9-18", "25:00-26:00", "09:60-10:00", "09:00-09:00", "Mon-Tue-Wed"]
)
def test_what_is_no_part_of_the_week_is_refused(text: str) -> None:
    assert parse_during(text) is None


@pytest.mark.parametrize("text", ["2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01T01:00:00+01:00"])
def test_a_time_without_offset_is_utc(text: str) -> None:
    assert read_time(text) == 1767225600.0


def test_an_address_that_is_too_long_to_be_asked_is_refused() -> None:
    longest = "https://example.org/".ljust(4096, "x")
    assert check([SourceText("t", f"WATCH '{longest}';")]).errors == ()
    (error,) = check([SourceText("t", f"WATCH '{longest}x';")]).errors
    assert error.message.startswith("an address may have 4096 characters at most")
