"""Budget advice: what other budgets would buy, and which rules the present one does not let be met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.planning.allocation.trade import TradePoint
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.capture.capacity import Capacity
from proxyd.core.planning.capture.earliest_deadline import edf
from proxyd.core.planning.capture.pareto import epsilon_cover, pareto
from proxyd.core.planning.plan_forecast import IntervalForecast
from proxyd.core.planning.planner_settings import PlannerSettings

_FACTORS = 2.0 ** np.arange(-4, 5)
_FINE = 0.25  # points of the Pareto set nearer than this are left out
_MOST_TIMES = 1024.0  # the present budget


@dataclass(frozen=True, slots=True)
class RuleOutlook:
    """What becomes of a rule's expected intervals: how many there are, and by constraint how many are not met.

    Examples
    --------
    >>> RuleOutlook("r", intervals=3, unmet={"budget": 1}).unmet["budget"]
    1
    """

    rule: str
    intervals: int
    unmet: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Advice:
    """The trade of delay and completeness against probes.

    Parameters
    ----------
    budget_per_s
        The present budget: what is allowed, of which ``planned_per_s`` is used for detection.
    trade
        What other numbers of detection probes would buy, few first; empty before the first plan of the week.
    over_s
        The time ahead for which the rules' intervals are looked at.
    front
        Of these intervals: how many can be captured in the budget, and then their least mean delay in seconds.
    needed_per_s
        About the least even budget that captures all of them, ``None`` where none does.

    Examples
    --------
    >>> Advice(1.0, 0.2, (), 86400.0, (), (), None).planned_per_s
    0.2
    """

    budget_per_s: float
    planned_per_s: float | None
    trade: tuple[TradePoint, ...]
    over_s: float
    rules: tuple[RuleOutlook, ...]
    front: tuple[tuple[int, float], ...]
    needed_per_s: float | None


def advise(settings: PlannerSettings, week: WeekPlan | None, coming: IntervalForecast) -> Advice:
    """Return what other budgets would buy; it may take some seconds for a large fleet.

    Parameters
    ----------
    week
        The plan of the week, which stays as it is.
    coming
        What becomes of the intervals of the time ahead.
    """
    grid, planned_per_s = settings.grid, None if week is None else week.probes_per_s
    wanted = () if week is None or not planned_per_s else tuple((planned_per_s * _FACTORS).tolist())
    front: tuple[tuple[int, float], ...] = ()
    needed_per_s = None
    if coming.intervals:
        capacity = Capacity.of(lambda at: settings.budget.capacity(at, grid, settings.budget_zone), coming.epoch)
        front, needed_per_s = _front(coming, capacity, grid), _needed_per_s(coming, capacity, grid)
    return Advice(
        settings.budget.mean_per_s,
        planned_per_s,
        () if week is None else tuple(week.trade(wanted)),
        len(coming.epoch) * grid.length_s,
        outlook_of_rules(coming),
        front,
        needed_per_s,
    )


def outlook_of_rules(coming: IntervalForecast) -> tuple[RuleOutlook, ...]:
    """Return what becomes of each rule's intervals, by name."""
    asked = Counter(interval.rule for interval in coming.intervals)
    unmet: dict[str, Counter[str]] = {rule: Counter() for rule in asked}
    for each in coming.unmet:
        unmet[each.interval.rule][each.constraint] += 1
    return tuple(RuleOutlook(rule, asked[rule], dict(unmet[rule])) for rule in sorted(asked))


def _front(coming: IntervalForecast, capacity: Capacity, grid: ChrononGrid) -> tuple[tuple[int, float], ...]:
    """Return some points of the Pareto set, the last among them: intervals captured, and their least mean delay."""
    front = pareto(coming.intervals, capacity)
    points = dict.fromkeys([*epsilon_cover(front, _FINE), *front.points[-1:]])
    return tuple((captured, delay * grid.length_s / captured) for captured, delay in points if captured)


def _needed_per_s(coming: IntervalForecast, capacity: Capacity, grid: ChrononGrid) -> float | None:
    """Return about the least multiple of the budget at which all intervals are captured, found by bisection."""
    low, high, wanted = 0.0, _MOST_TIMES, len(coming.intervals)

    def captures_all(times: float) -> bool:
        spent = np.floor(np.arange(1, len(coming.epoch) + 1) * float(capacity.probes.mean()) * times + 1e-9)
        probes = np.diff(spent, prepend=0.0).astype(np.int64)
        return edf(coming.intervals, Capacity(coming.epoch, probes)).captured == wanted

    if not captures_all(high):
        return None
    while high - low > 0.01 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if captures_all(middle) else (middle, high)
    return high * float(capacity.probes.mean()) / grid.length_s
