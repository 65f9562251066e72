"""The markup of a page for a preview: its elements and texts, without anything that acts, loads or leads away. Pure.

Ids and classes stay, so that a selector found in the preview is one of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from selectolax.lexbor import LexborNode

from proxyd.probing.documents.document_texts import clean, words

MOST_ELEMENTS, MOST_CHARACTERS = 6_000, 300_000
_KEPT = words(
    "main article section header footer aside nav div p h1 h2 h3 h4 h5 h6 hgroup ul ol li dl dt dd menu table caption "
    "colgroup col thead tbody tfoot tr td th blockquote pre figure figcaption fieldset legend details summary address "
    "hr br center search a abbr b bdi bdo cite code data del dfn em font i ins kbd label mark output q s samp small "
    "span strong sub sup time u var wbr big tt form"
)
_VOID = words("br hr wbr col")
_LEFT_OUT = words(
    "script style noscript template iframe object embed applet svg math canvas audio video select input textarea "
    "button datalist head title dialog base link meta frame frameset img picture source plaintext xmp listing slot"
)
_OWN_TAG = re.compile(r"[a-z]+-[a-z-]{1,40}")
_ATTRIBUTES = ("id", "class")
_LONGEST_ATTRIBUTE, _LONGEST_ESCAPE = 300, len("&amp;")


def preview_markup(body: LexborNode) -> str:
    """Return what a page's body shows, as markup of harmless elements; a page that is too large is cut."""
    parts: list[str] = []
    size = elements = 0
    stack: list[LexborNode | str] = [*_children(body)]
    while stack and elements < MOST_ELEMENTS and size < MOST_CHARACTERS:
        node = stack.pop()
        if isinstance(node, str):
            parts.append(node)
        elif node.is_text_node:
            parts.append(_cut(node.text_content or "", MOST_CHARACTERS - size))
        elif node.is_element_node and (tag := _shown_tag(node)) is not None:
            elements += 1
            parts.append(f"<{tag}{_attributes(node)}>")
            stack += [] if tag in _VOID else [f"</{tag}>", *_children(node)]
        size += len(parts[-1]) if parts else 0
    return "".join([*parts, *(each for each in reversed(stack) if isinstance(each, str))])


def _cut(text: str, most: int) -> str:
    """Return a text as markup of at most ``most`` characters."""
    written = escape(clean(text[:most]), quote=False)
    return written if len(written) <= most else escape(clean(text[: most // _LONGEST_ESCAPE]), quote=False)


def _children(node: LexborNode) -> Iterator[LexborNode]:
    """Yield the children of an element, last first."""
    child = node.last_child
    while child is not None:
        yield child
        child = child.prev


def _shown_tag(node: LexborNode) -> str | None:
    """Return the tag with which an element is shown, or ``None`` if it is left out with all that is in it."""
    tag = (node.tag or "").lower()
    if tag in _LEFT_OUT:
        return None
    return tag if tag in _KEPT or _OWN_TAG.fullmatch(tag) else "span"


def _attributes(node: LexborNode) -> str:
    found = node.attributes
    values = ((name, found.get(name)) for name in _ATTRIBUTES)
    return "".join(f' {name}="{escape(clean(value[:_LONGEST_ATTRIBUTE]))}"' for name, value in values if value)
