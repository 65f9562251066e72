"""XML sitemaps and sitemap indexes, read as feeds: one item per URL, with ``lastmod`` as its time. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from heapq import nlargest

from lxml import etree

from proxyd.core.model.item import Item
from proxyd.core.texts.charsets import DocumentKind, decode
from proxyd.core.texts.xml_references import with_legal_references
from proxyd.probing.documents.document_kinds import declares_entities
from proxyd.probing.documents.document_texts import MOST_ITEMS, clean, safe_link, short_identity
from proxyd.probing.documents.feed_dates import time_s
from proxyd.probing.documents.probe_failures import NotAFeedError, UnsafeDocumentError
from proxyd.probing.feeds.feed_items import FeedChannel, FeedEntry, Identity, ParsedFeed, window_of

_ROOT = re.compile(
    rb"(?>[\s\xef\xbb\xbf\xff\xfe]+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>\[]*>)*+<(?:[\w.-]+:)?(?:urlset|sitemapindex)[\s/>]",
    re.DOTALL,
)
_DECLARATION = re.compile(r"\s*<\?xml[^>]*\?>")
_ROWS = {"urlset": "url", "sitemapindex": "sitemap"}
_NO_FIELDS = FeedChannel().fields()


def is_sitemap(body: bytes) -> bool:
    """Return whether the root element is a sitemap's or a sitemap index's.

    >>> is_sitemap(b'<?xml version="1.0"?><!-- x --><urlset xmlns="a">'), is_sitemap(b"<rss><urlset>")
    (True, False)
    """
    head = body[:65_536]
    return _ROOT.match(head.replace(b"\x00", b"") if b"\x00" in head else head) is not None


def parse_sitemap(body: bytes, content_type: str | None = None, url: str = "") -> ParsedFeed:
    """Return a sitemap as a feed: link and guid are the URL, updated and pubDate the time of its last change.

    A news sitemap's title and publication date are read too. If there are more URLs than are kept, the most recently
    changed ones are kept. Raises ``UnsafeDocumentError``: it declares entities; ``NotAFeedError``: nothing in it can be
    read.
    """
    parser = etree.XMLParser(
        encoding="utf-8", recover=True, resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    text = _DECLARATION.sub("", clean(decode(body, content_type, DocumentKind.XML)), count=1).strip()
    if declares_entities(text.encode()):
        raise UnsafeDocumentError
    root = etree.fromstring(with_legal_references(text).encode(), parser)
    kind = None if root is None else _name(root)
    if kind not in _ROWS:
        raise NotAFeedError("the sitemap cannot be read")
    trouble = _trouble(parser)
    rows = [element for element in root if _name(element) == _ROWS[kind]]
    if trouble and f"{kind}>" not in text[-1000:]:
        rows = rows[:-1]  # the document is cut off, perhaps within the last URL
    window = window_of(_entries(rows, url), _NO_FIELDS, most=len(rows))
    items = window.items
    return ParsedFeed(
        items=_latest(items),
        version="sitemap" if kind == "urlset" else "sitemapindex",
        trouble=trouble,
        truncated=len(items) > MOST_ITEMS,
        duplicates=window.duplicates,
    )


def _latest(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return the most recently changed items, in page order."""
    if len(items) <= MOST_ITEMS:
        return items
    ranked = nlargest(MOST_ITEMS, range(len(items)), key=lambda index: (items[index].published_s or 0.0, -index))
    return tuple(items[index] for index in sorted(ranked))


def _trouble(parser: etree.XMLParser) -> str:
    errors = [error for error in parser.error_log if error.level >= etree.ErrorLevels.ERROR]
    return clean(f"line {errors[0].line}: {errors[0].message}")[:300] if errors else ""


def _entries(rows: list[etree._Element], url: str) -> Iterator[FeedEntry]:
    entries = (_entry(_texts(element), url) for element in rows)
    return (entry for entry in entries if entry is not None)


def _entry(texts: dict[str, str], url: str) -> FeedEntry | None:
    address = texts.get("loc")
    link = safe_link(url, address) if address else None
    if not address or link is None:
        return None
    return FeedEntry(
        identity=Identity(short_identity(address)),
        title=texts.get("title"),
        link=link,
        guid=address,
        category=texts.get("keywords"),
        published_s=time_s(texts.get("publication_date")),
        updated_s=time_s(texts.get("lastmod")),
        revision=texts.get("lastmod", ""),
    )


def _texts(element: etree._Element) -> dict[str, str]:
    """Return the texts of a row's child elements and of its ``news`` element, the first of each name."""
    texts: dict[str, str] = {}
    for child in element:
        for each in child if _name(child) == "news" else (child,):
            text = clean("".join(each.itertext())).strip() if isinstance(each.tag, str) else ""
            if text:
                texts.setdefault(_name(each), text)
    return texts


def _name(element: etree._Element) -> str:
    """Return an element's name without namespace or undeclared prefix; comments have an empty one."""
    return re.split("[}:]", element.tag)[-1] if isinstance(element.tag, str) else ""
