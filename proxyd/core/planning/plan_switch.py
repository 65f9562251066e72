"""Takes over a plan of the week in parts, between which other work continues."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from proxyd.core.model.chronon import Chronon
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.chunks import Chunked
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.queue.planned_source import PlannedSource


def switch_plan(planner: Planner, week: WeekPlan, now: Chronon) -> Chunked[None]:
    """Detect by a new plan of the week, once it has caught up with the probes made while it was computed.

    Until then the old plan holds. From then on a source that was not rescheduled yet may wake at the time of the old
    plan, too early or late, but it is due by the new one; so no probe is made twice, and none is lost.

    Examples
    --------
    >>> from proxyd.core.rates.week_shapes import WeekShapes
    >>> from proxyd.core.model.chronon import ChrononGrid
    >>> from proxyd.core.model.chronon import Budget
    >>> from proxyd.core.planning.chunks import run_all
    >>> from proxyd.core.planning.queue.planner_settings import PlannerSettings
    >>> from proxyd.core.planning.allocation.fleet_state import FleetState
    >>> even = WeekShapes(np.ones((1, 168)), np.zeros(1, dtype=np.int64))
    >>> week = WeekPlan.of(FleetState(("a",), np.array([1e-4]), np.ones(1), np.zeros(1), even, probes_per_s=1e-3))
    >>> planner = Planner(PlannerSettings(ChrononGrid(10.0), Budget(1.0)))
    >>> run_all(switch_plan(planner, week, 0))
    >>> planner.week is week
    True
    """
    planner.announce(week)
    for sources in planner.in_parts():
        for source in _behind(week, sources):
            source.follow(week)
        yield  # before the next part is looked up: sources may come and go meanwhile
    planner.change_to(week)
    for sources in planner.in_parts():
        _reschedule(planner, week, sources, now)
        yield


def _behind(week: WeekPlan, sources: Sequence[PlannedSource]) -> list[PlannedSource]:
    """Return the sources that changed since the plan was made."""
    seen = [source for source in sources if source.last_seen_s is not None]
    told = np.array(
        [(source.rate_per_s, source.weight_at_price, source.last_seen_s) for source in seen], dtype=np.float64
    )
    behind = week.behind([source.source_id for source in seen], told.reshape(len(seen), 3))
    return [source for source, is_behind in zip(seen, behind.tolist(), strict=True) if is_behind]


def _reschedule(planner: Planner, week: WeekPlan, sources: Sequence[PlannedSource], now: Chronon) -> None:
    """Reschedule sources by the new plan; those seen before that only detect are looked up in it together."""
    grid, plain, allowed_s = planner.settings.grid, list[PlannedSource](), list[float]()
    for source in sources:
        at_s = source.earliest_start_s()
        is_plain = source.demands.only_detects and source.window is None and not source.hidden and at_s < inf
        if not is_plain or source.asked is not None or source.is_pushed(grid.start_s(now)):
            planner.reschedule(source.source_id, now)
        elif source.last_seen_s is not None:
            plain.append(source)
            allowed_s.append(at_s)
    dues_s = week.dues_s([source.source_id for source in plain]).tolist()
    for source, at_s, due_s in zip(plain, allowed_s, dues_s, strict=True):
        if due_s < inf:
            planner.queues.sleep(source, max(now, grid.chronon_at(at_s), grid.chronon_at(due_s)))
        else:  # the plan does not know the source, or never wants it
            planner.reschedule(source.source_id, now)
    planner.wake_due(now)  # a scarce budget lets thousands be due at once
