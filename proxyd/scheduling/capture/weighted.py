"""Most weight captured under a capacity."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from proxyd.model.interval import ExecutionInterval
from proxyd.scheduling.capture.capacity import Capacity, Jobs
from proxyd.scheduling.capture.kernels import SLOT, tables, take_in_order
from proxyd.scheduling.capture.spans import CaptureSchedule, Spans, are_disjoint, checked_weights


def most_weight(intervals: Iterable[ExecutionInterval], weights: ArrayLike, capacity: Capacity) -> CaptureSchedule:
    """Return a schedule that captures the most weight within ``capacity``; it does not look at delay.

    Parameters
    ----------
    intervals
        Where an end is not known it is the end of the epoch. Parts outside the epoch cannot be used.
    weights
        Shape (E,), finite and not negative.

    Returns
    -------
    CaptureSchedule
        ``exact`` where the intervals of each source are disjoint, or all that a probe could capture at all are
        captured; else ``bound`` is the weight of those.

    Raises
    ------
    ValueError
        The weights do not fit the intervals.

    Notes
    -----
    Source: ALGORITHMS 4. The sets that can be captured are the independent sets of a transversal matroid, so taking
    intervals in by falling weight is optimal; a set once tight is never searched again. O(E log E) to sort, and for
    each interval at most the jobs and slots in its reach.

    Examples
    --------
    >>> from proxyd.model.chronon import Epoch
    >>> intervals = [ExecutionInterval(source, "r", 0, 1) for source in "abc"]
    >>> schedule = most_weight(intervals, [1.0, 5.0, 3.0], Capacity.constant(1, Epoch(0, 4)))
    >>> sorted(source for source, _ in schedule.probes), schedule.weight, schedule.exact
    (['b', 'c'], 8.0, True)
    """
    spans = Spans.of(intervals)
    given = checked_weights(weights, len(spans))
    jobs = Jobs.of(spans, capacity)
    table, slots = tables(jobs.first, jobs.last, jobs.room)
    take_in_order(np.argsort(-given[jobs.index], kind="stable"), table, slots)
    placed = np.flatnonzero(table[SLOT])
    exact = are_disjoint(jobs.sources, jobs.first, jobs.last)
    bound = float(np.sum(given[jobs.index]))
    found = spans.schedule(
        jobs.sources[placed], jobs.chronons(table[SLOT, placed]), exact=exact, weights=given, bound=bound
    )
    exact = exact or found.captured == len(jobs)
    return CaptureSchedule(
        found.probes, found.captured, found.delay, exact, found.weight, found.weight if exact else bound
    )
