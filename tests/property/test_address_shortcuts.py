"""Addresses that are read by one expression are read as the library does."""

from __future__ import annotations

from urllib.parse import urlsplit

from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.language.syntax.value_checks import address_problem
from proxyd.core.model.outcome import host_of

PARTS = [
    "http",
    "https",
    "ftp",
    "HTTPS",
    "://",
    ":",
    "/",
    "//",
    "?",
    "#",
    "@",
    "[",
    "]",
    "[::1]",
    ".",
    "..",
    "-",
    "a",
    "A",
]
PARTS += ["example.org", "ex_ample", "é", " ", "\t", "\n", "\x7f", "80", "08080", "99999", "%41", "\\", ";", "\0"]
ADDRESSES = st.one_of(
    st.lists(st.sampled_from(PARTS), max_size=12).map("".join),
    st.lists(st.sampled_from(PARTS), max_size=8).map(lambda parts: "http://" + "".join(parts)),
    st.lists(st.sampled_from(PARTS), max_size=8).map(lambda parts: "https://example.org" + "".join(parts)),
)


def is_askable(url: str) -> bool:
    """Return what the check says of an address, by the library alone."""
    if not all(33 <= ord(char) <= 126 for char in url) or len(url) > 4096:
        return False
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(host) and parts.username is None and parts.password is None


@given(ADDRESSES)
def test_an_address_is_askable_if_the_library_can_split_it(url: str) -> None:
    assert (address_problem(url) is None) == is_askable(url)


@given(ADDRESSES)
def test_a_host_is_the_one_that_the_library_finds(url: str) -> None:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return
    assert host_of(url) == host.rstrip(".")
