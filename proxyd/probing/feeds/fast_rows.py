"""Reads the relevant rows of a clean feed, in document order. Pure.

It uses expat rather than lxml because feedparser uses expat too: both then agree on what is well-formed. Without a
DOCTYPE there is no entity to expand.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias
from urllib.parse import urljoin
from xml.parsers import expat

from feedparser.urls import make_safe_absolute_uri

from proxyd.probing.feeds.fast_names import (
    DOCUMENT,
    ITEM,
    LONGEST_BASE,
    Context,
    DeclinedError,
    ElementKind,
    Namespaces,
)

Attributes: TypeAlias = Mapping[str, str]
ABOUT = "http://www.w3.org/1999/02/22-rdf-syntax-ns# about rdf"
_LANG = "http://www.w3.org/XML/1998/namespace lang xml"
_BASE = "http://www.w3.org/XML/1998/namespace base xml"

_MOST_ATTRIBUTES = 2_000
_LONGEST_NAME = 200
_MARK = b"\xef\xbb\xbf"
_CHARSET = re.compile(r"charset", re.IGNORECASE)
_UTF8_HEADER = re.compile(r"[^;]*;\s*charset\s*=\s*[\"']?utf-?8[\"']?\s*", re.IGNORECASE)
_DECLARATION = re.compile(
    rb"<\?xml\s+version\s*=\s*[\"']1\.0[\"'](?:\s+encoding\s*=\s*[\"']utf-?8[\"'])?"
    rb"(?:\s+standalone\s*=\s*[\"'](?:yes|no)[\"'])?\s*\?>",
    re.IGNORECASE,
)
_ROOT = re.compile(rb"<(?:\w+:)?(?:rss|feed|rdf)[\s>]", re.IGNORECASE)
_ELEMENT = re.compile(rb"<\w")
_SUBTLE_REFERENCE = re.compile(
    rb"&#(?:\w{33}|0*(?:13|12[7-9]|1[34]\d|15\d);|[xX]0*(?:[dD]|7[fF]|[89][0-9a-fA-F]);)"
)  # characters that cleaning texts or escaping ampersands would change
_CONTROL = re.compile(rb"\xc2[\x80-\x9f]")
_RESERVED = frozenset(
    {
        *("base", "lang", "url", "uri", "href", "rel", "type", "mode", "ispermalink", "term", "scheme", "domain"),
        *("label", "lastmod", "about", "src", "text", "version"),
    }
)
_PLAIN_ATTRIBUTES = {*(_RESERVED - {"ispermalink"}), "isPermaLink", _LANG, ABOUT, _BASE}
_SAYS_BASE = re.compile(rb"\bbase\s*=")


Row: TypeAlias = tuple[str, Attributes, str, int]
"""One element that matters: what it is called, its attributes, its text, how deep it stands."""


def is_permalink(attributes: Attributes) -> bool:
    """Return whether a guid is a link, which it is unless it says otherwise."""
    return attributes.get("isPermaLink", "true").strip().lower() == "true"


class Rows:
    """The rows of a feed and of each of its items."""

    def __init__(self) -> None:
        self.version = ""
        self.language: str | None = None
        self.about: list[Row] = []
        self.items: list[list[Row]] = []
        self._namespaces = Namespaces()
        self._parts = 0

    def declare(self, prefix: str | None, uri: str | None) -> None:
        """Add a namespace declaration."""
        self._namespaces.declare(prefix, uri)

    def open_part(self, name: str, attributes: Attributes) -> list[Row]:
        """Return the list that takes the rows of a new part."""
        if "lastmod" in attributes or "href" in attributes:
            raise DeclinedError
        if name == "item":
            self.items.append([("about", attributes, "", 0)] if ABOUT in attributes else [])
            return self.items[-1]
        if name == "aside" and self._parts < 2:
            raise DeclinedError
        if name == "channel" and (self._parts > 1 or self.items):
            raise DeclinedError
        self._parts += 1
        if name in {"rss", "feed"}:
            self.language = attributes.get(_LANG, attributes.get("lang"))
        if self._parts == 1:
            self.version = self._root_version(name, attributes)
        return self.about

    def _root_version(self, name: str, attributes: Attributes) -> str:
        found = self._namespaces.version
        if name == "rss" and not found.startswith("rss"):
            version = attributes.get("version", "")
            known = {"0.91": "rss091u", "0.92": "rss092", "0.93": "rss093", "0.94": "rss094"}.get(version)
            return known or ("rss20" if version.startswith("2.") else "rss")
        if not found or (name == "feed") != (found == "atom10"):
            raise DeclinedError
        return found


def rows_of(body: bytes, content_type: str | None) -> Rows:
    """Return the rows of a strictly well-formed feed in UTF-8.

    Raises ``DeclinedError``: it is another kind of document, or contains something subtle.
    """
    _check_bytes(body, content_type)
    rows = Rows()
    parser = expat.ParserCreate("utf-8", " ")
    parser.namespace_prefixes = True
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = _decline
    parser.StartNamespaceDeclHandler = rows.declare
    pieces: list[str] = []
    parser.CharacterDataHandler = pieces.append
    bases = _Bases() if _SAYS_BASE.search(body) else None
    parser.StartElementHandler, parser.EndElementHandler = _handlers(rows, pieces, bases)
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise DeclinedError from error
    return rows


class _Bases:
    """The base of relative links (``xml:base``) in each element, by feedparser's rules.

    One of them is a mistake that identities depend on: where an element has a base and its parent has none, the
    elements after it have that base too.
    """

    def __init__(self) -> None:
        self._base = ""
        self._within: list[str] = []

    def enter(self, attributes: Attributes) -> None:
        """Take the start of an element."""
        own = attributes.get(_BASE, attributes.get("base")) or self._base
        if self._base:
            self._base = make_safe_absolute_uri(self._base, own) or self._base
        elif own:
            self._base = _join_links("", own)
        if len(self._base) > LONGEST_BASE:
            raise DeclinedError
        self._within.append(self._base)

    def leave(self) -> None:
        """Take the end of an element."""
        self._within.pop()
        if self._within and self._within[-1]:
            self._base = self._within[-1]

    def resolve(self, name: str, attributes: Attributes, text: str) -> tuple[Attributes, str]:
        """Return the attributes and text of a row with its link made absolute."""
        if not self._base or name not in {"link", "id"}:
            return attributes, text
        if name == "link" and "href" in attributes:
            return {**attributes, "href": _join_links(self._base, attributes["href"])}, text
        is_link = name == "link" or is_permalink(attributes)
        return attributes, _join_links(self._base, text.strip()) if is_link and text.strip() else text


def _join_links(base: str, link: str) -> str:
    if ":///" in link:  # feedparser changes it
        raise DeclinedError
    try:
        return urljoin(base, link)
    except ValueError:
        return ""


def _handlers(
    rows: Rows, pieces: list[str], bases: _Bases | None
) -> tuple[Callable[[str, Attributes], None], Callable[[str], None]]:
    """Return the handlers of element starts and ends; they use local variables because they are called most."""
    stack: list[Context] = []
    context = DOCUMENT
    current = rows.about
    held: Attributes = {}

    def start(tag: str, attributes: Attributes) -> None:
        nonlocal context, current, held
        if attributes and not _PLAIN_ATTRIBUTES.issuperset(attributes):
            _check_attributes(attributes)
        if bases is not None:
            bases.enter(attributes)
        stack.append(context)
        context = context[tag]
        if context.kind is ElementKind.ROW:
            held = attributes
            pieces.clear()
        elif context.kind is ElementKind.PART:
            current = rows.open_part(context.name, attributes)

    def end(_: str) -> None:
        nonlocal context, current
        if context.kind is ElementKind.ROW:
            text = "".join(pieces)
            found = (held, text) if bases is None else bases.resolve(context.name, held, text)
            current.append((context.name, *found, len(stack)))
        elif context is ITEM:
            current = rows.about
        context = stack.pop()
        if bases is not None:
            bases.leave()

    return start, end


def _check_bytes(body: bytes, content_type: str | None) -> None:
    """Decline a document that feedparser may not read as UTF-8, or not exactly as written."""
    if content_type and _CHARSET.search(content_type) and not _UTF8_HEADER.fullmatch(content_type):
        raise DeclinedError
    start = len(_MARK) if body.startswith(_MARK) else 0
    element = _ELEMENT.search(body, start)
    if element is None or not _ROOT.match(body, element.start()):
        raise DeclinedError
    _check_head(body, start, element.start())
    if b"&#" in body and _SUBTLE_REFERENCE.search(body):
        raise DeclinedError
    if b"\x7f" in body or (b"\xc2" in body and _CONTROL.search(body)):
        raise DeclinedError


def _check_head(body: bytes, start: int, element: int) -> None:
    """Decline a document whose head could name another encoding or declare anything."""
    declaration = _DECLARATION.match(body, start)
    begins = start if declaration is None else declaration.end()
    if (declaration is None and body.startswith(b"<?xml", begins)) or re.search(rb"<![A-Za-z]", body[begins:element]):
        raise DeclinedError
    line_end = body.find(b"\n", begins)
    line_end = len(body) if line_end < 0 else line_end
    if body.startswith(b"<?", start) and body.find(b"encoding=", begins, line_end) >= 0:
        raise DeclinedError


def _decline(*_: object) -> None:
    raise DeclinedError


def _check_attributes(attributes: Attributes) -> None:
    """Decline attributes that feedparser would confuse with others; remember the safe ones."""
    for key in attributes:
        local = (key.split(" ") if " " in key else ("", key))[1].lower()
        if key not in _PLAIN_ATTRIBUTES and (local in _RESERVED or local.startswith("xmlns")):
            raise DeclinedError
        if len(_PLAIN_ATTRIBUTES) < _MOST_ATTRIBUTES and len(key) <= _LONGEST_NAME:
            _PLAIN_ATTRIBUTES.add(key)
