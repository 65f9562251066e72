"""Other programs' polling rules, from their documented formulas, as policies to compare with.

A formula gives the wait after a probe. These programs do not plan a budget, so each formula's waits are multiplied by
the factor that makes it use the budget's number of probes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from proxyd.core.model.chronon import Chronon
from proxyd.core.planning.kernels.golden_turns import turns
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.lab.replay.replay import Floats, Ints, Terms

_MINUTE_S, _HOUR_S, _DAY_S = 60.0, 3600.0, 86400.0
_LOG_FACTORS = (-40.0, 40.0)
_NEAR_ENOUGH = 0.002
_FINEST = 1e-3  # the number of probes may jump with the factor: then a finer one comes no closer


class Formula(Protocol):
    """A program's state of its sources, and the waits that it computes."""

    def first_s(self) -> Floats:
        """Return the initial waits in seconds, shape (sources,)."""

    def after_s(self, probed: Ints, items: list[Floats], now_s: float) -> Floats:
        """Return the waits in seconds after these probes found these items (times in unix seconds)."""


class RoundRobin:
    """Miniflux's ``round_robin``: every feed at the same interval."""

    def __init__(self, terms: Terms) -> None:
        self._sources = terms.sources

    def first_s(self) -> Floats:
        """Return an hour for each source."""
        return np.full(self._sources, _HOUR_S)

    def after_s(self, probed: Ints, items: list[Floats], now_s: float) -> Floats:
        """Return an hour for each probe."""
        return np.full(len(probed), _HOUR_S)


class EntryFrequency:
    """Miniflux's ``entry_frequency``: a week divided by the last week's entries, from 5 minutes to 24 hours."""

    def __init__(self, terms: Terms) -> None:
        self._recent = [times[times > terms.start_s - WEEK_S] for times in terms.history]
        self._start_s = terms.start_s

    def first_s(self) -> Floats:
        """Return the waits after the last week of the history."""
        return self._waits_s(np.arange(len(self._recent)))

    def after_s(self, probed: Ints, items: list[Floats], now_s: float) -> Floats:
        """Return the waits after the last week's entries."""
        for source, new in zip(probed, items, strict=True):
            times = np.concatenate([self._recent[source], new]) if new.size else self._recent[source]
            self._recent[source] = times[times > now_s - WEEK_S]
        return self._waits_s(probed)

    def _waits_s(self, sources: Ints) -> Floats:
        weekly = np.array([max(self._recent[source].size, 1e-9) for source in sources])
        waits: Floats = np.clip(WEEK_S / weekly, 5 * _MINUTE_S, _DAY_S)
        return waits


class CommaFeed:
    """CommaFeed's empirical interval: half the mean time between entries, longer for silent feeds.

    It is 5 minutes to an hour if an entry is younger than a week; a quarter, half or all of 4 hours for feeds silent
    for 7, 14 or 30 days.
    """

    def __init__(self, terms: Terms) -> None:
        self._count = np.array([times.size for times in terms.history], dtype=np.float64)
        self._first_s = np.array([times[0] if times.size else np.nan for times in terms.history])
        self._last_s = np.array([times[-1] if times.size else np.nan for times in terms.history])
        self._start_s = terms.start_s

    def first_s(self) -> Floats:
        """Return the waits after the history."""
        return self._waits_s(np.arange(len(self._count)), self._start_s)

    def after_s(self, probed: Ints, items: list[Floats], now_s: float) -> Floats:
        """Return the waits after all entries so far."""
        for source, new in zip(probed, items, strict=True):
            if new.size:
                self._count[source] += new.size
                self._first_s[source] = np.fmin(self._first_s[source], new[0])
                self._last_s[source] = new[-1]
        return self._waits_s(probed, now_s)

    def _waits_s(self, sources: Ints, now_s: float) -> Floats:
        longest = 4 * _HOUR_S
        silent_s = np.nan_to_num(now_s - self._last_s[sources], nan=np.inf)
        between_s = (self._last_s[sources] - self._first_s[sources]) / np.maximum(self._count[sources] - 1, 1)
        usual = np.clip(between_s / 2, 5 * _MINUTE_S, longest / 4)
        waits = np.select(
            [silent_s >= 30 * _DAY_S, silent_s >= 14 * _DAY_S, silent_s >= 7 * _DAY_S, self._count[sources] > 1],
            [
                np.full(len(sources), longest),
                np.full(len(sources), longest / 2),
                np.full(len(sources), longest / 4),
                usual,
            ],
            longest,
        )
        return np.asarray(waits, dtype=np.float64)


