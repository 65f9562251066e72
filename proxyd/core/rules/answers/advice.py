"""Budget advice: what other budgets would buy, and which rules the present budget cannot meet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TypeAlias

import numpy as np

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.item import EventKind, Item, UpdateEvent
from proxyd.core.planning.allocation.targets import RuleOutlook
from proxyd.core.planning.allocation.trade import SharePoint, TradePoint
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.capture.earliest_deadline import Capacity, edf
from proxyd.core.planning.capture.pareto import epsilon_cover, pareto
from proxyd.core.planning.plan_preview import IntervalForecast
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.programs.expression_compiler import Row
from proxyd.core.rules.programs.message_program import word_rows
from proxyd.core.rules.programs.meter import Meter
from proxyd.core.rules.programs.rule_program import RuleProgram


def sample(program: RuleProgram, items: Sequence[Item], source_id: str, now_s: float) -> list[str]:
    """Return the message of a rule for each item that its WHERE and its query let pass, as if all were new.

    Raises
    ------
    EvaluationError
        The rule's expressions exceed a limit.
    """
    meter = Meter()
    texts: list[str] = []
    for number, item in enumerate(items):
        time_s = now_s if item.published_s is None else item.published_s
        event = UpdateEvent(source_id, number, EventKind.INSERT, item, time_s, now_s, item.published_s is not None)
        if program.trigger.passes(event, meter):
            rows = program.query.run([[Row.of(event, meter=meter)]], meter)
            texts += word_rows(program.message, rows, meter, rule=program.rule.name, source=source_id).rows
    return texts


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
    """The trade-off between delay, completeness and the number of probes."""

    budget_per_s: float  # of which detection uses ``planned_per_s``
    planned_per_s: float | None
    # what other numbers of detection probes would buy, ascending; empty before the first plan of the week
    trade: tuple[TradePoint, ...]
    over_s: float  # how far ahead intervals are examined
    rules: tuple[IntervalOutlook, ...]
    # for these intervals: how many the budget can capture, and the least mean delay in seconds for that number
    front: tuple[tuple[int, float], ...]
    # the least even budget, about, that captures all of them; ``None`` if none does
    needed_per_s: float | None
    # what each rule with a target may expect of the present plan, in probes a second
    targets: Mapping[str, RuleOutlook] = field(default_factory=dict)
    shares: tuple[SharePoint, ...] = ()  # the probes that it takes to give every rule some share of its items in time
    items_per_s: float = 0.0  # of all sources in the plan


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
        front, needed_per_s = _front(coming, capacity, grid), _least_budget_per_s(coming, capacity, grid)
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


def _least_budget_per_s(coming: IntervalForecast, capacity: Capacity, grid: ChrononGrid) -> float | None:
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


_Front: TypeAlias = tuple[tuple[int, float], ...]
_ROUNDING = 1e-9  # a total is a mean times a number; two that are equal may differ by that
_MOST_POINTS = 50  # of a front


def advice_of_all(parts: Sequence[Advice]) -> Advice:
    """Return the advice for the sources of all planners, each of which has its part of the budget.

    Numbers of probes and of intervals are added; means are weighted by items. What a budget buys is exact if the budget
    is divided so that most delay is saved. The front may be worse than that of a single planner, because planners do
    not lend each other budget.

    Parameters
    ----------
    parts
        The advice of each planner; one at least.
    """
    planned = [each.planned_per_s for each in parts if each.planned_per_s is not None]
    asking = [each for each in parts if each.rules]
    needed = [each.needed_per_s for each in asking if each.needed_per_s is not None]
    trading = [each for each in parts if each.trade]
    weights = [each.items_per_s for each in trading]
    return Advice(
        sum(each.budget_per_s for each in parts),
        sum(planned) if planned else None,
        tuple(_trade_of(points, weights) for points in zip(*(each.trade for each in trading), strict=False)),
        max(each.over_s for each in parts),
        _intervals_of(outlook for each in parts for outlook in each.rules),
        reduce(_front_of_both, (each.front for each in parts)),
        sum(needed) if needed and len(needed) == len(asking) else None,
        _targets_of(parts),
        _shares_of([each for each in parts if each.shares]),
        sum(each.items_per_s for each in parts),
    )


def _mean(values: Iterable[float], weights: Sequence[float]) -> float:
    """Return a weighted mean; a plain one if nothing has a weight."""
    return float(np.average([*values], weights=weights if sum(weights) > 0 else None))


def _trade_of(points: Sequence[TradePoint], items: Sequence[float]) -> TradePoint:
    probes = [each.probes_per_s for each in points]
    return TradePoint(
        sum(probes),
        _mean((each.price_item_s for each in points), probes),
        _mean((each.delay_s for each in points), items),
        _mean((each.captured for each in points), items),
    )


def _shares_of(parts: Sequence[Advice]) -> tuple[SharePoint, ...]:
    items = [each.items_per_s for each in parts]
    return tuple(
        SharePoint(
            points[0].share,
            _mean((each.expected for each in points), items),
            sum(each.probes_per_s for each in points),
            _mean((each.delay_s for each in points), items),
        )
        for points in zip(*(each.shares for each in parts), strict=False)
    )


def _targets_of(parts: Sequence[Advice]) -> dict[str, RuleOutlook]:
    of_rule: dict[str, list[RuleOutlook]] = {}
    for each in parts:
        for rule, outlook in each.targets.items():
            of_rule.setdefault(rule, []).append(outlook)
    return {rule: found[0] if len(found) == 1 else _outlook_of(found) for rule, found in of_rule.items()}


def _outlook_of(parts: Sequence[RuleOutlook]) -> RuleOutlook:
    """Return what a rule may expect whose sources several planners have."""
    items = [each.items for each in parts]

    def mean(of: Callable[[RuleOutlook], float]) -> float:
        return _mean(map(of, parts), items)

    return RuleOutlook(
        parts[0].share,
        mean(lambda each: each.expected),
        mean(lambda each: each.reachable),
        sum(each.made for each in parts),
        sum(each.needed for each in parts),
        any(each.is_host_bound for each in parts),
        sum(items),
    )


def _intervals_of(outlooks: Iterable[IntervalOutlook]) -> tuple[IntervalOutlook, ...]:
    asked, unmet = Counter[str](), dict[str, Counter[str]]()
    for each in outlooks:
        asked[each.rule] += each.intervals
        unmet.setdefault(each.rule, Counter()).update(each.unmet)
    return tuple(IntervalOutlook(rule, asked[rule], dict(unmet[rule])) for rule in sorted(asked))


def _front_of_both(first: _Front, second: _Front) -> _Front:
    """Return the intervals that two planners can capture together, and the least mean delay for each number.

    >>> _front_of_both(((1, 0.0), (2, 2.0)), ((1, 1.0),))
    ((1, 0.0), (2, 0.5), (3, 1.6666666666666667))
    """
    if not first or not second:
        return first or second
    totals = dict[int, float]()
    for captured, delay_s in ((0, 0.0), *first):
        for more, its_s in ((0, 0.0), *second):
            total_s = captured * delay_s + more * its_s
            totals[captured + more] = min(total_s, totals.get(captured + more, total_s))
    best = list[tuple[int, float]]()
    for captured in sorted(totals, reverse=True):  # who captures more with no more delay is better
        if captured and (not best or totals[captured] < best[-1][1] * (1.0 - _ROUNDING)):
            best.append((captured, totals[captured]))
    taken = np.unique(np.linspace(0, len(best) - 1, _MOST_POINTS).round().astype(np.int64))
    return tuple((best[n][0], best[n][1] / best[n][0]) for n in reversed(taken.tolist()))
