"""A model of a fleet: its sources' rates and week shapes, learned from probes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from proxyd.core.rates.week_bins import WEEK_S
from proxyd.core.rates.week_shapes import (
    HOUR_S,
    HOURS,
    Floats,
    Ints,
    WeekShapes,
    WeekTrust,
    dispersion_of,
    expected_hours,
    passed_hours,
    shared_shapes,
    week_hours,
)
from proxyd.lab.estimators.fleet_rates import FleetRates

_DAY_S = 86400.0
_KEPT_WEEKS = 52
_TRIED_DAYS, _TRIED_S = 28, 52 * WEEK_S  # how often, and how long before the end, a history's weeks are tried
_WEEK_HALF_LIFE = 26.0  # weeks after which a week counts half for the shapes


class FleetModel:
    """Rates and week shapes of many sources, learned online.

    Parameters
    ----------
    sources
        Number of sources; they are numbered from 0.
    start_s
        Start of the observation, in unix seconds.

    Examples
    --------
    >>> model = FleetModel(1, start_s=0.0)
    >>> model.read([np.arange(0.5, 28.0) * 86400.0], until_s=28 * 86400.0)
    >>> round(float(model.rates.per_s(28 * 86400.0)[0]) * 86400.0, 1)
    1.0
    """

    def __init__(self, sources: int, *, start_s: float) -> None:
        self.rates = FleetRates(sources)
        self._start_s = self._week_s = start_s
        self.counts = np.zeros((sources, HOURS))  # discounted items by source and hour of the week
        self._passed = np.zeros(HOURS)
        self._weekly: list[Floats] = [np.zeros(HOURS)]
        self._learned: WeekShapes | None = None
        self.trust = WeekTrust()

    def read(self, times_s: Sequence[ArrayLike], *, until_s: float, since_s: ArrayLike | None = None) -> None:
        """Read a complete history up to ``until_s``, day by day, as if every source had been probed daily.

        Each source's history begins after ``since_s``, shape (sources,); earlier items are ignored.
        """
        sources = np.arange(len(times_s))
        since = np.full(len(times_s), -np.inf if since_s is None else since_s)
        of_item = np.repeat(sources, [np.size(times) for times in times_s])
        times = np.concatenate([np.zeros(0), *(np.asarray(t, dtype=np.float64) for t in times_s)])
        order = np.argsort(times, kind="stable")
        order = order[times[order] > since[of_item[order]]]
        of_item, times = of_item[order], times[order]
        edges = np.append(np.arange(self._start_s, until_s, _DAY_S), until_s)
        cuts = np.searchsorted(times, edges, side="right")
        for day in range(len(edges) - 1):
            new = slice(0 if day == 0 else cuts[day], cuts[day + 1])
            if day % 7 == 0:
                self.rates.refresh(edges[day])
            if day % _TRIED_DAYS == 0 and edges[day] > until_s - _TRIED_S:
                self.week_shapes(edges[day])
            known = np.flatnonzero(since < edges[day + 1])
            begun = np.maximum(edges[day], since[known])
            self.observe(known, begun, edges[day + 1], np.searchsorted(known, of_item[new]), times[new])
        self.rates.refresh(until_s)

    def observe(self, sources: Ints, since_s: ArrayLike, until_s: float, item_of: Ints, times_s: ArrayLike) -> None:
        """Record the results of probes at ``until_s``, as ``FleetRates.observe`` does."""
        times = np.asarray(times_s, dtype=np.float64)
        if self._learned is not None and len(sources):
            self._try_week(self._learned, sources, np.broadcast_to(since_s, np.shape(sources)), until_s, item_of, times)
        self.rates.observe(sources, since_s, until_s, item_of, times)
        self._turn_weeks(until_s)
        hours = week_hours(times)
        np.add.at(self.counts, (sources[item_of], hours), 1.0)
        np.add.at(self._weekly[-1], hours, 1.0)

    def _try_week(
        self, learned: WeekShapes, sources: Ints, since_s: Floats, until_s: float, item_of: Ints, times_s: Floats
    ) -> None:
        """Compare what the learned weeks expected of these probes with what they found."""
        shape_of, per_s = learned.of_source[sources], self.rates.per_s(float(since_s.min()), sources)
        hours = expected_hours(since_s, np.full(len(sources), until_s), learned.shapes)
        shaped = float(per_s @ hours[np.arange(len(sources)), shape_of]) * HOUR_S
        factors = learned.shapes[shape_of[item_of], week_hours(times_s)]
        even = float(per_s @ (until_s - since_s))
        self.trust = self.trust.seen(factors, even=even, shaped=shaped, weight=1.0 / self.dispersion())

    def week_shapes(self, now_s: float, *, most: int = 8) -> WeekShapes:
        """Return the shapes of the hours of the week as far as they are trusted, and that of each source."""
        passed = self._passed + passed_hours(self._week_s, now_s)
        self._learned = shared_shapes(self.counts, passed, most=most, dispersion=self.dispersion())
        return self._learned.trusted(self.trust.share)

    def dispersion(self) -> float:
        """Return variance over mean of the items by hour: 1 for single items, more for batches."""
        return dispersion_of(self._weekly[:-1])  # the current week is incomplete

    def _turn_weeks(self, now_s: float) -> None:
        while now_s > self._week_s + WEEK_S:  # items up to the end of a week belong to it
            self._passed += passed_hours(self._week_s, self._week_s + WEEK_S)
            fade = 2.0 ** (-1.0 / _WEEK_HALF_LIFE)
            self.counts *= fade
            self._passed *= fade
            self._week_s += WEEK_S
            self._weekly = [*self._weekly[1 - _KEPT_WEEKS :], np.zeros(HOURS)]
