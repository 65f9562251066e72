"""Parses clean feeds without feedparser into the same ``ParsedFeed``, or declines them. Pure.

Each rule here, for which element wins and what becomes of its text, is one of feedparser's. Feeds that depend on its
subtle rules are declined; tests compare the two on every document that they can generate.
"""

from __future__ import annotations

from collections.abc import Callable

from proxyd.probing.documents.document_texts import capped
from proxyd.probing.feeds.fast_items import FastItem
from proxyd.probing.feeds.fast_names import DeclinedError
from proxyd.probing.feeds.fast_rows import Attributes, Rows, rows_of
from proxyd.probing.feeds.fast_values import Links, absolute_link, bare_text, check_date, content_text, plain_text
from proxyd.probing.feeds.feed_items import (
    FeedChannel,
    ParsedFeed,
    number_of,
    period_s,
    self_link,
    web_links,
    window_of,
)


def parse_clean_feed(body: bytes, content_type: str | None = None, url: str = "") -> ParsedFeed | None:
    """Return the feed in ``body``, or ``None`` if feedparser must read it.

    It reads well-formed RSS, RDF and Atom 1.0 in UTF-8, without a DOCTYPE or anything subtle.
    """
    try:
        return _feed(rows_of(body, content_type), url)
    except DeclinedError:
        return None


def _feed(rows: Rows, url: str) -> ParsedFeed:
    about = _About(rows)
    ttl_minutes = number_of(about.texts.get("ttl") or None)
    link = absolute_link(url, about.link)
    fields = FeedChannel(
        title=about.texts.get("title") or None,
        link=link,
        description=about.texts.get("subtitle") or None,
        language=about.texts.get("language") or None,
        ttl_minutes=ttl_minutes,
    ).fields()
    window = window_of([FastItem(item).entry(url) for item in rows.items], fields)
    return ParsedFeed(
        items=window.items,
        version=rows.version,
        title=capped(about.texts.get("title") or None),
        link=capped(link),
        ttl_minutes=ttl_minutes,
        period_s=period_s(ttl_minutes, about.texts.get("sy_updateperiod"), about.texts.get("sy_updatefrequency")),
        truncated=window.truncated,
        duplicates=window.duplicates,
        hubs=web_links(url, about.hrefs("hub")),
        self_url=self_link(url, about.hrefs("self")),
    )


class _About(Links):
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
        self.texts["title"] = content_text(attributes, text)

    def add_description(self, attributes: Attributes, text: str, _: int) -> None:
        """Set the description; after a summary it would be content."""
        if "summary" in self.texts:
            raise DeclinedError
        self.texts["subtitle"] = content_text(attributes, text)

    def add_subtitle(self, attributes: Attributes, text: str, _: int) -> None:
        """Set the subtitle: the last one wins."""
        self.texts["subtitle"] = content_text(attributes, text)

    def add_summary(self, attributes: Attributes, text: str, _: int) -> None:
        """Note a summary, which is not kept."""
        if "summary" in self.texts:
            raise DeclinedError
        self.texts["summary"] = content_text(attributes, text)

    def add_language(self, _attributes: Attributes, text: str, _: int) -> None:
        """Set the language, which takes precedence over the root element's."""
        self.texts["language"] = plain_text(text)


def _keep(key: str) -> Callable[[_About, Attributes, str, int], None]:
    """Return what keeps the text of a feed's element under a key."""

    def add(about: _About, attributes: Attributes, text: str, _: int) -> None:
        about.texts[key] = bare_text(attributes, text)

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
    "date": check_date,
}
