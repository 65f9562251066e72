"""What the rules of a page ask of the planner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from proxyd.model.chronon import ChrononGrid
from proxyd.model.profile import PolicyName, Source
from proxyd.politeness import PolitenessBudget
from proxyd.rules.importance import page_weights
from proxyd.rules.programs import RuleProgram
from proxyd.scheduling import Demands, FixedDemand, IntervalDemand


def demands_of(
    programs: Iterable[RuleProgram],
    counts: Mapping[str, int],
    old: Demands,
    *,
    rate_per_s: float,
    now_s: float,
    grid: ChrononGrid,
) -> Demands:
    """Return what rules ask of a page; what was asked before (``old``) goes on where it was.

    ``counts`` says, by rule, how many events its stream has counted: where in its cycle it stands.
    """
    demands = Demands()
    programs = tuple(programs)
    weights = page_weights(programs, now_s)
    demands.weight = max((p.weight for p in programs), default=1.0) if weights is None else float(weights.mean())
    for program in programs:
        kind = effective_policy(program)
        if kind in {PolicyName.SUP, PolicyName.FBSUP}:
            wanted = _interval_demand(program, grid)
            before = next((each for each in old.intervals if each.asks_the_same(wanted)), None)
            if before is None:
                wanted.anchor(now_s, rate_per_s=rate_per_s, count=counts[program.rule.name])
            demands.intervals.append(before or wanted)
        elif kind is PolicyName.UNIFORM:
            demands.fixed.append(_fixed_demand(program, old, now_s, grid))
        else:
            demands.detecting.append(program.rule.name)
    return demands


def _interval_demand(program: RuleProgram, grid: ChrononGrid) -> IntervalDemand:
    has_feedback = effective_policy(program) is PolicyName.FBSUP
    return IntervalDemand(program.rule.name, program.trigger.firing, program.life_s, has_feedback, grid)


def _fixed_demand(program: RuleProgram, old: Demands, now_s: float, grid: ChrononGrid) -> FixedDemand:
    name, length = program.rule.name, program.rule.policy.period
    period = max(1, grid.ceil(length.in_seconds(chronon_s=grid.length_s))) if length else 1
    before = next((each for each in old.fixed if (each.rule, each.period) == (name, period)), None)
    return before or FixedDemand(name, period, grid.chronon_at(now_s))


def politeness_of(source: Source, *, spacing_s: float, chronon_s: float) -> PolitenessBudget:
    """Return what a source bears: what it asks for, and ``spacing_s`` between two probes where it does not say."""
    asked = source.politeness
    if asked is None:
        return PolitenessBudget(spacing_s)
    spacing_s = asked.spacing.in_seconds(chronon_s=chronon_s) if asked.spacing else spacing_s
    per_s = asked.per.in_seconds(chronon_s=chronon_s) if asked.per else 0.0
    return PolitenessBudget(spacing_s, asked.probes, per_s)


def effective_policy(program: RuleProgram) -> PolicyName:
    """Return the policy that AUTO stands for: fbSUP where the rule sets a life, else detection by the index."""
    policy = program.rule.policy.name
    if policy is not PolicyName.AUTO:
        return policy
    return PolicyName.FBSUP if program.rule.life is not None else PolicyName.INDEX
