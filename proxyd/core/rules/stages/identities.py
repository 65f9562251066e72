"""Recognises items whose identity changed: after an upgrade, or because their feed changes its guids. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from proxyd.core.model.item import Item

_FEWEST_ALIKE = 3  # items of the same content and another time that show that a feed changes its guids
_TEXTS = ("channel.item.title", "channel.item.description", "channel.item.content")


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
        Items that an earlier version took for another one, which it stored: they are not new.
    reguided
        The number of items whose guid changed.
    """

    items: tuple[Item, ...]
    known: Mapping[str, Item]
    renamed: tuple[tuple[str, str], ...] = ()
    quiet: frozenset[str] = field(default_factory=frozenset)
    twins: frozenset[str] = field(default_factory=frozenset)
    reguided: int = 0


def recognised(items: Sequence[Item], known: Mapping[str, Item], shown: Sequence[Item] = ()) -> Recognised:
    """Return a feed's window with the items that are known under another identity.

    ``known`` holds the stored items of the same or a former identity; ``shown`` those that the feed showed last.
    """
    found = _with_former_names(tuple(items), known)
    unknown = [item for item in items if item.item_id not in found.known and item.item_id not in found.twins]
    stored = {item.item_id: of for item, of in _alike(unknown, items, shown)} if unknown and shown else {}
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
    renamed: dict[str, str] = {}
    quiet, twins = set(), set()
    for item in items:
        before, former = known.get(item.item_id), item.former_id
        if before is not None:
            if before.content_hash == item.former_hash != item.content_hash:
                quiet.add(item.item_id)
        elif former is not None and former in known and former not in own:
            if former in renamed:
                twins.add(item.item_id)
            else:
                renamed[former] = item.item_id
                by_id[item.item_id] = known[former]
                quiet.add(item.item_id)
    return Recognised(items, by_id, tuple(renamed.items()), frozenset(quiet), frozenset(twins))


def _alike(unknown: Sequence[Item], items: Sequence[Item], shown: Sequence[Item]) -> list[tuple[Item, Item]]:
    """Return the unknown items that say the same as one that vanished, each with that one.

    Content that occurs twice tells nothing. The time must be the same too, unless most unknown items have changed
    theirs: then the feed writes the time of each answer.
    """
    written, stored = (Counter(item.content_hash for item in each) for each in (items, shown))
    present = {name for item in items for name in (item.item_id, item.former_id)}
    vanished = (item for item in shown if item.item_id not in present)
    by_hash = {item.content_hash: item for item in vanished if stored[item.content_hash] == 1}
    pairs = [
        (item, by_hash[item.content_hash])
        for item in unknown
        if item.content_hash in by_hash and written[item.content_hash] == 1 and any(map(item.fields.get, _TEXTS))
    ]
    if len(pairs) >= _FEWEST_ALIKE and 2 * len(pairs) >= len(unknown):
        return pairs
    return [(item, of) for item, of in pairs if item.published_s is not None and item.published_s == of.published_s]
