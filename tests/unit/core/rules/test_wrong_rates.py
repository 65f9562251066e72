"""What is learned may be wrong: two weeks later the daemon is never more than a tenth worse than uniform probing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from proxyd.core.model.chronon import Budget, Epoch
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.lab.traces import MONDAY_S, STEADY, Week, drifting_events, poisson_events, working_week
from tests.fleets import decider, declaration, rule, source
from tests.rehearsal import Origins, rehearse

SOURCES, PER_WEEK, CHRONON_S = 40, 10.0, 900.0
BEFORE, RECOVERY, MEASURED = 6, 2, 3  # weeks as they were, to find out, and to measure
TURN_S = MONDAY_S + BEFORE * WEEK_S
START_S, STOP_S = TURN_S + RECOVERY * WEEK_S, TURN_S + (RECOVERY + MEASURED) * WEEK_S
PRICE_ITEM_S = PER_WEEK / WEEK_S * 86400.0**2 / 2  # a source of mean rate is due after about a day
RATE_PER_S = PER_WEEK / WEEK_S

OFFICE = working_week(night=0.05, weekend=0.05)
TURNED = Week(WEEK_S, tuple(1.05 - factor for factor in OFFICE.factors), MONDAY_S)
Draw = Callable[[float, float, float, np.random.Generator], np.ndarray]


def poisson(week: Week) -> Draw:
    return lambda rate, start_s, stop_s, rng: poisson_events(rate, week, start_s=start_s, stop_s=stop_s, rng=rng)


def drifting(rate: float, start_s: float, stop_s: float, rng: np.random.Generator) -> np.ndarray:
    return drifting_events(rate, OFFICE, start_s=start_s, stop_s=stop_s, rng=rng, volatility=0.5)


def to_uniform(before: Draw, after: Draw, *, factor: float = 1.0, options: str = "") -> float:
    """Return the mean delay over that of as many probes at an even pace, from two weeks after the turn on."""
    rng = np.random.Generator(np.random.PCG64(17))
    times_s = {
        f"s{number}": np.concatenate(
            [before(RATE_PER_S, MONDAY_S, TURN_S, rng), after(factor * RATE_PER_S, TURN_S, STOP_S, rng)]
        )
        for number in range(SOURCES)
    }
    found = decider(
        declaration(*(source(name, host=f"{name}.example", options=options) for name in times_s), rule("r")),
        now_s=MONDAY_S,
        chronon_s=CHRONON_S,
        budget=Budget(70 * SOURCES / WEEK_S),
        price_item_s=PRICE_ITEM_S,
        host_spacing_s=0.0,
    )
    grid = found.settings.grid
    epoch = Epoch(grid.chronon_at(MONDAY_S), grid.chronon_at(STOP_S))
    made = rehearse(found, Origins(times_s), epoch, plan_every_s=86400.0)
    probes = sum(planned.start_s >= START_S for planned in made.probes)
    even_s = (STOP_S - START_S) * SOURCES / probes / 2
    return float(made.delays_s(times_s, start_s=START_S, stop_s=STOP_S).mean()) / even_s


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(poisson(STEADY), poisson(STEADY), id="no cycle at all", marks=pytest.mark.long),
        pytest.param(poisson(OFFICE), poisson(TURNED), id="a cycle that turns upside down", marks=pytest.mark.long),
        pytest.param(poisson(OFFICE), poisson(STEADY), id="a cycle that ends", marks=pytest.mark.long),
        pytest.param(drifting, drifting, id="rates that wander", marks=pytest.mark.long),
    ],
)
def test_a_wrong_week_costs_a_tenth_at_most(before: Draw, after: Draw) -> None:
    assert to_uniform(before, after) <= 1.1


@pytest.mark.long
@pytest.mark.parametrize("factor", [10.0, 0.1])
def test_rates_ten_times_as_high_or_low_cost_a_tenth_at_most(factor: float) -> None:
    assert to_uniform(poisson(STEADY), poisson(STEADY), factor=factor) <= 1.1


@pytest.mark.parametrize("per_week", [100, 1])
@pytest.mark.long
def test_expectations_ten_times_too_high_or_low_cost_a_tenth_at_most(per_week: int) -> None:
    assert to_uniform(poisson(STEADY), poisson(STEADY), options=f"EXPECT {per_week} PER WEEK") <= 1.1
