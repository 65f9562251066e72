"""Prices that share a budget among sources: one for the fleet and one for each host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, isinf, log2

import numpy as np
from numpy.typing import ArrayLike

from proxyd.core.errors import InvalidScheduleError
from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.planning.allocation.timetable import LEVELS, PER_OCTAVE, Timetable
from proxyd.core.rates.age_hazards import age_hazards

_BISECTIONS = 40
_NEAR, _MOST_STEPS = 1e-10, 100  # octaves of a price
_LOWEST = float(LEVELS[0])
_NO_PRICE = -60.0  # log2 of a price at which every source is probed all the time
_NO_PROBE = 120.0
_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class HostLimits:
    """How often the sources of a host may be probed in total."""

    of_source: Ints  # the host of each source, shape (sources,)
    per_slot: Floats  # probes a slot that each host takes in the long run, shape (hosts,); infinite without a limit

    def sample(self, taken: Ints) -> HostLimits:
        """Return the limits of a sample of the sources, each scaled by the share of the host's sources in it."""
        hosts = len(self.per_slot)
        share = np.bincount(self.of_source[taken], minlength=hosts) / np.maximum(
            np.bincount(self.of_source, minlength=hosts), 1
        )
        per_slot = np.where(share > 0, self.per_slot * np.where(share > 0, share, 1.0), np.inf)
        return HostLimits(self.of_source[taken], per_slot)


@dataclass(frozen=True, eq=False)
class Prices:
    """The price of a probe, in item-slots; shape (sources,) if not stated."""

    probe: float  # where neither a host's limit nor a target binds: the delay that the budget's last probe saves
    budget: float  # what the budget alone sets; next to nothing if it is not spent
    without_hosts: Floats  # if hosts had no limits
    of_source: Floats  # that of its host or of its targets if it is higher
    least: Floats  # below it no probe is made, because targets are met
    held: Floats  # what the budget and its host ask for


def row_places(prices: Floats, weighted_rates: Floats) -> Floats:
    """Return where sources lie among the rows of their timetables: a row, and the share of the next one.

    A source that follows one of both rows takes them in turn with others: sources of equal rates get neighbouring rows
    in the right proportion, their probes do not stay in step, and the frequencies add up to the budget.

    Parameters
    ----------
    prices, weighted_rates
        For each source: item-slots a probe, and items a slot times weight.
    """
    with np.errstate(divide="ignore"):
        level = np.log2(prices) - np.log2(weighted_rates)
    places: Floats = np.clip((level - LEVELS[0]) * PER_OCTAVE, 0.0, len(LEVELS) - 1.0)
    return places


def row_place(price: float, weighted_rate: float) -> float:
    """Return the same as ``row_places`` for one source whose rate is above 0.

    >>> row_place(8.0, 0.5) == row_places(np.array([8.0]), np.array([0.5]))[0]
    np.True_
    """
    level = log2(price) - log2(weighted_rate)
    return min(max((level - _LOWEST) * PER_OCTAVE, 0.0), len(LEVELS) - 1.0)


