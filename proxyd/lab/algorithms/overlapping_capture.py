"""Overlapping intervals of one page within a capacity: a greedy schedule, and an upper bound for all schedules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import floor
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.errors import SchedulingError, extra_hint
from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.capture.capture_kernels import SLOT, tables, take_in_order
from proxyd.core.planning.capture.earliest_deadline import (
    OPEN,
    Capacity,
    CaptureSchedule,
    Jobs,
    Spans,
    are_disjoint,
    edf,
)
from proxyd.core.planning.kernels.numba_kernels import kernel

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

_TOLERANCE = 1e-6
_CERTIFIED_CHRONONS = 2_000_000


def greedy_capture(
    intervals: Iterable[ExecutionInterval],
    capacity: Capacity,
    weights: ArrayLike | None = None,
    *,
    certify: bool = True,
) -> CaptureSchedule:
    """Return a schedule that probes in each chronon where most weight is most urgent, with a bound.

    Each chronon probes the sources with the largest ``sum w / (slack + 1)`` over their open uncaptured intervals;
    slack is the number of chronons left after this one, and ties go to the name that sorts first. A probe serves all
    open intervals of its source. The schedule may capture less than the best one.

    Parameters
    ----------
    intervals
        An interval without a known end lasts to the end of the epoch. Parts outside the epoch are ignored.
    weights
        Shape (E,), finite and not negative; ``None`` for 1 each.
    certify
        Solve ``lp_bound``; otherwise ``bound`` is the total weight of all intervals that a probe could capture.

    Returns
    -------
    CaptureSchedule
        ``exact`` if it captures the whole bound, which is rounded down for whole weights.

    Notes
    -----
    Source: ``docs/algorithms.md``. The problem is broadcast scheduling with deadlines, which is NP-complete. O(open
    intervals) for each chronon.

    Examples
    --------
    >>> from proxyd.core.model.chronon import Epoch
    >>> found = [("a", 0, 3), ("a", 2, 5), ("b", 2, 2), ("c", 3, 9)]
    >>> intervals = [ExecutionInterval(source, "r", start, deadline) for source, start, deadline in found]
    >>> schedule = greedy_capture(intervals, Capacity(Epoch(0, 10), [0, 0, 1, 1, 1, 0, 0, 0, 0, 0]))
    >>> schedule.probes, schedule.captured, schedule.exact
    ((('b', 2), ('a', 3), ('c', 4)), 4, True)
    """
    given = list(intervals)
    spans = Spans.of(given)
    jobs = Jobs.of(spans, capacity)
    worth = _check_weights(weights, len(spans))
    order = np.argsort(jobs.first, kind="stable")
    by_start = jobs.select(order)
    columns = np.stack([by_start.sources, by_start.first, by_start.last])
    probes = _greedy(columns, worth[by_start.index], jobs.room, np.zeros(len(spans.names)))
    found = spans.schedule(probes[0], jobs.chronons(probes[1]), exact=False, weights=worth)
    whole = float(np.sum(worth[jobs.index]))
    bound = lp_bound(given, capacity, weights) if certify and found.weight < whole else whole
    return replace(found, bound=bound, exact=found.weight >= bound - _TOLERANCE * max(1.0, bound))


def lp_bound(intervals: Iterable[ExecutionInterval], capacity: Capacity, weights: ArrayLike | None = None) -> float:
    """Return an upper bound of the weight that a schedule within ``capacity`` captures; whole for whole weights.

    Raises
    ------
    SchedulingError
        The solver found no solution, or is not installed.

    Notes
    -----
    Source: ``docs/algorithms.md``. The linear program allows fractional probes and captures: an interval is captured
    as far as its source is probed inside it, and a chronon's probes sum to at most ``C_j``. The solver (HiGHS) works
    to a tolerance, so the bound comes not from its solution but from its dual prices, for which it holds whatever
    their error. With price l_i of an interval's capture and m_j of a chronon's probe, it is the sum of ``C_j m_j``,
    of ``max(0, w_i - l_i)`` over intervals, and of ``max(0, l - m_j)`` over possible probes, where l is the sum of
    the prices of the captures that the probe serves.

    If each source's intervals are disjoint, the bound is attained: the program is a flow.

    Examples
    --------
    >>> from proxyd.core.model.chronon import Epoch
    >>> intervals = [ExecutionInterval(source, "r", 0, 1) for source in "abc"]
    >>> lp_bound(intervals, Capacity.constant(1, Epoch(0, 4)))
    2.0
    """
    try:
        from scipy.optimize import linprog
        from scipy.sparse import csr_matrix, hstack, identity, vstack
    except ModuleNotFoundError as error:
        raise SchedulingError(f"the bound: {extra_hint('lab')}") from error
    spans = Spans.of(intervals)
    jobs = Jobs.of(spans, capacity)
    worth = _check_weights(weights, len(spans))[jobs.index]
    if not len(jobs):
        return 0.0
    serves, slots = _program(jobs)
    taken = csr_matrix((np.ones(len(slots)), (slots, np.arange(len(slots)))), shape=(len(jobs.room), len(slots)))
    nothing = csr_matrix((len(jobs.room), len(jobs)))
    solved = linprog(
        np.concatenate([np.zeros(len(slots)), -worth]),
        A_ub=vstack([hstack([-serves, identity(len(jobs))]), hstack([taken, nothing])], format="csr"),
        b_ub=np.concatenate([np.zeros(len(jobs)), jobs.room]),
        bounds=(0, 1),
        method="highs",
    )
    if not solved.success:
        raise SchedulingError(f"the bound could not be computed: {solved.message}")
    prices = np.maximum(0.0, -solved.ineqlin.marginals)
    capture, slot = prices[: len(jobs)], prices[len(jobs) :]
    rent = np.maximum(0.0, serves.T @ capture - slot[slots])
    bound = float(jobs.room @ slot + np.sum(np.maximum(0.0, worth - capture)) + np.sum(rent))
    return float(floor(bound + _TOLERANCE * max(1.0, bound))) if np.all(worth == np.round(worth)) else bound


def _program(jobs: Jobs) -> tuple[csr_matrix, Ints]:
    """Return which possible probes serve which jobs, shape (jobs, probes), and the slot of each possible probe."""
    from scipy.sparse import csr_matrix

    lengths = jobs.last - jobs.first + 1
    row = np.repeat(np.arange(len(jobs)), lengths)
    begun = np.cumsum(lengths) - lengths
    slot = np.arange(len(row)) - begun[row] + jobs.first[row]
    usable = jobs.room[slot] > 0
    row, slot = row[usable], slot[usable]
    keys, column = np.unique(jobs.sources[row] * np.int64(len(jobs.room)) + slot, return_inverse=True)
    return csr_matrix((np.ones(len(row)), (row, column)), shape=(len(jobs), len(keys))), keys % len(jobs.room)


@kernel
def _greedy(jobs: Ints, weights: Floats, room: Ints, stake: Floats) -> Ints:
    """Return sources and slots of the probes, shape (2, probes).

    Rows of ``jobs``, in order of the first slot: source, first and last slot. ``stake`` is zero for each source.
    """
    count = jobs.shape[1]
    probes = np.empty((2, count), dtype=np.int64)
    waiting = np.empty(count, dtype=np.int64)
    probed = np.zeros(len(stake), dtype=np.bool_)
    made, size, arrived = 0, 0, 0
    for slot in range(1, len(room) - 1):
        while arrived < count and jobs[1, arrived] <= slot:
            waiting[size] = arrived
            size += 1
            arrived += 1
        if room[slot] == 0 or size == 0:
            continue
        asking = _asking(slot, waiting[:size], jobs, weights, stake)
        order = np.argsort(-stake[asking], kind="mergesort")  # stable
        for n in order[: room[slot]]:
            probes[0, made], probes[1, made] = asking[n], slot
            probed[asking[n]] = True
            made += 1
        stake[asking] = 0.0
        size = _still_waiting(slot, waiting, size, jobs, probed)
        probed[asking] = False
    return probes[:, :made]


@kernel
def _asking(slot: int, waiting: Ints, jobs: Ints, weights: Floats, stake: Floats) -> Ints:
    """Return the sources with an open job, in order, and add each one's weight to ``stake``."""
    sources = np.empty(len(waiting), dtype=np.int64)
    count = 0
    for job in waiting:
        if jobs[2, job] >= slot:
            sources[count] = jobs[0, job]
            count += 1
            stake[jobs[0, job]] += weights[job] / (jobs[2, job] - slot + 1)
    return np.unique(sources[:count])


