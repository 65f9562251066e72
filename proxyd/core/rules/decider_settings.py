"""The settings of the decider."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.planning.planner_settings import PlannerSettings
from proxyd.core.rates.gamma_poisson import DEFAULT_MEAN_PER_S
from proxyd.core.rates.week_bins import Cycle


@dataclass(frozen=True, slots=True)
class DeciderSettings:
    """The settings that decisions depend on.

    Parameters
    ----------
    epoch_s
        How far the rolling plan looks ahead, and the interval between two layings of planned intervals, in seconds.
    source_spacing_s
        Least time between two probes of a source that sets no POLITENESS, in seconds.
    freshness_cap_s
        Longest time for which proxyd believes an origin that says that nothing changes, in seconds.
    subscribes
        Whether hubs can reach the daemon; if not, no source is subscribed to.
    cycle
        The cycle in the sources' rates: the week.
    throttle_scope
        Maps a host to the scope that a throttle of it silences; by default only the host.
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
