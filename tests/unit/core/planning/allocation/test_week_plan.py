"""The week plan by name against the fleet planner that it drives."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest

from proxyd.core.planning.allocation.fleet_state import FleetState
from proxyd.core.planning.allocation.probe_allocator import FleetDemand, FleetLimits, ProbeAllocator, WeekGrid
from proxyd.core.planning.allocation.week_plan import WeekPlan, by_slot
from proxyd.core.planning.kernels.golden_turns import turns
from proxyd.core.planning.policies.demands import due_after_s
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S, Cycle
from proxyd.core.rates.week_shapes import WeekShapes

START_S = MONDAY_S + 2900 * WEEK_S
NAMES = tuple(f"s{number}" for number in range(40))


def fleet(**changes: object) -> FleetState:
    rng = np.random.Generator(np.random.PCG64(7))
    office = np.full(168, 0.1)
    office[9:17] = 4.0
    weeks = WeekShapes(np.array([np.ones(168), office]), rng.integers(0, 2, len(NAMES)))
    state = FleetState(
        NAMES,
        rng.gamma(1.0, 1e-4, len(NAMES)),
        np.ones(len(NAMES)),
        START_S - rng.uniform(0.0, 86400.0, len(NAMES)),
        weeks,
        probes_per_s=40 * 7 / WEEK_S,
    )
    return replace(state, **changes)  # type: ignore[arg-type]


def test_a_plan_is_the_fleet_planners_with_each_source_at_its_own_place_in_the_slot() -> None:
    state = fleet()
    grid = WeekGrid(state.slot_s)
    demand = FleetDemand(
        grid,
        by_slot(state.weeks.shapes, grid.slots),
        state.weeks.of_source,
        state.rate_per_s,
        state.last_seen_s,
        phase_s=turns(np.arange(len(NAMES))) * state.slot_s,
    )
    planner = ProbeAllocator(demand, FleetLimits(state.probes_per_s * state.slot_s), now_s=-np.inf)
    plan = WeekPlan.of(state)
    assert [plan.due_s(name) for name in NAMES] == planner.due_s.tolist()
    planner.note_probes(np.array([3]), np.array([2e-4]), now_s=START_S)
    plan.follow("s3", 2e-4, 1.0, START_S)
    assert plan.due_s("s3") == planner.due_s[3]
    np.testing.assert_array_equal(
        plan.gains(NAMES[:5], START_S + 9e4), planner.gains(np.arange(5, dtype=np.int64), START_S + 9e4)
    )


def test_what_a_strict_host_may_not_be_asked_goes_to_the_others() -> None:
    strict = np.arange(len(NAMES)) < 20
    hosts = {"host_of": np.where(strict, 0, 1), "host_per_s": np.array([20.0 / WEEK_S, np.inf])}
    free, bound = WeekPlan.of(fleet()), WeekPlan.of(fleet(**hosts))
    assert bound.price_item_s < free.price_item_s
    dear = bound.price_of("s0")
    assert dear is not None
    assert dear > free.price_item_s
    assert dear == bound.price_of("s19")
    assert bound.price_of("s20") == bound.price_item_s
    assert bound.probes_per_s == pytest.approx(free.probes_per_s, rel=0.03)
    assert bound.trade([fleet().probes_per_s])[0].price_item_s == pytest.approx(bound.price_item_s, rel=0.03)


def test_hosts_that_bear_what_is_planned_change_nothing() -> None:
    hosts = {"host_of": np.arange(len(NAMES)), "host_per_s": np.full(len(NAMES), 1.0)}
    free, bound = WeekPlan.of(fleet()), WeekPlan.of(fleet(**hosts))
    assert [bound.due_s(name) for name in NAMES] == [free.due_s(name) for name in NAMES]


def test_the_price_is_what_the_budget_asks_or_what_a_probe_must_save_in_any_case() -> None:
    cheap = WeekPlan.of(fleet()).price_item_s
    assert WeekPlan.of(fleet(price_item_s=cheap / 2)).price_item_s == pytest.approx(cheap)
    assert WeekPlan.of(fleet(price_item_s=cheap * 3)).price_item_s == pytest.approx(cheap * 3)


def test_due_times_spread_over_their_slots() -> None:
    due = np.array([WeekPlan.of(fleet()).due_s(name) for name in NAMES])
    within = (due - MONDAY_S) % 1800.0
    assert len(np.unique(np.floor(within / 180.0))) > 6


def test_a_copy_follows_other_probes() -> None:
    plan = WeekPlan.of(fleet())
    before = plan.due_s("s1")
    copy = deepcopy(plan)
    copy.follow("s1", 1e-3, 1.0, START_S)
    assert (plan.due_s("s1"), copy.due_s("s1") == before) == (before, False)


@pytest.mark.long
def test_a_short_cycle_is_a_week_in_miniature() -> None:
    cycle = Cycle(3600.0)
    speed = cycle.speed
    state = fleet()
    last_s = cycle.time_s(state.last_seen_s)
    small = replace(
        state,
        rate_per_s=state.rate_per_s * speed,
        last_seen_s=last_s,
        probes_per_s=state.probes_per_s * speed,
        cycle=cycle,
    )
    large_due = np.array([WeekPlan.of(state).due_s(name) for name in NAMES])
    small_due = np.array([WeekPlan.of(small).due_s(name) for name in NAMES])
    np.testing.assert_allclose((small_due - last_s) * speed, large_due - state.last_seen_s, rtol=1e-6)


def test_a_source_that_never_changes_is_never_due() -> None:
    state = fleet()
    rates = state.rate_per_s.copy()
    rates[0] = 0.0
    assert WeekPlan.of(replace(state, rate_per_s=rates)).due_s("s0") == np.inf


@pytest.mark.parametrize("price_item_s", [1e-3, 0.1, 1.0])
def test_a_low_price_is_answered_by_probes_much_closer_than_a_slot(price_item_s: float) -> None:
    """As the price alone has it: a probe is due once waiting has cost its price."""
    even = WeekShapes(np.ones((1, 168)), np.zeros(len(NAMES), dtype=np.int64))
    state = fleet(weeks=even, price_item_s=price_item_s, probes_per_s=1e6)
    plan = WeekPlan.of(state)
    waits_s = np.array([plan.due_s(name) for name in NAMES]) - state.last_seen_s
    expected = np.array([due_after_s(rate, price_item_s=price_item_s) for rate in state.rate_per_s])
    short = expected < 200.0
    assert short.sum() > 5
    np.testing.assert_allclose(waits_s[short], expected[short], rtol=1e-6)


def test_a_large_budget_is_spent_though_it_takes_many_probes_a_slot() -> None:
    even = WeekShapes(np.ones((1, 168)), np.zeros(len(NAMES), dtype=np.int64))
    state = fleet(weeks=even, rate_per_s=np.full(len(NAMES), 1e-3), probes_per_s=2.0)
    plan = WeekPlan.of(state)
    waits_s = np.array([plan.due_s(name) for name in NAMES]) - state.last_seen_s
    assert float((1.0 / waits_s).sum()) == pytest.approx(2.0, rel=0.05)


def test_a_new_plan_wants_each_source_when_the_last_one_did() -> None:
    state = fleet(chronon_s=600.0)
    plan = WeekPlan.of(state)
    seen_s, due_s = state.last_seen_s.copy(), {}
    for _ in range(3):
        for number, name in enumerate(NAMES):
            due = plan.due_s(name)
            assert due is not None
            if due > START_S:  # probes start with the chronon in which they are due
                seen_s[number] = max(seen_s[number], due // 600.0 * 600.0)
            plan.follow(name, float(state.rate_per_s[number]), 1.0, float(seen_s[number]))
            due_s[name] = plan.due_s(name)
    counted_s = plan.counted_s(NAMES, seen_s)
    again = WeekPlan.of(replace(state, last_seen_s=seen_s, counted_s=counted_s))
    assert {name: again.due_s(name) for name in NAMES} == pytest.approx(due_s)
    unaware = WeekPlan.of(replace(state, last_seen_s=seen_s))
    # those of slots that they had just been probed for
    assert sum((unaware.due_s(name) or 0.0) < due - 900.0 for name, due in due_s.items() if due is not None) > 10
    others_s = np.array([START_S + 1.0, START_S])  # seen since, or not known
    assert plan.counted_s(["s0", "unknown"], others_s).tolist() == others_s.tolist()
