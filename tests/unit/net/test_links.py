from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.net.http_values import absolute, http_date_s, read_links

BASE = "https://a.example/x/feed"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["<h>; rel=hub"], [("https://a.example/x/h", {"hub"})]),
        (["<h>;rel=hub,<s>;rel=self"], [("https://a.example/x/h", {"hub"}), ("https://a.example/x/s", {"self"})]),
        (["<h>; rel=hub", "<s>; rel=self"], [("https://a.example/x/h", {"hub"}), ("https://a.example/x/s", {"self"})]),
        (['<h>; rel="hub  SELF"'], [("https://a.example/x/h", {"hub", "self"})]),
        (['<h>; title="\\"; rel=x"; rel=hub'], [("https://a.example/x/h", {"hub"})]),
        (["<h>; rel=next; rel=hub"], [("https://a.example/x/h", {"next"})]),
        (["<h>"], [("https://a.example/x/h", set())]),
        (["<h>; REL = hub ; x; y=z"], [("https://a.example/x/h", {"hub"})]),
        (["<h,1>; rel=hub"], [("https://a.example/x/h,1", {"hub"})]),
        (["<h>; rel*=UTF-8''hub"], [("https://a.example/x/h", set())]),
        (["garbage, <h>; rel=hub"], [("https://a.example/x/h", {"hub"})]),
        (['<h>; anchor="https://b.example/"; rel=hub'], []),
        (["<javascript:x>; rel=hub", "<ftp://a/>; rel=hub", "<http://[>; rel=hub", "<http:///>; rel=hub"], []),
        (["h; rel=hub", "", "<h", ";;;", '"'], []),
    ],
)
def test_links_and_their_relations(values: list[str], expected: list[tuple[str, set[str]]]) -> None:
    assert [(link.url, set(link.relations)) for link in read_links(values, BASE)] == expected


def test_as_many_links_as_anybody_needs() -> None:
    assert len(read_links(["<h>; rel=hub"] * 1000, BASE)) == 100


@given(st.text(alphabet='<>;,="\\ relhubf*:/[]', max_size=200))
def test_whatever_is_sent_can_be_read(text: str) -> None:
    for link in read_links([text], BASE):
        assert link.url.startswith(("http://", "https://"))


def test_a_fragment_is_no_part_of_an_address() -> None:
    assert absolute("#top", BASE) == BASE
    assert absolute("//b.example/y#z", BASE) == "https://b.example/y"
    assert absolute("http://" + "a" * 5000, BASE) is None


def test_a_date_that_no_calendar_has_is_none() -> None:
    assert http_date_s("Sun, 06 Nov 99999999999 08:49:37 GMT") is None
