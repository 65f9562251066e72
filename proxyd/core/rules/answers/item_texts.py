"""The texts of items as people read them: without markup, the title first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import unescape

from proxyd.core.model.item import Value
from proxyd.core.model.text_blocks import BLOCK_GAP
from proxyd.core.rules.programs.message_program import title_of

MOST_READ = 20_000
"""The most characters of a field that are read."""
OF_FEEDS, OF_ITEMS = "channel.", "channel.item."
_NAMES_OF_FEEDS = ("title", "description", "content", "author", "category")
_TAG = re.compile(r"(<[^<>]*>)")
_NAME = re.compile(r"<\s*(/?)\s*(\w+)")
_UNREAD = frozenset({"script", "style"})
_BLOCKS = frozenset(
    {
        *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "h1", "h2", "h3", "h4", "h5"),
        *("h6", "hr", "li", "ol", "p", "pre", "tr", "ul"),
    }
)


def texts_of(fields: Mapping[str, Value]) -> list[str]:
    """Return what people read of an item: its title, which may be empty, then its other texts, each in one line.

    Examples
    --------
    >>> texts_of({"channel.title": "All", "channel.item.title": "Sale", "channel.item.description": "<p>R&amp;D</p>"})
    ['Sale', 'R&D']
    >>> texts_of({"name": "Kettle", "price": 25, "link": "https://shop.example/1", "stock": "in stock"})
    ['Kettle', 'in stock']
    """
    if is_of_feed(fields):
        own = [readable(fields.get(OF_ITEMS + name)) for name in _NAMES_OF_FEEDS]
    else:
        values = (value for name, value in fields.items() if not name.startswith(OF_FEEDS))
        own = [value[:MOST_READ] for value in values if isinstance(value, str) and "://" not in value[:9]]
    title, *texts = (" ".join(text.split()) for text in (title_of(fields), *own))
    return [title, *(text for text in dict.fromkeys(texts) if text and text != title)]


def is_of_feed(fields: Mapping[str, Value]) -> bool:
    """Whether an item with these fields is of a feed."""
    return any(name.startswith(OF_ITEMS) for name in fields)


def readable(value: Value) -> str:
    r"""Return a text of a feed without its tags, scripts and styles, in blocks; nothing for other values.

    >>> readable("<h1>A</h1><p>b &lt; <b>c</b><script>d()</script>")
    'A\n\nb < c'
    """
    if not isinstance(value, str):
        return ""
    kept: list[str] = []
    unread = False
    for piece in _TAG.split(value[:MOST_READ]):
        tag = _NAME.match(piece)
        if tag is not None and tag[2].lower() in _UNREAD:
            unread = not tag[1]
        elif tag is not None or piece.startswith("<"):
            kept.append(BLOCK_GAP if tag is not None and tag[2].lower() in _BLOCKS else " ")
        elif not unread:
            kept.append(piece)
    blocks = (" ".join(unescape(block).split()) for block in "".join(kept).split(BLOCK_GAP))
    return BLOCK_GAP.join(filter(None, blocks))


def price_text(fields: Mapping[str, Value]) -> str:
    """Return the price that an item of the class PRICE states: the number and its currency.

    >>> price_text({"price": 12.5, "currency": "EUR"})
    '12.5 EUR'
    """
    return " ".join(str(fields[name]) for name in ("price", "currency") if fields.get(name) is not None)
