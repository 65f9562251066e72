"""Budget advice: what other budgets would buy, and which rules the present budget cannot meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.planning.allocation.targets import RuleOutlook
from proxyd.core.planning.allocation.trade import SharePoint, TradePoint
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.capture.capacity import Capacity
from proxyd.core.planning.capture.earliest_deadline import edf
from proxyd.core.planning.capture.pareto import epsilon_cover, pareto
from proxyd.core.planning.plan_forecast import IntervalForecast
from proxyd.core.planning.planner_settings import PlannerSettings

_FACTORS = 2.0 ** np.arange(-4, 5)
_SHARES = (0.8, 0.9, 0.95, 0.99)
_FINE = 0.25  # points of the Pareto set that are closer together than this are left out
_MOST_TIMES = 1024.0  # the present budget; the search for a sufficient budget ends there


@dataclass(frozen=True, slots=True)
class IntervalOutlook:
    """The outlook of a rule: the number of its expected intervals, and how many each constraint leaves unmet."""

    rule: str
    intervals: int
    unmet: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Advice:
    """The trade-off between delay, completeness and the number of probes.

    Parameters
    ----------
    budget_per_s
        The budget that is allowed; detection uses ``planned_per_s`` of it.
    trade
        What other numbers of detection probes would buy, ascending; empty before the first plan of the week.
    over_s
        The length of the time ahead whose intervals are examined.
    front
        For these intervals: how many the budget can capture, and the least mean delay in seconds for that number.
    needed_per_s
        Approximately the least even budget that captures all of them, or ``None`` if none does.
    targets
        What each rule with a target may expect of the present plan, in probes a second.
    shares
        The probes that it takes to give every rule some share of its items in time.
    items_per_s
        Items a second of all sources in the plan.
    """

    budget_per_s: float
    planned_per_s: float | None
    trade: tuple[TradePoint, ...]
    over_s: float
    rules: tuple[IntervalOutlook, ...]
    front: tuple[tuple[int, float], ...]
    needed_per_s: float | None
    targets: Mapping[str, RuleOutlook] = field(default_factory=dict)
    shares: tuple[SharePoint, ...] = ()
    items_per_s: float = 0.0


def advise(settings: PlannerSettings, week: WeekPlan | None, coming: IntervalForecast) -> Advice:
    """Return what other budgets would buy; this may take some seconds for a large fleet.

    Parameters
    ----------
    week
        The plan of the week, which is not changed.
    coming
        The outlook of the intervals in the time ahead.
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
        {} if week is None else week.outlooks,
        () if week is None else tuple(week.share_trade(_SHARES)),
        0.0 if week is None else week.items_per_s,
    )


def outlook_of_rules(coming: IntervalForecast) -> tuple[IntervalOutlook, ...]:
    """Return the outlook of each rule's intervals, sorted by the rule's name."""
    asked = Counter(interval.rule for interval in coming.intervals)
    unmet: dict[str, Counter[str]] = {rule: Counter() for rule in asked}
    for each in coming.unmet:
        unmet[each.interval.rule][each.constraint] += 1
    return tuple(IntervalOutlook(rule, asked[rule], dict(unmet[rule])) for rule in sorted(asked))


def _front(coming: IntervalForecast, capacity: Capacity, grid: ChrononGrid) -> tuple[tuple[int, float], ...]:
    """Return some points of the Pareto set, including the last: intervals captured and their least mean delay."""
    front = pareto(coming.intervals, capacity)
    points = dict.fromkeys([*epsilon_cover(front, _FINE), *front.points[-1:]])
    return tuple((captured, delay * grid.length_s / captured) for captured, delay in points if captured)


def _needed_per_s(coming: IntervalForecast, capacity: Capacity, grid: ChrononGrid) -> float | None:
    """Return approximately the least even budget that captures all intervals, found by bisection."""
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
