"""SUP: the fewest probes that capture every execution interval, and of those the ones that delay least."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from proxyd.model.chronon import Chronon
from proxyd.model.interval import ExecutionInterval
from proxyd.scheduling.compiled import kernel
from proxyd.scheduling.single.kernels import Ints


@dataclass(frozen=True, slots=True)
class CaptureSchedule:
    """Probes as (source, chronon), how many intervals they capture, and the total delay from start to capture.

    ``exact`` says whether no schedule does better at what was asked; otherwise the figures are a bound's other side.
    """

    probes: tuple[tuple[str, Chronon], ...]
    captured: int
    delay: int
    exact: bool = True


def sup(intervals: Iterable[ExecutionInterval]) -> CaptureSchedule:
    """Return the fewest probes that capture every interval, each as late as possible.

    For each source the probe comes at the last chronon of the interval that ends first and serves every other that
    holds it: piercing intervals at right ends, O(E log E).

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
    return _for_each_source(intervals, lambda starts, deadlines: deadlines[_piercing(starts, deadlines)])


def least_delay_sup(intervals: Iterable[ExecutionInterval]) -> CaptureSchedule:
    """Return the fewest probes that capture every interval, placed so that they delay least in all.

    The k-th probe of a source can lie anywhere from the earliest to the latest place that keeps the number minimal;
    which intervals it serves first depends on its neighbour. That is a cheapest path over the starts of intervals: an
    optimal probe always lies on one, as moving it back to the latest start it serves loses nothing. Quadratic in the
    starts within the reach of a probe.

    Notes
    -----
    Source: ALGORITHMS 2 (least delay among minimum-probe schedules).

    Examples
    --------
    >>> spans = [(0, 5), (3, 9), (7, 9)]
    >>> intervals = [ExecutionInterval("a", "r", start, deadline) for start, deadline in spans]
    >>> least_delay_sup(intervals).probes, sup(intervals).delay, least_delay_sup(intervals).delay
    ((('a', 3), ('a', 7)), 9, 3)
    """
    return _for_each_source(intervals, _least_delay)


def _for_each_source(intervals: Iterable[ExecutionInterval], place: Callable[[Ints, Ints], Ints]) -> CaptureSchedule:
    of_source: dict[str, list[ExecutionInterval]] = defaultdict(list)
    for interval in intervals:
        of_source[interval.source_id].append(interval)
    probes: list[tuple[str, Chronon]] = []
    captured = delay = 0
    for source_id, own in sorted(of_source.items()):
        starts, deadlines = _arrays(own)
        times = place(starts, deadlines)
        first = times[np.searchsorted(times, starts)]
        probes += [(source_id, int(time)) for time in times]
        captured += len(own)
        delay += int(np.sum(first - starts))
    return CaptureSchedule(tuple(sorted(probes, key=lambda probe: (probe[1], probe[0]))), captured, delay)


def _arrays(own: Sequence[ExecutionInterval]) -> tuple[Ints, Ints]:
    """Return starts and deadlines, in the order of deadlines."""
    if any(interval.deadline is None for interval in own):
        raise ValueError("an interval without an end cannot be planned for; give it a deadline")
    pairs = np.array([(interval.start, interval.deadline) for interval in own], dtype=np.int64)
    order = np.lexsort((pairs[:, 0], pairs[:, 1]))
    return pairs[order, 0], pairs[order, 1]


@kernel
def _piercing(starts: Ints, deadlines: Ints) -> Ints:
    """Return which deadlines (in increasing order) become probes."""
    chosen = np.empty(len(deadlines), dtype=np.int64)
    count = 0
    last = np.int64(-(2**62))
    for i in range(len(deadlines)):
        if starts[i] > last:
            last = deadlines[i]
            chosen[count] = i
            count += 1
    return chosen[:count]


def _least_delay(starts: Ints, deadlines: Ints) -> Ints:
    """Return the starts at which to probe: fewest first, then least total delay.

    Going through the distinct starts in order, ``best[j]`` is the cheapest way to have captured everything that ends
    before ``times[j]`` with a probe at ``times[j]`` last. The probe before it, at i, must not lie before the start of
    any interval that ends before ``times[j]``, so its candidates are a window that only moves on.
    """
    times = np.unique(starts)
    order = np.argsort(starts, kind="stable")
    begun = np.searchsorted(starts[order], times, side="right")
    sums = np.concatenate([[0], np.cumsum(starts[order])])
    # the previous probe lies at or after the latest start among the intervals that ended before
    latest = np.maximum.accumulate(starts)
    ended = np.searchsorted(deadlines, times, side="left")
    floor = np.where(ended > 0, latest[np.maximum(ended - 1, 0)], np.int64(-(2**62)))
    from_slot = np.searchsorted(times, floor, side="left")
    link = _cheapest_path(times, begun, sums[begun], np.where(ended > 0, from_slot, -1))
    final = int(np.searchsorted(times, latest[-1]))
    path, slot = [], final
    while slot >= 0:
        path.append(times[slot])
        slot = int(link[slot])
    return np.array(path[::-1], dtype=np.int64)


@kernel
def _cheapest_path(times: Ints, begun: Ints, sums: Ints, from_slot: Ints) -> Ints:
    """Return for each time the previous probe of the best schedule that probes there last, -1 for none.

    A probe at j after one at i serves what began between: ``(begun[j] - begun[i]) times[j] - (sums[j] - sums[i])``.
    """
    count = len(times)
    probes, delay = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    link = np.full(count, -1, dtype=np.int64)
    for j in range(count):
        probes[j], delay[j] = 2**40, 0
        if from_slot[j] < 0:
            probes[j], delay[j] = 1, begun[j] * times[j] - sums[j]
            continue
        for i in range(from_slot[j], j):
            cost = delay[i] + (begun[j] - begun[i]) * times[j] - (sums[j] - sums[i])
            if probes[i] + 1 < probes[j] or (probes[i] + 1 == probes[j] and cost < delay[j]):
                probes[j], delay[j], link[j] = probes[i] + 1, cost, i
    return link
