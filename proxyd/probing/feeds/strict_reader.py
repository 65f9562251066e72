"""Reads documents with feedparser's strict parser: it opens no address, guesses nothing and never falls back. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from typing import Any, TypeAlias
from xml.sax import SAXException, make_parser
from xml.sax.handler import feature_external_ges, feature_namespaces
from xml.sax.xmlreader import AttributesNSImpl

from feedparser.api import StrictFeedParser
from feedparser.sanitizer import replace_doctype
from feedparser.util import FeedParserDict

from proxyd.probing.documents.probe_failures import UnsafeDocumentError
from proxyd.probing.feeds.fast_names import LONGEST_BASE, MOST_NAMESPACES


def strict_document(body: bytes, language: str | None = None) -> Mapping[str, Any]:
    """Return feedparser's reading of a document in UTF-8, up to its first error."""
    # feedparser does not get the document's URL: it would make guids absolute, and a redirect would change identities.
    # `language` is that of the header `Content-Language`.
    document = _read(body, _Reader("", language, "utf-8"))
    if _FOREIGN.search(body) is not None:
        own = _read(body, _OwnReader("", language, "utf-8"))
        for entry, other in zip(document["entries"], own["entries"], strict=True):
            has_own = dict.get(other, "is_described") or dict.get(other, "content")
            entry["own"] = other if has_own else None
    return document


def _read(body: bytes, reader: _Reader) -> Mapping[str, Any]:
    version, data, _ = replace_doctype(body)
    reader.resolve_relative_uris = reader.sanitize_html = False
    parser = make_parser()
    parser.setFeature(feature_namespaces, True)
    parser.setFeature(feature_external_ges, False)
    parser.setContentHandler(reader)
    parser.setErrorHandler(reader)
    with suppress(SAXException):
        parser.parse(BytesIO(data))
    return {"feed": reader.feeddata, "entries": reader.entries, "version": version or reader.version}


_LONGEST_AUTHOR = 1_000
_FOREIGN = re.compile(rb":(?:summary|description)[\s>]", re.IGNORECASE)
_FAILURES = (LookupError, TypeError, ValueError)
_Name: TypeAlias = tuple[str | None, str]
_Tag: TypeAlias = tuple[str | None, ...]


class _Attributes(AttributesNSImpl):
    """The attributes of an element with many, found by name without a search."""

    def __init__(self, found: AttributesNSImpl) -> None:
        super().__init__(dict(found.items()), {name: found.getQNameByName(name) for name in found.getNames()})
        self._by_qname = {found.getQNameByName(name): value for name, value in found.items()}

    def getValueByQName(self, name: str) -> str:  # noqa: N802
        """Return the value of an attribute."""
        return self._by_qname[name]


class _Reader(StrictFeedParser):  # type: ignore[misc]  # it has no types
    """feedparser's handler, in linear time: it would compare each tag of an item with all others."""

    def __init__(self, base: str, language: str | None, encoding: str) -> None:
        super().__init__(base, language, encoding)
        self._known: dict[int, tuple[list[Any], set[_Tag]]] = {}  # with the list itself, which keeps its id its own
        self._prefixes: set[tuple[str | None, str | None]] = set()
        self._open: list[str] = []
        self._awaits_tag = False
        self.baseuri: str
        self.guidislink: bool

    def startPrefixMapping(self, prefix: str | None, uri: str | None) -> None:  # noqa: N802  SAX names it
        """Take the declaration of a namespace; feedparser looks through all of them for each element."""
        self._prefixes.add((prefix, uri))
        if len(self._prefixes) > MOST_NAMESPACES:
            raise UnsafeDocumentError(f"the document declares more than {MOST_NAMESPACES} namespaces")
        super().startPrefixMapping(prefix, uri)

    def startElementNS(self, name: _Name, qname: str | None, attrs: AttributesNSImpl) -> None:  # noqa: N802
        """Take the start of an element, and remember how feedparser calls it."""
        self._awaits_tag = True
        super().startElementNS(name, qname, _Attributes(attrs) if len(attrs) > 10 else attrs)

    def endElementNS(self, name: _Name, qname: str | None) -> None:  # noqa: N802
        """Take the end of an element."""
        self.unknown_endtag(self._open.pop())

    def unknown_starttag(self, tag: str, attrs: list[tuple[str, str]]) -> None:
        """Take the start of an element; one that feedparser fails on, for example odd coordinates, says nothing."""
        if self._awaits_tag:
            self._open.append(tag)
            self._awaits_tag = False
        with suppress(*_FAILURES):
            super().unknown_starttag(tag, attrs)
        if len(self.baseuri) > LONGEST_BASE:  # each of many nested elements may add to it
            self.baseuri = self.basestack[-1] = ""

    def unknown_endtag(self, tag: str) -> None:
        """Take the end of an element."""
        depth = self.depth
        with suppress(*_FAILURES):
            super().unknown_endtag(tag)
        if self.depth == depth:  # it failed before it left the element
            self.basestack.pop()
            self.langstack.pop()
            self.depth -= 1

    def _start_guid(self, attrs_d: Mapping[str, str]) -> None:
        """Begin a guid, which is a permalink however its attribute spells true."""
        super()._start_guid({**attrs_d, "ispermalink": attrs_d.get("ispermalink", "true").strip().lower()})

    def _end_guid(self) -> None:
        """End a guid, which is the link of an item whose own link is empty."""
        super()._end_guid()
        if self.guidislink:
            self._get_context()["permalink"] = self._get_context().get("id")

    def _sync_author_detail(self, key: str = "author") -> None:
        """Find the address in an author's text; in a long text that would take a time that grows with its square."""
        if len(self._get_context().get(key) or "") <= _LONGEST_AUTHOR:
            super()._sync_author_detail(key)

    def _tags(self) -> tuple[list[Any], set[_Tag]]:
        tags = self._get_context().setdefault("tags", [])
        return self._known.setdefault(id(tags), (tags, set()))

    def _add_tag(self, term: str | None, scheme: str | None, label: str | None) -> None:
        tags, known = self._tags()
        tag = (term, scheme, label)
        if any(tag) and tag not in known:
            known.add(tag)
            tags.append(FeedParserDict(term=term, scheme=scheme, label=label))

    def _end_category(self) -> None:
        tags, known = self._tags()
        last = tags[-1] if tags else None
        before = None if last is None else _tag(last)
        super()._end_category()
        if last is not None and before is not None:  # its text may have become the term
            known.discard(before)
            known.add(_tag(last))

    _end_keywords = _end_category


class _OwnReader(_Reader):
    """Reads the descriptions of other vocabularies apart from the items' own: the first is ``foreign``."""

    def _start_description(self, attrs_d: Mapping[str, str]) -> None:
        self._get_context()["is_described"] = True
        super()._start_description(attrs_d)

    def _start_summary(self, attrs_d: Mapping[str, str]) -> None:
        self._get_context()["is_described"] = True
        super()._start_summary(attrs_d)

    def _start_itunes_summary(self, attrs_d: Mapping[str, str]) -> None:
        self.push_content("foreign_text", attrs_d, "text/html", 1)

    def _end_itunes_summary(self) -> None:
        text, context = self.pop_content("foreign_text"), self._get_context()
        context["foreign"] = context.get("foreign") or text

    _start_media_description, _end_media_description = _start_itunes_summary, _end_itunes_summary


def _tag(tag: Mapping[str, Any]) -> _Tag:
    return tag["term"], tag["scheme"], tag["label"]