@kernel
def _still_waiting(slot: int, waiting: Ints, size: int, jobs: Ints, probed: NDArray[np.bool_]) -> int:
    """Keep the jobs in ``waiting[:size]`` that a later slot can serve, and return their number."""
    kept = 0
    for n in range(size):
        job = waiting[n]
        if jobs[2, job] > slot and not probed[jobs[0, job]]:
            waiting[kept] = job
            kept += 1
    return kept


def most_weight(intervals: Iterable[ExecutionInterval], weights: ArrayLike, capacity: Capacity) -> CaptureSchedule:
    """Return a schedule that captures the most weight within ``capacity``; it ignores delay.

    Parameters
    ----------
    intervals
        An interval without a known end lasts to the end of the epoch. Parts outside the epoch are ignored.
    weights
        Shape (E,), finite and not negative.

    Returns
    -------
    CaptureSchedule
        ``exact`` if each source's intervals are disjoint, or if it captures every interval that a probe could
        capture; otherwise ``bound`` is the weight of the latter.

    Raises
    ------
    ValueError
        The weights do not match the intervals.

    Notes
    -----
    Source: ``docs/algorithms.md``. The sets that can be captured are the independent sets of a transversal matroid,
    so adding intervals in order of falling weight is optimal; a set that is tight is not searched again. O(E log E)
    to sort, and for each interval at most the jobs and slots in its reach.

    Examples
    --------
    >>> from proxyd.core.model.chronon import Epoch
    >>> intervals = [ExecutionInterval(source, "r", 0, 1) for source in "abc"]
    >>> schedule = most_weight(intervals, [1.0, 5.0, 3.0], Capacity.constant(1, Epoch(0, 4)))
    >>> sorted(source for source, _ in schedule.probes), schedule.weight, schedule.exact
    (['b', 'c'], 8.0, True)
    """
    spans = Spans.of(intervals)
    given = _check_weights(weights, len(spans))
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
    return replace(found, exact=exact, bound=found.weight if exact else bound)


