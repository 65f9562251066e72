"""The allocator of probes: takes rates, weeks, prices and capacity, and returns the sources to probe now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, inf, log2, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from proxyd.core.errors import InvalidScheduleError, SchedulingError
from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.planning.allocation.prices import (
    Frequencies,
    HostLimits,
    PriceDrift,
    Prices,
    allocate,
    row_place,
    row_places,
    slot_loads,
)
from proxyd.core.planning.allocation.targets import FleetTargets, RuleOutlook, TargetPrices
from proxyd.core.planning.allocation.timetable import LEVELS, Timetable, TimetableBuilder
from proxyd.core.planning.kernels.golden_turns import turn, turns
from proxyd.core.planning.kernels.losses import NO_LOSSES, Losses, WeekCosts
from proxyd.core.rates.age_hazards import FEWEST_PROBES, age_hazards
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S

_SAMPLE = 10_000  # number of sources that represent a larger fleet in the search for the slots' prices


@dataclass(frozen=True, slots=True)
class WeekGrid:
    """The slots of a week, from Monday 00:00 UTC, in which plans are made; a week must be a whole number of them."""

    slot_s: float

    def __post_init__(self) -> None:
        if not 0 < self.slot_s <= WEEK_S or abs(WEEK_S / self.slot_s - round(WEEK_S / self.slot_s)) > 1e-9:
            raise InvalidScheduleError(f"a week is not a whole number of slots of {self.slot_s:g} s; try 1800 s")

    @property
    def slots(self) -> int:
        """Number of slots in a week."""
        return round(WEEK_S / self.slot_s)

    def slot_at(self, time_s: float) -> int:
        """Return the slot of the week at a unix time."""
        return int((time_s - MONDAY_S + 1e-6) // self.slot_s) % self.slots


@dataclass(frozen=True, eq=False)
class FleetLimits:
    """The limits of the fleet."""

    probes_per_slot: float  # the budget, as an average
    capacity: Floats | None = None  # most probes in each slot of the week, shape (slots,)
    hosts: HostLimits | None = None
    # The least delay that a probe must save, in item-slots: above the budget's price, part of the budget is not spent.
    least_price: float = 0.0
    targets: FleetTargets | None = None  # only the probes that this takes are made; ``None`` if the budget decides

    def sample(self, sources: int) -> tuple[Ints, FleetLimits]:
        """Return some thousand of the sources, evenly chosen, and their share of the limits."""
        every = max(1, sources // _SAMPLE)
        # Choose by the golden ratio, not every k-th source, because the order of sources may repeat with any period.
        taken = np.flatnonzero(turns(np.arange(sources)) < 1 / every)
        hosts = self.hosts and self.hosts.sample(taken)
        capacity = None if self.capacity is None else self.capacity / every
        targets = self.targets and self.targets.sample(taken)
        return taken, FleetLimits(self.probes_per_slot / every, capacity, hosts, self.least_price, targets)


@dataclass(frozen=True, slots=True, eq=False)
class FleetDemand:
    """The sources that share a budget, in their state when prices are found; shape (sources,) if not stated."""

    grid: WeekGrid
    shapes: Floats  # week shapes by slot, shape (shapes, slots)
    shape_of: Ints
    rate_per_s: ArrayLike  # items a second
    last_s: ArrayLike  # the last probes: one time for all, or one each
    weights: Floats | None = None
    importance: Floats | None = None  # the cost of waiting by slot, shape (slots,), or by shape, (shapes, slots)
    phase_s: Floats | None = None  # how much later the slots of each source begin: probes of a slot are spread over it
    slot_factor: Floats | None = None  # extra price of each slot from an earlier plan, which saves rounds; (slots,)
    losses: Sequence[Losses] = ()  # of the items of each shape, besides their delay
    # of sources that are planned by the age of their newest item: shape and mean of the gaps between items, and the
    # newest one; the shape is 0 for all others, shape (sources, 3)
    gaps: Floats | None = None


_ROUNDS, _FOLLOWING_ROUNDS = 16, 8  # steps of the subgradient method: in all, and from the prices of an earlier plan
_VARIANTS = 8  # the last steps, whose timetables are kept; the number of rounds is a multiple of this
_STEP = 0.5  # the first step, of the logarithm of a price; later ones fall with the root of their number
_ALL = slice(None)
_Number = TypeVar("_Number", Floats, float)
_LOWEST = float(LEVELS[0])
_JUMP = 1.2  # quotient of the frequencies of two rows, as at a life; at 1.5 one source got a fifth too few probes
_EVEN = 1.3  # quotient of the longest and the shortest gap of a row
_ONE_ITEM = 1.2  # up to so many items in a mean gap by the rate, which changes more slowly than gaps
_NOBODY = np.zeros(0, dtype=np.int64)


class ProbeAllocator:
    """Probes every source when its timetable says so, at prices that spend the budget in the long run.

    The next probe of a source follows from its last one, its rate and the price by one table look-up. This takes O(1),
    so every observation plans its source again. ``reprice`` finds new prices, which takes a pass over the fleet.

    Under a capacity each slot of the week has an extra price, which is raised while too many probes would come
    (projected subgradient). Since all sources of one kind move together at each step, the sources are spread over the
    timetables of the last steps; the average load of these keeps to the capacity. Probes that still come at the same
    time wait, the most urgent go first.

    It reads no clock and uses no randomness: sources are spread by the golden ratio.

    Raises
    ------
    SchedulingError
        Shapes do not fit the week, or rates do not fit the sources.

    Notes
    -----
    Averaging of the iterates after Shor's subgradient method (``docs/decisions/planner-prices.md``).

    Examples
    --------
    >>> rates = [8.0 / 86400.0, 2.0 / 86400.0]
    >>> demand = FleetDemand(WeekGrid(43200.0), np.ones((1, 14)), np.zeros(2, dtype=np.int64), rates, last_s=0.0)
    >>> allocator = ProbeAllocator(demand, FleetLimits(probes_per_slot=1.5), now_s=0.0)
    >>> (allocator.due_s / 43200.0).round().tolist()
    [1.0, 2.0]
    """

    prices: Prices
    tables: list[Timetable]
    table_of: Ints
    drift: PriceDrift | None = None

    def __init__(self, demand: FleetDemand, limits: FleetLimits, *, now_s: float) -> None:
        sources = len(demand.shape_of)
        rates = np.array(demand.rate_per_s, dtype=np.float64)
        if demand.shapes.ndim != 2 or demand.shapes.shape[1] != demand.grid.slots:
            raise SchedulingError(f"a week of {demand.grid.slots} slots needs shapes of as many factors")
        if rates.shape != (sources,) or not np.all(rates >= 0):
            raise SchedulingError(f"{sources} sources need as many rates, none negative")
        self.grid = demand.grid
        self.shapes, self.shape_of = demand.shapes, demand.shape_of
        self.importance, self.phase_s, self.slot_factor = demand.importance, demand.phase_s, demand.slot_factor
        self.losses: Sequence[Losses] = demand.losses or [NO_LOSSES] * len(demand.shapes)
        self.rate_per_s = rates
        self.weights: Floats = np.ones(sources) if demand.weights is None else demand.weights
        self.last_s: Floats = np.full(sources, demand.last_s, dtype=np.float64)
        self.due_s: Floats = np.full(sources, -np.inf)
        self.gaps = demand.gaps
        self._by_age = None if demand.gaps is None else demand.gaps[:, 0] > 0  # until the next plan no others are
        self._build(limits)
        self.reprice(limits, now_s=now_s)

    # -- inputs

    def note_probes(self, sources: Ints, rate_per_s: Floats, *, now_s: float) -> None:
        """Note probes of sources and the new estimates of their rates."""
        before = self._weigh(sources)
        self.last_s[sources] = now_s
        self.rate_per_s[sources] = rate_per_s
        if self.drift is not None:
            slot_s = self.grid.slot_s
            self.drift.follow_all(sources, before * slot_s, self._weigh(sources) * slot_s)
        self._plan(sources)

    def note_gaps(self, source: int, gaps: tuple[float, float, float]) -> None:
        """Note shape, mean and newest item of a source that the plan found regular; others wait for the next plan."""
        if self.gaps is not None and self._by_age is not None and self._by_age[source]:
            self.gaps[source] = gaps

    def note_probe_of(self, source: int, rate_per_s: float, weight: float, *, now_s: float) -> None:
        """Note a probe of one source, and the new estimates of its rate and weight."""
        if self.drift is not None:
            before = float(self.rate_per_s[source] * self.weights[source])
            self.drift.follow(source, before * self.grid.slot_s, rate_per_s * weight * self.grid.slot_s)
        self.last_s[source], self.rate_per_s[source], self.weights[source] = now_s, rate_per_s, weight
        self.due_s[source] = self._due_s(source)

    def burst(
        self, sources: Ints, bins: Ints, factors: Floats, *, now_s: float, next_s: float, most: int | None = None
    ) -> Ints:
        """Note that ``sources`` changed ``factors`` times as often as their rates say; return those due because of it.

        A source is due at once if finding what it may have saves the price, as for ``hint``.

        Parameters
        ----------
        bins
            Numbers of slots since the beginning of unix time, ascending and without gaps, shape (bins,).
        factors
            Shape (bins,); factors up to 1 change nothing.
        next_s
            When the next probes can be made; items that are lost by then are no reason for one.
        most
            The largest number of sources to return, those that save most; ``None`` for all.
        """
        more = np.maximum(factors - 1.0, 0.0)
        if not more.any():
            return _NOBODY
        slot_s = self.grid.slot_s
        first_slot = bins[0] - round(MONDAY_S / slot_s)
        per_slot = self.shapes[:, (first_slot + np.arange(len(bins))) % self.grid.slots] * more
        curve_of, rates = self._curve_of[sources], self._weigh(sources) * slot_s
        place = np.clip(np.ceil(self.last_s[sources] / slot_s - 1e-6).astype(np.int64) - bins[0], 0, len(bins))
        items = rates * _rest(per_slot)[curve_of, place]
        wait = np.maximum(self.due_s[sources] - now_s, 0.0) / slot_s
        saved = items * np.where(np.isfinite(wait), wait, 0.0)
        age = next_s / slot_s - bins - 0.5
        for row, losses in enumerate(self.losses):
            of_row = np.flatnonzero(curve_of == row) if losses else _NOBODY
            in_time = _rest(per_slot[row] * sum(step.delay * (age <= step.after) for step in losses.steps))
            saved[of_row] += rates[of_row] * in_time[place[of_row]]
            saved[of_row] -= losses.overwritten * items[of_row] * np.expm1(-losses.rate * wait[of_row])
        gain = saved / self._prices_of(sources)
        due = np.flatnonzero((gain >= 1.0) & (wait > 0) & (rates > 0))
        if most is not None:
            due = due[largest(gain[due], most)]
        found = sources[due]
        self.due_s[found] = np.maximum(now_s, self.last_s[found])
        return found

    def reprice(self, limits: FleetLimits, *, now_s: float) -> None:
        """Find the prices at which the present rates spend the budget, and plan every source again."""
        self.hosts, self._limits = limits.hosts, limits
        if not self.tables or not _same(limits.capacity, self._capacity):
            self._build(limits)
        fleet = self.frequencies()
        targets = self._target_prices(limits.targets, fleet)
        self.prices = self._price_sources(limits, fleet, targets)
        self.drift = None if targets is None else PriceDrift.of(self.prices, targets.group_of, fleet.rate)
        self._plan(np.arange(len(self.rate_per_s)))
        np.maximum(self.due_s, now_s, out=self.due_s)

    def outlooks(self) -> list[RuleOutlook]:
        """Return what each rule that has a target may expect at the present prices."""
        priced = self._target_prices(self._limits.targets, self.frequencies())
        return [] if priced is None else priced.outlooks(self.prices)

    def at_share(self, share: float) -> tuple[Frequencies, Floats, float] | None:
        """Return the sources' prices, which are logarithms, and the expected share if all rules asked for one share.

        The first result turns prices into frequencies. ``None`` if no rule has a target.
        """
        asked, fleet = self._limits.targets and self._limits.targets.asking(share), self.frequencies()
        priced = self._target_prices(asked, fleet)
        if priced is None:
            return None
        log_price = priced.log_prices()
        return fleet, log_price, priced.mean_share(log_price)

    def frequencies(self) -> Frequencies:
        """Return the frequencies of all sources as functions of their prices."""
        return Frequencies(self.tables, self.table_of, self._weigh() * self.grid.slot_s, gaps=self.gaps_in_slots())

    def loads(self) -> Floats:
        """Return the long-run mean number of probes in each slot of the week at the present prices, shape (slots,)."""
        every = np.arange(len(self.rate_per_s))
        return slot_loads(self.tables, self.table_of, self._weigh() * self.grid.slot_s, self._prices_of(every))

    def probes_per_slot(self) -> float:
        """Return the long-run mean number of probes a slot of all sources at the present prices."""
        every = np.arange(len(self.rate_per_s))
        return float(self.frequencies().frequencies(np.log2(self._prices_of(every))).sum())

    def price_of(self, source: int) -> float:
        """Return the present price of a source, in item-slots."""
        return float(self.prices.of_source[source]) if self.drift is None else self.drift.price(source)

    def price_without_host(self, source: int) -> float:
        """Return what ``price_of`` would be if the limit of the source's host did not bind."""
        return float(self.prices.without_hosts[source]) if self.drift is None else self.drift.without_host(source)

    def mean_gap_s(self, source: int) -> float:
        """Return the mean time between two probes of a source at its price, in seconds; infinity without probes."""
        rate = self._weigh(slice(source, source + 1)) * self.grid.slot_s
        price = np.log2(self._prices_of(np.array([source])))
        gaps = self.gaps_in_slots(slice(source, source + 1))
        one = Frequencies([self.tables[self.table_of[source]]], np.zeros(1, dtype=np.int64), rate, gaps=gaps)
        (probes,) = one.frequencies(price)
        return self.grid.slot_s / float(probes) if probes > 0 else inf

    # -- decisions

    def choose(self, now_s: float, room: int, *, spend: bool = False) -> Ints:
        """Return the sources to probe at ``now_s``, at most ``room``: those that are due, the most urgent first."""
        due = np.flatnonzero(self.due_s <= now_s + 1e-6)
        if len(due) > room:
            return due[largest(self.gains(due, now_s), room)]
        if not spend or len(due) == room:
            return due
        # The remaining room goes to the sources that have passed the greatest part of their gap.
        others = np.flatnonzero((self.due_s > now_s + 1e-6) & (now_s - self.last_s >= 1e-6))
        passed = (now_s - self.last_s[others]) / (self.due_s[others] - self.last_s[others])
        return np.concatenate([due, others[largest(passed, room - len(due))]])

    def gains(self, sources: Ints, now_s: ArrayLike) -> Floats:
        """Return the expected delay that a probe of each of ``sources`` would end, divided by its price."""
        start = (self.last_s[sources] - MONDAY_S) / self.grid.slot_s
        finish = (np.broadcast_to(np.asarray(now_s, dtype=np.float64), start.shape) - MONDAY_S) / self.grid.slot_s
        cost = self._costs.between(self._curve_of[sources], start, finish)
        for row, losses in enumerate(self.losses):
            some = np.flatnonzero(self._curve_of[sources] == row)
            cost[some] += self._costs.kept(losses, self._curve_of[sources[some]], start[some], finish[some])
        gain: Floats = self._weigh(sources) * cost / self._prices_of(sources)
        if (aged := self._aged(sources)).size:
            some = sources[aged]
            passed = (np.broadcast_to(now_s, start.shape)[aged] - self.last_s[some]) / self.grid.slot_s
            wait = np.maximum(self.due_s[some] - self.last_s[some], 1e-6) / self.grid.slot_s
            gain[aged] = np.maximum(passed / wait, 0.0) ** 2
        return gain

    def reach_s(self, source: int, items: float) -> float:
        """Return when a source is expected to have had so many items since its last probe."""
        slot_s, rate = self.grid.slot_s, float(self.rate_per_s[source])
        if rate <= 0:
            return float("inf")
        start = float(self.last_s[source] - MONDAY_S) / slot_s
        slots = self._costs.reach(int(self._curve_of[source]), start, items / (rate * slot_s))
        return MONDAY_S + slots * slot_s

    def week_sums(self, source: int) -> Floats:
        """Return the items expected since the week began at each edge of its slots, at one a slot, (slots + 1,)."""
        sums: Floats = self._costs.L[self._curve_of[source]]
        return sums

    # -- implementation

    @staticmethod
    def _price_sources(limits: FleetLimits, fleet: Frequencies, targets: TargetPrices | None) -> Prices:
        least = limits.least_price if targets is None else np.maximum(limits.least_price, np.exp2(targets.log_prices()))
        return allocate(fleet, limits.probes_per_slot, hosts=limits.hosts, least_price=least)

    def _prices_of(self, sources: Ints) -> Floats:
        """Return the present prices of some sources, in item-slots."""
        return self.prices.of_source[sources] if self.drift is None else self.drift.prices_of(sources)

    def _target_prices(
        self, targets: FleetTargets | None, fleet: Frequencies, sources: Ints | slice = _ALL
    ) -> TargetPrices | None:
        if targets is None:
            return None
        items = self.rate_per_s[sources] * self.grid.slot_s
        return TargetPrices(targets, self.losses, self.shape_of[sources], fleet, items)

    def _weigh(self, sources: Ints | slice = _ALL) -> Floats:
        weighted: Floats = self.rate_per_s[sources] * self.weights[sources]
        return weighted

    def _builders(self) -> list[TimetableBuilder]:
        """Return what builds the timetables of each shape; it takes megabytes, so nothing keeps it."""
        weights = self.importance
        return [
            TimetableBuilder(
                shape,
                importance=weights if weights is None or weights.ndim == 1 else weights[number],
                losses=self.losses[number],
            )
            for number, shape in enumerate(self.shapes)
        ]

    def _build(self, limits: FleetLimits) -> None:
        """Make the timetables, and find the rows between which a single source must not be rounded.

        Where one row has many more probes than the next, as at a life, a source that follows one of both would be
        probed far too often or seldom for good. It leaves gaps between both rows if these are even, and otherwise
        follows them in turn, from probe to probe.
        """
        self._capacity, self._curve_of = limits.capacity, self.shape_of
        self._costs = WeekCosts(self.shapes, self.importance)
        self._make_tables(limits)
        frequency = np.array([table.frequency for table in self.tables])
        self._fewer = frequency[:, 1:] / frequency[:, :-1]
        self._jumps = self._fewer < 1 / _JUMP
        even = self._gaps.max(axis=2) < _EVEN * self._gaps.min(axis=2)
        self._is_even = even[:, :-1] & even[:, 1:]

    def _make_tables(self, limits: FleetLimits) -> None:
        """Make the timetables; under a capacity, find the extra price of each slot and keep the last timetables."""
        variants = 1 if limits.capacity is None else _VARIANTS
        gaps = np.empty((len(self.shapes), variants, len(LEVELS), self.grid.slots))
        self._gaps = gaps.reshape(-1, len(LEVELS), self.grid.slots)
        builders = self._builders()
        if limits.capacity is None:
            self.tables = [builder.build(into=into) for builder, (into,) in zip(builders, gaps, strict=True)]
            self.table_of = self.shape_of
            return
        taken, sample = limits.sample(len(self.rate_per_s))
        shape_of, rates = self.shape_of[taken], self._weigh(taken) * self.grid.slot_s
        most = np.maximum(np.inf if sample.capacity is None else sample.capacity, 1e-9)
        kept: list[list[Timetable]] = []
        rounds = _ROUNDS if self.slot_factor is None else _FOLLOWING_ROUNDS
        factor = np.ones(self.grid.slots) if self.slot_factor is None else self.slot_factor
        for number in range(rounds):
            into = gaps[:, number % _VARIANTS]  # overwrites the oldest ones
            tables = [builder.build(factor, gaps_of) for builder, gaps_of in zip(builders, into, strict=True)]
            fleet = Frequencies(tables, shape_of, rates)
            prices = self._price_sources(sample, fleet, self._target_prices(sample.targets, fleet, taken))
            kept = [*kept[1 - _VARIANTS :], tables]
            load = slot_loads(tables, shape_of, rates, prices.of_source)
            over = np.clip(load / most - 1.0, -1.0, 1.0)
            factor = np.maximum(1.0, factor * np.exp(_STEP / np.sqrt(1.0 + number) * over))
        self.slot_factor = factor
        self.tables = [tables[shape] for shape in range(len(self.shapes)) for tables in kept]
        turn = (turns(np.arange(len(self.rate_per_s))) * len(kept)).astype(np.int64)
        self.table_of = self.shape_of * len(kept) + turn

    def _shorten_gaps(self, gap: Floats, sources: Ints, slot: Ints, prices: Floats, rates: Floats) -> Floats:
        """Return the gaps below those of the timetables' lowest row, where a slot takes many probes."""
        # Between two such probes the rate is taken as constant: one is due when ``rate tau^2 / 2`` reaches its price.
        low = np.flatnonzero((rates > 0) & (prices < rates * 2.0 ** LEVELS[0]))
        if len(low):
            factor = np.maximum(self._costs.at_slot(self._curve_of[sources[low]], slot[low]), 1e-9)
            gap[low] = np.minimum(gap[low], np.sqrt(2 * prices[low] / (rates[low] * factor)))
        return gap

    def _plan(self, sources: Ints) -> None:
        """Look up when the sources are due after their last probes."""
        prices = self._prices_of(sources)
        slot_s, last = self.grid.slot_s, self.last_s[sources]
        monday = MONDAY_S if self.phase_s is None else MONDAY_S + self.phase_s[sources]
        rates = self._weigh(sources) * slot_s
        places, tables = row_places(prices, rates), self.table_of[sources]
        since = np.floor((last - monday + 1e-6) / slot_s)
        slot = since.astype(np.int64) % self.grid.slots
        rows = np.minimum(places + turns(sources), len(LEVELS) - 1.0).astype(np.int64)
        lower = np.minimum(places.astype(np.int64), len(LEVELS) - 2)
        jumps, share = np.flatnonzero(self._jumps[tables, lower]), places - lower
        rows[jumps] = lower[jumps] + (
            (turns(sources[jumps]) + turns(since[jumps])) % 1.0
            < _of_probes(share[jumps], self._fewer[tables[jumps], lower[jumps]])
        )
        gap = self._gaps[tables, rows, slot]
        mixed = jumps[self._is_even[tables[jumps], lower[jumps]]]
        some = tables[mixed], lower[mixed], slot[mixed]
        gap[mixed] = _between(self._gaps[some], self._gaps[some[0], some[1] + 1, some[2]], share[mixed])
        gap = self._shorten_gaps(gap, sources, slot, prices, rates)
        due = np.where(gap >= 1.0, monday + (since + gap) * slot_s, last + gap * slot_s)
        due[mixed] = last[mixed] + gap[mixed] * slot_s
        self.due_s[sources] = np.where(rates > 0, np.maximum(due, last), np.inf)
        aged = self._aged(sources)
        for source in sources[aged[rates[aged] > 0]].tolist():
            self.due_s[source] = self._due_by_age(source, float(self.due_s[source]))

    def gaps_in_slots(self, sources: Ints | slice = _ALL) -> Floats | None:
        """Return shape and mean of the gaps of sources that are planned by age, shape (n, 2)."""
        return None if self.gaps is None else self.gaps[sources, :2] / (1.0, self.grid.slot_s)

    def _aged(self, sources: Ints) -> Ints:
        """Return the places of the sources that are planned by the age of their newest item."""
        return _NOBODY if self.gaps is None else np.flatnonzero(self.gaps[sources, 0])

    def _due_by_age(self, source: int, due_s: float) -> float:
        """Return when a source is due whose next item comes at a rate that depends on the age of the newest.

        While an item is unlikely it is probed less often than a source of that rate. If it has few probes, it is due by
        its mean rate.
        """
        assert self.gaps is not None
        last, gaps = float(self.last_s[source]), self.gaps[source].tolist()
        shape, mean_s, newest_s = map(float, gaps)
        hazards = age_hazards(shape)
        as_many, *probes = self._probes_in_gap(source, np.append(1.0, hazards.worth)).tolist()
        if as_many < FEWEST_PROBES:
            return due_s
        return last + hazards.wait(np.array(probes), (last - newest_s) / mean_s) * mean_s

    def _probes_in_gap(self, source: int, factors: Floats) -> Floats:
        """Return how many probes of a source a mean gap has, if items come ``factors`` times as often."""
        assert self.gaps is not None
        mean = float(self.gaps[source, 1]) / self.grid.slot_s
        # in a batch come several items; otherwise the mean gap is known better than the rate
        items = max(1.0, float(self.rate_per_s[source] * self.gaps[source, 1]) / _ONE_ITEM)
        levels = log2(self.price_of(source) * mean / (float(self.weights[source]) * items)) - np.log2(factors)
        found: Floats = self.tables[self.table_of[source]].frequencies(levels) * mean
        return found

    def is_by_age(self, source: int) -> bool:
        """Whether a source is planned by the age of its newest item."""
        if self.gaps is None or not self.gaps[source, 0] > 0 or not self.rate_per_s[source] * self.weights[source] > 0:
            return False
        return bool(self._probes_in_gap(source, np.ones(1))[0] >= FEWEST_PROBES)

    def _due_s(self, source: int) -> float:
        """Return when one source is due after its last probe; the same as ``_plan``, without arrays."""
        slot_s = self.grid.slot_s
        rate, price = float(self.rate_per_s[source] * self.weights[source]) * slot_s, self.price_of(source)
        if rate <= 0:
            return inf
        last, monday = float(self.last_s[source]), MONDAY_S
        if self.phase_s is not None:
            monday += float(self.phase_s[source])
        since = floor((last - monday + 1e-6) / slot_s)
        slot = since % self.grid.slots
        table, place = self.table_of[source], row_place(price, rate)
        lower, row = min(int(place), len(LEVELS) - 2), int(min(place + turn(source), len(LEVELS) - 1.0))
        share, is_mixed, gaps = place - lower, False, self._gaps[table, :, slot]
        if self._jumps[table, lower]:
            takes = _of_probes(share, float(self._fewer[table, lower]))
            row, is_mixed = lower + ((turn(source) + turn(since)) % 1.0 < takes), bool(self._is_even[table, lower])
        gap = _between(float(gaps[lower]), float(gaps[lower + 1]), share) if is_mixed else float(gaps[row])
        if price < rate * 2.0**_LOWEST:
            gap = min(
                gap, sqrt(2 * price / (rate * max(float(self._costs.at_slot(self._curve_of[source], slot)), 1e-9)))
            )
        due = max(last, monday + (since + gap) * slot_s if gap >= 1.0 and not is_mixed else last + gap * slot_s)
        return self._due_by_age(source, due) if self.gaps is not None and self.gaps[source, 0] > 0 else due


