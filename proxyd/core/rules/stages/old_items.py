"""Finds the unknown items of a feed that are no news: at the old end of its page, or of another feed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf

from proxyd.core.model.item import Item
from proxyd.core.rules.stages.reappearances import Pages
from proxyd.core.rules.state import ITEMS, SourceState

_SURELY_EMPTY = 2  # probes in a row: one that finds a feed empty may be a mistake of the origin


def is_first_page(state: SourceState, items: Sequence[Item], known: Mapping[str, Item]) -> bool:
    """Return whether a feed shows its items for the first time: before, it showed none, or only an error.

    A lone item that several others replace, most of which are not later, was an error ("Bridge returned error 500").
    """
    if state.next_seq == 1:
        return True
    if state.next_seq > 2 or len(items) == 1 or any(item.item_id in known for item in items):
        return False
    later = sum(state.newest_s is not None and _is_later(item, state.newest_s) for item in items)
    return 2 * later < len(items)


def _is_later(item: Item, time_s: float) -> bool:
    return item.published_s is not None and item.published_s > time_s


def has_been_empty(state: SourceState) -> bool:
    """Return whether a feed that never showed an item was empty at two probes in a row, and so is surely new."""
    silent = state.health.silent.get(ITEMS)
    return state.next_seq == 1 and silent is not None and silent.probes >= _SURELY_EMPTY


def find_old_items(
    items: Sequence[Item], known: Mapping[str, Item], shown: Sequence[Item], *, last_s: float, is_moved: bool
) -> frozenset[str]:
    """Return the ids of unknown items that are no news.

    Parameters
    ----------
    items
        The items of the page, from the newest to the oldest place.
    known
        The stored items by the identities of this page's items.
    shown
        The items of the page before, as they are stored.
    last_s
        When the feed was last read, in unix seconds.
    is_moved
        Whether a redirect led to the page.

    Notes
    -----
    A post that is deleted lets the next older one in at the foot of the page, and a page that grows many. An item among
    or before known ones is news, even if it is backdated. If a redirect leads to a page without one known item, it is
    another feed, of which only what is later than the last probe is news.
    """
    unknown = [(place, item) for place, item in enumerate(items) if item.item_id not in known]
    last = _last_known(items, known, shown)
    if last is None:
        oldest_s = inf if is_moved else _oldest_s(shown, default=-inf)
        old = [item for _, item in unknown if is_moved or item.published_s is not None]
    else:
        foot_s = _foot_s([known[item.item_id] for item in items[: last + 1] if item.item_id in known])
        oldest_s = _oldest_s(shown, default=inf) if foot_s is None else foot_s
        old = [item for place, item in unknown if place > last]
    if not old:
        return frozenset()
    shift_s = Pages(items, shown, known).shift_s(()) or 0.0  # a page whose times move by an hour may also have grown
    is_old = (item for item in old if item.published_s is None or item.published_s - shift_s < min(oldest_s, last_s))
    return frozenset(item.item_id for item in is_old)


def _last_known(items: Sequence[Item], known: Mapping[str, Item], shown: Sequence[Item]) -> int | None:
    """Return the oldest place of an item that the page before showed too; ``None`` without one."""
    before = {item.item_id for item in shown}
    stored = [known.get(item.item_id) for item in items]
    places = (place for place, item in enumerate(stored) if item is not None and item.item_id in before)
    return max(places, default=None)


def _foot_s(items: Sequence[Item]) -> float | None:
    """Return the time at the foot of a page that is in order but for what is pinned to its top, else ``None``.

    A pinned item is older than what enters at the foot of its page.
    """
    times = [item.published_s for item in items if item.published_s is not None]
    steps = enumerate(pairwise(times[::-1]), 1)
    ordered = next((count for count, (below, above) in steps if above < below), len(times))
    return times[-1] if 2 * ordered > len(times) else None


def _oldest_s(items: Iterable[Item], *, default: float) -> float:
    return min((item.published_s for item in items if item.published_s is not None), default=default)
