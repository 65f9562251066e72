"""Parses clean feeds without feedparser into the same ``ParsedFeed``, or declines them. Pure.

Each rule here, for which element wins and what becomes of its text, is one of feedparser's. Feeds that depend on its
subtle rules are declined; tests compare the two on every document that they can generate.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from proxyd.probing.documents.document_texts import cap, safe_link
from proxyd.probing.documents.feed_dates import says_none, time_s
from proxyd.probing.feeds.fast_names import DeclinedError
from proxyd.probing.feeds.fast_rows import ABOUT, Attributes, Row, Rows, is_permalink, rows_of
from proxyd.probing.feeds.feed_items import (
    FeedChannel,
    FeedEntry,
    ParsedFeed,
    former_texts,
    identity_of,
    number_of,
    own_texts,
    period_s,
    self_link,
    web_links,
    web_permalink,
    window_of,
)

_TYPES = frozenset({"text", "plain", "text/plain", "html", "text/html"})
_PAGES = frozenset({"html", "text/html", "xhtml", "application/xhtml+xml"})
_TIME = re.compile(
    r"(?:[A-Z][a-z]{2}, )?\d{1,2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}(?::\d{2})? (?:[A-Z]{1,4}|[+-]\d{4})"
    r"|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})"
)


def _absolute_link(url: str, href: str | None) -> str | None:
    """Return a link in the feed at ``url`` as an absolute one, or ``None`` if it must not be followed."""
    return safe_link(url, href) if href else None


def _plain_text(text: str) -> str:
    """Return a text as feedparser keeps it; decline text that looks like UTF-8 encoded twice."""
    text = text.strip()
    if text.isascii():
        return text
    try:
        text.encode("iso-8859-1").decode("utf-8")
    except UnicodeError:
        return text
    raise DeclinedError


def _content_text(attributes: Attributes, text: str) -> str:
    """Return the text of an element that may declare its type."""
    if attributes and ("mode" in attributes or attributes.get("type", "text").lower() not in _TYPES):
        raise DeclinedError
    return _plain_text(text)


def _bare_text(attributes: Attributes, text: str) -> str:
    """Return the text of an element unknown to feedparser; decline one with attributes."""
    if attributes:
        raise DeclinedError
    return _plain_text(text)


def _simple_time_s(text: str) -> float | None:
    """Return unix seconds of a time in a simple form; decline the others."""
    if not text:
        return None
    seconds = time_s(text) if _TIME.fullmatch(text) else None
    if seconds is None and not says_none(text):
        raise DeclinedError
    return seconds


class _Links:
    """The results of ``link`` and ``guid``, in feeds and items: ``link`` is ``None`` until one of them sets it."""

    __slots__ = ("guid", "link", "links", "permalink")

    def __init__(self) -> None:
        self.link: str | None = None
        self.guid: str | None = None
        self.permalink: str | None = None
        self.links: list[tuple[str, str]] = []

    def hrefs(self, relation: str) -> Iterable[str]:
        """Return the addresses of the links with a relation, for example ``hub``."""
        return (href.strip() for rel, href in self.links if relation in rel.split())

    def add_link(self, attributes: Attributes, text: str, _: int) -> None:
        """Add a link: the last one to a page wins."""
        if not attributes.keys().isdisjoint(("url", "uri", "mode")):
            raise DeclinedError
        if "href" not in attributes:
            self._add_text_link(attributes, text)
            return
        href, relation = attributes["href"], attributes.get("rel", "alternate").lower()
        if not href or ":///" in href:
            raise DeclinedError
        self.links.append((relation, href))
        if relation == "alternate" and attributes.get("type", "html").lower() in _PAGES:
            self.link = href.strip()

    def _add_text_link(self, attributes: Attributes, text: str) -> None:
        value = _plain_text(text)
        if "rel" in attributes or "type" in attributes or ":///" in value or ("&" in value and ";" in value):
            raise DeclinedError
        self.link = value

    def add_id(self, attributes: Attributes, text: str, _: int) -> None:
        """Add an id, which also serves as a missing link unless it says that it is not a permalink."""
        value = _plain_text(text)
        is_link = is_permalink(attributes)
        if self.guid is not None or (is_link and ":///" in value):
            raise DeclinedError
        self.guid = value
        self.permalink = value if is_link else None
        if is_link and self.link is None:
            self.link = value


def _check_date(_: _Links, _attributes: Attributes, text: str, _depth: int) -> None:
    """Decline a time that feedparser might fail on; others are ignored."""
    _simple_time_s(_plain_text(text))


def parse_clean_feed(body: bytes, content_type: str | None = None, url: str = "") -> ParsedFeed | None:
    """Return the feed in ``body``, or ``None`` if feedparser must read it.

    It reads well-formed RSS, RDF and Atom 1.0 in UTF-8, without a DOCTYPE or anything subtle.
    """
    try:
        return _read_feed(rows_of(body, content_type), url)
    except DeclinedError:
        return None


def _read_feed(rows: Rows, url: str) -> ParsedFeed:
    about = _About(rows)
    ttl_minutes = number_of(about.texts.get("ttl") or None)
    link = _absolute_link(url, about.link)
    fields = FeedChannel(
        title=about.texts.get("title") or None,
        link=link,
        description=about.texts.get("subtitle") or None,
        language=about.texts.get("language") or None,
        ttl_minutes=ttl_minutes,
    ).fields()
    window = window_of([_FastItem(item).entry(url) for item in rows.items], fields)
    return ParsedFeed(
        items=window.items,
        version=rows.version,
        title=cap(about.texts.get("title") or None),
        link=cap(link),
        ttl_minutes=ttl_minutes,
        period_s=period_s(ttl_minutes, about.texts.get("sy_updateperiod"), about.texts.get("sy_updatefrequency")),
        truncated=window.truncated,
        duplicates=window.duplicates,
        hubs=web_links(url, about.hrefs("hub")),
        self_url=self_link(url, about.hrefs("self")),
    )


class _About(_Links):
    """A feed's data about itself."""

    __slots__ = ("texts",)

    def __init__(self, rows: Rows) -> None:
        super().__init__()
        self.texts: dict[str, str] = {}
        if rows.language:
            self.texts["language"] = rows.language.replace("_", "-").strip()
        for name, attributes, text, depth in rows.about:
            _ABOUT_ROWS[name](self, attributes, text, depth)

    def add_title(self, attributes: Attributes, text: str, _: int) -> None:
        """Set the title; decline a second one."""
        if "title" in self.texts:
            raise DeclinedError
        self.texts["title"] = _content_text(attributes, text)

    def add_description(self, attributes: Attributes, text: str, _: int) -> None:
        """Set the description; after a summary it would be content."""
        if "summary" in self.texts:
            raise DeclinedError
        self.texts["subtitle"] = _content_text(attributes, text)

    def add_subtitle(self, attributes: Attributes, text: str, _: int) -> None:
        """Set the subtitle: the last one wins."""
        self.texts["subtitle"] = _content_text(attributes, text)

    def add_summary(self, attributes: Attributes, text: str, _: int) -> None:
        """Note a summary, which is not kept."""
        if "summary" in self.texts:
            raise DeclinedError
        self.texts["summary"] = _content_text(attributes, text)

    def add_language(self, _attributes: Attributes, text: str, _: int) -> None:
        """Set the language, which takes precedence over the root element's."""
        self.texts["language"] = _plain_text(text)


