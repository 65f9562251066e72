"""Update rates of single sources: a blend of half-lives, corrected by recent items where that pays.

Each source's evidence is apart from the weights, which all sources share.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, expm1, inf, log, log2, sqrt
from struct import Struct
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.model.arrays import Floats


@dataclass(frozen=True, slots=True)
class ItemTimes:
    """Exact times of the items that appeared in (``since_s``, ``until_s``], in unix seconds."""

    since_s: float
    until_s: float
    times_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ItemCount:
    """``count`` items appeared in (``since_s``, ``until_s``]; ``at_least`` if the feed's window overflowed."""

    since_s: float
    until_s: float
    count: int
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class ChangedBit:
    """Whether anything changed in (``since_s``, ``until_s``]; the number of changes is unknown."""

    since_s: float
    until_s: float
    changed: bool


Evidence: TypeAlias = ItemTimes | ItemCount | ChangedBit


def item_times(evidence: Evidence) -> ItemTimes | None:
    """Return the times of the items, an empty tuple if nothing changed; ``None`` if they are not known."""
    if isinstance(evidence, ItemTimes):
        return evidence
    found = evidence.count or evidence.at_least if isinstance(evidence, ItemCount) else evidence.changed
    return None if found else ItemTimes(evidence.since_s, evidence.until_s, ())


def leave_out(evidence: Evidence, times_s: Sequence[float]) -> Evidence:
    """Return evidence without the items of some times.

    >>> leave_out(ItemTimes(0.0, 9.0, (3.0, 7.0)), (3.0,)).times_s
    (7.0,)
    """
    if not times_s or not isinstance(evidence, ItemTimes):
        return evidence
    gone = set(times_s)
    kept = tuple(time_s for time_s in evidence.times_s if time_s not in gone)
    return ItemTimes(evidence.since_s, evidence.until_s, kept)


_SELDOM = 0.01  # how often a steady source shows a gap that is taken for a wrong date
_FEWEST = 3  # dates that can outvote one
_MOST_WRONG = 0.25  # share of the dates


def plausible_times(times_s: Sequence[float], until_s: float) -> Sequence[float]:
    """Return sorted times without the oldest ones, if wrong dates are the likely reason of the gap after them.

    A history begins at its oldest time, so a single wrong one would decide how long it is. A gap is too long if a
    source with the other times shows it in less than one of a hundred histories.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``.

    Examples
    --------
    >>> plausible_times([0.0, 90.0, 93.0, 97.0], 100.0)
    [90.0, 93.0, 97.0]
    >>> plausible_times([80.0, 90.0, 93.0, 97.0], 100.0)
    [80.0, 90.0, 93.0, 97.0]
    """
    most = min(int(_MOST_WRONG * len(times_s)), len(times_s) - _FEWEST)
    wrong = 0
    for first in range(1, most + 1):
        rest, rest_s = len(times_s) - first, until_s - times_s[first]
        if times_s[first] - times_s[first - 1] > rest_s * (_SELDOM ** (-1.0 / rest) * 2.0 ** (first / rest) - 1.0):
            wrong = first
    return times_s[wrong:]


PRIOR_EVENTS = 2.0
DEFAULT_MEAN_PER_S = 1.0 / 86400.0
_STEP = 4.0  # by which the components of a prior differ, and authors err
_NOT_TELLING = 4.0  # items more or less that say nothing against what an author expects
_POWERS = np.arange(-10.0, 11.0)


