"""The common form of every kind of feed: one set of ``channel.`` paths. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape
from itertools import islice
from typing import TypeAlias

from proxyd.core.model.field_values import normal_link, normal_markup, normal_text, plain_text
from proxyd.core.model.item import LONGEST_FIELD, Item, Value
from proxyd.probing.documents.document_texts import MOST_ITEMS, cap, digest, safe_link, short_identity

_MOST_HUBS = 10
_NAMED_DUPLICATES = 3
_PERIODS_S = {
    "hourly": 3600.0,
    "daily": 86400.0,
    "weekly": 7 * 86400.0,
    "monthly": 30 * 86400.0,
    "yearly": 365 * 86400.0,
}
_WEB = ("http://", "https://")
_NUMBER = re.compile(r"\d{1,9}")
_PLACEHOLDERS = frozenset({"null", "none", "nil", "undefined", "n/a", "nan", "false", "-", "0", "[object object]"})
_MOST_HASHES = 20_000  # of contents that were read before; most of a feed is the same from probe to probe
_content_hashes: dict[str, str] = {}
_VOID = frozenset({"br", "wbr", "hr", "img"})
_TAG = re.compile(
    r"<(/?)(a|abbr|b|bdi|big|br|cite|code|del|em|font|hr|i|img|ins|mark|p|q|s|small|span|strike|strong|sub|sup|tt|u|wbr"
    r"|div|h[1-6])(?:\s[^<>]{0,2000})?/?>",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Duplicates:
    """Items that were dropped: their number, and the first few identities that they share with others."""

    count: int = 0
    identities: tuple[str, ...] = ()


_NO_DUPLICATES = _Duplicates()


@dataclass(frozen=True, slots=True)
class ItemWindow:
    """The items of a document in page order; ``truncated`` says that it had more than are kept."""

    items: tuple[Item, ...]
    truncated: bool
    duplicates: _Duplicates


@dataclass(frozen=True, slots=True)
class ParsedFeed:
    """A feed and its window of items, in page order."""

    items: tuple[Item, ...]
    version: str  # the name of the format, for example `rss20`, `atom10`, `json11` or `sitemap`
    title: str | None = None
    link: str | None = None
    ttl_minutes: float | None = None
    # The update period it declares: its ttl or its syndication module's period; `None` if it declares none
    period_s: float | None = None
    # What is wrong with the document although it could be read, or `""`; the window may then be incomplete
    trouble: str = ""
    truncated: bool = False  # whether the document had more items than are kept
    duplicates: _Duplicates = _NO_DUPLICATES  # the items that were dropped because an earlier one has their identity
    hubs: tuple[str, ...] = ()  # URLs of the WebSub hubs that it names
    self_url: str | None = None  # the URL that it gives as its own, or `None`


@dataclass(frozen=True, slots=True)
class FeedChannel:
    """A feed's data about itself; ``is_plain`` says that its title is no HTML."""

    title: str | None = None
    link: str | None = None
    description: str | None = None
    language: str | None = None
    ttl_minutes: float | None = None
    is_plain: bool = False

    def fields(self) -> dict[str, Value]:
        """Return the fields that every item carries."""
        return {
            "channel.title": _text_to_store(self.title if self.is_plain else _shown(self.title)),
            "channel.link": cap(self.link),
            "channel.description": _text_to_store(self.description),
            "channel.language": cap(self.language),
            "channel.ttl": self.ttl_minutes,
        }


