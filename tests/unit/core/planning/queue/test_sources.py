"""A source in the planner's form: what holds it back, what its host allows, and what is stored of it."""

from __future__ import annotations

from proxyd.core.model.schedule import Constraint
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.queue.planned_source import PlannedSource, ProbeLimits, SourceRecord
from proxyd.core.planning.queue.probe_slots import SlotAllocator
from proxyd.core.planning.queue.source_queues import _WakeQueue
from proxyd.core.politeness.host_budgets import HostBudgets, PolitenessBudget, ProbeLog, ScopeBlocks


def source_of(name: str = "a") -> PlannedSource:
    return PlannedSource(name, "example.org", ProbeLog(PolitenessBudget(60.0)), Demands(), rate_per_s=0.01)


def test_a_source_waits_for_its_own_spacing() -> None:
    source = source_of()
    source.log.record(100.0)
    assert source.earliest_start_s() == 160.0
    assert source.obstacle_at(120.0) is Constraint.SOURCE_POLITENESS


def test_a_source_waits_for_the_throttle_of_its_host() -> None:
    limits = ProbeLimits(HostBudgets(PolitenessBudget(spacing_s=1.0)), ScopeBlocks())
    limits.blocks.block("example.org", 60.0)
    assert limits.earliest_s(source_of()) == 60.0
    assert limits.obstacle_at(source_of(), 30.0) is Constraint.HOST_THROTTLED


def test_a_source_that_is_put_again_wakes_once() -> None:
    source, sleeping = source_of(), _WakeQueue()
    sleeping.put(source, 1000)
    sleeping.put(source, 200)
    assert [len(sleeping.wake_up(now, {"a": source})) for now in (199, 200, 1000)] == [0, 1, 0]


def test_who_begins_in_the_middle_of_a_chronon_has_what_is_left_of_it() -> None:
    assert SlotAllocator(0.0, 10.0, 10, from_s=5.0).room == 5


def test_a_record_holds_what_differs_from_the_defaults() -> None:
    record = SourceRecord(60.0, 0.01, 4.0, demands=(("r", ("uniform", 10.0), (70.0,)),))
    assert list(record.values()) == ["as_of_s", "rate_per_s", "items_known", "demands"]
    assert record == SourceRecord.of_values(record.values())


def test_a_record_has_no_times_after_the_clock_that_was_set_back() -> None:
    record = SourceRecord(60.0, 0.01, 4.0, starts_s=(50.0, 60.0)).as_of(55.0)
    assert (record.as_of_s, record.starts_s) == (55.0, (50.0, 55.0))
