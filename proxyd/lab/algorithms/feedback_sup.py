"""SUP and fbSUP for update models without a constant rate: intervals planned for a page, and repaired by feedback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from proxyd.core.model.arrays import Ints
from proxyd.core.model.chronon import Chronon, ChrononGrid
from proxyd.core.planning.policies.rule_demand import FiringPattern, PlannedInterval

Ahead: TypeAlias = Callable[[int, float], PlannedInterval | None]
"""The expected interval of an item, by its number (from 1) counted from a time in unix seconds."""


@dataclass(slots=True)
class ModelDemand:
    """The demand of an update model without a constant rate, such as a week's rates or known update times.

    It plans and repairs as ``IntervalDemand`` does, which computes its intervals from a single rate. If ``ahead`` is
    that of a constant rate and intervals are disjoint, both plan the same probes. If windows overlap, one probe
    catches all that contain it here.

    Parameters
    ----------
    ahead
        The update model; see ``known_updates``.
    feedback
        Whether a probe that found too few items adds an interval for the missing ones.
    anchor_s
        Start of the static plan, in unix seconds.

    Notes
    -----
    Source: Roitman et al., Algorithms 1 and 2.

    Examples
    --------
    >>> grid = ChrononGrid(1.0)
    >>> ahead = known_updates(np.array([2, 5]), life=None, last=9, grid=grid)
    >>> demand = ModelDemand(FiringPattern(), ahead, feedback=False, grid=grid)
    >>> demand.pending(0), demand.note_probe(4), demand.pending(5)
    (PlannedInterval(start=2, deadline=4), None, PlannedInterval(start=5, deadline=9))
    """

    firing: FiringPattern
    ahead: Ahead
    feedback: bool
    grid: ChrononGrid
    anchor_s: float = 0.0
    _k: int = 1
    _extra: PlannedInterval | None = None

    def pending(self, now: Chronon) -> PlannedInterval | None:
        """Return the uncaught interval that ends first, not before ``now``; ``None`` if no more are planned."""
        planned = self._pass_by(now)
        if self._extra is not None and self._extra.deadline < now:
            self._extra = None
        if self._extra is not None and (planned is None or self._extra.deadline < planned.deadline):
            return self._extra
        return planned

    def note_probe(self, chronon: Chronon) -> None:
        """Record that the page is probed at ``chronon``: intervals that contain it are caught."""
        while (planned := self._pass_by(chronon)) is not None and planned.start <= chronon:
            self._k += 1
        if self._extra is not None and self._extra.start <= chronon:
            self._extra = None

    def observe_probe(self, now_s: float, *, count: int, fired: bool) -> None:
        """Record what a probe found."""
        if not self.feedback or fired:
            return
        interval = self.ahead(self.firing.items_to_next(count), now_s)
        if interval is None:
            return
        planned = self.pending(self.grid.chronon_at(now_s) + 1)
        if planned is None or not interval.start <= planned.deadline <= interval.deadline:
            self._extra = interval

    def _pass_by(self, now: Chronon) -> PlannedInterval | None:
        while (planned := self._next_interval()) is not None and planned.deadline < now:
            self._k += 1
        return planned

    def _next_interval(self) -> PlannedInterval | None:
        return self.ahead(self.firing.items_to_next(0, self._k), self.anchor_s)


def known_updates(updates: Ints, *, life: int | None, last: Chronon, grid: ChrononGrid) -> Ahead:
    """Return the model of updates at known chronons, one item each: the paper's FPN.

    Parameters
    ----------
    updates
        Chronons, ascending.
    life
        ``None`` for *overwrite*, else the window in chronons.
    last
        Last chronon of the epoch, which no interval outlasts.

    Examples
    --------
    >>> ahead = known_updates(np.array([2, 5, 9]), life=None, last=20, grid=ChrononGrid(1.0))
    >>> ahead(1, 0.0), ahead(2, 2.9), ahead(3, 2.9)
    (PlannedInterval(start=2, deadline=4), PlannedInterval(start=9, deadline=20), None)
    """
    chronons = np.asarray(updates, dtype=np.int64)

    def ahead(items: int, from_s: float) -> PlannedInterval | None:
        # an item expected in the probe's own chronon has come by its end
        begin = grid.chronon_at(from_s) + (from_s > grid.start_s(grid.chronon_at(from_s)))
        at = int(np.searchsorted(chronons, begin, side="left")) + items - 1
        if at >= len(chronons):
            return None
        start = int(chronons[at])
        following = int(chronons[at + 1]) if at + 1 < len(chronons) else last + 1
        return PlannedInterval(start, max(start, following - 1) if life is None else min(start + life, last))

    return ahead