@dataclass(frozen=True, slots=True)
class Identity:
    """An item's identity, and others under which it may be stored."""

    item_id: str
    former_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FeedEntry:
    """One item as in its document, before it is bounded and hashed."""

    identity: Identity
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
    other_title: str | None = None  # of another vocabulary (`itunes:title`), used if the item has no title
    is_plain: bool = False  # the title is no HTML
    # Description, content and link as an earlier version read them, if that was otherwise
    former_texts: tuple[str | None, str | None, str | None] | None = None

    def item(self, channel_fields: Mapping[str, Value]) -> Item:
        """Return the item; without a publication time, that of the last change is used."""
        published_s = self.item_s
        title = self.title or self.other_title
        fields: dict[str, Value] = {
            **channel_fields,
            "channel.item.title": _text_to_store(title if self.is_plain else _shown(title)),
            "channel.item.description": _text_to_store(self.description),
            "channel.item.content": _text_to_store(self.content),
            "channel.item.link": cap(self.link),
            "channel.item.guid": cap(self.guid),
            "channel.item.author": _text_to_store(self.author),
            "channel.item.category": _text_to_store(self.category),
            "channel.item.enclosure": cap(self.enclosure),
            "channel.item.pubdate": published_s,
            "channel.item.updated": self.updated_s,
        }
        content = self._content(title)
        return Item(
            item_id=self.identity.item_id,
            fields=fields,
            published_s=published_s,
            content_hash=_content_hash(content),
            former_ids=self.identity.former_ids,
            former_hashes=tuple(map(digest, self._former_contents(content))),
        )

    @property
    def text(self) -> str | None:
        """The description, or the content if there is none."""
        return self.description or self.content

    @property
    def item_s(self) -> float | None:
        """The time of publication, or of the last change if there is none; unix seconds."""
        return self.updated_s if self.published_s is None else self.published_s

    @property
    def distinction(self) -> tuple[str | float | None, ...]:
        """What tells it from other items of its guid; texts of one item may differ a little."""
        link = None if self.link is None else normal_link(self.link)
        return (link, self.title, self.item_s, self.enclosure, self.text if self.item_s is None else None)

    def _former_contents(self, content: list[str | None]) -> Iterator[list[str | None]]:
        """Yield the content as earlier versions read it."""
        yield content
        if self.title != content[0]:
            yield self._content(self.title)
        if self.former_texts is not None:
            yield self._content(self.title, *self.former_texts)

    def _content(self, title: str | None, *others: str | None) -> list[str | None]:
        texts = others or (self.description, self.content, self.link)
        content = [title, *texts, self.enclosure]
        return content if self.revision is None else [*content, self.revision]


def _content_hash(content: Sequence[str | None]) -> str:
    """Return a digest of the normal form of a content."""
    # The form takes a hundred times as long as a digest, so it is made only if the content was not seen lately
    written = digest(content)
    known = _content_hashes.get(written)
    if known is None:
        if len(_content_hashes) >= _MOST_HASHES:
            _content_hashes.clear()
        known = _content_hashes[written] = digest(_normal_content(content))
    return known


def _normal_content(content: Sequence[str | None]) -> list[str | None]:
    """Return a content in the form in which it is compared: texts by what they show, and addresses where they lead."""
    title = None if content[0] is None else normal_text(_shown(content[0]) or "")
    texts = [None if text is None else normal_markup(text) for text in content[1:3]]
    return [title, *texts, *(None if link is None else normal_link(link) for link in content[3:5]), *content[5:]]


def _text_to_store(text: str | None) -> str | None:
    """Return a text as it is stored."""
    return None if text is None else cap(plain_text(text))


def _shown(title: str | None) -> str | None:
    """Return a title as people read it: a title that is HTML, or was escaped twice, still holds tags and entities.

    >>> _shown("News &bull; Q&amp;A"), _shown("R&D; C&A")
    ('News • Q&A', 'R&D; C&A')
    >>> _shown("<i>Homo sapiens</i> &amp; <br>x"), _shown("How to use <b>, List<i> and a < b"), _shown("&lt;i>x&lt;/i>")
    ('Homo sapiens & x', 'How to use <b>, List<i> and a < b', '<i>x</i>')
    """
    if title is None:
        return None
    text = _without_tags(title).strip() if "<" in title else title
    return (unescape(text) if "&" in text else text) or None


def _without_tags(title: str) -> str:
    """Return a title without the tags of its markup: those without an end, or a beginning, are what it is about."""
    counts = Counter((tag[1], tag[2].lower()) for tag in _TAG.finditer(title))
    paired = {name for _, name in counts if name in _VOID or counts["", name] == counts["/", name]}
    return _TAG.sub(lambda tag: "" if tag[2].lower() in paired else tag[0], title)


def window_of(entries: Iterable[FeedEntry], channel: Mapping[str, Value], most: int = MOST_ITEMS) -> ItemWindow:
    """Return the first ``most`` items in page order; of those with the same identity, the first."""
    seen: set[str] = set()
    items: list[Item] = []
    count = 0
    shared: dict[str, None] = {}
    for entry in _with_own_identities(list(entries)):
        name = entry.identity.item_id
        if name in seen:
            count += 1
            if len(shared) < _NAMED_DUPLICATES:
                shared[name] = None
        elif len(items) == most:
            return ItemWindow(tuple(items), True, _Duplicates(count, tuple(shared)))
        else:
            seen.add(name)
            items.append(entry.item(channel))
    return ItemWindow(tuple(items), False, _Duplicates(count, tuple(shared)))


