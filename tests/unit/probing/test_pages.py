from __future__ import annotations

import gzip
import pickle

import pytest

from proxyd.base.worker_pool import wait_for_result
from proxyd.core.errors import ProxydError
from proxyd.core.model.item import LONGEST_FIELD, Item
from proxyd.core.model.profile import Extraction, Field, FieldType, PageClass, Reader
from proxyd.probing.document_parser import LONGEST_PAGE, parse_document, parse_page
from proxyd.probing.documents.document_texts import LONGEST_ID, MOST_ITEMS
from proxyd.probing.documents.probe_failures import NotAFeedError, SelectorError, UnreadableDocumentError
from proxyd.probing.feeds.feed_items import ParsedFeed
from proxyd.probing.feeds.sitemaps import parse_sitemap
from proxyd.probing.pages.page_values import ParsedPage

URL = "https://example.org/"
FEED = b"<rss version='2.0'><channel><item><guid>1</guid></item></channel></rss>"
ROWS = PageClass(
    "ROW",
    "D",
    (Field("Id", FieldType.STRING, Extraction(Reader.JSON, "$.id")),),
    Extraction(Reader.JSON, "$[*]"),
    ("Id",),
)
PAGE = PageClass("PAGE", "D", (Field("text", FieldType.STRING),))


def hash_of(body: bytes, page_class: PageClass = ROWS) -> str:
    return parse_page(body, None, URL, page_class).items[0].content_hash


def test_the_class_chooses_the_parser() -> None:
    feed_class = PageClass("RSS", "D", (Field("channel.item.title", FieldType.STRING),))
    assert isinstance(parse_document(FEED), ParsedFeed)
    assert isinstance(parse_document(FEED, None, URL, feed_class), ParsedFeed)
    assert isinstance(parse_document(b'[{"id": 1}]', None, URL, ROWS), ParsedPage)


def test_fields_are_found_under_their_lower_case_path() -> None:
    assert parse_page(b'[{"id": 1}]', None, URL, ROWS).items[0].fields == {"id": "1"}


def test_lines_that_are_ignored_are_no_part_of_the_text() -> None:
    ignoring = PageClass("PAGE", "D", PAGE.fields, ignored=("UPDATED", r"/^\d+ views$/"))
    first, second = (
        b"<p>Prices</p><p>Updated %d<br>daily</p><p>%d views</p>" % (number, number) for number in (10, 11)
    )
    assert parse_page(first, None, URL, ignoring).items[0].fields == {"text": "Prices\n\ndaily"}
    assert hash_of(first, ignoring) == hash_of(second, ignoring)
    with pytest.raises(UnreadableDocumentError, match="IGNORE leaves nothing"):
        parse_page(b"<p>12 views</p>", None, URL, ignoring)


def test_the_content_hash_changes_with_the_values_and_nothing_else() -> None:
    assert hash_of(b'[{"id": 1, "seen": 5}]') == hash_of(b'[{"seen": 6, "id": 1}]')
    assert hash_of(b'[{"id": 1}]') != hash_of(b'[{"id": 2}]')
    assert hash_of(b"<p>a</p>", PAGE) == hash_of(b"<nav>x</nav><p class=y>a</p>", PAGE)
    assert hash_of(b"<p>a</p>", PAGE) != hash_of(b"<p>b</p>", PAGE)


def test_bounds_of_rows_fields_and_identities() -> None:
    many = parse_page(b"[" + b",".join(b'{"id":%d}' % n for n in range(MOST_ITEMS + 5)) + b"]", None, URL, ROWS)
    assert (len(many.items), many.truncated) == (MOST_ITEMS, True)
    long = parse_page(b'[{"id": "%s"}]' % (b"x" * (LONGEST_FIELD + 9)), None, URL, ROWS).items[0]
    assert len(str(long.fields["id"])) == LONGEST_FIELD
    assert len(long.item_id) <= LONGEST_ID


def test_an_evil_pattern_in_a_json_path_takes_linear_time() -> None:
    rows = Extraction(Reader.JSON, "$[?match(@.id, '(a+)+b')]")
    body = b'[{"id": "%s"}, {"id": "aab"}]' % (b"a" * 50_000)
    found = parse_page(body, None, URL, PageClass("ROW", "D", ROWS.fields, rows, ("Id",)))
    assert [item.fields["id"] for item in found.items] == ["aab"]


