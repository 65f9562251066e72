"""The probes that a declaration would ask for if it replaced the running one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from proxyd.core.model.profile import Declaration
from proxyd.core.model.suspension import Suspension
from proxyd.core.planning.allocation.targets import RuleOutlook
from proxyd.core.planning.chunks import run_all
from proxyd.core.planning.planned_source import PlannedSource
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.answers.advice import IntervalOutlook, outlook_of_rules
from proxyd.core.rules.decider import Decider, PlanRecord
from proxyd.core.rules.decider_settings import DeciderSettings
from proxyd.core.rules.estimates import FleetRecord
from proxyd.core.rules.state import SourceState, StreamState
from proxyd.core.rules.subscriptions import Subscription

_TRIED_CHRONONS = 4_000  # a short forecast, because the user who edits a profile waits for it


@dataclass(frozen=True, slots=True)
class PlanCost:
    """The probes a second that a declaration asks for over all sources, and the rules that the budget soon fails.

    The forecast covers some thousand chronons. ``targets`` holds what the new rules with a target may expect, and the
    others whose target would not be met, in probes a second.
    """

    budget_per_s: float
    before_per_s: float
    after_per_s: float
    added: int
    removed: int
    unmet: tuple[IntervalOutlook, ...]
    targets: Mapping[str, RuleOutlook]


@dataclass(frozen=True, eq=False)
class Trial:
    """A trial of a declaration: copied from the running daemon at once, computed in another thread.

    Parameters
    ----------
    running, wanted
        The declarations.
    running_s, wanted_s
        NOW of their rules; a rule of ``wanted`` that runs already keeps its NOW.
    states, streams, subscriptions, weeks
        What is known of sources, in the form that ``Decider.restore`` takes.
    fleet
        What was learned of all sources together.
    paused
        The paused sources, which are not probed.
    """

    settings: DeciderSettings
    running: Declaration
    wanted: Declaration
    running_s: Mapping[str, float]
    wanted_s: Mapping[str, float]
    states: Mapping[str, SourceState]
    streams: Mapping[tuple[str, str], StreamState]
    subscriptions: Mapping[str, Subscription]
    weeks: Mapping[str, WeekCounts]
    fleet: FleetRecord
    paused: Mapping[str, Suspension]
    now_s: float

    @classmethod
    def of(cls, decider: Decider, wanted: Declaration, now_s: float) -> Trial:
        """Return a trial with copies of what it needs from the running daemon."""
        known, planner = decider.known, decider.planner
        running, settings = known.compiled.declaration, known.settings
        running_s = {name: program.accepted_s for name, program in known.compiled.programs.items()}
        wanted_s = {name: running_s.get(name, now_s) for name in wanted.rules}
        if not settings.planner.has_targets:
            settings = replace(settings, planner=replace(settings.planner, price_item_s=planner.price_item_s))
        estimates = known.estimates
        seen = dict(known.states), known.streams.copy(), decider.hubs.subscriptions(), dict(estimates.weeks)
        return cls(settings, running, wanted, running_s, wanted_s, *seen, estimates.record(), known.paused, now_s)

    def cost(self) -> PlanCost:
        """Return what the wanted declaration would ask for; this may take some seconds for many sources."""
        before, after = self._tried(self.running, self.running_s), self._tried(self.wanted, self.wanted_s)
        now = self.settings.grid.chronon_at(self.now_s) + 1
        explainer, planner = after.explainer, after.planner
        coming = explainer.ahead(now, most_chronons=_TRIED_CHRONONS).forecast()
        names_before, names_after = before.planner.sources.keys(), planner.sources.keys()
        targets = {} if planner.week is None else planner.week.outlooks
        return PlanCost(
            self.settings.planner.budget.mean_per_s,
            asked_per_s(before),
            asked_per_s(after),
            len(names_after - names_before),
            len(names_before - names_after),
            tuple(each for each in outlook_of_rules(coming) if each.unmet),
            {rule: each for rule, each in targets.items() if not each.is_met or rule not in self.running.rules},
        )

    def _tried(self, declaration: Declaration, accepted_s: Mapping[str, float]) -> Decider:
        tried = Decider(self.settings, np.random.Generator(np.random.PCG64(0)))
        tried.restore(self.states, self.streams, self.subscriptions, weeks=self.weeks)
        tried.restore_plan(PlanRecord(fleet=self.fleet))
        tried.pause(self.paused, self.now_s)
        tried.declare(declaration, accepted_s, self.now_s)
        week = tried.fleet(self.now_s).plan()
        if week is not None:
            run_all(tried.switch_plan(week, self.now_s))
        return tried


def asked_per_s(decider: Decider) -> float:
    """Return the probes a second that all sources ask for: at any price, and those that are worth their price.

    The latter are those of the plan of the week; sources that it does not know yet are probed at even gaps.
    """
    planner, length_s = decider.planner, decider.settings.grid.length_s
    week = planner.week
    sources = planner.sources.values()
    new = (source for source in sources if week is None or source.source_id not in week)
    old = (source for source in sources if week is not None and source.source_id in week)
    asked = sum(_asked_of(source, length_s, planner.unplanned_gap_s(source)) for source in new)
    asked += sum(source.demands.asked_per_s(length_s) for source in old)
    return asked + (0.0 if week is None else week.probes_per_s)


def _asked_of(source: PlannedSource, length_s: float, gap_s: float) -> float:
    asked = source.demands.asked_per_s(length_s)
    if not source.demands.is_priced:
        return asked
    spacing_s = max(source.log.budget.spacing_s, length_s)
    return max(asked, 0.0 if gap_s == inf else 1.0 / max(gap_s, spacing_s))
