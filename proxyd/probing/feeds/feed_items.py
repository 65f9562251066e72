"""The common form of every kind of feed: one set of ``channel.`` paths. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from proxyd.core.model.item import Item, Value
from proxyd.probing.document_texts import LONGEST_FIELD, capped, digest, safe_link, short_identity

MOST_HUBS = 10
_PERIODS_S = {
    "hourly": 3600.0,
    "daily": 86400.0,
    "weekly": 7 * 86400.0,
    "monthly": 30 * 86400.0,
    "yearly": 365 * 86400.0,
}
_WEB = ("http://", "https://")
_NUMBER = re.compile(r"\d{1,9}")


@dataclass(frozen=True, slots=True)
class ParsedFeed:
    """A feed and its window of items, in page order.

    Parameters
    ----------
    version
        The name of the format, for example ``rss20``, ``atom10``, ``json11`` or ``sitemap``.
    period_s
        The update period it declares: its ttl or its syndication module's period; ``None`` if it declares none.
    trouble
        What is wrong with the document although it could be read, or ``""``; the window may then be incomplete.
    truncated
        Whether the document had more items than are kept.
    hubs
        URLs of the WebSub hubs that it names.
    self_url
        The URL that it gives as its own, or ``None``.
    """

    items: tuple[Item, ...]
    version: str
    title: str | None = None
    link: str | None = None
    ttl_minutes: float | None = None
    period_s: float | None = None
    trouble: str = ""
    truncated: bool = False
    hubs: tuple[str, ...] = ()
    self_url: str | None = None


@dataclass(frozen=True, slots=True)
class FeedChannel:
    """A feed's data about itself."""

    title: str | None = None
    link: str | None = None
    description: str | None = None
    language: str | None = None
    ttl_minutes: float | None = None

    def fields(self) -> dict[str, Value]:
        """Return the fields that every item carries."""
        return {
            "channel.title": capped(self.title),
            "channel.link": capped(self.link),
            "channel.description": capped(self.description),
            "channel.language": capped(self.language),
            "channel.ttl": self.ttl_minutes,
        }


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One item as in its document, before it is bounded and hashed; ``identity`` is already short."""

    identity: str
    title: str | None = None
    description: str | None = None
    content: str | None = None
    link: str | None = None
    guid: str | None = None
    author: str | None = None
    category: str | None = None
    enclosure: str | None = None
    published_s: float | None = None
    updated_s: float | None = None
    revision: str | None = None  # other content that changes with a revision

    def item(self, channel_fields: Mapping[str, Value]) -> Item:
        """Return the item; without a publication time, that of the last change is used."""
        published_s = self.updated_s if self.published_s is None else self.published_s
        fields: dict[str, Value] = {
            **channel_fields,
            "channel.item.title": capped(self.title),
            "channel.item.description": capped(self.description),
            "channel.item.content": capped(self.content),
            "channel.item.link": capped(self.link),
            "channel.item.guid": capped(self.guid),
            "channel.item.author": capped(self.author),
            "channel.item.category": capped(self.category),
            "channel.item.enclosure": capped(self.enclosure),
            "channel.item.pubdate": published_s,
            "channel.item.updated": self.updated_s,
        }
        hashed = [self.title, self.description, self.content, self.link, self.enclosure]
        return Item(
            item_id=self.identity,
            fields=fields,
            published_s=published_s,
            content_hash=digest(hashed if self.revision is None else [*hashed, self.revision]),
        )


def distinct(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items in page order; of those with the same identity, the first."""
    seen: set[str] = set()
    for item in items:
        if item.item_id not in seen:
            seen.add(item.item_id)
            yield item


def identity_of(guid: str | None, link: str | None, title: str | None, text: str | None) -> str:
    """Return the guid, else the link as written, else a hash; a long identity is hashed."""
    identity = guid or link
    return "hash:" + digest([title, text]) if identity is None else short_identity(identity)


def number_of(text: str | None) -> float | None:
    """Return a whole number of up to nine digits."""
    return float(text) if text is not None and _NUMBER.fullmatch(text) else None


def period_s(ttl_minutes: float | None, period: str | None, frequency: str | None) -> float | None:
    """Return ``ttl``, else ``sy:updatePeriod`` over ``sy:updateFrequency``, in seconds."""
    if ttl_minutes is not None:
        return ttl_minutes * 60.0
    said_s = _PERIODS_S.get((period or "").lower())
    return None if said_s is None else said_s / (number_of(frequency) or 1.0)


def web_links(url: str, hrefs: Iterable[str | None]) -> tuple[str, ...]:
    """Return the first few distinct http and https links, absolute."""
    links = (safe_link(url, href) for href in hrefs if href)
    found = (link for link in links if link and len(link) <= LONGEST_FIELD and link.lower().startswith(_WEB))
    return tuple(islice(dict.fromkeys(found), MOST_HUBS))


def self_link(url: str, hrefs: Iterable[str | None]) -> str | None:
    """Return the first http or https link, absolute."""
    return next(iter(web_links(url, hrefs)), None)
