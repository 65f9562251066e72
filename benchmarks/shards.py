"""A fleet divided into shards that share its budget by price, compared with one plan of all its sources.

Run ``python benchmarks/shards.py`` (some minutes and 8 GiB: ten million sources over 64 shards); ``--quick`` for few,
``--json`` for machines. Each shard makes its own plan of the week and answers at which price it would make how many
probes; there are no requests. Reported is what a shard takes, what the search for the common price takes, and how much
longer items wait than by the undivided plan. Nothing here is asserted.
"""

from __future__ import annotations

import argparse
import json
import resource
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TypeVar

import numpy as np

from proxyd.core.planning.allocation.fleet_demand import FleetDemand, FleetLimits, WeekGrid
from proxyd.core.planning.allocation.prices import HostLimits
from proxyd.core.planning.allocation.probe_allocator import ProbeAllocator
from proxyd.core.planning.allocation.timetable import Floats, Ints
from proxyd.lab.algorithms.shared_budget import PriceSearch, demand, mean_delay_s, shard_limits

Line = dict[str, object]
T = TypeVar("T")

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

    def limits(self, taken: Ints, budget: float) -> FleetLimits:
        """Return the limits of some sources, which are all those of their hosts."""
        known, of_source = np.unique(self.host_of[taken], return_inverse=True)
        a_slot = GRID.slot_s / 86400.0
        return FleetLimits(budget, hosts=HostLimits(of_source, np.full(len(known), HOST_PROBES_A_DAY * a_slot)))

    def planned(self, taken: Ints, limits: FleetLimits) -> ProbeAllocator:
        """Return the plan of some sources."""
        sources = FleetDemand(GRID, self.shapes, self.shape_of[taken], self.rates[taken], last_s=0.0)
        return ProbeAllocator(sources, limits, now_s=0.0)

    def divided(self, many: int, rng: np.random.Generator) -> list[Ints]:
        """Return the sources of each of ``many`` shards; those of a host are in one."""
        shard_of = rng.integers(many, size=len(self.rates) // SOURCES_A_HOST + 1)[self.host_of]
        order = np.argsort(shard_of, kind="stable")
        return np.split(order, np.cumsum(np.bincount(shard_of, minlength=many))[:-1])


class Timed:
    """How long each of several calls took, in seconds."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __call__(self, work: Callable[[], T]) -> T:
        """Return the result of a call."""
        began = perf_counter()
        result = work()
        self.seconds.append(perf_counter() - began)
        return result

    def line(self, what: str) -> Line:
        """Return the mean and the longest."""
        return {"what": what, "seconds": float(np.mean(self.seconds)), "longest_s": max(self.seconds)}


def measured(sources: int, many: int, rng: np.random.Generator) -> Iterator[Line]:
    """Yield the figures of a fleet."""
    fleet = Fleet.drawn(sources, rng)
    budget = sources * PROBES_A_DAY * GRID.slot_s / 86400.0
    taken = fleet.divided(many, rng)
    limits = [fleet.limits(each, budget) for each in taken]
    first = [shard_limits(its, budget * len(each) / sources) for each, its in zip(taken, limits, strict=True)]
    planning = Timed()
    shards = [planning(partial(fleet.planned, each, its)) for each, its in zip(taken, first, strict=True)]
    yield planning.line("plan of a shard")
    search, answering, rounds = PriceSearch(budget), Timed(), 0
    while not search.is_done:
        search, rounds = search.narrowed(_demands(shards, limits, search.asked, answering)), rounds + 1
    yield answering.line(f"a shard's answer in each of {rounds} rounds")
    parts = search.parts(_demands(shards, limits, np.array([search.log_price]), answering))
    pricing = Timed()
    for shard, its, part in zip(shards, limits, parts, strict=True):
        pricing(partial(shard.reprice, shard_limits(its, float(part)), now_s=0.0))
    yield pricing.line("a shard's new prices")
    items = [float(fleet.rates[each].sum()) for each in taken]
    divided_s = float(np.average([mean_delay_s(each, GRID.slot_s) for each in shards], weights=items))
    del shards
    whole, every = Timed(), np.arange(sources)
    whole_s = mean_delay_s(whole(partial(fleet.planned, every, fleet.limits(every, budget))), GRID.slot_s)
    yield whole.line("plan of the whole")
    yield {"what": "mean delay", "seconds": divided_s, "whole_s": whole_s, "ratio": divided_s / whole_s}
    yield {"what": "memory", "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def _demands(
    shards: Sequence[ProbeAllocator], limits: Sequence[FleetLimits], prices: Floats, answering: Timed
) -> list[Floats]:
    pairs = zip(shards, limits, strict=True)
    return [answering(partial(demand, shard, prices, its.hosts)) for shard, its in pairs]


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
