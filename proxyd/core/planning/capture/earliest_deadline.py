"""Captures the most intervals under a capacity: earliest deadline first."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.capture.capacity import Capacity, Jobs
from proxyd.core.planning.capture.capture_kernels import earliest_first
from proxyd.core.planning.capture.spans import CaptureSchedule, Ints, Spans, are_disjoint


def edf(intervals: Iterable[ExecutionInterval], capacity: Capacity) -> CaptureSchedule:
    """Return a schedule that captures the most intervals within ``capacity``, regardless of delay.

    Each chronon probes the sources of the open intervals that end first. A probe serves every open interval of its
    source.

    Parameters
    ----------
    intervals
        The end of the epoch replaces an unknown end. Parts outside the epoch cannot be used.

    Returns
    -------
    CaptureSchedule
        ``exact`` if the intervals of each source are disjoint, or all that could be captured are captured; ``bound``
        is their number.

    Notes
    -----
    Earliest deadline first on unit jobs with windows: O(E log E) and the chronons of the epoch. If intervals of
    one source overlap this is broadcast scheduling with deadlines, NP-complete; see ``greedy_capture`` for a bound.

    Examples
    --------
    >>> from proxyd.core.model.chronon import Epoch
    >>> found = [("a", 0, 3), ("b", 0, 0), ("c", 0, 1), ("d", 1, 1)]
    >>> intervals = [ExecutionInterval(source, "r", start, deadline) for source, start, deadline in found]
    >>> schedule = edf(intervals, Capacity.constant(1, Epoch(0, 4)))
    >>> schedule.probes, schedule.captured, schedule.delay, schedule.exact
    ((('b', 0), ('c', 1), ('a', 2)), 3, 3, True)
    """
    spans = Spans.of(intervals)
    jobs = Jobs.of(spans, capacity)
    chosen, slots = earliest_deadline_first(jobs, jobs.sources, jobs.room)
    schedule = spans.schedule(jobs.sources[chosen], jobs.chronons(slots), exact=False, bound=float(len(jobs)))
    exact = schedule.captured == len(jobs) or are_disjoint(jobs.sources, jobs.first, jobs.last)
    bound = float(schedule.captured if exact else len(jobs))
    return CaptureSchedule(schedule.probes, schedule.captured, schedule.delay, exact, schedule.weight, bound)


def earliest_deadline_first(jobs: Jobs, sources: Ints, room: Ints) -> tuple[Ints, Ints]:
    """Return the jobs that get a probe and their slots, in order of slots.

    Parameters
    ----------
    sources
        Jobs of one source are served together; shape (n,), numbers below n or below the number of the intervals'
        sources.
    room
        Probes allowed in each slot, as ``Jobs.room``.
    """
    arrivals = np.argsort(jobs.first, kind="stable")
    head = np.full(int(sources.max()) + 1 if len(sources) else 0, -1, dtype=np.int64)
    probes = earliest_first(jobs.first, jobs.last, sources, arrivals, room, head)
    return probes[0], probes[1]
