"""The proxy dilemma: for every number of intervals captured, the least total delay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from proxyd.core.errors import InvalidScheduleError
from proxyd.core.model.arrays import Ints
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.capture.capture_kernels import cheapest_first, tables
from proxyd.core.planning.capture.earliest_deadline import (
    Capacity,
    CaptureSchedule,
    Jobs,
    Spans,
    are_disjoint,
    earliest_deadline_first,
)


@dataclass(frozen=True, slots=True, eq=False)
class ParetoFront:
    """The least total delay for each number of intervals captured, and the schedules that reach it.

    >>> from proxyd.core.model.chronon import Epoch
    >>> intervals = [ExecutionInterval(name, "r", 0, 1) for name in "abc"]
    >>> front = pareto(intervals, Capacity.constant(1, Epoch(0, 2)))
    >>> front.points, front.schedule(2).delay, front.exact
    (((1, 0), (2, 1)), 1, True)
    """

    spans: Spans
    delays: Ints  # ``D*(k)`` for k = 0, 1, ... up to the most that can be captured, in chronons; convex
    captured: Ints  # the interval that the k-th point captures in addition to those of the points before
    used: Ints  # the chronon in which it uses one more probe
    exact: bool  # false if intervals of a source overlap, because each of them is then counted as one probe
    _jobs: Jobs

    @property
    def points(self) -> tuple[tuple[int, int], ...]:
        """The Pareto set: (captured, delay) such that one more costs more delay, both increasing."""
        last = np.append(np.diff(self.delays) > 0, True)
        return tuple((int(k), int(self.delays[k])) for k in np.flatnonzero(last))

    def completeness(self, captured: int) -> float:
        """Return ``captured`` as a share of all intervals; 1 if there are none."""
        return captured / len(self.spans) if len(self.spans) else 1.0

    def schedule(self, captured: int) -> CaptureSchedule:
        """Return a schedule that captures ``captured`` intervals with delay ``delays[captured]``.

        If the front is not ``exact``, a probe may serve more intervals than it was planned for; the schedule counts all
        that it captures.
        """
        most = len(self.captured)
        if not 0 <= captured <= most:
            raise InvalidScheduleError(f"{captured} intervals cannot be captured, only 0 to {most}")
        taken = np.isin(self._jobs.index, self.captured[:captured])
        part = self._jobs.select(taken)
        room = np.bincount(self.used[:captured] - (part.epoch.start - 1), minlength=len(part.room))
        chosen, slots = earliest_deadline_first(part, np.arange(len(part)), room)
        return self.spans.schedule(part.sources[chosen], part.chronons(slots), exact=self.exact)


def pareto(intervals: Iterable[ExecutionInterval], capacity: Capacity) -> ParetoFront:
    """Return the least total delay for every number of intervals that can be captured within ``capacity``.

    Parameters
    ----------
    intervals
        The end of the epoch replaces an unknown end. Parts outside the epoch cannot be used, but delay counts from the
        start of the interval.

    Notes
    -----
    Source: Roitman, Gal and Raschid, problem 1. Instead of their enumeration and approximation scheme, this finds the
    exact set by a minimum-cost flow with successive shortest paths. The cost of a path is the
    slot it newly uses minus the start of the interval it newly captures. In a minimum-cost flow the slot is the first
    with room after that start. So each such slot has one candidate, the latest remaining start before it, and only for
    the cheapest candidate of all is it checked whether the path exists. An interval that was once refused is refused
    for good. O((E + K) log (E + K)) besides the paths, each of which takes at most the jobs and slots in its reach.

    Examples
    --------
    >>> from proxyd.core.model.chronon import Epoch
    >>> found = [("a", 0, 0), ("b", 0, 3), ("c", 1, 1)]
    >>> intervals = [ExecutionInterval(source, "r", start, deadline) for source, start, deadline in found]
    >>> front = pareto(intervals, Capacity.constant(1, Epoch(0, 4)))
    >>> front.points, front.exact
    (((2, 0), (3, 2)), True)
    >>> front.schedule(3).probes
    (('a', 0), ('c', 1), ('b', 2))
    """
    spans = Spans.of(intervals)
    jobs = Jobs.of(spans, capacity)
    by_start = jobs.select(np.argsort(spans.starts[jobs.index], kind="stable"))
    starts = spans.starts[by_start.index] - (capacity.epoch.start - 1)
    table, slots = tables(by_start.first, by_start.last, by_start.room)
    ends = np.searchsorted(by_start.first, np.arange(len(by_start.room)), side="right")
    order, used = cheapest_first(starts, ends, table, slots)
    delays = np.concatenate([[0], np.cumsum(used - starts[order])])
    return ParetoFront(
        spans,
        delays,
        by_start.index[order],
        by_start.chronons(used),
        are_disjoint(jobs.sources, jobs.first, jobs.last),
        jobs,
    )


def epsilon_cover(front: ParetoFront, epsilon: float) -> tuple[tuple[int, int], ...]:
    """Return the fewest points of the front such that each of its points is covered within ``1 + epsilon``.

    A point (k, D) is covered by (k', D') if ``k <= k' (1 + epsilon)`` and ``D' <= D (1 + epsilon)``.

    Notes
    -----
    Source: the approximate Pareto set of Papadimitriou and Yannakakis, which Roitman, Gal and Raschid's definition 2
    follows. Their definition asks for less delay than the point has, ``D' <= D (1 - epsilon)``, which no front can
    give.

    Examples
    --------
    >>> from proxyd.core.model.chronon import Epoch
    >>> intervals = [ExecutionInterval(str(n), "r", 0, 9) for n in range(10)]
    >>> front = pareto(intervals, Capacity.constant(1, Epoch(0, 10)))
    >>> len(front.points), epsilon_cover(front, 0.5)
    (10, ((1, 0), (2, 1), (4, 6), (8, 28)))
    """
    if epsilon < 0:
        raise ValueError("epsilon must not be negative")
    points = front.points
    chosen: list[tuple[int, int]] = []
    n = 0
    while n < len(points):
        dearest = points[n][1] * (1 + epsilon)
        best = n
        while best + 1 < len(points) and points[best + 1][1] <= dearest:
            best += 1
        chosen.append(points[best])
        n = best + 1
        while n < len(points) and points[n][0] <= points[best][0] * (1 + epsilon):
            n += 1
    return tuple(chosen)
