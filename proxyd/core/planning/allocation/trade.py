"""The trade-off of a fleet: the delay and completeness that any budget would buy at the prices that share it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from proxyd.core.planning.allocation.prices import Frequencies, allocate
from proxyd.core.planning.allocation.probe_allocator import ProbeAllocator
from proxyd.core.planning.kernels.golden_turns import turns

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


@dataclass(frozen=True, slots=True)
class SharePoint:
    """What it takes to give every rule a share of its items in time.

    Parameters
    ----------
    share, expected
        The share, and the mean one that is expected to be reached.
    delay_s
        Mean time from an item to the probe that finds it.
    """

    share: float
    expected: float
    probes_per_s: float
    delay_s: float


def share_trade(allocator: ProbeAllocator, shares: Iterable[float]) -> list[SharePoint]:
    """Return the probes that each share takes if all rules had it as their target, regardless of the budget.

    Examples
    --------
    >>> from proxyd.core.model.chronon import Target
    >>> from proxyd.core.planning.kernels.losses import Losses, Step
    >>> from proxyd.core.planning.allocation.fleet_demand import FleetDemand, FleetLimits, WeekGrid
    >>> from proxyd.core.planning.allocation.targets import FleetTargets
    >>> nobody = np.zeros(1, dtype=np.int64)
    >>> late = [Losses((Step(48.0, 0.0),))]
    >>> demand = FleetDemand(WeekGrid(1800.0), np.ones((1, 336)), nobody, [1e-5], last_s=0.0, losses=late)
    >>> targets = FleetTargets([Target(0.9, ((48.0, 1.0),))], [(0,)], nobody)
    >>> fleet = ProbeAllocator(demand, FleetLimits(1.0, targets=targets), now_s=0.0)
    >>> few, many = share_trade(fleet, [0.8, 0.99])
    >>> few.probes_per_s < many.probes_per_s
    True
    """
    slot_s, items, found = allocator.grid.slot_s, allocator.rate_per_s, []
    for share in shares:
        at_share = allocator.at_share(share)
        if at_share is None or not items.sum() > 0:
            break
        fleet, log_price, expected = at_share
        delay_s = float(items @ fleet.delays(log_price) / items.sum()) * slot_s
        found.append(SharePoint(share, expected, float(fleet.frequencies(log_price).sum()) / slot_s, delay_s))
    return found


def trade(allocator: ProbeAllocator, budgets: Iterable[float]) -> list[TradePoint]:
    """Return what each budget, in probes a second for all sources together, would buy.

    For each source the delay follows from the timetable at the price. Completeness is the share of items after which no
    other item of the source comes before the next probe, ``(1 - exp(-x)) / x`` with x items to a probe.

    Parameters
    ----------
    allocator
        With timetables, so after ``reprice``; it is not changed.

    Notes
    -----
    Delays are convex in the number of probes, so the points of all prices are the best trade-offs.

    Examples
    --------
    >>> from proxyd.core.planning.allocation.fleet_demand import FleetDemand, FleetLimits, WeekGrid
    >>> rates = [8.0 / 86400.0, 2.0 / 86400.0]
    >>> demand = FleetDemand(WeekGrid(43200.0), np.ones((1, 14)), np.zeros(2, dtype=np.int64), rates, last_s=0.0)
    >>> fleet = ProbeAllocator(demand, FleetLimits(probes_per_slot=1.5), now_s=0.0)
    >>> few, many = trade(fleet, [1e-5, 3e-5])
    >>> few.delay_s > 2 * many.delay_s, few.captured < many.captured
    (True, True)
    """
    every = max(1, len(allocator.rate_per_s) // _SAMPLE)
    sampled = turns(np.arange(len(allocator.rate_per_s))) < 1 / every
    taken = np.flatnonzero(sampled & (allocator.rate_per_s * allocator.weights > 0))
    slot_s, share = allocator.grid.slot_s, float(sampled.mean())
    rates = allocator.rate_per_s[taken] * slot_s
    if not len(taken):
        return []
    weighted, table_of = rates * allocator.weights[taken], allocator.table_of[taken]
    hosts = allocator.hosts and allocator.hosts.sample(taken)
    fleet, found = Frequencies(allocator.tables, table_of, weighted), []
    for per_s in budgets:
        prices = allocate(fleet, per_s * slot_s * share, hosts=hosts)
        log_price = np.log2(prices.of_source)
        frequency = np.maximum(fleet.frequencies(log_price), 1e-12)
        waiting = rates / frequency
        captured = float((rates * -np.expm1(-waiting) / waiting).sum() / rates.sum())
        delay_s = float(rates @ fleet.delays(log_price) / rates.sum()) * slot_s
        found.append(TradePoint(per_s, prices.probe * slot_s, delay_s, captured))
    return found
