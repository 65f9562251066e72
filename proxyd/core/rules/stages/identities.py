"""Recognises items whose identity changed: after an upgrade, or because their feed changes its guids. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from math import inf

from proxyd.core.model.item import Item, Value

_ANSWER_S = 60.0
_LINK, _GUID = "channel.item.link", "channel.item.guid"
_TEXTS = ("channel.item.title", "channel.item.description", "channel.item.content")
_ENCLOSURE = "channel.item.enclosure"
_CONTENT = (*_TEXTS, _LINK, _ENCLOSURE)
_MOST_ESCAPES = 3
_MOST_CHARACTERS = 300_000  # that are compared for one probe without regard to how they are escaped
_SPELLING = re.compile(r"[/\"']+")
_BETWEEN = re.compile(r"[\s<>]+")


@dataclass(frozen=True, slots=True)
class Recognised:
    """A window of items under the identities by which they are stored.

    Parameters
    ----------
    items
        The items; one that has another guid than before is under the first.
    known
        The stored items, by the identities of ``items``.
    renamed
        The former and the new identity of stored items that go on under the new one.
    quiet
        Items of which the guid, or what an earlier version read, is another one: that is not an update.
    twins
        Items that an earlier version took for a later one, which it stored: they are not new.
    reguided
        The number of items whose guid changed.
    """

    items: tuple[Item, ...]
    known: Mapping[str, Item]
    renamed: tuple[tuple[str, str], ...] = ()
    quiet: frozenset[str] = field(default_factory=frozenset)
    twins: frozenset[str] = field(default_factory=frozenset)
    reguided: int = 0


def recognised(
    items: Sequence[Item], known: Mapping[str, Item], shown: Sequence[Item] = (), *, seen_s: float = 0.0
) -> Recognised:
    """Return a feed's window with the items that are known under another identity.

    ``known`` holds the stored items of the same or a former identity; ``shown`` those that the feed showed last.
    ``seen_s`` is the time of the answer.
    """
    found = _with_former_names(tuple(items), known)
    unknown = [item for item in items if item.item_id not in found.known and item.item_id not in found.twins]
    stored = {item.item_id: of for item, of in _alike(unknown, items, shown, seen_s)} if unknown and shown else {}
    if not stored:
        return found
    return replace(
        found,
        items=tuple(
            replace(item, item_id=stored[item.item_id].item_id) if item.item_id in stored else item for item in items
        ),
        known={**found.known, **{of.item_id: of for of in stored.values()}},
        quiet=found.quiet | {of.item_id for of in stored.values()},
        reguided=len(stored),
    )


def _with_former_names(items: tuple[Item, ...], known: Mapping[str, Item]) -> Recognised:
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
    renamed, twins = [], set()
    for former, several in sharing.items():
        stored = known[former]
        candidates = [item for item in several if not _is_later(item, stored.published_s)]
        if candidates:
            same = _same(candidates, stored)
            renamed.append((former, same.item_id))
            by_id[same.item_id] = stored
            twins |= {item.item_id for item in candidates if not (item is same or _is_later(item, same.published_s))}
    quiet.update(new for _, new in renamed)
    return Recognised(items, by_id, tuple(renamed), frozenset(quiet), frozenset(twins))


def _characters(*items: Item) -> int:
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
    words = _BETWEEN.split(_SPELLING.sub("", text))
    return sorted(word for word in words if word and not word.startswith("xmlns"))


def _same(items: Sequence[Item], stored: Item) -> Item:
    """Return which of the items that share a former identity is the stored one: of its time, else the oldest."""
    of_its_time = (item for item in items if item.published_s == stored.published_s)
    oldest = min(items, key=lambda item: inf if item.published_s is None else item.published_s)
    return next(of_its_time, oldest)


def _is_later(item: Item, time_s: float | None) -> bool:
    return item.published_s is not None and time_s is not None and item.published_s > time_s


def _alike(
    unknown: Sequence[Item], items: Sequence[Item], shown: Sequence[Item], seen_s: float
) -> list[tuple[Item, Item]]:
    """Return the unknown items that say the same as one that vanished, each with that one.

    What is said twice tells nothing. The time must be the same too, unless times say nothing.
    """
    written, stored = Counter(map(_says, items)), {item.item_id: _says(item) for item in shown}
    times_said = Counter(stored.values())
    present = {name for item in items for name in (item.item_id, *item.former_ids)}
    vanished = (item for item in shown if item.item_id not in present)
    by_content = {stored[item.item_id]: item for item in vanished if times_said[stored[item.item_id]] == 1}
    pairs = [
        (item, by_content[said])
        for item, said in zip(unknown, map(_says, unknown), strict=True)
        if said in by_content and written[said] == 1 and any(said)
    ]
    is_whole = len(pairs) == len(items) == len(shown)
    if 2 * len(pairs) >= len(unknown) and _are_of_one_answer([item for item, _ in pairs], seen_s, is_whole=is_whole):
        return pairs
    return [(item, of) for item, of in pairs if item.published_s is not None and item.published_s == of.published_s]


def _says(item: Item) -> tuple[Value, ...]:
    """Return what an item says. A link that is made of the guid is no part of it."""
    return (*(item.fields.get(path) for path in (*_TEXTS, _ENCLOSURE)), _own_link(item))


def _own_link(item: Item) -> str | None:
    link, guid = item.fields.get(_LINK), item.fields.get(_GUID)
    return None if not isinstance(link, str) or (isinstance(guid, str) and link.endswith(guid)) else link


def _are_of_one_answer(items: Sequence[Item], seen_s: float, *, is_whole: bool) -> bool:
    """Return whether items differ from those before only in guids, or times, that their feed makes for each answer.

    They have no times, or all the same. That is clear of two items that are the whole feed, that have links of their
    own, or that have neither guid nor link; and of a single one of these with the present time.
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
