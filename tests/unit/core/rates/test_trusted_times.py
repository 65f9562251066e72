from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.rates.rate_blend import plausible_times
from tests.fleets import changed, decider, declaration, item, rule, source

DAY_S = 86400.0
T0 = 1_000_000_000.0


def rate_a_day(*times_s: float | None) -> float:
    """Return the rate that is learned at first contact from items of these times."""
    found = decider(declaration(source("s"), rule("r")), now_s=T0)
    items = [item(str(number), time_s) for number, time_s in enumerate(times_s)]
    observation = found.observe(changed("s", items, T0))
    assert observation is not None
    return found.known.estimates.blend.rate_per_s(observation.state.rate, T0) * DAY_S


HOURLY = [T0 - 1800.0 * number for number in range(1, 41)]


@pytest.mark.parametrize("wrong_s", [0.0, T0 - 8000 * DAY_S, T0 - 400 * DAY_S, T0 - 30 * DAY_S, T0 + DAY_S, T0 - 10.0])
def test_no_single_date_decides_a_rate(wrong_s: float) -> None:
    right = rate_a_day(*HOURLY)
    assert right / 1.25 < rate_a_day(*HOURLY, wrong_s) < right * 1.25


def test_some_wrong_dates_do_not_either() -> None:
    right = rate_a_day(*HOURLY)
    assert right / 1.25 < rate_a_day(*HOURLY, 0.0, 0.0, T0 - 9000 * DAY_S) < right * 1.25


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_few_times_are_all_trusted(count: int) -> None:
    times_s = [0.0, 99.0, 99.5][:count]
    assert plausible_times(times_s, 100.0) == times_s


@pytest.mark.parametrize("count", [4_000, 5_000, 10_000])
def test_a_source_may_show_thousands_of_dates(count: int) -> None:
    steady = [T0 - 60.0 * number for number in range(count)]
    assert rate_a_day(*steady) == pytest.approx(1440.0, rel=0.1)
    assert rate_a_day(*steady, 0.0) == pytest.approx(1440.0, rel=0.1)


def test_most_steady_histories_are_trusted() -> None:
    rng = np.random.default_rng(1)
    for count in (4, 10, 40):
        histories = (np.sort(rng.uniform(0.0, 100.0, count)).tolist() for _ in range(500))
        cut = sum(len(plausible_times(times_s, 100.0)) < count for times_s in histories)
        assert cut <= 15


def test_a_wrong_date_does_not_hide_that_items_were_missed() -> None:
    for wrong in ([], [item("wrong", 0.0)]):
        found = decider(declaration(source("s"), rule("r")), now_s=T0)
        found.observe(changed("s", [item("old", T0 - 60.0)], T0))
        now_s = T0 + DAY_S
        items = [item(str(number), now_s - 600.0 * number) for number in range(1, 20)]
        observation = found.observe(changed("s", [*items, *wrong], now_s))
        assert observation is not None
        assert observation.found.window.lost_items > 10
