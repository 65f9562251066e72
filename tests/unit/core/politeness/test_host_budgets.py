"""Planned and actual starts of a host's probes, its turns, and what a restart restores."""

from __future__ import annotations

from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.politeness.host_budgets import HostBudgets, HostTally, PolitenessBudget, ProbeLog

HOST = "example.org"


def test_plans_are_checked_against_planned_starts_and_starts_against_actual_ones() -> None:
    hosts = HostBudgets(PolitenessBudget(spacing_s=1.0, probes=2, window_s=60.0))
    hosts.plan(HOST, 10.0)
    assert hosts.earliest_s(HOST) == 11.0
    assert hosts.start(HOST, 10.0, now_s=12.0) == 12.0
    assert hosts.earliest_s(HOST) == 13.0
    assert hosts.start(HOST, 11.0, now_s=12.5) == 13.0


def test_four_sources_ask_for_each_probe_that_a_host_takes() -> None:
    hosts = HostBudgets(PolitenessBudget(spacing_s=2.0))
    assert [hosts.turn_s(HOST, 10.0) for _ in range(3)] == [10.0, 10.5, 11.0]


def test_starts_are_restored_in_any_order_of_sources() -> None:
    hosts = HostBudgets(PolitenessBudget(spacing_s=1.0, probes=2, window_s=60.0))
    hosts.restore(HOST, [30.0])
    hosts.restore(HOST, [10.0, 20.0])
    assert hosts.earliest_s(HOST) == 80.0


def test_the_smaller_limit_decides_how_many_probes_a_budget_allows() -> None:
    assert PolitenessBudget(spacing_s=1.0, probes=30, window_s=60.0).most_per_s == 0.5
    assert PolitenessBudget(spacing_s=4.0, probes=30, window_s=60.0).most_per_s == 0.25


def test_a_log_keeps_spacing_and_number() -> None:
    log = ProbeLog(PolitenessBudget(spacing_s=10.0, probes=2, window_s=100.0))
    log.record(0.0)
    assert log.earliest_s() == 10.0
    log.record(10.0)
    assert log.earliest_s() == 100.0


def test_what_a_host_answered_is_counted_until_it_is_no_longer_asked() -> None:
    hosts = HostBudgets(PolitenessBudget(spacing_s=1.0))
    kinds = [OutcomeKind.CHANGED, OutcomeKind.NOT_MODIFIED, OutcomeKind.THROTTLED, OutcomeKind.TIMEOUT]
    for at_s, kind in enumerate(kinds, start=10):
        hosts.note_outcome(HOST, ProbeOutcome("s", kind, at_s, at_s + 0.5, status=429, requests=2))
    expected = HostTally(10, 8, 2, 1, 1, 13.5, OutcomeKind.TIMEOUT, 429)
    assert hosts.tallies == {HOST: expected}
    hosts.keep(set(), 14.0)
    assert not hosts.tallies
