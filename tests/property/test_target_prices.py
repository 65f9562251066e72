"""Targets: the predicted share is met, no cheaper prices meet it, and probing at these prices keeps it."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from proxyd.core.model.chronon import Target
from proxyd.core.planning.allocation.prices import Frequencies, allocate
from proxyd.core.planning.allocation.probe_allocator import FleetDemand, FleetLimits, ProbeAllocator, WeekGrid
from proxyd.core.planning.allocation.targets import FleetTargets, TargetPrices
from proxyd.core.planning.allocation.timetable import TimetableBuilder
from proxyd.core.planning.kernels.losses import Losses, Step, by_rate
from proxyd.core.rates.siblings import HELPS

Floats = NDArray[np.float64]
MISSED = 1008.0
SLOTS = 336
OFFICE = np.where((np.arange(SLOTS) % 48 >= 16) & (np.arange(SLOTS) % 48 < 36), 2.0, 0.3)


def priced(
    targets: FleetTargets, losses: Losses, rates: Floats, shape: Floats = OFFICE
) -> tuple[TargetPrices, Frequencies]:
    nobody = np.zeros(len(rates), dtype=np.int64)
    every, curve_of = by_rate([losses], nobody, rates)
    tables = [TimetableBuilder(shape, losses=each).build() for each in every]
    fleet = Frequencies(tables, curve_of, rates)
    return TargetPrices(targets, every, curve_of, fleet, rates), fleet


def one_rule(share: float, life: float, sources: int, *, most_gap: float = inf, least_gap: float = 0.0) -> FleetTargets:
    target, nobody = Target(share, ((life, 1.0),)), np.zeros(sources, dtype=np.int64)
    return FleetTargets([target], [(0,)], nobody, most_gap=most_gap, least_gap=least_gap)


@settings(max_examples=10, deadline=None)
@given(st.floats(0.5, 0.99), st.floats(4.0, 48.0), st.lists(st.floats(0.001, 0.5), min_size=1, max_size=5))
def test_a_target_is_just_met(share: float, life: float, rates: list[float]) -> None:
    of, losses = np.array(rates), Losses((Step(life, MISSED),))
    prices, fleet = priced(one_rule(share, life, len(of)), losses, of)
    best = prices.log_prices()
    met = prices.outlooks(allocate(fleet, 1e9, least_price=np.exp2(best)))[0]
    assert met.expected >= share - 1e-6
    dearer = prices.outlooks(allocate(fleet, 1e9, least_price=np.exp2(best + 0.5)))[0]
    assert dearer.expected < share or met.expected == pytest.approx(1.0)
    assert dearer.made <= met.made


def test_items_of_an_even_week_are_seen_as_predicted() -> None:
    rates = np.random.default_rng(1).lognormal(-4.0, 1.0, 200)
    prices, fleet = priced(one_rule(0.9, 12.0, 200), Losses((Step(12.0, MISSED),)), rates, np.ones(SLOTS))
    gaps = 1.0 / fleet.frequencies(prices.log_prices())
    assert (rates * np.minimum(1.0, 12.0 / gaps)).sum() / rates.sum() == pytest.approx(0.9, abs=0.005)


def test_overwritten_items_have_a_share_too() -> None:
    rates = np.full(50, 0.05)
    prices, fleet = priced(one_rule(0.8, inf, 50), Losses((), MISSED), rates, np.ones(SLOTS))
    x = rates / fleet.frequencies(prices.log_prices())
    assert ((1 - np.exp(-x)) / x).mean() == pytest.approx(0.8, abs=0.03)


def test_a_rule_needs_fewer_probes_of_the_sources_that_it_does_not_share() -> None:
    """One rule asks half of the sources for more, so the other half is probed less for the rule of all."""
    rates, losses = np.full(40, 0.05), Losses((Step(4.0, MISSED), Step(24.0, MISSED)))
    tight, loose = Target(0.95, ((4.0, 1.0),)), Target(0.9, ((24.0, 1.0),))
    kinds = np.repeat([0, 1], 20)
    shared, fleet = priced(FleetTargets([loose, tight], [(0,), (0, 1)], kinds), losses, rates)
    alone, _ = priced(FleetTargets([loose], [(0,), (0,)], kinds), losses, rates)
    made, lonely = (fleet.frequencies(each.log_prices()) for each in (shared, alone))
    assert made[20:].sum() > 2 * made[:20].sum()
    assert made[:20].sum() < 0.8 * lonely[:20].sum()
    met = shared.outlooks(allocate(fleet, 1e9, least_price=np.exp2(shared.log_prices())))
    assert [each.expected >= each.share - 1e-6 for each in met] == [True, True]


def test_every_source_is_asked_daily() -> None:
    rates = np.array([1.0, 1e-6])
    prices, fleet = priced(one_rule(0.5, 12.0, 2, most_gap=48.0), Losses((Step(12.0, MISSED),)), rates)
    assert (fleet.frequencies(prices.log_prices()) >= 1 / 48 - 1e-9).all()


def test_what_politeness_forbids_is_not_promised() -> None:
    rates, losses = np.full(4, 0.05), Losses((Step(4.0, MISSED),))
    prices, fleet = priced(one_rule(0.95, 4.0, 4, least_gap=16.0), losses, rates, np.ones(SLOTS))
    outlook = prices.outlooks(allocate(fleet, 1e9, least_price=np.exp2(prices.log_prices())))[0]
    assert outlook.reachable == pytest.approx(0.25, abs=0.06)
    assert outlook.made <= 4 / 16 * 1.05


def test_a_small_budget_is_said_with_what_is_missing() -> None:
    rates, losses = np.full(4, 0.05), Losses((Step(4.0, MISSED),))
    prices, fleet = priced(one_rule(0.95, 4.0, 4), losses, rates, np.ones(SLOTS))
    least = np.exp2(prices.log_prices())
    outlook = prices.outlooks(allocate(fleet, 0.3, least_price=least))[0]
    assert outlook.made == pytest.approx(0.3, rel=0.05)
    assert outlook.needed == pytest.approx(4 * 0.95 / 4.0, rel=0.05)
    assert outlook.expected < 0.5
    assert outlook.reachable > 0.94
    assert not outlook.is_met


def test_bursts_need_fewer_probes_where_probes_are_cheap() -> None:
    rates, losses = np.full(30, 0.05), Losses((Step(12.0, MISSED),))
    nobody = np.zeros(30, dtype=np.int64)
    helped = FleetTargets(
        [Target(0.9, ((12.0, 1.0),))], [(0,)], nobody, nobody, np.exp(-2.0 * HELPS)[None, :], late=2.0, missed=MISSED
    )
    with_help, fleet = priced(helped, losses, rates)
    without, _ = priced(one_rule(0.9, 12.0, 30), losses, rates)
    assert fleet.frequencies(with_help.log_prices()).sum() < 0.9 * fleet.frequencies(without.log_prices()).sum()


def test_an_importance_makes_no_share_larger_than_one() -> None:
    hours = np.where(OFFICE > 1.0, 10.0, 0.0)
    table = TimetableBuilder(OFFICE, importance=hours, losses=Losses((Step(0.5, MISSED),))).build()
    assert table.lost.max() == pytest.approx(1.0, abs=0.05)


def allocator(rates: Floats, rules: list[int], life: float = 12.0) -> ProbeAllocator:
    """Return an allocator of sources in an even week, each with the rule of its number."""
    losses, kind_of = Losses((Step(life, MISSED),)), np.array(rules)
    targets = FleetTargets(
        [Target(0.9, ((life, 1.0),))] * (max(rules) + 1), [(n,) for n in range(max(rules) + 1)], kind_of
    )
    grid, nobody = WeekGrid(1800.0), np.zeros(len(rates), dtype=np.int64)
    demand = FleetDemand(grid, np.ones((1, SLOTS)), nobody, rates / 1800.0, last_s=0.0, losses=[losses])
    return ProbeAllocator(demand, FleetLimits(1e6, targets=targets), now_s=0.0)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.001, 0.5), min_size=1, max_size=5), st.floats(0.05, 1.0))
def test_a_target_takes_as_many_probes_where_all_its_sources_become_slower(rates: list[float], factor: float) -> None:
    of = np.array([*rates, 0.1])
    found = allocator(of, [0] * len(rates) + [1])
    before = [found.mean_gap_s(source) for source in range(len(of))]
    for source in range(len(rates)):
        found.note_probe_of(source, found.rate_per_s[source] * factor, 1.0, now_s=1e6)
    after = [found.mean_gap_s(source) for source in range(len(of))]
    assert after == pytest.approx(before, rel=1e-6)
    assert found.price_of(len(rates)) == found.prices.of_source[-1]


@settings(max_examples=25, deadline=None)
@given(st.floats(1.0, 1e6), st.floats(0.001, 0.5))
def test_a_source_that_floods_does_not_keep_probes_from_the_others(flood: float, rate: float) -> None:
    found = allocator(np.array([0.1, rate]), [0, 0])
    before = found.mean_gap_s(1)
    found.note_probe_of(0, found.rate_per_s[0] * flood, 1.0, now_s=1e6)
    assert found.mean_gap_s(1) == before


def test_a_source_without_rate_in_the_plan_is_probed_once_it_has_one() -> None:
    found = allocator(np.array([0.0, 0.1]), [0, 1])
    found.note_probe_of(0, 0.1 / 1800.0, 1.0, now_s=1e6)
    assert found.mean_gap_s(0) <= found.mean_gap_s(1)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_prices_follow_rates_alike_one_by_one_and_together(seed: int) -> None:
    rng = np.random.default_rng(seed)
    of, rules = rng.lognormal(-3.0, 1.0, 6), rng.integers(0, 3, 6).tolist()
    one, all_, sources = allocator(of, rules), allocator(of, rules), np.arange(6)
    for _ in range(5):
        rates = all_.rate_per_s * rng.lognormal(0.0, 0.5, 6)
        for source in sources.tolist():
            one.note_probe_of(source, float(rates[source]), 1.0, now_s=1e6)
        all_.note_probes(sources, rates, now_s=1e6)
    assert one.drift is not None
    assert all_.drift is not None
    assert [one.price_of(source) for source in range(6)] == pytest.approx(all_.drift.prices_of(sources).tolist())
    assert one.drift.prices_of(sources) == pytest.approx(all_.drift.prices_of(sources))
    total, planned = (np.bincount(rules, weights=each) for each in (rates * 1800.0, of))
    asked = all_.prices.least * np.minimum(total / np.maximum(planned, 1e-300), 1.0)[rules]
    bound = all_.drift.group_of < 3
    assert all_.drift.prices_of(sources)[bound] == pytest.approx(np.maximum(asked, all_.prices.held)[bound])