def _keep(key: str) -> Callable[[_About, Attributes, str, int], None]:
    """Return what keeps the text of a feed's element under a key."""

    def add(about: _About, attributes: Attributes, text: str, _: int) -> None:
        about.texts[key] = _bare_text(attributes, text)

    return add


_ABOUT_ROWS: dict[str, Callable[[_About, Attributes, str, int], None]] = {
    "title": _About.add_title,
    "link": _About.add_link,
    "id": _About.add_id,
    "description": _About.add_description,
    "subtitle": _About.add_subtitle,
    "summary": _About.add_summary,
    "language": _About.add_language,
    "ttl": _keep("ttl"),
    "sy_updateperiod": _keep("sy_updateperiod"),
    "sy_updatefrequency": _keep("sy_updatefrequency"),
    "date": _check_date,
}


_MEDIA_SCHEME = "http://search.yahoo.com/mrss/category_schema"
_KEYWORDS_SCHEME = "http://www.itunes.com/"


class _FastItem(_Links):
    """One item, from its rows."""

    __slots__ = (
        *(
            "author",
            "contents",
            "foreign",
            "has_media_title",
            "own",
            "parts",
            "published_s",
            "reset",
            "summary",
            "summary_depth",
        ),
        *("known_tags", "other_title", "tags", "title", "updated_s"),
    )

    def __init__(self, rows: Sequence[Row]) -> None:
        super().__init__()
        self.foreign: str | None = None
        self.title: str | None = None
        self.other_title: str | None = None
        self.summary: str | None = None
        self.summary_depth: int | None = None
        self.contents: list[str] = []
        self.author = ""
        self.published_s: float | None = None
        self.updated_s: float | None = None
        self.parts: dict[str, str] = {}
        self.tags: list[tuple[str | None, ...]] = []
        self.known_tags: set[tuple[str | None, ...]] = set()
        self.has_media_title = self.reset = False
        for name, attributes, text, depth in rows:
            _ITEM_ROWS[name](self, attributes, text, depth)
        names = {row[0] for row in rows}
        is_displaced = "foreign" in names and not names.isdisjoint({"description", "content"})
        self.own = _FastItem([row for row in rows if row[0] != "foreign"]) if is_displaced else self

    def entry(self, url: str) -> FeedEntry:
        """Return the item's entry."""
        if self.has_media_title and (self.reset or not self.title):
            raise DeclinedError
        link, title, summary = self.link or None, self.title or None, self.summary or None
        content, own = self.content, self.own
        description, described = (
            (summary, content)
            if own is self
            else own_texts((summary, content), (own.summary or None, own.content), self.foreign)
        )
        enclosures = (href.strip() for relation, href in self.links if relation == "enclosure")
        enclosure = next((href for href in enclosures if href), None)
        time_s = self.updated_s if self.published_s is None else self.published_s
        identity = identity_of(self.guid or None, link, (title, summary or content), time_s, enclosure)
        own_link = _absolute_link(url, link)
        permalink = None if link else web_permalink(url, self.permalink)
        return FeedEntry(
            identity=identity,
            title=title,
            other_title=self.other_title or None,
            description=description,
            content=described,
            link=own_link or permalink,
            guid=self.guid or None,
            author=self.author or None,
            category=self._category() if self.tags else None,
            enclosure=_absolute_link(url, enclosure),
            published_s=self.published_s,
            updated_s=self.updated_s,
            former_texts=former_texts(
                (summary, content), (description, described), _absolute_link(url, link), permalink
            ),
        )

    @property
    def content(self) -> str | None:
        """The contents, one after the other."""
        return "\n".join(text for text in self.contents if text) or None

    def _category(self) -> str | None:
        terms = ((term or "").strip() or (label or "").strip() for term, _, label in self.tags)
        return ",".join(term for term in terms if term) or None

    def add_about(self, attributes: Attributes, _text: str, _: int) -> None:
        """Set the identity in RDF, as written."""
        self.guid = attributes[ABOUT].strip() or None

    def add_title(self, attributes: Attributes, text: str, _: int) -> None:
        """Set the title; decline a second one."""
        if self.title is not None:
            raise DeclinedError
        self.title = _content_text(attributes, text)

    def add_other_title(self, attributes: Attributes, text: str, _: int) -> None:
        """Set the title of another vocabulary: the last one wins."""
        self.other_title = _bare_text(attributes, text)

    def add_media_title(self, attributes: Attributes, text: str, _: int) -> None:
        """Note the title of something in the item; it is ignored if the item has its own."""
        _content_text(attributes, text)
        self.has_media_title = True

    def add_description(self, attributes: Attributes, text: str, depth: int) -> None:
        """Add a description or summary; a second one is content, unless the item has content already."""
        if self.summary is not None and not self.contents:
            self.add_content(attributes, text, depth)
            return
        value = _content_text(attributes, text)
        if self.summary_depth is None or depth <= self.summary_depth:
            self.summary, self.summary_depth = value, depth

    def add_foreign(self, attributes: Attributes, text: str, depth: int) -> None:
        """Add a description of another vocabulary as the item's, and keep the first to put it in its place."""
        self.foreign = self.foreign or _content_text(attributes, text) or None
        self.add_description(attributes, text, depth)

    def add_content(self, attributes: Attributes, text: str, _: int) -> None:
        """Add content, which is also the summary as long as there is none."""
        self.contents.append(_content_text(attributes, text))
        if self.summary is None:
            self.summary = self.contents[0]

    def add_part(self, name: str, text: str) -> None:
        """Set a part of the author that ends next."""
        if name in self.parts:
            raise DeclinedError
        self.parts[name] = text.strip()

    def add_author(self, _attributes: Attributes, text: str, _: int) -> None:
        """Set the author: the last one wins."""
        self.author = self._author_of_parts() if self.parts else _plain_text(text)
        self.parts = {}

    def _author_of_parts(self) -> str:
        name, email = self.parts.get("name"), self.parts.get("email")
        leaks = self.author and (name is None or "@" in self.author)  # feedparser keeps parts of earlier authors
        if leaks or not (name or email):
            raise DeclinedError
        return f"{name} ({email})" if name and email else name or email or ""

    def add_category(self, attributes: Attributes, text: str, _: int) -> None:
        """Add a category of any kind."""
        scheme = attributes.get("scheme", attributes.get("domain"))
        self._add_tag(attributes.get("term"), scheme, attributes.get("label"))
        value = _plain_text(text)
        if value and self.tags and not self.tags[-1][0]:
            self.known_tags.discard(self.tags[-1])
            self.tags[-1] = (value, *self.tags[-1][1:])
            self.known_tags.add(self.tags[-1])
        elif value:
            self._add_tag(value, None, None)

    def add_media_category(self, attributes: Attributes, text: str, depth: int) -> None:
        """Add a category with a scheme of its own."""
        self.add_category({"scheme": _MEDIA_SCHEME, **attributes}, text, depth)

    def add_keywords(self, text: str, scheme: str | None) -> None:
        """Add a list of categories."""
        for term in text.split(","):
            if term.strip():
                self._add_tag(term.strip(), scheme, None)

    def _add_tag(self, term: str | None, scheme: str | None, label: str | None) -> None:
        tag = (term, scheme, label)
        if any(tag) and tag not in self.known_tags:
            self.known_tags.add(tag)
            self.tags.append(tag)

    def add_published(self, _attributes: Attributes, text: str, _: int) -> None:
        """Set the time of publication: the last one wins."""
        self.published_s = _simple_time_s(_plain_text(text))

    def add_updated(self, _attributes: Attributes, text: str, _: int) -> None:
        """Set the time of the last change: the last one wins."""
        self.updated_s = _simple_time_s(_plain_text(text))

    def add_enclosure(self, attributes: Attributes, _text: str, _: int) -> None:
        """Add an enclosure."""
        if attributes.get("url"):
            self.links.append(("enclosure", attributes["url"]))
        elif not attributes.keys().isdisjoint(("url", "uri", "href")):
            raise DeclinedError

    def add_aside(self, _attributes: Attributes, _text: str, _: int) -> None:
        """Note an image or a source: feedparser takes a title after it for the item's."""
        self.reset = True


