from __future__ import annotations

from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.budget import Budget, BudgetHours
from proxyd.core.model.chronon import ChrononGrid


@given(st.floats(0.001, 5.0), st.floats(0.1, 60.0), st.integers(0, 10**9), st.integers(1, 500))
def test_any_run_of_chronons_gets_its_rate_to_within_one_probe(
    per_s: float, chronon_s: float, first: int, count: int
) -> None:
    grid, budget = ChrononGrid(chronon_s), Budget(per_s)
    allowed = sum(budget.capacity(chronon, grid) for chronon in range(first, first + count))
    assert abs(allowed - per_s * chronon_s * count) < 1.0 + 1e-6 * count


def test_hours_of_the_day_hold_in_their_zone_and_over_midnight() -> None:
    budget = Budget(1.0, (BudgetHours(22, 6, 0.5), BudgetHours(8, 18, 0.1)))
    rates = [budget.rate_per_s(hour * 3600.0) for hour in (23, 3, 7, 9, 18)]
    assert rates == [0.5, 0.5, 1.0, 0.1, 1.0]
    assert budget.rate_per_s(7 * 3600.0, ZoneInfo("Europe/Berlin")) == 0.1
