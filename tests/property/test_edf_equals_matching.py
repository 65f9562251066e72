"""Latest slots serve as many windows as any schedule can, and later is not possible for all of them together."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.planning.policies.rule_demand import PlannedInterval
from proxyd.core.planning.queue.candidates import latest_slots

windows = st.lists(st.builds(lambda s, n: PlannedInterval(s, s + n), st.integers(-2, 7), st.integers(0, 5)), max_size=8)
capacities = st.lists(st.integers(0, 2), min_size=13, max_size=13)


def most_served(found: list[PlannedInterval], room: list[int]) -> int:
    """Return the size of a maximum matching of windows to slots, by augmenting paths."""
    slots = [(chronon, copy) for chronon in range(13) for copy in range(room[chronon])]
    holder: dict[tuple[int, int], int] = {}

    def place(window: int, tried: set[tuple[int, int]]) -> bool:
        for slot in slots:
            if slot in tried or not found[window].start <= slot[0] <= found[window].deadline:
                continue
            tried.add(slot)
            if slot not in holder or place(holder[slot], tried):
                holder[slot] = window
                return True
        return False

    return sum(place(window, set()) for window in range(len(found)))


@given(windows, capacities)
def test_as_many_are_served_as_a_maximum_matching_serves(found: list[PlannedInterval], room: list[int]) -> None:
    slots = latest_slots(found, lambda chronon: room[chronon], now=0)
    served = [slot for slot in slots if slot is not None]
    assert len(served) == most_served(found, room)
    assert all(served.count(chronon) <= room[chronon] for chronon in served)
    assert all(s is None or (w.start <= s <= w.deadline and s >= 0) for w, s in zip(found, slots, strict=True))


@given(
    st.lists(st.builds(lambda s, n: PlannedInterval(s, s + n), st.integers(0, 4), st.integers(0, 3)), max_size=4),
    st.lists(st.integers(0, 1), min_size=8, max_size=8),
)
def test_where_all_are_served_no_schedule_is_later_in_sum(found: list[PlannedInterval], room: list[int]) -> None:
    slots = latest_slots(found, lambda chronon: room[chronon], now=0)
    if any(slot is None for slot in slots):
        return
    choices = product(*(range(w.start, w.deadline + 1) for w in found))
    feasible = [c for c in choices if all(c.count(j) <= room[j] for j in c)]
    assert sum(slot for slot in slots if slot is not None) == max(map(sum, feasible))
