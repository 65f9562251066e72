"""Sources that change together: siblings, such as the pages of one release, and bursts of a group's changes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S
from proxyd.core.rates.week_shapes import dispersion_of

TOGETHER_S = 2 * 3600.0  # items that come within this time came together
FRESH_S = 86400.0  # an older item says nothing about the siblings
FEWEST_IN_MASS = 6.0  # sources of a mass change
_MASS = 4.0  # and how many times the expected sources
_MOST_TIMES = 1000  # of which it is remembered how many sources changed
MOST_CHANGES = 100_000  # number of changes remembered, of all sources
_LARGEST = 200  # a time in which more sources changed does not tell which belong together
_BLOCK = 1_000_000  # pairs that are counted together: all at once would take too much memory
_LEAST = 0.05  # probabilities below this are left out
_FEWEST = 3.0  # least number of times that two sources changed together
_SIGMAS = 4.0  # without a test against chance, busy forums looked like siblings and lost 8 to 35 % of delay
_LONGEST_S = 52 * WEEK_S
# Sources that only share their office hours changed as often a day or a week apart. Without this test half of the
# probes of a synthetic working week went to false siblings, and the mean delay was 15 % longer.
_DAY, _WEEK = round(86400.0 / TOGETHER_S), round(WEEK_S / TOGETHER_S)
_LAGS = (-_WEEK, -_DAY, _DAY, _WEEK)  # items that are this far apart did not come together

_Pairs: TypeAlias = tuple[Ints, Ints, Floats]
Siblings: TypeAlias = Mapping[str, tuple[tuple[str, float], ...]]
"""By source its siblings, each with the probability that it changed too, beyond chance."""


def most_at_once(expected: float) -> float:
    """Return how many sources change in ``TOGETHER_S`` before it is a mass change, where ``expected`` are.

    >>> most_at_once(0.1), most_at_once(10.0)
    (6.0, 40.0)
    """
    return max(FEWEST_IN_MASS, _MASS * expected)


def in_mass_changes(times_s: Floats, sources: Ints) -> NDArray[np.bool_]:
    """Return which items of a history came in mass changes, shape (items,): all but those of the first sources.

    Parameters
    ----------
    times_s, sources
        When each item came, ascending, and of which source.

    Examples
    --------
    >>> in_mass_changes(np.arange(8.0), np.array([0, 1, 2, 3, 4, 5, 6, 0])).tolist()
    [False, False, False, False, False, False, True, False]
    """
    numbers = np.floor(times_s / TOGETHER_S).astype(np.int64)
    pairs, first, place = np.unique(np.stack([numbers, sources]), axis=1, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")  # pairs by the time of their first items
    _, bins, sizes = np.unique(pairs[0, order], return_inverse=True, return_counts=True)
    part = pairs[0, order] % _WEEK
    weeks = np.ptp(numbers) / _WEEK if len(numbers) else 0.0
    others = np.bincount(part, minlength=_WEEK)[part] - sizes[bins]  # in the same part of other weeks
    by_bin = np.argsort(bins, kind="stable")
    rank = np.empty(len(bins))
    rank[by_bin] = np.arange(len(bins)) - np.searchsorted(bins[by_bin], bins[by_bin])
    late = np.zeros(len(first), dtype=np.bool_)
    late[order] = rank >= np.maximum(FEWEST_IN_MASS, _MASS * others / max(1.0, weeks))
    found: NDArray[np.bool_] = late[place.reshape(-1)]
    return found


class RecentChanges:
    """Remembers which sources changed when; keeps the newest changes of all sources."""

    def __init__(self) -> None:
        self._bins: deque[tuple[int, str]] = deque(maxlen=MOST_CHANGES)
        self._last: dict[str, int] = {}
        self._sources: dict[int, int] = {}  # how many changed in the same time

    def note_changes(self, source_id: str, times_s: Iterable[float]) -> None:
        """Remember the times of a source's items."""
        for number in sorted({int(time_s // TOGETHER_S) for time_s in times_s}):
            if number > self._last.get(source_id, -1):
                self._bins.append((number, source_id))
                self._last[source_id] = number
                self._sources[number] = self._sources.get(number, 0) + 1
        if len(self._sources) > _MOST_TIMES:
            for number in sorted(self._sources)[: _MOST_TIMES // 2]:
                del self._sources[number]

    def is_mass(self, time_s: float, expected: float) -> bool:
        """Whether so many sources changed about then, where ``expected`` were, that another one says little of its own.

        >>> changes = RecentChanges()
        >>> for name in "abcdef":
        ...     changes.note_changes(name, [60.0])
        >>> changes.is_mass(120.0, 1.0), changes.is_mass(120.0, 2.0), changes.is_mass(9000.0, 1.0)
        (True, False, False)
        """
        return self._sources.get(int(time_s // TOGETHER_S), 0) >= most_at_once(expected)

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
    _, rows, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    count = np.bincount(columns, minlength=sources).astype(np.float64)
    useful = (sizes[rows.reshape(-1)] <= _LARGEST) & (count[columns] >= _FEWEST)
    if not useful.any():
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)
    changes = _Changes(numbers[useful], columns[useful], sources)
    keys, found, shared = (np.concatenate(each) for each in zip(*changes.blocks(), strict=True))
    one, other = np.divmod(keys, sources)
    chance = np.maximum(count[one] * count[other] / times, shared)
    probability = (found - chance) / count[one]
    kept = (one != other) & (found > chance + _SIGMAS * np.sqrt(chance) + 2.0) & (probability > _LEAST)
    return one[kept], other[kept], probability[kept]


class _Changes:
    """Changes by their time and by their source, to count how often two sources changed together.

    The key of a pair is ``one * sources + other``.
    """

    def __init__(self, numbers: Ints, columns: Ints, sources: int) -> None:
        self._sources = sources
        self._of_times = columns[np.argsort(numbers, kind="stable")]
        self._times, self._starts, self._sizes = np.unique(np.sort(numbers), return_index=True, return_counts=True)
        by_source = np.argsort(columns, kind="stable")
        self._ones, self._numbers = columns[by_source], numbers[by_source]

    def blocks(self) -> Iterator[tuple[Ints, Ints, Floats]]:
        """Yield pairs with how often they changed together, and a day or a week apart on average.

        Each pair comes in the block of its first source, and only if it changed together at least ``_FEWEST`` times.
        """
        pairs = self._sizes[np.searchsorted(self._times, self._numbers)]
        of_source = np.bincount(self._ones, weights=pairs, minlength=self._sources)
        block = (np.cumsum(of_source) - of_source)[self._ones] // _BLOCK
        for changes in np.split(np.arange(len(block)), np.flatnonzero(np.diff(block)) + 1):
            keys, found = np.unique(self._keys(changes, 0), return_counts=True)
            often = found >= _FEWEST
            keys, found = keys[often], found[often]
            shared = np.zeros(len(keys))
            for lag in _LAGS if keys.size else ():
                apart = self._keys(changes, lag)
                place = np.minimum(np.searchsorted(keys, apart), len(keys) - 1)
                shared += np.bincount(place[keys[place] == apart], minlength=len(keys)) / len(_LAGS)
            yield keys, found, shared

    def _keys(self, changes: Ints, lag: int) -> Ints:
        """Return a key for each pair of one of these changes and one that came ``lag`` bins after it."""
        wanted = self._numbers[changes] + lag
        place = np.minimum(np.searchsorted(self._times, wanted), len(self._times) - 1)
        sizes = np.where(self._times[place] == wanted, self._sizes[place], 0)
        number = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        others = self._of_times[np.repeat(self._starts[place], sizes) + number]
        keys: Ints = np.repeat(self._ones[changes], sizes) * self._sources + others
        return keys


BIN_S = 1800.0  # items that come within this time may belong to one burst
KEPT = 48  # bins in which a burst is looked for; what older ones held is known by then
_CALM = 10.0  # weight of the assumption that items come independently, in squares of expected items
_MOST_K = 1e6
_BY_CHANCE = 3.0  # so many times the changes expected at once may be coincidences
_HELP = 0.15  # the part of its chance to be found that an item lends to each other one of its burst
HELPS: Floats = np.concatenate([[0.0], 2.0 ** (np.arange(-24, 17) / 2)])
"""The arguments for which ``unhelped`` is given."""


def together(changes: Sequence[tuple[int, object]], now_s: float) -> float:
    """Return how many sources change together: the variance over mean of the fleet's changes in two hours, at least 1.

    Each change says less by this factor than if sources changed independently. Hours of the week and whole weeks with
    more changes than others are not taken for batches. It is 1 until two weeks of changes are known.

    Parameters
    ----------
    changes
        As in ``siblings_of``; only those of the last 52 weeks count.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> times = [number for number, count in enumerate(rng.poisson(0.5, 84 * 52)) for _ in range(count)]
    >>> [round(together([(time, n) for time in times for n in range(size)], 52 * WEEK_S)) for size in (1, 10)]
    [1, 10]
    """
    last = int(now_s // TOGETHER_S)
    numbers = np.fromiter((number for number, _ in changes), np.int64, len(changes))
    first = max(last - round(_LONGEST_S / TOGETHER_S), int(numbers.min(initial=last)))
    weeks = (last - first) // _WEEK
    places = numbers - (last - weeks * _WEEK)
    counts = np.bincount(places[(places >= 0) & (numbers < last)], minlength=weeks * _WEEK)
    return dispersion_of(counts.reshape(weeks, _WEEK).astype(np.float64))


def late_share(changes: Sequence[tuple[int, int]], group_of: Ints, now_s: float) -> Floats:
    """Return which part of its late items a group keeps although one of them lets the others be found earlier.

    An item that comes together with n others has n more chances to be found in time, because a probe that finds one of
    them brings the others forward. If a share c is found in time by probes that the rates call for, and each find lends
    the part q of its chance, then ``(1 - c) ** (q n)`` of the late ones stay late.

    Parameters
    ----------
    changes, group_of
        As in ``concentrations``.

    Returns
    -------
    The mean of ``exp(-q n x)`` over each group's items of the last year, for each x of ``HELPS``, which is ``-log(1 -
    c)``; shape (groups, len(HELPS)). Only what exceeds three times the mean number of changes counts in n; q is 0.15.

    Notes
    -----
    Source: ``docs/decisions/planner-prices.md``.

    Examples
    --------
    >>> together = [(number, source) for number in range(0, 1000, 100) for source in range(101)]
    >>> left = late_share(together, np.zeros(101, dtype=np.int64), 1000 * TOGETHER_S)
    >>> left.shape == (1, len(HELPS)), left[0, [0, -1]].round(2).tolist()
    (True, [1.0, 0.0])
    """
    groups, last = int(group_of.max(initial=-1)) + 1, int(now_s // TOGETHER_S)
    first = last - round(_LONGEST_S / TOGETHER_S)
    known = [(number, source) for number, source in changes if first <= number < last]
    left = np.ones((groups, len(HELPS)))
    if not known:
        return left
    numbers, sources = np.array(known, dtype=np.int64).T
    span = int(numbers.max()) + 1
    places, counts = np.unique(group_of[sources] * span + numbers, return_counts=True)
    group = places // span
    passed = last - int(numbers.min())
    chance = np.bincount(group, weights=counts, minlength=groups) / passed
    others = np.maximum(counts - 1 - _BY_CHANCE * chance[group], 0.0)
    late = np.exp(-_HELP * others[:, None] * HELPS)
    total = np.bincount(group, weights=counts, minlength=groups)
    some = total > 0
    left[some] = 0.0
    np.add.at(left, group, late * (counts / total[group])[:, None])
    return left


def concentrations(
    changes: Sequence[tuple[int, int]], group_of: Ints, rates_per_s: Floats, weeks: tuple[Floats, Ints], now_s: float
) -> Floats:
    """Return how independently the sources of each group change, shape (groups,).

    In a bin in which E changes of a group are expected, N come with mean E and variance ``E + E^2 / k``: they are
    Poisson, and the sources share a random factor of the rate, Gamma with mean 1 and variance ``1 / k``. The
    concentration k is large if they come independently, and small if they come together.

    Parameters
    ----------
    changes
        Pairs of the number of the two hours (``TOGETHER_S``) and the source, each pair once.
    group_of, rates_per_s
        Group and rate of each source, shape (sources,).
    weeks
        Factors by equal parts of the week, shape (shapes, parts), and the shape of each source, (sources,).

    Returns
    -------
    The concentrations for bins of ``BIN_S``.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``; the method of moments.

    Examples
    --------
    >>> even = (np.ones((1, 168)), np.zeros(10, dtype=np.int64))
    >>> together = [(number, source) for number in range(0, 1000, 100) for source in range(10)]
    >>> apart = [(number, number // 10 % 10) for number in range(0, 1000, 10)]
    >>> rates = np.full(10, 10 / (1000 * TOGETHER_S))
    >>> groups = np.zeros(10, dtype=np.int64)
    >>> [float(concentrations(each, groups, rates, even, 1000 * TOGETHER_S)[0].round(3)) for each in (together, apart)]
    [0.004, 250000.0]
    """
    groups = int(group_of.max(initial=-1)) + 1
    shapes, shape_of = weeks
    last = int(now_s // TOGETHER_S)
    numbers = np.array([number for number, _ in changes], dtype=np.int64)
    sources = np.array([source for _, source in changes], dtype=np.int64)
    first = max(int((now_s - _LONGEST_S) // TOGETHER_S), int(numbers.min(initial=last)))
    known = (numbers >= first) & (numbers < last)
    group, number = group_of[sources[known]], numbers[known] - first
    passed = np.bincount((np.arange(first, last) - round(MONDAY_S / TOGETHER_S)) % _WEEK, minlength=_WEEK)
    parts = shapes.reshape(len(shapes), _WEEK, -1).mean(axis=2)
    rates = np.zeros((groups, len(shapes)))
    np.add.at(rates, (group_of, shape_of), rates_per_s * TOGETHER_S)
    found_in_all = np.bincount(group, minlength=groups)
    of_group = rates @ parts  # the changes expected in each part of the week, (groups, parts)
    of_group *= (found_in_all / np.maximum(of_group @ passed, 1e-300))[:, None]
    # The sum of (N - E)^2 - E over all bins, from those with changes: the others contribute E^2 - E.
    places, counts = np.unique(group * (last - first + 1) + number, return_counts=True)
    at, part = places // (last - first + 1), (places % (last - first + 1) + first - round(MONDAY_S / TOGETHER_S))
    expected = of_group[at, part % _WEEK]
    squares = of_group**2 @ passed
    excess = squares - of_group @ passed
    np.add.at(excess, at, counts**2 - 2.0 * counts * expected)
    k = (squares + _CALM * (BIN_S / TOGETHER_S)) / np.maximum(excess, 1e-300)
    of_bins: Floats = np.minimum(k, _MOST_K) * (BIN_S / TOGETHER_S)
    return of_bins


class Bursts:
    """The shared factor of a group's rates in each of the last ``KEPT`` bins, from what its probes found.

    Parameters
    ----------
    k
        The concentration of the group.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``. A shared frailty: after N of E expected items were found in a bin, its
    factor is Gamma with mean ``(k + N) / (k + E)``.

    Examples
    --------
    >>> bursts, now_s = Bursts(0.01), 100 * BIN_S
    >>> bursts.note_look(np.array([98 * BIN_S]), now_s, np.full((1, KEPT), 0.02))
    >>> bursts.note_items([99 * BIN_S + 60.0, 99 * BIN_S + 70.0])
    >>> bursts.factors(now_s)[-3:].round(1).tolist()
    [1.0, 0.3, 67.0]
    """

    def __init__(self, k: float = _MOST_K) -> None:
        self.k = k
        self._expected: dict[int, float] = {}
        self._found: dict[int, float] = {}

    @staticmethod
    def bins(now_s: float) -> Ints:
        """Return the numbers of the last bins that begin before a time, oldest first, shape (KEPT,)."""
        last = int(np.ceil(now_s / BIN_S))
        return np.arange(last - KEPT, last)

    def note_look(self, since_s: Floats, now_s: float, expected: Floats) -> None:
        """Note probes of sources, which were last seen at ``since_s``.

        Parameters
        ----------
        since_s
            Shape (sources,).
        expected
            The items that each source's rate expects in each whole bin of ``bins(now_s)``, shape (sources, KEPT).
        """
        bins = self.bins(now_s)
        seen = np.clip(np.minimum(bins + 1.0, now_s / BIN_S) - np.maximum(bins, since_s[:, None] / BIN_S), 0.0, 1.0)
        for number, more in zip(bins.tolist(), (seen * expected).sum(axis=0).tolist(), strict=True):
            if more > 0:
                self._expected[number] = self._expected.get(number, 0.0) + more
        for known in (self._expected, self._found):
            for number in [number for number in known if number < bins[0]]:
                del known[number]

    def note_items(self, times_s: Iterable[float]) -> None:
        """Note the times of items that these probes found."""
        for number in (int(time_s // BIN_S) for time_s in times_s):
            self._found[number] = self._found.get(number, 0.0) + 1.0

    def factors(self, now_s: float) -> Floats:
        """Return the expected factor of the rates in each of ``bins(now_s)``, shape (KEPT,)."""
        bins = self.bins(now_s).tolist()
        expected, found = (
            np.array([known.get(number, 0.0) for number in bins]) for known in (self._expected, self._found)
        )
        factors: Floats = (self.k + found) / (self.k + expected)
        return factors
