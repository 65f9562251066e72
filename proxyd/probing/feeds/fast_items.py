"""Reads one item of a clean feed from its rows, by feedparser's rules. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proxyd.probing.feeds.fast_names import DeclinedError
from proxyd.probing.feeds.fast_rows import ABOUT, Attributes, Row
from proxyd.probing.feeds.fast_values import (
    Links,
    absolute_link,
    bare_text,
    check_date,
    content_text,
    plain_text,
    simple_time_s,
)
from proxyd.probing.feeds.feed_items import FeedEntry, former_texts, identity_of, own_texts, web_permalink

_MEDIA_SCHEME = "http://search.yahoo.com/mrss/category_schema"
_KEYWORDS_SCHEME = "http://www.itunes.com/"


class FastItem(Links):
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
        is_displaced = {"foreign", "description"} <= names
        self.own = FastItem([row for row in rows if row[0] != "foreign"]) if is_displaced else self

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
        own_link = absolute_link(url, link)
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
            enclosure=absolute_link(url, enclosure),
            published_s=self.published_s,
            updated_s=self.updated_s,
            former_texts=former_texts(
                (summary, content), (description, described), absolute_link(url, link), permalink
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
        self.title = content_text(attributes, text)

    def add_other_title(self, attributes: Attributes, text: str, _: int) -> None:
        """Set the title of another vocabulary: the last one wins."""
        self.other_title = bare_text(attributes, text)

    def add_media_title(self, attributes: Attributes, text: str, _: int) -> None:
        """Note the title of something in the item; it is ignored if the item has its own."""
        content_text(attributes, text)
        self.has_media_title = True

    def add_description(self, attributes: Attributes, text: str, depth: int) -> None:
        """Add a description or summary; a second one is content, unless the item has content already."""
        if self.summary is not None and not self.contents:
            self.add_content(attributes, text, depth)
            return
        value = content_text(attributes, text)
        if self.summary_depth is None or depth <= self.summary_depth:
            self.summary, self.summary_depth = value, depth

    def add_foreign(self, attributes: Attributes, text: str, depth: int) -> None:
        """Add a description of another vocabulary as the item's, and keep the first to put it in its place."""
        self.foreign = self.foreign or content_text(attributes, text) or None
        self.add_description(attributes, text, depth)

    def add_content(self, attributes: Attributes, text: str, _: int) -> None:
        """Add content, which is also the summary as long as there is none."""
        self.contents.append(content_text(attributes, text))
        if self.summary is None:
            self.summary = self.contents[0]

    def add_part(self, name: str, text: str) -> None:
        """Set a part of the author that ends next."""
        if name in self.parts:
            raise DeclinedError
        self.parts[name] = text.strip()

    def add_author(self, _attributes: Attributes, text: str, _: int) -> None:
        """Set the author: the last one wins."""
        self.author = self._author_of_parts() if self.parts else plain_text(text)
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
        value = plain_text(text)
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
        self.published_s = simple_time_s(plain_text(text))

    def add_updated(self, _attributes: Attributes, text: str, _: int) -> None:
        """Set the time of the last change: the last one wins."""
        self.updated_s = simple_time_s(plain_text(text))

    def add_enclosure(self, attributes: Attributes, _text: str, _: int) -> None:
        """Add an enclosure."""
        if attributes.get("url"):
            self.links.append(("enclosure", attributes["url"]))
        elif not attributes.keys().isdisjoint(("url", "uri", "href")):
            raise DeclinedError

    def add_aside(self, _attributes: Attributes, _text: str, _: int) -> None:
        """Note an image or a source: feedparser takes a title after it for the item's."""
        self.reset = True


_ITEM_ROWS: dict[str, Callable[[FastItem, Attributes, str, int], object]] = {
    "about": FastItem.add_about,
    "title": FastItem.add_title,
    "media_title": FastItem.add_media_title,
    "other_title": FastItem.add_other_title,
    "link": FastItem.add_link,
    "id": FastItem.add_id,
    "description": FastItem.add_description,
    "foreign": FastItem.add_foreign,
    "content": FastItem.add_content,
    "name": lambda item, _attributes, text, _: item.add_part("name", text),
    "email": lambda item, _attributes, text, _: item.add_part("email", text),
    "part": lambda item, *_: item.parts.setdefault("", ""),  # it has more than text
    "author": FastItem.add_author,
    "category": FastItem.add_category,
    "media_category": FastItem.add_media_category,
    "itunes_keywords": lambda item, attributes, text, _: item.add_keywords(
        bare_text(attributes, text), _KEYWORDS_SCHEME
    ),
    "media_keywords": lambda item, attributes, text, _: item.add_keywords(bare_text(attributes, text), None),
    "published": FastItem.add_published,
    "updated": FastItem.add_updated,
    "date": check_date,
    "enclosure": FastItem.add_enclosure,
    "image": FastItem.add_aside,
    "source": FastItem.add_aside,
}
