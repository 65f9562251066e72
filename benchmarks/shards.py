"""A fleet divided into shards that share its budget by price, beside the plan of all its sources at once.

Run ``python benchmarks/shards.py`` (some minutes and 8 GiB: ten million sources over 64 shards); ``--quick`` for few,
``--json`` for machines. Each shard makes its own plan of the week and answers at which price it would make how many
probes; there are no requests. Reported is what a shard takes, what the search for the common price takes, and how much
longer items wait than by the undivided plan. Nothing here is asserted.
"""

from __future__ import annotations

import argparse
import json
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from proxyd.core.planning.allocation.fleet_demand import FleetDemand, FleetLimits, WeekGrid
from proxyd.core.planning.allocation.prices import HostLimits
from proxyd.core.planning.allocation.probe_allocator import ProbeAllocator
from proxyd.core.planning.allocation.shared_budget import PriceSearch, part_of
from proxyd.core.planning.allocation.timetable import Floats, Ints

Line = dict[str, object]

SOURCES, SHARDS = 10_000_000, 64
QUICK = (20_000, 4)
GRID = WeekGrid(1800.0)
SOURCES_A_HOST = 10
PROBES_A_DAY = 4.0  # of a source, on average
HOST_PROBES_A_DAY = 200.0
SHAPES = 16


@dataclass(frozen=True)
class Fleet:
    """All sources: their rates, the shapes of their weeks, and their hosts."""

    rates: Floats
    shapes: Floats
    shape_of: Ints
    host_of: Ints

    @classmethod
    def drawn(cls, sources: int, rng: np.random.Generator) -> Fleet:
        """Return a fleet whose rates are spread over four decades, some with an even week and some with a steep one."""
        hours = 2.0 * np.pi * np.arange(GRID.slots) * GRID.slot_s / 86400.0
        steep = np.linspace(0.0, 0.95, SHAPES)[:, None]
        shapes = 1.0 + steep * np.sin(hours + np.arange(SHAPES)[:, None])
        return cls(
            np.exp(rng.normal(np.log(2.0 / 86400.0), 2.0, sources)),
            shapes,
            rng.integers(SHAPES, size=sources),
            np.arange(sources) // SOURCES_A_HOST,
        )

    def allocator(self, taken: Ints, budget: float) -> ProbeAllocator:
        """Return the plan of some sources, which are all those of their hosts."""
        known, of_source = np.unique(self.host_of[taken], return_inverse=True)
        a_slot = GRID.slot_s / 86400.0
        hosts = HostLimits(of_source, np.full(len(known), HOST_PROBES_A_DAY * a_slot))
        demand = FleetDemand(GRID, self.shapes, self.shape_of[taken], self.rates[taken], last_s=0.0)
        return ProbeAllocator(demand, FleetLimits(budget, hosts=hosts), now_s=0.0)


def measured(sources: int, many: int, rng: np.random.Generator) -> Iterator[Line]:
    """Yield the figures of a fleet."""
    fleet = Fleet.drawn(sources, rng)
    budget = sources * PROBES_A_DAY * GRID.slot_s / 86400.0
    shard_of = rng.integers(many, size=sources // SOURCES_A_HOST + 1)[fleet.host_of]
    order = np.argsort(shard_of, kind="stable")
    taken = np.split(order, np.cumsum(np.bincount(shard_of, minlength=many))[:-1])
    shards, planned_s = [], []
    for each in taken:
        began = perf_counter()
        shards.append(fleet.allocator(each, budget * len(each) / sources))
        planned_s.append(perf_counter() - began)
    yield {"what": "plan of a shard", "seconds": float(np.mean(planned_s)), "longest_s": max(planned_s)}
    search, answered_s, rounds = PriceSearch(budget), [], 0
    while not search.is_done:
        demands = []
        for shard in shards:
            began = perf_counter()
            demands.append(shard.demand(search.asked))
            answered_s.append(perf_counter() - began)
        search, rounds = search.narrowed(demands), rounds + 1
    yield {"what": f"a shard's answer in each of {rounds} rounds", "seconds": float(np.mean(answered_s))}
    parts = search.parts([shard.demand(np.array([search.log_price])) for shard in shards])
    priced_s = []
    for shard, part in zip(shards, parts, strict=True):
        began = perf_counter()
        shard.reprice(part_of(shard.limits, float(part)), now_s=0.0)
        priced_s.append(perf_counter() - began)
    yield {"what": "a shard's new prices", "seconds": float(np.mean(priced_s)), "longest_s": max(priced_s)}
    items = [float(fleet.rates[each].sum()) for each in taken]
    divided_h = float(np.average([shard.mean_delay_s() for shard in shards], weights=items)) / 3600.0
    del shards
    began = perf_counter()
    whole = fleet.allocator(np.arange(sources), budget)
    yield {"what": "plan of the whole", "seconds": perf_counter() - began}
    whole_h = whole.mean_delay_s() / 3600.0
    yield {"what": "mean delay", "divided_h": divided_h, "whole_h": whole_h, "ratio": divided_h / whole_h}
    yield {"what": "memory", "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sources, for a test that it still runs")
    parser.add_argument("--sources", type=int, default=SOURCES, metavar="N")
    parser.add_argument("--shards", type=int, default=SHARDS, metavar="N")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sources, shards = QUICK if options.quick else (options.sources, options.shards)
    lines = [
        {"sources": sources, "shards": shards} | line for line in measured(sources, shards, np.random.default_rng(1))
    ]
    if options.json:
        print(json.dumps(lines))
        return
    for line in lines:
        shown = (f"{name} {each:.4g}" if isinstance(each, float) else f"{each}" for name, each in line.items())
        print(", ".join(shown))


if __name__ == "__main__":
    main()
