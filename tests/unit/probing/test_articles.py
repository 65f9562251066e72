"""The main text of a page is found, whatever is around it, and whatever strangers write."""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest

from proxyd.core.model.profile import ARTICLE, PREVIEW_FIELD
from proxyd.probing.document_parser import parse_document
from proxyd.probing.documents.probe_failures import UnreadableDocumentError

WORDS = "A sentence of some words, with a comma, that people would read. "
PAGE = f"""<html><head><title>T</title></head><body><nav><a href="/">Home</a></nav>
<article><h1>Head</h1>{f"<p>{WORDS * 3}<a href='/1'>more</a></p>" * 9}</article>
<footer>Imprint</footer></body></html>"""


def article_of(page: str) -> str:
    (found,) = parse_document(page.encode(), "text/html", "https://a.example/x/1", ARTICLE).items
    return str(found.fields[PREVIEW_FIELD])


def test_the_article_is_found_without_the_site_around_it() -> None:
    found = article_of(PAGE)
    assert WORDS.strip() in found
    assert 'href="https://a.example/1"' in found
    assert "Home" not in found
    assert "Imprint" not in found


@pytest.mark.parametrize("page", ["<b>" * 60_000, "<div>" * 60_000, "<table><tr><td>" * 3_000, "x" * 3_000_000])
def test_pages_of_strangers_have_an_article_of_limited_size_or_none(page: str) -> None:
    found = ""
    with suppress(UnreadableDocumentError):
        found = article_of(page)
    assert len(found) <= 300_000


def test_an_article_with_too_many_elements_is_refused() -> None:
    with pytest.raises(UnreadableDocumentError, match="too large"):
        article_of(f"<article>{'<p>one, two, three</p>' * 6_000}</article>")


def test_without_the_extractor_the_reader_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "readability", None)
    with pytest.raises(UnreadableDocumentError, match=r"proxyd\[fulltext\] is not installed"):
        article_of(PAGE)
