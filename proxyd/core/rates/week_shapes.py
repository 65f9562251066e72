"""Week shapes: the hours in which updates come, shared by many sources and shrunk towards simpler shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, log, pi
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.rates.week_bins import HOUR_S, HOURS, MONDAY_S, WEEK_S

_CONCENTRATIONS = np.array([2.0**power for power in range(-3, 14)])
_HALF_LOG_2PI = 0.5 * log(2.0 * pi)
_ROUNDS = 30
_SETTLED = 0.1  # a round of EM that gains less is the last one: all items together hardly tell the difference
_HOURS_LATER = np.arange(-24, 24)  # by which a source may follow a shape
_MOVED = (np.arange(HOURS) - _HOURS_LATER[:, None]) % HOURS  # the hour of a shape that such a source shows in each hour
_SHOWN = (np.arange(HOURS) + _HOURS_LATER[:, None]) % HOURS  # the hour in which it shows each hour of the shape
_SURE_OF_HOUR = 0.6  # the probability of an hour of the day and its neighbours, from which on a source follows it
_TRUST_ITEMS = 20_000.0  # items after which earlier ones count half for the trust in weeks
_LEAST_FACTOR = 1e-3
_TRUSTED = tuple((3.0 * np.log(np.maximum(np.linspace(0.0, 1.0, 11), 0.01))).tolist())  # at first, 0.84 on average


def factors_over_hours(start_s: ArrayLike, stop_s: ArrayLike, shapes: Floats) -> Floats:
    """Return the sum of each shape's factors over the hours between two unix times, shape (times, shapes).

    It equals ``passed_hours(start_s, stop_s) @ shapes.T``, without a loop over the hours.

    >>> shapes = np.arange(2.0 * HOURS).reshape(2, HOURS)
    >>> factors_over_hours([4 * 86400.0], [4 * 86400.0 + 5400.0], shapes)
    array([[  0.5, 252.5]])
    """
    sums = np.concatenate([np.zeros((1, len(shapes))), np.cumsum(shapes.T, axis=0)])

    def until(end_s: ArrayLike) -> Floats:
        weeks, rest = np.divmod((np.asarray(end_s, dtype=np.float64) - MONDAY_S) / HOUR_S, HOURS)
        hour = np.minimum(rest.astype(np.int64), HOURS - 1)
        reached: Floats = weeks[:, None] * sums[-1] + sums[hour] + (rest - hour)[:, None] * shapes.T[hour]
        return reached

    return until(stop_s) - until(start_s)


def _shapes(seen: Floats, flat: Floats) -> Floats:
    """Return the shapes that explain ``seen`` if flat weeks would have shown ``flat``; all of shape (shapes, 168).

    Empirical Bayes in two steps: hours of the day and days of the week are each shrunk towards a flat week, and the 168
    hours towards their product, each by as much as the counts' marginal likelihood favours. Without events, or without
    a pattern in them, the week is flat. Counts are Poisson, factors Gamma with mean b: the counts' marginal is negative
    binomial and the posterior mean ``(k b + N) / (k + M)`` with M the items expected of a flat week.
    """
    by_day, flat_by_day = seen.reshape(-1, 7, 24), flat.reshape(-1, 7, 24)
    hours = _shrunk(by_day.sum(axis=1), flat_by_day.sum(axis=1), np.ones(24))
    days = _shrunk(by_day.sum(axis=2), flat_by_day.sum(axis=2), np.ones(7))
    factors = _shrunk(seen, flat, (days[:, :, None] * hours[:, None, :]).reshape(seen.shape))
    shapes: Floats = factors / factors.mean(axis=1, keepdims=True)
    return shapes


def _shrunk(counts: Floats, flat: Floats, base: Floats) -> Floats:
    """Return the factors' posterior means around ``base``, each row at the likeliest concentration of its prior."""
    means, k = np.maximum(base * flat, 1e-12), _CONCENTRATIONS[:, None, None]
    # the likelihood without the terms that do not depend on the concentration
    of_prior = _CONCENTRATIONS * np.log(_CONCENTRATIONS) - _log_gamma(_CONCENTRATIONS)
    likelihood = (_log_gamma(counts + k) - (counts + k) * np.log(means + k)).sum(axis=2)
    best = np.argmax(likelihood + counts.shape[1] * of_prior[:, None], axis=0)
    concentration = _CONCENTRATIONS[best][:, None]
    is_base = concentration == _CONCENTRATIONS[-1]
    factors: Floats = np.where(is_base, base, base * (concentration + counts) / (concentration + means))
    return factors


