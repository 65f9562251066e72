"""Parses a feed into items. Pure; run it in a process of its own, because documents can be hostile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from proxyd.core.model.item import Item
from proxyd.probing.documents.document_kinds import GZIP, feeds_of_page, is_empty, is_web_page
from proxyd.probing.documents.document_texts import cap, clean, looks_like_json, safe_link
from proxyd.probing.documents.feed_dates import time_s
from proxyd.probing.documents.probe_failures import EmptyDocumentError, NotAFeedError
from proxyd.probing.feeds.fast_feeds import parse_clean_feed
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
from proxyd.probing.feeds.json_feed import parse_json_feed
from proxyd.probing.feeds.sitemaps import is_sitemap, parse_sitemap
from proxyd.probing.feeds.strict_reader import strict_document
from proxyd.probing.feeds.xml_cleaning import clean_xml

_Entry: TypeAlias = Mapping[str, Any]


def parse_feed(body: bytes, content_type: str | None = None, url: str = "", language: str | None = None) -> ParsedFeed:
    """Return the feed in ``body``.

    Parameters
    ----------
    content_type, language
        The headers ``Content-Type`` and ``Content-Language`` as received.
    url
        The document's URL after redirects, to which the items' relative links refer.

    Raises
    ------
    EmptyDocumentError, UnsafeDocumentError, NotAFeedError
        The document is refused before it is parsed, or is not a feed.
    """
    fast = None if language else parse_clean_feed(body, content_type, url)
    return _parse(body, content_type, url, language, may_be_fast=not language) if fast is None else fast


def parse_any_feed(
    body: bytes, content_type: str | None = None, url: str = "", language: str | None = None
) -> ParsedFeed:
    """Return the same as ``parse_feed``, without the fast path."""
    return _parse(body, content_type, url, language, may_be_fast=False)


def _parse(body: bytes, content_type: str | None, url: str, language: str | None, *, may_be_fast: bool) -> ParsedFeed:
    if is_empty(body):
        raise EmptyDocumentError
    if looks_like_json(body):
        return parse_json_feed(body, content_type, url)
    if is_sitemap(body):
        return parse_sitemap(body, content_type, url)
    xml = clean_xml(body, content_type)
    feed = parse_clean_feed(xml.body, None, url) if may_be_fast else None
    if feed is None:
        document = strict_document(xml.body, language)
        if not document.get("version") and (not document["entries"] or is_web_page(body)):
            raise _not_a_feed(body, url)
        feed = _read_feed(document, url)
    items = tuple(map(_mend_item, feed.items)) if xml.is_mended else feed.items
    return replace(feed, items=items, trouble=xml.trouble)


def _mend_item(item: Item) -> Item:
    """Return an item of a document with defects, with the identity that it had when a loose parser read those."""
    former = item.item_id.replace("&", "&amp;")
    others = () if former == item.item_id else (former,)
    return replace(item, former_ids=(*item.former_ids, *others), is_mended=True)


def _not_a_feed(body: bytes, url: str) -> NotAFeedError:
    if body.startswith(GZIP):
        return NotAFeedError("this is gzip data that the server does not declare as such")
    if not is_web_page(body):
        return NotAFeedError()
    links = feeds_of_page(body, url)
    named = f"; it links to the feeds {', '.join(links)}" if links else ""
    return NotAFeedError(f"this is a web page{named}", links=links)


def _read_feed(document: _Entry, url: str) -> ParsedFeed:
    channel = document["feed"]
    channel_fields = _channel(channel, url).fields()
    window = window_of((_entry(entry, url) for entry in document["entries"]), channel_fields)
    ttl_minutes = number_of(_text(channel, "ttl"))
    return ParsedFeed(
        items=window.items,
        version=document["version"] or "unnamed",  # feedparser reads CDF without giving a version
        title=cap(_text(channel, "title")),
        link=cap(_link(channel, url)),
        ttl_minutes=ttl_minutes,
        period_s=period_s(ttl_minutes, _text(channel, "sy_updateperiod"), _text(channel, "sy_updatefrequency")),
        truncated=window.truncated,
        duplicates=window.duplicates,
        hubs=web_links(url, _hrefs(channel, "hub")),
        self_url=self_link(url, _hrefs(channel, "self")),
    )


def _hrefs(channel: _Entry, relation: str) -> Iterator[str | None]:
    return (_text(link, "href") for link in _dicts(channel, "links") if relation in str(link.get("rel")).split())


def _channel(channel: _Entry, url: str) -> FeedChannel:
    return FeedChannel(
        title=_text(channel, "title"),
        link=_link(channel, url),
        description=_text(channel, "subtitle"),
        language=_text(channel, "language"),
        ttl_minutes=number_of(_text(channel, "ttl")),
    )


def _entry(entry: _Entry, url: str) -> FeedEntry:
    published_s, updated_s = time_s(_text(entry, "published")), time_s(_text(entry, "updated"))
    title, summary, content = _text(entry, "title"), _text(entry, "summary"), _content(entry)
    enclosure, item_s = _enclosure(entry), updated_s if published_s is None else published_s
    identity = identity_of(_text(entry, "id"), _text(entry, "link"), (title, summary or content), item_s, enclosure)
    own, texts = dict.get(_as_dict(entry), "own"), (summary, content)
    if own is not None:
        texts = own_texts(texts, (_text(own, "summary"), _content(own)), _text(own, "foreign"))
    link = _link(entry, url)
    permalink = None if _text(entry, "link") else web_permalink(url, _text(entry, "permalink"))
    return FeedEntry(
        identity=identity,
        title=title,
        other_title=_text(entry, "itunes_title"),
        description=texts[0],
        content=texts[1],
        link=link or permalink,
        guid=_text(entry, "id"),
        author=_text(entry, "author"),
        category=_categories(entry),
        enclosure=None if enclosure is None else safe_link(url, enclosure),
        published_s=published_s,
        updated_s=updated_s,
        former_texts=former_texts((summary, content), texts, link, permalink),
    )


def _text(entry: _Entry, key: str) -> str | None:
    """Return a text without invalid characters, or ``None`` if nothing is left."""
    value = dict.get(_as_dict(entry), key)  # feedparser's own get() maps and warns
    return (clean(value).strip() or None) if isinstance(value, str) else None


def _as_dict(entry: _Entry) -> dict[str, Any]:
    return entry if isinstance(entry, dict) else dict(entry)


def _content(entry: _Entry) -> str | None:
    parts = [_text(part, "value") for part in _dicts(entry, "content")]
    return "\n".join(part for part in parts if part) or None


def _categories(entry: _Entry) -> str | None:
    terms = [_text(tag, "term") or _text(tag, "label") for tag in _dicts(entry, "tags")]
    return ",".join(term for term in terms if term) or None


def _enclosure(entry: _Entry) -> str | None:
    hrefs = (_text(link, "href") for link in _dicts(entry, "links") if link.get("rel") == "enclosure")
    return next((href for href in hrefs if href), None)


def _dicts(entry: _Entry, key: str) -> list[_Entry]:
    values = dict.get(_as_dict(entry), key)
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _link(entry: _Entry, url: str) -> str | None:
    href = _text(entry, "link")
    return None if href is None else safe_link(url, href)
