"""The values of elements as feedparser reads them, with the links of feeds and items; declines what is subtle. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from proxyd.probing.documents.document_texts import safe_link
from proxyd.probing.documents.feed_dates import says_none, time_s
from proxyd.probing.feeds.fast_names import DeclinedError
from proxyd.probing.feeds.fast_rows import Attributes, is_permalink

_TYPES = frozenset({"text", "plain", "text/plain", "html", "text/html"})
_PAGES = frozenset({"html", "text/html", "xhtml", "application/xhtml+xml"})
_TIME = re.compile(
    r"(?:[A-Z][a-z]{2}, )?\d{1,2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}(?::\d{2})? (?:[A-Z]{1,4}|[+-]\d{4})"
    r"|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?(?:Z|[+-]\d{2}:\d{2})"
)


def absolute_link(url: str, href: str | None) -> str | None:
    """Return a link in the feed at ``url`` as an absolute one, or ``None`` if it must not be followed."""
    return safe_link(url, href) if href else None


def plain_text(text: str) -> str:
    """Return a text as feedparser keeps it; decline text that looks like UTF-8 encoded twice."""
    text = text.strip()
    if text.isascii():
        return text
    try:
        text.encode("iso-8859-1").decode("utf-8")
    except UnicodeError:
        return text
    raise DeclinedError


def content_text(attributes: Attributes, text: str) -> str:
    """Return the text of an element that may declare its type."""
    if attributes and ("mode" in attributes or attributes.get("type", "text").lower() not in _TYPES):
        raise DeclinedError
    return plain_text(text)


def bare_text(attributes: Attributes, text: str) -> str:
    """Return the text of an element unknown to feedparser; decline one with attributes."""
    if attributes:
        raise DeclinedError
    return plain_text(text)


def simple_time_s(text: str) -> float | None:
    """Return unix seconds of a time in a simple form; decline the others."""
    if not text:
        return None
    seconds = time_s(text) if _TIME.fullmatch(text) else None
    if seconds is None and not says_none(text):
        raise DeclinedError
    return seconds


class Links:
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
        value = plain_text(text)
        if "rel" in attributes or "type" in attributes or ":///" in value or ("&" in value and ";" in value):
            raise DeclinedError
        self.link = value

    def add_id(self, attributes: Attributes, text: str, _: int) -> None:
        """Add an id, which also serves as a missing link unless it says that it is not a permalink."""
        value = plain_text(text)
        is_link = is_permalink(attributes)
        if self.guid is not None or (is_link and ":///" in value):
            raise DeclinedError
        self.guid = value
        self.permalink = value if is_link else None
        if is_link and self.link is None:
            self.link = value


def check_date(_: Links, _attributes: Attributes, text: str, _depth: int) -> None:
    """Decline a time that feedparser might fail on; others are ignored."""
    simple_time_s(plain_text(text))
