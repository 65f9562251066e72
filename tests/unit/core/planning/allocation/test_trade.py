"""What budgets would buy: by the timetables, against closed forms and against the probes that are made."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.model.chronon import Target
from proxyd.core.planning.allocation.fleet_state import FleetState
from proxyd.core.planning.allocation.targets import FleetTargets
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.kernels.losses import MISSED_S, Losses, window
from proxyd.core.rates.week_bins import MONDAY_S
from proxyd.core.rates.week_shapes import WeekShapes

DAY_S = 86400.0
OFFICE = np.tile(np.repeat([0.1, 2.0, 0.1], [8, 10, 6]), 7)
BUDGETS = [0.5 / DAY_S, 2 / DAY_S, 8 / DAY_S]


def plan(rates: list[float], shape: np.ndarray) -> WeekPlan:
    weeks = WeekShapes(shape[None, :] / shape.mean(), np.zeros(len(rates), dtype=np.int64))
    names = tuple(f"s{number}" for number in range(len(rates)))
    return WeekPlan.of(
        FleetState(names, np.array(rates), np.ones(len(rates)), np.full(len(rates), MONDAY_S), weeks, 2 / DAY_S)
    )


@pytest.mark.parametrize("shape", [np.ones(168), OFFICE])
def test_more_probes_buy_less_delay_and_each_buys_less_than_the_one_before(shape: np.ndarray) -> None:
    points = plan([4 / DAY_S, 1 / DAY_S, 0.2 / DAY_S], shape).trade([n / DAY_S for n in range(1, 12)])
    delays = np.array([point.delay_s for point in points])
    assert np.all(np.diff(delays) < 0)
    assert np.all(np.diff(delays, 2) > -0.02 * delays[1:-1])
    assert np.all(np.diff([point.captured for point in points]) > 0)
    assert np.all(np.diff([point.price_item_s for point in points]) < 0)


def test_without_a_week_the_delay_is_that_of_the_square_root_rule() -> None:
    rates = np.array([4, 1, 0.2]) / DAY_S
    for point in plan(rates.tolist(), np.ones(168)).trade(BUDGETS):
        frequencies = np.sqrt(rates) / np.sqrt(rates).sum() * point.probes_per_s
        assert point.delay_s == pytest.approx(float((rates / (2 * frequencies)).sum() / rates.sum()), rel=0.03)


def test_the_delay_foretold_is_the_one_that_comes() -> None:
    week = plan([3 / DAY_S] * 4, OFFICE)
    (foretold,) = week.trade([week.probes_per_s])
    factors = OFFICE / OFFICE.mean()
    hours = np.arange(4 * 168)
    late = []
    for name in ("s0", "s1", "s2", "s3"):
        probes, last_s = [], MONDAY_S
        while last_s < MONDAY_S + 5 * 7 * DAY_S:
            due_s = week.due_s(name)
            assert due_s is not None
            week.follow(name, 3 / DAY_S, 1.0, last_s := due_s)
            probes.append(due_s)
        middles_s = MONDAY_S + (hours + 0.5) * 3600.0
        waits_s = np.array(probes)[np.searchsorted(probes, middles_s)] - middles_s
        late.append(float((factors[hours % 168] * waits_s).mean()))
    assert np.mean(late) == pytest.approx(foretold.delay_s, rel=0.08)


def test_sources_that_are_planned_by_age_take_the_probes_that_they_are_said_to_take() -> None:
    rate = 1 / DAY_S
    weeks = WeekShapes(np.ones((1, 168)), np.zeros(2, dtype=np.int64))
    gaps = np.array([[16.0, DAY_S, MONDAY_S], [0.0, 0.0, 0.0]])
    targets = FleetTargets([Target(0.9, ((3600.0, 1.0),))], [(0,)], np.zeros(2, dtype=np.int64))
    state = FleetState(
        ("regular", "random"),
        *(np.full(2, rate), np.ones(2), np.full(2, MONDAY_S), weeks, 1000 / DAY_S),
        losses=([Losses(window(3600.0, delay=MISSED_S))], np.zeros(2, dtype=np.int64)),
        rules=("r",),
        targets=targets,
        gaps=gaps,
    )
    week = WeekPlan.of(state)
    assert week.probes_per_s == pytest.approx(week.outlooks["r"].made, rel=0.01)
    (now,) = week.trade([week.probes_per_s])
    assert now.price_item_s == pytest.approx(week.price_of("random"), rel=0.02)


def test_however_often_it_is_asked_a_plan_keeps_few_results() -> None:
    asked = plan([4 / DAY_S, 1 / DAY_S], np.ones(168))
    answers = [asked.trade([n / DAY_S]) for n in range(1, 20)]
    assert asked.trade([1 / DAY_S]) == answers[0]
    assert len(vars(asked)["_trades"]) <= 8