def _with_own_identities(entries: Sequence[FeedEntry]) -> Iterator[FeedEntry]:
    """Return the entries, each with an identity of its own."""
    # A guid or a link that several items of a document share ("null", the address of the blog) identifies none of them.
    # Their own link tells them apart, or else what they say. Entries that say the same keep the shared identity.
    counts = Counter(entry.identity.item_id for entry in entries)
    distinctions: dict[str, set[object]] = {name: set() for name, count in counts.items() if count > 1}
    for entry in entries if distinctions else ():
        if entry.identity.item_id in distinctions:
            distinctions[entry.identity.item_id].add(entry.distinction)
    shared = {name for name, different in distinctions.items() if len(different) > 1}
    taken = counts + Counter(entry.link for entry in entries if entry.link) if shared else counts
    return (
        replace(entry, identity=_own_identity(entry, taken)) if entry.identity.item_id in shared else entry
        for entry in entries
    )


def _own_identity(entry: FeedEntry, taken: Mapping[str, int]) -> Identity:
    shared = entry.identity.item_id
    former_ids = (shared, *entry.identity.former_ids)
    if entry.link and taken[entry.link] == 1:
        return Identity(short_identity(entry.link), former_ids)
    time = None if entry.item_s is None else repr(entry.item_s)
    return Identity("hash:" + digest([entry.title, entry.text, time, entry.enclosure, entry.link]), former_ids)


def identity_of(
    guid: str | None,
    link: str | None,
    texts: tuple[str | None, str | None],
    time_s: float | None,
    enclosure: str | None,
) -> Identity:
    """Return the guid, else the link as written, else a hash of the item's content; a long identity is hashed.

    ``texts`` are title and text, ``time_s`` is in unix seconds. Items without guid and link often differ only in their
    time or enclosure; earlier versions took such items for one. A guid that only stands for a missing one is none.
    """
    if guid and guid.lower() in _PLACEHOLDERS:
        other = identity_of(None, link, texts, time_s, enclosure)
        return replace(other, former_ids=(*other.former_ids, guid))
    if guid or link:
        return Identity(short_identity(guid or link or ""))
    former = "hash:" + digest(texts)
    if time_s is None and enclosure is None:
        return Identity(former)
    return Identity("hash:" + digest([*texts, None if time_s is None else repr(time_s), enclosure]), (former,))


def number_of(text: str | None) -> float | None:
    """Return a whole number of up to nine digits."""
    return float(text) if text is not None and _NUMBER.fullmatch(text) else None


def period_s(ttl_minutes: float | None, period: str | None, frequency: str | None) -> float | None:
    """Return ``ttl``, else ``sy:updatePeriod`` over ``sy:updateFrequency``, in seconds."""
    if ttl_minutes is not None:
        return ttl_minutes * 60.0
    said_s = _PERIODS_S.get((period or "").lower())
    return None if said_s is None else said_s / (number_of(frequency) or 1.0)


_Texts: TypeAlias = tuple[str | None, str | None]
"""The description and the content of an item."""


def own_texts(read: _Texts, own: _Texts, foreign: str | None) -> _Texts:
    """Return an item's own texts: a description of another vocabulary (iTunes, media) is content if there is no other.

    ``read`` are the texts as an earlier version read them: whichever element came last was the description.
    """
    description, content = own
    if description is None:
        return (foreign, content) if foreign else read
    return description, content or foreign


def former_texts(
    read: _Texts, texts: _Texts, link: str | None, permalink: str | None
) -> tuple[str | None, str | None, str | None] | None:
    """Return description, content and link as an earlier version read them, or ``None`` if they are the same."""
    return None if read == texts and permalink is None else (*read, link)


def web_permalink(url: str, guid: str | None) -> str | None:
    """Return a guid that is a permalink as the link of an item, or ``None`` if it is not an address."""
    return safe_link(url, guid) if guid is not None and guid.lower().startswith(_WEB) else None


def web_links(url: str, hrefs: Iterable[str | None]) -> tuple[str, ...]:
    """Return the first few distinct http and https links, absolute."""
    links = (safe_link(url, href) for href in hrefs if href)
    found = (link for link in links if link and len(link) <= LONGEST_FIELD and link.lower().startswith(_WEB))
    return tuple(islice(dict.fromkeys(found), _MOST_HUBS))


def self_link(url: str, hrefs: Iterable[str | None]) -> str | None:
    """Return the first http or https link, absolute."""
    return next(iter(web_links(url, hrefs)), None)
