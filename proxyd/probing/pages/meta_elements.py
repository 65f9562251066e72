"""Values that web pages give in ``<meta>`` elements, by name (``og:title``, ``article:modified_time``). Pure."""

from __future__ import annotations

from selectolax.lexbor import LexborHTMLParser, LexborNode

from proxyd.core.model.profile import FieldType
from proxyd.probing.documents.document_texts import MOST_ITEMS
from proxyd.probing.pages.page_values import PageRow, Raw

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
