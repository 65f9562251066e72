from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.chronon import Budget, BudgetHours, Chronon, ChrononGrid


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


NIGHTS = Budget(1 / 1000.0, (BudgetHours(6, 22, 0.0),))


@pytest.mark.parametrize("budget", [Budget(1.0), Budget(0.3), Budget(1 / 977.0), Budget(0.0), NIGHTS])
@pytest.mark.parametrize("chronon_s", [7.0, 1200.0])
def test_the_next_room_is_where_a_search_finds_it(budget: Budget, chronon_s: float) -> None:
    grid, zone = ChrononGrid(chronon_s), ZoneInfo("Asia/Kathmandu")
    first = grid.chronon_at(1_700_000_000.0)
    stop = first + 14_000

    def searched(chronon: Chronon) -> Chronon:
        return next((each for each in range(chronon, stop) if budget.capacity(each, grid, zone)), stop)

    for chronon in range(first, stop, 1009):
        assert budget.next_room(chronon, stop, grid, zone) == searched(chronon)
