"""What a window of items says about its source: how often it changes, and how many items nobody saw. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proxyd.core.model.item import Item
from proxyd.core.rates.evidence import Evidence, ItemCount, ItemTimes, trusted_times
from proxyd.core.rules.state import SourceState, StoredEvent

CLOCK_TOLERANCE_S = 1.0
"""How far the clocks of a source and of proxyd may differ; feeds also truncate times to seconds."""
SHORTEST_HISTORY_S = 1.0


def seed_evidence(items: Sequence[Item], seen_s: float) -> Evidence | None:
    """Return the evidence in a feed's own history: the gaps between its items up to now."""
    times = _trusted_times(items, seen_s)
    if len(times) < 2 or times[0] >= seen_s:
        return None
    return ItemTimes(min(times[0], seen_s - SHORTEST_HISTORY_S), seen_s, tuple(times[1:]))


def _trusted_times(items: Sequence[Item], seen_s: float) -> Sequence[float]:
    """Return the sorted times of items without those that are likely to be wrong."""
    latest_s = seen_s + CLOCK_TOLERANCE_S
    times = (item.published_s for item in items if item.published_s is not None and item.published_s <= latest_s)
    return trusted_times(sorted(min(time_s, seen_s) for time_s in times), seen_s)


def evidence_of(events: Sequence[StoredEvent], since_s: float, seen_s: float, *, overflowed: bool) -> Evidence:
    """Return the evidence of new items; if the window overflowed, it begins at the oldest item still shown."""
    if events and all(event.exact and event.event_s >= since_s for event in events):
        times_s = tuple(event.event_s for event in events)
        if not overflowed:
            return ItemTimes(since_s, seen_s, times_s)
        if times_s[0] < seen_s:
            return ItemTimes(times_s[0], seen_s, times_s[1:])
    return ItemCount(since_s, seen_s, len(events), at_least=overflowed)


def lost_items(
    items: Sequence[Item], new: Sequence[Item], state: SourceState, *, seen_s: float, rate_per_s: Callable[[], float]
) -> float | None:
    """Return the estimated number of items lost if the window overflowed, or ``None`` if it did not.

    The window overflowed if all its items are new and the oldest is newer than anything that could be seen before. The
    gap is filled at the rate that the window itself shows; without item times, the estimated rate says how many items
    there should have been.
    """
    if not items or len(new) < len(items) or state.next_seq == 1 or state.last_success_s is None:
        return None
    times = _trusted_times(items, seen_s)
    if not times:
        return max(0.0, rate_per_s() * (seen_s - state.last_success_s) - len(items))
    gap_s = times[0] - max(state.newest_s or state.last_success_s, state.last_success_s)
    if gap_s <= 0:
        return None
    span_s = times[-1] - times[0]
    rate = (len(times) - 1) / span_s if span_s > 0 else rate_per_s()
    return max(0.0, rate * gap_s - 1.0)
