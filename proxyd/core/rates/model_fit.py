"""A source's model: what it predicts, and how well it has predicted over about the last week."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import exp, expm1, inf, lgamma, log, log1p, sqrt
from typing import NamedTuple

from proxyd.core.rates.count_distributions import log_gamma_rest
from proxyd.core.rates.rate_blend import ChangedBit, Evidence, ItemCount, ItemTimes, item_times, note_recent
from proxyd.core.rates.week_bins import WEEK_S, Cycle
from proxyd.core.rates.week_shapes import WeekSums

_FIT_HALF_LIFE_S = WEEK_S / 2
_WEEK_OFF_SCORE = -5.0
"""Log-likelihood ratio below which a week is worse than none; `docs/decisions/update-rates.md` has the figures."""
_RATE_OFF_SCORE = 8.0  # the deviance of four standard deviations
_RATE_OFF_FACTOR = 1.5
_CALM = 10.0  # expected items up to which a source is assumed to have no batches
_SURPRISES = 0.1  # the share of items that may come at any hour, so that a single one at night proves nothing


SHAPES = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0)
"""Shapes of the Gamma distributions by which sources are planned; the gaps of the last vary by a tenth."""

_NATS = 3.0  # by which the gaps must have predicted better than the rate and the week
_MEMORY_GAPS = 64.0  # after so many gaps, what was seen counts a third
_MOST_TIMES = 300  # of a history; older ones would count for less than a five-hundredth
_FEWEST_GAPS = 3.0  # gaps before they predict anything
_PRIOR_SPREAD = 0.03  # the sum of the spreads that were seen begins with this, so that few gaps say little
_UNFORESEEN = 0.1  # the share of probes that may find what the gaps do not predict, as after holidays
_BATCH = 0.02  # of the mean gap: items that come so soon after another one belong to it
_LEAST_RATIO, _LEAST_SCORE = -30.0, -10.0


class ItemGaps(NamedTuple):
    """The gaps between a source's items, each discounted by the number of later ones; a batch counts as one item.

    >>> daily = ItemGaps.of_times([86400.0 * day for day in range(11)])
    >>> daily.newest_s, daily.shape > 10
    (864000.0, True)
    """

    newest_s: float | None = None  # the first of the newest batch; in the middle between two probes if it has no time
    gaps: float = 0.0  # their number
    sum_s: float = 0.0
    sum_log: float = 0.0  # the sum of the logarithms of the gaps in seconds
    score: float = 0.0  # log-likelihood ratio of what probes found, by the gaps against the rate and the week

    @property
    def mean_s(self) -> float:
        """The mean gap in seconds; infinity without gaps."""
        return self.sum_s / self.gaps if self.gaps > 0 else inf

    @property
    def shape(self) -> float:
        """The shape of the Gamma distribution that fits the gaps, 1 for those of a Poisson process."""
        if self.gaps < _FEWEST_GAPS:
            return 1.0
        spread = max(0.0, self.gaps * log(self.mean_s) - self.sum_log) + _PRIOR_SPREAD
        spread /= self.gaps - 1.0  # the mean is that of the same gaps
        # of the most likely shape, within 1.5 % (Minka 2002)
        return min(SHAPES[-1], (3.0 - spread + sqrt((spread - 3.0) ** 2 + 24.0 * spread)) / (12.0 * spread))

    @property
    def shape_to_plan_by(self) -> float:
        """One of ``SHAPES``, or 0 if the gaps have not predicted better than the rate and the week."""
        if self.score <= _NATS or self.newest_s is None:
            return 0.0
        shape = self.shape
        return max((each for each in SHAPES if each <= 1.15 * shape), default=0.0)

    def expect(self, since_s: float, until_s: float) -> float:
        """Return how many items are expected in a time in which the newest stays the newest."""
        if self.newest_s is None:
            return 0.0
        since, until = ((at_s - self.newest_s) / self.mean_s for at_s in (since_s, until_s))
        return log_survival(self.shape, since) - log_survival(self.shape, until)

    def assume_items(self, now_s: float) -> ItemGaps:
        """Return the gaps if a probe finds an item for each mean gap that has passed."""
        if self.newest_s is None or now_s - self.newest_s < self.mean_s:
            return self
        return self._replace(newest_s=now_s - (now_s - self.newest_s) % self.mean_s)

    @property
    def deviation_s(self) -> float:
        """The standard deviation of the gaps in seconds."""
        return self.mean_s / sqrt(self.shape)

    @classmethod
    def of_times(cls, times_s: Sequence[float]) -> ItemGaps:
        """Return the gaps of a history of ascending times, judged against a Poisson process of the same mean.

        Only the last three hundred times are looked at.
        """
        times_s = times_s[-_MOST_TIMES:]
        if not times_s or times_s[-1] <= times_s[0]:
            return cls(max(times_s, default=None))
        known, even_per_s = cls(times_s[0]), (len(times_s) - 1) / (times_s[-1] - times_s[0])
        for since_s, until_s in pairwise(times_s):
            per_s = 1.0 / known.mean_s if known.gaps >= _FEWEST_GAPS else even_per_s
            known = known.seen(ItemTimes(since_s, until_s, (until_s,)), per_s)
        return known

    def seen(self, evidence: Evidence, rate_per_s: float, week_score: float = 0.0) -> ItemGaps:
        """Return the gaps after a probe.

        Parameters
        ----------
        rate_per_s
            The rate that was known before the probe.
        week_score
            The log-likelihood ratio of what the probe found, by the source's week against an even one.
        """
        since_s, until_s, told = evidence.since_s, evidence.until_s, item_times(evidence)
        if told is None and isinstance(evidence, ItemCount) and evidence.count > 1:
            return ItemGaps()  # nothing tells how they were spaced
        gap_s = self.mean_s if self.gaps >= _FEWEST_GAPS else 1.0 / max(rate_per_s, 1e-12)
        times_s = self._begin_batches(((since_s + until_s) / 2,) if told is None else told.times_s, _BATCH * gap_s)
        if self.newest_s is None or self.newest_s > since_s or self.gaps < _FEWEST_GAPS or until_s <= since_s:
            return self._with(times_s, self.score)
        if told is None:
            ratio = self._ratio_of_change(since_s, until_s, rate_per_s)
        else:
            ratio = self._ratio(since_s, until_s, times_s, max(1e-12, min(rate_per_s, 1.0 / self.mean_s)))
        fade = exp(-(until_s - since_s) / (_MEMORY_GAPS * self.mean_s))
        score = self.score * fade + _allow_surprises(ratio) - week_score
        return self._with(times_s, max(_LEAST_SCORE, score))

    def _begin_batches(self, times_s: Sequence[float], soon_s: float) -> list[float]:
        """Return the times without those of items that come with an earlier one."""
        kept: list[float] = []
        newest_s = self.newest_s
        for time_s in times_s:
            if newest_s is None or time_s > newest_s + soon_s:
                kept.append(time_s)
                newest_s = time_s
        return kept

    def _with(self, times_s: Sequence[float], score: float) -> ItemGaps:
        newest_s, gaps, sum_s, sum_log, _ = self
        fade = exp(-1.0 / _MEMORY_GAPS)
        for time_s in times_s:
            if newest_s is not None:
                gap_s = time_s - newest_s
                gaps, sum_s, sum_log = gaps * fade + 1.0, sum_s * fade + gap_s, sum_log * fade + log(gap_s)
            newest_s = time_s
        return ItemGaps(newest_s, gaps, sum_s, sum_log, score)

    def _ratio(self, since_s: float, until_s: float, times_s: Sequence[float], rate_per_s: float) -> float:
        """Return the log-likelihood ratio of the times of batches, by the gaps against an even rate."""
        assert self.newest_s is not None
        shape, mean_s, newest_s = self.shape, self.mean_s, self.newest_s
        even = rate_per_s * (until_s - since_s)
        total = even - log_survival(shape, (since_s - newest_s) / mean_s)
        for time_s in times_s:
            gap = (time_s - newest_s) / mean_s
            density = shape * log(shape) + (shape - 1.0) * log(gap) - shape * gap - lgamma(shape)
            total += density - log(mean_s * rate_per_s)
            newest_s = time_s
        return total + log_survival(shape, (until_s - newest_s) / mean_s)

    def _ratio_of_change(self, since_s: float, until_s: float, rate_per_s: float) -> float:
        """Return the log-likelihood ratio of a change at an unknown time, by the gaps against an even rate."""
        by_gaps, even = self.expect(since_s, until_s), rate_per_s * (until_s - since_s)
        return log(max(-expm1(-by_gaps), 1e-13)) - log(max(-expm1(-even), 1e-13))


NO_GAPS = ItemGaps()


def _allow_surprises(ratio: float) -> float:
    """Return the log-likelihood ratio of a mixture with what the ratio is against."""
    return log(_UNFORESEEN) if ratio < _LEAST_RATIO else ratio + log1p(_UNFORESEEN * expm1(-ratio))


def log_survival(shape: float, gap: float) -> float:
    """Return the logarithm of the probability that a gap is longer than ``gap`` mean gaps.

    >>> round(log_survival(1.0, 2.0), 9)
    -2.0
    """
    return log_gamma_rest(shape, shape * gap) if gap > 0 else 0.0


@dataclass(frozen=True, slots=True)
class ModelFit:
    """How well a source's rate and week have predicted what probes found, each probe discounted by its age."""

    score: float = 0.0  # log-likelihood ratio of its week against an even one
    found: float = 0.0
    expected: float = 0.0  # by the rate and the week of the plan
    since_s: float | None = None  # when the first and the last probe that count were made
    as_of_s: float | None = None
    week_off_since_s: float | None = None  # the week has predicted worse than an even one
    rate_off_since_s: float | None = None  # found and expected items differ by far and beyond chance
    spread: float = 0.0  # sum of the squared differences between found and expected items
    gaps: ItemGaps = NO_GAPS  # between its items
    recent: bytes = b""  # items of the last days, packed (``rate_blend``)

    @property
    def is_off(self) -> bool:
        """Whether the week or the rate predicts badly now."""
        return self.week_off_since_s is not None or self.rate_off_since_s is not None

    @property
    def dispersion(self) -> float:
        """Variance over mean of the items that a probe finds, at least 1; batches and wrong rates raise it."""
        return max(1.0, (self.spread + _CALM) / (self.expected + _CALM))

    def since_turn(self, turned_s: float) -> ModelFit:
        """Return the fit as of a week that turned: what was seen before says nothing of it."""
        if self.as_of_s is None or self.as_of_s >= turned_s or (not self.score and self.week_off_since_s is None):
            return self
        return replace(self, score=0.0, week_off_since_s=None)

    def _rate_is_off(self, dispersion: float, *, week_s: float) -> bool:
        """Whether a whole week's items were far more or far fewer than expected, beyond chance."""
        if self.since_s is None or self.as_of_s is None or self.as_of_s - self.since_s < week_s:
            return False
        # While the week is off the rate is not judged, because nights and weekends surprise an even plan.
        more, less = max(self.found, self.expected), min(self.found, self.expected)
        is_far = self.week_off_since_s is None and more > _RATE_OFF_FACTOR * less
        return is_far and _deviance(self.found, self.expected) > _RATE_OFF_SCORE * dispersion

    def with_rate(self, dispersion: float, *, week_s: float) -> ModelFit:
        """Return the fit with the time since which the rate is off; batches (``dispersion``) prove less."""
        if not self._rate_is_off(dispersion, week_s=week_s):
            return self if self.rate_off_since_s is None else replace(self, rate_off_since_s=None)
        return self if self.rate_off_since_s is not None else replace(self, rate_off_since_s=self.as_of_s)


