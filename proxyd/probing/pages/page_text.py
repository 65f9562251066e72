"""The readable text of a page, in blocks. Pure.

A block is what a browser sets apart: a paragraph, a heading, a list item, a table row (its cells joined by ``|``).
Parts that are not read as the page's text, or that change by themselves, are left out: scripts, styles, templates,
embedded documents and drawings, navigation, form controls, and everything that the page hides. Headers, footers and
asides stay, because notices often stand there.
"""

from __future__ import annotations

import re

from selectolax.lexbor import LexborNode

from proxyd.probing.documents.document_texts import words

_MOST_NODES = 300_000

_DROPPED = words(
    "script style noscript template iframe object embed svg canvas audio video nav button select input textarea "
    "datalist head title dialog"
)
_BLOCKS = words(
    "html body main article section header footer aside div p h1 h2 h3 h4 h5 h6 hgroup ul ol li dl dt dd menu table "
    "caption thead tbody tfoot tr blockquote pre figure figcaption form fieldset legend details summary address hr "
    "center search"
)
_CELLS = frozenset({"td", "th"})
_BLANKS = re.compile(r"[ \t\r\n\f\u00a0]+")
_INLINE_BLANKS = re.compile(r"[ \t\r\f\u00a0]+")
_LINE_ENDS = re.compile(r" ?\n[ \n]*")


class _Writer:
    """Collects texts into blocks."""

    def __init__(self) -> None:
        self.blocks: list[str] = []
        self._parts: list[str] = []

    def add(self, text: str, *, keep_lines: bool) -> None:
        self._parts.append((_INLINE_BLANKS if keep_lines else _BLANKS).sub(" ", text))

    def cell(self) -> None:
        if "".join(self._parts).strip():
            self._parts.append(" | ")

    def end(self) -> None:
        if self._parts:
            text = _LINE_ENDS.sub("\n", _INLINE_BLANKS.sub(" ", "".join(self._parts))).strip()
            self._parts.clear()
            if text:
                self.blocks.append(text)


def text_blocks(root: LexborNode, most_nodes: int = _MOST_NODES) -> list[str]:
    """Return the blocks of an element's readable text, in page order, from its first nodes."""
    writer = _Writer()
    stack: list[tuple[LexborNode, bool, bool]] = [(root, False, False)]  # node, being left, inside <pre>
    nodes = 0
    while stack and nodes < most_nodes:
        node, leaving, preformatted = stack.pop()
        nodes += 1
        if leaving:
            writer.end()
        elif node.is_text_node:
            writer.add(node.text_content or "", keep_lines=preformatted)
        elif node.is_element_node and (node is root or not _is_dropped(node)):
            stack.extend(_enter(writer, node, most_nodes, preformatted=preformatted))
    writer.end()
    return writer.blocks


def _enter(
    writer: _Writer, node: LexborNode, most_nodes: int, *, preformatted: bool
) -> list[tuple[LexborNode, bool, bool]]:
    """Begin an element; return its first children to visit, last first."""
    tag = node.tag or ""
    rest: list[tuple[LexborNode, bool, bool]] = []
    if tag in _BLOCKS:
        writer.end()
        rest.append((node, True, preformatted))
    elif tag in _CELLS:
        writer.cell()
    elif tag == "br":
        writer.add("\n", keep_lines=True)
    inside = preformatted or tag == "pre"
    children: list[tuple[LexborNode, bool, bool]] = []
    child = node.first_child
    while child is not None and len(children) < most_nodes:
        children.append((child, False, inside))
        child = child.next
    return rest + children[::-1]


def _is_dropped(node: LexborNode) -> bool:
    if node.tag in _DROPPED:
        return True
    attributes = node.attributes
    return bool(attributes) and (
        "hidden" in attributes or attributes.get("aria-hidden") == "true" or attributes.get("role") == "navigation"
    )
