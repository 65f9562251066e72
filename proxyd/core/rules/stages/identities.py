"""Recognises items whose identity changed: after an upgrade, or because their feed changes its guids. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from math import inf

from proxyd.core.model.item import Item

_FEWEST_ALIKE = 3  # items of the same content and no time that show that a feed changes its guids
_ANSWER_S = 60.0
_LINK, _GUID = "channel.item.link", "channel.item.guid"
_TEXTS = ("channel.item.title", "channel.item.description", "channel.item.content")
_CONTENT = (*_TEXTS, _LINK, "channel.item.enclosure")
_MOST_ESCAPES = 3
_MOST_CHARACTERS = 1_000_000  # that are compared without their markup for one probe
_MARKUP = re.compile(r"<[^<>]*>")


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
        Items that an earlier version read in another way: that is not an update.
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
    return is_comparable and all(_plain(stored, path) == _plain(item, path) for path in _CONTENT)


def _plain(item: Item, path: str) -> str:
    """Return the words of a text without markup, however often it was escaped."""
    text = str(item.fields.get(path) or "")
    for _ in range(_MOST_ESCAPES):
        text = unescape(text)
    return " ".join(_MARKUP.sub(" ", text).split())


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

    Content that occurs twice tells nothing. The time must be the same too, unless all have the time of the answer, or
    none, and most of what is unknown is alike.
    """
    written, stored = (Counter(item.content_hash for item in each) for each in (items, shown))
    present = {name for item in items for name in (item.item_id, *item.former_ids)}
    vanished = (item for item in shown if item.item_id not in present)
    by_hash = {item.content_hash: item for item in vanished if stored[item.content_hash] == 1}
    pairs = [
        (item, by_hash[item.content_hash])
        for item in unknown
        if item.content_hash in by_hash and written[item.content_hash] == 1 and any(map(item.fields.get, _TEXTS))
    ]
    if 2 * len(pairs) >= len(unknown) and _have_no_times([item for item, _ in pairs], seen_s):
        return pairs
    return [(item, of) for item, of in pairs if item.published_s is not None and item.published_s == of.published_s]


def _have_no_times(items: Sequence[Item], seen_s: float) -> bool:
    """Return whether items have no times or that of the answer, which tells apart neither guids nor hashes of times.

    Three items with links and other guids are enough to say so. Hashes need two, or one of the present time.
    """
    times = [item.published_s for item in items if item.published_s is not None]
    if times and max(times) - min(times) > _ANSWER_S:
        return False
    if len(items) >= _FEWEST_ALIKE and all(item.fields.get(_LINK) for item in items):
        return True
    is_now = bool(times) and abs(max(times) - seen_s) <= _ANSWER_S
    return len(times) == len(items) and all(map(_has_no_name, items)) and (len(items) > 1 or is_now)


def _has_no_name(item: Item) -> bool:
    return not (item.fields.get(_GUID) or item.fields.get(_LINK))
