"""The demands of a source's rules on the planner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import inf

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.profile import PolicyName, Source, UtilityKind
from proxyd.core.model.target import Target
from proxyd.core.planning.allocation.losses import MISSED_S, Losses, Step, halving, linear, merged, window
from proxyd.core.planning.counted_events import MOST_COUNTED, CountedRule
from proxyd.core.planning.planner_settings import PlannerSettings
from proxyd.core.planning.policies.demand import CountedDemand, Demands, DoeDemand, FixedDemand, IntervalDemand
from proxyd.core.planning.policies.frequency_demand import PACED, PacedDemand
from proxyd.core.politeness import PolitenessBudget, ProbeLog
from proxyd.core.rules.programs.importance import source_weights
from proxyd.core.rules.programs.rule_program import RuleProgram

_PRICED = PACED | {PolicyName.INDEX}


def demands_of(
    programs: Iterable[RuleProgram],
    counts: Mapping[str, int],
    old: Demands,
    *,
    rate_per_s: float,
    now_s: float,
    settings: PlannerSettings,
) -> Demands:
    """Return the demands of a source's rules; a demand that was there before (``old``) continues.

    ``counts`` holds, by rule, how many events its stream has counted, which is its position in its cycle. The intervals
    of a rule that was not there are laid from its NOW or its START, so that a restart does not move them.
    """
    demands, grid = Demands(), settings.grid
    programs = tuple(programs)
    weights = source_weights(programs, now_s)
    targets = [(program, target_of(program, settings)) for program in programs if effective_policy(program) in _PRICED]
    demands.losses = losses_of(programs, settings)
    if settings.has_targets:
        demands.targets = [(program.rule.name, target) for program, target in targets]
    demands.weight = max((p.weight for p in programs), default=1.0) if weights is None else float(weights.mean())
    for program in programs:
        kind = effective_policy(program)
        if kind in {PolicyName.SUP, PolicyName.FBSUP}:
            wanted = _interval_demand(program, grid)
            before = next((each for each in old.intervals if each.asks_the_same(wanted)), None)
            if before is None:
                since_s = min(now_s, max(program.accepted_s, program.start_s))
                wanted.anchor(since_s, rate_per_s=rate_per_s, count=counts[program.rule.name])
            demands.intervals = (*demands.intervals, before or wanted)
        elif kind is PolicyName.UNIFORM:
            demands.fixed = (*demands.fixed, _fixed_demand(program, old, now_s, grid))
        elif kind is PolicyName.DOE:
            demands.doe = (*demands.doe, _doe_demand(program, old, grid))
        elif kind in PACED:
            paced = PacedDemand(program.rule.name, kind)
            continued = next((each for each in old.paced if (each.rule, each.policy) == (paced.rule, kind)), None)
            if continued is None:
                paced.count(counts[program.rule.name], now_s - program.accepted_s)
            demands.paced = (*demands.paced, continued or paced)
        elif is_counted(program):
            demands.counted = (*demands.counted, _counted_demand(program, counts, settings))
        else:
            demands.detecting = (*demands.detecting, program.rule.name)
    return demands


def target_of(program: RuleProgram, settings: PlannerSettings) -> Target:
    """Return the share of its items' worth that a rule is to get, with times in seconds.

    A rule that sets neither a life nor a decay has the default target.
    """
    rule, steps = program.rule, _steps(program, 1.0)
    share = settings.default_share if rule.target is None else float(rule.target) / 100.0
    if steps:
        return Target(share, tuple((step.after, step.delay) for step in steps))
    return settings.default_target if rule.life is None else Target(share, ((inf, 1.0),))


def losses_of(programs: Iterable[RuleProgram], settings: PlannerSettings) -> Losses:
    """Return what items lose while they wait, beside their delay, for the rules that leave the times to the plan.

    Lives are in seconds, losses in parts of an item of the rule of the highest weight. If the targets decide, a rule
    without a life has that of its target. Rules that count items are left out if there are others; if all count,
    ``every`` is the least n.
    """
    named = [(program, effective_policy(program)) for program in programs]
    planned = [program for program, policy in named if policy is PolicyName.INDEX]
    plain = [program for program in planned if not is_counted(program)]
    counts = planned and not plain and all(policy not in PACED for _, policy in named)
    every = min(program.trigger.firing.every for program in planned) if counts else 1
    planned = plain or planned
    heaviest = max((program.weight for program in planned), default=1.0) or 1.0
    parts: dict[float, float] = {}
    overwritten = 0.0
    for program in planned:
        weight, life = program.weight / heaviest, program.rule.life
        steps = _steps(program, weight)
        if not steps and life is None and settings.has_targets:
            steps = tuple(Step(after, part * weight) for after, part in settings.default_target.parts)
        for step in steps:
            parts[step.after] = max(parts.get(step.after, 0.0), step.delay)
        if life is not None and life.window is None:
            overwritten = max(overwritten, weight)
    return Losses(merged(Step(after, part) for after, part in parts.items()), overwritten, every=every)


def _steps(program: RuleProgram, part: float) -> tuple[Step, ...]:
    """Return the steps of a rule's utility and window."""
    life_s, decay_s = program.life_s, program.decay_s
    if decay_s is None:
        return () if life_s is None else window(life_s, part)
    fall = linear if program.rule.utility.kind is UtilityKind.LINEAR else halving
    return tuple(replace(step, after=min(step.after, life_s or step.after)) for step in fall(decay_s, part))


