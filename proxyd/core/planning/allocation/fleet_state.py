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
    """The sources that are probed for detection: the input of a plan of the week; shape (sources,) if not stated."""

    source_ids: Sequence[str]
    rate_per_s: Floats
    weights: Floats
    last_seen_s: Floats
    weeks: WeekShapes
    probes_per_s: float  # the part of the budget that is left for detection
    price_item_s: float = 0.0  # item-seconds that a probe must save even if the budget allows more
    importances: tuple[Floats, Ints] | None = None  # the cost of waiting by hour, (kinds, 168), and each source's kind
    slot_s: float = SLOT_S
    chronon_s: float = 0.0  # in which probes start; 0 if at any time
    trust: float = 1.0  # how much of the learned weeks to believe; the rest is taken as even
    cycle: Cycle = field(default_factory=Cycle)
    zone_s: Floats | None = None  # offset from UTC of the zone of each source's week
    doe: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)  # DOE's probes, and their seconds
    most_per_s: Floats | None = None  # of probes in each slot of the week, shape (slots,)
    slot_factor: Floats | None = None  # extra prices of the slots from the previous plan
    siblings: Siblings = field(default_factory=dict)  # passed on with the plan
    losses: tuple[Sequence[Losses], Ints] | None = None  # kinds, with lives in seconds, and each source's kind
    rules: Sequence[str] = ()  # those that have targets
    targets: FleetTargets | None = None  # what they ask for, with times in seconds
    even: NDArray[np.bool_] | None = None  # whose week is off, planned as if every hour were alike
    passing: Floats | None = None  # the part of the items that a rule counts; ``weights`` are multiplied by it
    host_of: Ints | None = None
    host_per_s: Floats | None = None  # how many probes each host takes, shape (hosts,)
    host_k: Floats | None = None  # how independently the sources of each host change (``rates.bursts``), (hosts,)
    together: float = 1.0  # how many sources change together, as ``rates.bursts.together`` finds it

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
