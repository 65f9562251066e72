"""Kernels of the one-source problem: cheapest paths of links over a grid, by lower envelopes of lines.

A link from slot i to slot j > i costs ``A[j] (L[j] - L[i]) - (G[j] - G[i]) + price[j]``: for a fixed j this is a line
in ``L[i]`` with slope ``-A[j]``. Slots are visited from the last to the first, so slopes only grow and queries only
fall. Therefore one pass over a deque of lines serves a whole layer.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from proxyd.core.planning.kernels.numba_kernels import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def layer(
    L: Floats, A: Floats, G: Floats, base: Floats, reach: Ints, value: Floats, best: Floats, link: Ints,
    lines: Ints, heights: Floats, slopes: Floats,
) -> None:  # fmt: skip
    """Fill ``best[i] = min over j of link(i, j) + value[j]`` and ``link[i]``, the j of the minimum.

    ``base[j]`` is ``A[j] L[j] - G[j]``, infinite if slot j is closed; ``value[j]`` already includes its price.
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


@kernel
def priced(
    L: Floats, A: Floats, G: Floats, base: Floats, reach: Ints, tolerance: float, most: bool,
    best: Floats, link: Ints, links: Ints, lines: Ints, heights: Floats, slopes: Floats,
) -> None:  # fmt: skip
    """Fill the cheapest paths to the last slot with any number of links.

    ``base[j]`` is ``A[j] L[j] - G[j]`` plus the price of a link into j, infinite if slot j is closed. If paths are
    equal within ``tolerance`` at a link, the one with the most links is taken, or without ``most`` the one with the
    fewest. ``links[i]`` counts the links of the path from i. The rest is as for ``layer``.
    """
    last = len(L) - 1
    sign = 1 if most else -1
    front, back = 0, 0
    entered = last + 1
    best[last] = 0.0
    link[last] = -1
    links[last] = 0
    for i in range(last - 1, -1, -1):
        first = reach[i]
        while entered > first:
            entered -= 1
            height = best[entered] + base[entered]
            if height == inf:
                continue
            slope = A[entered]
            top, enters = back - 1, True
            while top >= front:
                below = heights[top]
                steeper = slopes[top]
                rise = height - below
                if steeper == slope:
                    if rise > tolerance or (rise >= -tolerance and sign * (links[entered] - links[lines[top]]) <= 0):
                        enters = False
                        break
                elif top == front or (
                    (below - heights[top - 1]) * (steeper - slope) <= rise * (slopes[top - 1] - steeper)
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
            links[i] = 0
            continue
        x = L[i]
        cost = heights[front] - slopes[front] * x
        ahead = front + 1
        while ahead < back:
            following = heights[ahead] - slopes[ahead] * x
            if following > cost + tolerance:
                break
            # A tie: later the next line takes over for good, but now only if its number of links is preferred.
            if following >= cost - tolerance and sign * (links[lines[ahead]] - links[lines[front]]) <= 0:
                break
            cost = following
            front = ahead
            ahead += 1
        line = lines[front]
        best[i] = G[i] + cost
        link[i] = line
        links[i] = links[line] + 1


@kernel
def bounded_layer(
    L: Floats, A: Floats, G: Floats, value: Floats, reach: Ints, until: Ints, best: Floats, link: Ints
) -> None:
    """Fill ``best`` and ``link`` as ``layer`` does, with successors of i from ``reach[i]`` to ``until[i]`` only.

    A largest gap removes lines that an envelope would need later, so this uses divide and conquer instead. The costs
    are still Monge, so the best successor of a slot lies between those of the slots around it. Closed slots have an
    infinite ``value``.
    """
    parts = [(0, len(L) - 1, 0, len(L) - 1)]
    while parts:
        first, last, low, high = parts.pop()
        if first > last:
            continue
        i = (first + last) // 2
        best[i], link[i] = inf, -1
        for j in range(max(low, reach[i], i + 1), min(high, until[i]) + 1):
            cost = value[j] + A[j] * (L[j] - L[i]) - (G[j] - G[i])
            if cost < best[i]:
                best[i], link[i] = cost, j
        # A slot without a successor says nothing about its neighbours, so both halves keep the whole range.
        split_low, split_high = (high, low) if link[i] < 0 else (link[i], link[i])
        parts.append((first, i - 1, low, split_low))
        parts.append((i + 1, last, split_high, high))
