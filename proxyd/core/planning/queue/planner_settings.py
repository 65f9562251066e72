"""The settings of a planner for the whole fleet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from proxyd.core.model.chronon import DEFAULT_TARGET, Budget, Chronon, ChrononGrid, Target
from proxyd.core.planning.kernels.losses import MISSED_S
from proxyd.core.politeness.host_budgets import PolitenessBudget

DEFAULT_PRICE_ITEM_S = 360.0
"""The price by which sources are due before the first plan of a budget that is spent."""

OTHERS_PART = 0.1
"""The part of the budget that probes at fixed times leave to others, if there are any."""


@dataclass(frozen=True, slots=True)
class PlannerSettings:
    """The settings of the planner for the whole fleet."""

    grid: ChrononGrid
    budget: Budget
    budget_zone: ZoneInfo | None = None
    spend: bool = False  # the whole budget (OptMon1), instead of what probes are worth (OptMon2)
    # Item-seconds that a detection probe must save; ``None`` if targets decide, or the budget if all of it is spent.
    price_item_s: float | None = DEFAULT_PRICE_ITEM_S
    default_share: float = 0.9  # the target of a rule that has a life and no target
    default_target: Target = DEFAULT_TARGET  # of a rule without a life
    missed_s: float = MISSED_S  # the waiting that counts as much as an item that is missed
    host_spacing_s: float = 1.0
    safety_s: float = 21600.0  # between two probes of a source whose hub pushes
    overflow: float = 0.01  # accepted probability that items slide off a feed unseen; 1 disables probes against it
    host_probes: int | None = None
    host_window_s: float = 0.0
    first_day_s: float = 0.0  # how long a new source is probed often, after an hour only until two new items

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
        return [max(OTHERS_PART * per_s, per_s - asked_per_s) for per_s in most]

    def is_overdrawn(self, asked_per_s: float) -> bool:
        """Return whether fixed times ask for more probes a second than others leave them; then these come late."""
        return asked_per_s > (1.0 - OTHERS_PART) * self.budget.mean_per_s

    @property
    def host_budget(self) -> PolitenessBudget:
        """The politeness budget of every host."""
        return PolitenessBudget(self.host_spacing_s, self.host_probes, self.host_window_s)
