"""Unit jobs with windows under a capacity per chronon: earliest deadline first, run backwards in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from proxyd.core.model.chronon import Chronon
from proxyd.core.planning.policies.expected_intervals import PlannedInterval


def latest_slots(
    windows: Sequence[PlannedInterval], capacity: Callable[[Chronon], int], *, now: Chronon
) -> list[Chronon | None]:
    """Return for each window the latest chronon to serve it at, all served if possible.

    Earliest deadline first run backwards in time: from the last deadline down to ``now``, each chronon takes the open
    windows that start last. A window that finds no room gets ``None``. No schedule serves more windows.

    Parameters
    ----------
    windows
        Chronons, both ends inclusive; chronons before ``now`` cannot be used.
    capacity
        Windows that may be served at a chronon.

    Notes
    -----
    O(n log n) plus the chronons skipped over, which are only those without an open window's deadline.

    Examples
    --------
    >>> latest_slots([PlannedInterval(0, 5), PlannedInterval(2, 5)], lambda j: 1, now=0)
    [4, 5]
    >>> latest_slots([PlannedInterval(5, 5), PlannedInterval(5, 5)], lambda j: 1, now=0)
    [5, None]
    """
    slots: list[Chronon | None] = [None] * len(windows)
    order = sorted(range(len(windows)), key=lambda i: (windows[i].deadline, i))
    open_windows: list[tuple[int, int]] = []
    chronon = windows[order[-1]].deadline if order else now
    while chronon >= now and (order or open_windows):
        if not open_windows:
            chronon = min(chronon, windows[order[-1]].deadline)
            if chronon < now:
                break
        while order and windows[order[-1]].deadline >= chronon:
            index = order.pop()
            heappush(open_windows, (-windows[index].start, index))
        room = capacity(chronon)
        while room > 0 and open_windows:
            start, index = heappop(open_windows)
            if -start <= chronon:
                slots[index] = chronon
                room -= 1
        chronon -= 1
    return slots
