"""What the decider is set up with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.planning.planner_settings import PlannerSettings
from proxyd.core.rates.gamma_poisson import DEFAULT_MEAN_PER_S
from proxyd.core.rates.week_bins import Cycle


@dataclass(frozen=True, slots=True)
class DeciderSettings:
    """What every decision depends on.

    Parameters
    ----------
    epoch_s
        How far the rolling plan looks ahead, and how often planned intervals are laid again, in seconds.
    source_spacing_s
        Least time between two probes of a source that sets no POLITENESS, in seconds.
    freshness_cap_s
        Longest time for which an origin's word is taken that nothing changes, in seconds.
    subscribes
        Whether hubs can reach the daemon; without it no source is subscribed to.
    cycle
        What repeats in the sources' rates: the week.
    throttle_scope
        From a host to what a throttle of it silences; by default the host alone.
    """

    planner: PlannerSettings
    epoch_s: float = 604800.0
    source_spacing_s: float = 300.0
    freshness_cap_s: float = 21600.0
    prior_mean_per_s: float = DEFAULT_MEAN_PER_S
    subscribes: bool = False
    throttle_scope: Callable[[str], str] = str
    cycle: Cycle = field(default_factory=Cycle)

    @property
    def grid(self) -> ChrononGrid:
        """The chronons."""
        return self.planner.grid
