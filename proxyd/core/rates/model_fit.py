"""A source's model: what it predicts, and how well it has predicted over about the last week."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import expm1, log

from proxyd.core.rates.rate_blend import ChangedBit, Evidence, ItemCount, ItemTimes
from proxyd.core.rates.week_bins import WEEK_S, Cycle
from proxyd.core.rates.week_shapes import WeekSums

_FIT_HALF_LIFE_S = WEEK_S / 2
_WEEK_OFF_SCORE = -5.0
"""Log-likelihood ratio below which a week is worse than none; `docs/decisions/update-rates.md` has the figures."""
_RATE_OFF_SCORE = 8.0  # the deviance of four standard deviations
_RATE_OFF_FACTOR = 1.5
_CALM = 10.0  # expected items up to which a source is assumed to have no batches
_SURPRISES = 0.1  # the share of items that may come at any hour, so that a single one at night proves nothing


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

    @property
    def is_off(self) -> bool:
        """Whether the week or the rate predicts badly now."""
        return self.week_off_since_s is not None or self.rate_off_since_s is not None

    @property
    def dispersion(self) -> float:
        """Variance over mean of the items that a probe finds, at least 1; batches and wrong rates raise it."""
        return max(1.0, (self.spread + _CALM) / (self.expected + _CALM))

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
        return self if fit.week_off_since_s is None else replace(self, sums=None)

    def judge(self, fit: ModelFit, evidence: Evidence) -> ModelFit:
        """Return the fit after a probe; the model must be the one from before the probe."""
        gap_s = evidence.until_s - evidence.since_s
        if gap_s <= 0:
            return fit
        # The week is judged by its own shape even while it is off, so that it can recover; the rate by the plan.
        even = self.rate_per_s * gap_s
        by_week = even if self.sums is None else self.expect(evidence.since_s, evidence.until_s)[0]
        is_off = fit.week_off_since_s is not None
        found, expected = _count_probes(evidence, even if is_off else by_week)
        as_of_s = evidence.since_s if fit.as_of_s is None else fit.as_of_s
        fade = 2.0 ** (-max(0.0, evidence.until_s - as_of_s) * self.cycle.speed / _FIT_HALF_LIFE_S)
        score = fit.score * fade + self._score(evidence, even, by_week) / self.dispersion
        now = ModelFit(
            score if self.sums is not None else 0.0,
            fit.found * fade + found,
            fit.expected * fade + expected,
            evidence.since_s if fit.since_s is None else fit.since_s,
            max(as_of_s, evidence.until_s),
            self._off_since_s(score, fit.week_off_since_s, evidence.until_s),
            fit.rate_off_since_s,
            fit.spread * fade + (found - expected) ** 2,
        )
        return now.with_rate(self.dispersion, week_s=self.cycle.length_s)

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


def _count_probes(evidence: Evidence, expected: float) -> tuple[float, float]:
    """Return what a probe found and how much of it was expected; for bits, whether anything changed."""
    if isinstance(evidence, ItemTimes):
        return float(len(evidence.times_s)), expected
    if isinstance(evidence, ChangedBit):
        return float(evidence.changed), -expm1(-expected)
    return max(float(evidence.count), expected if evidence.at_least else 0.0), expected