def is_counted(program: RuleProgram) -> bool:
    """Whether probes for a rule depend on the items counted since it last fired: AUTO and ``COUNT(*) % n = k``.

    For n = 1 there is nothing to count. Above ``MOST_COUNTED``, and with an importance, each item is valued alike.
    """
    rule, every = program.rule, program.trigger.firing.every
    return rule.policy.name is PolicyName.AUTO and 1 < every <= MOST_COUNTED and not rule.importance


def _counted_demand(program: RuleProgram, counts: Mapping[str, int], settings: PlannerSettings) -> CountedDemand:
    firing, losses = program.trigger.firing, replace(losses_of([program], settings), every=1)
    worth = CountedRule(firing.every, losses, MISSED_S)
    return CountedDemand(program.rule.name, firing, worth, program.weight, counts[program.rule.name])


def _interval_demand(program: RuleProgram, grid: ChrononGrid) -> IntervalDemand:
    has_feedback = effective_policy(program) is PolicyName.FBSUP
    return IntervalDemand(program.rule.name, program.trigger.firing, program.life_s, has_feedback, grid)


def _fixed_demand(program: RuleProgram, old: Demands, now_s: float, grid: ChrononGrid) -> FixedDemand:
    name, length = program.rule.name, program.rule.policy.period
    period = max(1, grid.ceil(length.in_seconds(chronon_s=grid.length_s))) if length else 1
    before = next((each for each in old.fixed if (each.rule, each.period) == (name, period)), None)
    return before or FixedDemand(name, period, grid.chronon_at(now_s))


def _doe_demand(program: RuleProgram, old: Demands, grid: ChrononGrid) -> DoeDemand:
    """Return the demand of DOE; probes made before it was declared do not count."""
    choice = program.rule.policy
    assert choice.probes is not None
    assert choice.per is not None
    per_s = choice.per.in_seconds(chronon_s=grid.length_s)
    spacing_s = choice.spacing.in_seconds(chronon_s=grid.length_s) if choice.spacing else 0.0
    budget = PolitenessBudget(spacing_s, choice.probes, per_s)
    before = next((each for each in old.doe if (each.rule, each.log.budget) == (program.rule.name, budget)), None)
    return before or DoeDemand(program.rule.name, choice.probes, per_s, ProbeLog(budget))


def politeness_of(source: Source, *, spacing_s: float, chronon_s: float) -> PolitenessBudget:
    """Return a source's politeness budget: its own, or ``spacing_s`` between two probes if it sets none."""
    asked = source.politeness
    if asked is None:
        return PolitenessBudget(spacing_s)
    spacing_s = asked.spacing.in_seconds(chronon_s=chronon_s) if asked.spacing else spacing_s
    per_s = asked.per.in_seconds(chronon_s=chronon_s) if asked.per else 0.0
    return PolitenessBudget(spacing_s, asked.probes, per_s)


def effective_policy(program: RuleProgram) -> PolicyName:
    """Return the policy of a rule; AUTO stands for detection by the index."""
    policy = program.rule.policy.name
    return PolicyName.INDEX if policy is PolicyName.AUTO else policy
