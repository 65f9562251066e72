"""EVERY: a source is probed at least that often, whatever a probe is worth, within spacing and budget."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.schedule import Constraint, Reason
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.policies.auto import DetectionDemand
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.policies.paced import LongestGapDemand, UniformDemand
from proxyd.core.planning.policies.rule_demand import RuleDemand
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog

GRID = ChrononGrid(10.0)
GAP_S = 300.0


def planner(*, rate_per_s: float = 1e-9, spacing_s: float = 60.0, fresh_until_s: float = 0.0) -> Planner:
    """Return a planner of one source that was seen at 0, with a rule that allows a gap of 5 minutes."""
    found = Planner(PlannerSettings(GRID, Budget(1.0), price_item_s=1e3, overflow=1.0, host_spacing_s=0.0, spend=False))
    demands = Demands([DetectionDemand("r"), LongestGapDemand("r", GAP_S)])
    log = ProbeLog(PolitenessBudget(spacing_s))
    found.put(PlannedSource("s", "s", log, demands, rate_per_s, last_seen_s=0.0, fresh_until_s=fresh_until_s), now=0)
    return found


def starts_s(found: Planner, stop_s: float) -> dict[float, Reason]:
    """Return when the source was probed, and why; every probe sees it."""
    starts: dict[float, Reason] = {}
    for now in range(round(stop_s / GRID.length_s)):
        for planned in found.choose(now).probes:
            starts[planned.start_s] = planned.probe.reason
            found.finish("s", planned.start_s + 1.0, seen=True)
    return starts


@pytest.mark.parametrize("fresh_until_s", [0.0, 6 * 3600.0])
def test_a_source_that_hardly_changes_is_seen_in_every_gap(fresh_until_s: float) -> None:
    starts = starts_s(planner(fresh_until_s=fresh_until_s), 3600.0)
    assert set(starts.values()) == {Reason.EVERY}
    assert all(GAP_S - 20.0 <= after - before <= GAP_S + 1.0 for before, after in pairwise([0.0, *starts]))


def test_one_that_changes_often_is_probed_as_often_as_that_is_worth() -> None:
    gaps = [after - before for before, after in pairwise(starts_s(planner(rate_per_s=0.1), 3600.0))]
    assert max(gaps) < GAP_S / 2


def test_spacing_comes_first() -> None:
    gaps = [after - before for before, after in pairwise(starts_s(planner(spacing_s=900.0), 4 * 3600.0))]
    assert min(gaps) >= 900.0


def test_freshness_holds_back_only_within_the_gap() -> None:
    source = planner(fresh_until_s=6 * 3600.0).sources["s"]
    assert source.obstacle_at(GAP_S - 1.0) is Constraint.FRESHNESS
    assert source.obstacle_at(GAP_S) is None


def test_the_shares_of_the_budget_count_it() -> None:
    assert planner().sources["s"].demands.demand_per_s(GRID.length_s) == 1.0 / GAP_S


@pytest.mark.parametrize("fixed", [LongestGapDemand("r", GAP_S), UniformDemand("r", 30, next_due=0)])
@pytest.mark.parametrize("others", [1, 1_000])
@pytest.mark.parametrize("seen_s", [None, 0.0])
def test_probes_at_fixed_times_leave_a_tenth_of_the_budget_to_others(
    fixed: RuleDemand, others: int, seen_s: float | None
) -> None:
    settings = PlannerSettings(GRID, Budget(0.1), price_item_s=1.0, host_spacing_s=0.0, spend=False)
    found, made = Planner(settings), Counter[bool]()
    for number in range(40 + others):
        demands = Demands([DetectionDemand("r"), fixed.copy()] if number < 40 else [DetectionDemand("r")])
        log, last_s = ProbeLog(PolitenessBudget(60.0)), 0.0 if number < 40 else seen_s
        found.put(PlannedSource(f"s{number}", "s", log, demands, 1e-4, last_seen_s=last_s), now=0)
    for now in range(60, 260):
        for planned in found.choose(now).probes:
            made[int(planned.probe.source_id[1:]) < 40] += 1
            found.finish(planned.probe.source_id, planned.start_s, seen=True)
    assert made.total() == 200
    assert 12 <= made[False] <= 22 if others > 1 else 1 <= made[False] <= 22


def test_where_the_budget_is_short_all_gaps_grow_alike_however_often_sources_change() -> None:
    settings = PlannerSettings(GRID, Budget(0.1), price_item_s=1e9, overflow=1.0, host_spacing_s=0.0, spend=False)
    found, made = Planner(settings), Counter[str]()
    for number in range(40):
        demands = Demands([DetectionDemand("r"), LongestGapDemand("r", GAP_S if number % 2 else 2 * GAP_S)])
        log, rate_per_s = ProbeLog(PolitenessBudget(60.0)), 10.0 ** -(number % 9)
        found.put(PlannedSource(f"s{number}", "s", log, demands, rate_per_s, last_seen_s=0.0), now=0)
    for now in range(60, 860):
        for planned in found.choose(now).probes:
            made[planned.probe.source_id] += 1
            found.finish(planned.probe.source_id, planned.start_s, seen=True)
    often, seldom = ([made[f"s{number}"] for number in range(first, 40, 2)] for first in (1, 0))
    assert max(often) - min(often) <= 3
    assert max(seldom) - min(seldom) <= 3
    assert sum(often) > 1.7 * sum(seldom)


def test_a_full_window_is_late_by_the_same_part_as_the_gaps_beside_it() -> None:
    settings = PlannerSettings(GRID, Budget(0.1), price_item_s=3.6e5, host_spacing_s=0.0, spend=False)
    found, seen = Planner(settings), list[float]()
    for number in range(81):
        demands = Demands([DetectionDemand("r"), *([LongestGapDemand("r", GAP_S)] if number else [])])
        log, window = ProbeLog(PolitenessBudget(60.0)), None if number else 20
        found.put(PlannedSource(f"s{number}", "s", log, demands, 1.0 / 60.0, last_seen_s=0.0, window=window), now=0)
    for now in range(1, 1200):
        for planned in found.choose(now).probes:
            seen += [planned.start_s] * (planned.probe.source_id == "s0")
            found.finish(planned.probe.source_id, planned.start_s, seen=True)
    assert max(after - before for before, after in pairwise([0.0, *seen])) < 4.0 * 660.0  # as the gaps of 300 s


@pytest.mark.parametrize("now", range(60, 90))
def test_who_asks_comes_before_all_others_in_every_chronon(now: int) -> None:
    found = Planner(PlannerSettings(GRID, Budget(0.1), price_item_s=1.0, host_spacing_s=0.0, spend=False))
    for number in range(5):
        log, demands = ProbeLog(PolitenessBudget(60.0)), Demands([DetectionDemand("r")])
        found.put(PlannedSource(f"s{number}", "s", log, demands, 1e-2, last_seen_s=0.0), now=0)
    found.ask("s3", now)
    assert [planned.probe.source_id for planned in found.choose(now).probes] == ["s3"]