class Nutch:
    """Nutch's ``AdaptiveFetchSchedule``: a change shortens the interval by a fifth, no change extends it by two fifths.

    It starts at 30 days, stays between a minute and a year, is never less than the time since the last change, and
    probes earlier by three tenths of that time to synchronise with the changes.
    """

    def __init__(self, terms: Terms) -> None:
        self._interval_s = np.full(terms.sources, 30 * _DAY_S)
        self._modified_s = np.full(terms.sources, terms.start_s)

    def first_s(self) -> Floats:
        """Return 30 days for each source."""
        return self._interval_s.copy()

    def after_s(self, probed: Ints, items: list[Floats], now_s: float) -> Floats:
        """Return the adapted intervals."""
        changed = np.array([new.size > 0 for new in items])
        interval_s = self._interval_s[probed] * np.where(changed, 0.8, 1.4)
        self._modified_s[probed[changed]] = now_s
        since_s = now_s - self._modified_s[probed]
        interval_s = np.clip(np.maximum(interval_s, since_s), _MINUTE_S, 365 * _DAY_S)
        self._interval_s[probed] = interval_s
        waits: Floats = np.maximum(interval_s - 0.3 * since_s, _MINUTE_S)
        return waits


class StormCrawler:
    """StormCrawler's ``AdaptiveScheduler``: a change halves the distance to an hour, no change extends it by half.

    It starts at a day and stays below two weeks.
    """

    def __init__(self, terms: Terms) -> None:
        self._interval_s = np.full(terms.sources, _DAY_S)

    def first_s(self) -> Floats:
        """Return a day for each source."""
        return self._interval_s.copy()

    def after_s(self, probed: Ints, items: list[Floats], now_s: float) -> Floats:
        """Return the adapted intervals."""
        changed = np.array([new.size > 0 for new in items])
        before_s = self._interval_s[probed]
        after_s = np.where(changed, 0.5 * before_s + 0.5 * _HOUR_S, np.minimum(1.5 * before_s, 14 * _DAY_S))
        self._interval_s[probed] = after_s
        return self._interval_s[probed]


class WaitingPolicy:
    """Probes each source when its wait, times a factor, is over; the first probes are spread evenly."""

    def __init__(self, terms: Terms, formula: Formula, *, factor: float) -> None:
        self._terms, self._formula, self._factor = terms, formula, factor
        spread = turns(np.arange(terms.sources))
        self._due_s = terms.start_s + spread * factor * formula.first_s()

    def choose(self, now: Chronon, room: int) -> Ints:
        """Return the due sources, the longest due first."""
        now_s = self._terms.grid.start_s(now)
        due = np.flatnonzero(self._due_s <= now_s + 1e-6)
        return due[np.argsort(self._due_s[due], kind="stable")[:room]]

    def observe(self, now: Chronon, probed: Ints, item_of: Ints, times_s: Floats) -> None:
        """Ask the formula for the next waits."""
        now_s = self._terms.grid.start_s(now)
        items = np.split(times_s, np.searchsorted(item_of, np.arange(1, len(probed))))
        self._due_s[probed] = now_s + self._factor * self._formula.after_s(probed, items, now_s)


def factor_for(probes_at: Callable[[float], int], probes: int) -> float:
    """Return the factor of the waits at which a formula makes almost, and at most, ``probes`` probes.

    It bisects the logarithm: longer waits make fewer probes.

    >>> 2.0 <= factor_for(lambda factor: int(1000 / factor), 500) < 2.01
    True
    """
    low, high = _LOG_FACTORS
    while high - low > _FINEST:
        middle = (low + high) / 2
        made = probes_at(2.0**middle)
        if made > probes:
            low = middle
        else:
            high = middle
            if made >= probes * (1 - _NEAR_ENOUGH):
                break
    return float(2.0**high)


PEERS: dict[str, Callable[[Terms], Formula]] = {
    "miniflux": RoundRobin,
    "miniflux-frequency": EntryFrequency,
    "commafeed": CommaFeed,
    "nutch": Nutch,
    "stormcrawler": StormCrawler,
}
