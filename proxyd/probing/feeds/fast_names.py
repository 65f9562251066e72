"""The grammar of the fast feed parser: which elements matter and what they may contain, by feedparser's rules. Pure.

An element is named as feedparser names its handlers: ``prefix_local`` in lower case, without a prefix for the
namespaces that it treats as RSS and Atom themselves. An element outside the grammar is declined if feedparser has a
handler for it, or reads its key: feedparser then parses the feed.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from feedparser.api import StrictFeedParser
from feedparser.util import FeedParserDict

MOST_NAMESPACES = 1_000
LONGEST_BASE = 4_096
_MOST_NAMES = 2_000
_LONGEST_NAME = 200
_USERLAND = "backend.userland.com/rss"
_NAMESPACES: dict[str, str] = {uri.lower(): prefix for uri, prefix in StrictFeedParser.namespaces.items()}
_HANDLED = frozenset(
    name.partition("_")[2].partition("_")[2] for name in dir(StrictFeedParser) if name.startswith(("_start_", "_end_"))
)
_KEYS = frozenset(
    {
        *FeedParserDict.keymap,
        *("id", "link", "links", "title", "summary", "subtitle", "content", "author", "authors", "tags", "published"),
        *("updated", "language", "source", "image", "textinput", "contributors", "publishers", "publisher", "where"),
        *("guidislink", "cloud", "license", "href", "svg", "entries", "feed", "media_content", "media_thumbnail"),
        *("media_rating", "media_credit", "media_restriction", "media_license", "media_player", "psc_chapters"),
        *("itunes_title", "ttl", "sy_updateperiod", "sy_updatefrequency"),
    }
)


class DeclinedError(Exception):
    """The document is in doubt and left to feedparser."""


class Namespaces:
    """The namespaces and version that a document declares; declines ambiguous ones."""

    def __init__(self) -> None:
        self.version = ""
        self._declared: set[tuple[str | None, str]] = set()
        self._by_prefix: dict[str, str] = {}
        self._unknown: dict[str, str | None] = {}
        self._moved: set[str] = set()
        self._standard: set[str] = set()

    def declare(self, prefix: str | None, uri: str | None) -> None:
        """Add a declaration, in document order."""
        if not uri:
            return
        self._declared.add((prefix, uri))
        if len(uri.split()) != 1 or uri != uri.strip() or len(self._declared) > MOST_NAMESPACES:
            raise DeclinedError
        self.version = self.version or _version(prefix, uri.lower())
        known = _standard_prefix(uri)
        if prefix is not None:
            lower = prefix.lower()
            if self._by_prefix.setdefault(lower, uri) != uri:
                raise DeclinedError
            if known is not None and known.lower() != lower:
                self._moved.add(lower)
        if known:
            self._standard.add(known.lower())
        if self._moved & self._standard:  # feedparser confuses the elements of the two
            raise DeclinedError
        if known is None and self._unknown.setdefault(uri, prefix) != prefix:
            raise DeclinedError


def _version(prefix: str | None, uri: str) -> str:
    if (prefix, uri) == (None, "http://my.netscape.com/rdf/simple/0.9/"):
        return "rss090"
    return {"http://purl.org/rss/1.0/": "rss10", "http://www.w3.org/2005/atom": "atom10"}.get(uri, "")


def _standard_prefix(uri: str) -> str | None:
    lower = uri.lower()
    return "" if _USERLAND in lower else _NAMESPACES.get(lower)


def _name_of(tag: str) -> str:
    """Return feedparser's name of an element that expat names ``uri local prefix``.

    >>> _name_of("http://www.w3.org/2005/Atom Link atom"), _name_of("http://purl.org/dc/elements/1.1/ creator x")
    ('link', 'dc_creator')
    >>> _name_of("urn:x count y"), _name_of("title")
    ('y_count', 'title')
    """
    uri, local, given = (f" {tag} " if " " not in tag else f"{tag} ").split(" ")[:3]
    prefix = _standard_prefix(uri)
    prefix = given if prefix is None else prefix
    if ":" in local:
        raise DeclinedError
    return f"{prefix}_{local}".lower() if prefix else local.lower()


class ElementKind(IntEnum):
    """How an element is handled: ignored, kept as a row, or as a part that holds rows."""

    IGNORED = 0
    ROW = 1
    PART = 2


class Context(dict[str, "Context"]):
    """The elements allowed inside an element, by expat's names; filled when a name first occurs, within bounds.

    Parameters
    ----------
    name
        The name of its row.
    named
        The elements allowed in it, by feedparser's names.
    others
        The kind of elements that are neither ``named`` nor known to feedparser; without it they are declined.
    """

    __slots__ = ("kind", "name", "named", "others")

    def __init__(self, name: str = "", kind: ElementKind = ElementKind.IGNORED, others: Context | None = None) -> None:
        super().__init__()
        self.name = name
        self.kind = kind
        self.others = others
        self.named: dict[str, Context] = {}

    def __missing__(self, tag: str) -> Context:
        name = _name_of(tag)
        found = self.named.get(name)
        if found is None:
            found = self.others
            if found is None or _matters(name):
                raise DeclinedError
        if len(self) < _MOST_NAMES and len(tag) <= _LONGEST_NAME:
            self[tag] = found
        return found

    def hold(self, names: str, context: Context) -> Context:
        """Allow some elements in it; return the context."""
        self.named.update(dict.fromkeys(names.split(), context))
        return self

    def hold_rows(self, rows: Mapping[str, str]) -> Context:
        """Allow leaf elements that become rows, by the name of the row; return the context."""
        for row, names in rows.items():
            self.hold(names, Context(row, ElementKind.ROW))
        return self


def _matters(name: str) -> bool:
    return name in _HANDLED or name in _KEYS or name.endswith(("_detail", "_parsed"))


_LEAF = Context()
IGNORED = Context()
IGNORED.others = IGNORED

_PERSONS = "author managingeditor dc_author dc_creator itunes_author"
_DATES = "pubdate published issued dcterms_issued updated modified lastbuilddate dc_date dcterms_modified"
_HARMLESS = (
    "generator rights copyright dc_rights webmaster dc_publisher dc_contributor cloud itunes_image itunes_block "
    "itunes_explicit creativecommons_license cc_license georss_point georss_line georss_polygon georss_box"
)
_HARMLESS_MEDIA = "media_rating media_credit media_restriction media_license media_thumbnail media_player"
_TAGS = "category keywords dc_subject media_category media_keywords itunes_keywords"

_NAMELESS = Context(others=IGNORED).hold("name email uri url homepage itunes_name itunes_email", _LEAF)

_MEDIA = Context(others=IGNORED).hold(_HARMLESS_MEDIA, IGNORED)
_MEDIA.hold("media_group media_content", _MEDIA)
_MEDIA.hold_rows(
    {
        "media_title": "media_title",
        "foreign": "media_description",
        "media_category": "media_category",
        "media_keywords": "media_keywords",
    }
)

_PERSON = Context("author", ElementKind.ROW, Context("part", ElementKind.ROW, IGNORED))
_PERSON.hold_rows({"name": "name itunes_name", "email": "email itunes_email", "part": "uri url homepage"})

_SOURCE = Context("source", ElementKind.ROW, IGNORED)
_SOURCE.hold("id guid title link category rights subtitle generator", _LEAF)
_SOURCE.hold("author contributor", _NAMELESS).hold_rows({"date": "published updated"})

ITEM = Context("item", ElementKind.PART, IGNORED)
ITEM.hold(_HARMLESS + " language dc_language subtitle tagline itunes_subtitle ttl", IGNORED)
ITEM.hold(_PERSONS, _PERSON).hold("contributor", _NAMELESS).hold("source", _SOURCE)
ITEM.named.update(_MEDIA.named)
ITEM.hold_rows(
    {
        "title": "title dc_title",
        "other_title": "itunes_title",
        "link": "link",
        "id": "id guid",
        "description": "description dc_description summary",
        "foreign": "itunes_summary",
        "content": "content content_encoded",
        "category": "category keywords dc_subject",
        "itunes_keywords": "itunes_keywords",
        "published": "published pubdate issued dcterms_issued",
        "updated": "updated modified lastbuilddate dc_date dcterms_modified",
        "enclosure": "enclosure",
        "image": "image",
    }
)

_IMAGE, _ASIDE_IMAGE = (
    Context("aside", kind).hold("url title link description width height", _LEAF)
    for kind in (ElementKind.IGNORED, ElementKind.PART)
)
_TEXT_INPUT, _ASIDE_INPUT = (
    Context("aside", kind).hold("title description name link", _LEAF)
    for kind in (ElementKind.IGNORED, ElementKind.PART)
)
_CATEGORY = Context(others=IGNORED)
_CATEGORY.hold("itunes_category", _CATEGORY)


def _about() -> Context:
    """Return the context of a channel, or of an Atom feed."""
    context = Context("channel", ElementKind.PART, IGNORED)
    context.hold(f"{_HARMLESS} {_HARMLESS_MEDIA} {_TAGS} items media_content media_group", IGNORED)
    context.hold("admin_generatoragent admin_errorreportsto info feedburner_browserfriendly", IGNORED)
    context.hold(f"{_PERSONS} contributor itunes_owner", _NAMELESS).hold("itunes_category", _CATEGORY)
    context.hold("image", _IMAGE).hold("textinput", _TEXT_INPUT)
    return context.hold_rows(
        {
            "title": "title",
            "link": "link",
            "id": "id guid",
            "description": "description dc_description",
            "subtitle": "subtitle tagline itunes_subtitle",
            "summary": "summary itunes_summary",
            "language": "language dc_language",
            "ttl": "ttl",
            "sy_updateperiod": "sy_updateperiod",
            "sy_updatefrequency": "sy_updatefrequency",
            "date": _DATES,
        }
    )


_CHANNEL = _about()
_RDF = Context("rdf", ElementKind.PART, IGNORED).hold("image", _ASIDE_IMAGE).hold("textinput", _ASIDE_INPUT)
_RDF.hold("channel", _CHANNEL).hold("item", ITEM).hold("cc_license", IGNORED)
_RSS = Context("rss", ElementKind.PART).hold("channel", _about().hold("item", ITEM))
_FEED = _about().hold("entry", ITEM)
_FEED.name = "feed"
DOCUMENT = Context().hold("rss", _RSS).hold("rdf_rdf", _RDF).hold("feed", _FEED)
