"""Targets: the highest prices at which rules are expected to get the share of their items in time that they ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log2
from typing import NamedTuple

import numpy as np

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.model.chronon import Target
from proxyd.core.model.schedule import Constraint
from proxyd.core.planning.allocation.prices import Frequencies, Prices
from proxyd.core.planning.allocation.timetable import LEVELS
from proxyd.core.planning.kernels.losses import STEPS, Losses, index_of
from proxyd.core.rates.siblings import HELPS

_BISECTIONS = 26
_CLOSE, _CLOSE_MISSES = 0.002, 0.2  # a share that misses its target by less, also as a part of the misses, is met
_DEAR = 0.3  # finds in a burst before a probe pays, for each missed item to which price over rate amounts
_SAME = 1.0 + 1e-9  # times of one life differ by rounding
_WAVE = 2.0  # rules whose prices are within this many octaves are priced together


@dataclass(frozen=True, eq=False)
class FleetTargets:
    """What the rules of a fleet ask for; times in slots, but in seconds within a ``FleetState``."""

    of_rule: Sequence[Target]
    rules_of: Sequence[tuple[int, ...]]  # the rules of each kind of source
    kind_of: Ints  # shape (sources,)
    group_of: Ints | None = None  # sources that help each other, shape (sources,); ``None`` if none do
    unhelped: Floats | None = None  # what stays late of each group (``rates.siblings.late_share``), (groups, HELPS)
    late: float = 1.0  # after so long the items of a burst let others be found
    missed: float = inf  # the waiting that counts as much as a missed item
    matching: Floats | None = None  # the share of items that each rule counts, source by source as ``rules_of``
    most_gap: float = inf  # after so long every source is probed on average
    least_gap: Floats | float = 0.0  # what politeness puts between two probes, a number or shape (sources,)

    def times(self, factor: float) -> FleetTargets:
        """Return the targets with times in another unit."""
        of_rule = [target.times(factor) for target in self.of_rule]
        ends = {name: getattr(self, name) * factor for name in ("late", "missed", "most_gap", "least_gap")}
        return replace(self, of_rule=of_rule, **ends)

    def asking(self, share: float) -> FleetTargets:
        """Return the same if every rule asked for one share."""
        return replace(self, of_rule=[target._replace(share=share) for target in self.of_rule])

    def sample(self, taken: Ints) -> FleetTargets:
        """Return the targets of some of the sources."""
        least_gap = self.least_gap if isinstance(self.least_gap, float) else self.least_gap[taken]
        group_of = None if self.group_of is None else self.group_of[taken]
        matching = None if self.matching is None else self.matching[np.isin(self.pairs[0], taken)]
        return replace(self, kind_of=self.kind_of[taken], group_of=group_of, least_gap=least_gap, matching=matching)

    @property
    def pairs(self) -> tuple[Ints, Ints]:
        """The pairs of a source and one of its rules."""
        many = np.array([len(rules) for rules in self.rules_of], dtype=np.int64)
        first = np.cumsum(many) - many
        rules = np.array([rule for rules in self.rules_of for rule in rules], dtype=np.int64)
        of_source = many[self.kind_of]
        source = np.repeat(np.arange(len(self.kind_of)), of_source)
        number = np.arange(len(source)) - np.repeat(np.cumsum(of_source) - of_source, of_source)
        return source, rules[first[self.kind_of[source]] + number]


class RuleOutlook(NamedTuple):
    """What a rule may expect of a plan."""

    share: float  # of its items' worth that it asks for
    expected: float  # of the plan
    reachable: float  # if hosts and budgets were unlimited
    made: float  # probes a slot of its sources
    needed: float  # those that would meet the target, as far as it can be met
    is_host_bound: bool  # whether the limit of a host makes probes of its sources dearer
    items: float = 0.0  # a slot that it asks for, by their worth

    @property
    def is_met(self) -> bool:
        """Whether the plan is expected to meet the target."""
        return self.expected >= self._least

    @property
    def _least(self) -> float:
        return self.share - min(_CLOSE, _CLOSE_MISSES * (1.0 - self.share))

    @property
    def limit(self) -> Constraint | None:
        """What prevents the plan from meeting the target; ``None`` if it is met."""
        if self.is_met:
            return None
        if self.reachable < self._least:
            return Constraint.SOURCE_POLITENESS
        return Constraint.HOST_POLITENESS if self.is_host_bound else Constraint.BUDGET


class TargetPrices:
    """The prices of targets, for a fleet with timetables.

    Parameters
    ----------
    losses, curve_of
        The losses of each curve, in slots, and the curve of each source, shape (sources,).
    fleet
        The timetables, and the items a slot times weight of each source.
    rates
        Items a slot of each source, shape (sources,).

    Notes
    -----
    Source: ``docs/decisions/planner-prices.md``. The share of items in time falls as the price rises, so it is found by
    bisection. It is predicted, not corrected by what probes found: late items come in batches.

    Examples
    --------
    Items of an even week are to be seen within 12 slots, nine of ten. A probe each 12 / 0.9 slots is enough:

    >>> from proxyd.core.planning.kernels.losses import window
    >>> from proxyd.core.planning.allocation.prices import allocate
    >>> from proxyd.core.planning.allocation.timetable import TimetableBuilder
    >>> losses = Losses(window(12.0, delay=1008.0))
    >>> table = TimetableBuilder(np.ones(336), losses=losses).build()
    >>> fleet, nobody = Frequencies([table], np.zeros(1, dtype=np.int64), np.ones(1)), np.zeros(1, dtype=np.int64)
    >>> targets = FleetTargets([Target(0.9, ((12.0, 1.0),))], [(0,)], nobody)
    >>> prices = TargetPrices(targets, [losses], nobody, fleet, np.ones(1))
    >>> outlook = prices.outlooks(allocate(fleet, 1.0, least_price=np.exp2(prices.log_prices())))[0]
    >>> round(outlook.expected, 2), round(1 / outlook.made, 1)
    (0.9, 13.3)
    """

    def __init__(
        self, targets: FleetTargets, losses: Sequence[Losses], curve_of: Ints, fleet: Frequencies, rates: Floats
    ) -> None:
        self._targets, self._fleet = targets, fleet
        self._rules = len(targets.of_rule)
        self._pairs = _Pairs.of(targets, losses, curve_of, rates)
        self._lost = np.concatenate([table.lost.ravel() for table in fleet.tables])
        self._asked = np.array([target.share for target in targets.of_rule])
        self._most, self._least = fleet.log_price_at(targets.most_gap), fleet.log_price_at(targets.least_gap)
        positive = fleet.rate[fleet.rate > 0]
        lowest, highest = (log2(positive.min()), log2(positive.max())) if positive.size else (0.0, 0.0)
        self._range = lowest + float(LEVELS[0]), highest + float(LEVELS[-1])

    def log_prices(self) -> Floats:
        """Return the logarithm of the price of each source at which the targets are met with the fewest probes."""
        return self._solve[0]

    @property
    def group_of(self) -> Ints:
        """The sources whose prices were found together, by a number each: those that one rule binds."""
        return self._solve[1]

    @cached_property
    def _solve(self) -> tuple[Floats, Ints]:
        price = np.full(len(self._fleet.rate), inf)
        of_rule = self._bisect_price(self._pairs, price)
        if not self._pairs.is_shared:
            return self._group_prices(_lower_prices(price, self._pairs, of_rule), of_rule)
        # Lowest prices first: rules that share sources with these need fewer probes of the others.
        alone, of_rule = of_rule, of_rule.copy()
        left = np.argsort(alone, kind="stable")
        while left.size:
            until = int(np.searchsorted(alone[left], alone[left[0]] + _WAVE, side="right"))
            wave = self._pairs.of_rules(left[:until], self._rules)
            found = self._bisect_price(wave, price)
            of_rule[left[:until]] = found[left[:until]]
            price, left = _lower_prices(price, wave, found), left[until:]
        return self._group_prices(price, of_rule)

    def _group_prices(self, price: Floats, of_rule: Floats) -> tuple[Floats, Ints]:
        """Return prices within their limits, and the rule that binds each source; a limit is a source's own."""
        limited, pairs = self._within_limits(price), self._pairs
        group_of = self._rules + np.arange(len(price))
        order = np.lexsort((of_rule[pairs.rule], pairs.source))
        bound, first = np.unique(pairs.source[order], return_index=True)
        is_bound = limited[bound] == price[bound]
        group_of[bound[is_bound]] = pairs.rule[order][first][is_bound]
        return limited, group_of

    def outlooks(self, prices: Prices) -> list[RuleOutlook]:
        """Return what each rule may expect at some prices."""
        pairs, best, present = self._pairs, self.log_prices(), np.log2(prices.of_source)
        dearer = (prices.of_source > prices.without_hosts * (1.0 + 1e-9))[pairs.source]
        columns = (
            self._asked,
            self._shares(pairs, present[pairs.source]),
            self._shares(pairs, best[pairs.source]),
            self._probes(present),
            self._probes(best),
            np.bincount(pairs.rule, weights=dearer, minlength=self._rules) > 0,
            self._items,
        )
        return [RuleOutlook(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def mean_share(self, log_price: Floats) -> float:
        """Return the mean share of all items, rule by rule, that is expected at some prices."""
        items = self._items
        return float(items @ self._shares(self._pairs, log_price[self._pairs.source]) / max(items.sum(), 1e-300))

    @property
    def _items(self) -> Floats:
        """The items a slot of each rule, by their worth, shape (rules,)."""
        return np.bincount(self._pairs.rule, weights=self._pairs.items, minlength=self._rules).astype(np.float64)

    def _probes(self, log_price: Floats) -> Floats:
        """Return the probes a slot of each rule's sources, shape (rules,)."""
        made = self._fleet.frequencies(log_price)[self._pairs.source]
        return np.bincount(self._pairs.rule, weights=made, minlength=self._rules).astype(np.float64)

    def _within_limits(self, log_price: Floats) -> Floats:
        limited: Floats = np.maximum(np.minimum(log_price, self._most), self._least)
        return limited

    def _bisect_price(self, pairs: _Pairs, log_price: Floats) -> Floats:
        """Return the highest price at which each rule has its share, if no source costs more than ``log_price``."""
        most = np.minimum(log_price, self._most)[pairs.source]
        least = self._least[pairs.source]
        low, high = (np.full(self._rules, end) for end in self._range)
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            at = np.maximum(np.minimum(middle[pairs.rule], most), least)
            enough = self._shares(pairs, at) >= self._asked
            low, high = np.where(enough, middle, low), np.where(enough, high, middle)
        return low

    def _shares(self, pairs: _Pairs, log_price: Floats) -> Floats:
        """Return the share of each rule's items in time if its sources have these prices, shape (rules,)."""
        row, share, below = self._fleet.places(log_price, pairs.source)
        place = row * (STEPS + 1) + pairs.column
        late = pairs.items * below * (self._lost[place] * (1 - share) + self._lost[place + STEPS + 1] * share)
        total = np.maximum(np.bincount(pairs.rule, weights=pairs.items, minlength=self._rules), 1e-300)
        shares = 1.0 - np.bincount(pairs.rule, weights=late, minlength=self._rules) / total
        if self._targets.unhelped is not None and self._targets.group_of is not None:
            left = self._late_share(pairs, log_price, shares, self._targets.unhelped, self._targets.group_of)
            shares = 1.0 - np.bincount(pairs.rule, weights=late * left, minlength=self._rules) / total
        return np.asarray(shares)

    def _late_share(self, pairs: _Pairs, log_price: Floats, shares: Floats, unhelped: Floats, group_of: Ints) -> Floats:
        """Return the part of each pair's late items that stays late although items of a burst let others be found."""
        # An item of a source with a high price over its rate is only looked for when several others were found.
        finds = np.maximum(1.0, _DEAR * np.exp2(log_price - self._fleet.log_rate[pairs.source]) / self._targets.missed)
        help_ = -np.log(np.maximum(1.0 - shares[pairs.rule], 1e-9)) * pairs.lent / finds
        place = np.interp(help_, HELPS, np.arange(len(HELPS), dtype=np.float64))
        lower = np.minimum(place.astype(np.int64), len(HELPS) - 2)
        group, rest = group_of[pairs.source], place - lower
        left: Floats = unhelped[group, lower] * (1 - rest) + unhelped[group, lower + 1] * rest
        return left


class _Pairs(NamedTuple):
    """The pairs of a rule and one of its sources, for each part of the rule's target.

    Each has the items a slot times the part, the column of what is lost, and how much a burst's items help each other.
    """

    source: Ints
    rule: Ints
    column: Ints
    items: Floats
    lent: Floats
    is_shared: bool

    @classmethod
    def of(cls, targets: FleetTargets, losses: Sequence[Losses], curve_of: Ints, rates: Floats) -> _Pairs:
        """Return all pairs, each as often as its rule's target has parts."""
        source, rule = targets.pairs
        items = rates[source] if targets.matching is None else rates[source] * targets.matching
        is_shared = bool(np.any(source[1:] == source[:-1]))
        parts = np.array([len(target.parts) for target in targets.of_rule], dtype=np.int64)
        flat = [(after, part) for target in targets.of_rule for after, part in target.parts]
        after, part = np.array(flat, dtype=np.float64).reshape(-1, 2).T
        many = parts[rule]
        source, rule, items = np.repeat(source, many), np.repeat(rule, many), np.repeat(items, many)
        number = np.arange(len(rule)) - np.repeat(np.cumsum(many) - many, many) + (np.cumsum(parts) - parts)[rule]
        (curve, numbers), found = index_of(curve_of[source], number)
        columns = [
            _column(losses[each], float(after[number]))
            for each, number in zip(curve.tolist(), numbers.tolist(), strict=True)
        ]
        column = np.array(columns, dtype=np.int64)[found]
        lent = np.maximum(1.0 - targets.late / after[number], 0.0)
        return cls(source, rule, column, items * part[number], lent, is_shared)

    def of_rules(self, rules: Ints, number: int) -> _Pairs:
        """Return the pairs of some rules, of ``number`` in all."""
        taken = np.zeros(number, dtype=np.bool_)
        taken[rules] = True
        some = taken[self.rule]
        source, rule, column = self.source[some], self.rule[some], self.column[some]
        return _Pairs(source, rule, column, self.items[some], self.lent[some], self.is_shared)


def _lower_prices(log_price: Floats, pairs: _Pairs, of_rule: Floats) -> Floats:
    """Return prices of which none is above those of the source's rules among ``pairs``."""
    lowered = log_price.copy()
    np.minimum.at(lowered, pairs.source, of_rule[pairs.rule])
    return lowered


def _column(losses: Losses, after: float) -> int:
    """Return the place of what is lost after a time among the losses of a curve.

    Where steps were merged it is the last step that is not later, so that the share in time is not overstated.
    """
    if after == inf or not losses.steps:
        return STEPS
    return max(sum(step.after <= after * _SAME for step in losses.steps) - 1, 0)
