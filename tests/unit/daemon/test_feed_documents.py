"""Whatever items say, both documents can be read and say it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from proxyd.daemon.feed_documents import Entry, Feed, atom, entry, json_feed
from proxyd.store.listed_rows import StoredNotification

ATOM = "{http://www.w3.org/2005/Atom}"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS)
ROWS = st.lists(st.dictionaries(TEXTS, VALUES, max_size=4), max_size=3)


def made(items: list[dict[str, Any]], **row: Any) -> Entry:
    body = json.dumps({"data": {"items": items, "url": "https://example.org/s"}}).encode()
    told = StoredNotification(1, "ntf_1", "r", "s", 0.0, 1.0, late=False, body=body)
    return entry(replace(told, **row))


@given(ROWS, TEXTS, TEXTS)
def test_every_text_makes_documents_that_can_be_read(rows: list[dict[str, Any]], rule: str, title: str) -> None:
    items = [{"title": title, "link": title}, *rows]
    feed = Feed(rule, None, "https://example.org/feed", (made(items, rule=rule), made(rows, source_id=title)))
    root = ElementTree.fromstring(atom(feed))
    for each in root.findall(f"{ATOM}entry"):
        content = each.findtext(f"{ATOM}content") or ""
        ElementTree.fromstring(f"<div>{content}</div>")  # the HTML holds no element but ours
        tags = {element.tag for element in ElementTree.fromstring(f"<div>{content}</div>").iter()}
        assert tags <= {"div", "p", "dl", "dt", "dd"}
    assert len(json.loads(json_feed(feed))["items"]) == 2


def test_a_title_is_what_is_most_like_one() -> None:
    assert made([{"a.name": "n", "b.Title": "  t\n u "}]).title == "t u"
    assert made([{"a.title": 5, "b.subject": "s"}]).title == "s"
    assert made([{"title": " "}, {"title": "second"}]).title == "r and 1 more"
    assert made([{"channel.title": "of the feed", "channel.item.title": "of the item"}]).title == "of the item"
    assert len(made([{"title": "x" * 1000}]).title) == 300


def test_links_lead_to_the_web_only() -> None:
    links = [
        "https://example.org/a",
        "javascript:alert(1)",
        "//example.org/a",
        "http://",
        "https://a b/",
        "ftp://e.org/",
    ]
    source = "https://example.org/s"
    assert [made([{"link": link}]).link for link in links] == ["https://example.org/a"] + 5 * [source]


def test_many_rows_are_cut_and_counted() -> None:
    content = made([{"n": n} for n in range(53)]).content
    assert content.count("<dl>") == 50
    assert content.endswith("<p>and 3 more</p>")
