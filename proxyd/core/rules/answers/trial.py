"""The probes that a declaration would ask for if it replaced the running one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from proxyd.core.model.chronon import Budget
from proxyd.core.model.profile import Declaration
from proxyd.core.model.suspension import Suspension
from proxyd.core.planning.allocation.targets import RuleOutlook
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.chunks import Chunked, run_all
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.answers.advice import IntervalOutlook, outlook_of_rules
from proxyd.core.rules.answers.explanation import Explainer
from proxyd.core.rules.decider import Decider, PlanRecord
from proxyd.core.rules.known.compiled import Compiled, Swap
from proxyd.core.rules.known.estimates import FleetRecord
from proxyd.core.rules.known.knowledge import DeciderSettings
from proxyd.core.rules.known.state import SourceState
from proxyd.core.rules.known.subscriptions import Subscription
from proxyd.core.rules.programs.stream_state import StreamState

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
    # ``states``, ``streams``, ``subscriptions``, ``weeks``: what is known of sources, in the form that
    # ``Decider.restore`` takes
    states: Mapping[str, SourceState]
    streams: Mapping[tuple[str, str], StreamState]
    subscriptions: Mapping[str, Subscription]
    weeks: Mapping[str, WeekCounts]
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
        seen = dict(known.states), known.streams.copy(), decider.hubs.subscriptions(), dict(estimates.weeks)
        settings = _with_running_price(decider)
        return cls(settings, running, wanted, running_s, wanted_s, *seen, estimates.record(), known.paused, now_s)

    @classmethod
    def of_difference(cls, decider: Decider, swap: Swap, now_s: float, asked_per_s: float) -> Trial:
        """Return a trial of what differs; this may be done in another thread.

        ``asked_per_s`` is what ``demand_besides_week`` returns for the running fleet.
        """
        known, hubs, names = decider.known, decider.hubs, _sources_that_differ(swap)
        running, wanted = _part(swap.before, names), _part(swap.after, names)
        pairs = [(rule.name, name) for rule in running.rules.values() for name in ("", *rule.source_ids)]
        return cls(
            _with_running_price(decider),
            running,
            wanted,
            {name: swap.before.programs[name].accepted_s for name in running.rules},
            {name: swap.after.programs[name].accepted_s for name in wanted.rules},
            {name: known.states[name] for name in names if name in known.states},
            {pair: known.streams[pair] for pair in pairs if pair in known.streams},
            {name: found for name in names if (found := hubs.of(name)) is not None},
            {name: known.estimates.weeks[name] for name in names if name in known.estimates.weeks},
            known.estimates.record(),
            known.paused,
            now_s,
            _Others(asked_per_s, decider.planner.week, decider.planner.budget_part),
        )

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
            tuple(each for each in outlook_of_rules(coming) if each.unmet),
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
        tried.restore(self.states, self.streams, self.subscriptions, weeks=self.weeks)
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
    return replace(settings, planner=replace(settings.planner, price_item_s=planner.price_item_s))


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
    """Return the probes a second that all sources ask for: at any price, and those that are worth their price.

    The latter are those of the plan of the week; sources that it does not know yet are probed at even gaps.
    """
    return _Others(run_all(demand_besides_week(decider.planner)), decider.planner.week).all_per_s


def demand_besides_week(planner: Planner) -> Chunked[float]:
    """Return, in parts, the probes a second that all sources ask for besides those of the plan of the week."""
    asked, length_s = 0.0, planner.settings.grid.length_s
    for part in planner.in_parts():
        week = planner.week
        asked += sum(
            source.demands.demand_per_s(length_s)
            if week is not None and source.source_id in week
            else _demand_of(source, length_s, planner.gap_without_plan_s(source))
            for source in part
        )
        yield
    return asked


def _demand_of(source: PlannedSource, length_s: float, gap_s: float) -> float:
    asked = source.demands.demand_per_s(length_s)
    if not source.demands.is_priced:
        return asked
    spacing_s = max(source.log.budget.spacing_s, length_s)
    return max(asked, 0.0 if gap_s == inf else 1.0 / max(gap_s, spacing_s))
