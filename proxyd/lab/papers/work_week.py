"""The two weeks of the politeness paper: fitted update rates, and work hours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.planning.one_source.costs import Prefix

PERIOD_WEEKS = 4


@dataclass(frozen=True, slots=True)
class WorkWeek:
    """Rates of a weekday and of the weekend in items a day, and the important hours of a weekday.

    Parameters
    ----------
    weekday
        Pairs of start hour and rate, the first at 0.
    saturday, sunday
        Rates for the whole day.
    work_hours
        First hour and end of the weekday hours that the paper weights with ``a_1``.
    """

    name: str
    weekday: tuple[tuple[int, float], ...]
    saturday: float
    sunday: float
    work_hours: tuple[int, int]

    def intensity(self, weeks: int = PERIOD_WEEKS) -> PiecewiseConstant:
        """Return the update rate from Monday 00:00, in items a day over days.

        >>> round(DBWORLD.intensity().integral(28.0), 2), round(MICRONET.intensity().integral(28.0), 2)
        (116.45, 24.77)
        """
        starts = np.array([hour for hour, _ in self.weekday])
        day = np.array([rate for _, rate in self.weekday])[np.searchsorted(starts, np.arange(24), side="right") - 1]
        rates = np.concatenate([np.tile(day, 5), np.full(24, self.saturday), np.full(24, self.sunday)])
        return PiecewiseConstant(np.arange(169) / 24, rates).repeat(weeks)

    def importance(self, ratio: float, weeks: int = PERIOD_WEEKS) -> PiecewiseConstant:
        """Return ``ratio`` during work hours and 1 at other times."""
        day = np.ones(24)
        day[slice(*self.work_hours)] = ratio
        return PiecewiseConstant(np.arange(169) / 24, np.concatenate([np.tile(day, 5), np.ones(48)])).repeat(weeks)

    def prefix(self, ratio: float, weeks: int = PERIOD_WEEKS) -> Prefix:
        """Return the costs over the paper's period, in days."""
        return Prefix(self.intensity(weeks), self.importance(ratio, weeks))


DBWORLD = WorkWeek("DBWorld", ((0, 2.40), (3, 5.96), (6, 6.04), (9, 7.50), (18, 3.03), (21, 2.41)), 1.50, 1.15, (9, 18))
"""Table 2 of Eckstein, Gal and Reiner: postings to the DBWorld bulletin board."""

MICRONET = WorkWeek("MicroNet", ((0, 0.25), (9, 2.60), (19, 0.14)), 0.08, 0.08, (9, 19))
"""Table 3: new threads of the MicroNet forum."""
