"""Weeks that turned: whether the items of the last days came some hours earlier or later than the learned weeks say."""

from __future__ import annotations

import numpy as np

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.rates.siblings import TOGETHER_S
from proxyd.core.rates.week_bins import HOUR_S, HOURS, MONDAY_S
from proxyd.core.rates.week_shapes import factors_over_hours

LONGEST_S = 3 * 86400.0
"""The time whose changes are looked at."""

_WINDOWS_S = (86400.0, LONGEST_S)  # either must show it; in the middle of a week three days show the old one too
_MOST_H = 12
_NATS, _NEAR = 15.0, 3.0  # that show a turn, and within which hours cannot be told apart
_BATCHES = 1  # the two hours that say most do not count, because batches come at any hour
_SURPRISES = 0.1  # the share of items that may come at any hour
_SAMPLE = 10_000  # sources that are looked at, those of the newest changes


def hours_turned(
    changes: tuple[Ints, Ints],
    weeks: tuple[Floats, Ints],
    rates: Floats,
    seen_s: Floats,
    zone_s: Floats,
    *,
    since_s: float,
    dispersion: float,
) -> int:
    """Return by how many hours all weeks have turned: later if positive, 0 if the last days do not clearly say so.

    The times of changes are compared under the weeks as they are, and as they are up to 12 hours earlier or later, at
    the rate that fits best in each case. A ratio of the likelihoods of 15 nats, times the dispersion, is clear.

    Parameters
    ----------
    changes
        The numbers of the two hours in which sources changed, ascending, and the sources.
    weeks
        Shapes, and the shape of each source.
    seen_s
        When each source was probed last, in the time of the week; nothing is known of later changes.
    zone_s
        Offset of the zone of each source's week.
    since_s
        Earlier changes do not count, since the weeks turned then.
    dispersion
        How many sources change together (``rates.siblings.together``): batches say less.

    Examples
    --------
    >>> office = np.repeat([0.1, 2.8, 0.1], [8, 8, 8])
    >>> shapes, day = np.tile(office, 7)[None, :], round(MONDAY_S / 86400.0) + 70
    >>> bins = np.repeat((day * 12 + np.arange(12)), np.round(6 * office[(2 * np.arange(12) - 6) % 24]).astype(int))
    >>> times = np.array([(day + 1) * 86400.0])
    >>> one = np.zeros(1, dtype=np.int64)
    >>> hours_turned((bins, one.repeat(len(bins))), (shapes, one), np.ones(1), times, np.zeros(1), since_s=0.0,
    ...     dispersion=1.0)
    6
    """
    bins, of_change = changes
    shapes, of_source = weeks
    if not len(bins) or not np.ptp(shapes) > 1e-9:
        return 0
    taken = np.unique(of_change[-_SAMPLE:])
    shapes = (1.0 - _SURPRISES) * shapes + _SURPRISES
    hours = np.arange(-_MOST_H, _MOST_H + 1)
    in_sample = np.zeros(len(of_source), dtype=np.bool_)
    in_sample[taken] = True
    now_s = float(seen_s[taken].max())
    ratios: list[Floats] = []
    for window_s in _WINDOWS_S:
        start_s = np.ceil(max(now_s - window_s, since_s) / TOGETHER_S) * TOGETHER_S
        counted = (bins * TOGETHER_S >= start_s) & in_sample[of_change]
        if not counted.any():
            return 0
        own, at_s = of_change[counted], bins[counted] * TOGETHER_S + zone_s[of_change[counted]]
        hour = np.floor((at_s - MONDAY_S) / HOUR_S).astype(np.int64)
        begun_s, seen = start_s + zone_s[taken], np.maximum(seen_s[taken], start_s) + zone_s[taken]
        by_bin: list[Floats] = []
        for by in hours.tolist():
            turned = np.roll(shapes, by, axis=1)
            factors = (turned[of_source[own], hour % HOURS] + turned[of_source[own], (hour + 1) % HOURS]) / 2
            over = factors_over_hours(begun_s, seen, turned)[np.arange(len(taken)), of_source[taken]]
            by_change = np.log(factors) - np.log(max(float(rates[taken] @ over), 1e-12))
            by_bin.append(np.bincount(bins[counted] - bins[counted].min(), by_change).astype(np.float64))
        ratios.append(np.sort(np.array(by_bin) - by_bin[_MOST_H], axis=1))
    # a day says little of what day it is: of the hours that it cannot tell apart the longer time tells
    likeliest = [int(np.argmax(each.sum(axis=1))) for each in (ratios[0], ratios[1])]
    both = ratios[0].sum(axis=1) + ratios[1].sum(axis=1)
    for ratio, best in zip(ratios, likeliest, strict=True):
        near = ratio.sum(axis=1) > ratio[best].sum() - _NEAR * dispersion
        if ratio[best, :-_BATCHES].sum() > _NATS * dispersion:
            return int(hours[np.argmax(np.where(near, both, -np.inf))])
    return 0
