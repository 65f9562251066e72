"""What the registry shows of the process itself."""

from __future__ import annotations

import pytest

from proxyd import __version__
from proxyd.base.metrics import ROLES, Metrics, Samples


def test_a_process_shows_the_roles_it_has_taken_alone() -> None:
    metrics = Metrics()
    metrics.take_roles("prober")
    metrics.take_roles("planner", "notifier")
    shown = {role: metrics.registry.get_sample_value("proxyd_role_active", {"role": role}) for role in ROLES}
    assert shown == {"planner": 1.0, "prober": 0.0, "notifier": 1.0}


def test_gauges_of_what_a_process_does_not_do_are_absent() -> None:
    metrics = Metrics()
    gauges = {"planner": "proxyd_sources", "prober": "proxyd_prober_hosts"}
    for roles in (ROLES, ["planner"], ["prober"], ["notifier"], []):
        metrics.take_roles(*roles)
        shown = Samples.read(metrics.render().decode()).values
        assert {name in shown for name in ("proxyd_items_total", "process_open_fds")} == {True}
        assert {role for role, name in gauges.items() if name in shown} == set(roles) & set(gauges)


@pytest.mark.parametrize("role", ROLES)
def test_a_process_that_has_not_started_does_nobodys_work(role: str) -> None:
    assert Metrics().registry.get_sample_value("proxyd_role_active", {"role": role}) == 0.0


def test_the_process_and_its_version_are_shown() -> None:
    metrics = Metrics()
    samples = Samples.read(metrics.render().decode()).values
    assert samples["process_resident_memory_bytes"] > 1e6
    assert samples["process_open_fds"] > 0
    assert metrics.registry.get_sample_value("proxyd_build_info", {"version": __version__}) == 1.0
