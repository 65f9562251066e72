"""Siblings: sources that change together, such as the pages of one release. If one changed, the others may have."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from proxyd.core.rates.week_bins import WEEK_S

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

TOGETHER_S = 2 * 3600.0  # items that come within this time came together
FRESH_S = 86400.0  # an older item says nothing about the siblings
MOST_CHANGES = 100_000  # number of changes remembered, of all sources
_LARGEST = 200  # a time in which more sources changed does not tell which belong together
_BLOCK = 500  # sources whose pairs are examined together
_LEAST = 0.05  # probabilities below this are left out
_FEWEST = 3.0  # least number of times that two sources changed together
_SIGMAS = 4.0  # without a test against chance, busy forums looked like siblings and lost 8 to 35 % of delay
_LONGEST_S = 52 * WEEK_S
# Sources that only share their office hours changed as often a day or a week apart. Without this test half of the
# probes of a synthetic working week went to false siblings, and the mean delay was 15 % longer.
_DAY, _WEEK = round(86400.0 / TOGETHER_S), round(WEEK_S / TOGETHER_S)
_LAGS = (-_WEEK, -_DAY, _DAY, _WEEK)  # items that are this far apart did not come together

_Pairs: TypeAlias = tuple[Ints, Ints, Floats]
_NOBODY: _Pairs = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0))
Siblings: TypeAlias = Mapping[str, tuple[tuple[str, float], ...]]
"""By source its siblings, each with the probability that it changed too, beyond chance."""


class RecentChanges:
    """Remembers which sources changed when; keeps the newest changes of all sources."""

    def __init__(self) -> None:
        self._bins: deque[tuple[int, str]] = deque(maxlen=MOST_CHANGES)
        self._last: dict[str, int] = {}

    def saw(self, source_id: str, times_s: Iterable[float]) -> None:
        """Remember the times of a source's items."""
        for number in sorted({int(time_s // TOGETHER_S) for time_s in times_s}):
            if number > self._last.get(source_id, -1):
                self._bins.append((number, source_id))
                self._last[source_id] = number

    def snapshot(self) -> list[tuple[int, str]]:
        """Return a copy of what is remembered, for work in another thread."""
        return list(self._bins)


def siblings_of(changes: Sequence[tuple[int, str]], *, now_s: float, since_s: float | None = None) -> Siblings:
    """Return each source's siblings.

    Two sources are siblings if they changed in the same two hours at least three times, and four standard deviations
    more often than independent sources would, even if these share their hours of the week.

    Parameters
    ----------
    changes
        Pairs of the number of the two hours and the source, each pair once.
    since_s
        The time since which changes are known; by default that of the first one.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``, which has the figures.

    Examples
    --------
    >>> seen = [(number, name) for number in (0, 7, 24, 46, 54, 97) for name in ("a", "b")] + [(110, "c")]
    >>> siblings = siblings_of(seen, now_s=9e5)
    >>> [name for name, _ in siblings["a"]], "c" in siblings
    (['b'], False)
    """
    oldest = int((now_s - _LONGEST_S) // TOGETHER_S)
    kept = [(number, source_id) for number, source_id in changes if number >= oldest]
    if not kept:
        return {}
    names = list(dict.fromkeys(source_id for _, source_id in kept))
    number_of = {name: number for number, name in enumerate(names)}
    numbers = np.array([number for number, _ in kept])
    columns = np.array([number_of[source_id] for _, source_id in kept])
    begun = numbers.min() if since_s is None else max(oldest, since_s // TOGETHER_S)
    related = _relate_sources(numbers, columns, len(names), max(1.0, now_s // TOGETHER_S - begun + 1.0))
    siblings: dict[str, list[tuple[str, float]]] = {}
    for one, other, probability in zip(*(each.tolist() for each in related), strict=True):
        siblings.setdefault(names[one], []).append((names[other], min(1.0, probability)))
    return {name: tuple(sorted(pairs, key=lambda pair: -pair[1])[:_LARGEST]) for name, pairs in siblings.items()}


def _relate_sources(numbers: Ints, columns: Ints, sources: int, times: float) -> _Pairs:
    """Return pairs of sources, and the probability beyond chance that the second changed when the first did.

    Chance is what independent sources without weeks would give. If the second changed more often a day or a week before
    or after the first, chance is that: then they only share their hours.
    """
    bins, rows, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    count = np.bincount(columns, minlength=sources).astype(np.float64)
    useful = (sizes[rows.reshape(-1)] <= _LARGEST) & (count[columns] >= _FEWEST)
    numbers, columns = numbers[useful], columns[useful]

    def changes_after(lag: int) -> csr_array:
        """Return which sources changed ``lag`` bins after each bin, shape (bins, sources)."""
        from scipy.sparse import csr_array

        place = np.searchsorted(bins, numbers - lag)
        there = np.flatnonzero(bins[np.minimum(place, len(bins) - 1)] == numbers - lag)
        return csr_array((np.ones(len(there)), (place[there], columns[there])), shape=(len(bins), sources))

    now, apart = changes_after(0).T.tocsr(), [changes_after(lag) for lag in _LAGS]
    active = np.unique(columns)
    blocks = [
        _block(active[first : first + _BLOCK], now, apart, count, times) for first in range(0, len(active), _BLOCK)
    ]
    one, other, probability = (np.concatenate(each) for each in zip(*blocks, strict=True)) if blocks else _NOBODY
    return one, other, probability


def _block(block: Ints, now: csr_array, apart: Sequence[csr_array], count: Floats, times: float) -> _Pairs:
    """Return the pairs whose first source is in a block, because all pairs at once would take too much memory."""
    together = (now[block] @ now.T).tocoo()
    often = np.flatnonzero(together.data >= _FEWEST)
    one, other, found = together.row[often], together.col[often], together.data[often]
    shared = np.zeros(len(often))
    for lagged in apart if len(often) else ():
        shared += np.asarray((now[block] @ lagged).tocsr()[one, other]).ravel() / len(_LAGS)
    first = block[one]
    chance = np.maximum(count[first] * count[other] / times, shared)
    probability = (found - chance) / count[first]
    kept = (first != other) & (found > chance + _SIGMAS * np.sqrt(chance) + 2.0) & (probability > _LEAST)
    return first[kept], other[kept], probability[kept]
