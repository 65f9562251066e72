"""JSON Feed 1.0 and 1.1, parsed into the common form of feeds. Pure.

The reader is as lenient as the specification asks: a value of the wrong type counts as missing, and ids may be numbers.
An item without an id is told apart by its address or its content, as in other feeds.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator

from proxyd.probing.documents.document_texts import Json, cap, clean, load_json, safe_link
from proxyd.probing.documents.feed_dates import time_s
from proxyd.probing.documents.probe_failures import NotAFeedError, UnreadableDocumentError
from proxyd.probing.feeds.feed_items import (
    FeedChannel,
    FeedEntry,
    ItemWindow,
    ParsedFeed,
    identity_of,
    self_link,
    web_links,
    window_of,
)

_VERSION = re.compile(r"(?:https?://)?(?:www\.)?jsonfeed\.org/version/(\d)(?:\.(\d))?/?", re.IGNORECASE)
_TEXTS = ("url", "external_url", "title", "summary", "content_html", "content_text")
_Listed = TypeVar("_Listed")


def _text(value: object) -> str | None:
    return (clean(value).strip() or None) if isinstance(value, str) else None


def _id(value: object) -> str | None:
    """Return an id of any type as text."""
    if value is None or isinstance(value, str):
        return _text(value)
    return clean(json.dumps(value, ensure_ascii=False, sort_keys=True))


def _objects(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _texts(value: object) -> list[str]:
    return [text for text in map(_text, value) if text] if isinstance(value, list) else []


_Text: TypeAlias = Annotated[str | None, BeforeValidator(_text)]
_Objects: TypeAlias = Annotated[list[_Listed], BeforeValidator(_objects)]


class _Author(BaseModel):
    name: _Text = None
    url: _Text = None


class _Attachment(BaseModel):
    url: _Text = None


class _Hub(BaseModel):
    type: _Text = None
    url: _Text = None


def _author(value: object) -> object:
    return value if isinstance(value, dict) else None


class _Written(BaseModel):
    """The authors of feeds and items: ``authors`` in 1.1 and ``author`` in 1.0."""

    authors: _Objects[_Author] = []
    author: Annotated[_Author | None, BeforeValidator(_author)] = None

    def names(self) -> str | None:
        """Return the authors' names, or their addresses if they have no names."""
        authors = self.authors or ([self.author] if self.author else [])
        return ",".join(name for name in (each.name or each.url for each in authors) if name) or None


class _JsonItem(_Written):
    id: Annotated[str | None, BeforeValidator(_id)] = None
    url: _Text = None
    external_url: _Text = None
    title: _Text = None
    summary: _Text = None
    content_html: _Text = None
    content_text: _Text = None
    date_published: _Text = None
    date_modified: _Text = None
    tags: Annotated[list[str], BeforeValidator(_texts)] = []
    attachments: _Objects[_Attachment] = []


class _Feed(_Written):
    title: _Text = None
    home_page_url: _Text = None
    description: _Text = None
    language: _Text = None
    feed_url: _Text = None
    hubs: _Objects[_Hub] = []
    expired: Annotated[bool, BeforeValidator(lambda value: value is True)] = False


def parse_json_feed(body: bytes, content_type: str | None = None, url: str = "") -> ParsedFeed:
    """Return the JSON Feed in ``body``, recognised by its version, regardless of the media type.

    Raises ``NotAFeedError``: the document is JSON of another kind, or not valid JSON.
    """
    try:
        document = load_json(body, content_type)
    except UnreadableDocumentError as error:
        raise NotAFeedError(error.message) from error
    found = _VERSION.fullmatch(_text(document.get("version")) or "") if isinstance(document, dict) else None
    if found is None or not isinstance(document, dict):
        raise NotAFeedError("this is a JSON document, not a feed: its version is not one of jsonfeed.org")
    feed = _Feed.model_validate(document)
    window = _window(_objects(document.get("items")), feed, url)
    return ParsedFeed(
        items=window.items,
        version="json1" + (found.group(2) or "").replace("0", "") if found.group(1) == "1" else "json",
        title=cap(feed.title),
        link=cap(_link(url, feed.home_page_url)),
        trouble=_trouble(feed, document),
        truncated=window.truncated,
        duplicates=window.duplicates,
        hubs=web_links(url, (hub.url for hub in feed.hubs if (hub.type or "").lower() == "websub")),
        self_url=self_link(url, [feed.feed_url]),
    )


def _trouble(feed: _Feed, document: dict[str, Json]) -> str:
    """Return the problems that users of the feed should know."""
    if feed.expired:
        return "the feed has expired: its publisher says that there will be no more items"
    listed = document.get("items")
    if not isinstance(listed, list):
        return "the feed has no list of items"
    empty = sum(1 for entry in listed if not isinstance(entry, dict) or _is_empty(entry))
    return f"items without content, left out: {empty}" if empty else ""


def _is_empty(entry: dict[str, Any]) -> bool:
    has_text = any(_text(entry.get(member)) for member in _TEXTS)
    return _id(entry.get("id")) is None and not has_text and not _objects(entry.get("attachments"))


def _window(entries: list[dict[str, Any]], feed: _Feed, url: str) -> ItemWindow:
    channel = FeedChannel(
        title=feed.title,
        link=_link(url, feed.home_page_url),
        description=feed.description,
        language=feed.language,
        is_plain=True,
    ).fields()
    items = (_JsonItem.model_validate(entry) for entry in entries if not _is_empty(entry))
    return window_of((_entry(item, feed, url) for item in items), channel)


def _entry(item: _JsonItem, feed: _Feed, url: str) -> FeedEntry:
    link = _link(url, item.url or item.external_url)
    enclosure = next(filter(None, (_link(url, each.url) for each in item.attachments)), None)
    published_s, content = time_s(item.date_published), item.content_html or item.content_text
    return FeedEntry(
        identity=identity_of(item.id, link, (item.title, content or item.summary), published_s, enclosure),
        title=item.title,
        description=item.summary,
        content=content,
        link=link,
        guid=item.id,
        author=item.names() or feed.names(),
        category=",".join(item.tags) or None,
        enclosure=enclosure,
        published_s=published_s,
        updated_s=time_s(item.date_modified),
        is_plain=True,
    )


def _link(url: str, href: str | None) -> str | None:
    return None if href is None else safe_link(url, href)
