"""Budget advice: what other budgets would buy, which rules are not met, and what a declaration would ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import inf
from typing import Any, TypeAlias

import numpy as np

from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.item import EventKind, Item, UpdateEvent
from proxyd.core.model.profile import Declaration
from proxyd.core.model.suspension import Suspension
from proxyd.core.planning.allocation.targets import RuleOutlook
from proxyd.core.planning.allocation.week_plan import SharePoint, TradePoint, WeekPlan
from proxyd.core.planning.capture.earliest_deadline import Capacity, edf
from proxyd.core.planning.capture.pareto import epsilon_cover, pareto
from proxyd.core.planning.chunks import Chunked, run_all
from proxyd.core.planning.plan_preview import IntervalForecast
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rules.answers.explanation import Explainer
from proxyd.core.rules.decider import Decider, PlanRecord
from proxyd.core.rules.known.compiled import Compiled, Swap
from proxyd.core.rules.known.estimates import FleetRecord
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.core.rules.programs.expression_compiler import Row
from proxyd.core.rules.programs.message_program import word_rows
from proxyd.core.rules.programs.meter import Meter
from proxyd.core.rules.programs.rule_program import RuleProgram


def sample(program: RuleProgram, items: Sequence[Item], source_id: str, now_s: float) -> list[str]:
    """Return the message of a rule for each item that its WHERE and its query let pass; raises ``EvaluationError``."""
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
_POINTS = 0.02
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
    # the probes a second more for which two points more of the items would be in time or, without targets, found before
    # the next one; ``None`` if no number of probes does that
    two_points_per_s: float | None = None


def advise(settings: PlannerSettings, week: WeekPlan | None, coming: IntervalForecast) -> Advice:
    """Return what other budgets would buy; this may take some seconds for a large fleet."""
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
        _outlook_of_rules(coming),
        front,
        needed_per_s,
        {} if week is None else week.outlooks,
        () if week is None else tuple(week.share_trade(_SHARES)),
        0.0 if week is None else week.items_per_s,
        None if week is None or not wanted else _two_points_per_s(week, wanted),
    )


def _two_points_per_s(week: WeekPlan, budgets: Sequence[float]) -> float | None:
    """Return how many more probes a second bring two points more of the items in time; ``None`` if no number does."""
    items = np.array([each.items for each in week.outlooks.values()])
    if items.sum() > 0:
        present = float(items @ [each.expected for each in week.outlooks.values()] / items.sum())
        shares = week.share_trade((present, present + _POINTS)) if present + _POINTS <= 1.0 else []
        return shares[1].probes_per_s - shares[0].probes_per_s if len(shares) > 1 else None
    points = week.trade(budgets)
    captured, probes = [each.captured for each in points], np.log2([each.probes_per_s for each in points])
    wanted = float(np.interp(np.log2(week.probes_per_s), probes, captured)) + _POINTS
    return None if wanted > captured[-1] else float(2.0 ** np.interp(wanted, captured, probes)) - week.probes_per_s


def _outlook_of_rules(coming: IntervalForecast) -> tuple[IntervalOutlook, ...]:
    """Return the outlook of each rule's intervals, sorted by the rule's name."""
    asked = Counter(interval.rule for interval in coming.intervals)
    unmet: dict[str, Counter[str]] = {rule: Counter() for rule in asked}
    for each in coming.unmet:
        unmet[each.interval.rule][each.constraint] += 1
    return tuple(IntervalOutlook(rule, asked[rule], dict(unmet[rule])) for rule in sorted(asked))


def _front(coming: IntervalForecast, capacity: Capacity, grid: ChrononGrid) -> tuple[tuple[int, float], ...]:
    front = pareto(coming.intervals, capacity)
    points = dict.fromkeys([*epsilon_cover(front, _FINE), *front.points[-1:]])
    return tuple((captured, delay * grid.length_s / captured) for captured, delay in points if captured)


def _least_budget_per_s(coming: IntervalForecast, capacity: Capacity, grid: ChrononGrid) -> float | None:
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
    """
    planned = [each.planned_per_s for each in parts if each.planned_per_s is not None]
    asking = [each for each in parts if each.rules]
    needed = [each.needed_per_s for each in asking if each.needed_per_s is not None]
    trading = [each for each in parts if each.trade]
    weights = [each.items_per_s for each in trading]
    points = [each.two_points_per_s for each in trading if each.two_points_per_s is not None]
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
        sum(points) if points and len(points) == len(trading) else None,
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


_TRIED_CHRONONS = 4_000  # a short forecast, because the user who edits a profile waits for it
_SMALL_FLEET = 2_000  # sources; it is tried whole in less than a second
_SMALL_PART = 0.25  # of a fleet
_LEAST_LEFT = 0.1  # of the budget, for what changes
_SHORT = 0.99  # of the budget: who asks for more asks for all of it


