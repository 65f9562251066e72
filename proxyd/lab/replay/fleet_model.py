"""A model of a fleet: its sources' rates and week shapes, learned from probes of many sources at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.rates.rate_blend import (
    DEFAULT_MEAN_PER_S,
    HALF_LIVES_S,
    MEMORY_ITEMS,
    PARITY_S,
    PRIOR_EVENTS,
    PRIOR_ITEMS,
    SHORT_S,
    SavedDelay,
    ShortMemory,
    correct_level,
    posterior_means,
    traits,
)
from proxyd.core.rates.siblings import in_mass_changes
from proxyd.core.rates.week_bins import HOUR_S, HOURS, WEEK_S, hours_between, is_odd_week, week_hours
from proxyd.core.rates.week_shapes import WeekShapes, WeekTrust, common_shapes, dispersion_of, factors_over_hours

_DAY_S = 86400.0
_KEPT_S = np.array([*SHORT_S, PARITY_S, PARITY_S])
_KEPT_WEEKS = 52
_TRIED_DAYS, _TRIED_S = 28, 52 * WEEK_S  # how often, and how long before the end, a history's weeks are tried
_WEEK_HALF_LIFE = 26.0  # weeks after which a week counts half for the shapes


class FleetModel:
    """Rates and week shapes of many sources, numbered from 0, learned online.

    >>> model = FleetModel(1, start_s=0.0)
    >>> model.read([np.arange(0.5, 28.0) * 86400.0], until_s=28 * 86400.0)
    >>> round(float(model.rates.per_s(28 * 86400.0)[0]) * 86400.0, 1)
    1.0
    """

    def __init__(self, sources: int, *, start_s: float) -> None:
        self.rates = FleetRates(sources)
        self.thinned = FleetRates(sources)  # without mass changes; nothing is learned here if there are none
        self.thinning = SavedDelay()  # whether these save delay
        self._start_s = self._week_s = start_s
        self.counts = np.zeros((sources, HOURS))  # discounted items by source and hour of the week
        self._passed = np.zeros(HOURS)
        self._weekly: list[Floats] = [np.zeros(HOURS)]
        self._learned: WeekShapes | None = None
        self.trust = WeekTrust()
        self.memory = ShortMemory()
        # items, and the time in which they came, discounted; in the end those of even and of odd weeks
        self._recent = np.zeros((2, len(_KEPT_S), sources))
        self._newest_s = np.full(sources, -np.inf)

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
        own = ~in_mass_changes(times, of_item)
        has_mass = not own.all()
        edges = np.append(np.arange(self._start_s, until_s, _DAY_S), until_s)
        cuts = np.searchsorted(times, edges, side="right")
        for day in range(len(edges) - 1):
            new = slice(0 if day == 0 else cuts[day], cuts[day + 1])
            if day % 7 == 0:
                self.rates.refresh(edges[day])
                self.thinned.refresh(edges[day])
            if day % _TRIED_DAYS == 0 and edges[day] > until_s - _TRIED_S:
                self.week_shapes(edges[day])
            known = np.flatnonzero(since < edges[day + 1])
            begun, item_of = np.maximum(edges[day], since[known]), np.searchsorted(known, of_item[new])
            alone = item_of[own[new]], times[new][own[new]]
            counted = alone if self.thinning.is_used else (item_of, times[new])
            self._note_recent(known, begun, edges[day + 1], *counted)
            if has_mass:
                self._compare_rates(known, begun, edges[day + 1], *alone)
            self.observe(known, begun, edges[day + 1], item_of, times[new])
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
        hours = factors_over_hours(since_s, np.full(len(sources), until_s), learned.shapes)
        shaped = float(per_s @ hours[np.arange(len(sources)), shape_of]) * HOUR_S
        factors = learned.shapes[shape_of[item_of], week_hours(times_s)]
        even = float(per_s @ (until_s - since_s))
        self.trust = self.trust.seen(factors, even=even, shaped=shaped, weight=1.0 / self.dispersion())

    @property
    def chosen(self) -> FleetRates:
        """The rates that have saved delay: with or without mass changes."""
        return self.thinned if self.thinning.is_used else self.rates

    def _compare_rates(self, sources: Ints, since_s: Floats, until_s: float, item_of: Ints, times_s: Floats) -> None:
        """Learn whether mass changes should be left out, from the items that did not come in them."""
        self.thinning.begin_day(until_s)
        found, gap_s = np.bincount(item_of, minlength=len(sources)), until_s - since_s
        roots = (np.sqrt(rates.per_s(float(since_s.min()), sources)) for rates in (self.rates, self.thinned))
        usual, other = ((float((found / root).sum()), float(gap_s @ root)) for root in roots)
        self.thinning.note(float(found.sum()), usual, other)
        self.thinned.observe(sources, since_s, until_s, item_of, times_s)

    def _note_recent(self, sources: Ints, since_s: Floats, until_s: float, item_of: Ints, times_s: Floats) -> None:
        """Learn what recent items say of the rates."""
        rates = self.chosen
        per_s, gap_s = np.maximum(rates.per_s(float(since_s.min()), sources), 1e-12), until_s - since_s
        factor = np.ones(len(sources))
        if self._learned is not None:
            hours = factors_over_hours(since_s, np.full(len(sources), until_s), self._learned.shapes)
            factor = hours[np.arange(len(sources)), self._learned.of_source[sources]] * HOUR_S / gap_s
        decay, recent = np.log(2) / _KEPT_S[:, None], self._recent[:, :, sources]
        faded, short = recent * np.exp(-decay * gap_s / 2), len(SHORT_S)
        odd = is_odd_week(until_s - gap_s / 2)
        same = np.where(odd, faded[:, short + 1], faded[:, short])
        known = np.concatenate([faded[:, :short], same[:, None], rates.evidence(sources, until_s - gap_s / 2)], 1)
        seen = ~np.isnan(rates.as_of_s[sources])
        found = np.bincount(item_of, minlength=len(sources))
        self.memory.learn(
            traits(known[0].T, (known[1] * per_s).T, per_s * (until_s - gap_s / 2 - self._newest_s[sources]))[seen],
            found[seen],
            (per_s * gap_s * factor)[seen],
            np.sqrt(rates.mean_per_s / per_s)[seen],
            until_s,
        )
        recent = recent * np.exp(-decay * gap_s)
        recent[1] += factor * -np.expm1(-decay * gap_s) / decay * _of_weeks(odd)
        for items, weights in zip(
            recent[0], np.exp(-decay * (until_s - times_s)) * _of_weeks(odd)[:, item_of], strict=True
        ):
            items += np.bincount(item_of, weights=weights, minlength=len(sources))
        self._recent[:, :, sources] = recent
        np.maximum.at(self._newest_s, sources[item_of], times_s)

    def week_shapes(self, now_s: float, *, most: int = 8) -> WeekShapes:
        """Return the shapes of the hours of the week as far as they are trusted, and that of each source."""
        passed = self._passed + hours_between(self._week_s, now_s)
        self._learned = common_shapes(self.counts, passed, most=most, dispersion=self.dispersion())
        return self._learned.mix_with_even(self.trust.share)

    def dispersion(self) -> float:
        """Return variance over mean of the items by hour: 1 for single items, more for batches."""
        return dispersion_of(self._weekly[:-1])  # the current week is incomplete

    def _turn_weeks(self, now_s: float) -> None:
        while now_s > self._week_s + WEEK_S:  # items up to the end of a week belong to it
            self._passed += hours_between(self._week_s, self._week_s + WEEK_S)
            fade = 2.0 ** (-1.0 / _WEEK_HALF_LIFE)
            self.counts *= fade
            self._passed *= fade
            self._week_s += WEEK_S
            self._weekly = [*self._weekly[1 - _KEPT_WEEKS :], np.zeros(HOURS)]


def _of_weeks(odd: NDArray[np.bool_]) -> Floats:
    """Return 1 where each of ``_KEPT_S`` counts an odd or an even week, else 0; shape (kept, n)."""
    return np.vstack([np.ones((len(SHORT_S), len(odd))), ~odd, odd])


class FleetRates:
    """Posterior update rates of many sources, learned together.

    No half-life suits every fleet: recipes of a package collection are predicted best by a year, forums by a week. So
    each source keeps its evidence under several half-lives, and each of these gives a posterior mean. The
    rate is their weighted sum, with the population's mean as one more member. The weights are shared by the fleet and
    fitted online by maximum likelihood of what the probes found (stepwise EM).

    Parameters
    ----------
    sources
        Number of sources; they are numbered from 0.
    half_lives_s
        Ages at which evidence counts half, in seconds, shape (h,).
    mean_per_s
        The population's mean rate before anything is known, in items per second.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``: discounting and its likelihoods.

    Examples
    --------
    >>> rates = FleetRates(2)
    >>> day = 86400.0
    >>> rates.observe([0, 1], [0.0, 0.0], 7 * day, [0, 0, 0, 0, 0, 0, 0], np.arange(1.0, 8.0) * day)
    >>> estimates = rates.per_s(7 * day) * day
    >>> bool(0.8 < estimates[0] < 1.2), bool(estimates[1] < 0.4)
    (True, True)
    """

    def __init__(
        self, sources: int, *, half_lives_s: Sequence[float] = HALF_LIVES_S, mean_per_s: float = DEFAULT_MEAN_PER_S
    ) -> None:
        self._decay = np.log(2) / np.asarray(half_lives_s, dtype=np.float64)[:, None]
        self._default_per_s = mean_per_s
        members = len(half_lives_s) + 1
        self.events = np.zeros((members - 1, sources))
        self.exposure_s = np.zeros((members - 1, sources))
        self.as_of_s = np.full(sources, np.nan)
        self._means_per_s = np.full(members - 1, mean_per_s)
        self._credit = np.full(members, PRIOR_ITEMS / members)
        self._expected = np.full(members, PRIOR_ITEMS)

    @property
    def weights(self) -> Floats:
        """Weights of the half-lives and, last, of the population's mean."""
        weights: Floats = self._credit / self._expected
        return weights

    @property
    def credits(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """What the weights are made of, as ``Blend.credits``: the items credited to each member, and those expected."""
        return tuple(self._credit.tolist()), tuple(self._expected.tolist())

    def observe(
        self, sources: ArrayLike, since_s: ArrayLike, until_s: ArrayLike, item_of: ArrayLike, times_s: ArrayLike
    ) -> None:
        """Take in what probes showed: the exact times of the items that appeared since each source's last probe.

        Parameters
        ----------
        sources
            The sources probed, each at most once, shape (p,).
        since_s, until_s
            What each probe could see: (``since_s``, ``until_s``], unix seconds, shape (p,) or one number.
        item_of
            For each item, the position in ``sources`` of the source that showed it, shape (m,).
        times_s
            Unix seconds of the items, shape (m,).
        """
        probed = np.asarray(sources, dtype=np.int64)
        until = np.broadcast_to(np.asarray(until_s, dtype=np.float64), probed.shape)
        gap_s = until - np.asarray(since_s, dtype=np.float64)
        places, times = np.asarray(item_of, dtype=np.int64), np.asarray(times_s, dtype=np.float64)
        found = np.bincount(places, minlength=len(probed)).astype(np.float64)
        self._weigh(probed, until - gap_s, gap_s, found)
        self._discount(probed, until)
        ages = np.exp(-self._decay * (until[places] - times))
        for horizon, weighted in enumerate(ages):
            self.events[horizon, probed] += np.bincount(places, weights=weighted, minlength=len(probed))
        self.exposure_s[:, probed] += -np.expm1(-self._decay * gap_s) / self._decay

    def per_s(self, now_s: float, sources: ArrayLike | None = None) -> Floats:
        """Return the rates of ``sources`` (all by default) in items per second."""
        which = np.arange(self.events.shape[1]) if sources is None else np.asarray(sources, dtype=np.int64)
        rates: Floats = self.weights @ self._members(which, np.full(len(which), now_s))
        return rates

    def refresh(self, now_s: float) -> None:
        """Compute the population's means again from all sources; takes a pass over the fleet."""
        every = np.arange(self.events.shape[1])
        weight = np.exp(-self._decay * self._age_s(every, np.full(len(every), now_s)))
        events, exposure_s = (self.events * weight).sum(axis=1), (self.exposure_s * weight).sum(axis=1)
        self._means_per_s = (events + PRIOR_EVENTS) / (exposure_s + PRIOR_EVENTS / self._default_per_s)

    @property
    def mean_per_s(self) -> float:
        """The population's mean by the longest half-life."""
        return float(self._means_per_s[-1])

    def evidence(self, sources: Ints, now_s: Floats) -> Floats:
        """Return the items and the time observed, discounted by each half-life to times, shape (2, h, p)."""
        weight = np.exp(-self._decay * self._age_s(sources, now_s))
        return np.stack([self.events[:, sources] * weight, self.exposure_s[:, sources] * weight])

    def _members(self, sources: Ints, now_s: Floats) -> Floats:
        """Return the rates by each half-life and the population's mean, shape (h + 1, p)."""
        members = np.empty((len(self._decay) + 1, len(sources)))
        for horizon, (events, exposure_s) in enumerate(self.evidence(sources, now_s).swapaxes(0, 1)):
            members[horizon] = posterior_means(events, exposure_s, float(self._means_per_s[horizon]))
        members[-1] = self._means_per_s[-1]
        return members

    def _weigh(self, sources: Ints, since_s: Floats, gap_s: Floats, found: Floats) -> None:
        """Credit each member with its share of the items it predicted."""
        members = self._members(sources, since_s)
        rates = self.weights @ members
        share = members * (found / np.maximum(rates, 1e-300))
        forget = np.exp(-found.sum() / MEMORY_ITEMS)
        self._credit = self._credit * forget + self.weights * share.sum(axis=1)
        self._expected = self._expected * forget + members @ gap_s
        self._credit *= correct_level(self._credit, self._expected)

    def _discount(self, sources: Ints, until_s: Floats) -> None:
        weight = np.exp(-self._decay * self._age_s(sources, until_s))
        self.events[:, sources] *= weight
        self.exposure_s[:, sources] *= weight
        self.as_of_s[sources] = np.fmax(self.as_of_s[sources], until_s)

    def _age_s(self, sources: Ints, now_s: Floats) -> Floats:
        """Return the age of the evidence, 0 without evidence."""
        age_s: Floats = np.fmax(0.0, now_s - self.as_of_s[sources])
        return age_s
