"""The week plan: week shapes and prices for named sources, made in the background and updated with every probe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.planning.allocation.fleet_state import FleetState
from proxyd.core.planning.allocation.prices import Frequencies, allocate
from proxyd.core.planning.allocation.probe_allocator import FleetDemand, FleetLimits, ProbeAllocator, WeekGrid
from proxyd.core.planning.allocation.targets import RuleOutlook
from proxyd.core.planning.kernels.counted_events import ItemsLine
from proxyd.core.planning.kernels.golden_turns import turns
from proxyd.core.planning.kernels.losses import MISSED_S, NO_LOSSES, Losses, by_rate, index_of
from proxyd.core.planning.policies.doe import doe_slots
from proxyd.core.rates.model_fit import NO_GAPS, ItemGaps
from proxyd.core.rates.siblings import BIN_S
from proxyd.core.rates.week_bins import HOUR_S, MONDAY_S, WEEK_S
from proxyd.core.rates.week_shapes import WeekShapes, WeekSums

_MOST_TRADES = 8


class WeekPlan:
    """The best time of each source's next probe, by name; call ``follow`` with every probe.

    Internally time runs in a cycle of seven days, regardless of the cycle's real length.
    """

    def __init__(self, state: FleetState, allocator: ProbeAllocator) -> None:
        self._allocator, self._cycle, self._zone_s = allocator, state.cycle, state.zone_s
        # A comprehension lets other threads take turns; dict(zip(...)) would not.
        self._numbers = {source_id: number for number, source_id in enumerate(state.source_ids)}
        # Rate, weight and last probe by which each source was planned, shape (3, sources).
        self._told = np.array([state.rate_per_s, state.weights, state.last_seen_s])
        self._weeks = _Weeks.of(state)
        self._groups = _HostGroups.of(state)
        self._doe = _doe(state, self._numbers, allocator)  # seconds since Monday, by source and what its rule asks for
        by_shape = np.bincount(allocator.shape_of, allocator.rate_per_s, len(allocator.shapes))
        self._by_slot: Floats = by_shape @ allocator.shapes  # the items of all sources a second, by slot of the week
        self._trades: dict[tuple[str, tuple[float, ...]], list[Any]] = {}
        self.siblings, self.chronon_s, self.turned_h = state.siblings, state.chronon_s, state.turned_h
        per_s = state.cycle.speed / state.slot_s
        self.outlooks: Mapping[str, RuleOutlook] = {  # by rule, in probes and items a second
            rule: each._replace(made=each.made * per_s, needed=each.needed * per_s, items=each.items * per_s)
            for rule, each in zip(state.rules, allocator.outlooks(), strict=False)
        }

    @classmethod
    def of(cls, state: FleetState) -> WeekPlan:
        """Return the plan for a fleet; takes many seconds for a million sources."""
        speed = state.cycle.speed
        limits = FleetLimits(
            max(state.probes_per_s, 1e-12) / speed * state.slot_s,
            hosts=state.host_limits,
            least_price=state.price_item_s * speed / state.slot_s,
            targets=state.targets and state.targets.times(speed / state.slot_s),
        )
        allocator = ProbeAllocator(_demand_of(state), limits, now_s=-inf)
        most = None if state.most_per_s is None else state.most_per_s / speed * state.slot_s
        if most is not None and np.any(allocator.loads() > most):
            allocator.reprice(replace(limits, capacity=most), now_s=-inf)
        return cls(state, allocator)

    def __contains__(self, source_id: str) -> bool:
        return source_id in self._numbers

    def __deepcopy__(self, memo: dict[int, Any]) -> WeekPlan:
        """Return a plan that follows other probes; unchanging data is shared."""
        week: WeekPlan = copy(self)
        allocator = copy(self._allocator)
        for name in ("last_s", "due_s", "rate_per_s", "weights", "gaps"):
            setattr(allocator, name, copy(getattr(allocator, name)))
        allocator.drift = self._allocator.drift and self._allocator.drift.copy()
        week._allocator, week._told = allocator, self._told.copy()
        return week

    @property
    def price_item_s(self) -> float:
        """The delay that a probe must save, in item-seconds."""
        return self._in_seconds(self._allocator.prices.probe)

    @property
    def budget_price_item_s(self) -> float:
        """The delay that a probe must save because of the budget, in item-seconds; nearly 0 if some budget is left."""
        return self._in_seconds(self._allocator.prices.budget)

    def price_of(self, source_id: str) -> float | None:
        """Return the delay that a probe of a source must save, in item-seconds; more if its host binds."""
        number = self._numbers.get(source_id)
        return None if number is None else self._in_seconds(self._allocator.price_of(number))

    def price_without_host(self, source_id: str) -> float | None:
        """Return what ``price_of`` would be if the limit of the source's host did not bind."""
        number = self._numbers.get(source_id)
        return None if number is None else self._in_seconds(self._allocator.price_without_host(number))

    def _in_seconds(self, price: float) -> float:
        """Return a price in item-seconds."""
        return float(price) * self._allocator.grid.slot_s / self._cycle.speed

    @property
    def slot_factor(self) -> Floats | None:
        """Extra price of each slot of the week in which the budget was too small; ``None`` if it never was."""
        return self._allocator.slot_factor

    @property
    def probes_per_s(self) -> float:
        """The number of probes a second that the plan makes in the long run."""
        return self._allocator.probes_per_slot() / self._allocator.grid.slot_s * self._cycle.speed

    @property
    def items_per_s(self) -> float:
        """The items a second of all its sources."""
        return float(self._allocator.rate_per_s.sum()) * self._cycle.speed

    def trade(self, probes_per_s: Sequence[float]) -> list[TradePoint]:
        """Return what each budget would buy at the rates that the plan was made with; the result is kept."""
        key, speed = ("budgets", tuple(probes_per_s)), self._cycle.speed
        if key not in self._trades:
            self._forget_trades()
            self._trades[key] = [
                TradePoint(p.probes_per_s * speed, p.price_item_s / speed, p.delay_s / speed, p.captured)
                for p in trade(self._allocator, [per_s / speed for per_s in probes_per_s])
            ]
        return list(self._trades[key])

    def share_trade(self, shares: Sequence[float]) -> list[SharePoint]:
        """Return the probes that it takes to give every rule each of ``shares`` of its items in time; it is kept."""
        key, speed = ("shares", tuple(shares)), self._cycle.speed
        if key not in self._trades:
            self._forget_trades()
            self._trades[key] = [
                SharePoint(p.share, p.expected, p.probes_per_s * speed, p.delay_s / speed)
                for p in share_trade(self._allocator, shares)
            ]
        return list(self._trades[key])

    def _forget_trades(self) -> None:
        if len(self._trades) >= _MOST_TRADES:  # budgets differ a little with each probe
            self._trades.clear()

    def due_s(self, source_id: str) -> float | None:
        """Return when a source is due, or ``None`` if the plan does not know it."""
        number = self._numbers.get(source_id)
        if number is None:
            return None
        due_s = float(self._allocator.due_s[number])
        return float(self._cycle.time_s(due_s - self._ahead_s(number))) if due_s < inf else inf

    def mean_gap_s(self, source_id: str) -> float | None:
        """Return the mean time between two probes of a source, or ``None`` if the plan does not know it."""
        number = self._numbers.get(source_id)
        return None if number is None else self._allocator.mean_gap_s(number) / self._cycle.speed

    def reach_s(self, source_id: str, items: float) -> float | None:
        """Return when a source is expected to have had so many items since it was seen; ``None`` if it is unknown."""
        number = self._numbers.get(source_id)
        if number is None:
            return None
        reached_s = self._allocator.reach_s(number, items)
        return float(self._cycle.time_s(reached_s - self._ahead_s(number))) if reached_s < inf else inf

    def items_line(self, source_id: str, rate_per_s: float) -> ItemsLine | None:
        """Return the items expected over time at a rate and in a source's week; ``None`` if it is unknown."""
        number = self._numbers.get(source_id)
        if number is None:
            return None
        begun_s = float(self._cycle.time_s(MONDAY_S - self._ahead_s(number)))
        return ItemsLine(
            self._allocator.week_sums(number), begun_s, self._allocator.grid.slot_s / self._cycle.speed, rate_per_s
        )

    def doe_due_s(self, source_id: str, probes: int, per_s: float, last_seen_s: float) -> float | None:
        """Return when a rule of ``probes`` in each ``per_s`` wants the next one, or ``None`` to space them evenly."""
        after_s = self._doe.get((source_id, probes, per_s))
        if after_s is None:
            return None
        number = self._numbers[source_id]
        assert self._allocator.phase_s is not None
        monday_s = MONDAY_S + float(self._allocator.phase_s[number])
        last_s = self._cycle.week_s(last_seen_s) + self._ahead_s(number)
        week_s, passed_s = divmod(last_s - monday_s, WEEK_S)
        place = int(np.searchsorted(after_s, passed_s + 1e-6, side="right"))
        weeks, place = divmod(place, len(after_s))
        due_s = monday_s + (week_s + weeks) * WEEK_S + after_s[place]
        return float(self._cycle.time_s(due_s - self._ahead_s(number)))

    def _ahead_s(self, number: int) -> float:
        return 0.0 if self._zone_s is None else float(self._zone_s[number])

    def follow(
        self,
        source_id: str,
        rate_per_s: float,
        weight: float,
        last_seen_s: float,
        gaps: ItemGaps = NO_GAPS,
        counted_s: float | None = None,
    ) -> None:
        """Plan a source again after a probe; does nothing if nothing changed or the plan does not know it."""
        # ``counted_s`` is what ``effective_time_s`` returned for this probe, if a restart came since.
        number, told = self._numbers.get(source_id), (rate_per_s, weight, last_seen_s)
        if number is None or tuple(self._told[:, number].tolist()) == told:
            return
        self._told[:, number] = told
        seen_s = self.effective_time_s(source_id, last_seen_s) if counted_s is None else counted_s
        now_s = float(self._cycle.week_s(seen_s)) + self._ahead_s(number)
        self._allocator.note_gaps(number, self._gaps(number, gaps))
        self._allocator.note_probe_of(number, rate_per_s / self._cycle.speed, weight, now_s=now_s)

    def _gaps(self, number: int, gaps: ItemGaps) -> tuple[float, float, float]:
        """Return shape, mean and newest item of a source in the cycle's time; the shape is 0 if it has no use."""
        shape = gaps.shape_to_plan_by
        if not shape or gaps.newest_s is None:
            return 0.0, 1.0, 0.0
        newest_s = float(self._cycle.week_s(gaps.newest_s)) + self._ahead_s(number)
        return shape, gaps.mean_s * self._cycle.speed, newest_s

    def effective_time_s(self, source_id: str, last_seen_s: float) -> float:
        """Return when a probe that saw a source now counts as made: when it was due, if that was in this chronon."""
        # Probes start with the chronon in which they are due: otherwise each would come a little earlier than the last.
        due_s = self.due_s(source_id)
        return due_s if due_s is not None and last_seen_s < due_s < last_seen_s + self.chronon_s else last_seen_s

    def counted_s(self, source_ids: Sequence[str], last_seen_s: Floats) -> Floats:
        """Return when the last probes of sources, which saw them at ``last_seen_s``, count as made."""
        # A new plan counts it alike. Otherwise a source that was probed shortly before the slot that it was due in
        # would be due in that slot again: each plan of the week had most sources probed once more.
        numbers = self._numbers_of(source_ids)
        ahead_s = 0.0 if self._zone_s is None else self._zone_s[numbers]
        is_told = (numbers >= 0) & (self._told[2, numbers] == last_seen_s)
        counted: Floats = np.where(is_told, self._cycle.time_s(self._allocator.last_s[numbers] - ahead_s), last_seen_s)
        return counted

    def behind(self, source_ids: Sequence[str], told: Floats) -> NDArray[np.bool_]:
        """Return which sources were planned with other rates, weights or last probes than ``told``, (sources, 3)."""
        numbers = self._numbers_of(source_ids)
        behind: NDArray[np.bool_] = (numbers >= 0) & np.any(told != self._told[:, numbers].T, axis=1)
        return behind

    def dues_s(self, source_ids: Sequence[str]) -> Floats:
        """Return when sources are due, infinity for those that the plan does not know; shape (sources,)."""
        numbers = self._numbers_of(source_ids)
        ahead_s = 0.0 if self._zone_s is None else self._zone_s[numbers]
        due_s = self._allocator.due_s[numbers]
        dues: Floats = np.where((numbers >= 0) & (due_s < inf), self._cycle.time_s(due_s - ahead_s), inf)
        return dues

    def _numbers_of(self, source_ids: Sequence[str]) -> Ints:
        """Return the numbers of sources, -1 for those that the plan does not know."""
        return np.array([self._numbers.get(source_id, -1) for source_id in source_ids], dtype=np.int64)

    def gains(self, source_ids: Sequence[str], now_s: float) -> Floats:
        """Return the expected delay that a probe of each source would end, divided by its price; shape (sources,)."""
        return self.gains_of(np.array([self._numbers[source_id] for source_id in source_ids], dtype=np.int64), now_s)

    def concentration(self, source_id: str) -> float:
        """Return how independently the sources of this source's host change; infinity if it is not known."""
        number, hosts = self._numbers.get(source_id), self._groups
        return inf if number is None or hosts is None else float(hosts.k[hosts.of_source[number]])

    def expect(self, source_id: str, bins: Ints) -> Floats:
        """Return the items that a source's rate expects in each bin of ``BIN_S`` of the cycle, shape (bins,)."""
        number = self._numbers[source_id]
        allocator = self._allocator
        slots = np.floor((bins * BIN_S + self._ahead_s(number) - MONDAY_S) / allocator.grid.slot_s).astype(np.int64)
        factors: Floats = allocator.shapes[allocator.shape_of[number], slots % allocator.grid.slots]
        return factors * float(allocator.rate_per_s[number]) * BIN_S

    def burst(
        self, source_id: str, bins: Ints, factors: Floats, *, now_s: float, next_s: float, most: int
    ) -> list[str]:
        """Note that the sources of a source's host changed ``factors`` times as often; return those due because of it.

        The bins are those of ``ProbeAllocator.burst`` in the cycle; at most ``most`` sources are returned.
        """
        number, hosts = self._numbers.get(source_id), self._groups
        if number is None or hosts is None:
            return []
        host = hosts.of_source[number]
        members = hosts.order[hosts.first[host] : hosts.first[host + 1]]
        zones_s = np.zeros(len(members)) if self._zone_s is None else self._zone_s[members]
        now, later = float(self._cycle.week_s(now_s)), float(self._cycle.week_s(next_s))
        found: list[int] = []
        for zone_s in np.unique(zones_s).tolist():
            some, ahead = members[zones_s == zone_s], round(zone_s / BIN_S)
            due = self._allocator.burst(
                some, bins + ahead, factors, now_s=now + zone_s, next_s=later + zone_s, most=most - len(found)
            )
            found += due.tolist()
        return [hosts.names[number] for number in found]

    def expect_of_all(self, week_s: float, seconds: float) -> float:
        """Return the items that are expected of all sources in so many seconds at a time of the week."""
        grid = self._allocator.grid
        slot = int((week_s - MONDAY_S) // grid.slot_s) % grid.slots
        return float(self._by_slot[slot]) * seconds

    def is_by_age(self, source_id: str) -> bool:
        """Whether a source is planned by the age of its newest item, not by its week."""
        number = self._numbers.get(source_id)
        return number is not None and self._allocator.is_by_age(number)

    def number(self, source_id: str) -> int | None:
        """Return the number of a source in this plan, or ``None`` if the plan does not know it."""
        return self._numbers.get(source_id)

    def gains_of(self, numbers: Ints, now_s: float) -> Floats:
        """Return the same as ``gains`` for sources given by number."""
        zone_s = 0.0 if self._zone_s is None else self._zone_s[numbers]
        return self._allocator.gains(numbers, self._cycle.week_s(now_s) + zone_s)

    def intensity(self, source_id: str) -> Floats:
        """Return the factors of a source's rate by hour of the week, shape (168,)."""
        planned = self._weeks.planned
        number = self._numbers[source_id]
        ahead = 0 if planned.ahead_h is None else int(planned.ahead_h[number])
        factors: Floats = np.roll(planned.shapes[planned.of_source[number]], -ahead)
        return factors

    def ahead_s(self, source_id: str) -> float:
        """Return by how much a source is ahead of its learned week, in addition to its zone."""
        number, ahead_h = self._numbers.get(source_id), self._weeks.learned.ahead_h
        return 0.0 if number is None or ahead_h is None else float(ahead_h[number]) * HOUR_S

    @property
    def dispersion(self) -> float:
        """Variance over mean of a source's items by hour."""
        return self._weeks.learned.dispersion

    @property
    def fleet_dispersion(self) -> float:
        """Variance over mean of the items of all sources: by so much each says less of what they share."""
        return self._weeks.learned.dispersion * self._weeks.together

    def sums(self, source_id: str) -> WeekSums | None:
        """Return the prediction of a source's learned week, even if it is off; ``None`` if it is even or not known."""
        number = self._numbers.get(source_id)
        return None if number is None else self._weeks.sums[self._weeks.learned.of_source[number]]


@dataclass(frozen=True, slots=True, eq=False)
class _Weeks:
    """The learned weeks, their sums, and the weeks by which sources are planned: even ones if they are off."""

    learned: WeekShapes
    planned: WeekShapes
    sums: tuple[WeekSums | None, ...]
    together: float  # how many sources change together

    @classmethod
    def of(cls, state: FleetState) -> _Weeks:
        """Return the weeks of a fleet."""
        sums = tuple(WeekSums(shape.tolist()) if np.ptp(shape) > 1e-9 else None for shape in state.weeks.shapes)
        return cls(state.weeks, state.shapes_to_plan_by, sums, state.together)


def _doe(
    state: FleetState, numbers: Mapping[str, int], allocator: ProbeAllocator
) -> dict[tuple[str, int, float], Floats]:
    """Return the times of the week at which DOE rules probe, in seconds since Monday; even spacing is left out."""
    even = np.ones_like(allocator.shapes)
    importance = even if allocator.importance is None else allocator.importance
    found: dict[tuple[int, int, float], Floats | None] = {}
    times: dict[tuple[str, int, float], Floats] = {}
    for source_id, asked in state.doe.items():
        row = int(allocator.shape_of[numbers[source_id]])
        for probes, per_s in asked:
            key = (row, probes, per_s)
            if key not in found:
                period_slots = per_s * state.cycle.speed / state.slot_s
                found[key] = doe_slots(allocator.shapes[row], importance[row], probes, period_slots)
            if (slots := found[key]) is not None:
                times[source_id, probes, per_s] = slots * state.slot_s
    return times


@dataclass(frozen=True, slots=True, eq=False)
class _HostGroups:
    """The sources of each host by number, and how independently they change."""

    names: Sequence[str]
    of_source: Ints
    k: Floats  # the concentration of each host (``rates.siblings``)
    order: Ints  # the numbers of the sources, host by host
    first: Ints  # where each host begins, shape (hosts + 1,)

    @classmethod
    def of(cls, state: FleetState) -> _HostGroups | None:
        """Return the hosts of a fleet; ``None`` if it is not known how their sources change."""
        if state.host_of is None or state.host_k is None:
            return None
        order = np.argsort(state.host_of, kind="stable")
        first = np.searchsorted(state.host_of[order], np.arange(len(state.host_k) + 1))
        return cls(state.source_ids, state.host_of, state.host_k, order, first)


def _demand_of(state: FleetState) -> FleetDemand:
    """Return the demand of a fleet in the cycle's time, with the curves (week, importance and losses) that occur."""
    grid, weeks, speed = WeekGrid(state.slot_s), state.shapes_to_plan_by, state.cycle.speed
    counted_s = state.last_seen_s if state.counted_s is None else state.counted_s
    nothing = np.zeros(len(state.source_ids), dtype=np.int64)
    kinds, kind_of = (None, nothing) if state.importances is None else state.importances
    losses, loss_of = _losses(state)
    (shape, kind, loss), curve_of = index_of(weeks.of_source, kind_of, loss_of)
    return FleetDemand(
        grid,
        by_slot(weeks.shapes, grid.slots)[shape],
        curve_of,
        rate_per_s=state.rate_per_s / speed,
        last_s=state.cycle.week_s(counted_s) + (0.0 if state.zone_s is None else state.zone_s),
        weights=state.weights.copy(),
        importance=None if kinds is None else by_slot(kinds, grid.slots)[kind],
        phase_s=turns(np.arange(len(state.source_ids))) * state.slot_s,
        slot_factor=state.slot_factor,
        losses=[losses[number] for number in loss.tolist()],
        gaps=_gaps(state),
    )


def _gaps(state: FleetState) -> Floats | None:
    """Return shape, mean and newest item of each source in the cycle's time, shape (sources, 3)."""
    if state.gaps is None:
        return None
    zone_s = 0.0 if state.zone_s is None else state.zone_s
    shape, mean_s, newest_s = state.gaps.T
    return np.stack([shape, mean_s * state.cycle.speed, state.cycle.week_s(newest_s) + zone_s], axis=1)


def _losses(state: FleetState) -> tuple[Sequence[Losses], Ints]:
    """Return the losses that occur, in slots, and the one of each source."""
    if state.losses is None:
        return [NO_LOSSES], np.zeros(len(state.source_ids), dtype=np.int64)
    kinds, kind_of = state.losses
    speed, slot_s = state.cycle.speed, state.slot_s
    in_slots = [each.scale(speed / slot_s, MISSED_S / slot_s) for each in kinds]
    counted = state.rate_per_s if state.passing is None else state.rate_per_s * state.passing
    return by_rate(in_slots, kind_of, counted / speed * slot_s)


def by_slot(shapes: Floats, slots: int) -> Floats:
    """Return factors by slot from factors by hour, shape (shapes, slots): the mean over the time that a slot covers.

    >>> by_slot(np.arange(168.0)[None, :], 336)[0, :4]
    array([0., 0., 1., 1.])
    """
    hours = shapes.shape[1]
    sums = np.concatenate([np.zeros((len(shapes), 1)), np.cumsum(shapes, axis=1)], axis=1)
    edges = np.arange(slots + 1) * (hours / slots)
    at = np.array([np.interp(edges, np.arange(hours + 1), row) for row in sums])
    factors: Floats = np.diff(at, axis=1) * (slots / hours)
    return factors


_REACHED = 0.01  # a share that misses what was asked for by less is reached
_SAMPLE = 20_000  # number of sources that represent a larger fleet in a trade-off


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
    """Return the probes that each share takes if all rules had it as their target, regardless of the budget.

    Shares that no number of probes reaches are left out: a source is not probed more often than its spacing allows.

    >>> from proxyd.core.planning.kernels.losses import Step
    >>> from proxyd.core.model.chronon import Target
    >>> from proxyd.core.planning.allocation.targets import FleetTargets
    >>> nobody, late = np.zeros(1, dtype=np.int64), [Losses((Step(48.0, 0.0),))]
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
        if expected < share - _REACHED:
            break
        delay_s = float(items @ fleet.delays(log_price) / items.sum()) * slot_s
        found.append(SharePoint(share, expected, float(fleet.frequencies(log_price).sum()) / slot_s, delay_s))
    return found


def trade(allocator: ProbeAllocator, budgets: Iterable[float]) -> list[TradePoint]:
    """Return what each budget, in probes a second for all sources together, would buy.

    For each source the delay follows from the timetable at the price. Completeness is the share of items after which no
    other item of the source comes before the next probe, ``(1 - exp(-x)) / x`` with x items to a probe. Delays are
    convex in the number of probes, so the points of all prices are the best trade-offs.

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
    fleet = Frequencies(allocator.tables, table_of, weighted, gaps=allocator.gaps_in_slots(taken))
    by_rate, found = Frequencies(allocator.tables, table_of, weighted), list[TradePoint]()  # of the same delays
    for per_s in budgets:
        prices = allocate(fleet, per_s * slot_s * share, hosts=hosts)
        log_price = np.log2(prices.of_source)
        frequency = np.maximum(by_rate.frequencies(log_price), 1e-12)
        waiting = rates / frequency
        captured = float((rates * -np.expm1(-waiting) / waiting).sum() / rates.sum())
        delay_s = float(rates @ fleet.delays(log_price) / rates.sum()) * slot_s
        found.append(TradePoint(per_s, prices.probe * slot_s, delay_s, captured))
    return found
