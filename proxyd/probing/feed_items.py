"""What every kind of feed becomes: one set of ``channel.`` paths. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from proxyd.model.item import Item, Value
from proxyd.probing.texts import capped, digest

_HASHED = ("title", "description", "content", "link", "enclosure")


@dataclass(frozen=True, slots=True)
class ParsedFeed:
    """A feed and its window of items, in page order.

    Parameters
    ----------
    version
        What the format is called, for example ``rss20``, ``atom10``, ``json11`` or ``sitemap``.
    period_s
        How often it says that it changes: its ttl or its syndication module's period; ``None`` where it says nothing.
    trouble
        What is wrong with the document although it could be read, or ``""``: the window may then be cut short.
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


@dataclass(frozen=True, slots=True)
class Channel:
    """What a feed says about itself."""

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
class Entry:
    """One item as its document gives it, before it is bounded and hashed; ``identity`` is already short."""

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
    revision: str | None = None  # what else than its texts changes with the content

    def item(self, channel_fields: Mapping[str, Value]) -> Item:
        """Return the item; one without a time of publication was published when it was last changed."""
        published_s = self.updated_s if self.published_s is None else self.published_s
        fields: dict[str, Value] = dict(channel_fields)
        fields.update((f"channel.item.{name}", capped(getattr(self, name))) for name in _TEXTS)
        fields["channel.item.pubdate"] = published_s
        fields["channel.item.updated"] = self.updated_s
        hashed = [getattr(self, name) for name in _HASHED]
        return Item(
            item_id=self.identity,
            fields=fields,
            published_s=published_s,
            content_hash=digest(hashed if self.revision is None else [*hashed, self.revision]),
        )


_TEXTS = ("title", "description", "content", "link", "guid", "author", "category", "enclosure")


def distinct(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items in page order; of those with one identity the first."""
    seen: set[str] = set()
    for item in items:
        if item.item_id not in seen:
            seen.add(item.item_id)
            yield item
