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
    """What a number of probes buys in the long run."""

    probes_per_s: float
    price_item_s: float  # item-seconds of delay that the last probe saves
    delay_s: float  # mean time from an item to the probe that finds it
    captured: float  # share of the items that are found before the source's next item


@dataclass(frozen=True, slots=True)
class SharePoint:
    """What it takes to give every rule a share of its items in time."""

    share: float
    expected: float  # the mean share that is expected to be reached
    probes_per_s: float
    delay_s: float


def share_trade(allocator: ProbeAllocator, shares: Iterable[float]) -> list[SharePoint]:
    """Return the probes that each share takes if all rules had it as their target, regardless of the budget."""
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
    other item of the source comes before the next probe, ``(1 - exp(-x)) / x`` with x items to a probe. Delays are
    convex in the number of probes, so the points of all prices are the best trade-offs.
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
