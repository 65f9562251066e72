"""Whatever becomes of a document on its way, what comes back is items or a ProbeError, and it comes back soon."""

from __future__ import annotations

import time
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.errors import ProbeError
from proxyd.core.model.item import LONGEST_FIELD
from proxyd.core.model.profile import Extraction, Field, FieldType, PageClass, Reader
from proxyd.probing.document_parser import parse_document, parse_page
from proxyd.probing.documents.document_texts import LONGEST_ID, MOST_ITEMS
from tests.examples import examples
from tests.golden.documents.case import URL, Case
from tests.golden.documents.corpus import GROUPS

CASES = [case for cases in GROUPS.values() for case in cases if 0 < len(case.body) < 4_000]
PIECES = [
    piece.encode()
    for piece in [
        "<",
        ">",
        "&",
        ";",
        '"',
        "'",
        "]]>",
        "<![CDATA[",
        "<!--",
        "<?xml",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "&#x0;",
        "<item>",
        "</item>",
        "<!DOCTYPE",
    ]
]
BOUND_S = 5.0
_SETTINGS = examples(400)


@st.composite
def mutated(draw: st.DrawFn) -> Case:
    """Return a document of the corpus with some bytes cut, doubled, replaced or put in."""
    case = draw(st.sampled_from(CASES))
    body = case.body
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(body)))
        stop = draw(st.integers(start, min(len(body), start + 40)))
        piece = draw(st.one_of(st.binary(max_size=8), st.sampled_from(PIECES), st.just(body[start:stop] * 2)))
        body = body[:start] + piece + body[stop:]
    content_type = draw(
        st.sampled_from([case.content_type, None, "text/xml; charset=utf-16", "text/html; charset=big5"])
    )
    return Case(case.name, body, content_type, case.page_class)


def checked(case: Case) -> None:
    started = time.process_time()
    with suppress(ProbeError):
        items = parse_document(case.body, case.content_type, URL, case.page_class).items
        assert len(items) <= MOST_ITEMS
        assert len({item.item_id for item in items}) == len(items)
        for item in items:
            assert 0 < len(item.item_id) <= LONGEST_ID
            texts = [value for value in item.fields.values() if isinstance(value, str)]
            assert all(len(text) <= 4 * LONGEST_FIELD for text in texts)
            "".join(texts).encode()
    assert time.process_time() - started < BOUND_S


@given(mutated())
@_SETTINGS
def test_a_mutated_document(case: Case) -> None:
    checked(case)


@given(mutated(), st.sampled_from([case.page_class for case in CASES]))
@_SETTINGS
def test_a_document_read_as_something_else(case: Case, page_class: PageClass | None) -> None:
    checked(Case(case.name, case.body, case.content_type, page_class))


_SELECTOR_PARTS = st.sampled_from(
    [
        *(
            "$",
            ".",
            "..",
            "*",
            "[",
            "]",
            "[*]",
            "[?@.a]",
            "[?match(@,'a')]",
            "[0]",
            "[-1:]",
            "'a'",
            "|",
            "@",
            "\\",
            "\x00",
        ),
        *("//", "/", "a", "td", ":has(", ")", ">", "::attr(href)", "text()", "(", ",", "'", '"', "count("),
    ]
)
_JSON = b'{"a": [{"a": 1}, [2, [3]]], "b": null}'
_HTML = b"<meta name=a content=x><table><tr><td class=a>x<td>y</table>"


@given(st.sampled_from(Reader), st.lists(_SELECTOR_PARTS, max_size=6).map("".join), st.sampled_from(FieldType))
@_SETTINGS
def test_any_selector(reader: Reader, selector: str, field_type: FieldType) -> None:
    extraction = Extraction(reader, selector)
    fields = (Field("v", field_type, extraction),)
    for page_class in (PageClass("C", "D", fields), PageClass("C", "D", fields, extraction, ("v",))):
        with suppress(ProbeError):
            parse_page(_JSON if reader is Reader.JSON else _HTML, None, URL, page_class)
