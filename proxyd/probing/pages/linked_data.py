"""What web pages say of themselves: JSON-LD (``<script type="application/ld+json">``) and ``meta`` elements. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import chain, islice

from selectolax.lexbor import LexborHTMLParser, LexborNode

from proxyd.core.model.profile import FieldType
from proxyd.probing.documents.document_texts import MOST_ITEMS, Json, json_value
from proxyd.probing.documents.probe_failures import UnreadableDocumentError
from proxyd.probing.pages.json_pages import matches, raw_value
from proxyd.probing.pages.page_values import PageRow, Raw

_SCRIPTS = 'script[type*="ld+json" i]'
_MOST_SCRIPTS = 200
_OPENING = re.compile(r"(?:\s*(?://\s*)?(?:<!--|<!\[CDATA\[))*")
_PIECE = re.compile(r"(\"(?:[^\"\\]|\\.)*+\"?)|,\s*([}\]])|/\*(?:(?!/\*).)*?\*/|//[^\n]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_CLOSING = ("-->", "]]>")


@dataclass(frozen=True, slots=True)
class _LinkedRow:
    """The documents that a selector is applied to, in order: those of a page, or a single row."""

    documents: Sequence[Json]

    def rows(self, selector: str) -> list[PageRow]:
        found = chain.from_iterable(matches(each, selector) for each in self.documents)
        return [_LinkedRow((each,)) for each in islice(found, MOST_ITEMS + 1)]

    def value(self, selector: str, field_type: FieldType) -> Raw:
        found = chain.from_iterable(matches(each, selector) for each in self.documents)
        return raw_value(next(found, None), field_type)

    def outer(self) -> tuple[str, str]:
        raise UnreadableDocumentError("a row of JSON-LD has no elements; read its fields by JSONLD")


def view_of_element(text: str, _tag: str = "html") -> PageRow | None:
    """Return an element for the JSONLD reader."""
    root = LexborHTMLParser(text).root
    return None if root is None else _LinkedRow(json_ld_documents(root))


def json_ld_documents(root: LexborNode) -> list[Json]:
    """Return the JSON-LD documents in an element; each member of a list or a graph follows as a document of its own.

    Scripts that are not JSON are left out.
    """
    scripts = root.css(_SCRIPTS)[:_MOST_SCRIPTS]
    documents = chain.from_iterable(_documents(each.text() or "") for each in scripts)
    return list(islice(documents, MOST_ITEMS))


def _documents(text: str) -> Iterator[Json]:
    document = _read(_unwrap_script(text))
    if document is None:
        return
    tops = document if isinstance(document, list) else [document]
    if isinstance(document, list):
        yield document
    for top in tops:
        yield top
        graph = top.get("@graph") if isinstance(top, dict) else None
        yield from graph if isinstance(graph, list) else () if graph is None else (graph,)


def _read(text: str) -> Json:
    """Return the document of a script, mended if it is broken in a usual way, or null."""
    for read in (str, _mend_item, lambda broken: _mend_item(unescape(broken))):
        try:
            return json_value(read(text), strict=False)
        except json.JSONDecodeError:
            continue
        except RecursionError:
            break
    return None


def _mend_item(text: str) -> str:
    r"""Return a JSON text without comments, commas before an end, and escapes that JSON does not have.

    >>> _mend_item(r'{"a": "it\'s, ]", /* all */ "b": [1, 2,],}')
    '{"a": "it\'s, ]",  "b": [1, 2]}'
    """
    return _PIECE.sub(lambda piece: _ESCAPE.sub(_legal, piece[1]) if piece[1] else piece[2] or "", text)


def _legal(escape: re.Match[str]) -> str:
    return escape[0] if escape[1] in '"\\/bfnrtu' else escape[1]


def _unwrap_script(text: str) -> str:
    """Return a script without the comments and CDATA sections that older pages put around it.

    >>> _unwrap_script('// <![CDATA[ {"name": "<!-- a"}; // ]]>')
    '{"name": "<!-- a"}'
    """
    text = _OPENING.sub("", text, count=1).strip()
    for _ in _CLOSING:
        if text.endswith(_CLOSING):
            text = text[: -len(_CLOSING[0])].rstrip().removesuffix("//").rstrip()
    return text.rstrip(";")


_NAMES = ("property", "name", "itemprop")


class _MetaRow:
    """An element and the ``<meta>`` elements in it by name, found once: pages may have very many."""

    def __init__(self, node: LexborNode, owner: LexborHTMLParser) -> None:
        self._node = node
        self._owner = owner  # keeps the document alive
        self._named: dict[str, list[LexborNode]] = {}
        for each in node.css("meta")[: MOST_ITEMS + 1]:  # one more shows that some were cut
            for name in {(each.attributes.get(key) or "").strip().lower() for key in _NAMES}:
                self._named.setdefault(name, []).append(each)

    def rows(self, selector: str) -> list[PageRow]:
        return [_MetaRow(node, self._owner) for node in self._find(selector)]

    def value(self, selector: str, _field_type: FieldType) -> Raw:
        """Return the content of the first element with that name and a content."""
        return next((content for node in self._find(selector) if (content := node.attributes.get("content"))), None)

    def outer(self) -> tuple[str, str]:
        return self._node.tag or "", self._node.html or ""

    def _find(self, name: str) -> list[LexborNode]:
        return self._named.get(name.lower(), [])


def meta_view(text: str, _tag: str = "html") -> PageRow | None:
    """Return an element for the META reader."""
    owner = LexborHTMLParser(text)
    return None if owner.root is None else _MetaRow(owner.root, owner)