def weight_of_captures(schedule: CaptureSchedule, intervals: Sequence[ExecutionInterval], weights: Floats) -> float:
    """Return the weight of the intervals that the probes of a schedule capture, each at its source.

    >>> from proxyd.core.model.chronon import Epoch
    >>> intervals, room = [ExecutionInterval(name, "r", 0, 1) for name in "abc"], Capacity.constant(1, Epoch(0, 4))
    >>> weight_of_captures(most_weight(intervals, [1.0, 5.0, 3.0], room), intervals, np.array([1.0, 5.0, 3.0]))
    8.0
    """
    spans = Spans.of(intervals)
    number = {name: n for n, name in enumerate(spans.names)}
    probes = np.array([(number[source], chronon) for source, chronon in schedule.probes], dtype=np.int64).reshape(-1, 2)
    return float(np.sum(weights[spans.first_captures(probes[:, 0], probes[:, 1]) < OPEN]))


def most_captured(given: Sequence[ExecutionInterval], capacity: Capacity, weights: Floats | None) -> CaptureSchedule:
    """Return the schedule that captures most intervals or weight; if that is hard, a greedy one with a bound.

    >>> from proxyd.core.model.chronon import Epoch
    >>> intervals, room = [ExecutionInterval(name, "r", 0, 1) for name in "abc"], Capacity.constant(1, Epoch(0, 4))
    >>> most_captured(intervals, room, None).captured
    2
    """
    if weights is None or np.all(weights == weights[0]):
        found, each = edf(given, capacity), 1.0 if weights is None else float(weights[0])
        found = replace(found, weight=found.weight * each, bound=found.bound and found.bound * each)
    else:
        found = most_weight(given, weights, capacity)
    if found.exact:
        return found
    ends = [interval.start if interval.deadline is None else interval.deadline for interval in given]
    lengths = sum(end - interval.start + 1 for interval, end in zip(given, ends, strict=True))
    greedy = greedy_capture(given, capacity, weights, certify=lengths <= _CERTIFIED_CHRONONS)
    best = max(greedy, found, key=lambda schedule: (schedule.weight, -schedule.delay))
    bound = greedy.bound
    return replace(best, bound=bound, exact=bound is not None and best.weight >= bound - 1e-9 * max(1.0, bound))


def fits(found: CaptureSchedule, capacity: Capacity) -> bool:
    """Return whether the schedule keeps to the capacity.

    >>> from proxyd.core.model.chronon import Epoch
    >>> intervals, room = [ExecutionInterval(name, "r", 0, 1) for name in "abc"], Capacity.constant(1, Epoch(0, 4))
    >>> fits(most_captured(intervals, room, None), room)
    True
    """
    chronons = np.array([chronon for _, chronon in found.probes], dtype=np.int64) - capacity.epoch.start
    used = np.bincount(chronons, minlength=len(capacity.epoch))
    return bool(np.all(used <= capacity.probes))


def _check_weights(weights: ArrayLike | None, count: int) -> Floats:
    """Return the weights as an array of shape (count,), 1 each for ``None``; a ``ValueError`` if they do not fit."""
    if weights is None:
        return np.ones(count)
    found = np.asarray(weights, dtype=np.float64)
    if found.shape != (count,):
        raise ValueError(f"{count} intervals need as many weights, not {found.size}")
    if not np.all(np.isfinite(found)) or np.any(found < 0):
        raise ValueError("weights must be finite and not negative")
    return found
