"""Burst hints: probes that find nothing speak against a burst, and one look makes a bounded number of sources due."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.planning.allocation.fleet_state import FleetState
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.kernels.losses import MISSED_S, NO_LOSSES, Losses, window
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.policies.auto import DetectionDemand
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.politeness.host_budgets import PolitenessBudget, ProbeLog
from proxyd.core.rates.rate_blend import ChangedBit, Evidence, ItemCount, ItemTimes
from proxyd.core.rates.siblings import BIN_S
from proxyd.core.rates.week_bins import MONDAY_S, Cycle
from proxyd.core.rates.week_shapes import WeekShapes
from proxyd.core.rules.stages.hints import Hints

SEEN_S, NOW_S, NEXT_S = MONDAY_S, MONDAY_S + BIN_S, MONDAY_S + 2 * BIN_S
NOTHING = ItemCount(SEEN_S, NOW_S, 0)


def planner_of(
    sources: int, *, per_bin: float, chronon_s: float, price_item_s: float = 600.0, losses: Losses = NO_LOSSES
) -> Planner:
    """Return a planner of sources of one host that change together, last seen a bin ago and due in an hour or more."""
    rate_per_s, names = per_bin / BIN_S, [f"s{number}" for number in range(sources)]
    planner = Planner(PlannerSettings(ChrononGrid(chronon_s), Budget(inf), price_item_s=price_item_s))
    rates, zeros = np.full(sources, rate_per_s), np.zeros(sources, dtype=np.int64)
    even = WeekShapes(np.ones((1, 168)), zeros)
    planner.change_to(
        WeekPlan.of(
            FleetState(
                names,
                rates,
                np.ones(sources),
                np.full(sources, SEEN_S),
                even,
                sources / BIN_S,
                price_item_s=price_item_s,
                losses=([losses], zeros) if losses else None,
                host_of=zeros,
                host_per_s=np.array([inf]),
                host_k=np.array([0.01]),
            )
        )
    )
    now = planner.settings.grid.chronon_at(NOW_S)
    for name in names:
        log = ProbeLog(PolitenessBudget(0.0))
        demands = Demands([DetectionDemand("r")])
        planner.put(PlannedSource(name, "h", log, demands, rate_per_s, last_seen_s=SEEN_S), now)
    return planner


def due(planner: Planner) -> int:
    """Return how many sources are due at ``NEXT_S``."""
    assert planner.week is not None
    return int(np.sum(planner.week.dues_s(list(planner.sources)) <= NEXT_S))


def looked(evidence: list[Evidence], *, sources: int = 200, chronon_s: float = BIN_S) -> int:
    """Return how many sources are due after probes of the first ones."""
    planner = planner_of(sources, per_bin=0.01, chronon_s=chronon_s)
    assert due(planner) == 0
    hints = Hints(planner, Cycle(), chronon_s)
    for number, each in enumerate(evidence):
        hints.learn(f"s{number}", each)
    hints.hasten_bursts(NEXT_S)
    return due(planner)


FOUND = ItemTimes(SEEN_S, NOW_S, (NOW_S - 60.0,))


def test_a_find_makes_the_sources_of_its_host_due() -> None:
    assert looked([FOUND]) > 150


@pytest.mark.parametrize("nothing", [NOTHING, ItemTimes(SEEN_S, NOW_S, ()), ChangedBit(SEEN_S, NOW_S, changed=False)])
def test_probes_that_found_nothing_speak_against_a_burst(nothing: Evidence) -> None:
    assert looked([FOUND] + [nothing] * 190) == 0


def test_a_count_without_times_tells_nothing() -> None:
    some = ItemCount(SEEN_S, NOW_S, 3), ItemCount(SEEN_S, NOW_S, 0, at_least=True), ChangedBit(SEEN_S, NOW_S, True)
    assert looked([FOUND, *some]) == looked([FOUND])


@pytest.mark.parametrize(("chronon_s", "most"), [(10.0, 200), (30.0, 600), (BIN_S, 2000)])
def test_a_look_makes_more_sources_due_in_a_longer_chronon(chronon_s: float, most: int) -> None:
    assert looked([FOUND], sources=2500, chronon_s=chronon_s) == most


@pytest.mark.parametrize(("life_bins", "is_worth_it"), [(1.0, False), (2.0, True)])
def test_items_count_as_in_time_if_the_chronon_that_begins_finds_them(life_bins: float, is_worth_it: bool) -> None:
    lives = Losses(window(life_bins * BIN_S, 1.0), 0.0)
    planner = planner_of(50, per_bin=0.001, chronon_s=BIN_S, price_item_s=0.15 * MISSED_S, losses=lives)
    hints, before = Hints(planner, Cycle(), BIN_S), due(planner)
    hints.learn("s0", FOUND)
    hints.hasten_bursts(NEXT_S)
    assert before == 0
    assert due(planner) == (50 if is_worth_it else 0)
