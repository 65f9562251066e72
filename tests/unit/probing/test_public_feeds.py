"""Feeds that no one here wrote are read by the daemon's own entry point, whatever is wrong with them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Container, Iterator, Mapping
from functools import cache
from io import BytesIO
from itertools import islice

import feedparser
import pytest

from proxyd.core.errors import ProbeError
from proxyd.core.model.item import Item
from proxyd.probing.document_parser import parse_document
from proxyd.probing.documents.document_texts import clean, safe_link, short_identity
from proxyd.probing.feeds.fast_feeds import parse_clean_feed
from proxyd.probing.feeds.feed_items import ParsedFeed
from proxyd.probing.feeds.feed_parser import parse_any_feed
from proxyd.probing.feeds.xml_cleaning import balance_tags, clean_xml
from tests.corpora import public_feeds
from tests.fleets import Drive, changed, decider, declaration, rule, source

URL = "https://example.org/blog/feed"
T0 = 4_000_000_000.0  # later than every date in them

Read = ParsedFeed | str


def read(body: bytes) -> Read:
    try:
        found = parse_document(body, "application/xml", URL)
    except ProbeError as error:
        return repr(error)
    assert isinstance(found, ParsedFeed)
    return found


@cache
def whole(name: str) -> Read:
    return read(public_feeds()[name])


@pytest.fixture(
    scope="module", params=[pytest.param(5, id="every fifth"), pytest.param(1, id="all", marks=pytest.mark.long)]
)
def step(request: pytest.FixtureRequest) -> int:
    """Which documents are read: one of so many."""
    taken: int = request.param
    return taken


@pytest.fixture(scope="module")
def documents(step: int) -> Mapping[str, bytes]:
    return dict(islice(sorted(public_feeds().items()), 0, None, step))


@pytest.fixture(scope="module")
def feeds(documents: Mapping[str, bytes]) -> Mapping[str, ParsedFeed]:
    """Return the feeds of several items, or of the length of one."""
    read_feeds = {name: whole(name) for name in documents}
    return {
        name: feed
        for name, feed in read_feeds.items()
        if isinstance(feed, ParsedFeed) and feed.items and (len(feed.items) > 1 or len(documents[name]) > 1_200)
    }


def identities(items: tuple[Item, ...]) -> list[tuple[str, str, float | None]]:
    return [(item.item_id, item.content_hash, item.published_s) for item in items]


def test_there_are_many(feeds: Mapping[str, ParsedFeed], step: int) -> None:
    assert len(public_feeds()) > 2_800
    assert len(feeds) >= (150 if step == 1 else 120 / step)


def test_the_fast_reader_equals_the_other_on_every_document(documents: Mapping[str, bytes], step: int) -> None:
    read_fast = 0
    for name, body in documents.items():
        fast = parse_clean_feed(body, "application/xml", URL)
        if fast is not None:
            read_fast += 1
            assert fast == parse_any_feed(body, "application/xml", URL), name
        elif isinstance(whole(name), ParsedFeed) and b"<!ENTITY" not in body:
            assert whole(name) == _slow(body), name
    assert read_fast > (850 if step == 1 else 700 / step)


def _slow(body: bytes) -> Read:
    try:
        return parse_any_feed(body, "application/xml", URL)
    except ProbeError as error:
        return repr(error)


# Where feedparser's identities and links are not ours.
_OTHERS = {"feedparser/tests_illformed_rss_incomplete_cdata.xml": "it is cut off within its only item"}


def test_ids_and_links_are_those_of_feedparser(documents: Mapping[str, bytes]) -> None:
    differ = {
        name
        for name, body in documents.items()
        if isinstance(found := whole(name), ParsedFeed) and _ours(found, theirs := _theirs(body)) != theirs
    }
    assert differ == _OTHERS.keys() & documents.keys()


def _ours(feed: ParsedFeed, theirs: Container[str]) -> dict[str, object]:
    """Return the link of each id; items that share a guid go by it here, as in feedparser."""
    ids = [
        next((name for name in (item.item_id, *item.former_ids) if name in theirs), item.item_id)
        if item.fields["channel.item.guid"] or item.fields["channel.item.link"]
        else ""
        for item in feed.items
    ]
    links = [item.fields["channel.item.link"] for item in feed.items]
    return dict(reversed([*zip(ids, links, strict=True)]))


def _theirs(body: bytes) -> dict[str, object]:
    """Return the link of each id, the first of each, as feedparser reads them, with the parser that it chooses."""
    headers = {"content-type": "application/xml"}
    document = feedparser.parse(
        BytesIO(body), response_headers=headers, sanitize_html=False, resolve_relative_uris=False
    )
    pairs = [(_text(entry, "id"), _text(entry, "link")) for entry in document.entries]
    return {
        short_identity(guid or link) if guid or link else "": safe_link(URL, link) if link else None
        for guid, link in reversed(pairs)
    }


def _text(entry: dict[str, object], key: str) -> str:
    value = dict.get(entry, key)
    return clean(value).strip() if isinstance(value, str) else ""


def _place(name: str, length: int, number: int = 0) -> int:
    """Return one of many places in a document; it is always the same."""
    return zlib.crc32(f"{name} {number}".encode()) % length


def _with(body: bytes, name: str, inserted: bytes) -> bytes:
    place = _place(name, len(body))
    return body[:place] + inserted + body[place:]


@pytest.mark.parametrize(
    "illegal", [b"\x00", *(pytest.param(each, marks=pytest.mark.long) for each in (b"\x01", b"\x0b", b"\x1f"))]
)
def test_an_illegal_character_changes_no_identity_and_no_content(
    feeds: Mapping[str, ParsedFeed], illegal: bytes
) -> None:
    for name, feed in feeds.items():
        body = public_feeds()[name]
        if b"\x00" not in body[:4]:
            found = read(_with(body, name, illegal))
            assert isinstance(found, ParsedFeed), name
            assert identities(found.items) == identities(feed.items), name


def test_an_element_whose_prefix_nobody_declares_changes_nothing(feeds: Mapping[str, ParsedFeed]) -> None:
    for name, feed in feeds.items():
        place = max(public_feeds()[name].find(b"<item>"), public_feeds()[name].find(b"<entry>"))
        if place > 0:
            found = read(public_feeds()[name][:place] + b"<nobody:knows/>" + public_feeds()[name][place:])
            assert isinstance(found, ParsedFeed), name
            assert identities(found.items) == identities(feed.items), name


def test_a_cut_shows_no_item_that_the_whole_feed_does_not_have(feeds: Mapping[str, ParsedFeed]) -> None:
    for name, feed in feeds.items():
        body = public_feeds()[name]
        for number in range(4):
            found = read(body[: _place(name, len(body), number)])
            if isinstance(found, ParsedFeed):
                for item, one in zip(found.items, feed.items, strict=False):  # guids that both share are none
                    assert item.item_id in {one.item_id, *one.former_ids} or one.item_id in item.former_ids, name
                assert len(found.items) <= len(feed.items), name


def test_balancing_changes_nothing_in_what_is_well_formed(feeds: Mapping[str, ParsedFeed]) -> None:
    for name, feed in feeds.items():
        clean_body = clean_xml(public_feeds()[name], "application/xml")
        if not clean_body.trouble:
            found = read(balance_tags(clean_body.body.decode()).encode())
            assert isinstance(found, ParsedFeed), name
            assert identities(found.items) == identities(feed.items), name


@pytest.mark.long
async def test_a_feed_that_is_read_by_either_path_in_turn_makes_no_event(feeds: Mapping[str, ParsedFeed]) -> None:
    for name, feed in feeds.items():
        body = public_feeds()[name]
        drive = Drive(decider(declaration(source("s"), rule("i"), _on_update()), now_s=T0))
        for number, items in enumerate(_readings(name, body)):
            seen = await drive.see(changed("s", items, T0 + 100.0 * number))
            assert [event for event in seen.found.events if not event.seed] == [], name
        assert len(drive.memory.observations[0].found.events) == len(feed.items), name


def _on_update() -> str:
    return rule("u").replace("ON INSERT", "ON UPDATE")


def _readings(name: str, body: bytes) -> Iterator[tuple[Item, ...]]:
    """Yield what is read of a feed by each path: as it is, cleaned, marked, slowly, and with a defect."""
    clean_body = clean_xml(body, "application/xml").body
    variants: list[Callable[[], Read]] = [
        lambda: read(body),
        lambda: read(clean_body),
        lambda: read(b"\xef\xbb\xbf" + clean_body),
        lambda: _slow(body),
        lambda: read(body),
    ]
    if b"\x00" not in body[:4]:
        variants.insert(2, lambda: read(_with(body, name, b"\x0b")))
    for variant in variants:
        found = variant()
        assert isinstance(found, ParsedFeed), name
        yield found.items
