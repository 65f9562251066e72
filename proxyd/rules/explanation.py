"""What the decider is set up with, what it asks for, and how it explains itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

from proxyd.estimation import DEFAULT_MEAN_PER_S, Cycle
from proxyd.model.chronon import ChrononGrid
from proxyd.model.profile import Source
from proxyd.rules.estimates import Misfit
from proxyd.rules.programs import RuleProgram
from proxyd.rules.state import SourceState
from proxyd.rules.subscriptions import Subscription
from proxyd.scheduling import PlannedProbe, PlannerSettings


@dataclass(frozen=True, slots=True)
class DeciderSettings:
    """What every decision depends on.

    Parameters
    ----------
    epoch_s
        How far the rolling plan looks ahead, and how often planned intervals are laid anew, in seconds.
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


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a source is probed when it is; times in unix seconds, the rate in items a day.

    ``unmet_intervals`` counts planned intervals that ended without a probe, since they were last laid.
    ``price_item_s`` is the delay that a probe for detection must save, in item-seconds, where there is a price; it is
    higher than ``fleet_price_item_s`` where the limit of its host binds. ``week`` holds the factors of the rate by
    hour of the week, once that is planned. ``misfit`` says what is off with its model. In four of five cases the rate
    lies in ``rate_range_per_day``. ``policies`` holds for each rule its policy and why it is that one, ``intervals``
    the one it expects next (start and end) where it expects any, ``host_free_s`` when the budget of its host lets a
    probe start, ``fresh_until_s`` before when the origin says that nothing changes.
    """

    source_id: str
    url: str
    rate_per_day: float
    next_probe: PlannedProbe | None
    blocked_by: str | None
    earliest_s: float | None
    rules: tuple[str, ...]
    postponed: Mapping[str, int]
    unmet_intervals: int
    state: SourceState
    moved_url: str | None = None
    subscription: Subscription | None = None
    price_item_s: float | None = None
    fleet_price_item_s: float | None = None
    week: tuple[float, ...] = ()
    misfit: Misfit | None = None
    rate_range_per_day: tuple[float, float] = (0.0, inf)
    policies: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    host_free_s: float | None = None
    fresh_until_s: float | None = None

    @property
    def is_host_bound(self) -> bool:
        """Whether its host bears fewer probes than its sources are worth: only another limit lets it be asked more."""
        return (self.price_item_s or 0.0) > (self.fleet_price_item_s or inf) * (1.0 + 1e-9)


@dataclass(frozen=True, slots=True)
class Backlog:
    """A new stream whose START lies in the past of a source already known.

    The stored items numbered before ``before_seq`` are to be run through it; later ones reach it by themselves.
    """

    program: RuleProgram
    source: Source
    before_seq: int