_ITEM_ROWS: dict[str, Callable[[_FastItem, Attributes, str, int], object]] = {
    "about": _FastItem.add_about,
    "title": _FastItem.add_title,
    "media_title": _FastItem.add_media_title,
    "other_title": _FastItem.add_other_title,
    "link": _FastItem.add_link,
    "id": _FastItem.add_id,
    "description": _FastItem.add_description,
    "foreign": _FastItem.add_foreign,
    "content": _FastItem.add_content,
    "name": lambda item, _attributes, text, _: item.add_part("name", text),
    "email": lambda item, _attributes, text, _: item.add_part("email", text),
    "part": lambda item, *_: item.parts.setdefault("", ""),  # it has more than text
    "author": _FastItem.add_author,
    "category": _FastItem.add_category,
    "media_category": _FastItem.add_media_category,
    "itunes_keywords": lambda item, attributes, text, _: item.add_keywords(
        _bare_text(attributes, text), _KEYWORDS_SCHEME
    ),
    "media_keywords": lambda item, attributes, text, _: item.add_keywords(_bare_text(attributes, text), None),
    "published": _FastItem.add_published,
    "updated": _FastItem.add_updated,
    "date": _check_date,
    "enclosure": _FastItem.add_enclosure,
    "image": _FastItem.add_aside,
    "source": _FastItem.add_aside,
}
