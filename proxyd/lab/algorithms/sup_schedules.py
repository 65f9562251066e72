"""SUP: the fewest probes that capture every execution interval, and the ones with least delay among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from proxyd.core.model.arrays import Ints
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.capture.earliest_deadline import OPEN, CaptureSchedule, Spans, timeline
from proxyd.core.planning.kernels.numba_kernels import kernel

_BEFORE_ALL = -(2**62)


def sup(intervals: Iterable[ExecutionInterval]) -> CaptureSchedule:
    """Return the fewest probes that capture every interval, each as late as possible.

    For each source the probe comes at the last chronon of the interval that ends first, and serves all others that
    contain it: piercing intervals at right ends, O(E log E).

    Raises
    ------
    ValueError
        An interval has no end.

    Notes
    -----
    Source: Roitman, Gal, Raschid and Bright, Algorithm 1 and Theorem 3.1.

    Examples
    --------
    >>> spans = [(0, 5), (3, 9), (7, 9)]
    >>> intervals = [ExecutionInterval("a", "r", start, deadline) for start, deadline in spans]
    >>> sup(intervals).probes
    (('a', 5), ('a', 9))
    """
    return _schedule(intervals, sup_arrays)


def least_delay_sup(intervals: Iterable[ExecutionInterval]) -> CaptureSchedule:
    """Return the fewest probes that capture every interval, placed with the least total delay; O(E log E).

    >>> spans = [(0, 5), (3, 9), (7, 9)]
    >>> intervals = [ExecutionInterval("a", "r", start, deadline) for start, deadline in spans]
    >>> least_delay_sup(intervals).probes, sup(intervals).delay, least_delay_sup(intervals).delay
    ((('a', 3), ('a', 7)), 9, 3)
    """
    return _schedule(intervals, least_delay_arrays)


def sup_arrays(sources: ArrayLike, starts: ArrayLike, deadlines: ArrayLike) -> tuple[Ints, Ints]:
    """Return sources and chronons of SUP's probes, in that order: ``sup`` without objects.

    ``sources`` are whole numbers from 0 on; a ``ValueError`` says that shapes differ, or that an interval ends before
    it starts or has no end.

    >>> [column.tolist() for column in sup_arrays([1, 0, 1], [0, 3, 4], [5, 9, 7])]
    [[0, 1], [9, 5]]
    """
    line = _Line(sources, starts, deadlines)
    return line.split(_piercing(line.starts, line.deadlines))


def least_delay_arrays(sources: ArrayLike, starts: ArrayLike, deadlines: ArrayLike) -> tuple[Ints, Ints]:
    """Return sources and chronons of the probes of ``least_delay_sup``, as ``sup_arrays`` does.

    Notes
    -----
    An optimal probe lies on the start of an interval: moved back to the latest start that it serves, it loses
    nothing. The k-th probe of any smallest schedule lies between the k-th of the earliest and the k-th of the latest
    such schedule, and these ranges are disjoint. Of two successive probes at i and j, the second serves the intervals
    that began between them at a delay of ``(B_j - B_i) t_j - (S_j - S_i)``, where B is the count and S the sum of
    starts so far; i must not lie before the start of any interval that ends before j. Both together are Monge: the
    best i never moves back as j moves on, so each range is solved from the one before by divide and conquer. O(E log
    E).

    Examples
    --------
    >>> [column.tolist() for column in least_delay_arrays([0, 0, 0], [0, 3, 7], [5, 9, 9])]
    [[0, 0], [3, 7]]
    """
    line = _Line(sources, starts, deadlines)
    if not len(line.starts):
        return line.split(line.starts)
    latest = _piercing(line.starts, line.deadlines)
    by_start = np.argsort(-line.starts, kind="stable")
    earliest = -_piercing(-line.deadlines[by_start], -line.starts[by_start])[::-1]
    begun = np.sort(line.starts)
    times = np.unique(begun)
    counts = np.searchsorted(begun, times, side="right")
    local = line.chronons(times) - line.low
    sums = np.cumsum(line.chronons(begun) - line.low)[counts - 1]
    # the previous probe lies at or after the latest start among the intervals that ended before
    ended = np.searchsorted(line.deadlines, times, side="left")
    floor = np.append(_BEFORE_ALL, np.maximum.accumulate(line.starts))[ended]
    slots = np.stack([local, counts, sums, np.searchsorted(times, floor, side="left")])
    layers = np.stack([np.searchsorted(times, earliest), np.searchsorted(times, latest, side="right") - 1])
    return line.split(times[_cheapest_path(slots, layers)])


class _Line:
    """The intervals of all sources on one line, on which those of different sources do not touch."""

    def __init__(self, sources: ArrayLike, starts: ArrayLike, deadlines: ArrayLike) -> None:
        own, first, last = (np.asarray(column, dtype=np.int64).reshape(-1) for column in (sources, starts, deadlines))
        if not own.shape == first.shape == last.shape:
            raise ValueError("sources, starts and deadlines must be of one shape")
        if np.any(own < 0) or np.any(last < first):
            raise ValueError("sources count from 0, and no interval ends before it starts")
        if np.any(last >= OPEN):
            raise ValueError("an interval without an end cannot be planned for; give it a deadline")
        self.low = int(first.min()) if len(first) else 0
        self._width = int(last.max()) - self.low + 1 if len(first) else 1
        begin, end = (timeline(own, times - self.low, self._width) for times in (first, last))
        order = np.argsort(end, kind="stable")
        self.starts, self.deadlines = begin[order], end[order]

    def split(self, places: Ints) -> tuple[Ints, Ints]:
        """Return the sources and the chronons of places on the line."""
        return places // self._width, self.chronons(places)

    def chronons(self, places: Ints) -> Ints:
        """Return the chronons of places on the line."""
        return places % self._width + self.low


def _schedule(
    intervals: Iterable[ExecutionInterval], place: Callable[[Ints, Ints, Ints], tuple[Ints, Ints]]
) -> CaptureSchedule:
    spans = Spans.of(intervals)
    sources, chronons = place(spans.sources, spans.starts, spans.deadlines)
    return spans.schedule(sources, chronons, exact=True)


@kernel
def _piercing(starts: Ints, deadlines: Ints) -> Ints:
    """Return the deadlines (given in increasing order) that become probes."""
    chosen = np.empty(len(deadlines), dtype=np.int64)
    count = 0
    for i in range(len(deadlines)):
        if count == 0 or starts[i] > chosen[count - 1]:
            chosen[count] = deadlines[i]
            count += 1
    return chosen[:count]


@kernel
def _cheapest_path(slots: Ints, layers: Ints) -> Ints:
    """Return the slot of each probe on the path with least delay, shape (layers,).

    Rows of ``slots``: chronon, intervals begun, sum of their starts, first slot allowed for the previous probe. Rows
    of ``layers``: first and last slot of the k-th probe.
    """
    count, probes = slots.shape[1], layers.shape[1]
    best, link = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    for j in range(layers[0, 0], layers[1, 0] + 1):
        best[j] = slots[1, j] * slots[0, j] - slots[2, j]
    for k in range(1, probes):
        _next_layer(slots, layers[:, k - 1], layers[:, k], best, link)
    path = np.empty(probes, dtype=np.int64)
    at = layers[0, probes - 1]
    for k in range(probes - 1, -1, -1):
        path[k] = at
        at = link[at]
    return path


@kernel
def _next_layer(slots: Ints, before: Ints, layer: Ints, best: Ints, link: Ints) -> None:
    """Fill ``best`` and ``link`` for the slots of ``layer`` by divide and conquer."""
    waiting = np.empty((128, 4), dtype=np.int64)  # rows first to last, their best previous slots low to high
    waiting[0, 0], waiting[0, 1], waiting[0, 2], waiting[0, 3] = layer[0], layer[1], before[0], before[1]
    depth = 1
    while depth > 0:
        depth -= 1
        first, last, low, high = waiting[depth]
        if first > last:
            continue
        j = (first + last) // 2
        link[j] = high
        for i in range(max(low, slots[3, j]), high + 1):
            cost = best[i] + (slots[1, j] - slots[1, i]) * slots[0, j] - (slots[2, j] - slots[2, i])
            if i == max(low, slots[3, j]) or cost < best[j]:
                best[j], link[j] = cost, i
        waiting[depth, 0], waiting[depth, 1], waiting[depth, 2], waiting[depth, 3] = first, j - 1, low, link[j]
        depth += 1
        waiting[depth, 0], waiting[depth, 1], waiting[depth, 2], waiting[depth, 3] = j + 1, last, link[j], high
        depth += 1