def _of_probes(share: _Number, fewer: _Number) -> _Number:
    """Return the share of a source's probes that follow the upper row, so that it does for a share of the time."""
    return share * fewer / (1.0 - share + share * fewer)


def _between(lower: _Number, upper: _Number, share: _Number) -> _Number:
    """Return the gaps of sources that follow two rows, the upper one for a share of the time."""
    return 1.0 / ((1.0 - share) / lower + share / upper)


def _rest(values: Floats) -> Floats:
    """Return the sums from each place on, along the last axis, which becomes one longer."""
    sums = np.cumsum(values[..., ::-1], axis=-1)[..., ::-1]
    return np.concatenate([sums, np.zeros((*values.shape[:-1], 1))], axis=-1)


def _same(one: Floats | None, other: Floats | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


def largest(index: Floats, c: int) -> Ints:
    """Return the positions of the c largest values, ties to the lower position.

    >>> largest(np.array([1.0, 3.0, 3.0]), 2)
    array([1, 2])
    """
    if c >= len(index):
        return np.arange(len(index))
    if c <= 0:
        return np.zeros(0, dtype=np.int64)
    edge = np.partition(index, len(index) - c)[len(index) - c]
    above = np.flatnonzero(index > edge)
    return np.concatenate([above, np.flatnonzero(index == edge)[: c - len(above)]])