@dataclass(frozen=True, slots=True)
class PlanCost:
    """The probes a second that a declaration asks for over all sources, and the rules that the budget soon fails.

    The forecast covers some thousand chronons. ``targets`` holds what the new rules with a target may expect, and the
    others whose target would not be met, in probes a second. If little of a large fleet changes, ``unmet`` and
    ``targets`` tell of the rules of what changes, and of its sources only.
    """

    budget_per_s: float
    before_per_s: float
    after_per_s: float
    added: int
    removed: int
    unmet: tuple[IntervalOutlook, ...]
    targets: Mapping[str, RuleOutlook]

    def of_rules(self, is_wanted: Callable[[str], bool]) -> PlanCost:
        """Return what is about some rules: of the probes, how many more are asked for."""
        more_per_s = max(0.0, self.after_per_s - self.before_per_s)
        unmet = tuple(each for each in self.unmet if is_wanted(each.rule))
        targets = {rule: each for rule, each in self.targets.items() if is_wanted(rule)}
        return replace(self, before_per_s=0.0, after_per_s=more_per_s, unmet=unmet, targets=targets)


@dataclass(frozen=True, slots=True)
class _Others:
    """What this planner's sources ask for outside the plan of the week, that plan, and its part of the budget."""

    asked_per_s: float
    week: WeekPlan | None
    part: float = 1.0

    @property
    def all_per_s(self) -> float:
        """The probes a second that the whole fleet asks for, if other planners use their parts as we use ours."""
        ours_per_s = self.asked_per_s + (0.0 if self.week is None else self.week.probes_per_s)
        return ours_per_s / self.part if self.part > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Trial:
    """A trial of a declaration: made and computed in another thread, from copies of what the daemon knows."""

    settings: DeciderSettings
    # ``running``, ``wanted``: the declarations, or only what differs between them
    running: Declaration
    wanted: Declaration
    # ``running_s``, ``wanted_s``: NOW of their rules; a rule of ``wanted`` that runs already keeps its NOW
    running_s: Mapping[str, float]
    wanted_s: Mapping[str, float]
    remembered: Mapping[str, Any]  # of sources, the arguments of ``Decider.restore``
    fleet: FleetRecord
    paused: Mapping[str, Suspension]
    now_s: float
    # the running plan, if only what differs is tried; the others are taken to be probed as they are
    others: _Others | None = None

    @classmethod
    def of(cls, decider: Decider, wanted: Declaration, now_s: float) -> Trial:
        """Return a trial of a whole declaration; this may be done in another thread."""
        known = decider.known
        running, estimates = known.compiled.declaration, known.estimates
        running_s = {name: program.accepted_s for name, program in known.compiled.programs.items()}
        wanted_s = {name: running_s.get(name, now_s) for name in wanted.rules}
        remembered = {
            "states": dict(known.states),
            "streams": known.streams.copy(),
            "subscriptions": decider.hubs.subscriptions(),
            "weeks": dict(estimates.weeks),
        }
        settings = _with_running_price(decider)
        return cls(settings, running, wanted, running_s, wanted_s, remembered, estimates.record(), known.paused, now_s)

    @classmethod
    def of_difference(cls, decider: Decider, swap: Swap, now_s: float, asked_per_s: float) -> Trial:
        """Return a trial of what differs; ``asked_per_s`` is ``demand_besides_week`` of the running fleet."""
        known, hubs, names = decider.known, decider.hubs, _sources_that_differ(swap)
        running, wanted = _part(swap.before, names), _part(swap.after, names)
        pairs = [(rule.name, name) for rule in running.rules.values() for name in ("", *rule.source_ids)]
        return cls(
            _with_running_price(decider),
            running,
            wanted,
            {name: swap.before.programs[name].accepted_s for name in running.rules},
            {name: swap.after.programs[name].accepted_s for name in wanted.rules},
            {
                "states": {name: known.states[name] for name in names if name in known.states},
                "streams": {pair: known.streams[pair] for pair in pairs if pair in known.streams},
                "subscriptions": {name: found for name in names if (found := hubs.of(name)) is not None},
                "weeks": {name: known.estimates.weeks[name] for name in names if name in known.estimates.weeks},
            },
            known.estimates.record(),
            known.paused,
            now_s,
            _Others(asked_per_s, decider.planner.week, decider.planner.budget_part),
        )

    @property
    def size(self) -> int:
        """The number of sources that are tried."""
        return len(self.wanted.sources)

    def cost(self) -> PlanCost:
        """Return what the wanted declaration would ask for; this may take some seconds for many sources."""
        budget, others = self.settings.planner.budget, self.others
        before = self._try_declaration(self.running, self.running_s, budget)
        tried_per_s = demand_per_s(before)
        # At least what is tried: its sources may belong to other planners, and our demand says nothing of these.
        before_per_s = tried_per_s if others is None else max(others.all_per_s, tried_per_s)
        rest_per_s = before_per_s - tried_per_s
        left = 1.0 if others is None else max(_LEAST_LEFT, 1.0 - rest_per_s / max(budget.mean_per_s, 1e-12))
        after = self._try_declaration(self.wanted, self.wanted_s, budget.times(left))
        now = self.settings.grid.chronon_at(self.now_s) + 1
        explainer, planner = Explainer.of(after), after.planner
        after_per_s = demand_per_s(after)
        if others is not None:
            after_per_s = self._with_others(after, before_per_s, rest_per_s)
        coming = run_all(explainer.ahead(now, most_chronons=_TRIED_CHRONONS)).forecast()
        names_before, names_after = before.planner.sources.keys(), planner.sources.keys()
        targets = {} if planner.week is None else planner.week.outlooks
        return PlanCost(
            budget.mean_per_s,
            before_per_s,
            after_per_s,
            len(names_after - names_before),
            len(names_before - names_after),
            tuple(each for each in _outlook_of_rules(coming) if each.unmet),
            {rule: each for rule, each in targets.items() if not each.is_met or rule not in self.running.rules},
        )

    def _with_others(self, after: Decider, before_per_s: float, rest_per_s: float) -> float:
        """Return what all ask for: if the budget is short, the others leave and take what differs."""
        planner, most_per_s = after.planner, self.settings.planner.budget.mean_per_s
        length_s = planner.settings.grid.length_s
        needed_per_s = rest_per_s + sum(each.demands.demand_per_s(length_s) for each in planner.sources.values())
        if before_per_s > _SHORT * most_per_s:
            return max(before_per_s, needed_per_s)
        return min(rest_per_s + demand_per_s(after), max(most_per_s, needed_per_s))

    def _try_declaration(self, declaration: Declaration, accepted_s: Mapping[str, float], budget: Budget) -> Decider:
        settings = replace(self.settings, planner=replace(self.settings.planner, budget=budget))
        tried = Decider(settings, np.random.Generator(np.random.PCG64(0)))
        tried.restore(**self.remembered)
        tried.restore_plan(PlanRecord(fleet=self.fleet))
        tried.pause(self.paused, self.now_s)
        tried.declare(declaration, accepted_s, self.now_s)
        fleet = tried.fleet(self.now_s)
        price_item_s = fleet.price_item_s
        if self.others is not None and self.others.week is not None:  # the budget is as dear as for the others
            price_item_s = max(price_item_s, self.others.week.budget_price_item_s)
        week = fleet.plan(price_item_s=price_item_s)
        if week is not None:
            run_all(tried.switch_plan(week, self.now_s))
        return tried


