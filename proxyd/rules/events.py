"""From the items a probe found to the events they were: what is new, when it happened, and what was not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proxyd.estimation import Evidence, ItemCount, ItemTimes
from proxyd.model.item import Item
from proxyd.rules.state import SourceState, StoredItem

CLOCK_TOLERANCE_S = 1.0
SHORTEST_HISTORY_S = 1.0


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a whole window of items says.

    Parameters
    ----------
    events
        New items in the order in which they are taken: by time, then by page order.
    edited
        Items that were known with other content.
    evidence
        What the window says about the update rate; ``None`` where it says nothing.
    lost_items
        Items estimated to have slid off unseen since the last probe.
    """

    events: tuple[StoredItem, ...] = ()
    edited: tuple[Item, ...] = ()
    evidence: Evidence | None = None
    lost_items: float = 0.0


def discover(
    items: Sequence[Item], known: Mapping[str, str], state: SourceState, *, seen_s: float, rate_per_s: float
) -> Discovery:
    """Return what ``items``, the whole window in page order, adds to what is ``known`` (item id to content hash).

    At first contact every item is a seed: it is no event of itself, but its time is evidence.
    """
    items = _distrust_constant(items)
    new = [item for item in items if item.item_id not in known]
    edited = tuple(item for item in items if known.get(item.item_id, item.content_hash) != item.content_hash)
    if state.first_contact_s is None or state.last_success_s is None:
        return Discovery(_seeds(new, state, seen_s), edited, _seed_evidence(new, seen_s))
    since_s = state.last_success_s
    events = _ordered(new, state, since_s, seen_s)
    lost = _lost_items(items, new, state, seen_s=seen_s, rate_per_s=rate_per_s)
    return Discovery(events, edited, _evidence(events, since_s, seen_s, overflowed=lost is not None), lost or 0.0)


def unchanged(state: SourceState, *, seen_s: float) -> Discovery:
    """Return what a probe says that found the source as it was."""
    since_s = state.last_success_s
    return Discovery(evidence=None if since_s is None else ItemCount(since_s, seen_s, 0))


def _distrust_constant(items: Sequence[Item]) -> Sequence[Item]:
    """Drop the times of a feed that gives all its items the same one."""
    times = {item.published_s for item in items}
    if len(items) < 3 or len(times) > 1 or None in times:
        return items
    return [Item(item.item_id, item.fields, None, item.content_hash) for item in items]


def _seeds(new: Sequence[Item], state: SourceState, seen_s: float) -> tuple[StoredItem, ...]:
    def time_s(item: Item) -> float:
        return min(item.published_s, seen_s) if item.published_s is not None else seen_s

    order = sorted(range(len(new)), key=lambda i: (time_s(new[i]), i))
    return tuple(
        StoredItem(
            seq=state.next_seq + number,
            item=new[index],
            event_s=time_s(new[index]),
            seen_s=seen_s,
            exact=_is_within(new[index].published_s, float("-inf"), seen_s),
            seed=True,
        )
        for number, index in enumerate(order)
    )


def _ordered(new: Sequence[Item], state: SourceState, since_s: float, seen_s: float) -> tuple[StoredItem, ...]:
    """Clip item times to (last probe, now]; where there is none, take the middle."""

    def time_s(item: Item) -> float:
        if item.published_s is None:
            return (since_s + seen_s) / 2
        return min(max(item.published_s, since_s), seen_s)

    def key(index: int) -> tuple[float, float, int]:
        item = new[index]
        return time_s(item), time_s(item) if item.published_s is None else item.published_s, index

    return tuple(
        StoredItem(
            seq=state.next_seq + number,
            item=new[index],
            event_s=time_s(new[index]),
            seen_s=seen_s,
            exact=_is_within(new[index].published_s, since_s, seen_s),
            seed=False,
        )
        for number, index in enumerate(sorted(range(len(new)), key=key))
    )


def _is_within(time_s: float | None, since_s: float, until_s: float) -> bool:
    """Whether an item's own time can be true; feeds cut times to whole seconds and clocks differ a little."""
    return time_s is not None and since_s - CLOCK_TOLERANCE_S <= time_s <= until_s + CLOCK_TOLERANCE_S


def _seed_evidence(items: Sequence[Item], seen_s: float) -> Evidence | None:
    """Take a feed's own history: the gaps between its items up to now."""
    latest_s = seen_s + CLOCK_TOLERANCE_S
    times = sorted(min(i.published_s, seen_s) for i in items if i.published_s is not None and i.published_s <= latest_s)
    if len(times) < 2 or times[0] >= seen_s:
        return None
    return ItemTimes(min(times[0], seen_s - SHORTEST_HISTORY_S), seen_s, tuple(times[1:]))


def _evidence(events: Sequence[StoredItem], since_s: float, seen_s: float, *, overflowed: bool) -> Evidence:
    if events and not overflowed and all(event.exact for event in events):
        return ItemTimes(since_s, seen_s, tuple(event.event_s for event in events))
    return ItemCount(since_s, seen_s, len(events), at_least=overflowed)


def _lost_items(
    items: Sequence[Item], new: Sequence[Item], state: SourceState, *, seen_s: float, rate_per_s: float
) -> float | None:
    """Return the items estimated lost where the window overflowed, ``None`` where it did not.

    A window of nothing but new items, the oldest newer than anything that could be seen before, has slid past what was
    between. The gap is filled at the rate that the window itself shows; without item times the estimated rate says how
    many items there should have been.
    """
    if not items or len(new) < len(items) or state.next_seq == 1 or state.last_success_s is None:
        return None
    times = sorted(item.published_s for item in items if item.published_s is not None)
    if not times:
        return max(0.0, rate_per_s * (seen_s - state.last_success_s) - len(items))
    gap_s = times[0] - max(state.newest_s or state.last_success_s, state.last_success_s)
    if gap_s <= 0:
        return None
    span_s = times[-1] - times[0]
    rate = (len(times) - 1) / span_s if span_s > 0 else rate_per_s
    return max(0.0, rate * gap_s - 1.0)
