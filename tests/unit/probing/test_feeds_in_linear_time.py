"""Feeds that repeat one thing are read in time that grows with their length, by both readers."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from proxyd.probing.documents.probe_failures import UnsafeDocumentError
from proxyd.probing.feeds.fast_feeds import parse_clean_feed
from proxyd.probing.feeds.feed_items import ParsedFeed
from proxyd.probing.feeds.feed_parser import parse_any_feed


def rss(inside: str, attributes: str = "") -> bytes:
    return f'<rss version="2.0" {attributes}><channel>{inside}</channel></rss>'.encode()


def item(inside: str) -> bytes:
    return rss(f"<item><guid>1</guid>{inside}</item>")


REPEATED: dict[str, Callable[[int], bytes]] = {
    "categories": lambda count: item("".join(f"<category>c{n}</category>" for n in range(count))),
    "schemes of categories": lambda count: item("".join(f"<category domain='d{n}'/>" for n in range(count))),
    "categories of the feed": lambda count: rss("".join(f"<category>c{n}</category>" for n in range(count))),
    "categories of an item and its source": lambda count: item(
        "".join(f"<category>c{n}</category><source><category>c{n}</category></source>" for n in range(count))
    ),
    "items with one id": lambda count: rss("<item><guid>1</guid></item>" * count),
    "attributes": lambda count: item("<a " + " ".join(f'a{n}=""' for n in range(count)) + "/>"),
    "open elements": lambda count: item("<b>" * count),
    "ends without a start": lambda count: item("</b>" * count),
    "starts without an end": lambda count: item("<a " * count),
    "quotes": lambda count: item('<a "' * count),
    "sections without an end": lambda count: rss("<item><![CDATA[</item>" * count),
    "comments without an end": lambda count: item("<!--" * count),
    "references to nothing": lambda count: item("&#xD800;" * count),
    "an author who may be an address": lambda count: item(f"<author>{'a' * 8 * count}@b</author>"),
    "nested bases": lambda count: rss("<x xml:base='aaaaaaaaaaaaaa/'>" * count + "</x>" * count),
}


def _took_s(read: Callable[[bytes], ParsedFeed | None], body: bytes) -> float:
    began_s = time.process_time()
    read(body)
    return time.process_time() - began_s


@pytest.mark.parametrize("read", [parse_clean_feed, parse_any_feed])
@pytest.mark.parametrize("name", REPEATED)
def test_no_feed_takes_time_that_grows_with_its_square(name: str, read: Callable[[bytes], ParsedFeed | None]) -> None:
    """Eight times the length takes 64 times as long if every part is compared with every other."""
    small, large = (REPEATED[name](count) for count in (500, 4_000))
    most_s = 30 * min(_took_s(read, small) for _ in range(3)) + 0.05
    assert any(_took_s(read, large) < most_s for _ in range(3))


@pytest.mark.long
@pytest.mark.parametrize(("name", "count"), [("categories", 120_000), ("items with one id", 333_000)])
@pytest.mark.parametrize("read", [parse_clean_feed, parse_any_feed])
def test_the_longest_that_a_body_can_hold(name: str, count: int, read: Callable[[bytes], ParsedFeed | None]) -> None:
    tenth, whole = (_took_s(read, REPEATED[name](length)) for length in (count // 10, count))
    assert whole < 30 * tenth


def test_a_document_with_very_many_namespaces_is_refused() -> None:
    body = rss("".join(f"<x{n}:a xmlns:x{n}='urn:{n}'/>" for n in range(1_001)))
    assert parse_clean_feed(body) is None
    with pytest.raises(UnsafeDocumentError, match="declares more than 1000 namespaces"):
        parse_any_feed(body)


def test_duplicates_are_counted_and_named() -> None:
    body = rss("".join(f"<item><guid>{n % 5}</guid></item>" for n in range(20)))
    for read in (parse_clean_feed, parse_any_feed):
        feed = read(body)
        assert feed is not None
        assert (len(feed.items), feed.truncated) == (5, False)
        assert (feed.duplicates.count, feed.duplicates.identities) == (15, ("0", "1", "2"))
