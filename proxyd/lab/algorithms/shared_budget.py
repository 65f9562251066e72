"""A budget that shards of a fleet share: each gets the part that it would spend at the price of the whole fleet.

A shard needs to know nothing of the others' sources. It says how many probes it would make at some prices; the sums
tell between which of them the common price lies, and three rounds find it to a hundredth of an octave. With its part
of the budget, a shard's own plan has that price. The daemon does not divide its fleet yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from proxyd.core.planning.allocation.fleet_demand import FleetLimits
from proxyd.core.planning.allocation.prices import HostLimits
from proxyd.core.planning.allocation.probe_allocator import ProbeAllocator
from proxyd.core.planning.allocation.timetable import Floats

_LOWEST, _HIGHEST = -60.0, 120.0  # at the first every source is probed all the time, at the last none
_PRICES = 33  # of a round
_PRECISE = 0.01  # octaves


@dataclass(frozen=True, slots=True)
class PriceSearch:
    """Where the common price of a fleet's shards lies: between two prices, which are base-2 logarithms.

    Examples
    --------
    >>> search = PriceSearch(budget=6.0)
    >>> rounds = 0
    >>> while not search.is_done:
    ...     shards = [np.exp2(-search.asked), 2.0 * np.exp2(-search.asked)]
    ...     search, rounds = search.narrowed(shards), rounds + 1
    >>> rounds, round(search.log_price, 2), search.parts([np.array([1.0]), np.array([2.0])]).tolist()
    (3, -1.0, [2.0, 4.0])
    """

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
    """Return the limits of a shard that has ``budget`` probes a slot; its hosts in ``limits`` stay as they are.

    >>> shard_limits(FleetLimits(8.0, np.array([10.0, 20.0])), 2.0).capacity.tolist()
    [2.5, 5.0]
    """
    share = budget / limits.probes_per_slot
    capacity = None if limits.capacity is None else limits.capacity * share
    return replace(limits, probes_per_slot=budget, capacity=capacity)


def demand(shard: ProbeAllocator, log_prices: Floats, hosts: HostLimits | None = None) -> Floats:
    """Return how many probes a slot a shard's sources would make at each price, shape (prices,).

    Prices are base-2 logarithms. What targets ask for holds as at the shard's last prices.

    >>> from proxyd.core.planning.allocation.fleet_demand import FleetDemand, WeekGrid
    >>> week, rates = WeekGrid(43200.0), [1e-4, 1e-5]
    >>> sources = FleetDemand(week, np.ones((1, 14)), np.zeros(2, dtype=np.int64), rates, last_s=0.0)
    >>> shard = ProbeAllocator(sources, FleetLimits(1.5), now_s=0.0)
    >>> demand(shard, np.log2([shard.prices.budget])).round(3).tolist()
    [1.5]
    """
    fleet = shard.frequencies()
    with np.errstate(divide="ignore"):
        floor = np.log2(shard.prices.least)
    if hosts is not None:
        floor = np.maximum(floor, fleet.host_floors(hosts))
    return np.array([fleet.frequencies(np.maximum(floor, each)).sum() for each in log_prices])


def mean_delay_s(shard: ProbeAllocator, slot_s: float) -> float:
    """Return the mean delay of the items of a shard without targets, weighted by importance, in seconds.

    >>> from proxyd.core.planning.allocation.fleet_demand import FleetDemand, WeekGrid
    >>> sources = FleetDemand(WeekGrid(43200.0), np.ones((1, 14)), np.zeros(1, dtype=np.int64), [1e-4], last_s=0.0)
    >>> mean_delay_s(ProbeAllocator(sources, FleetLimits(1.0), now_s=0.0), 43200.0)
    21600.0
    """
    fleet = shard.frequencies()
    delays = fleet.delays(np.log2(shard.prices.of_source))
    total = fleet.rate.sum()
    return float((fleet.rate * delays).sum() / total) * slot_s if total > 0 else 0.0
