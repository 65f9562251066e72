"""Expected execution intervals under a varying rate, and the probe most likely to fall inside one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc, gammaln, xlogy

from proxyd.core.model.chronon import Chronon, ChrononGrid, Epoch
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.capture.spans import Floats, Ints
from proxyd.core.planning.policies.expected_intervals import FiringPattern


@dataclass(frozen=True, slots=True)
class LikeliestProbe:
    """The chronon at which a probe most likely falls inside an interval, and the probability.

    ``exact`` means that no chronon of the epoch is likelier; the first of equals is chosen.
    """

    chronon: Chronon
    probability: float
    exact: bool = True


def expected_intervals(
    intensity: PiecewiseConstant,
    firing: FiringPattern,
    *,
    source_id: str,
    rule: str,
    life_s: float | None,
    grid: ChrononGrid,
    epoch: Epoch,
) -> list[ExecutionInterval]:
    """Return the intervals that a rule is expected to open inside the epoch.

    The k-th firing's interval starts when the expected number of items since the start of ``intensity`` reaches ``k
    X`` for ``COUNT(*) % X = 0``. Under *overwrite* (``life_s`` is ``None``) it ends one chronon before the next
    expected item, or with the epoch if ``intensity`` ends before that; under a window it ends ``life_s`` later.

    Parameters
    ----------
    intensity
        Items per second over unix seconds; items are counted from its start.
    life_s
        In seconds.

    Notes
    -----
    Source: Roitman et al., section 4; ``docs/algorithms.md``. At a constant rate they equal those of
    ``expected_interval``.

    Examples
    --------
    >>> day = PiecewiseConstant([0.0, 100.0, 200.0], [0.05, 0.02])
    >>> found = expected_intervals(
    ...     day, FiringPattern(2), source_id="a", rule="r", life_s=None, grid=ChrononGrid(10.0), epoch=Epoch(0, 20)
    ... )
    >>> [(interval.start, interval.deadline) for interval in found]
    [(4, 5), (8, 9), (15, 19)]
    """
    last = last_item(intensity)
    items = np.arange(firing.items_to_next(0), last + 1, firing.every, dtype=np.float64)
    starts = _chronons(reached_s(intensity, items), grid)
    if life_s is not None:
        deadlines = starts + grid.ceil(life_s)
    else:
        following = np.full(len(items), epoch.stop, dtype=np.int64)
        known = items + 1 <= last
        following[known] = _chronons(reached_s(intensity, items[known] + 1), grid)
        deadlines = np.maximum(starts, following - 1)
    inside = (starts >= epoch.start) & (starts < epoch.stop)
    pairs = zip(starts[inside].tolist(), deadlines[inside].tolist(), strict=True)
    return [ExecutionInterval(source_id, rule, start, deadline) for start, deadline in pairs]


def likeliest_probe(
    intensity: PiecewiseConstant, items: int, *, life_s: float | None, grid: ChrononGrid, epoch: Epoch
) -> LikeliestProbe:
    """Return the chronon of the epoch at which a probe most likely falls inside the interval of an item.

    Parameters
    ----------
    intensity
        Rate of a Poisson process, items per second over unix seconds; items are counted from its start, and there are
        none before its start or after its end.
    items
        The number of the item, from 1: ``k X`` for the k-th firing of ``COUNT(*) % X = 0``.
    life_s
        ``None`` for *overwrite*, else the window in seconds.

    Raises
    ------
    ValueError
        The epoch is empty or ``items`` is less than 1.

    Notes
    -----
    Source: the last remark of Roitman et al., section 3.1, which leaves this open; ``docs/algorithms.md``. A probe at
    chronon j sees what came up to its end t. It is inside under *overwrite* when exactly ``items`` items came by t,
    ``P(N(t) = m)``; under a window of Y chronons when the item came by t and not before chronon j - Y,
    ``P(N(t) >= m) - P(N(start of j - Y) >= m)``. Every chronon is tried.

    Examples
    --------
    >>> steady = PiecewiseConstant.constant(0.01, 1000.0)
    >>> found = likeliest_probe(steady, 2, life_s=None, grid=ChrononGrid(10.0), epoch=Epoch(0, 100))
    >>> found.chronon, round(found.probability, 3)
    (19, 0.271)
    """
    chances = capture_probabilities(intensity, items, life_s=life_s, grid=grid, epoch=epoch)
    if not len(chances):
        raise ValueError("an empty epoch has no chronon to probe at")
    best = int(np.argmax(chances))
    return LikeliestProbe(epoch.start + best, float(chances[best]))


def capture_probabilities(
    intensity: PiecewiseConstant, items: int, *, life_s: float | None, grid: ChrononGrid, epoch: Epoch
) -> Floats:
    """Return for each chronon of the epoch the probability that a probe falls inside; see ``likeliest_probe``.

    Examples
    --------
    >>> steady = PiecewiseConstant.constant(0.1, 30.0)
    >>> capture_probabilities(steady, 1, life_s=10.0, grid=ChrononGrid(10.0), epoch=Epoch(0, 3)).round(3).tolist()
    [0.632, 0.865, 0.318]
    """
    if items < 1:
        raise ValueError("items are counted from 1")
    chronons = np.arange(epoch.start, epoch.stop, dtype=np.float64)
    by_end = expected_items(intensity, (chronons + 1) * grid.length_s)
    if life_s is None:
        likely: Floats = np.exp(xlogy(items, by_end) - by_end - gammaln(items + 1))
        return likely
    by_begin = expected_items(intensity, (chronons - grid.ceil(life_s)) * grid.length_s)
    within: Floats = np.maximum(0.0, gammainc(items, by_end) - gammainc(items, by_begin))
    return within


def expected_items(intensity: PiecewiseConstant, times_s: ArrayLike) -> Floats:
    """Return the expected number of items up to each time; it is constant outside ``intensity``.

    >>> expected_items(PiecewiseConstant.constant(0.1, 30.0), [-5.0, 10.0, 40.0])
    array([0., 1., 3.])
    """
    return np.asarray(intensity.integral(times_s), dtype=np.float64)


def last_item(intensity: PiecewiseConstant) -> int:
    """Return the number of the last item that is expected before ``intensity`` ends, except for rounding.

    >>> last_item(PiecewiseConstant.constant(0.1, 30.0))
    3
    """
    return int(float(intensity.integral(intensity.stop)) * (1 + 1e-12) + 1e-12)


def reached_s(intensity: PiecewiseConstant, items: Floats) -> Floats:
    """Return when the expected number of items first reaches each of ``items``, above 0 and at most its total.

    >>> reached_s(PiecewiseConstant([0.0, 2.0, 3.0, 5.0], [1.0, 0.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    array([1. , 2. , 3.5])
    """
    sums = np.concatenate([[0.0], np.cumsum(intensity.values * np.diff(intensity.breaks))])
    cell = np.searchsorted(sums, np.minimum(items, sums[-1]), side="left") - 1
    times: Floats = intensity.breaks[cell] + (items - sums[cell]) / intensity.values[cell]
    return times


def _chronons(times_s: Floats, grid: ChrononGrid) -> Ints:
    return np.array([grid.chronon_at(time_s) for time_s in times_s.tolist()], dtype=np.int64)
