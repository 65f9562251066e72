"""The composition root decides what the session may use."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from proxyd.app.network import session_limits
from proxyd.config.settings import Settings


def test_slow_origins_may_use_all_open_files_but_a_few() -> None:
    with capture_logs() as logged:
        limits = session_limits(Settings.model_validate({"host_concurrency": 20}), 20_000)
    assert (limits.connections, limits.connections_per_host, logged) == (19_244, 20, [])


@pytest.mark.parametrize("budget", ["1000/s", "00-06 1000/s, 1/s"])
def test_too_few_open_files_for_the_budget_are_warned_of(budget: str) -> None:
    with capture_logs() as logged:
        session_limits(Settings.model_validate({"budget": budget, "probe_timeout": "30s"}), 20_000)
    assert [(line["log_level"], line["open_files"], line["needed"]) for line in logged] == [("warning", 20_000, 45_000)]
