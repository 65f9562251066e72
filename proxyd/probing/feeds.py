"""From the bytes of a feed to its items. Pure; run it in a process of its own, documents can be hostile."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias
from xml.sax import SAXException

import feedparser

from proxyd.model.item import Item, Value
from proxyd.probing.dates import time_s
from proxyd.probing.documents import (
    absolute,
    declares_entities,
    is_empty,
    is_web_page,
    linked_feeds,
    xml_content_type,
)
from proxyd.probing.failures import EmptyDocumentError, NotAFeedError, UnsafeDocumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_ITEMS = 10_000
LONGEST_FIELD = 65_536
LONGEST_ID = 512

_Entry: TypeAlias = Mapping[str, Any]
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_UNSAFE_LINK = re.compile(r"\s*(?:javascript|vbscript|data|file):", re.IGNORECASE)
_PERIODS_S = {
    "hourly": 3600.0,
    "daily": 86400.0,
    "weekly": 7 * 86400.0,
    "monthly": 30 * 86400.0,
    "yearly": 365 * 86400.0,
}
_HASHED = ("title", "description", "content", "link", "enclosure")


@dataclass(frozen=True, slots=True)
class ParsedFeed:
    """A feed and its window of items, in page order.

    Parameters
    ----------
    version
        What feedparser calls the format, for example ``rss20`` or ``atom10``.
    period_s
        How often it says that it changes: its ttl or its syndication module's period; ``None`` where it says nothing.
    trouble
        Why the document is not well-formed, or ``""``: the window may then be cut short.
    truncated
        Whether the document had more items than are kept.
    """

    items: tuple[Item, ...]
    version: str
    title: str | None = None
    link: str | None = None
    ttl_minutes: float | None = None
    period_s: float | None = None
    trouble: str = ""
    truncated: bool = False


def parse_feed(body: bytes, content_type: str | None = None, url: str = "", language: str | None = None) -> ParsedFeed:
    """Return the feed in ``body``.

    Parameters
    ----------
    content_type, language
        The headers ``Content-Type`` and ``Content-Language`` as received.
    url
        Where the document came from in the end; relative links of items are made absolute with it.

    Raises
    ------
    EmptyDocumentError, UnsafeDocumentError, NotAFeedError
        The document is refused before it is parsed, or holds no feed.
    """
    if is_empty(body):
        raise EmptyDocumentError
    if declares_entities(body, content_type):
        raise UnsafeDocumentError
    document = _parse(body, content_type, language)
    if not document.get("version"):
        raise _not_a_feed(body, url)
    return _feed(document, url)


def _parse(body: bytes, content_type: str | None, language: str | None) -> _Entry:
    """Return feedparser's reading; never hand it text or bytes, it would open a file or an address of that name.

    It is not told the address of the document: it would make guids absolute, and identities change with a redirect.
    """
    headers = {"content-type": xml_content_type(body, content_type)}
    if language:
        headers["content-language"] = language
    parsed: _Entry = feedparser.parse(
        BytesIO(body), response_headers=headers, sanitize_html=False, resolve_relative_uris=False
    )
    return parsed


def _not_a_feed(body: bytes, url: str) -> NotAFeedError:
    if not is_web_page(body):
        return NotAFeedError()
    links = linked_feeds(body, url)
    named = f"; it links to the feeds {', '.join(links)}" if links else ""
    return NotAFeedError(f"this is a web page{named}", links=links)


def _feed(document: _Entry, url: str) -> ParsedFeed:
    channel = document["feed"]
    channel_fields = _channel_fields(channel, url)
    entries: Sequence[_Entry] = document["entries"]
    items = tuple(islice(_items(entries, channel_fields, url), MOST_ITEMS))
    return ParsedFeed(
        items=items,
        version=document["version"],
        title=_capped(_text(channel, "title")),
        link=_capped(_link(channel, url)),
        ttl_minutes=_number(_text(channel, "ttl")),
        period_s=_period_s(channel),
        trouble=_trouble(document),
        truncated=len(entries) > MOST_ITEMS,
    )


def _trouble(document: _Entry) -> str:
    """Return what broke the XML, or ``""``; a wrong media type or charset breaks nothing."""
    error = document.get("bozo_exception")
    return _clean(f"{type(error).__name__}: {error}")[:300] if isinstance(error, SAXException) else ""


def _period_s(channel: _Entry) -> float | None:
    """Return ``ttl``, else ``sy:updatePeriod`` over ``sy:updateFrequency``, in seconds."""
    ttl = _number(_text(channel, "ttl"))
    if ttl is not None:
        return ttl * 60.0
    period_s = _PERIODS_S.get((_text(channel, "sy_updateperiod") or "").lower())
    times = _number(_text(channel, "sy_updatefrequency"))
    return None if period_s is None else period_s / (times or 1.0)


def _channel_fields(channel: _Entry, url: str) -> dict[str, Value]:
    return {
        "channel.title": _capped(_text(channel, "title")),
        "channel.link": _capped(_link(channel, url)),
        "channel.description": _capped(_text(channel, "subtitle")),
        "channel.language": _capped(_text(channel, "language")),
        "channel.ttl": _number(_text(channel, "ttl")),
    }


def _items(entries: Sequence[_Entry], channel_fields: Mapping[str, Value], url: str) -> Iterator[Item]:
    """Yield the items in page order; of those with one identity the first."""
    seen: set[str] = set()
    for entry in entries:
        item = _item(entry, channel_fields, url)
        if item.item_id not in seen:
            seen.add(item.item_id)
            yield item


def _item(entry: _Entry, channel_fields: Mapping[str, Value], url: str) -> Item:
    texts = _texts(entry, url)
    updated_s = time_s(_text(entry, "updated"), dict.get(_as_dict(entry), "updated_parsed"))
    published_s = time_s(_text(entry, "published"), dict.get(_as_dict(entry), "published_parsed"))
    published_s = updated_s if published_s is None else published_s
    fields: dict[str, Value] = dict(channel_fields)
    fields.update((f"channel.item.{name}", _capped(text)) for name, text in texts.items())
    fields["channel.item.pubdate"] = published_s
    fields["channel.item.updated"] = updated_s
    return Item(
        item_id=_identity(entry, texts),
        fields=fields,
        published_s=published_s,
        content_hash=_hash([texts[name] for name in _HASHED]),
    )


def _texts(entry: _Entry, url: str) -> dict[str, str | None]:
    return {
        "title": _text(entry, "title"),
        "description": _text(entry, "summary"),
        "content": _content(entry),
        "link": _link(entry, url),
        "guid": _text(entry, "id"),
        "author": _text(entry, "author"),
        "category": _categories(entry),
        "enclosure": _enclosure(entry, url),
    }


def _identity(entry: _Entry, texts: Mapping[str, str | None]) -> str:
    """Return the guid, else the link as written, else a hash; long ones are hashed."""
    identity = texts["guid"] or _text(entry, "link")
    if identity is None:
        return "hash:" + _hash([texts["title"], texts["description"] or texts["content"]])
    return identity if len(identity) <= LONGEST_ID else "hash:" + _hash([identity])


def _hash(texts: Sequence[str | None]) -> str:
    """Return a sha256 that tells apart ``None``, ``""`` and every way of cutting the same characters."""
    digest = hashlib.sha256()
    for text in texts:
        data = b"" if text is None else text.encode()
        digest.update(b"%d:" % (-1 if text is None else len(data)))
        digest.update(data)
    return digest.hexdigest()


def _text(entry: _Entry, key: str) -> str | None:
    """Return a text without characters that are none, or ``None`` where nothing is left."""
    value = dict.get(_as_dict(entry), key)  # feedparser's own get() maps and warns
    return (_clean(value).strip() or None) if isinstance(value, str) else None


def _as_dict(entry: _Entry) -> dict[str, Any]:
    return entry if isinstance(entry, dict) else dict(entry)


def _clean(text: str) -> str:
    """Return the text without surrogates and control characters other than tab and newline."""
    return _NOT_TEXT.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def _capped(text: str | None) -> str | None:
    return None if text is None else text[:LONGEST_FIELD]


def _number(text: str | None) -> float | None:
    return float(text) if text is not None and re.fullmatch(r"\d{1,9}", text) else None


def _content(entry: _Entry) -> str | None:
    parts = [_text(part, "value") for part in _dicts(entry, "content")]
    return "\n".join(part for part in parts if part) or None


def _categories(entry: _Entry) -> str | None:
    terms = [_text(tag, "term") or _text(tag, "label") for tag in _dicts(entry, "tags")]
    return ",".join(term for term in terms if term) or None


def _enclosure(entry: _Entry, url: str) -> str | None:
    hrefs = (_text(link, "href") for link in _dicts(entry, "links") if link.get("rel") == "enclosure")
    return next((_absolute(url, href) for href in hrefs if href), None)


def _dicts(entry: _Entry, key: str) -> list[_Entry]:
    values = dict.get(_as_dict(entry), key)
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


def _link(entry: _Entry, url: str) -> str | None:
    href = _text(entry, "link")
    return None if href is None else _absolute(url, href)


def _absolute(url: str, href: str) -> str | None:
    """Return an absolute link, or ``None`` for one that must not be followed."""
    return None if _UNSAFE_LINK.match(href) else absolute(url, href)
