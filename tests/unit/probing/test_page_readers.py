"""Every reader of pages can be written, checked, and reads."""

from __future__ import annotations

import pytest

from proxyd.core.language.readers import READER_KINDS
from proxyd.core.model.profile import Extraction, Field, FieldType, PageClass, Reader
from proxyd.probing.document_texts import MOST_ITEMS
from proxyd.probing.pages.html_pages import VIEWS, parse_html_page


def test_every_reader_is_described() -> None:
    assert list(READER_KINDS) == list(Reader)


def test_every_reader_of_web_pages_has_its_view() -> None:
    assert set(VIEWS) == {reader for reader, kind in READER_KINDS.items() if not kind.is_of_json}


@pytest.mark.parametrize(("elements", "is_cut"), [(MOST_ITEMS, False), (MOST_ITEMS + 1, True)])
def test_more_meta_elements_than_are_kept_are_said_to_be_cut(elements: int, is_cut: bool) -> None:
    each, path = Extraction(Reader.META, "tag"), Extraction(Reader.CSS, "::attr(content)")
    page_class = PageClass("C", "D", (Field("v", FieldType.STRING, path),), each, ("v",))
    text = "".join(f"<meta name=tag content={n}>" for n in range(elements))
    page = parse_html_page(text, "https://example.org/", page_class)
    assert (len(page.items), page.truncated) == (MOST_ITEMS, is_cut)
