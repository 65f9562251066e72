"""The demands of a source's rules on the planner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import NamedTuple

from proxyd.core.model.chronon import Target
from proxyd.core.model.profile import PolicyName, Source, UtilityKind
from proxyd.core.planning.kernels.counted_events import MOST_KINDS
from proxyd.core.planning.kernels.losses import NO_LOSSES, Losses, Step, halving, linear, merge_steps, window
from proxyd.core.planning.policies.auto import goes_by_count
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.policies.registry import POLICIES
from proxyd.core.planning.policies.rule_demand import RuleDemand, RuleRequest
from proxyd.core.planning.queue.planned_source import SourceRecord
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness import PolitenessBudget
from proxyd.core.rules.programs.rule_program import RuleProgram, source_weights


class Counted(NamedTuple):
    """The events that a rule has counted on a source, and the expected part of its items that it counts."""

    events: int
    passing: float


def demands_of(
    programs: Sequence[RuleProgram],
    counted: Mapping[str, Counted],
    before: Demands | SourceRecord | None,
    *,
    source_id: str,
    rate_per_s: float,
    now_s: float,
    settings: PlannerSettings,
) -> Demands:
    """Return the demands of a source's rules.

    Parameters
    ----------
    counted
        By rule.
    before
        The demands that were there before, or the record from before a restart. A demand continues if its rule still
        asks for the same. Others begin at the NOW or the START of their rules.
    """
    pairs: list[tuple[RuleProgram, RuleDemand]] = []
    kinds: set[tuple[int, Losses]] = set()
    for program in programs:
        events, passing = counted[program.rule.name]
        losses, is_crowded = NO_LOSSES, False
        if is_counted(program):
            losses = _lost([program], settings)
            kind = program.trigger.firing.every, losses
            is_crowded = kind not in kinds and len(kinds) >= MOST_KINDS
            if not is_crowded:
                kinds.add(kind)
        request = RuleRequest(
            rule=program.rule.name,
            source_id=source_id,
            choice=program.rule.policy,
            firing=program.trigger.firing,
            grid=settings.grid,
            now_s=now_s,
            since_s=counts_since_s(program),
            rate_per_s=rate_per_s,
            count=events,
            passing=passing,
            life_s=program.life_s,
            losses=losses,
            weight=program.weight,
            has_importance=bool(program.rule.importance),
            is_crowded=is_crowded,
        )
        pairs.append((program, _continue_demand(POLICIES[request.choice.name](request), request, before)))
    # A probe is called by the first rule that it serves: the one that wants it soonest.
    ranked = sorted(pairs, key=lambda pair: (not pair[1].detects, _narrowest_s(pair[0], settings)))
    demands = Demands([demand for _, demand in ranked], losses=_losses(pairs, settings))
    of_items = [program for program in programs if not program.is_of_source]
    weights = source_weights(of_items, now_s)
    heaviest = max((program.weight for program in of_items), default=1.0)
    demands.weight = heaviest if weights is None else float(weights.mean())
    if settings.has_targets:
        demands.targets = [(d.rule, target_of(program, settings)) for program, d in pairs if d.is_priced]
    return demands


def _continue_demand(demand: RuleDemand, request: RuleRequest, before: Demands | SourceRecord | None) -> RuleDemand:
    """Return the demand of a rule, as it stood if the rule asked for the same before."""
    grid, asks = request.grid, demand.asks(request.grid)
    if asks is None or before is None:
        return demand
    if isinstance(before, Demands):
        same = (each for each in before.rules if (each.rule, each.asks(grid)) == (request.rule, asks))
        return next(same, demand)
    if (state := before.state_of(request.rule, asks)) is not None:
        demand.resume(state, grid)
    demand.resume_starts(before.starts_s, request.since_s)
    return demand


def counts_since_s(program: RuleProgram) -> float:
    """Return since when a rule counts events, in unix seconds."""
    return max(program.accepted_s, program.start_s)


def target_of(program: RuleProgram, settings: PlannerSettings) -> Target:
    """Return the share of its items' worth that a rule is to get, with times in seconds.

    A rule that sets neither a life nor a decay has the default target.
    """
    rule, steps = program.rule, _steps(program, 1.0)
    share = settings.default_share if rule.target is None else float(rule.target) / 100.0
    if steps:
        return Target(share, tuple((step.after, step.delay) for step in steps))
    return settings.default_target if rule.life is None else Target(share, ((inf, 1.0),))


def _narrowest_s(program: RuleProgram, settings: PlannerSettings) -> float:
    return target_of(program, settings).parts[0][0] if settings.has_targets else 0.0


def _losses(pairs: Sequence[tuple[RuleProgram, RuleDemand]], settings: PlannerSettings) -> Losses:
    """Return what items lose while they wait, besides their delay, for the rules whose probes have a price.

    Rules that count items are left out if there are others, unless targets decide; if all count, ``every`` is the least
    n.
    """
    planned = [(program, demand) for program, demand in pairs if demand.is_priced]
    plain = [program for program, demand in planned if not demand.counts_items]
    # A target is predicted by the losses, so the lives of all rules must be among them.
    lost = _lost([program for program, _ in planned] if settings.has_targets or not plain else plain, settings)
    if any(demand.is_priced and not demand.counts_items for _, demand in pairs):
        return lost
    return replace(lost, every=min((program.trigger.firing.every for program, _ in planned), default=1))


def _lost(programs: Sequence[RuleProgram], settings: PlannerSettings) -> Losses:
    """Return what items lose while they wait, with lives in seconds, in parts of an item of the heaviest rule.

    If the targets decide, a rule without a life has that of its target.
    """
    heaviest = max((program.weight for program in programs), default=1.0) or 1.0
    parts: dict[float, float] = {}
    overwritten = 0.0
    for program in programs:
        weight, life = program.weight / heaviest, program.rule.life
        steps = _steps(program, weight)
        if not steps and life is None and settings.has_targets:
            steps = tuple(Step(after, part * weight) for after, part in settings.default_target.parts)
        for step in merge_steps(steps):  # a life ends several steps of a utility at once
            parts[step.after] = max(parts.get(step.after, 0.0), step.delay)
        if life is not None and life.window is None:
            overwritten = max(overwritten, weight)
    steps = merge_steps((Step(after, part) for after, part in parts.items()), early=settings.has_targets)
    return Losses(steps, overwritten)


def _steps(program: RuleProgram, part: float) -> tuple[Step, ...]:
    """Return the steps of a rule's utility and window."""
    life_s, decay_s = program.life_s, program.decay_s
    if decay_s is None:
        return () if life_s is None else window(life_s, part)
    fall = linear if program.rule.utility.kind is UtilityKind.LINEAR else halving
    return tuple(replace(step, after=min(step.after, life_s or step.after)) for step in fall(decay_s, part))


def is_counted(program: RuleProgram) -> bool:
    """Return whether probes for a rule depend on the items counted since it last fired."""
    rule = program.rule
    has_importance = bool(rule.importance)
    return rule.policy.name is PolicyName.AUTO and goes_by_count(program.trigger.firing, has_importance=has_importance)


def politeness_of(source: Source, *, spacing_s: float, chronon_s: float) -> PolitenessBudget:
    """Return a source's politeness budget: its own, or ``spacing_s`` between two probes if it sets none."""
    asked = source.politeness
    if asked is None:
        return _share_spacing(spacing_s)
    spacing_s = asked.spacing.in_seconds(chronon_s=chronon_s) if asked.spacing else spacing_s
    per_s = asked.per.in_seconds(chronon_s=chronon_s) if asked.per else 0.0
    return PolitenessBudget(spacing_s, asked.probes, per_s)


@lru_cache
def _share_spacing(spacing_s: float) -> PolitenessBudget:
    """Return a spacing, which many sources share."""
    return PolitenessBudget(spacing_s)
