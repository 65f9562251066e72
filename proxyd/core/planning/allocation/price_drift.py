"""The prices of targets between two plans: they fall with the rates of the sources that they were found for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from proxyd.core.planning.allocation.prices import Prices
from proxyd.core.planning.allocation.timetable import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class PriceDrift:
    """The present prices of sources, from those of the plan and what became of the rates since.

    A source is probed as often as its price over its rate says, and the share of its items in time depends on that
    alone. If the sources of a target become slower together, an unchanged price would soon be too high: past the life
    of their items, a probe does not pay at all. So the price of a target falls with the sum of the rates of the sources
    that it binds. It does not rise with them, because one source that floods would stop the probes of the others. What
    budget and hosts ask for does not change.

    Parameters
    ----------
    prices
        Those of the plan.
    group_of
        Sources whose prices were found together have the same number, shape (sources,).
    planned, present
        The sum of the rates of each group in the plan, and now, in items a slot times weight, shape (groups,).

    Notes
    -----
    Source: ``docs/decisions/targets.md``.

    Examples
    --------
    >>> least, held = np.array([8.0, 8.0, 2.0]), np.array([1.0, 1.0, 3.0])
    >>> prices = Prices(1.0, 1.0, least, np.maximum(least, held), least, held)
    >>> drift = PriceDrift.of(prices, np.array([0, 0, 1]), np.ones(3))
    >>> drift.follow(0, 1.0, 0.5)
    >>> drift.price(0), drift.price(1), drift.price(2), drift.prices_of(np.arange(3)).tolist()
    (6.0, 6.0, 3.0, [6.0, 6.0, 3.0])
    """

    prices: Prices
    group_of: Ints
    planned: Floats
    present: Floats

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
