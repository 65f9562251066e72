"""When the planner makes a probe that is worth its price."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from proxyd.core.model.chronon import Budget, ChrononGrid, Epoch
from proxyd.core.model.profile import PolicyName
from proxyd.core.planning.plan_preview import play, preview
from proxyd.core.planning.planner import Choice, Planner
from proxyd.core.planning.policies.auto import DetectionDemand
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.policies.paced import PacedDemand
from proxyd.core.planning.policies.rule_demand import RuleDemand
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog

HALF_HOUR_S = 1800.0
RATE_PER_S = 1 / 3600


def planner(due_s: float, **changes: object) -> Planner:
    """Return a planner of one page that was seen at 0 and is due at ``due_s``."""
    settings = PlannerSettings(
        ChrononGrid(HALF_HOUR_S), Budget(1.0), price_item_s=RATE_PER_S * due_s**2 / 2, overflow=1.0
    )
    found = Planner(settings)
    log = ProbeLog(PolitenessBudget(60.0))
    source = PlannedSource("a", "a.example", log, Demands([DetectionDemand("r")]), RATE_PER_S, last_seen_s=0.0)
    found.put(replace(source, **changes), now=0)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("due_s", [2 * HALF_HOUR_S, 2.5 * HALF_HOUR_S, 2.99 * HALF_HOUR_S])
def test_a_probe_is_made_in_the_chronon_in_which_it_is_due(due_s: float) -> None:
    found = planner(due_s)
    assert found.choose(1).probes == []
    (planned,) = found.choose(2).probes
    assert planned.start_s == 2 * HALF_HOUR_S


def test_no_probe_is_made_for_a_full_window_where_nothing_is_said_to_be_lost() -> None:
    found = planner(20 * HALF_HOUR_S, window=1)
    assert [now for now in range(24) if found.choose(now).probes] == [20]


def test_a_preview_has_those_that_wait_for_room_before_those_that_sleep() -> None:
    found = Planner(PlannerSettings(ChrononGrid(1.0), Budget(0.1), price_item_s=1.0, host_spacing_s=0.0))
    for number in range(240):
        name, waits = f"s{number}", number < 40
        log = ProbeLog(PolitenessBudget(60.0))
        seen_s = 0.0 if waits else 180.0
        found.put(
            PlannedSource(name, name, log, Demands([DetectionDemand("r")]), 0.01, last_seen_s=seen_s, window=50),
            now=100,
        )
    found.choose(100)
    epoch = Epoch(101, 400)
    assert preview(found, epoch, limit=5) == preview(found, epoch)[:5]


def test_a_short_preview_of_a_long_epoch_looks_no_further_than_it_must(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planner(2 * HALF_HOUR_S)
    asked: list[int] = []
    choose = Planner.choose

    def counted(self: Planner, now: int) -> Choice:
        asked.append(now)
        return choose(self, now)

    monkeypatch.setattr(Planner, "choose", counted)
    assert len(preview(found, Epoch(1, 10**6), limit=3)) == 3
    assert len(asked) < 20


def test_a_preview_of_a_small_budget_ends_after_a_bounded_number_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Planner(PlannerSettings(ChrononGrid(1.0), Budget(1 / 50_000), price_item_s=1.0))
    found.put(PlannedSource("s", "s", ProbeLog(PolitenessBudget(1.0)), Demands([DetectionDemand("r")]), 0.01), now=0)
    steps = 0
    choose = Planner.choose

    def counted(self: Planner, now: int) -> Choice:
        nonlocal steps
        steps += 1
        return choose(self, now)

    monkeypatch.setattr(Planner, "choose", counted)
    assert len(preview(found, Epoch(1, 10**6), limit=500)) < 500
    assert steps <= 10_000


@pytest.mark.parametrize("policy", [DetectionDemand, partial(PacedDemand, policy=PolicyName.MEMORYLESS)])
def test_a_preview_of_many_new_sources_copies_and_plays_no_more_of_them_than_of_few(
    monkeypatch: pytest.MonkeyPatch, policy: Callable[[str], RuleDemand]
) -> None:
    copied = looks = 0
    copy, choose = PlannedSource.copy, Planner.choose

    def count_copies(self: PlannedSource) -> PlannedSource:
        nonlocal copied
        copied += 1
        return copy(self)

    def count_looks(self: Planner, now: int) -> Choice:
        nonlocal looks
        looks += len(self.sources)
        return choose(self, now)

    most = []
    for size in (2_000, 20_000):
        found = Planner(PlannerSettings(ChrononGrid(1.0), Budget(0.1), price_item_s=1.0, host_spacing_s=5.0))
        for number in range(size):
            log = ProbeLog(PolitenessBudget(60.0))
            found.put(PlannedSource(f"s{number}", f"h{number % 9}", log, Demands([policy("r")]), 0.01), now=0)
        found.choose(0)
        copied = looks = 0
        with monkeypatch.context() as patch:
            patch.setattr(PlannedSource, "copy", count_copies)
            patch.setattr(Planner, "choose", count_looks)
            assert 0 < len(preview(found, Epoch(1, 60_000), limit=50)) <= 50
        most.append((copied, looks))
    assert most[1] <= most[0]
    assert most[0][0] <= 3_000


@pytest.mark.parametrize("gap", [2, 3, 5])
def test_a_golden_pace_makes_no_more_probes_than_it_asks_where_gaps_are_few_chronons(gap: int) -> None:
    settings = PlannerSettings(ChrononGrid(1.0), Budget(9.0), price_item_s=RATE_PER_S * gap**2 / 2, host_spacing_s=0.0)
    found = Planner(settings)
    demands = Demands([PacedDemand("r", PolicyName.GOLDEN, seed=1)])
    found.put(PlannedSource("a", "a", ProbeLog(PolitenessBudget(1.0)), demands, RATE_PER_S, last_seen_s=0.0), now=0)
    made = [planned for _, choice in play(found, Epoch(0, 2000)) for planned in choice.probes]
    assert len(made) <= 1.05 * 2000 / gap


def test_a_preview_of_one_probe_a_day_reaches_over_the_week() -> None:
    day_s = 86400.0
    found = Planner(PlannerSettings(ChrononGrid(10.0), Budget(1.0 / day_s), price_item_s=1.0, host_spacing_s=0.0))
    for number in range(20):
        log, demands = ProbeLog(PolitenessBudget(60.0)), Demands([DetectionDemand("r")])
        found.put(PlannedSource(f"s{number}", f"s{number}", log, demands, 0.01, last_seen_s=0.0), now=0)
    coming = preview(found, Epoch(0, 7 * 8640), limit=20)
    assert len(coming) == 7
    assert len({each.probe.source_id for each in coming}) == 7
