"""The plan of an epoch: first the rules' intervals, by deadline within the capacity, then detection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.allocation.probe_allocator import ProbeAllocator
from proxyd.core.planning.allocation.timetable import Ints
from proxyd.core.planning.capture.capacity import Capacity
from proxyd.core.planning.capture.earliest_deadline import edf
from proxyd.errors import SchedulingError


@dataclass(frozen=True, slots=True, eq=False)
class FleetPlan:
    """The planned probes, in order of slots.

    Parameters
    ----------
    sources
        Source numbers, shape (probes,).
    slots
        Slots, counted from unix time 0, shape (probes,).
    for_interval
        Whether a rule's interval asked for the probe; otherwise it is for detection, shape (probes,).
    captured, asked
        Number of intervals that the plan captures, and of all intervals.

    Examples
    --------
    >>> plan = FleetPlan(np.array([4, 2]), np.array([0, 1]), np.array([True, False]), captured=1, asked=1)
    >>> plan.sources[~plan.for_interval].tolist()
    [2]
    """

    sources: Ints
    slots: Ints
    for_interval: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    captured: int
    asked: int


def plan_epoch(
    planner: ProbeAllocator,
    capacity: Capacity,
    *,
    names: Sequence[str] = (),
    intervals: Iterable[ExecutionInterval] = (),
) -> FleetPlan:
    """Return the probes of an epoch if every source keeps its current rate; ``planner`` is not changed.

    Intervals are captured earliest deadline first, as many as the capacity allows. The rest of each slot goes to the
    sources that are due for detection; every probe also serves detection.

    Parameters
    ----------
    planner
        The planner; it must have prices.
    capacity
        Probes of each slot, counted from unix time 0.
    names
        The planner's sources, in its order; needed if there are intervals.
    intervals
        In slots, both ends included.

    Raises
    ------
    SchedulingError
        The planner has no prices, or an interval's source is not among ``names``.

    Notes
    -----
    Source: ``docs/decisions/planned-intervals.md``.

    Examples
    --------
    >>> from proxyd.core.model.chronon import Epoch
    >>> from proxyd.core.planning.allocation.probe_allocator import FleetDemand, FleetLimits, WeekGrid
    >>> rates = [8.0 / 86400.0, 2.0 / 86400.0]
    >>> demand = FleetDemand(WeekGrid(43200.0), np.ones((1, 14)), np.zeros(2, dtype=np.int64), rates, last_s=0.0)
    >>> planner = ProbeAllocator(demand, FleetLimits(probes_per_slot=1.0), now_s=0.0)
    >>> wanted = [ExecutionInterval("b", "r", 0, 0)]
    >>> plan = plan_epoch(planner, Capacity.constant(1, Epoch(0, 4)), names=["a", "b"], intervals=wanted)
    >>> plan.sources[0], plan.for_interval.tolist()[0], plan.captured
    (np.int64(1), True, 1)
    """
    copy, grid = deepcopy(planner), ChrononGrid(planner.grid.slot_s)
    asked = list(intervals)
    schedule = edf(asked, capacity)
    number = {name: index for index, name in enumerate(names)}
    unknown = {interval.source_id for interval in asked} - number.keys()
    if unknown:
        raise SchedulingError(f"{min(unknown)!r} has an interval but is not among the names")
    forced: dict[int, list[int]] = {}
    for name, slot in schedule.probes:
        forced.setdefault(slot, []).append(number[name])
    nothing = np.zeros(0, dtype=np.int64)
    sources, slots, reasons = [nothing], [nothing], [nothing.astype(np.bool_)]
    for slot, room in zip(capacity.epoch, capacity.probes.tolist(), strict=True):
        now_s = grid.start_s(slot)
        first = np.array(forced.get(slot, []), dtype=np.int64)
        copy.probed(first, copy.rate_per_s[first], now_s=now_s)
        rest = copy.choose(now_s, room - len(first))
        copy.probed(rest, copy.rate_per_s[rest], now_s=now_s)
        sources += [first, rest]
        slots.append(np.full(len(first) + len(rest), slot))
        reasons += [np.ones(len(first), dtype=np.bool_), np.zeros(len(rest), dtype=np.bool_)]
    return FleetPlan(
        np.concatenate(sources), np.concatenate(slots), np.concatenate(reasons), schedule.captured, len(asked)
    )