def differs_little(swap: Swap) -> bool:
    """Whether a declaration changes so little of a large fleet that only that is to be tried."""
    fleet = len(swap.after.sources)
    return fleet > _SMALL_FLEET and len(swap.sources) <= _SMALL_PART * fleet


def _with_running_price(decider: Decider) -> DeciderSettings:
    """Return the settings with the running price, unless targets decide it."""
    settings, planner = decider.settings, decider.planner
    if settings.planner.has_targets:
        return settings
    return replace(settings, planner=replace(settings.planner, price_item_s=planner.due_times.price_item_s))


def _sources_that_differ(swap: Swap) -> list[str]:
    """Return the sources that differ, with all others of joint rules that ask for one of these."""
    found = dict.fromkeys(swap.sources)
    for compiled in (swap.before, swap.after):
        rules = dict.fromkeys(name for source_id in swap.sources for name in compiled.rules_of.get(source_id, ()))
        joint = (compiled.programs[name] for name in rules if compiled.programs[name].is_joint)
        found |= dict.fromkeys(source_id for program in joint for source_id in program.rule.source_ids)
    return [*found]


def _part(compiled: Compiled, names: Iterable[str]) -> Declaration:
    """Return what a declaration says of some sources: these, and their rules for no others."""
    declared = compiled.declaration
    sources = {name: declared.sources[name] for name in names if name in declared.sources}
    of_rule: dict[str, list[str]] = {}
    for source_id in sources:
        for rule in compiled.rules_of.get(source_id, ()):
            of_rule.setdefault(rule, []).append(source_id)
    rules = {name: replace(declared.rules[name], source_ids=tuple(own)) for name, own in of_rule.items()}
    return replace(declared, sources=sources, rules=rules)


def demand_per_s(decider: Decider) -> float:
    """Return the probes a second that all sources ask for: at any price, and those that are worth their price."""
    # sources that the plan does not know yet are probed at even gaps
    return _Others(run_all(demand_besides_week(decider.planner)), decider.planner.week).all_per_s


def demand_besides_week(planner: Planner) -> Chunked[float]:
    """Return, in parts, the probes a second that all sources ask for besides those of the plan of the week."""
    asked, length_s = 0.0, planner.settings.grid.length_s
    for part in planner.in_parts():
        week = planner.week
        asked += sum(
            source.demands.demand_per_s(length_s)
            if week is not None and source.source_id in week
            else _demand_of(source, length_s, planner.due_times.gap_without_plan_s(source))
            for source in part
        )
        yield
    return asked


def _demand_of(source: PlannedSource, length_s: float, gap_s: float) -> float:
    asked = source.demands.demand_per_s(length_s)
    if not source.demands.is_priced or gap_s == inf:
        return asked
    return max(asked, min(1.0 / max(gap_s, length_s), source.log.budget.most_per_s))
