"""Advice for a fleet that several planners share, from the advice that each of them gives for its own sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import TypeAlias

import numpy as np

from proxyd.core.planning.allocation.targets import RuleOutlook
from proxyd.core.planning.allocation.trade import SharePoint, TradePoint
from proxyd.core.rules.answers.advice import Advice, IntervalOutlook

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