def test_a_change_beyond_what_is_kept_of_a_page_is_still_a_change() -> None:
    long = b"<p>" + b"x" * (LONGEST_PAGE + 9)
    one, other = (parse_page(long + end, None, URL, PAGE).items[0] for end in (b"a", b"b"))
    assert one.fields == other.fields
    assert one.content_hash != other.content_hash


def test_a_sitemap_that_is_too_long_keeps_what_changed_last() -> None:
    rows = [f"<url><loc>/{n}</loc><lastmod>{2000 + n % 20}</lastmod></url>" for n in range(MOST_ITEMS + 500)]
    feed = parse_sitemap(f"<urlset>{''.join(rows)}</urlset>".encode(), None, URL)
    oldest = [item for item in feed.items if int(item.item_id[1:]) % 20 == 0]
    assert (len(feed.items), feed.truncated) == (MOST_ITEMS, True)
    assert len(oldest) == 25  # of 525; of every other year all are kept
    assert [item.item_id for item in feed.items[:3]] == ["/0", "/1", "/2"]


def test_a_changed_lastmod_changes_the_content() -> None:
    def item(lastmod: str) -> Item:
        body = f"<urlset><url><loc>/a</loc><lastmod>{lastmod}</lastmod></url></urlset>"
        return parse_sitemap(body.encode(), None, URL).items[0]

    assert item("2026-03-01").item_id == item("2026-03-02").item_id
    assert item("2026-03-01").content_hash != item("2026-03-02").content_hash


@pytest.mark.parametrize(
    ("body", "page_class", "kind"),
    [
        (b"{", ROWS, UnreadableDocumentError),
        (b"[1]", PageClass("C", "D", (Field("v", FieldType.STRING, Extraction(Reader.JSON, "$[")),)), SelectorError),
    ],
)
def test_errors_cross_to_another_process(body: bytes, page_class: PageClass, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        parse_page(body, None, URL, page_class)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_pages_and_their_classes_cross_to_another_process() -> None:
    page = parse_page(b'[{"id": 1}]', None, URL, ROWS)
    assert pickle.loads(pickle.dumps((page, ROWS))) == (page, ROWS)


@pytest.mark.parametrize(
    "call", ["match(@.id, 7)", "search(@.id, '[b')", "search(@.id, '(a{1000}){1000}')", "match(@.number, '1')"]
)
def test_a_pattern_that_is_none_and_a_value_that_is_no_text_match_nothing(call: str) -> None:
    rows = Extraction(Reader.JSON, f"$[?{call} || @.id == 'kept']")
    body = b'[{"id": "a", "number": 1}, {"id": "kept"}]'
    found = parse_page(body, None, URL, PageClass("ROW", "D", ROWS.fields, rows, ("Id",)))
    assert [item.fields["id"] for item in found.items] == ["kept"]


def test_compressed_json_that_is_not_declared_is_named() -> None:
    with pytest.raises(UnreadableDocumentError, match="gzip data that the server does not declare as such"):
        parse_page(gzip.compress(b"[1]"), None, URL, ROWS)


def test_xml_that_only_looks_like_a_sitemap_is_refused() -> None:
    with pytest.raises(NotAFeedError, match="the sitemap cannot be read"):
        parse_sitemap(b"<places><url><loc>/a</loc></url></places>", None, URL)


def test_true_is_not_a_number_and_null_is_not_a_value() -> None:
    fields = [Field(name, FieldType.DECIMAL, Extraction(Reader.JSON, f"$.{name}")) for name in ("a", "b", "c")]
    page = parse_page(b'{"a": true, "b": null, "c": 1.5}', None, URL, PageClass("C", "D", tuple(fields)))
    assert page.items[0].fields == {"a": None, "b": None, "c": 1.5}


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (UnreadableDocumentError("the page is empty"), "the page is empty"),
        (MemoryError(), "the parser needs more than 256 MiB for it"),
        (ZeroDivisionError("division by zero"), "the parser raised ZeroDivisionError: division by zero"),
    ],
)
def test_whatever_a_parser_raises_becomes_its_answer(raised: Exception, message: str) -> None:
    def parse(*_: object) -> ParsedPage:
        raise raised

    answer = wait_for_result(parse, (b"", None, URL, None), "the parser", 256 << 20)
    assert isinstance(answer, ProxydError)
    assert str(answer) == message
