"""Values that web pages give in ``<meta>`` elements, by name (``og:title``, ``article:modified_time``). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, LexborNode

from proxyd.core.model.profile import FieldType
from proxyd.probing.document_texts import MOST_ITEMS
from proxyd.probing.pages.page_values import PageRow, Raw

_NAMES = ("property", "name", "itemprop")


@dataclass(frozen=True, slots=True)
class _MetaRow:
    node: LexborNode
    owner: LexborHTMLParser  # keeps the document alive

    def rows(self, selector: str) -> list[PageRow]:
        return [_MetaRow(node, self.owner) for node in self._find(selector)[: MOST_ITEMS + 1]]

    def value(self, selector: str, _field_type: FieldType) -> Raw:
        """Return the content of the first element of that name that has any."""
        return next((content for node in self._find(selector) if (content := node.attributes.get("content"))), None)

    def outer(self) -> tuple[str, str]:
        return self.node.tag or "", self.node.html or ""

    def _find(self, name: str) -> list[LexborNode]:
        wanted = name.lower()
        return [
            node
            for node in self.node.css("meta")
            if any((node.attributes.get(each) or "").strip().lower() == wanted for each in _NAMES)
        ]


def meta_view(text: str, _tag: str = "html") -> PageRow | None:
    """Return an element for the META reader."""
    owner = LexborHTMLParser(text)
    return None if owner.root is None else _MetaRow(owner.root, owner)
