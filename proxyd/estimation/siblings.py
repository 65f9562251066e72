"""Siblings: sources that change together, such as the pages of one release; where one changed, the others may have."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from proxyd.estimation.bins import WEEK_S

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOGETHER_S = 2 * 3600.0  # what comes within this time came together
FRESH_S = 86400.0  # an item older than this says nothing of the siblings any more
MOST_CHANGES = 400_000  # remembered, of all sources
_LARGEST = 200  # a time in which more sources changed than these tells nothing of who belongs together
_LEAST = 0.05  # probabilities below this are left out
_FEWEST = 3.0  # times that two sources changed together
_SIGMAS = 4.0
_LONGEST_S = 52 * WEEK_S

Siblings = Mapping[str, tuple[tuple[str, float], ...]]
"""By source its siblings, each with the probability that it changed too, beyond chance."""


class Changes:
    """Which sources changed when, the newest changes of all.

    Examples
    --------
    >>> changes = Changes()
    >>> for day in range(6):
    ...     changes.saw("a", [day * 86400.0])
    ...     changes.saw("b", [day * 86400.0 + 60.0])
    >>> changes.saw("c", [3e5 + 40_000.0])
    >>> siblings = siblings_of(changes.snapshot(), now_s=6 * 86400.0)
    >>> [name for name, _ in siblings["a"]], "c" in siblings
    (['b'], False)
    """

    def __init__(self) -> None:
        self._bins: deque[tuple[int, str]] = deque(maxlen=MOST_CHANGES)
        self._last: dict[str, int] = {}

    def saw(self, source_id: str, times_s: Iterable[float]) -> None:
        """Remember when items of a source came."""
        for number in sorted({int(time_s // TOGETHER_S) for time_s in times_s}):
            if number > self._last.get(source_id, -1):
                self._bins.append((number, source_id))
                self._last[source_id] = number

    def snapshot(self) -> list[tuple[int, str]]:
        """Return what is remembered, to be worked on elsewhere."""
        return list(self._bins)


def siblings_of(changes: Sequence[tuple[int, str]], *, now_s: float, since_s: float | None = None) -> Siblings:
    """Return each source's siblings.

    Two sources are siblings if they changed in the same two hours at least three times and four standard deviations
    more often than sources that know nothing of each other.

    Parameters
    ----------
    changes
        Number of the two hours and source, each pair once.
    since_s
        Since when changes are known, the first of them by default.

    Notes
    -----
    Source: ALGORITHMS 6.5, where it is open whether it helps; `docs/design.md` has the figures.
    """
    if not changes:
        return {}
    oldest = int((now_s - _LONGEST_S) // TOGETHER_S)
    kept = [(number, source_id) for number, source_id in changes if number >= oldest]
    names = list(dict.fromkeys(source_id for _, source_id in kept))
    number_of = {name: number for number, name in enumerate(names)}
    bins, rows = np.unique([number for number, _ in kept], return_inverse=True)
    columns = np.array([number_of[source_id] for _, source_id in kept])
    changed = csr_array((np.ones(len(kept)), (rows.reshape(-1), columns)), shape=(len(bins), len(names)))
    begun = bins[0] if since_s is None else max(oldest, since_s // TOGETHER_S)
    return _related(changed, names, max(1.0, now_s // TOGETHER_S - begun + 1.0))


def _related(changed: csr_array, names: Sequence[str], times: float) -> Siblings:
    """Return who changed together more often than by chance, from a matrix of times by sources."""
    count = np.asarray(changed.sum(axis=0)).ravel()
    some = changed[np.asarray(changed.sum(axis=1)).ravel() <= _LARGEST]
    together = (some.T @ some).tocoo()
    one, other, found = together.row, together.col, together.data
    chance = count[one] * count[other] / times
    probability = found / count[one] - count[other] / times
    is_more = (found >= _FEWEST) & (found > chance + _SIGMAS * np.sqrt(chance) + 2.0) & (probability > _LEAST)
    kept = np.flatnonzero(is_more & (one != other))
    siblings: dict[str, list[tuple[str, float]]] = {}
    for a, b, p in zip(one[kept].tolist(), other[kept].tolist(), probability[kept].tolist(), strict=True):
        siblings.setdefault(names[a], []).append((names[b], min(1.0, p)))
    return {name: tuple(islice(sorted(pairs, key=lambda pair: -pair[1]), _LARGEST)) for name, pairs in siblings.items()}
