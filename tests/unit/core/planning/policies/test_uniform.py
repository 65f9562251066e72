"""UNIFORM: each source has a phase of its own, which depends on nothing but its name and the period."""

from __future__ import annotations

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.planning.policies.paced import UniformDemand
from proxyd.core.planning.policies.rule_demand import FiringPattern, RuleRequest
from tests.fleets import declaration, rule, source

GRID, PERIOD = ChrononGrid(10.0), 30
CHOICE = declaration(source("s"), rule("r", clauses="SET POLICY UNIFORM(5 MINUTES)")).rules["r"].policy


def begun(now: int, source_id: str = "s") -> UniformDemand:
    return UniformDemand.of(RuleRequest("r", source_id, CHOICE, FiringPattern(), GRID, now_s=GRID.start_s(now)))


def test_however_often_it_begins_it_is_due_at_the_same_times() -> None:
    """A restart that finds no record of the demand lays it again."""
    due = {begun(now).next_due for now in range(100_000, 100_000 + 3 * PERIOD)}
    assert len(due) in {3, 4}
    assert len({at % PERIOD for at in due}) == 1
    assert all(now <= begun(now).next_due < now + PERIOD for now in range(100_000, 100_000 + PERIOD))


def test_sources_are_spread_over_the_period() -> None:
    due = [begun(100_000, f"s{number}").next_due - 100_000 for number in range(600)]
    assert max(due.count(at) for at in range(PERIOD)) < 3 * len(due) / PERIOD


def test_a_late_probe_keeps_its_start() -> None:
    demand = begun(100_000)
    start = demand.next_due
    assert demand.pending(start + 5 * PERIOD).start == start
    assert demand.pending(start + 5 * PERIOD).deadline == start + 5 * PERIOD
    demand.note_probe(start + 5 * PERIOD)
    assert demand.pending(start + 5 * PERIOD).start == start + 6 * PERIOD
