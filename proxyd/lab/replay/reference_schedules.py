"""Reference schedules: one without any knowledge, and one with full knowledge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.model.chronon import ChrononGrid, Epoch


def uniform_probes(sources: int, probes: int, *, start_s: float, stop_s: float) -> list[NDArray[np.float64]]:
    """Return the times of exactly ``probes`` probes, distributed as evenly as possible over sources and time.

    The sources take turns, so that their phases are staggered and the load is even. Their order must not depend on
    their events.

    Examples
    --------
    >>> uniform_probes(2, 5, start_s=0.0, stop_s=10.0)
    [array([1., 5., 9.]), array([3., 7.])]
    """
    turns = np.arange(probes, dtype=np.float64) + 0.5
    times = start_s + turns * ((stop_s - start_s) / max(1, probes))
    return [times[source::sources] for source in range(sources)]


def clairvoyant_probes(
    events_s: Sequence[ArrayLike], probes: int, *, epoch: Epoch, grid: ChrononGrid
) -> list[NDArray[np.float64]]:
    """Return the probe times of a schedule that knows every event; at most ``probes``.

    The probes are spread evenly over the chronons as ``C_j``. A chronon spends its probes on the pages with the most
    undiscovered items, then those with the oldest, and does not save unused ones. It probes when a thousandth of the
    chronon is left, so that it finds the chronon's items.

    It is greedy and not proven optimal: waiting for a page that will soon have more items could be better.

    Parameters
    ----------
    events_s
        The events of each source, ascending.

    Examples
    --------
    >>> schedule = clairvoyant_probes([[0.5, 2.5], [0.25, 0.75]], 3, epoch=Epoch(0, 3), grid=ChrononGrid(1.0))
    >>> [times.round(3).tolist() for times in schedule]
    [[1.999, 2.999], [0.999]]
    """
    events = [np.asarray(times, dtype=np.float64).reshape(-1) for times in events_s]
    seen = np.zeros(len(events), dtype=np.int64)
    schedule: list[list[float]] = [[] for _ in events]
    length = len(epoch)
    for number, chronon in enumerate(epoch):
        at_s = grid.start_s(chronon + 1) - grid.length_s / 1000
        capacity = (number + 1) * probes // length - number * probes // length
        there = np.array([np.searchsorted(times, at_s, side="right") for times in events], dtype=np.int64)
        holding = np.flatnonzero(there > seen)
        oldest = np.array([events[source][seen[source]] for source in holding])
        for source in holding[np.lexsort((oldest, seen[holding] - there[holding]))[:capacity]]:
            schedule[source].append(at_s)
            seen[source] = there[source]
    return [np.array(times, dtype=np.float64) for times in schedule]
