"""The demand for probes of a fleet, and the limits of what it may get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from proxyd.core.errors import InvalidScheduleError
from proxyd.core.planning.allocation.prices import HostLimits
from proxyd.core.planning.allocation.targets import FleetTargets
from proxyd.core.planning.allocation.timetable import Floats, Ints
from proxyd.core.planning.kernels.golden_turns import turns
from proxyd.core.planning.kernels.losses import Losses
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S

_SAMPLE = 10_000  # number of sources that represent a larger fleet in the search for the slots' prices


@dataclass(frozen=True, slots=True)
class WeekGrid:
    """The slots of a week, from Monday 00:00 UTC, in which plans are made; a week must be a whole number of them."""

    slot_s: float

    def __post_init__(self) -> None:
        if not 0 < self.slot_s <= WEEK_S or abs(WEEK_S / self.slot_s - round(WEEK_S / self.slot_s)) > 1e-9:
            raise InvalidScheduleError(f"a week is not a whole number of slots of {self.slot_s:g} s; try 1800 s")

    @property
    def slots(self) -> int:
        """Number of slots in a week."""
        return round(WEEK_S / self.slot_s)

    def slot_at(self, time_s: float) -> int:
        """Return the slot of the week at a unix time."""
        return int((time_s - MONDAY_S + 1e-6) // self.slot_s) % self.slots


@dataclass(frozen=True, eq=False)
class FleetLimits:
    """The limits of the fleet."""

    probes_per_slot: float  # the budget, as an average
    capacity: Floats | None = None  # most probes in each slot of the week, shape (slots,)
    hosts: HostLimits | None = None
    spacing_s: float = 0.0  # least time between two probes of a source
    # The least delay that a probe must save, in item-slots: above the budget's price, part of the budget is not spent.
    least_price: float = 0.0
    targets: FleetTargets | None = None  # only the probes that this takes are made; ``None`` if the budget decides

    def sample(self, sources: int) -> _Sample:
        """Return some thousand of the sources, evenly chosen, and their share of the limits."""
        every = max(1, sources // _SAMPLE)
        # Choose by the golden ratio, not every k-th source, because the order of sources may repeat with any period.
        taken = np.flatnonzero(turns(np.arange(sources)) < 1 / every)
        hosts = self.hosts and self.hosts.sample(taken)
        capacity = np.inf if self.capacity is None else self.capacity / every
        targets = self.targets and self.targets.sample(taken)
        limits = replace(self, probes_per_slot=self.probes_per_slot / every, hosts=hosts, targets=targets)
        return _Sample(taken, np.asarray(capacity), limits)


@dataclass(frozen=True, eq=False)
class _Sample:
    taken: Ints
    capacity: Floats
    limits: FleetLimits


@dataclass(frozen=True, slots=True, eq=False)
class FleetDemand:
    """The sources that share a budget, in their state when prices are found; shape (sources,) if not stated."""

    grid: WeekGrid
    shapes: Floats  # week shapes by slot, shape (shapes, slots)
    shape_of: Ints
    rate_per_s: ArrayLike  # items a second
    last_s: ArrayLike  # the last probes: one time for all, or one each
    weights: Floats | None = None
    importance: Floats | None = None  # the cost of waiting by slot, shape (slots,), or by shape, (shapes, slots)
    phase_s: Floats | None = None  # how much later the slots of each source begin: probes of a slot are spread over it
    slot_factor: Floats | None = None  # extra price of each slot from an earlier plan, which saves rounds; (slots,)
    losses: Sequence[Losses] = ()  # of the items of each shape, besides their delay
