"""Shards that share a budget by price plan nearly as one planner of all sources does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.planning.allocation.fleet_demand import FleetDemand, FleetLimits, WeekGrid
from proxyd.core.planning.allocation.prices import HostLimits
from proxyd.core.planning.allocation.probe_allocator import ProbeAllocator
from proxyd.lab.algorithms.shared_budget import PriceSearch, demand, mean_delay_s, shard_limits
from tests.examples import examples

GRID = WeekGrid(4 * 3600.0)
SHAPES = np.array([np.ones(GRID.slots), 1.0 + np.sin(np.arange(GRID.slots))])
SOURCES_A_HOST = 5


def fleet(rates: np.ndarray, hosts: np.ndarray) -> FleetDemand:
    """Return sources whose week is that of their host."""
    return FleetDemand(GRID, SHAPES, hosts % len(SHAPES), rates, last_s=0.0)


def limits(budget: float, hosts: np.ndarray, per_host: float, capacity: np.ndarray | None = None) -> FleetLimits:
    """Return limits of a fleet and of each host."""
    known, of_source = np.unique(hosts, return_inverse=True)
    return FleetLimits(budget, capacity, HostLimits(of_source, np.full(len(known), per_host)))


def shared(shards: list[ProbeAllocator], hosts: list[HostLimits | None], budget: float) -> PriceSearch:
    """Find the common price."""
    search = PriceSearch(budget)
    for _ in range(9):
        if search.is_done:
            break
        search = search.narrowed([demand(each, search.asked, its) for each, its in zip(shards, hosts, strict=True)])
    assert search.is_done
    return search


@pytest.mark.long
@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.floats(0.05, 2.0), st.sampled_from([None, 1.2]))
@examples(15)
def test_the_parts_of_a_budget_save_nearly_as_much_as_the_whole(
    seed: int, many: int, a_source: float, room: float | None
) -> None:
    rng = np.random.default_rng(seed)
    hosts = np.arange(300) // SOURCES_A_HOST
    rates = np.exp(rng.normal(-11.0, 2.0, len(hosts)))
    budget, per_host = a_source * len(hosts) / 10.0, SOURCES_A_HOST / 4.0
    capacity = None if room is None else room * budget * (1.0 + 0.5 * np.cos(np.arange(GRID.slots)))
    whole = ProbeAllocator(fleet(rates, hosts), limits(budget, hosts, per_host, capacity), now_s=0.0)
    of_shard = rng.integers(many, size=hosts.max() + 1)[hosts]
    taken = [np.flatnonzero(of_shard == shard) for shard in range(many)]
    taken = [each for each in taken if len(each)]
    asked = [limits(budget, hosts[each], per_host, capacity) for each in taken]
    first = [shard_limits(each, budget / len(taken)) for each in asked]
    shards = [
        ProbeAllocator(fleet(rates[each], hosts[each]), its, now_s=0.0) for each, its in zip(taken, first, strict=True)
    ]
    hosts_of = [each.hosts for each in asked]
    search = shared(shards, hosts_of, budget)
    at = np.array([search.log_price])
    parts = search.parts([demand(each, at, its) for each, its in zip(shards, hosts_of, strict=True)])
    assert parts.sum() == pytest.approx(budget)
    for shard, its, part in zip(shards, asked, parts, strict=True):
        shard.reprice(shard_limits(its, float(part)), now_s=0.0)
    items = [rates[each].sum() for each in taken]
    delay_s = np.average([mean_delay_s(each, GRID.slot_s) for each in shards], weights=items)
    worse = 1.02 if room is None else 1.04  # limits of a time of day are divided alike, whatever the shards want then
    assert delay_s <= worse * mean_delay_s(whole, GRID.slot_s) + 1.0
    made = sum(
        float(demand(each, np.log2([each.prices.budget]), its).sum())
        for each, its in zip(shards, hosts_of, strict=True)
    )
    assert made <= 1.001 * budget


@given(st.floats(1e-9, 1e9), st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=5))
def test_the_price_is_that_at_which_the_budget_is_spent(budget: float, sizes: list[float]) -> None:
    search, rounds = PriceSearch(budget), 0
    while not search.is_done:
        search = search.narrowed([size * np.exp2(-search.asked) for size in sizes])
        rounds += 1
    assert rounds <= 4
    spent = sum(sizes) * 2.0**-search.log_price
    assert spent == pytest.approx(budget, rel=0.01)


def test_a_fleet_that_asks_for_less_than_the_budget_shares_it_all_the_same() -> None:
    search = PriceSearch(5.0)
    while not search.is_done:
        search = search.narrowed([np.zeros(len(search.asked))] * 2)
    assert search.parts([np.zeros(1)] * 2).tolist() == [2.5, 2.5]
    while_all_want = PriceSearch(5.0).narrowed([np.full(33, 9.0)])
    assert while_all_want.log_price == 120.0


@given(st.integers(0, 2**32 - 1), st.integers(2, 9), st.floats(0.05, 2.0))
@examples(15)
def test_parts_by_square_roots_of_rates_save_as_much_as_the_whole(seed: int, many: int, a_source: float) -> None:
    rng = np.random.default_rng(seed)
    hosts = np.arange(300) // SOURCES_A_HOST
    rates = np.exp(rng.normal(-11.0, 2.0, len(hosts)))
    budget, unlimited = a_source * len(hosts) / 10.0, 1e9
    whole = ProbeAllocator(fleet(rates, hosts), limits(budget, hosts, unlimited), now_s=0.0)
    of_shard = rng.integers(many, size=hosts.max() + 1)[hosts]
    taken = [each for shard in range(many) if len(each := np.flatnonzero(of_shard == shard))]
    delays_s = []
    for each in taken:
        part = np.sqrt(rates[each]).sum() / np.sqrt(rates).sum()
        its = shard_limits(limits(budget, hosts[each], unlimited), budget * part)
        delays_s.append(mean_delay_s(ProbeAllocator(fleet(rates[each], hosts[each]), its, now_s=0.0), GRID.slot_s))
    delay_s = np.average(delays_s, weights=[rates[each].sum() for each in taken])
    assert delay_s <= 1.02 * mean_delay_s(whole, GRID.slot_s) + 1.0