def allocate(
    fleet: Frequencies,
    probes_per_slot: float,
    *,
    hosts: HostLimits | None = None,
    least_price: ArrayLike = 0.0,
) -> Prices:
    """Return the prices at which the fleet makes ``probes_per_slot`` in total, and no host exceeds its limit.

    Every source's delay is convex in its frequency, so one price allocates a budget exactly. A host whose sources would
    exceed its limit has a price of its own; the probes that its sources may not use go to the others.

    Parameters
    ----------
    fleet
        The timetables of the sources, and their items a slot times weight.
    probes_per_slot
        The budget.
    least_price
        Price below which no probe is made, in item-slots: one for all or shape (sources,). Part of the budget is then
        not spent.

    Raises
    ------
    InvalidScheduleError
        The budget is not greater than 0.

    Notes
    -----
    Source: ``docs/decisions/planner-prices.md``. Bisections on frequencies that fall with the price, O(sources) each
    step: one for the fleet and, if a host would exceed its limit at that price, one for the hosts and another for the
    fleet.

    Examples
    --------
    >>> from proxyd.core.planning.allocation.timetable import TimetableBuilder
    >>> table = TimetableBuilder(np.ones(6)).build()
    >>> fleet = Frequencies([table], np.zeros(3, dtype=np.int64), np.array([0.4, 0.1, 0.0]))
    >>> prices = allocate(fleet, 0.3)
    >>> bool(prices.of_source[0] == prices.probe)
    True
    """
    if not probes_per_slot > 0:
        raise InvalidScheduleError("a budget must be greater than 0 probes a slot")
    with np.errstate(divide="ignore"):
        least = np.maximum(np.log2(np.broadcast_to(least_price, fleet.rate.shape)), _NO_PRICE)
    of_host = np.full(least.shape, _NO_PRICE)
    price = fleet.log_price(probes_per_slot, least)
    if hosts is not None and np.any(fleet.host_loads(hosts, np.maximum(least, price)) > hosts.per_slot):
        of_host = fleet.host_floors(hosts)
        price = fleet.log_price(probes_per_slot, np.maximum(least, of_host))
    held = np.maximum(of_host, price)
    return Prices(
        float(np.exp2(max(price, float(least.min(initial=_NO_PROBE))))),
        float(np.exp2(price)),
        *(np.exp2(each) for each in (np.maximum(least, price), np.maximum(least, held), least, held)),
    )


class Frequencies:
    """Frequencies of all sources as functions of the logarithms of their prices."""

    def __init__(
        self, tables: Sequence[Timetable], table_of: Ints, rate: Floats, *, gaps: Floats | None = None
    ) -> None:
        self.rate, self.tables = rate, tables
        # of sources that are planned by age: the shape of the gaps between items and their mean in slots, (sources, 2)
        self._by_age: list[tuple[float, Ints, Floats]] = []
        if gaps is not None:
            for shape in np.unique(gaps[gaps[:, 0] > 0, 0]).tolist():
                some = np.flatnonzero(gaps[:, 0] == shape)
                self._by_age.append((shape, some, gaps[some, 1]))
        with np.errstate(divide="ignore"):
            self.log_rate = np.log2(rate)
        self._frequency = np.concatenate([table.frequency for table in tables])
        self._cost = np.concatenate([table.cost for table in tables])
        self._first_row = table_of * len(LEVELS)
        self._dense = np.array([table.dense for table in tables])[table_of]

    def frequencies(self, log_price: Floats) -> Floats:
        """Return probes a slot of each source, interpolated between two rows as the rounding in turn achieves."""
        row, share, _ = self.places(log_price)
        frequency = self._frequency[row] * (1 - share) + self._frequency[row + 1] * share
        level = log_price - self.log_rate
        low = level < LEVELS[0]
        frequency = np.where(low, self._dense * np.exp2(-np.maximum(level, _NO_PRICE) / 2), frequency)
        for shape, some, gap in self._by_age:
            frequency[some] = age_hazards(shape).probes(frequency[some] * gap) / gap
        return np.where(self.rate > 0, frequency, 0.0)

    def delays(self, log_price: Floats) -> Floats:
        """Return the mean delay of each source's items, in slots and weighted by importance; shape (sources,)."""
        row, share, below = self.places(log_price)
        delays: Floats = below * (self._cost[row] * (1 - share) + self._cost[row + 1] * share)
        return delays

    def places(self, log_price: Floats, sources: Ints | slice = _ALL) -> tuple[Ints, Floats, Floats]:
        """Return the rows of all tables between which ``sources`` lie at their prices.

        The results are the lower row, the share of the next one, and the part by which gaps are shorter than those of
        the lowest row, where a slot takes many probes.
        """
        level = log_price - self.log_rate[sources]
        place = np.clip((level - LEVELS[0]) * PER_OCTAVE, 0.0, len(LEVELS) - 1.0)
        row = np.minimum(place.astype(np.int64), len(LEVELS) - 2)
        below = np.exp2(np.minimum(level - LEVELS[0], 0.0) / 2)
        return row + self._first_row[sources], place - row, below

    def log_price_at(self, gap: ArrayLike) -> Floats:
        """Return each source's highest price at which its probes are at most ``gap`` slots apart on average."""
        with np.errstate(divide="ignore"):
            asked = 1.0 / np.broadcast_to(np.asarray(gap, dtype=np.float64), self.rate.shape)
            level = np.minimum(2.0 * np.log2(self._dense / asked), LEVELS[0])
        for number, table in enumerate(self.tables):
            rarer = np.minimum.accumulate(table.frequency)
            some = np.flatnonzero((self._first_row == number * len(LEVELS)) & (asked < rarer[0]))
            level[some] = np.interp(asked[some], rarer[::-1], LEVELS[::-1])
        return np.where(self.rate > 0, np.maximum(level + self.log_rate, _NO_PRICE), _NO_PRICE)

    def log_price(self, probes_per_slot: float, floor: Floats) -> float:
        """Return the price at which the sources make so many probes in total, if each pays at least its ``floor``."""

        def log_excess(log_price: float) -> float:
            made = float(self.frequencies(np.maximum(floor, log_price)).sum())
            return log2(made / probes_per_slot) if made > 0 else -inf

        return _zero_of_falling(log_excess, _NO_PRICE, _NO_PROBE)

    def host_loads(self, hosts: HostLimits, log_price: Floats) -> Floats:
        """Return the probes a slot of each host's sources, shape (hosts,)."""
        made = self.frequencies(log_price)
        loads: Floats = np.bincount(hosts.of_source, weights=made, minlength=len(hosts.per_slot)).astype(np.float64)
        return loads

    def host_floors(self, hosts: HostLimits) -> Floats:
        """Return for each source the logarithm of the least price that keeps its host's limit."""
        low, high = np.full(len(hosts.per_slot), _NO_PRICE), np.full(len(hosts.per_slot), _NO_PROBE)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            over = self.host_loads(hosts, middle[hosts.of_source]) > hosts.per_slot
            low, high = np.where(over, middle, low), np.where(over, high, middle)
        return np.where(np.isinf(hosts.per_slot), _NO_PRICE, high)[hosts.of_source]


