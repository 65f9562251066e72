"""Earliest deadline first within a capacity: unit jobs in the slots that have room."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.model.chronon import Chronon, Epoch
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.capture.capture_kernels import earliest_first

OPEN = np.int64(2**62)
"""The deadline of an interval whose end is not known, and the chronon at which one that is missed is captured."""


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

    Jobs of the same source share a probe. ``sources`` numbers them, below n or below the number of sources. ``room`` is
    that of ``Jobs.room``.
    """
    arrivals = np.argsort(jobs.first, kind="stable")
    head = np.full(int(sources.max()) + 1 if len(sources) else 0, -1, dtype=np.int64)
    probes = earliest_first(jobs.first, jobs.last, sources, arrivals, room, head)
    return probes[0], probes[1]


@dataclass(frozen=True, slots=True, eq=False)
class Capacity:
    """``C_j`` for each chronon of an epoch.

    >>> Capacity.of(lambda chronon: chronon % 2, Epoch(0, 4)).probes.tolist()
    [0, 1, 0, 1]
    """

    epoch: Epoch
    probes: Ints

    def __init__(self, epoch: Epoch, probes: ArrayLike) -> None:
        given = np.asarray(probes)
        allowed = given.astype(np.int64)
        if allowed.shape != (len(epoch),):
            raise ValueError(f"an epoch of {len(epoch)} chronons needs as many capacities, not {allowed.size}")
        if np.any(allowed < 0) or np.any(allowed != given):
            raise ValueError("capacities must be whole numbers and not negative")
        object.__setattr__(self, "epoch", epoch)
        object.__setattr__(self, "probes", allowed)

    @classmethod
    def constant(cls, probes: int, epoch: Epoch) -> Capacity:
        """Return a capacity of ``probes`` at every chronon."""
        return cls(epoch, np.full(len(epoch), probes, dtype=np.int64))

    @classmethod
    def of(cls, capacity: Callable[[Chronon], int], epoch: Epoch) -> Capacity:
        """Return the capacity that a function such as ``PlannerSettings.capacity`` gives for every chronon."""
        return cls(epoch, np.array([capacity(chronon) for chronon in epoch], dtype=np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Jobs:
    """The intervals that a probe within a capacity could capture, in order of deadline, then start, then source."""

    index: Ints  # of each job's interval, shape (n,)
    sources: Ints
    first: Ints  # the first slot that can serve each, numbered from 1 for the epoch's first chronon
    last: Ints  # inclusive
    room: Ints  # probes allowed in each slot, shape (chronons + 2,); the first and last are 0
    epoch: Epoch

    @classmethod
    def of(cls, spans: Spans, capacity: Capacity) -> Jobs:
        """Return the jobs of ``spans``; the end of the epoch replaces an open end."""
        begin, chronons = capacity.epoch.start, len(capacity.epoch)
        first = np.maximum(spans.starts, begin) - begin + 1
        last = np.minimum(spans.deadlines, begin + chronons - 1) - begin + 1
        room = np.concatenate([[0], capacity.probes, [0]]).astype(np.int64)
        total = np.cumsum(room)
        inside = np.flatnonzero(first <= last)
        index = inside[total[last[inside]] > total[first[inside] - 1]]
        order = np.lexsort((spans.sources[index], spans.starts[index], last[index]))
        index = index[order]
        return cls(index, spans.sources[index], first[index], last[index], room, capacity.epoch)

    def __len__(self) -> int:
        return len(self.index)

    def select(self, which: NDArray[np.bool_] | Ints) -> Jobs:
        """Return some of the jobs, or all in another order, by mask or by index."""
        return Jobs(self.index[which], self.sources[which], self.first[which], self.last[which], self.room, self.epoch)

    def chronons(self, slots: Ints) -> Ints:
        """Return the chronons of these slots."""
        return slots + (self.epoch.start - 1)


@dataclass(frozen=True, slots=True)
class CaptureSchedule:
    """Probes as (source, chronon), the number of intervals they capture, and the total delay from start to capture."""

    probes: tuple[tuple[str, Chronon], ...]
    captured: int
    delay: int
    exact: bool = True  # whether no schedule is better at the stated objective
    weight: float = 0.0  # of the captured intervals, 1 each if no weights were given
    bound: float | None = None  # no schedule captures more weight; ``None`` if only ``exact`` is known


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Intervals as arrays, all of shape (E,): index of the source, first and last chronon."""

    names: tuple[str, ...]  # sorted
    sources: Ints  # indices into ``names``
    starts: Ints
    deadlines: Ints  # ``OPEN`` if the end is not known

    @classmethod
    def of(cls, intervals: Iterable[ExecutionInterval]) -> Spans:
        """Return the arrays of ``intervals``, in the given order."""
        given = intervals if isinstance(intervals, Sequence) else list(intervals)
        own = [interval.source_id for interval in given]
        names = tuple(sorted(set(own)))
        number = {name: n for n, name in enumerate(names)}
        ends = [OPEN if interval.deadline is None else interval.deadline for interval in given]
        return cls(
            names,
            np.array([number[name] for name in own], dtype=np.int64),
            np.array([interval.start for interval in given], dtype=np.int64),
            np.array(ends, dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def first_captures(self, sources: Ints, chronons: Ints) -> Ints:
        """Return for each interval the chronon of the first probe that captures it, or ``OPEN`` if none does."""
        if not len(self) or not len(sources):
            return np.full(len(self), OPEN)
        low = int(min(self.starts.min(), chronons.min()))
        width = int(max(self.starts.max(), chronons.max())) - low + 1
        keys = np.unique(timeline(sources, chronons - low, width))
        at = np.searchsorted(keys, timeline(self.sources, self.starts - low, width))
        source, chronon = np.divmod(np.append(keys, -1)[at], width)
        served = (source == self.sources) & (chronon + low <= self.deadlines)
        return np.where(served, chronon + low, OPEN)

    def schedule(
        self, sources: Ints, chronons: Ints, *, exact: bool, weights: Floats | None = None, bound: float | None = None
    ) -> CaptureSchedule:
        """Return the schedule of these probes with all that it captures; equal probes count once."""
        at = self.first_captures(sources, chronons)
        caught = at < OPEN
        weight = float(np.sum(caught if weights is None else weights[caught]))
        order = np.lexsort((sources, chronons))
        probes = dict.fromkeys(
            zip((self.names[n] for n in sources[order].tolist()), chronons[order].tolist(), strict=True)
        )
        delay = int(np.sum(at[caught] - self.starts[caught]))
        return CaptureSchedule(tuple(probes), int(np.count_nonzero(caught)), delay, exact, weight, bound)


def timeline(sources: Ints, times: Ints, width: int) -> Ints:
    """Return positions on one line that holds the time of every source, ``width`` chronons for each."""
    if len(sources) and (int(sources.max()) + 1) * width >= 2**62:
        raise ValueError(f"{int(sources.max()) + 1} sources of {width} chronons are too many to number")
    return sources * np.int64(width) + times


def are_disjoint(sources: Ints, first: Ints, last: Ints) -> bool:
    """Return whether no two intervals of one source share a chronon."""
    order = np.lexsort((first, sources))
    same = np.diff(sources[order]) == 0
    return not bool(np.any(same & (first[order][1:] <= last[order][:-1])))
