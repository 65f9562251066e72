"""The state of a fleet: the input of a plan of the week."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from proxyd.core.planning.allocation.prices import HostLimits
from proxyd.core.planning.allocation.targets import FleetTargets
from proxyd.core.planning.kernels.losses import Losses
from proxyd.core.rates.siblings import Siblings
from proxyd.core.rates.week_bins import Cycle
from proxyd.core.rates.week_shapes import WeekShapes

SLOT_S = 1800.0
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FleetState:
    """The input of a week plan: the present state of the sources that are probed for detection.

    Parameters
    ----------
    rate_per_s, weights, last_seen_s
        Items a second, importance, and time of the last sighting of each source, shape (sources,).
    weeks
        Shapes by hour of the week, and the index of the one that each source follows.
    probes_per_s
        The part of the budget that is left for detection.
    importances
        The cost of waiting by hour of the week, shape (kinds, 168), and each source's kind; ``None`` if it is even.
    price_item_s
        Item-seconds of delay that a probe must save even if the budget allows more.
    slot_s, chronon_s
        Length of the slots of the week, and of the chronons in which probes start, in seconds; 0 if at any time.
    trust
        How much of the learned weeks to believe, 0 to 1; the rest is taken as even.
    zone_s
        The offset from UTC of the zone in which each source's week is counted, in seconds, shape (sources,).
    doe
        The number of probes, and the seconds in which they are to be made, of each source's DOE rules.
    most_per_s
        The most probes a second in each slot of the week, shape (slots,); ``None`` if slots have no limit.
    slot_factor
        Extra prices of the slots from the previous plan.
    siblings
        Which sources change together; it is passed on with the plan.
    host_of, host_per_s
        The host of each source, shape (sources,), and how many probes a second each host takes, shape (hosts,);
        ``None`` if hosts have no limits.
    together
        How many sources change together, as ``rates.bursts.together`` finds it.
    host_k
        How independently the sources of each host change, shape (hosts,), as ``rates.bursts`` finds it; ``None`` if it
        is not known.
    losses
        What items lose while they wait, kind by kind: lives in seconds, and the part of a missed item's worth; and each
        source's kind. ``None`` if only the delay counts.
    rules, targets
        The rules that have targets, by name, and what they ask for, with times in seconds; ``None`` if the budget or
        the price alone decides.
    passing
        The part of each source's items that its rule counts, if that fires on every n-th, shape (sources,); ``None`` if
        all do. ``weights`` are multiplied by it.
    even
        Sources whose week is off, planned as if every hour were alike, shape (sources,), or ``None`` without any.
    """

    source_ids: Sequence[str]
    rate_per_s: Floats
    weights: Floats
    last_seen_s: Floats
    weeks: WeekShapes
    probes_per_s: float
    price_item_s: float = 0.0
    importances: tuple[Floats, Ints] | None = None
    slot_s: float = SLOT_S
    chronon_s: float = 0.0
    trust: float = 1.0
    cycle: Cycle = field(default_factory=Cycle)
    zone_s: Floats | None = None
    doe: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    most_per_s: Floats | None = None
    slot_factor: Floats | None = None
    siblings: Siblings = field(default_factory=dict)
    losses: tuple[Sequence[Losses], Ints] | None = None
    rules: Sequence[str] = ()
    targets: FleetTargets | None = None
    even: NDArray[np.bool_] | None = None
    passing: Floats | None = None
    host_of: Ints | None = None
    host_per_s: Floats | None = None
    host_k: Floats | None = None
    together: float = 1.0

    @property
    def shapes_to_plan_by(self) -> WeekShapes:
        """The shapes by which the sources are planned, as far as trusted; an even one for those whose week is off."""
        weeks = self.weeks.mix_with_even(self.trust)
        return weeks if self.even is None else weeks.with_even_weeks(self.even)

    @property
    def host_limits(self) -> HostLimits | None:
        """How many probes a slot of the cycle each host takes, or ``None`` without limits."""
        if self.host_of is None or self.host_per_s is None:
            return None
        return HostLimits(self.host_of, self.host_per_s / self.cycle.speed * self.slot_s)
