"""Optimal probes of one source on a grid of slots for every number of probes at once, layer by layer."""

from __future__ import annotations

from math import inf

import numpy as np

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.planning.kernels.costs import Prefix
from proxyd.core.planning.kernels.numba_kernels import flat, kernel
from proxyd.core.planning.kernels.one_source import Grid, OneSourceSchedule


def all_optimal(prefix: Prefix, grid: Grid, probes: int) -> list[OneSourceSchedule | None]:
    """Return the optimal schedules of exactly 1, 2, ..., ``probes`` probes, or ``None`` for each that does not exist.

    O(probes * slots): one pass over an envelope of lines for each number of probes, whereas the paper's Algorithm 1
    takes O(probes * slots^2).

    Notes
    -----
    Source: Eckstein, Gal and Reiner, Algorithm 1 (same optimum); ``docs/algorithms.md``.

    Examples
    --------
    >>> from proxyd.core.model.intensity import PiecewiseConstant
    >>> one = PiecewiseConstant.constant(1.0, 4.0)
    >>> [s.cost for s in all_optimal(Prefix(one, one), Grid([0, 1, 2, 3, 4]), 4)]
    [8.0, 4.0, 3.0, 2.0]
    """
    L, A, G = prefix.at(grid.times)
    size = len(grid.times)
    value = np.full(size, np.inf)
    value[-1] = grid.price[-1]
    links = [flat(np.empty(size, dtype=np.int64)) for _ in range(probes)]
    costs = flat(L), flat(A), flat(G)
    base, reach = flat(A * L - G), flat(grid.reach)
    envelope = flat(np.empty(size, dtype=np.int64)), flat(np.empty(size)), flat(np.empty(size))
    found: list[OneSourceSchedule | None] = []
    for count in range(probes):
        best = flat(np.empty(size))
        _layer(*costs, base, reach, flat(value), best, links[count], *envelope)
        value = np.asarray(best) + grid.price
        slots = _follow_layers(links, count) if best[0] < np.inf else None
        found.append(None if slots is None else grid.schedule(prefix, slots))
    return found


def _follow_layers(links: list[Ints], count: int) -> list[int]:
    slots, slot = [], 0
    for row in range(count, -1, -1):
        slot = int(links[row][slot])
        slots.append(slot)
    return slots


@kernel
def _layer(
    L: Floats, A: Floats, G: Floats, base: Floats, reach: Ints, value: Floats, best: Floats, link: Ints,
    lines: Ints, heights: Floats, slopes: Floats,
) -> None:  # fmt: skip
    """Fill ``best[i] = min over j of link(i, j) + value[j]`` and ``link[i]``, the j of the minimum.

    ``base[j]`` is ``A[j] L[j] - G[j]``; ``value[j]`` already includes its price.
    ``reach[i] > i`` is the first slot that may follow i; lines enter when they come into reach. Infinite values never
    enter. Slots without a successor get infinity and -1. ``lines``, ``heights`` and ``slopes`` (negated) are working
    space for the envelope.
    """
    front, back = 0, 0
    entered = len(L)
    for i in range(len(L) - 1, -1, -1):
        first = reach[i]
        while entered > first:
            entered -= 1
            height = value[entered] + base[entered]
            if height == inf:
                continue
            slope = A[entered]
            # Drop the lines at the back that the new one covers. Slopes only grow, so a dropped line never returns.
            top, enters = back - 1, True
            while top >= front:
                below = heights[top]
                steeper = slopes[top]
                if steeper == slope:
                    if below <= height:
                        enters = False
                        break
                elif top == front or (
                    # The line stays if its crossing with the previous line is right of that with the new one.
                    (below - heights[top - 1]) * (steeper - slope) < (height - below) * (slopes[top - 1] - steeper)
                ):
                    break
                top -= 1
            if enters:
                back = top + 1
                lines[back] = entered
                heights[back] = height
                slopes[back] = slope
                back += 1
        if back == front:
            best[i] = inf
            link[i] = -1
            continue
        # Queries only fall, so a line that the next one undercuts is never the best again: move the front past it.
        x = L[i]
        cost = heights[front] - slopes[front] * x
        ahead = front + 1
        while ahead < back:
            following = heights[ahead] - slopes[ahead] * x
            if following > cost:
                break
            cost = following
            front = ahead
            ahead += 1
        best[i] = G[i] + cost
        link[i] = lines[front]
