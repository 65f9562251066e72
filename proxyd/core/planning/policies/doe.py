"""DOE(n PROBES PER t): n probes of a source in each period t, at the times that leave items waiting least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, ClassVar

import numpy as np

from proxyd.core.model.arrays import Floats
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.kernels.one_source import optimal_cycle
from proxyd.core.planning.policies.rule_demand import RuleDemand, RuleRequest, SeenSource
from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog

_WHOLE = 1e-6


@dataclass(slots=True)
class DoeDemand(RuleDemand):
    """Probes at the times that leave items waiting least, never more than ``probes`` in any time ``per_s``.

    Examples
    --------
    >>> demand = DoeDemand("r", probes=2, per_s=100.0, starts=ProbeLog(PolitenessBudget(0.0, 2, 100.0)))
    >>> demand.next_s(10.0, None), demand.next_s(10.0, 20.0)
    (60.0, 20.0)
    """

    never_early: ClassVar[bool] = True
    reason: ClassVar[Reason] = Reason.DOE

    probes: int
    per_s: float
    starts: ProbeLog  # of all of the source's probes, because those made for other rules count too

    @classmethod
    def of(cls, request: RuleRequest) -> DoeDemand:
        """Return the demand of a rule; probes made before it was declared do not count."""
        choice, chronon_s = request.choice, request.grid.length_s
        assert choice.probes is not None
        assert choice.per is not None
        per_s = choice.per.in_seconds(chronon_s=chronon_s)
        spacing_s = choice.spacing.in_seconds(chronon_s=chronon_s) if choice.spacing else 0.0
        return cls(request.rule, choice.probes, per_s, ProbeLog(PolitenessBudget(spacing_s, choice.probes, per_s)))

    def copy(self) -> DoeDemand:
        """Return a demand that changes independently."""
        return replace(self, starts=self.starts.copy())

    def due_s(self, source: SeenSource) -> float:
        """Return the next probe of the plan, if the number allows it then."""
        return self.next_s(self._last_s(source.last_s), source.doe_s(self.probes, self.per_s))

    def worth_per_s2(self, source: SeenSource, due_s: float) -> float:
        """Return 2 over the square of the gap, in 1/s²: sources rank by the part of their gap that has passed."""
        return 2.0 * (self.probes / self.per_s) ** 2

    def _last_s(self, seen_s: float) -> float:
        """Return when the last probe that saw the source started: its length must not be lost from each gap."""
        return max((start_s for start_s in self.starts.starts_s if start_s <= seen_s), default=seen_s)

    def next_s(self, last_s: float, planned_s: float | None) -> float:
        """Return when the next probe is due after one at ``last_s``: as planned, or evenly without a plan."""
        due_s = last_s + self.per_s / self.probes if planned_s is None else planned_s
        return max(due_s, self.starts.earliest_s())

    @property
    def earliest_s(self) -> float:
        """When the number allows another probe."""
        return self.starts.earliest_s()

    def demand_per_s(self, length_s: float) -> float:
        """Return its number of probes."""
        return self.probes / self.per_s

    @property
    def quota(self) -> tuple[int, float]:
        """Its number of probes, and the time."""
        return self.probes, self.per_s

    def asks(self, grid: ChrononGrid) -> tuple[Any, ...]:
        """Return its number, time and spacing."""
        return ("doe", self.probes, self.per_s, self.starts.budget.spacing_s)

    def resume_starts(self, starts_s: Sequence[float], since_s: float) -> None:
        """Count the probes since the rule was accepted."""
        self.starts.starts_s = [start_s for start_s in starts_s if start_s >= since_s][-self.probes :]


def doe_slots(shape: Floats, importance: Floats, probes: int, period_slots: float) -> Floats | None:
    """Return the slots of a week at which ``probes`` a period cost least, or ``None`` if even spacing is as good.

    A period of some weeks is taken as its share of a week, rounded up. If a week holds a whole number of periods, their
    mean is used as the shape. Probes are even if a slot would hold more than one, or if the week is not a whole number
    of periods.

    Parameters
    ----------
    shape, importance
        Factors of the rate and the cost of waiting, by slot of the week, shape (slots,).
    period_slots
        Length of the period, in slots.

    Returns
    -------
    Ascending, in slots from Monday on, shape (probes of a week,).

    Notes
    -----
    Source: Eckstein, Gal and Reiner (the optimal cycle under a politeness constraint).

    Examples
    --------
    >>> office = np.zeros(14); office[3] = 1.0
    >>> doe_slots(office, np.ones(14), probes=1, period_slots=14.0).tolist()
    [4.0]
    """
    slots = len(shape)
    periods = slots / period_slots
    if period_slots >= slots:
        periods, probes = 1.0, ceil(probes * periods - _WHOLE)
    length = round(slots / max(1.0, round(periods)))
    if abs(periods - round(periods)) > _WHOLE or length * round(periods) != slots or 2 * probes > length:
        return None
    folded = shape.reshape(-1, length).mean(axis=0)
    if not np.any(folded > 0) or np.ptp(folded) + np.ptp(importance) < _WHOLE:
        return None
    edges = np.arange(length + 1.0)
    weights = PiecewiseConstant(edges, importance.reshape(-1, length).mean(axis=0))
    cycle = optimal_cycle(PiecewiseConstant(edges, folded), weights, edges[:-1], probes)
    found: Floats = (np.sort(cycle.times)[None, :] + length * np.arange(round(periods))[:, None]).ravel()
    return found
