"""The settings of a planner for the whole fleet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from proxyd.core.model.chronon import DEFAULT_TARGET, Budget, Chronon, ChrononGrid, Target
from proxyd.core.planning.kernels.losses import MISSED_S
from proxyd.core.politeness import PolitenessBudget

DEFAULT_PRICE_ITEM_S = 360.0
"""The price by which sources are due before the first plan of a budget that is spent."""


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """The settings for the whole fleet.

    Parameters
    ----------
    spend
        Use the whole budget (OptMon1) instead of stopping when a probe saves less than its price (OptMon2).
    price_item_s
        Item-seconds of delay that a detection probe must save; ``None`` if the targets of the rules decide, or the
        budget if all of it is spent.
    default_share
        The target of a rule that has a life and no target, 0 to 1.
    default_target
        The target of a rule without a life, with its time in seconds.
    host_spacing_s
        Least time between the starts of two probes of a host, in seconds.
    safety_s
        Time between two probes of a source whose hub pushes, in seconds.
    overflow
        The accepted probability that items slide off a feed unseen before its next probe. Probes are made earlier to
        keep to it; 1 disables this.
    first_day_s
        How long after its first contact a new source is probed often, unless it shows two new items before; 0 for no
        such probes.
    missed_s
        The waiting that counts as much as an item that is missed, in seconds.
    host_probes, host_window_s
        Most probes of a host in each such time, in seconds; ``None`` if their number is not limited.
    """

    grid: ChrononGrid
    budget: Budget
    budget_zone: ZoneInfo | None = None
    spend: bool = False
    price_item_s: float | None = DEFAULT_PRICE_ITEM_S
    default_share: float = 0.9
    default_target: Target = DEFAULT_TARGET
    missed_s: float = MISSED_S
    host_spacing_s: float = 1.0
    safety_s: float = 21600.0
    overflow: float = 0.01
    host_probes: int | None = None
    host_window_s: float = 0.0
    first_day_s: float = 0.0

    @property
    def has_targets(self) -> bool:
        """Whether probes are made until the targets of the rules are met, and no more."""
        return not self.spend and self.price_item_s is None

    def capacity(self, chronon: Chronon) -> int:
        """Return ``C_j``, the most probes that may start in a chronon."""
        return self.budget.capacity(chronon, self.grid, self.budget_zone)

    def next_room(self, chronon: Chronon, stop: Chronon) -> Chronon:
        """Return the first chronon from ``chronon`` on whose budget allows a probe; ``stop`` if none before it does."""
        return self.budget.next_room(chronon, stop, self.grid, self.budget_zone)

    def spare_per_s(self, times_s: Iterable[float], asked_per_s: float) -> list[float]:
        """Return the budget left at each time by intervals and counted probes; at least a tenth of it."""
        most = (self.budget.rate_per_s(time_s, self.budget_zone) for time_s in times_s)
        return [max(0.1 * per_s, per_s - asked_per_s) for per_s in most]

    @property
    def host_budget(self) -> PolitenessBudget:
        """The politeness budget of every host."""
        return PolitenessBudget(self.host_spacing_s, self.host_probes, self.host_window_s)
