"""Planners that share a budget plan nearly as one planner of all sources does."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.planning.allocation.prices import HostLimits
from proxyd.core.planning.allocation.probe_allocator import FleetDemand, FleetLimits, ProbeAllocator, WeekGrid
from tests.examples import examples

GRID = WeekGrid(4 * 3600.0)
SHAPES = np.array([np.ones(GRID.slots), 1.0 + np.sin(np.arange(GRID.slots))])
SOURCES_A_HOST = 5


def fleet(rates: np.ndarray, hosts: np.ndarray) -> FleetDemand:
    """Return sources whose week is that of their host."""
    return FleetDemand(GRID, SHAPES, hosts % len(SHAPES), rates, last_s=0.0)


def limits(budget: float, hosts: np.ndarray, per_host: float) -> FleetLimits:
    """Return limits of a fleet and of each host."""
    known, of_source = np.unique(hosts, return_inverse=True)
    return FleetLimits(budget, hosts=HostLimits(of_source, np.full(len(known), per_host)))


def mean_delay_s(plan: ProbeAllocator) -> float:
    """Return the mean delay of the items of a plan without targets, in seconds."""
    planned = plan.frequencies()
    delays = planned.delays(np.log2(plan.prices.of_source))
    return float(planned.rate @ delays / planned.rate.sum()) * GRID.slot_s


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
        its = limits(budget * part, hosts[each], unlimited)
        delays_s.append(mean_delay_s(ProbeAllocator(fleet(rates[each], hosts[each]), its, now_s=0.0)))
    delay_s = np.average(delays_s, weights=[rates[each].sum() for each in taken])
    assert delay_s <= 1.02 * mean_delay_s(whole) + 1.0
