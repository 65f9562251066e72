"""Short cuts for the commonest times and links give what the standard library gives."""

from __future__ import annotations

from email.utils import mktime_tz, parsedate_tz
from urllib.parse import urljoin

from hypothesis import given
from hypothesis import strategies as st

from proxyd.probing.documents.document_kinds import absolute
from proxyd.probing.documents.feed_dates import _attempt, _plain_rfc822_s

_PIECES = st.sampled_from(
    ["e.example", ":80", "/", "?", "#", ";", "a", "..", "%20", "@", "[", "]", "\u00e9", " ", "\t", "=", "//", ":", "_"]
)
_SCHEMES = st.sampled_from(["http://", "https://", "httpS://", "http://e.example/", "https://e.example", ""])
_BASES = st.sampled_from(
    ["", "https://e.example/x/y?z", "http://[", "http://a]b/", "ftp://x/y", "x", "http://\u00e9.x/"]
)
_ZONES = st.sampled_from(["GMT", "+0000", "-0000", "+0100", "-0930", "+9999", "EST", ""])
_MONTHS = st.sampled_from(["Jan", "Feb", "Apr", "Dec", "Mrz", "jan"])


def library_s(text: str) -> float | None:
    parts = parsedate_tz(text)
    return None if parts is None else float(mktime_tz(parts))


@given(_BASES, _SCHEMES, st.lists(_PIECES, max_size=7).map("".join))
def test_absolute_links(base: str, scheme: str, rest: str) -> None:
    try:
        expected: str | None = urljoin(base, scheme + rest)
    except ValueError:
        expected = None
    assert absolute(base, scheme + rest) == expected


@given(
    st.sampled_from(["", "Sun, ", "Xyz, "]),
    st.tuples(st.integers(0, 32), _MONTHS, st.sampled_from([1, 99, 1000, 1969, 1970, 2026, 2999, 9999])),
    st.tuples(st.integers(0, 25), st.integers(0, 61), st.integers(0, 61)),
    _ZONES,
)
def test_times(day: str, date: tuple[int, str, int], time: tuple[int, int, int], zone: str) -> None:
    text = f"{day}{date[0]} {date[1]} {date[2]:04d} {time[0]:02d}:{time[1]:02d}:{time[2]:02d} {zone}"
    read = _attempt(_plain_rfc822_s, text)
    assert read is None or read == _attempt(library_s, text)
