"""Whatever a server writes into its headers, a probe ends in a typed outcome, and soon."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from proxyd.core.errors import ProbeError
from proxyd.net.guard import Guard
from proxyd.net.http_values import read_links, read_url

BASE = "https://example.org/feed"
PIECES = [
    "//",
    "http:",
    "https:",
    "[",
    "]",
    "[:x]",
    "@",
    ":",
    "/",
    "xn--",
    "%",
    "\\",
    "?",
    "#",
    "..",
    "a",
    "1",
    "é",
    "\x00",
    " ",
    ".",
]
addresses = st.one_of(
    st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.just("http://xn--[]a@")
)


@given(addresses)
def test_an_address_is_read_whole_or_not_at_all(text: str) -> None:
    url = read_url(text, URL(BASE))
    if url is not None:
        assert (url.scheme, url.host, url.port, str(url)) is not None
        with suppress(ProbeError):
            Guard().check_url(url)


@given(st.lists(addresses, max_size=4), st.text(alphabet='<>;,="rel hub\\\t', max_size=60))
def test_link_headers_name_web_addresses_or_nothing(targets: list[str], rest: str) -> None:
    header = ", ".join(f"<{target}>; rel=hub" for target in targets) + rest
    for link in read_links([header], BASE):
        assert URL(link.url).scheme in {"http", "https"}
        assert URL(link.url).host


@pytest.mark.parametrize("piece", [",", " ,", "<", "<>", ";", '"', "\\", "<a>;", "<a>; rel=", '<a>; rel="', "<a>,"])
def test_no_header_takes_time_that_grows_with_its_square(piece: str) -> None:
    def least_s(count: int) -> float:
        header = (piece * (16_384 // len(piece)))[:count]
        times = []
        for _ in range(3):
            began_s = time.process_time()
            read_links([header], BASE)
            times.append(time.process_time() - began_s)
        return min(times)

    assert least_s(16_384) < 40 * least_s(2_048) + 0.05
