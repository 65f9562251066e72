"""Recognises items whose identity changed: after an upgrade, or because their feed changes its guids. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from math import inf

from proxyd.core.model.item import Item, Value

_ANSWER_S = 60.0  # times that differ by less may be those of one answer
_LINK, _GUID = "channel.item.link", "channel.item.guid"
_TEXTS = ("channel.item.title", "channel.item.description", "channel.item.content")
_ENCLOSURE = "channel.item.enclosure"
_CONTENT = (*_TEXTS, _LINK, _ENCLOSURE)
_MOST_ESCAPES = 3
_MOST_CHARACTERS = 300_000  # of the texts of one probe that are compared word by word
_SPELLING = re.compile(r"[/\"']+")
_SEPARATORS = re.compile(r"[\s<>]+")


@dataclass(frozen=True, slots=True)
class Recognised:
    """A window of items under the identities by which they are stored.

    Parameters
    ----------
    items
        The items; one whose guid changed has the identity under which it is stored.
    known
        The stored items, by the identities of ``items``.
    renamed
        The former and the new identity of stored items that go on under the new one.
    quiet
        Ids of known items whose guid changed, or whose text an earlier version read in another way: no updates.
    former_duplicates
        Ids of items that an earlier version dropped as duplicates of the stored one: they are not new.
    changed_guids
        The number of items whose guid changed.
    """

    items: tuple[Item, ...]
    known: Mapping[str, Item]
    renamed: tuple[tuple[str, str], ...] = ()
    quiet: frozenset[str] = field(default_factory=frozenset)
    former_duplicates: frozenset[str] = field(default_factory=frozenset)
    changed_guids: int = 0


def recognised(
    items: Sequence[Item], known: Mapping[str, Item], shown: Sequence[Item] = (), *, seen_s: float = 0.0
) -> Recognised:
    """Return a feed's window of items under the identities by which they are stored.

    ``known`` holds the stored items, by their own or a former identity; ``shown`` those that the feed showed last.
    ``seen_s`` is the time of the answer, in unix seconds.
    """
    found = _with_former_names(tuple(items), known)
    unknown = [
        item for item in items if item.item_id not in found.known and item.item_id not in found.former_duplicates
    ]
    if not (unknown and shown):
        return found
    stored = {item.item_id: before for item, before in _reappeared(unknown, items, shown, seen_s)}
    if not stored:
        return found
    return replace(
        found,
        items=tuple(
            replace(item, item_id=stored[item.item_id].item_id) if item.item_id in stored else item for item in items
        ),
        known={**found.known, **{before.item_id: before for before in stored.values()}},
        quiet=found.quiet | {before.item_id for before in stored.values()},
        changed_guids=len(stored),
    )


def _with_former_names(items: tuple[Item, ...], known: Mapping[str, Item]) -> Recognised:
    """Return the items with those recognised that are stored under a former identity, or as read in another way."""
    own = {item.item_id for item in items}
    by_id = dict(known)
    sharing: dict[str, list[Item]] = {}
    quiet = set()
    left = _MOST_CHARACTERS
    for item in items:
        before = known.get(item.item_id)
        former = None if before is not None else next((n for n in item.former_ids if n in known and n not in own), None)
        if before is not None and before.content_hash != item.content_hash:
            left -= _characters(before, item)
            if _is_former_reading(before, item, may_compare=left >= 0):
                quiet.add(item.item_id)
        elif former is not None:
            sharing.setdefault(former, []).append(item)
    renamed, former_duplicates = [], set()
    for former, several in sharing.items():
        stored = known[former]
        candidates = [item for item in several if not _is_later(item, stored.published_s)]
        if candidates:
            same = _same(candidates, stored)
            renamed.append((former, same.item_id))
            by_id[same.item_id] = stored
            former_duplicates |= {
                item.item_id for item in candidates if not (item is same or _is_later(item, same.published_s))
            }
    quiet.update(new for _, new in renamed)
    return Recognised(items, by_id, tuple(renamed), frozenset(quiet), frozenset(former_duplicates))


def _characters(*items: Item) -> int:
    """Return how many characters ``_is_former_reading`` would compare."""
    if not items[-1].is_mended:
        return 0
    return sum(len(str(item.fields.get(path) or "")) for item in items for path in _CONTENT)


def _is_former_reading(stored: Item, item: Item, *, may_compare: bool) -> bool:
    """Return whether an earlier version read the same content in another way."""
    if stored.content_hash == item.former_hash:
        return True
    is_comparable = item.is_mended and may_compare and bool(stored.fields)
    return is_comparable and all(_words(stored, path) == _words(item, path) for path in _CONTENT)


def _words(item: Item, path: str) -> list[str]:
    """Return the words of a text and its tags, however often it was escaped, and however its tags are spelt."""
    text = str(item.fields.get(path) or "")
    for _ in range(_MOST_ESCAPES):
        text = unescape(text)
    words = _SEPARATORS.split(_SPELLING.sub("", text))
    return sorted(word for word in words if word and not word.startswith("xmlns"))


def _same(items: Sequence[Item], stored: Item) -> Item:
    """Return which of the items that share a former identity is the stored one: of its time, else the oldest."""
    of_its_time = (item for item in items if item.published_s == stored.published_s)
    oldest = min(items, key=lambda item: inf if item.published_s is None else item.published_s)
    return next(of_its_time, oldest)


def _is_later(item: Item, time_s: float | None) -> bool:
    return item.published_s is not None and time_s is not None and item.published_s > time_s


def _reappeared(
    unknown: Sequence[Item], items: Sequence[Item], shown: Sequence[Item], seen_s: float
) -> list[tuple[Item, Item]]:
    """Return the unknown items with the content of one that vanished, each with that one.

    Content that occurs twice is not compared. The time must be the same too, unless times say nothing.
    """
    counts = Counter(map(_content_of, items))
    shown_contents = {item.item_id: _content_of(item) for item in shown}
    shown_counts = Counter(shown_contents.values())
    present = {name for item in items for name in (item.item_id, *item.former_ids)}
    vanished = ((shown_contents[item.item_id], item) for item in shown if item.item_id not in present)
    by_content = {content: item for content, item in vanished if shown_counts[content] == 1}
    pairs = [
        (item, by_content[content])
        for item, content in zip(unknown, map(_content_of, unknown), strict=True)
        if content in by_content and counts[content] == 1 and any(content)
    ]
    is_whole = len(pairs) == len(items) == len(shown)
    if 2 * len(pairs) >= len(unknown) and _are_of_one_answer([item for item, _ in pairs], seen_s, is_whole=is_whole):
        return pairs
    return [
        (item, before)
        for item, before in pairs
        if item.published_s is not None and item.published_s == before.published_s
    ]


def _content_of(item: Item) -> tuple[Value, ...]:
    """Return an item's texts, enclosure and link, without a link that ends with the guid."""
    return (*(item.fields.get(path) for path in (*_TEXTS, _ENCLOSURE)), _own_link(item))


def _own_link(item: Item) -> str | None:
    """Return an item's link, or ``None`` if it has none or one that ends with the guid."""
    link, guid = item.fields.get(_LINK), item.fields.get(_GUID)
    return None if not isinstance(link, str) or (isinstance(guid, str) and link.endswith(guid)) else link


def _are_of_one_answer(items: Sequence[Item], seen_s: float, *, is_whole: bool) -> bool:
    """Return whether items differ from those before only in guids or times that their feed makes for each answer.

    Their times must be missing or about equal. Two or more items must be the whole feed, or each have a link of its
    own, or have neither guid nor link. A single item must have neither guid nor link, and the present time.
    """
    times = [item.published_s for item in items if item.published_s is not None]
    if times and max(times) - min(times) > _ANSWER_S:
        return False
    links = {_own_link(item) for item in items} - {None}
    is_nameless = len(times) == len(items) and not any(
        item.fields.get(_GUID) or item.fields.get(_LINK) for item in items
    )
    if len(items) > 1:
        return is_whole or is_nameless or len(links) == len(items)
    return is_nameless and bool(times) and abs(times[0] - seen_s) <= _ANSWER_S
