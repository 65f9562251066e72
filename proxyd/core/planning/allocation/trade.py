"""The trade-off of a fleet: the delay and completeness that any budget would buy at the prices that share it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from proxyd.core.planning.allocation.prices import Frequencies, allocate
from proxyd.core.planning.allocation.probe_allocator import ProbeAllocator
from proxyd.core.planning.golden_turns import turns

_SAMPLE = 20_000  # number of sources that represent a larger fleet


@dataclass(frozen=True, slots=True)
class TradePoint:
    """What a number of probes buys in the long run.

    Parameters
    ----------
    price_item_s
        Item-seconds of delay that the last probe saves.
    delay_s
        Mean time from an item to the probe that finds it.
    captured
        Share of the items that are found before the source's next item, 0 to 1.
    """

    probes_per_s: float
    price_item_s: float
    delay_s: float
    captured: float


def trade(planner: ProbeAllocator, budgets: Iterable[float]) -> list[TradePoint]:
    """Return what each budget, in probes a second for all sources together, would buy.

    For each source the delay follows from the timetable at the price. Completeness is the share of items after which no
    other item of the source comes before the next probe, ``(1 - exp(-x)) / x`` with x items to a probe.

    Parameters
    ----------
    planner
        With timetables, so after ``reprice``; it is not changed.

    Notes
    -----
    Delays are convex in the number of probes, so the points of all prices are the best trade-offs.

    Examples
    --------
    >>> from proxyd.core.planning.allocation.probe_allocator import FleetDemand, FleetLimits, WeekGrid
    >>> rates = [8.0 / 86400.0, 2.0 / 86400.0]
    >>> demand = FleetDemand(WeekGrid(43200.0), np.ones((1, 14)), np.zeros(2, dtype=np.int64), rates, last_s=0.0)
    >>> fleet = ProbeAllocator(demand, FleetLimits(probes_per_slot=1.5), now_s=0.0)
    >>> few, many = trade(fleet, [1e-5, 3e-5])
    >>> few.delay_s > 2 * many.delay_s, few.captured < many.captured
    (True, True)
    """
    every = max(1, len(planner.rate_per_s) // _SAMPLE)
    sampled = turns(np.arange(len(planner.rate_per_s))) < 1 / every
    taken = np.flatnonzero(sampled & (planner.rate_per_s * planner.weights > 0))
    slot_s, share = planner.grid.slot_s, float(sampled.mean())
    rates = planner.rate_per_s[taken] * slot_s
    if not len(taken):
        return []
    weighted, table_of = rates * planner.weights[taken], planner.table_of[taken]
    hosts = planner.hosts and planner.hosts.sampled(taken)
    found = []
    for per_s in budgets:
        prices = allocate(planner.tables, table_of, weighted, per_s * slot_s * share, hosts=hosts)
        fleet = Frequencies(planner.tables, table_of, weighted)
        log_price = np.log2(prices.of_source)
        frequency = np.maximum(fleet.frequencies(log_price), 1e-12)
        waiting = rates / frequency
        captured = float((rates * -np.expm1(-waiting) / waiting).sum() / rates.sum())
        delay_s = float(rates @ fleet.delays(log_price) / rates.sum()) * slot_s
        found.append(TradePoint(per_s, prices.probe * slot_s, delay_s, captured))
    return found
