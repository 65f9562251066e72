"""When the planner makes a probe that is worth its price."""

from __future__ import annotations

import pytest

from proxyd.model.chronon import ChrononGrid
from proxyd.politeness import PolitenessBudget, ProbeLog
from proxyd.scheduling import Budget, Demands, Page, Planner, PlannerSettings

HALF_HOUR_S = 1800.0
RATE_PER_S = 1 / 3600


def planner(due_s: float, **changes: object) -> Planner:
    """Return a planner of one page that was seen at 0 and is due at ``due_s``."""
    settings = PlannerSettings(
        ChrononGrid(HALF_HOUR_S), Budget(1.0), price_item_s=RATE_PER_S * due_s**2 / 2, overflow=1.0
    )
    found = Planner(settings)
    log = ProbeLog(PolitenessBudget(60.0))
    found.put(Page("a", "a.example", log, Demands(detecting=["r"]), RATE_PER_S, last_seen_s=0.0, **changes), now=0)  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("due_s", [2 * HALF_HOUR_S, 2.5 * HALF_HOUR_S, 2.99 * HALF_HOUR_S])
def test_a_probe_is_made_in_the_chronon_in_which_it_is_due(due_s: float) -> None:
    found = planner(due_s)
    assert found.choose(1) == []
    (planned,) = found.choose(2)
    assert planned.start_s == 2 * HALF_HOUR_S


def test_no_probe_is_made_for_a_full_window_where_nothing_is_said_to_be_lost() -> None:
    found = planner(20 * HALF_HOUR_S, window=1)
    assert [now for now in range(24) if found.choose(now)] == [20]