def _zero_of_falling(value: Callable[[float], float], low: float, high: float) -> float:
    """Return the least argument between two ends at which a falling function is not above 0; the upper end if none is.

    Frequencies fall by about half an octave with each octave of the price, so a secant needs few steps, each of which
    looks at all sources; bisection takes forty.

    >>> asked = []
    >>> _zero_of_falling(lambda price: asked.append(price) or 10.0 - price / 2, -60.0, 120.0), len(asked)
    (20.0, 2)
    >>> _zero_of_falling(lambda price: -1.0, -60.0, 120.0), _zero_of_falling(lambda price: 1.0, -60.0, 120.0)
    (-60.0, 120.0)
    """
    at, step, at_low, at_high, was_above = 0.0, 2.0, inf, -inf, None
    for _ in range(_MOST_STEPS):
        found = value(at)
        is_above = found > 0
        # if the other end stays for a second step, only half of its value counts (the Illinois method)
        weight = 0.5 if is_above is was_above else 1.0
        if is_above:
            low, at_low, at_high = at, found, at_high * weight
        else:
            high, at_high, at_low = at, found, at_low * weight
        if high - low <= _NEAR or -_NEAR < at_high == found <= 0:
            return high
        was_above = is_above
        if isinf(at_low) or isinf(at_high):
            at, step = min(max(at + step * found, low), high), 2.0 * step
        else:
            at = low + (high - low) * at_low / (at_low - at_high)
            at = at if low < at < high else (low + high) / 2
    return high