NO_FIT = ModelFit()


def _deviance(found: float, expected: float) -> float:
    """Return how much likelier ``found`` items are at their own rate than at the expected one."""
    return (found * log(found / max(expected, 1e-12)) if found > 0 else 0.0) - (found - expected)


@dataclass(frozen=True, slots=True)
class SourceModel:
    """What is expected of a source: its mean rate, and its week if that is known.

    >>> SourceModel(0.5).expect(0.0, 60.0)
    (30.0, 900.0)
    """

    rate_per_s: float
    sums: WeekSums | None = None  # of its week's shape; ``None`` for an even week
    cycle: Cycle = field(default_factory=Cycle)
    ahead_s: float = 0.0  # offset from UTC of the zone in which its week is counted
    dispersion: float = 1.0  # of the fleet's items by hour; evidence counts less by this factor
    turned_s: float = 0.0  # when all weeks turned, and it with them

    def expect(self, since_s: float, until_s: float) -> tuple[float, float]:
        """Return the items expected in (``since_s``, ``until_s``], and their waits at its end in item-seconds."""
        gap_s = max(0.0, until_s - since_s)
        if self.sums is None or gap_s == 0.0:
            return self.rate_per_s * gap_s, self.rate_per_s * gap_s * gap_s / 2
        cycle, ahead_s, speed = self.cycle, self.ahead_s, self.cycle.speed
        items, waits = self.sums.between(cycle.week_s(since_s) + ahead_s, cycle.week_s(until_s) + ahead_s)
        return self.rate_per_s * items / speed, self.rate_per_s * waits / (speed * speed)

    def model_to_plan_by(self, fit: ModelFit) -> SourceModel:
        """Return the model for planning the source: with an even week while its own is off."""
        is_on = fit.week_off_since_s is None or fit.since_turn(self.turned_s).week_off_since_s is None
        return self if is_on else replace(self, sums=None)

    def judge(self, fit: ModelFit, evidence: Evidence) -> ModelFit:
        """Return the fit after a probe; the model must be the one from before the probe."""
        gap_s = evidence.until_s - evidence.since_s
        if gap_s <= 0:
            return fit
        fit = fit.since_turn(self.turned_s) if self.turned_s > 0 else fit
        # The week is judged by its own shape even while it is off, so that it can recover; the rate by the plan.
        even = self.rate_per_s * gap_s
        by_week = even if self.sums is None else self.expect(evidence.since_s, evidence.until_s)[0]
        is_off = fit.week_off_since_s is not None
        found, expected = count_probe(evidence, even if is_off else by_week)
        factor = 1.0 if is_off else by_week / max(even, 1e-300)
        as_of_s = evidence.since_s if fit.as_of_s is None else fit.as_of_s
        speed = self.cycle.speed
        fade = 2.0 ** (-max(0.0, evidence.until_s - as_of_s) * speed / _FIT_HALF_LIFE_S)
        week_score = self._score(evidence, even, by_week)
        score = fit.score * fade + week_score / self.dispersion
        now = ModelFit(
            score if self.sums is not None else 0.0,
            fit.found * fade + found,
            fit.expected * fade + expected,
            evidence.since_s if fit.since_s is None else fit.since_s,
            max(as_of_s, evidence.until_s),
            self._off_since_s(score, fit.week_off_since_s, evidence.until_s),
            fit.rate_off_since_s,
            fit.spread * fade + (found - expected) ** 2,
            fit.gaps.seen(evidence, self.rate_per_s, 0.0 if is_off else week_score),
            self._recent_after(fit.recent, evidence.until_s - as_of_s, evidence, found, factor),
        )
        return now.with_rate(self.dispersion, week_s=self.cycle.length_s)

    def _recent_after(self, recent: bytes, age_s: float, evidence: Evidence, found: float, factor: float) -> bytes:
        odd = self.cycle.in_odd_weeks(evidence)
        return note_recent(recent, age_s, evidence, found, factor, self.cycle.speed, odd)

    def _off_since_s(self, score: float, since_s: float | None, now_s: float) -> float | None:
        if self.sums is None or score > 0:
            return None
        return now_s if since_s is None and score < _WEEK_OFF_SCORE else since_s

    def _score(self, evidence: Evidence, even: float, by_week: float) -> float:
        """Return the log-likelihood ratio of the week, with some surprises allowed, against an even one."""
        if self.sums is None:
            return 0.0
        expected = (1.0 - _SURPRISES) * by_week + _SURPRISES * even
        if isinstance(evidence, ItemTimes):
            return sum(map(self._log_factor, evidence.times_s)) - (expected - even)
        if isinstance(evidence, ItemCount):
            return 0.0 if evidence.at_least else evidence.count * log(expected / max(even, 1e-300)) - (expected - even)
        return log(expm1(-expected) / min(expm1(-even), -1e-300)) if evidence.changed else even - expected

    def _log_factor(self, time_s: float) -> float:
        assert self.sums is not None
        factor = self.sums.factor(self.cycle.week_s(time_s) + self.ahead_s)
        return log((1.0 - _SURPRISES) * factor + _SURPRISES)


def count_probe(evidence: Evidence, expected: float) -> tuple[float, float]:
    """Return what a probe found and how much of it was expected; for bits, whether anything changed.

    >>> count_probe(ItemCount(0.0, 60.0, 3, at_least=True), 4.0)
    (4.0, 4.0)
    """
    if isinstance(evidence, ItemTimes):
        return float(len(evidence.times_s)), expected
    if isinstance(evidence, ChangedBit):
        return float(evidence.changed), -expm1(-expected)
    return max(float(evidence.count), expected if evidence.at_least else 0.0), expected
