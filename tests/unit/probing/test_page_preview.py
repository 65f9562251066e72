"""The preview of a page shows its structure and texts, without anything that acts, and never grows without bound."""

from __future__ import annotations

import pytest
from selectolax.lexbor import LexborHTMLParser

from proxyd.probing.pages.html_pages import MOST_CHARACTERS, preview_markup
from tests.hostile import MARKUP


def markup(page: str) -> str:
    body = LexborHTMLParser(page).body
    assert body is not None
    return preview_markup(body)


def test_structure_ids_and_classes_stay_and_what_acts_goes() -> None:
    page = """<h1 id="top" onclick="x()">A &amp; B</h1><script>x()</script><p class="price" style="a">12 <b>EUR</b></p>
        <form action="/x"><input name="q"><unknown>text</unknown></form><a href="javascript:x()">go</a>"""
    shown = markup(page)
    assert '<h1 id="top">A &amp; B</h1>' in shown
    assert '<p class="price">12 <b>EUR</b></p>' in shown
    assert "<a>go</a>" in shown
    assert "<span>text</span>" in shown
    for gone in ("x()", "href", "action", "style", "input"):
        assert gone not in shown


@pytest.mark.parametrize("text", MARKUP.values(), ids=MARKUP)
def test_hostile_texts_stay_text(text: str) -> None:
    shown = LexborHTMLParser(markup(f"<p>{text}</p>"))
    for acts in ("script", "img", "iframe", "svg", "[onerror]", "[onload]", "[href]", "[src]"):
        assert shown.css(acts) == []


@pytest.mark.parametrize("page", ["&amp;" * 2_000_000, "<p>&lt;</p>" * 500_000, "x" * 9_000_000])
def test_a_page_without_end_is_cut(page: str) -> None:
    assert 0 < len(markup(page)) <= MOST_CHARACTERS + 100
