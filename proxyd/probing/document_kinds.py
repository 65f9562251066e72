"""Checks on a document before a feed parser reads it: empty, unsafe, a web page. Pure."""

from __future__ import annotations

import codecs
import re
from html.parser import HTMLParser
from urllib.parse import urljoin

_HEAD_BYTES = 262_144
_MOST_LINKS = 10
_ENTITY = re.compile(rb"<!ENTITY", re.IGNORECASE)
_DECLARATION = re.compile(rb"<!(?:ENTITY|DOCTYPE)", re.IGNORECASE)
_ELEMENT = re.compile(rb"<\w")
_PROLOG_DOCTYPE = re.compile(rb"(?>\s+|<\?.*?\?>|<!--.*?-->)*+<!DOCTYPE", re.IGNORECASE | re.DOTALL)
_XML_ENCODING = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*['\"]([A-Za-z0-9._:-]{1,40})['\"]")
_CHARSET = re.compile(r"charset\s*=\s*['\"]?([A-Za-z0-9._:-]{1,40})", re.IGNORECASE)
_EBCDIC = b"\x4c\x6f\xa7\x94"
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32le"),
    (codecs.BOM_UTF32_BE, "utf-32be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16le"),
    (codecs.BOM_UTF16_BE, "utf-16be"),
)
_PLAIN = frozenset({"utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "iso-8859-15", "latin-1", "windows-1252"})
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


def declares_entities(body: bytes, content_type: str | None = None) -> bool:
    """Return whether an XML parser could find an entity declaration, in any encoding that it may read.

    A mention of an entity in a document without a DOCTYPE does not count.

    >>> declares_entities(b'<!DOCTYPE rss [<!ENTITY a "b">]><rss/>')
    True
    >>> declares_entities(b"<rss><description><![CDATA[ <!ENTITY ]]></description></rss>")
    False
    """
    return any(_declares(text) for text in _readings(body, content_type))


def xml_content_type(body: bytes, content_type: str | None) -> str:
    """Return the content type that makes an RFC 3023 reader follow RFC 7303.

    A byte order mark beats the header's charset, which beats the XML declaration; text/xml is not ASCII.

    >>> xml_content_type(b"<rss/>", "text/html; charset=koi8-r")
    'application/xml; charset=koi8-r'
    >>> xml_content_type(b"<rss/>", "text/xml")
    'application/xml'
    """
    marked = next((name for mark, name in _BYTE_ORDER_MARKS if body.startswith(mark)), None)
    named = _CHARSET.search(content_type or "")
    charset = marked or (named.group(1).lower() if named else None)
    if charset is None and b"\x00" not in body[:4] and _xml_encoding(body[:1024]).startswith("utf-16"):
        charset = "utf-8"  # a declaration readable as ASCII is not UTF-16
    return "application/xml" + (f"; charset={charset}" if charset else "")


def is_web_page(body: bytes) -> bool:
    """Return whether a document that is not a feed looks like HTML."""
    return _WEB_PAGE.search(body[:_HEAD_BYTES]) is not None


def linked_feeds(body: bytes, url: str) -> tuple[str, ...]:
    """Return the absolute URLs of the feeds that a web page names in ``<link rel="alternate">``.

    >>> page = b'<html><head><link rel="alternate" type="application/rss+xml" href="/feed">'
    >>> linked_feeds(page, "https://example.org/blog")
    ('https://example.org/feed',)
    """
    finder = _LinkFinder(url)
    finder.feed(body[:_HEAD_BYTES].decode("utf-8", "replace"))
    return tuple(dict.fromkeys(finder.found))[:_MOST_LINKS]


class _LinkFinder(HTMLParser):
    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self._base = url

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect a link; ``<base>`` changes the base of later links."""
        values = {name: value or "" for name, value in attrs}
        href = values.get("href", "").strip()
        if tag == "base" and href:
            self._base = absolute(self._base, href) or self._base
        elif tag == "link" and href and _is_feed_link(values):
            link = absolute(self._base, href)
            if link is not None:
                self.found.append(link)


def _is_feed_link(values: dict[str, str]) -> bool:
    kind = values.get("type", "").partition(";")[0].strip().lower()
    return "alternate" in values.get("rel", "").lower().split() and kind in _FEED_TYPES


def absolute(base: str, link: str) -> str | None:
    """Return a link as an absolute URL, or ``None`` if it cannot be read."""
    if _ABSOLUTE.fullmatch(link) and base.isascii() and "[" not in base and "]" not in base:
        return link
    try:
        return urljoin(base, link)
    except ValueError:
        return None


def _plain_bytes(body: bytes) -> bytes:
    """Return a UTF-8, UTF-16 or UTF-32 document as ASCII, good enough to find declarations."""
    for mark, _ in _BYTE_ORDER_MARKS:
        body = body.removeprefix(mark)
    return body.replace(b"\x00", b"") if b"\x00" in body else body


def _readings(body: bytes, content_type: str | None) -> list[bytes]:
    """Return the document as ASCII in every encoding that a feed parser may choose."""
    plain = _plain_bytes(body)
    names = {name for name in (_charset(content_type), _xml_encoding(plain)) if name not in _PLAIN}
    if body.startswith(_EBCDIC):
        names.add("cp037")
    return [plain, *(_decoded(body, name) for name in sorted(names))]


def _charset(content_type: str | None) -> str:
    match = _CHARSET.search(content_type or "")
    return match.group(1).lower() if match else "utf-8"


def _xml_encoding(plain: bytes) -> str:
    match = _XML_ENCODING.match(plain)
    return match.group(1).decode("ascii").lower() if match else "utf-8"


def _decoded(body: bytes, encoding: str) -> bytes:
    try:
        return _plain_bytes(body.decode(encoding, "ignore").encode("utf-8", "ignore"))
    except (LookupError, ValueError):
        return b""


def _declares(text: bytes) -> bool:
    if _ENTITY.search(text) is None:
        return False
    element = _ELEMENT.search(text)
    head_end = len(text) if element is None else element.start()
    return _DECLARATION.search(text, 0, head_end) is not None or _PROLOG_DOCTYPE.match(text) is not None
