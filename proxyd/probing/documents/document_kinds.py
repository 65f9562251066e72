"""Checks on a document before a feed parser reads it: empty, unsafe, a web page. Pure."""

from __future__ import annotations

import codecs
import re
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

GZIP = b"\x1f\x8b\x08"

_HEAD_BYTES = 262_144
_MOST_LINKS = 10
_ENTITY = re.compile(rb"<!ENTITY", re.IGNORECASE)
_DECLARATION = re.compile(rb"<!(?:ENTITY|DOCTYPE)", re.IGNORECASE)
_ELEMENT = re.compile(rb"<\w")
_PROLOG_DOCTYPE = re.compile(rb"(?>\s+|<\?.*?\?>|<!--.*?-->)*+<!DOCTYPE", re.IGNORECASE | re.DOTALL)
_MARKS = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE, codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_WEB_PAGE = re.compile(rb"<(?:!doctype\s+html|html|head|body)[\s>]", re.IGNORECASE)
_PATH = r"\w.~%/+@:,!$&'()*=-"
_ABSOLUTE = re.compile(
    rf"https?://[A-Za-z0-9.-]+(?::\d{{1,5}})?(?:/[{_PATH}]*)?(?:\?[{_PATH}?;]+)?(?:#[{_PATH}?;]+)?", re.ASCII
)  # characters that joining does not affect
_FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml", "application/rdf+xml", "application/feed+json"})


def is_empty(body: bytes) -> bool:
    r"""Return whether a body holds only blanks and byte order marks.

    >>> is_empty(b" \r\n")
    True
    """
    return not _plain_bytes(body).strip()


def declares_entities(text: bytes) -> bool:
    """Return whether an XML parser could find an entity declaration in a document in UTF-8.

    A mention of an entity in a document without a DOCTYPE does not count.

    >>> declares_entities(b'<!DOCTYPE rss [<!ENTITY a "b">]><rss/>')
    True
    >>> declares_entities(b"<rss><description><![CDATA[ <!ENTITY ]]></description></rss>")
    False
    """
    if _ENTITY.search(text) is None:
        return False
    element = _ELEMENT.search(text)
    head_end = len(text) if element is None else element.start()
    return _DECLARATION.search(text, 0, head_end) is not None or _PROLOG_DOCTYPE.match(text) is not None


def is_web_page(body: bytes) -> bool:
    """Return whether a document that is not a feed looks like HTML."""
    return _WEB_PAGE.search(body[:_HEAD_BYTES]) is not None


def feeds_of_page(body: bytes, url: str) -> tuple[str, ...]:
    """Return the absolute URLs of the feeds that a web page names in ``<link rel="alternate">``.

    >>> page = b'<html><head><link rel="alternate" type="application/rss+xml" href="/feed">'
    >>> feeds_of_page(page, "https://example.org/blog")
    ('https://example.org/feed',)
    """
    page = LexborHTMLParser(body[:_HEAD_BYTES].decode("utf-8", "replace"))
    named = page.css_first("base[href]")
    base = url if named is None else absolute(url, (named.attributes["href"] or "").strip()) or url
    links = (each.attributes for each in page.css("link[href]"))
    found = [absolute(base, (link["href"] or "").strip()) for link in links if link["href"] and _is_feed_link(link)]
    return tuple(dict.fromkeys(each for each in found if each is not None))[:_MOST_LINKS]


def _is_feed_link(values: dict[str, str | None]) -> bool:
    kind = (values.get("type") or "").partition(";")[0].strip().lower()
    return "alternate" in (values.get("rel") or "").lower().split() and kind in _FEED_TYPES


def absolute(base: str, link: str) -> str | None:
    """Return a link as an absolute URL, or ``None`` if it cannot be read."""
    if _ABSOLUTE.fullmatch(link) and base.isascii() and "[" not in base and "]" not in base:
        return link
    try:
        return urljoin(base, link)
    except ValueError:
        return None


def _plain_bytes(body: bytes) -> bytes:
    """Return a UTF-8, UTF-16 or UTF-32 document as ASCII, good enough to find blanks."""
    for mark in _MARKS:
        body = body.removeprefix(mark)
    return body.replace(b"\x00", b"") if b"\x00" in body else body
