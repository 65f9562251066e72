"""Kernels of capture under a capacity: a heap, earliest deadline first, and unit jobs in windows of slots.

They call each other, so they share a file: the compiler's cache of a caller does not notice a change in another file.

A set of jobs takes in one more by moving others. A job reaches every slot of its window, and a full slot reaches all
slots that its jobs reach. As windows are runs of slots, the reachable slots form one run that grows at its ends. A
search that finds no room proves that its run is full of jobs that cannot leave it; later searches skip this run.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proxyd.core.model.arrays import Ints
from proxyd.core.planning.kernels.numba_kernels import kernel

# Rows of the table of jobs, shape (5, jobs): slot 0 means not placed, -1 means no next or previous job in the slot.
FIRST, LAST, SLOT, NEXT, PREVIOUS = range(5)
# Rows of the table of slots, shape (6, slots + 2): room, its first job, the next slots to either side that a search
# must look at (union-find), the job that a search would move there, and the queue of a search.
ROOM, HEAD, AFTER, BEFORE, VIA, QUEUE = range(6)


def tables(first: Ints, last: Ints, room: Ints) -> tuple[Ints, Ints]:
    """Return the tables of jobs and of slots with nothing placed; ``room`` has an empty slot at either end."""
    jobs = np.zeros((5, len(first)), dtype=np.int64)
    jobs[FIRST], jobs[LAST] = first, last
    slots = np.zeros((6, len(room)), dtype=np.int64)
    slots[ROOM], slots[HEAD] = room, -1
    places = np.arange(len(room))
    usable = room > 0
    usable[[0, -1]] = True  # the ends stop every search
    slots[BEFORE] = np.maximum.accumulate(np.where(usable, places, 0))
    slots[AFTER] = np.minimum.accumulate(np.where(usable, places, len(room) - 1)[::-1])[::-1]
    return jobs, slots


@kernel
def root(parents: Ints, place: int) -> int:
    """Return the root that ``parents`` lead to from ``place``, and shorten the path (union-find)."""
    while parents[place] != place:
        parents[place] = parents[parents[place]]
        place = parents[place]
    return place


@kernel
def take_in(job: int, jobs: Ints, slots: Ints) -> int:
    """Return the slot newly used after placing ``job``, or 0 if all jobs cannot be placed together with it.

    Every job placed stays placed, and every slot in use stays in use.
    """
    run = np.empty(3, dtype=np.int64)
    # Search breadth first, from the window of the job to the windows of the jobs that fill it.
    run[0], run[1], run[2] = jobs[FIRST, job], jobs[FIRST, job] - 1, 0
    found = _grow(job, run, jobs, slots)
    looked_at = 0
    while found == 0 and looked_at < run[2]:
        occupant = slots[HEAD, slots[QUEUE, looked_at]]
        looked_at += 1
        while found == 0 and occupant >= 0:
            found = _grow(occupant, run, jobs, slots)
            occupant = jobs[NEXT, occupant]
    if found == 0:
        # The run is full for good, because no job in it can leave it. Link its slots past each other, so that later
        # searches skip them.
        for n in range(run[2]):
            slot = slots[QUEUE, n]
            slots[BEFORE, slot], slots[AFTER, slot] = slot - 1, slot + 1
        return 0
    slots[ROOM, found] -= 1
    # Shift jobs along the path of the search, from the slot with room back to the new job.
    at = found
    while True:
        mover = slots[VIA, at]
        origin = jobs[SLOT, mover]
        _move(mover, at, jobs, slots)
        if mover == job:
            return found
        at = origin


@kernel
def _grow(mover: int, run: Ints, jobs: Ints, slots: Ints) -> int:
    """Add the window of ``mover`` to the run (first, last, queued) and return the first new slot with room, or 0."""
    at = root(slots[AFTER], run[1] + 1)
    while at <= jobs[LAST, mover]:
        run[1] = at
        if _queue(at, mover, run, slots):
            return at
        at = root(slots[AFTER], at + 1)
    at = root(slots[BEFORE], run[0] - 1)
    while at >= jobs[FIRST, mover]:
        run[0] = at
        if _queue(at, mover, run, slots):
            return at
        at = root(slots[BEFORE], at - 1)
    return 0


@kernel
def _queue(at: int, mover: int, run: Ints, slots: Ints) -> bool:
    """Put a slot in the queue and return whether it has room."""
    slots[VIA, at] = mover
    slots[QUEUE, run[2]] = at
    run[2] += 1
    return bool(slots[ROOM, at] > 0)


@kernel
def _move(job: int, slot: int, jobs: Ints, slots: Ints) -> None:
    """Take ``job`` out of the chain of its slot, if it has one, and add it to that of ``slot``."""
    origin, following, previous = jobs[SLOT, job], jobs[NEXT, job], jobs[PREVIOUS, job]
    if origin > 0:
        if previous >= 0:
            jobs[NEXT, previous] = following
        else:
            slots[HEAD, origin] = following
        if following >= 0:
            jobs[PREVIOUS, following] = previous
    jobs[SLOT, job], jobs[NEXT, job], jobs[PREVIOUS, job] = slot, slots[HEAD, slot], -1
    if slots[HEAD, slot] >= 0:
        jobs[PREVIOUS, slots[HEAD, slot]] = job
    slots[HEAD, slot] = job


@kernel
def take_in_order(order: Ints, jobs: Ints, slots: Ints) -> None:
    """Place one job after the other if that is possible."""
    for n in range(len(order)):
        take_in(order[n], jobs, slots)


@kernel
def cheapest_first(starts: Ints, ends: Ints, jobs: Ints, slots: Ints) -> tuple[Ints, Ints]:
    """Return the jobs in the order of their capture and the slot each newly uses.

    Jobs are numbered by start; ``ends[slot]`` counts those that may use it or an earlier one. ``left`` leads from a
    number of jobs to the last of them not yet tried, plus 1; ``free`` leads from a slot to the first one with room.
    """
    count, width = len(starts), len(ends)
    left = np.arange(count + 1)
    free = np.where(slots[ROOM] > 0, np.arange(width), np.arange(width) + 1)
    free[width - 1] = width - 1
    heap = np.empty(count + width, dtype=np.int64)
    order, used = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    size, made = 0, 0
    # The heap holds one candidate for each slot with room: the latest start before it has the least delay.
    for slot in range(1, width - 1):
        key = _candidate(slot, starts, ends, left, free, jobs)
        if key >= 0:
            size = push(heap, size, key)
    while size > 0:
        key = pop(heap, size)
        size -= 1
        slot = key % width
        if key != _candidate(slot, starts, ends, left, free, jobs):
            continue  # outdated: the slot filled up, or its candidate was tried since
        job = root(left, ends[slot]) - 1
        left[job + 1] = job
        if take_in(job, jobs, slots) > 0:
            order[made], used[made] = job, slot
            made += 1
            if slots[ROOM, slot] == 0:
                free[slot] = slot + 1
        # The slot, or the next one with room if it is full now, has another candidate.
        key = _candidate(root(free, slot), starts, ends, left, free, jobs)
        if key >= 0:
            size = push(heap, size, key)
    return order[:made], used[:made]


@kernel
def _candidate(slot: int, starts: Ints, ends: Ints, left: Ints, free: Ints, jobs: Ints) -> int:
    """Return ``delay * slots + slot`` for the cheapest untried job whose first slot with room is this one, or -1."""
    job = root(left, ends[slot]) - 1
    if job < 0 or root(free, jobs[FIRST, job]) != slot:
        return -1
    return int((slot - starts[job]) * len(ends) + slot)


@kernel
def earliest_first(first: Ints, last: Ints, sources: Ints, arrivals: Ints, room: Ints, head: Ints) -> Ints:
    """Return jobs and slots of the probes, shape (2, probes); jobs are numbered in order of deadline.

    ``head[source]`` and ``following`` chain the jobs of a source that arrived since its last probe.
    """
    count = len(first)
    probes = np.empty((2, count), dtype=np.int64)
    heap, following = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    caught = np.zeros(count, dtype=np.bool_)
    made, size, arrived = 0, 0, 0
    for slot in range(1, len(room) - 1):
        while arrived < count and first[arrivals[arrived]] <= slot:
            job = arrivals[arrived]
            size = push(heap, size, job)
            following[job] = head[sources[job]]
            head[sources[job]] = job
            arrived += 1
        left = room[slot]
        while left > 0 and size > 0:
            job = pop(heap, size)
            size -= 1
            # A job leaves the heap only when it comes first, so it may have been served or have ended long before.
            if caught[job] or last[job] < slot:
                continue
            probes[0, made], probes[1, made] = job, slot
            made += 1
            left -= 1
            _serve(sources[job], head, following, caught)
    return probes[:, :made]


@kernel
def _serve(source: int, head: Ints, following: Ints, caught: NDArray[np.bool_]) -> None:
    """Mark the chained jobs of ``source``; those that have ended are marked too, as nothing can serve them."""
    job = head[source]
    while job >= 0:
        caught[job] = True
        job = following[job]
    head[source] = -1


@kernel
def push(heap: Ints, size: int, key: int) -> int:
    """Put ``key`` into the binary heap ``heap[:size]``, smallest first, and return its new size."""
    at = size
    while at > 0 and heap[(at - 1) // 2] > key:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = key
    return size + 1


@kernel
def pop(heap: Ints, size: int) -> int:
    """Take the smallest key out of ``heap[:size]`` (not empty), leaving ``size - 1`` keys, and return it."""
    least = heap[0]
    key = heap[size - 1]
    at, child = 0, 1
    while child < size - 1:
        if child + 1 < size - 1 and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= key:
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at] = key
    return int(least)
