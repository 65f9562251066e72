"""Kernels of the one-source problem: paths of cheapest links over a grid, by lower envelopes of lines.

A link from slot i to slot j > i costs ``A[j] (L[j] - L[i]) - (G[j] - G[i]) + price[j]``: for a fixed j a line in
``L[i]`` with slope ``-A[j]``. Slots are visited from the last to the first, so slopes only grow and queries only fall:
one pass over a deque of lines serves a whole layer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proxyd.scheduling.compiled import kernel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@kernel
def layer(
    L: Floats, A: Floats, G: Floats, value: Floats, reach: Ints, is_open: NDArray[np.bool_], best: Floats, link: Ints
) -> None:
    """Fill ``best[i] = min over j of link(i, j) + value[j]`` and ``link[i]``, the j of the minimum.

    ``value[j]`` holds the price of slot j already. ``reach[i]`` is the first slot that may follow i; lines enter when
    they come into reach. Closed slots and infinite values never enter. Slots without a successor get infinity and -1.
    """
    last = len(L) - 1
    lines = np.empty(last + 1, dtype=np.int64)
    front, back = 0, 0
    entered = last + 1
    for i in range(last, -1, -1):
        while entered - 1 >= reach[i] and entered - 1 > i:
            entered -= 1
            j = entered
            if not is_open[j] or value[j] == np.inf:
                continue
            slope, height = -A[j], value[j] + A[j] * L[j] - G[j]
            while back > front:
                k = lines[back - 1]
                slope_k, height_k = -A[k], value[k] + A[k] * L[k] - G[k]
                if slope_k == slope:
                    if height_k <= height:
                        break
                    back -= 1
                    continue
                if back - front == 1:
                    break
                h = lines[back - 2]
                slope_h, height_h = -A[h], value[h] + A[h] * L[h] - G[h]
                # k is on the envelope where the crossing with h lies right of the crossing with the new line
                if (height_k - height_h) * (slope - slope_k) < (height - height_k) * (slope_k - slope_h):
                    break
                back -= 1
            if back > front:
                k = lines[back - 1]
                if -A[k] == slope:
                    continue
            lines[back] = j
            back += 1
        if back == front:
            best[i] = np.inf
            link[i] = -1
            continue
        x = L[i]
        while back - front > 1:
            j, k = lines[front], lines[front + 1]
            if value[k] + A[k] * L[k] - G[k] - A[k] * x <= value[j] + A[j] * L[j] - G[j] - A[j] * x:
                front += 1
            else:
                break
        j = lines[front]
        best[i] = G[i] + value[j] + A[j] * L[j] - G[j] - A[j] * x
        link[i] = j


@kernel
def priced(
    L: Floats,
    A: Floats,
    G: Floats,
    price: Floats,
    per_link: float,
    reach: Ints,
    is_open: NDArray[np.bool_],
    tolerance: float,
    most: bool,
    best: Floats,
    link: Ints,
    links: Ints,
) -> None:
    """Fill the cheapest paths to the last slot with any number of links, each costing ``per_link`` besides.

    Among paths equal within ``tolerance`` at a link the one with the most links is taken, or with the fewest.
    ``links[i]`` counts those of the path from i.
    """
    last = len(L) - 1
    lines = np.empty(last + 1, dtype=np.int64)
    front, back = 0, 0
    entered = last + 1
    best[last], link[last], links[last] = 0.0, -1, 0
    for i in range(last - 1, -1, -1):
        while entered - 1 >= reach[i] and entered - 1 > i:
            entered -= 1
            j = entered
            if not is_open[j] or best[j] == np.inf:
                continue
            slope, height = -A[j], best[j] + price[j] + per_link + A[j] * L[j] - G[j]
            dropped = False
            while back > front:
                k = lines[back - 1]
                slope_k, height_k = -A[k], best[k] + price[k] + per_link + A[k] * L[k] - G[k]
                if slope_k == slope:
                    same = abs(height_k - height) <= tolerance
                    better = links[j] > links[k] if most else links[j] < links[k]
                    if (same and not better) or (not same and height_k < height):
                        dropped = True
                        break
                    back -= 1
                    continue
                if back - front == 1:
                    break
                h = lines[back - 2]
                slope_h, height_h = -A[h], best[h] + price[h] + per_link + A[h] * L[h] - G[h]
                if (height_k - height) * (slope_k - slope_h) <= (height_h - height_k) * (slope - slope_k):
                    break
                back -= 1
            if dropped:
                continue
            lines[back] = j
            back += 1
        if back == front:
            best[i], link[i], links[i] = np.inf, -1, 0
            continue
        x = L[i]
        j = lines[front]
        cost_j = best[j] + price[j] + per_link + A[j] * L[j] - G[j] - A[j] * x
        while back - front > 1:
            k = lines[front + 1]
            cost_k = best[k] + price[k] + per_link + A[k] * L[k] - G[k] - A[k] * x
            if cost_k > cost_j + tolerance:
                break
            if abs(cost_k - cost_j) <= tolerance:
                # a tie: k takes over for good once it is cheaper, now it only may if its count is wanted
                better = links[k] > links[j] if most else links[k] < links[j]
                if not better:
                    break
            front += 1
            j, cost_j = k, cost_k
        best[i] = G[i] + cost_j
        link[i] = j
        links[i] = links[j] + 1


@kernel
def bounded_layer(
    L: Floats, A: Floats, G: Floats, value: Floats, reach: Ints, until: Ints, best: Floats, link: Ints
) -> None:
    """Fill ``best`` and ``link`` as ``layer`` does, with successors of i from ``reach[i]`` to ``until[i]`` only.

    A largest gap takes lines out again that an envelope would need later, so this divides and conquers instead: the
    costs stay Monge, so the best successor of a slot lies between those of the slots around it. Closed slots have an
    infinite ``value``.
    """
    size = len(L)
    rows_from, rows_to = np.empty(4 * size, dtype=np.int64), np.empty(4 * size, dtype=np.int64)
    cols_from, cols_to = np.empty(4 * size, dtype=np.int64), np.empty(4 * size, dtype=np.int64)
    rows_from[0], rows_to[0], cols_from[0], cols_to[0] = 0, size - 1, 0, size - 1
    depth = 1
    while depth > 0:
        depth -= 1
        first, last, low, high = rows_from[depth], rows_to[depth], cols_from[depth], cols_to[depth]
        if first > last:
            continue
        i = (first + last) // 2
        best[i], link[i] = np.inf, -1
        for j in range(max(low, reach[i], i + 1), min(high, until[i]) + 1):
            cost = value[j] + A[j] * (L[j] - L[i]) - (G[j] - G[i])
            if cost < best[i]:
                best[i], link[i] = cost, j
        split_low, split_high = (high, low) if link[i] < 0 else (link[i], link[i])
        rows_from[depth], rows_to[depth], cols_from[depth], cols_to[depth] = first, i - 1, low, split_low
        depth += 1
        rows_from[depth], rows_to[depth], cols_from[depth], cols_to[depth] = i + 1, last, split_high, high
        depth += 1
