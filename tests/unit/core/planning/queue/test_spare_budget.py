"""Who gets what others leave of the budget, if the objective is to spend it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.chronon import Budget, Chronon, ChrononGrid, Epoch
from proxyd.core.model.profile import PolicyName
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.plan_preview import preview
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.policies.auto import DetectionDemand
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.policies.paced import PacedDemand, UniformDemand
from proxyd.core.planning.policies.rule_demand import RuleDemand
from proxyd.core.planning.queue.candidates import Candidates
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.planning.queue.source_queues import SourceQueues
from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog

SETTINGS = PlannerSettings(ChrononGrid(1.0), Budget(4.0), price_item_s=1e9, spend=True, host_spacing_s=0.0)
POLICIES = ("AUTO", "UNIFORM", "GOLDEN", "AUTO and UNIFORM")


def demands(policy: str) -> list[RuleDemand]:
    made: dict[str, RuleDemand] = {
        "AUTO": DetectionDemand("auto"),
        "UNIFORM": UniformDemand("uniform", period=7, next_due=3),
        "GOLDEN": PacedDemand("golden", PolicyName.GOLDEN, seed=1),
    }
    return [made[each] for each in policy.split(" and ")]


def put(planner: Planner, name: str, now: Chronon = 0, *, policy: str = "AUTO", **changes: Any) -> None:
    log = ProbeLog(PolitenessBudget(3.0))
    source = PlannedSource(name, f"{name}.example", log, Demands(demands(policy)), 0.01, last_seen_s=0.0)
    planner.put(replace(source, **changes), now)


def made(planner: Planner, now: Chronon) -> list[tuple[str, Reason]]:
    """Return the probes of a chronon, whose sources are all seen at once."""
    chosen = planner.choose(now).probes
    for each in chosen:
        planner.finish(each.probe.source_id, each.start_s, seen=True)
    return [(each.probe.source_id, each.probe.reason) for each in chosen]


fleets = st.lists(
    st.tuples(
        st.floats(1e-4, 0.5),  # rate
        st.sampled_from(POLICIES),
        st.sampled_from([None, 0.0, -7.0]),  # last seen
        st.sampled_from([0.0, 6.0]),  # not before
    ),
    min_size=2,
    max_size=12,
)


@given(fleet=fleets, budget_per_s=st.sampled_from([0.5, 2.0, 5.0]))
def test_it_is_as_if_all_sources_were_ranked_in_each_chronon(
    fleet: list[tuple[float, str, float | None, float]], budget_per_s: float
) -> None:
    def run() -> list[list[tuple[str, Reason]]]:
        planner = Planner(replace(SETTINGS, budget=Budget(budget_per_s)))
        for number, (rate_per_s, policy, seen_s, not_before_s) in enumerate(fleet):
            changes: dict[str, Any] = {"rate_per_s": rate_per_s, "last_seen_s": seen_s, "not_before_s": not_before_s}
            put(planner, f"s{number}", policy=policy, **changes)
        return [made(planner, now) for now in range(40)]

    found = run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SourceQueues, "wake_up", wake_up_all)
        assert run() == found


def wake_up_all(self: SourceQueues, now: Chronon, sources: dict[str, PlannedSource]) -> None:
    """Have all sources looked at one by one that may have a probe."""
    self._awake.update(
        source_id
        for source_id, source in sources.items()
        if source.last_seen_s is None or source.earliest_start_s() < now + 1
    )


def test_the_budget_is_spent_on_the_sources_whose_rules_leave_the_times_to_the_plan() -> None:
    planner = Planner(SETTINGS)
    for number in range(8):
        put(planner, f"a{number}")
        put(planner, f"u{number}", policy="UNIFORM")
    found = [each for now in range(1, 22) for each in made(planner, now)]
    assert len(found) == 21 * 4 - 3 * 4  # spacing lets none start in each seventh chronon
    assert {name[0] for name, reason in found if reason is Reason.SPEND} == {"a"}


@pytest.mark.parametrize("others", [0, 100])
def test_a_host_that_takes_few_probes_holds_up_no_other(others: int, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    waiting = Candidates.waiting

    def counted(self: Candidates, *args: Any, **named: Any) -> Any:
        found = list(waiting(self, *args, **named))
        looked_at.append(len(found))
        return iter(found)

    monkeypatch.setattr(Candidates, "waiting", counted)
    planner = Planner(replace(SETTINGS, host_spacing_s=1.0))
    for number in range(9000):
        put(planner, f"big{number}", host="big.example", rate_per_s=0.5)
    for number in range(others):
        put(planner, f"s{number}")
    found = [made(planner, now) for now in range(1, 61)]
    later = found[4:]  # once those of the big host sleep until their turns
    assert {len(each) for each in later} == {4 if others else 1}
    assert all(sum(name.startswith("big") for name, _ in each) == 1 for each in found)
    assert len({name for each in found for name, _ in each if name.startswith("big")}) == 60
    assert max(looked_at[4:]) < 200


def test_a_preview_has_those_that_are_not_due_where_the_budget_is_spent() -> None:
    planner = Planner(replace(SETTINGS, budget=Budget(0.1)))
    for number in range(300):
        put(planner, f"s{number}", now=100, rate_per_s=0.001 + number % 7 / 1000, last_seen_s=number / 3)
    planner.choose(100)
    copied: list[int] = []
    part = planner.part

    def counted(source_ids: Any) -> Planner:
        names = list(source_ids)
        copied.append(len(names))
        return part(names)

    planner.part = counted  # type: ignore[method-assign]
    epoch = Epoch(101, 400)
    assert preview(planner, epoch, limit=5) == preview(planner, epoch)[:5]
    few, all_of_them = copied
    assert few < 100 < all_of_them
