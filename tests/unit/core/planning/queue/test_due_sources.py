"""Sources that are due and wait only for room come in the order that looking at each of them would give."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.profile import PolicyName
from proxyd.core.planning.kernels.counted_events import CountedRule
from proxyd.core.planning.kernels.losses import NO_LOSSES
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.policies.auto import CountedDemand, DetectionDemand
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.policies.doe import DoeDemand
from proxyd.core.planning.policies.paced import PacedDemand
from proxyd.core.planning.policies.rule_demand import FiringPattern, RuleDemand
from proxyd.core.planning.queue.candidates import Candidates
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog

NOW = 40_000
KINDS = ("detection", "counted", "golden", "doe")


def demand_of(kind: str) -> RuleDemand:
    """Return a demand of that kind."""
    if kind == "counted":
        return CountedDemand("r", FiringPattern(3), CountedRule(3, NO_LOSSES, missed_s=1e6))
    if kind == "golden":
        return PacedDemand("r", PolicyName.GOLDEN)
    if kind == "doe":
        return DoeDemand("r", probes=2, per_s=100.0, starts=ProbeLog(PolitenessBudget(0.0, 2, 100.0)))
    return DetectionDemand("r")


def planner_of(kinds: list[tuple[str, int]]) -> Planner:
    """Return a planner of sources of some kinds and rates, with room for all."""
    planner = Planner(PlannerSettings(ChrononGrid(1.0), Budget(100.0), price_item_s=50.0))
    for number, (kind, rate) in enumerate(kinds):
        log, demands = ProbeLog(PolitenessBudget(0.0)), Demands([demand_of(kind)])
        seen_s = NOW - 20_000.0 - 7.0 * number
        source = PlannedSource(f"s{number}", f"h{number}", log, demands, rate / 1000.0, last_seen_s=seen_s)
        planner.put(source, now=0)
    return planner


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 500)), min_size=1, max_size=20))
def test_they_come_as_if_each_had_been_looked_at(kinds: list[tuple[str, int]]) -> None:
    planner = planner_of(kinds)
    candidates = Candidates(planner.settings, planner.due_times).of(list(planner.sources.values()), NOW)
    expected = [candidate.source.source_id for candidate in sorted(candidates.values())]
    reasons = {name: candidate.reason for name, candidate in candidates.items()}
    chosen = planner.choose(NOW).probes
    assert not planner.queues.awake
    assert [planned.probe.source_id for planned in chosen] == expected
    assert {planned.probe.source_id: planned.probe.reason for planned in chosen} == reasons