def _log_gamma(x: Floats) -> Floats:
    """Return the logarithm of the gamma function of numbers from 0.1 on, to nine digits: Stirling's series at x + 8.

    >>> _log_gamma(np.array([1.0, 5.0])).round(8).tolist() == np.log([1.0, 24.0]).round(8).tolist()
    True
    """
    above, ends = x + 8.0, x * (x + 7.0)
    square = above * above
    series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / above
    falling = ends * (ends + 6.0) * (ends + 10.0) * (ends + 12.0)  # x (x + 1) ... (x + 7), by its ends
    logs: Floats = (above - 0.5) * np.log(above) - above + _HALF_LOG_2PI + series - np.log(falling)
    return logs


@dataclass(frozen=True, eq=False)
class WeekShapes:
    """Shapes that many sources share, and the shape that each of them follows."""

    shapes: Floats  # factors of the hours of the week, shape (clusters, 168), each row with mean 1
    of_source: Ints  # the cluster of each source, shape (sources,)
    dispersion: float = 1.0  # variance over mean of their items by hour
    ahead_h: Ints | None = None  # by how many hours each source is ahead of its shape, shape (sources,)

    def mix_with_even(self, share: float) -> WeekShapes:
        """Return the shapes mixed with an even week, of which they make up ``share``."""
        return replace(self, shapes=share * self.shapes + (1 - share))

    def with_even_weeks(self, even: NDArray[np.bool_]) -> WeekShapes:
        """Return the shapes with an even week for some sources, shape (sources,)."""
        if not even.any():
            return self
        shapes = np.vstack([self.shapes, np.ones(self.shapes.shape[1])])
        return replace(self, shapes=shapes, of_source=np.where(even, len(self.shapes), self.of_source))

    def in_place(self) -> tuple[Floats, Ints]:
        """Return the shapes that occur, each as it is moved, and that of each source."""
        if self.ahead_h is None:
            return self.shapes, self.of_source
        pairs, of_source = np.unique(np.stack([self.of_source, self.ahead_h]), axis=1, return_inverse=True)
        moved = np.array([np.roll(self.shapes[shape], -ahead) for shape, ahead in pairs.T.tolist()])
        return moved.reshape(-1, HOURS), of_source.reshape(-1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class WeekTrust:
    """How much of the learned weeks to believe, from how well they predicted later items.

    The rest of a week is taken as even: what came in a few hours of the past often comes in others, above all if it
    came in batches.

    >>> new, many, few = WeekTrust(), np.full(1000, 2.0), np.full(250, 0.5)
    >>> as_learned = new.seen(many, even=500.0, shaped=1000.0).seen(few, even=500.0, shaped=250.0)
    >>> round(new.share, 1), as_learned.share > 0.9, new.seen(few, even=250.0, shaped=500.0).share < 0.1
    (0.8, True, True)
    """

    # The logarithm of the likelihood of the items for each share of the learned weeks; the newest items count most.
    likelihoods: tuple[float, ...] = _TRUSTED

    @property
    def share(self) -> float:
        """The expected weight of the learned weeks, 0 to 1."""
        logs = np.array(self.likelihoods)
        likely = np.exp(logs - logs.max())
        return float(likely @ np.linspace(0.0, 1.0, len(logs)) / likely.sum())

    def seen(self, factors: ArrayLike, *, even: float, shaped: float, weight: float = 1.0) -> WeekTrust:
        """Return the trust after items came in hours of these factors; each counts as ``weight`` items.

        ``even`` and ``shaped`` are the items that the rates expected in this time, of an even and of the learned week.
        """
        given = np.asarray(factors, dtype=np.float64)
        if not given.size:  # as with most probes, so in plain floats
            less = weight * (shaped - even) / (len(self.likelihoods) - 1)
            return WeekTrust(tuple(known - place * less for place, known in enumerate(self.likelihoods)))
        shares = np.linspace(0.0, 1.0, len(self.likelihoods))
        logs = np.log(np.maximum(np.multiply.outer(given, shares) + 1.0 - shares, _LEAST_FACTOR)).sum(axis=0)
        new = weight * (logs - shares * (shaped - even))
        fade = 0.5 ** (weight * given.size / _TRUST_ITEMS)
        return WeekTrust(tuple((np.array(self.likelihoods) * fade + new).tolist()))


def common_shapes(counts: ArrayLike, passed: ArrayLike, *, most: int = 8, dispersion: float = 1.0) -> WeekShapes:
    """Return one to ``most`` week shapes and the shape that each source follows.

    A mixture fitted by EM, with shapes shrunk towards flat weeks as far as their items are few or show no pattern. The
    most mixed shape is split as long as that pays by the Bayesian information criterion on effective
    (dispersion-scaled) counts.

    Parameters
    ----------
    counts
        Items of each source by hour of the week, shape (sources, 168).
    passed
        How often each hour has been observed, shape (168,), or of each source, shape (sources, 168).
    dispersion
        Variance over mean of the counts; items that come in batches count less by this factor.

    Notes
    -----
    Source: ``docs/decisions/update-rates.md``.

    Examples
    --------
    >>> office, night = np.zeros(168), np.zeros(168)
    >>> office[9:17], night[20:24] = 40.0, 60.0
    >>> found = common_shapes([office, night, office, night], np.ones(168))
    >>> len(found.shapes), bool(found.of_source[0] == found.of_source[2] != found.of_source[1])
    (2, True)
    """
    seen, weeks = np.asarray(counts, dtype=np.float64), np.asarray(passed, dtype=np.float64)
    if seen.sum() <= 0 or weeks.sum() <= 0:
        return WeekShapes(np.ones((1, HOURS)), np.zeros(len(seen), dtype=np.int64))
    sample, members = _Sample.of(seen, weeks, dispersion), np.zeros(len(seen), dtype=np.int64)
    shapes = _pool(sample, np.ones((len(seen), 1)))
    score = _score(sample, shapes)
    for _ in range(2, min(most, len(seen)) + 1):
        trial, belongs, trial_score = _mixture(sample, _split(sample, shapes, members))
        if trial_score <= score:
            break
        shapes, members, score = trial, np.argmax(belongs, axis=1), trial_score
    return WeekShapes(shapes, members)


# By which one shape must explain each source better: 3.5 to 17 where sources are in 24 zones, mostly under 2 where they
# are in three and some have evenings of their own; there it cost 4 % more probes.
_NATS_TO_MOVE = 3.0


def one_shape_moved(counts: Floats, passed: Floats, learned: WeekShapes, *, dispersion: float = 1.0) -> WeekShapes:
    """Return one shape that each source follows some hours earlier or later, if it explains far more than ``learned``.

    Offices in many zones, or shops of many countries, share a week, but not the hours of a day. A mixture over a day
    either way, fitted by EM: one that were turned within the day would give some of them the weekend of others. Sources
    that say too little of their hour follow the mean over all.

    Parameters
    ----------
    counts, passed, dispersion
        As for ``common_shapes``.

    Examples
    --------
    >>> office = np.repeat([0.0, 40.0, 0.0], [9, 8, 7]).tolist() * 7
    >>> counts = np.array([np.roll(office, zone) for zone in range(0, 24, 2)])
    >>> found = one_shape_moved(counts, np.ones(168), common_shapes(counts, np.ones(168)))
    >>> found.ahead_h is not None and np.unique((found.ahead_h + np.arange(0, 24, 2)) % 24).size
    1
    """
    if len(learned.shapes) < 2:  # then all follow one shape as it is
        return learned
    sample = _Sample.of(counts, passed, dispersion)
    needed = _score(sample, learned.shapes) + _NATS_TO_MOVE * len(counts)
    best = [int(np.argmax(sample.items))]
    first = _shapes(sample.counts[best].astype(np.float64), sample.flat[best].astype(np.float64))
    (shape,), belongs, score = _mixture(sample, first, needed=needed, is_moved=True)
    if score <= needed:
        return learned
    of_source, ahead_h = _hours_ahead(belongs)
    return WeekShapes(np.array([shape, belongs.mean(axis=0) @ moved(shape)]), of_source, learned.dispersion, ahead_h)


def hours_ahead(counts: Floats, passed: Floats, shape: Floats, *, dispersion: float) -> tuple[Ints, Ints]:
    """Return which shape of ``one_shape_moved`` each source follows, and by how many hours it is ahead of it.

    The parameters are as for ``one_shape_moved``; a source that says too little of its hour follows the mean.

    >>> office = np.repeat([0.0, 3.0, 0.0], [9, 8, 7]).tolist() * 7
    >>> counts = np.array([np.roll(office, 2), np.zeros(168)])
    >>> of_source, ahead_h = hours_ahead(counts, np.ones(168), np.array(office), dispersion=1.0)
    >>> of_source.tolist(), ahead_h.tolist()
    ([0, 1], [-2, 0])
    """
    return _hours_ahead(_memberships(_Sample.of(counts, passed, dispersion), moved(shape))[0])


def _hours_ahead(belongs: Floats) -> tuple[Ints, Ints]:
    """Return the same from the probability that each source follows the shape by each of the hours."""
    # Of equals the nearest. The rounding of float32 differs between processors, and by more than a millionth.
    place = np.argmax(belongs - 1e-4 * np.abs(_HOURS_LATER), axis=1)
    of_day = belongs[:, :24] + belongs[:, 24:]  # where all days are alike, nothing tells which day it is
    near = np.stack([of_day[np.arange(len(place)), (place + by) % 24] for by in (-1, 0, 1)]).sum(axis=0)
    is_known = near > _SURE_OF_HOUR
    return np.where(is_known, 0, 1), np.where(is_known, -_HOURS_LATER[place], 0)


def moved(shape: Floats) -> Floats:
    """Return a shape as sources show it that follow it a day earlier to 23 hours later, shape (48, 168).

    >>> moved(np.arange(168.0))[26, :3].tolist()
    [166.0, 167.0, 0.0]
    """
    placed: Floats = shape[_MOVED]
    return placed


def belonging(counts: NDArray[np.float32], expected: Floats, shapes: Floats) -> Ints:
    """Return the likeliest shape of each source.

    ``counts`` are items by hour of the week, shape (sources, 168), or any multiple of them, and ``expected`` the
    factors of each shape over the hours that each source was observed, shape (sources, shapes).
    """
    likeliest: Ints = np.argmax(_likelihoods(counts, expected.astype(np.float32), shapes), axis=1)
    return likeliest


class _Sample(NamedTuple):
    """What sources showed by hour of the week; of four bytes, which take half the time and tell the same."""

    counts: NDArray[np.float32]  # effective items, shape (sources, 168)
    flat: NDArray[np.float32]  # what each source would have shown in flat weeks, shape (sources, 168)
    items: NDArray[np.float32]  # of all hours, shape (sources, 1)

    @classmethod
    def of(cls, counts: Floats, passed: Floats, dispersion: float) -> _Sample:
        """Return the sample of items and observed hours, as ``common_shapes`` takes them."""
        seen = (counts / dispersion).astype(np.float32)
        items = seen.sum(axis=1, keepdims=True)
        return cls(seen, items * (passed / np.maximum(passed.sum(axis=-1, keepdims=True), 1e-12)).astype("f4"), items)


def _pool(sample: _Sample, belongs: Floats, *, is_moved: bool = False) -> Floats:
    """Return the shape of several sources together by their shares in it, shape (sources, shapes), for each shape.

    If one shape is moved, the shares are those of its places, and each source is moved back to the shape.
    """
    by_share = belongs.T.astype(np.float32)
    seen, flat = (by_share @ each for each in (sample.counts, sample.flat))
    if is_moved:
        seen, flat = (np.take_along_axis(each, _SHOWN, axis=1).sum(axis=0, keepdims=True) for each in (seen, flat))
    return _shapes(seen.astype(np.float64), flat.astype(np.float64))


def _split(sample: _Sample, shapes: Floats, members: Ints) -> Floats:
    """Return the shapes and one more: that of the sources that fit their own shape worst."""
    expected = sample.flat * shapes.astype(np.float32)[members]
    off = sample.counts - expected
    misfit = (off**2 / np.maximum(expected, 1e-9)).sum(axis=1)
    worst = (off @ off[int(np.argmax(misfit))] > 0).astype(np.float64)
    return np.vstack([shapes, _pool(sample, worst[:, None])])


def _mixture(
    sample: _Sample, shapes: Floats, *, needed: float = -inf, is_moved: bool = False
) -> tuple[Floats, Floats, float]:
    """Return the shapes fitted by EM, the probability of each for each source, and their score.

    If one shape is moved, the probabilities are those of its places. It is left as it is if even ten times its present
    pace does not bring it to the ``needed`` score. Several shapes gain little for some rounds before they part.
    """
    last = -inf
    for left in range(_ROUNDS, -1, -1):
        belongs, fit = _memberships(sample, moved(shapes[0]) if is_moved else shapes)
        score, gain, last = fit - _cost(sample, shapes), fit - last, fit
        if gain < _SETTLED or score + 10 * left * gain <= needed or not left:
            break
        shapes = _pool(sample, belongs, is_moved=is_moved)
    return shapes, belongs, score


def _score(sample: _Sample, shapes: Floats) -> float:
    """Return the log-likelihood of a mixture minus the cost of its parameters (BIC)."""
    return _memberships(sample, shapes)[1] - _cost(sample, shapes)


def _memberships(sample: _Sample, shapes: Floats) -> tuple[Floats, float]:
    """Return the probability that each source follows each shape, and the log-likelihood of all.

    Likelihoods are those at the best-fitting rates, without what depends on no shape.
    """
    logs = _likelihoods(sample.counts, sample.flat @ shapes.T.astype(np.float32), shapes)
    most = logs.max(axis=1, keepdims=True)
    odds = np.exp(logs - most)
    all_odds = odds.sum(axis=1, keepdims=True)
    return odds / all_odds, float((most + np.log(all_odds / len(shapes))).sum())


def _likelihoods(counts: NDArray[np.float32], expected: NDArray[np.float32], shapes: Floats) -> Floats:
    """Return the log-likelihood of each source under each shape, whatever its rate, but for a constant."""
    items = counts.sum(axis=1, keepdims=True)
    logs = counts @ np.log(shapes + 1e-12).T.astype(np.float32) - items * np.log(np.maximum(expected, 1e-12))
    likely: Floats = logs.astype(np.float64)
    return likely


def _cost(sample: _Sample, shapes: Floats) -> float:
    """Return what the parameters of shapes cost: hours and days each, more where these do not explain all hours."""
    by_day = shapes.reshape(-1, 7, 24)
    product = by_day.mean(axis=2)[:, :, None] * by_day.mean(axis=1)[:, None, :]
    is_product = np.isclose(product, by_day, rtol=0.02, atol=0.02).all(axis=(1, 2))
    parameters = np.where(is_product, 1.0 + 28.0 * (np.ptp(shapes, axis=1) > 1e-9), 29.0)
    return 0.5 * float(parameters.sum() * np.log(max(2.0, float(sample.items.sum()))))


def dispersion_of(weekly: Sequence[ArrayLike] | Floats) -> float:
    """Return variance over mean of the items by hour, from several weeks of counts, shape (weeks, 168); at least 1.

    >>> dispersion_of([[2.0] * 168, [2.0] * 168])
    1.0
    """
    counts = np.asarray(weekly, dtype=np.float64)
    if len(counts) < 2 or counts.sum() <= 0:
        return 1.0
    level = counts.sum(axis=1, keepdims=True) / counts.sum()
    expected = counts.sum(axis=0) * level
    some = expected > 0
    pearson = ((counts - expected)[some] ** 2 / expected[some]).sum()
    return max(1.0, float(pearson) / ((len(counts) - 1) * max(1, int(some.any(axis=0).sum()))))


class WeekSums:
    """Integrals of a week shape, exact between any two times, in plain floats, because a probe needs only two or three.

    With ``F(t)`` the integral of the factor and ``H(t)`` that of ``F``, both from Monday on, ``F(t) - F(s)`` items come
    in ``(s, t]``, and they have waited ``H(t) - H(s) - F(s) (t - s)`` at ``t``.

    >>> even = WeekSums([1.0] * 168)
    >>> even.between(0.0, 60.0)
    (60.0, 1800.0)
    >>> days = WeekSums([7.0] + [0.0] * 6)
    >>> days.factor(MONDAY_S + 3600.0), days.between(MONDAY_S, MONDAY_S + 2 * 86400.0)[0] / 86400.0
    (7.0, 7.0)
    """

    def __init__(self, factors: Sequence[float]) -> None:
        self._part_s = WEEK_S / len(factors)
        self._factors = [float(factor) for factor in factors]
        self._F, self._H = [0.0], [0.0]
        for factor in self._factors:
            self._H.append(self._H[-1] + self._F[-1] * self._part_s + factor * self._part_s**2 / 2)
            self._F.append(self._F[-1] + factor * self._part_s)

    def factor(self, time_s: float) -> float:
        """Return the factor at a time of the week."""
        return self._factors[int((time_s - MONDAY_S) % WEEK_S // self._part_s) % len(self._factors)]

    def between(self, since_s: float, until_s: float) -> tuple[float, float]:
        """Return the items expected at a mean rate of one a second, and their waits at ``until_s`` in item-seconds."""
        gap_s = until_s - since_s
        begin_s = (since_s - MONDAY_S) % WEEK_S
        F0, H0 = self._at(begin_s)  # noqa: N806 - as in the notes
        F1, H1 = self._at(begin_s + gap_s)  # noqa: N806
        return F1 - F0, max(0.0, H1 - H0 - F0 * gap_s)

    def _at(self, time_s: float) -> tuple[float, float]:
        """Return F and H, which continue from week to week."""
        weeks, within_s = divmod(time_s, WEEK_S)
        part = min(int(within_s / self._part_s), len(self._factors) - 1)
        rest_s = within_s - part * self._part_s
        whole, factor = self._F[-1], self._factors[part]
        F = self._F[part] + factor * rest_s  # noqa: N806
        H = self._H[part] + self._F[part] * rest_s + factor * rest_s * rest_s / 2  # noqa: N806
        earlier = weeks * (weeks - 1) / 2 * whole * WEEK_S + weeks * (self._H[-1] + whole * within_s)
        return weeks * whole + F, earlier + H
