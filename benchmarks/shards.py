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
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TypeVar

import numpy as np

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.planning.allocation.prices import HostLimits
from proxyd.core.planning.allocation.probe_allocator import FleetDemand, FleetLimits, ProbeAllocator, WeekGrid

Line = dict[str, object]
T = TypeVar("T")

SOURCES, SHARDS = 10_000_000, 64
QUICK = (20_000, 4)
GRID = WeekGrid(1800.0)
SOURCES_A_HOST = 10
PROBES_A_DAY = 4.0  # of a source, on average
HOST_PROBES_A_DAY = 200.0
SHAPES = 16
_LOWEST, _HIGHEST = -60.0, 120.0  # at the first every source is probed all the time, at the last none
_PRICES = 33  # of a round
_PRECISE = 0.01  # octaves


@dataclass(frozen=True, slots=True)
class PriceSearch:
    """Where the common price of a fleet's shards lies: between two prices, which are base-2 logarithms."""

    budget: float
    low: float = _LOWEST
    high: float = _HIGHEST

    @property
    def is_done(self) -> bool:
        """Whether the price is known well enough."""
        return self.high - self.low < _PRECISE

    @property
    def log_price(self) -> float:
        """The base-2 logarithm of the price, at which at most the budget is spent if any price is high enough."""
        return self.high

    @property
    def asked(self) -> Floats:
        """The prices at which each shard is to say its demand, ascending."""
        return np.linspace(self.low, self.high, _PRICES)

    def narrowed(self, demands: Sequence[Floats]) -> PriceSearch:
        """Return where the price lies by the shards' demands at the ``asked`` prices, in probes a slot."""
        asked, over = self.asked, np.sum(demands, axis=0) > self.budget
        first = int(np.argmin(over)) if not over.all() else _PRICES - 1
        if first == 0:
            return replace(self, high=self.low)
        return replace(self, low=float(asked[first - 1]), high=float(asked[first]))

    def parts(self, demands: Sequence[Floats]) -> Floats:
        """Return each shard's part of the budget from their demands at ``log_price``, shape (shards,).

        What nobody asks for is divided like the rest, so that a source that is new somewhere can be probed.
        """
        at_price = np.array([float(each[0]) for each in demands])
        total = at_price.sum()
        share = at_price / total if total > 0 else np.full(len(at_price), 1.0 / max(1, len(at_price)))
        parts: Floats = share * self.budget
        return parts


def shard_limits(limits: FleetLimits, budget: float) -> FleetLimits:
    """Return the limits of a shard that has ``budget`` probes a slot; its hosts in ``limits`` stay as they are."""
    share = budget / limits.probes_per_slot
    capacity = None if limits.capacity is None else limits.capacity * share
    return replace(limits, probes_per_slot=budget, capacity=capacity)


def demand(shard: ProbeAllocator, log_prices: Floats, hosts: HostLimits | None = None) -> Floats:
    """Return how many probes a slot a shard's sources would make at each price, shape (prices,).

    Prices are base-2 logarithms. What targets ask for holds as at the shard's last prices.
    """
    fleet = shard.frequencies()
    with np.errstate(divide="ignore"):
        floor = np.log2(shard.prices.least)
    if hosts is not None:
        floor = np.maximum(floor, fleet.host_floors(hosts))
    return np.array([fleet.frequencies(np.maximum(floor, each)).sum() for each in log_prices])


def mean_delay_s(shard: ProbeAllocator, slot_s: float) -> float:
    """Return the mean delay of the items of a shard without targets, weighted by importance, in seconds."""
    fleet = shard.frequencies()
    delays = fleet.delays(np.log2(shard.prices.of_source))
    total = fleet.rate.sum()
    return float((fleet.rate * delays).sum() / total) * slot_s if total > 0 else 0.0


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
