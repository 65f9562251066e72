"""Recognises items whose identity changed: after an upgrade, or because their feed changes its guids. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from math import inf

from proxyd.core.model.item import Item, Value
from proxyd.core.model.normal_forms import normal_value
from proxyd.core.model.profile import PageClass
from proxyd.core.rules.stages.reappearances import ENCLOSURE, LINK, TEXTS, TITLE, Pages, find_reappearances

_CONTENT = (TITLE, *TEXTS, LINK, ENCLOSURE)
_MOST_ESCAPES = 3
_MOST_CHARACTERS = 300_000  # of the texts of one probe that are compared word by word
_SPELLING = re.compile(r"[/\"']+")
_SEPARATORS = re.compile(r"[\s<>]+")


@dataclass(frozen=True, slots=True)
class Identities:
    """Which stored items the items of a document are.

    Parameters
    ----------
    known
        The stored items, by the identities that the document gives them.
    renamed
        The former and the new identity of stored items that go on under the new one.
    quiet
        Ids of known items that are no updates: several guids changed at once, or an earlier version read the text in
        another way.
    old
        Ids of unknown items that are no news: an earlier version dropped them as duplicates of a stored one, or they
        come in at the old end of the page.
    changed_guids
        The number of items whose guid changed.
    """

    known: Mapping[str, Item]
    renamed: tuple[tuple[str, str], ...] = ()
    quiet: frozenset[str] = field(default_factory=frozenset)
    old: frozenset[str] = field(default_factory=frozenset)
    changed_guids: int = 0


def find_identities(
    items: Sequence[Item], known: Mapping[str, Item], shown: Sequence[Item] = (), *, seen_s: float = 0.0
) -> Identities:
    """Return which stored items the items of a feed are.

    ``known`` holds the stored items, by their own or a former identity; ``shown`` those that the feed showed last.
    ``seen_s`` is the time of the answer, in unix seconds.
    """
    known = {**known, **{item.item_id: item for item in shown if item.item_id in known}}  # these have their fields
    found = _find_former_identities(items, known)
    unknown = [item for item in items if item.item_id not in found.known and item.item_id not in found.old]
    if not (unknown and shown):
        return found
    stored = find_reappearances(unknown, items, found.known, shown, seen_s=seen_s)
    if not stored:
        return found
    regenerated = frozenset(stored) if len(stored) > 1 else frozenset()
    return replace(
        found,
        known={**found.known, **stored},
        renamed=(*found.renamed, *((before.item_id, name) for name, before in stored.items())),
        quiet=found.quiet | regenerated,
        changed_guids=len(stored),
    )


def find_row_identities(items: Sequence[Item], known: Mapping[str, Item], page_class: PageClass) -> Identities:
    """Return which stored rows a page shows; ``known`` holds all stored ones.

    A row joins one that vanished if their keys differ only in spelling, and no other row of both pages has that key.
    """
    found = _find_former_identities(items, known)
    own = {item.item_id for item in items}
    vanished = [item for name, item in found.known.items() if name not in own]
    unknown = [item for item in items if item.item_id not in found.known]
    if page_class.each is None or not (vanished and unknown):
        return found
    types = {each.path.lower(): each.type for each in page_class.fields}
    paths = [path.lower() for path in page_class.key]

    def key(item: Item) -> tuple[Value, ...] | None:
        values = tuple(normal_value(item.fields.get(path), types[path], path) for path in paths)
        return None if None in values else values  # a text that is no number has no value, and is not any other text

    pairs = Pages(items, list(found.known.values()), found.known).pairs(key, unknown, vanished)
    renamed = tuple((pair.before.item_id, pair.item.item_id) for pair in pairs)
    gone = {former for former, _ in renamed}
    kept = {name: item for name, item in found.known.items() if name not in gone}
    by_id = {**kept, **{pair.item.item_id: pair.before for pair in pairs}}
    return replace(found, known=by_id, renamed=(*found.renamed, *renamed))


def _find_former_identities(items: Sequence[Item], known: Mapping[str, Item]) -> Identities:
    """Return the identities of items, some of which an earlier version stored under another one or read otherwise."""
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
    renamed, duplicates = [], set()
    for former, several in sharing.items():
        stored = known[former]
        candidates = [item for item in several if not _is_later(item, stored.published_s)]
        if candidates:
            same = _same(candidates, stored)
            renamed.append((former, same.item_id))
            by_id[same.item_id] = by_id.pop(former)
            duplicates |= {item.item_id for item in candidates if item is not same and _is_duplicate(item, same)}
    quiet.update(new for _, new in renamed)
    return Identities(by_id, tuple(renamed), frozenset(quiet), frozenset(duplicates))


def _characters(*items: Item) -> int:
    """Return how many characters ``_is_former_reading`` would compare."""
    if not items[-1].is_mended:
        return 0
    return sum(len(str(item.fields.get(path) or "")) for item in items for path in _CONTENT)


def _is_former_reading(stored: Item, item: Item, *, may_compare: bool) -> bool:
    """Return whether an earlier version read the same content in another way."""
    if stored.content_hash in item.former_hashes:
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


def _is_duplicate(item: Item, same: Item) -> bool:
    """Return whether an earlier version dropped an item as a duplicate of the same one.

    Items of one guid that have no time and other titles are told apart by their places on the page.
    """
    has_place = item.published_s is None and item.fields.get(TITLE) != same.fields.get(TITLE)
    return not (has_place or _is_later(item, same.published_s))


def _same(items: Sequence[Item], stored: Item) -> Item:
    """Return which of the items that share a former identity is the stored one.

    It is the only one with its link and title, else the one of its time, else the oldest.
    """
    alike = [item for item in items if _heading(item) == _heading(stored) != (None, None)]
    if len(alike) == 1:
        return alike[0]
    of_its_time = (item for item in items if item.published_s == stored.published_s)
    oldest = min(items, key=lambda item: inf if item.published_s is None else item.published_s)
    return next(of_its_time, oldest)


def _heading(item: Item) -> tuple[Value, Value]:
    return item.fields.get(LINK), item.fields.get(TITLE)


def _is_later(item: Item, time_s: float | None) -> bool:
    return item.published_s is not None and time_s is not None and item.published_s > time_s