def slot_loads(tables: Sequence[Timetable], table_of: Ints, weighted_rates: Floats, prices: Floats) -> Floats:
    """Return the long-run mean number of probes in each slot of the week, shape (slots,)."""
    some = np.flatnonzero(weighted_rates > 0)
    places = row_places(prices[some], weighted_rates[some])
    rows = np.minimum(places.astype(np.int64), len(LEVELS) - 2)
    load = np.zeros(tables[0].visits.shape[1])
    # Between two rows, a source makes the probes of both in the proportion that its price asks for.
    for number, table in enumerate(tables):
        own = table_of[some] == number
        upper = np.bincount(rows[own], places[own] - rows[own], minlength=len(LEVELS))
        lower = np.bincount(rows[own], minlength=len(LEVELS)) - upper
        load += lower @ table.visits + upper[:-1] @ table.visits[1:]
    return load


@dataclass(frozen=True, slots=True, eq=False)
class PriceDrift:
    """The present prices of sources, from those of the plan and what became of the rates since.

    A source is probed as often as its price over its rate says, and the share of its items in time depends on that
    alone. If the sources of a target become slower together, an unchanged price would soon be too high: past the life
    of their items, a probe does not pay at all. So the price of a target falls with the sum of the rates of the sources
    that it binds. It does not rise with them, because one source that floods would stop the probes of the others. What
    budget and hosts ask for does not change. Source: ``docs/decisions/planner-prices.md``.

    >>> least, held = np.array([8.0, 8.0, 2.0]), np.array([1.0, 1.0, 3.0])
    >>> prices = Prices(1.0, 1.0, least, np.maximum(least, held), least, held)
    >>> drift = PriceDrift.of(prices, np.array([0, 0, 1]), np.ones(3))
    >>> drift.follow(0, 1.0, 0.5)
    >>> drift.price(0), drift.price(1), drift.price(2), drift.prices_of(np.arange(3)).tolist()
    (6.0, 6.0, 3.0, [6.0, 6.0, 3.0])
    """

    prices: Prices  # those of the plan
    group_of: Ints  # sources whose prices were found together have the same number, shape (sources,)
    planned: Floats  # the sum of the rates of each group in the plan, in items a slot times weight, shape (groups,)
    present: Floats  # and now

    @classmethod
    def of(cls, prices: Prices, group_of: Ints, rates: Floats) -> PriceDrift:
        """Return the drift from a plan with these rates, in items a slot times weight, shape (sources,)."""
        sums = np.bincount(group_of, weights=rates)
        planned = np.where(sums > 0, sums, 1.0)  # a group without rate keeps its price
        return cls(prices, group_of, planned, planned.copy())

    def copy(self) -> PriceDrift:
        """Return a copy that follows other rates."""
        return replace(self, present=self.present.copy())

    def follow(self, source: int, before: float, after: float) -> None:
        """Note the new rate of a source, in items a slot times weight."""
        self.present[self.group_of[source]] += after - before

    def follow_all(self, sources: Ints, before: Floats, after: Floats) -> None:
        """Note the new rates of several sources, in items a slot times weight; shape (sources,)."""
        np.add.at(self.present, self.group_of[sources], after - before)

    def price(self, source: int) -> float:
        """Return the present price of a source, in item-slots."""
        return max(float(self.prices.held[source]), self._least(source))

    def prices_of(self, sources: Ints) -> Floats:
        """Return the present prices of some sources, in item-slots; shape (sources,)."""
        groups = self.group_of[sources]
        factors = np.clip(self.present[groups] / self.planned[groups], 0.0, 1.0)
        prices: Floats = np.maximum(self.prices.held[sources], self.prices.least[sources] * factors)
        return prices

    def without_host(self, source: int) -> float:
        """Return what ``price`` would be if the host of the source had no limit."""
        return max(self.prices.budget, self._least(source))

    def _least(self, source: int) -> float:
        group = self.group_of[source]
        return float(self.prices.least[source] * min(max(self.present[group] / self.planned[group], 0.0), 1.0))
