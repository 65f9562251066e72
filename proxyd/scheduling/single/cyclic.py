"""A repeating period, such as a week: n probes on a circle, without a natural first slot."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from proxyd.errors import InvalidScheduleError
from proxyd.model.intensity import PiecewiseConstant
from proxyd.scheduling.single.costs import Prefix
from proxyd.scheduling.single.optimal import Grid, OneSourceSchedule, optimal


def optimal_cycle(
    intensity: PiecewiseConstant,
    importance: PiecewiseConstant,
    slots: ArrayLike,
    probes: int,
    *,
    spacing: float = 0.0,
    is_open: ArrayLike | None = None,
) -> OneSourceSchedule:
    """Return at most ``probes`` probe times in [0, period) that repeat each period at least cost.

    A first solution is cut at its shortest gap; every start inside that gap is then solved, since an optimal
    cycle has a probe there. To restart from one found slot alone is not optimal (it can cost half as much again).

    Parameters
    ----------
    intensity, importance
        On [0, period].
    slots
        Times in [0, period) at which a probe may be made, increasing.
    is_open
        Whether each slot may be used.

    Notes
    -----
    Source: ALGORITHMS 1 (weekly cycle). ``exact`` is false where a start had to be left out because it was closed.

    Examples
    --------
    >>> day = PiecewiseConstant([0.0, 2.0, 4.0], [1.0, 0.0])
    >>> optimal_cycle(day, PiecewiseConstant.constant(1.0, 4.0), [0.0, 1.0, 2.0, 3.0], 2).times.tolist()
    [1.0, 2.0]
    """
    t = np.asarray(slots, dtype=np.float64)
    usable = np.ones(len(t), dtype=bool) if is_open is None else np.asarray(is_open, dtype=bool)
    if not usable.any():
        raise InvalidScheduleError("every slot is closed")
    circle = _Circle(intensity, importance, t, usable, spacing)
    first = circle.solve(int(np.argmax(usable)), probes)
    best, (begin, end) = first, _shortest_gap(t, first.times, circle.period)
    for start in range(begin, end):
        if usable[start % len(t)]:
            found = circle.solve(start % len(t), probes)
            best = found if found.cost < best.cost else best
    return best


class _Circle:
    """Solves the cycle cut at a slot: a period from one probe there to the next."""

    def __init__(
        self,
        intensity: PiecewiseConstant,
        importance: PiecewiseConstant,
        slots: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
        is_open: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
        spacing: float,
    ) -> None:
        self.period = intensity.stop - intensity.start
        self._twice = Prefix(intensity.repeat(2), importance.repeat(2))
        self._times = np.concatenate([slots, slots + self.period])
        self._open = np.concatenate([is_open, is_open])
        self._spacing = spacing

    def solve(self, start: int, probes: int) -> OneSourceSchedule:
        """Return the best cycle with a probe at slot ``start``."""
        window = slice(start, start + len(self._times) // 2 + 1)
        grid = Grid(self._times[window], spacing=self._spacing, is_open=self._open[window])
        found = optimal(self._twice, grid, probes)
        return OneSourceSchedule(np.sort(found.times % self.period), found.cost, exact=True)


def _shortest_gap(
    slots: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    probes: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    period: float,
) -> tuple[int, int]:
    """Return the slots of the shortest gap between consecutive probes, as indices that may run over the end."""
    at = np.searchsorted(slots, probes - 1e-9 * period)
    following = np.append(at[1:], at[0] + len(slots))
    shortest = int(np.argmin(following - at))
    return int(at[shortest]), int(following[shortest]) + 1