def _components(spread: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the prior: log-normal in steps of 4, with mean 1.

    The first array holds the log of each component's weight in the posterior, without the factors that all share; the
    second one the inverses of their means.
    """
    weights = np.exp(-((_POWERS / spread) ** 2) / 2)
    weights /= weights.sum()
    means: NDArray[np.float64] = np.power(_STEP, _POWERS)
    means /= float(weights @ means)
    return np.log(weights) - PRIOR_EVENTS * np.log(means), 1.0 / means


_POPULATION = _components(2.0)  # sources differ by a factor of 16 either way
_EXPECTED = _components(1.0)  # authors err by a factor of 4


def posterior_means(
    events: ArrayLike, exposure_s: ArrayLike, mean_per_s: ArrayLike, *, is_expected: bool = False
) -> NDArray[np.float64]:
    """Return posterior mean rates, in items per second.

    Parameters
    ----------
    events, exposure_s
        Discounted evidence, shape (n,).
    mean_per_s
        The means of the prior: one, or shape (n,).
    is_expected
        Whether an author expects this mean; otherwise it is the population's, whose sources differ more.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``.

    Examples
    --------
    >>> posterior_means([0.0, 50.0], [0.0, 100.0], 0.5).round(1)
    array([0.5, 0.5])
    """
    log_weights, inverses = _EXPECTED if is_expected else _POPULATION
    seen = np.array(events, dtype=np.float64).reshape(-1, 1) + PRIOR_EVENTS
    prior_s = PRIOR_EVENTS / np.array(mean_per_s, dtype=np.float64).reshape(-1, 1)
    waited_s = np.array(exposure_s, dtype=np.float64).reshape(-1, 1) + prior_s * inverses
    logs = log_weights - seen * np.log(waited_s)
    posterior = np.exp(logs - logs.max(axis=1, keepdims=True))
    means: NDArray[np.float64] = seen[:, 0] * (posterior / waited_s).sum(axis=1) / posterior.sum(axis=1)
    return means


HALF_LIVES_S = tuple(weeks * 7 * 86400.0 for weeks in (1.0, 4.0, 16.0, 52.0))
PRIOR_ITEMS = 50.0  # the weight of the even starting weights, in items
MEMORY_ITEMS = 2000.0  # items after which the evidence for the weights counts a third
_HIGHEST_LEVEL = 2.0  # of the weights of honest fleets, even of changing ones, the sum was between 0.8 and 1.2


def correct_level(credit: Iterable[float], expected: Iterable[float]) -> float:
    """Return the factor of ``credit`` that keeps the sum of the weights between a half and 2.

    The sum scales the rates of all sources, and one source of 2,000 items with false dates made it a hundred.

    >>> correct_level([60.0, 30.0], [60.0, 60.0]), correct_level([900.0, 900.0], [50.0, 100.0])
    (1.0, 0.07407407407407407)
    """
    level = sum(items / of_all for items, of_all in zip(credit, expected, strict=True))
    return min(max(level, 1.0 / _HIGHEST_LEVEL), _HIGHEST_LEVEL) / level


_NONE = (0.0,) * len(HALF_LIVES_S)


@dataclass(frozen=True, slots=True)
class RateEvidence:
    """What probes showed of a source's update rate, discounted with each half-life of a ``Blend``."""

    events: tuple[float, ...] = _NONE  # as of ``as_of_s``, one value for each half-life
    exposure_s: tuple[float, ...] = _NONE
    as_of_s: float | None = None  # ``None`` before anything was observed
    in_mass: tuple[float, ...] | None = None  # the part of the events that came in mass changes; ``None`` if none did

    @property
    def without_mass(self) -> RateEvidence:
        """The evidence without the events of mass changes."""
        if self.in_mass is None:
            return self
        own = tuple(max(0.0, all_ - mass) for all_, mass in zip(self.events, self.in_mass, strict=True))
        return RateEvidence(own, self.exposure_s, self.as_of_s)

    def times(self, factors: Sequence[float], as_of_s: float | None) -> RateEvidence:
        """Return the evidence with each value times a factor of its half-life."""
        mass = self.in_mass and _times(self.in_mass, factors)
        return RateEvidence(_times(self.events, factors), _times(self.exposure_s, factors), as_of_s, mass)

    def forgotten(self, rate_per_s: float, *, events: float = 2.0) -> RateEvidence:
        """Return the evidence that is kept after a change of rate: worth ``events`` items."""
        worth = [max(n, s * rate_per_s) for n, s in zip(self.events, self.exposure_s, strict=True)]
        shares = [min(1.0, events / each) if each > 0 else 1.0 for each in worth]
        return self.times(shares, self.as_of_s)


NO_EVIDENCE = RateEvidence()


def _times(values: Sequence[float], factors: Sequence[float]) -> tuple[float, ...]:
    return tuple(value * factor for value, factor in zip(values, factors, strict=True))


class Blend:
    """What the sources of a fleet share: their mean rate, and how well each half-life predicts.

    It is the same estimate as ``FleetRates``, which takes many sources at once; here sources come and go, and each
    keeps its own evidence. Bits and overflowing windows count as the number of items expected of them (one EM step).

    Parameters
    ----------
    mean_per_s
        The population's mean rate before anything is known, in items per second.
    half_lives_s
        Ages at which evidence counts half, in seconds.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``; ``FleetRates`` says how the weights are fitted. Cho and Garcia-Molina
    2003 for why bits must not be counted as one item each.

    Examples
    --------
    >>> blend, day = Blend(), 86400.0
    >>> week = ItemTimes(0.0, 7 * day, tuple(n * day for n in range(1, 8)))
    >>> seen = blend.seen(RateEvidence(), week)
    >>> 0.8 < blend.rate_per_s(seen, 7 * day) * day < 1.2
    True
    """

    def __init__(self, mean_per_s: float = DEFAULT_MEAN_PER_S, *, half_lives_s: Sequence[float] = HALF_LIVES_S) -> None:
        members = len(half_lives_s) + 1
        self._decays = tuple(log(2) / half_life_s for half_life_s in half_lives_s)
        self._credit = [PRIOR_ITEMS / members] * members
        self._expected = [PRIOR_ITEMS] * members
        self._default_per_s = mean_per_s
        # of all sources: their items, the time observed, and the items that came in mass changes
        self._events, self._exposure_s, self._in_mass = ([0.0] * len(half_lives_s) for _ in range(3))
        self._unseen: dict[tuple[float | None, bool], float] = {}  # rates without evidence, by what authors expect
        self.is_thin = False  # whether mass changes are left out

    @property
    def credits(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """What the weights are made of, to be restored later: the items credited to each member, and those expected."""
        return tuple(self._credit), tuple(self._expected)

    def restore(self, credit: Sequence[float], expected: Sequence[float]) -> None:
        """Take over weights; does nothing if they are those of other members."""
        if len(credit) == len(expected) == len(self._credit):
            self._credit, self._expected, self._unseen = list(credit), list(expected), {}

    @property
    def weights(self) -> list[float]:
        """Weights of the half-lives and, last, of the population's mean."""
        return [credit / expected for credit, expected in zip(self._credit, self._expected, strict=True)]

    @property
    def mean_per_s(self) -> float:
        """The rate of a source without evidence, in items per second."""
        return self._means_per_s(self.is_thin)[-1]

    @property
    def has_mass(self) -> bool:
        """Whether there were mass changes."""
        return self._in_mass[-1] > 0.0

    def rate_per_s(
        self, known: RateEvidence, now_s: float, *, expect_per_s: float | None = None, thin: bool | None = None
    ) -> float:
        """Return a source's rate; its author's ``expect_per_s`` replaces the population's mean, with less spread.

        ``thin`` says whether mass changes are left out; by default as ``is_thin`` says.
        """
        thin = self.is_thin if thin is None else thin
        if known is not NO_EVIDENCE:
            return self._blend_with(known, now_s, expect_per_s, thin)
        if (expect_per_s, thin) not in self._unseen:  # the same for all sources that nothing is known of
            self._unseen[expect_per_s, thin] = self._blend_with(known, now_s, expect_per_s, thin)
        return self._unseen[expect_per_s, thin]

    def _blend_with(self, known: RateEvidence, now_s: float, expect_per_s: float | None, thin: bool) -> float:
        members = self._members(known, now_s, expect_per_s, thin)
        return sum(weight * member for weight, member in zip(self.weights, members, strict=True))

    def items_known(self, known: RateEvidence, now_s: float) -> float:
        """Return the number of items behind a rate: its uncertainty is that of a Gamma distribution of this shape."""
        if known is NO_EVIDENCE:
            return PRIOR_EVENTS
        faded, weights = self.evidence(known, now_s), self.weights[:-1]
        shares = sum(weights) or 1.0
        return PRIOR_EVENTS + sum(weight * found for weight, found in zip(weights, faded.events, strict=True)) / shares

    def seen(
        self,
        known: RateEvidence,
        evidence: Evidence,
        *,
        expect_per_s: float | None = None,
        mass_s: Sequence[float] = (),
    ) -> RateEvidence:
        """Return a source's evidence after one probe; a probe over an empty or negative time adds nothing.

        ``mass_s`` are the times of its items that came in mass changes.
        """
        gap_s = evidence.until_s - evidence.since_s
        if gap_s <= 0:
            return known
        until_s, faded = evidence.until_s, self.fade(known, evidence.until_s)
        if isinstance(evidence, ItemTimes):
            found = [sum(exp(-decay * (until_s - time_s)) for time_s in evidence.times_s) for decay in self._decays]
        else:
            found = [self._count(known, evidence, gap_s, expect_per_s)] * len(self._decays)
        exposure_s = (-expm1(-decay * gap_s) / decay for decay in self._decays)
        in_mass = faded.in_mass
        if mass_s:
            mass = [sum(exp(-decay * (until_s - time_s)) for time_s in mass_s) for decay in self._decays]
            in_mass = tuple(map(sum, zip(in_mass or (0.0,) * len(mass), mass, strict=True)))
        return RateEvidence(
            tuple(map(sum, zip(faded.events, found, strict=True))),
            tuple(map(sum, zip(faded.exposure_s, exposure_s, strict=True))),
            until_s if known.as_of_s is None else max(known.as_of_s, until_s),
            in_mass,
        )

    def weigh(self, known: RateEvidence, evidence: Evidence) -> None:
        """Credit each member with its share of the items that it predicted; ``known`` is from before the probe."""
        gap_s = evidence.until_s - evidence.since_s
        if gap_s <= 0:
            return
        found = float(len(evidence.times_s)) if isinstance(evidence, ItemTimes) else self._count(known, evidence, gap_s)
        weights, members = self.weights, self._members(known, evidence.since_s, None, self.is_thin)
        self._unseen = {}
        share = found / max(sum(map(float.__mul__, weights, members)), 1e-300)
        forget = exp(-found / MEMORY_ITEMS)
        for place, (weight, member) in enumerate(zip(weights, members, strict=True)):
            self._credit[place] = self._credit[place] * forget + weight * member * share
            self._expected[place] = self._expected[place] * forget + member * gap_s
        factor = correct_level(self._credit, self._expected)
        self._credit = [credit * factor for credit in self._credit]

    def replace(self, old: RateEvidence, new: RateEvidence) -> None:
        """Replace one source's evidence in that of the population."""
        self._unseen = {}
        changed = [(self._events, old.events, new.events), (self._exposure_s, old.exposure_s, new.exposure_s)]
        if old.in_mass or new.in_mass:
            none = (0.0,) * len(self._in_mass)
            changed.append((self._in_mass, old.in_mass or none, new.in_mass or none))
        for sums, was, now in changed:
            sums[:] = [max(0.0, total + after - before) for total, before, after in zip(sums, was, now, strict=True)]

    def _means_per_s(self, thin: bool) -> list[float]:
        """Return the mean rate of all sources by each half-life: events over exposure, from a prior."""
        exposure_s = (seconds + PRIOR_EVENTS / self._default_per_s for seconds in self._exposure_s)
        own = (max(0.0, all_ - mass) for all_, mass in zip(self._events, self._in_mass, strict=True))
        counted = own if thin else self._events
        return [(events + PRIOR_EVENTS) / seconds for events, seconds in zip(counted, exposure_s, strict=True)]

    def evidence(self, known: RateEvidence, now_s: float) -> RateEvidence:
        """Return the evidence that counts, discounted to a time that is not before its own."""
        return self.fade(known.without_mass if self.is_thin else known, now_s)

    def fade(self, known: RateEvidence, now_s: float) -> RateEvidence:
        """Return evidence discounted to a time that is not before its own."""
        if known.as_of_s is None or now_s <= known.as_of_s:
            return known
        return known.times([exp(-decay * (now_s - known.as_of_s)) for decay in self._decays], now_s)

    def _members(self, known: RateEvidence, now_s: float, expect_per_s: float | None, thin: bool) -> list[float]:
        """Return the rates by each half-life and by the population's mean, or what its author expects."""
        faded, is_expected = self.fade(known.without_mass if thin else known, now_s), expect_per_s is not None
        means = [expect_per_s or mean_per_s for mean_per_s in self._means_per_s(thin)]
        members: list[float] = posterior_means(faded.events, faded.exposure_s, means, is_expected=is_expected).tolist()
        if is_expected:
            days = faded.exposure_s[-1] * self._decays[0] * 7.0 / log(2)  # of a source whose cycle is a week
            wrong = _contradiction(faded.events[-1], faded.exposure_s[-1] * means[-1], days)
            means[-1] = means[-1] ** (1.0 - wrong) * members[-1] ** wrong
        return [*members, means[-1]]

    def _count(
        self, known: RateEvidence, evidence: ItemCount | ChangedBit, gap_s: float, expect_per_s: float | None = None
    ) -> float:
        """Return the number of items; if the evidence does not tell it, the number expected."""
        if isinstance(evidence, ItemCount) and not evidence.at_least:
            return float(evidence.count)
        if isinstance(evidence, ChangedBit) and not evidence.changed:
            return 0.0
        expected = self.rate_per_s(known, evidence.until_s, expect_per_s=expect_per_s) * gap_s
        if isinstance(evidence, ItemCount):
            return max(float(evidence.count), expected)
        return expected / -expm1(-expected) if expected > 1e-9 else 1.0


def _contradiction(found: float, expected: float, days: float) -> float:
    """Return how far items contradict what was expected, from 0 (by less than a factor of 4) to 1 (by more than 8).

    A source that was silent for a year was still planned by a fifth of the 3 items a minute that its author expected.

    >>> _contradiction(20.0, 70.0, 7.0), _contradiction(0.0, 1e6, 7.0), _contradiction(100.0, 1.0, 1.5)
    (0.0, 1.0, 0.5)
    """
    if expected <= 0.0:
        return 0.0
    factor = max((found - _NOT_TELLING) / expected, expected / (found + _NOT_TELLING))
    nights = days - 1.0  # one may be silent
    return max(0.0, min(1.0, log2(factor / _STEP), nights))


# -- recent items: by which factor they correct a rate
#
# For each of eight half-lives, from 90 minutes to a year, and for the weeks of the same parity, the logarithm of found
# over expected items is a *trait* of a source, and so is how new its newest item is. A weighted sum of the traits is
# the logarithm of the factor.

SHORT_S = (5400.0, 6 * 3600.0, 86400.0, 4 * 86400.0)
"""The half-lives that the blend of rates does not have."""

_AGES = (0.1, 0.5)  # in mean gaps: the age of the newest item, after which it says a third as much
_WITHOUT_AGES = len(SHORT_S) + 1 + len(HALF_LIVES_S) + 1  # the last of these is 1 for all
TRAITS = _WITHOUT_AGES + len(_AGES)
PARITY_S = HALF_LIVES_S[2]  # the half-life of what came in even and in odd weeks
_KEPT_S = (*SHORT_S, PARITY_S, PARITY_S)
_RECENT = Struct(f"<{2 * len(_KEPT_S)}f")
_ONE_MORE = 1.0  # added to found and expected items, so that few of them say little
_MOST = 3.0  # the logarithm of the largest factor
_PRIOR = 30.0  # the weight of the assumption that rates need no correction, in items
_MEMORY_ITEMS = 4000.0  # items after which earlier ones count a third
_HEAVIEST = 30.0  # the most that an item of a slow source counts in comparison with one of an average source
_FEWEST_ITEMS = 200.0  # before which nothing is corrected
_MARGIN = 0.005  # the part of the delay that a correction must save before it is used
_SIGMAS_TO_USE, _SIGMAS_TO_KEEP = 2.0, 1.0  # and how many standard deviations that must be
_SAVED = 12  # numbers of ``SavedDelay``
_DAY_S = 86400.0  # after which the weights are fitted again; what comes together mostly comes within one


def unpack_recent(
    recent: bytes, age_s: float, speed: float = 1.0, *, odd: bool = False
) -> tuple[Sequence[float], Sequence[float]]:
    """Return the items of a source, and the time in which they came, discounted for an age.

    They are discounted by each of ``SHORT_S``, and last come those of the odd or of the even weeks.

    >>> unpack_recent(b"", 0.0)
    ((0.0, 0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0, 0.0))
    """
    items, passed_s = _unpack_all(recent, age_s, speed)
    short, parity = len(SHORT_S), len(SHORT_S) + odd
    return (*items[:short], items[parity]), (*passed_s[:short], passed_s[parity])


def _unpack_all(recent: bytes, age_s: float, speed: float) -> tuple[list[float], list[float]]:
    """Return all that is kept, for an age; nothing if another version kept it."""
    if len(recent) != _RECENT.size:
        return [0.0] * len(_KEPT_S), [0.0] * len(_KEPT_S)
    fades = [2.0 ** (-max(0.0, age_s) * speed / half_life_s) for half_life_s in _KEPT_S]
    values = [value * fade for value, fade in zip(_RECENT.unpack(recent), 2 * fades, strict=True)]
    return values[: len(_KEPT_S)], values[len(_KEPT_S) :]


def note_recent(
    recent: bytes,
    age_s: float,
    evidence: Evidence,
    found: float,
    factor: float,
    speed: float,
    odd: tuple[float, float] = (0.0, 0.0),
) -> bytes:
    """Return what is kept of a source's recent items after a probe, packed.

    Parameters
    ----------
    recent
        What was kept before; empty at first.
    age_s
        How long before the end of the evidence that was.
    found
        The number of items.
    factor
        By which the source's week differs from an even one in the time that the probe looked back.
    speed
        The seconds of a week that pass in a second.
    odd
        The share of the items, and that of the time, in odd weeks.

    Examples
    --------
    >>> day = note_recent(b"", 0.0, ItemTimes(0.0, 86400.0, (0.0, 86400.0)), 2.0, 1.0, 1.0)
    >>> items, passed_s = unpack_recent(day, 0.0)
    >>> round(items[2], 3), round(passed_s[2] / 86400.0, 3)
    (1.5, 0.721)
    """
    gap_s, told = evidence.until_s - evidence.since_s, item_times(evidence)
    items, passed_s = _unpack_all(recent, age_s, speed)
    for place, half_life_s in enumerate(SHORT_S):
        decay = log(2) * speed / half_life_s
        if told is None:  # they may have come at any time
            items[place] += found * -expm1(-decay * gap_s) / (decay * gap_s)
        else:
            items[place] += sum(exp(-decay * (evidence.until_s - time_s)) for time_s in told.times_s)
        passed_s[place] += factor * -expm1(-decay * gap_s) / decay
    of_items, of_time = odd
    for place, (items_share, time_share) in enumerate(((1.0 - of_items, 1.0 - of_time), odd), len(SHORT_S)):
        items[place] += items_share * (found if told is None else len(told.times_s))
        passed_s[place] += time_share * factor * gap_s
    return _RECENT.pack(*items, *passed_s)


def traits(items: ArrayLike, expected: ArrayLike, ages: ArrayLike) -> Floats:
    """Return the traits of sources, shape (sources, ``TRAITS``).

    ``items`` and ``expected`` are discounted by each half-life, those of ``SHORT_S`` first, then come those of weeks of
    the same parity, and those of the blend; shape (sources, 9). ``ages`` are those of the newest items in mean gaps,
    infinity without one, shape (sources,).

    >>> traits([[1.0] * 9], [[0.0] * 9], [0.5]).round(2).tolist()
    [[0.69, 0.69, 0.69, 0.69, 0.69, 0.69, 0.69, 0.69, 0.69, 1.0, 0.01, 0.37]]
    """
    ratios = np.log((np.asarray(items) + _ONE_MORE) / (np.asarray(expected) + _ONE_MORE))
    newness = np.exp(-np.divide.outer(np.asarray(ages, dtype=np.float64), _AGES))
    found: Floats = np.concatenate([ratios, np.ones((len(ratios), 1)), newness], axis=1)
    return found


def traits_of(
    recent: tuple[Sequence[float], Sequence[float]], rate: RateEvidence, per_s: float, age_s: float = inf
) -> Floats:
    """Return the traits of one source, shape (1, ``TRAITS``); all that is known of it is discounted to one time.

    ``age_s`` is the age of its newest item at that time.

    >>> traits_of(unpack_recent(b"", 0.0), NO_EVIDENCE, 1.0).tolist()
    [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]]
    """
    items, passed_s = (*recent[0], *rate.events), (*recent[1], *rate.exposure_s)
    return traits([items], [[per_s * each_s for each_s in passed_s]], [per_s * age_s])


class SavedDelay:
    """Whether other rates than the usual ones save delay, from what probes found.

    Notes
    -----
    At one price of a probe, sources of rate r are probed each ``1 / sqrt(r)``. So n items that come in a time T wait
    ``n / sqrt(r)`` together, and ``T sqrt(r)`` probes are made, in units of the price. The sum of both is least, on
    average, if r is the true rate, and it is convex in the logarithm of r. At equal numbers of probes, delays are as
    the product of both sums. Likelihoods instead of these sums, which believe bursts too readily, cost a tenth of the
    delay where items come in batches. Source: ``docs/decisions/update-rates.md``.

    Examples
    --------
    >>> saved, rng = SavedDelay(), np.random.default_rng(1)
    >>> for day in range(40):
    ...     _ = saved.begin_day(day * 86400.0)
    ...     for rate in (1.0, 25.0):
    ...         found = float(rng.poisson(rate))
    ...         saved.note(found, (found, 1.0), (found / rate**0.5, rate**0.5))
    >>> saved.begin_day(40 * 86400.0), saved.is_used, 0.2 < saved.share < 0.5
    (True, True, True)
    """

    def __init__(self) -> None:
        self._sums = np.zeros(4)  # the waits and the probes by the usual rates, and by the others
        self._today = np.zeros(4)  # the same of the present day
        # the items, the variance of what is saved, the number of the day, and whether the others are used
        self._items, self._squares, self._day, self._used = 0.0, 0.0, 0.0, 0.0

    @property
    def is_used(self) -> bool:
        """Whether the other rates have saved delay."""
        return self._used > 0

    @property
    def share(self) -> float:
        """The part of the delay that the others would have saved at equal probes; less than 0 if they cost some."""
        waits, probes, other_waits, other_probes = self._sums.tolist()
        return 1.0 - other_waits * other_probes / max(waits * probes, 1e-300)

    @property
    def deviation(self) -> float:
        """The standard deviation of ``share``, by how days differ."""
        return sqrt(self._squares) / max(float(self._sums[1]), 1e-300)

    def begin_day(self, at_s: float) -> bool:
        """Choose at the end of a day which rates are used; return whether ``at_s`` is in another day."""
        if at_s // _DAY_S == self._day:
            return False
        self._day = at_s // _DAY_S
        self._sums += self._today
        waits, probes, other_waits, other_probes = (self._today / np.maximum(self._sums, 1e-300)).tolist()
        # by which the day changed the logarithm of the product of both sums
        self._squares += (float(self._sums[1]) * (other_waits + other_probes - waits - probes)) ** 2
        self._today[:] = 0.0
        share, deviation = self.share, self.deviation
        if self._items < _FEWEST_ITEMS or share < _SIGMAS_TO_KEEP * deviation:
            self._used = 0.0
        elif share > max(_MARGIN, _SIGMAS_TO_USE * deviation):
            self._used = 1.0
        return True

    def note(self, items: float, usual: tuple[float, float], other: tuple[float, float]) -> None:
        """Note the waits of the items of probes, and these probes, by both rates."""
        fade = exp(-items / _MEMORY_ITEMS)
        self._today += [*usual, *other]
        self._sums *= fade
        self._squares *= fade * fade
        self._items = self._items * fade + items

    @property
    def values(self) -> tuple[float, ...]:
        """What was noted, for ``restore``."""
        return (*self._sums.tolist(), *self._today.tolist(), self._items, self._squares, self._day, self._used)

    def restore(self, values: Sequence[float]) -> None:
        """Take over ``values``; does nothing if they are those of another version."""
        if len(values) == _SAVED:
            self._sums, self._today = np.array(values[:4]), np.array(values[4:8])
            self._items, self._squares, self._day, self._used = values[8:]


class ShortMemory:
    """The weights of the traits, which all sources of a fleet share, and whether they are used.

    The weights minimise the sum of waits and probes of ``SavedDelay``. There are two sets of them. The second one also
    has weights for the age of the newest item, and is used while it has saved more delay than the first one.

    Examples
    --------
    >>> memory, rng = ShortMemory(), np.random.default_rng(1)
    >>> for day in range(40):
    ...     busy = rng.random(100) < 0.5
    ...     known = traits(np.where(busy, 8.0, 0.0)[:, None] * np.ones(9), np.full((100, 9), 4.0), np.ones(100))
    ...     memory.learn(known, rng.poisson(np.where(busy, 1.0, 0.1)), np.full(100, 0.5), np.ones(100), day * 86400.0)
    >>> memory.is_used, round(float(memory.factors(known)[busy].mean()))
    (True, 2)
    """

    def __init__(self) -> None:
        self._weights = (_Weights(_WITHOUT_AGES), _Weights(TRAITS))
        self.saved = SavedDelay()
        self.saved_by_age = SavedDelay()  # by the second set, in comparison with the first

    @property
    def is_used(self) -> bool:
        """Whether the correction has saved delay."""
        return self.saved.is_used

    def factors(self, known: Floats) -> Floats:
        """Return the factors by which rates are corrected, of traits of shape (sources, ``TRAITS``)."""
        return np.square(self._weights[self.saved_by_age.is_used].roots(known))

    def learn(self, known: Floats, found: ArrayLike, expected: ArrayLike, counts: ArrayLike, at_s: float) -> None:
        """Learn from probes.

        Parameters
        ----------
        known
            The traits in the middle of the time that each probe looked back, shape (probes, ``TRAITS``).
        found, expected
            The items that each found, and that its rate without a correction expected.
        counts
            What an item of each source counts: the root of the fleet's mean rate over that of the source.
        at_s
            When the probes were made, in the time of the week.
        """
        self.saved_by_age.begin_day(at_s)
        if self.saved.begin_day(at_s):
            for weights in self._weights:
                weights.fit()
        found, expected = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
        counts = np.minimum(np.asarray(counts, dtype=np.float64), _HEAVIEST)
        usual, items = (float(counts @ found), float(counts @ expected)), float(found.sum())
        fade = exp(-items / _MEMORY_ITEMS)
        without, by_age = (weights.learn(known, counts * found, counts * expected, fade) for weights in self._weights)
        self.saved.note(items, usual, by_age if self.saved_by_age.is_used else without)
        self.saved_by_age.note(items, without, by_age)

    def pack(self) -> str:
        """Return what was learned, as text."""
        parts = [each.values for each in self._weights]
        parts += [np.array(each.values) for each in (self.saved, self.saved_by_age)]
        return b64encode(np.concatenate(parts).astype("<f8").tobytes()).decode()

    def unpack(self, packed: str) -> None:
        """Take over what ``pack`` returned; does nothing if another version did."""
        found, sizes = b64decode(packed), [each.values.size for each in self._weights]
        if len(found) != 8 * (sum(sizes) + 2 * _SAVED):
            return
        *values, saved, by_age = np.split(np.frombuffer(found, dtype="<f8"), np.cumsum([*sizes, _SAVED]))
        for weights, each in zip(self._weights, values, strict=True):
            weights.restore(each)
        self.saved.restore(saved.tolist())
        self.saved_by_age.restore(by_age.tolist())


class _Weights:
    """Weights of the first traits, fitted by Newton's method to the sum of waits and probes of ``SavedDelay``."""

    def __init__(self, size: int) -> None:
        self._weights = np.zeros(size)
        self._slope = np.zeros(size)
        self._information = _PRIOR * np.eye(size)

    def roots(self, known: Floats) -> Floats:
        """Return the roots of the factors by which rates are corrected, of traits of shape (sources, ``TRAITS``)."""
        logs = known[:, : self._weights.size] @ self._weights
        roots: Floats = np.exp(np.clip(logs, -_MOST, _MOST) / 2.0)
        return roots

    def fit(self) -> None:
        """Take what was learned since the last time into the weights."""
        self._weights += np.linalg.solve(self._information, self._slope)
        self._slope[:] = 0.0

    def learn(self, known: Floats, found: Floats, expected: Floats, fade: float) -> tuple[float, float]:
        """Learn from probes, and let what was learned before count ``fade``; return their waits, and their cost."""
        known, roots = known[:, : self._weights.size], self.roots(known)
        waits, probes = found / roots, expected * roots
        self._slope += (waits - probes) @ known / 2.0
        curved = known * np.sqrt((waits + probes) / 4.0)[:, None]
        self._information *= fade
        self._information += curved.T @ curved
        self._information += (1.0 - fade) * _PRIOR * np.eye(self._weights.size)
        return float(waits.sum()), float(probes.sum())

    @property
    def values(self) -> Floats:
        """What was learned, for ``restore``."""
        upper = self._information[np.triu_indices(self._weights.size)]
        values: Floats = np.concatenate([self._weights, self._slope, upper])
        return values

    def restore(self, values: Floats) -> None:
        """Take over ``values``."""
        size, (rows, columns) = self._weights.size, np.triu_indices(self._weights.size)
        self._weights, self._slope, upper = map(np.copy, np.split(values, [size, 2 * size]))
        self._information[rows, columns] = self._information[columns, rows] = upper
