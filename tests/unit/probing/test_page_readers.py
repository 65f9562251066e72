"""Every reader of pages can be written, checked, and reads."""

from __future__ import annotations

import json
import time

import pytest

from proxyd.core.language.syntax.readers import READER_KINDS
from proxyd.core.model.profile import Extraction, Field, FieldType, PageClass, Reader
from proxyd.probing.documents.document_texts import MOST_ITEMS
from proxyd.probing.documents.probe_failures import UnreadableDocumentError
from proxyd.probing.pages.html_pages import VIEWS, parse_html_page

PRICE = PageClass("C", "D", (Field("price", FieldType.DECIMAL, Extraction(Reader.PRICE, "price")),))
OFFER = '{"@type": "Offer", "name": "<!-- a -->", "price": 5}'
SCOPE = f"<div {' '.join(f'a{n}' for n in range(1000))}>"


def test_every_reader_is_described() -> None:
    assert list(READER_KINDS) == list(Reader)


def test_every_reader_of_web_pages_has_its_view() -> None:
    assert set(VIEWS) == {reader for reader, kind in READER_KINDS.items() if not kind.is_of_json}


@pytest.mark.parametrize(
    ("elements", "is_cut"), [pytest.param(MOST_ITEMS, False, marks=pytest.mark.long), (MOST_ITEMS + 1, True)]
)
def test_more_meta_elements_than_are_kept_are_said_to_be_cut(elements: int, is_cut: bool) -> None:
    each, path = Extraction(Reader.META, "tag"), Extraction(Reader.CSS, "::attr(content)")
    page_class = PageClass("C", "D", (Field("v", FieldType.STRING, path),), each, ("v",))
    text = "".join(f"<meta name=tag content={n}>" for n in range(elements))
    page = parse_html_page(text, "https://example.org/", page_class)
    assert (len(page.items), page.truncated) == (MOST_ITEMS, is_cut)


@pytest.mark.parametrize(
    "script", [OFFER, f"<!-- {OFFER}; -->", f"//<![CDATA[\n{OFFER}\n//]]>", f" // <![CDATA[<!--\n{OFFER}\n// -->]]> "]
)
def test_linked_data_may_be_wrapped_as_in_older_pages(script: str) -> None:
    page = parse_html_page(f"<script type='application/ld+json'>{script}</script>", "https://example.org/", PRICE)
    assert page.items[0].fields == {"price": 5}


@pytest.mark.parametrize(
    "script",
    [
        '{"@type": "Offer", "price": 5,}',
        '{"@type": "Offer", "offers": [1, 2, ], "price": 5 ,\n}',
        r'{"@type": "Offer", "name": "it\'s, ]", "price": 5}',
        "{&quot;@type&quot;: &quot;Offer&quot;, &quot;price&quot;: 5}",
        r"{&quot;@type&quot;: &quot;Offer&quot;, &quot;name&quot;: &quot;Tom\'s&quot;, &quot;price&quot;: 5,}",
    ],
)
def test_linked_data_that_is_broken_in_a_usual_way_is_read(script: str) -> None:
    page = parse_html_page(f"<script type='application/ld+json'>{script}</script>", "https://example.org/", PRICE)
    assert page.items[0].fields == {"price": 5}


VARIANTS = [{"@type": "Offer", "price": price, "url": f"https://x.example/p?variant={price}"} for price in (10, 20)]
COLOURS = [{"name": name, "url": f"/p/{name}", "offers": {"price": len(name)}} for name in ("red", "green")]


@pytest.mark.parametrize(
    ("offered", "url", "price"),
    [
        ({"offers": VARIANTS}, "https://x.example/p", 10),
        ({"offers": VARIANTS}, "https://x.example/p?variant=20&utm_source=a", 20),
        ({"offers": VARIANTS}, "https://x.example/p?variant=30", 10),
        ({"@type": "ProductGroup", "hasVariant": COLOURS}, "https://x.example/p/green/", 5),
        ({"@type": "ProductGroup", "hasVariant": COLOURS}, "https://x.example/p", 3),
        ([{"url": "/other", "offers": {"price": 1}}, {"url": "/p", "offers": {"price": 2}}], "https://x.example/p", 2),
        ({"url": "http://[", "offers": {"price": 1}}, "https://x.example/p", 1),
    ],
)
def test_of_several_offers_the_one_at_the_address_of_the_page_counts(offered: object, url: str, price: int) -> None:
    page = parse_html_page(f"<script type='application/ld+json'>{json.dumps(offered)}</script>", url, PRICE)
    assert page.items[0].fields == {"price": price}


@pytest.mark.parametrize(
    "page",
    [
        f"<script type='application/ld+json'>{' ' * 1_000_000}x</script>",
        f"<script type='application/ld+json'>[{', ' * 500_000}x</script>",
        f"<script type='application/ld+json'>{'&quot;' * 100_000}</script>",
        f"<script type='application/ld+json'>{'// ' * 300_000}x</script>",
        "<script type='application/ld+json'>" + '"\\' * 100_000 + "</script>",
        f"<div itemscope>{'<i itemprop=price>' * 100}{'<script></script>' * 100_000}",
        f"<div itemscope>{SCOPE * 300}{'<b itemprop=price></b>' * 100}",
    ],
    ids=["blanks", "commas", "quotes", "comments", "escapes without an end", "prices in each other", "long scopes"],
)
def test_a_page_without_a_price_is_searched_in_linear_time(page: str) -> None:
    start_s = time.process_time()
    with pytest.raises(UnreadableDocumentError):
        parse_html_page(page, "https://example.org/", PRICE)
    assert time.process_time() - start_s < 5
