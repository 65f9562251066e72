"""SUP and fbSUP, chronon by chronon: intervals planned for every page and rule, and repaired by feedback."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Protocol, TypeAlias

import numpy as np

from proxyd.core.model.chronon import Chronon, ChrononGrid
from proxyd.core.planning.capture.spans import Ints
from proxyd.core.planning.policies.expected_intervals import FiringPattern, PlannedInterval

Ahead: TypeAlias = Callable[[int, float], PlannedInterval | None]
"""The expected interval of an item, by its number (from 1) counted from a time in unix seconds."""

_NEVER = 2**62
_LATE = 0.999  # of a chronon: probes come just before its end


class Demand(Protocol):
    """A rule's demand on a page, followed over time; the daemon's ``IntervalDemand`` is one.

    Examples
    --------
    >>> from proxyd.core.planning.policies.sup import IntervalDemand
    >>> demand: Demand = IntervalDemand("r", FiringPattern(), None, feedback=True, grid=ChrononGrid(1.0))
    >>> demand.rule
    'r'
    """

    @property
    def rule(self) -> str:
        """The rule's name."""

    @property
    def firing(self) -> FiringPattern:
        """When the rule fires."""

    @property
    def rate_per_s(self) -> float:
        """The rate that its intervals follow; meaningless unless the model is a constant rate."""

    def pending(self, now: Chronon) -> PlannedInterval | None:
        """Return the uncaught interval that ends first, not before ``now``; ``None`` if no more are planned."""

    def probed(self, chronon: Chronon) -> None:
        """Record that the page is probed at ``chronon``."""

    def observed(self, now_s: float, *, rate_per_s: float, count: int, fired: bool) -> None:
        """Record the stream's new count, and whether the rule fired."""


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
    >>> demand = ModelDemand("r", FiringPattern(), ahead, feedback=False, grid=grid)
    >>> demand.pending(0), demand.probed(4), demand.pending(5)
    (PlannedInterval(start=2, deadline=4), None, PlannedInterval(start=5, deadline=9))
    """

    rule: str
    firing: FiringPattern
    ahead: Ahead
    feedback: bool
    grid: ChrononGrid
    anchor_s: float = 0.0
    unmet: int = 0
    rate_per_s: float = 0.0
    _k: int = 1
    _extra: PlannedInterval | None = None

    def pending(self, now: Chronon) -> PlannedInterval | None:
        """Return the uncaught interval that ends first; those that ended before ``now`` count as unmet."""
        planned = self._pass_by(now)
        if self._extra is not None and self._extra.deadline < now:
            self._extra = None
        if self._extra is not None and (planned is None or self._extra.deadline < planned.deadline):
            return self._extra
        return planned

    def probed(self, chronon: Chronon) -> None:
        """Record that the page is probed at ``chronon``: intervals that contain it are caught."""
        while (planned := self._pass_by(chronon)) is not None and planned.start <= chronon:
            self._k += 1
        if self._extra is not None and self._extra.start <= chronon:
            self._extra = None

    def observed(self, now_s: float, *, rate_per_s: float, count: int, fired: bool) -> None:
        """Record what a probe found; the model does not change, so ``rate_per_s`` is not used."""
        if not self.feedback or fired:
            return
        interval = self.ahead(self.firing.items_to_next(count), now_s)
        if interval is None:
            return
        planned = self.pending(self.grid.chronon_at(now_s) + 1)
        if planned is None or not interval.start <= planned.deadline <= interval.deadline:
            self._extra = interval

    def _pass_by(self, now: Chronon) -> PlannedInterval | None:
        while (planned := self._planned()) is not None and planned.deadline < now:
            self._k += 1
            self.unmet += 1
        return planned

    def _planned(self) -> PlannedInterval | None:
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


@dataclass(slots=True)
class FeedbackSup:
    """Probes each page at the last chronon of its interval that ends first; the demands repair themselves.

    It is fbSUP if the demands have ``feedback``, otherwise SUP. There is no budget: every due page is probed.

    Parameters
    ----------
    demands
        By page and rule: the daemon's ``IntervalDemand`` for constant rates, anchored with count 0, or ``ModelDemand``.

    Notes
    -----
    Source: Roitman et al., Algorithms 1 and 2. The demands decide, as in the daemon, what a probe catches and whether
    missing items need an interval of their own. Probes come at the end of their chronon.

    Examples
    --------
    >>> from proxyd.core.planning.policies.sup import IntervalDemand
    >>> grid = ChrononGrid(1.0)
    >>> demand = IntervalDemand("r", FiringPattern(2), None, feedback=True, grid=grid)
    >>> demand.anchor(0.0, rate_per_s=0.1, count=0)
    >>> policy = FeedbackSup({("page", "r"): demand}, grid)
    >>> [chronon for chronon in range(40) if policy.choose(chronon)]
    [29]
    >>> policy.observe(29, "page", 1)
    >>> [chronon for chronon in range(30, 60) if policy.choose(chronon)]
    [48]
    """

    demands: Mapping[tuple[str, str], Demand]
    grid: ChrononGrid
    _counts: dict[tuple[str, str], int] = field(default_factory=dict)
    _of_page: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: defaultdict(list))
    _due: list[tuple[Chronon, str]] = field(default_factory=list)
    _wake: dict[str, Chronon] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key in self.demands:
            self._of_page[key[0]].append(key)
            self._counts[key] = 0
        self._due = [(-_NEVER, page) for page in sorted(self._of_page)]
        self._wake = dict.fromkeys(self._of_page, -_NEVER)

    def choose(self, now: Chronon) -> tuple[str, ...]:
        """Return the pages to probe at ``now``, sorted, and record them as probed; ``now`` must not decrease."""
        chosen = set()
        while self._due and self._due[0][0] <= now:
            at, page = heappop(self._due)
            if at != self._wake[page]:
                continue
            due = self._next(page, now)
            if due is not None and due <= now:
                chosen.add(page)
                for key in self._of_page[page]:
                    self.demands[key].probed(now)
                due = self._next(page, now + 1)
            self._sleep(page, due)
        return tuple(sorted(chosen))

    def observe(self, now: Chronon, page: str, new_items: int) -> None:
        """Record the number of new items that the probe of ``page`` at ``now`` found."""
        for key in self._of_page[page]:
            demand, before = self.demands[key], self._counts[key]
            self._counts[key] = before + new_items
            demand.observed(
                self.grid.start_s(now) + _LATE * self.grid.length_s,
                rate_per_s=demand.rate_per_s,
                count=before + new_items,
                fired=demand.firing.items_to_next(before) <= new_items,
            )
        self._sleep(page, self._next(page, now + 1))

    def _next(self, page: str, now: Chronon) -> Chronon | None:
        """Return the first deadline among the page's demands."""
        found = [interval.deadline for key in self._of_page[page] if (interval := self.demands[key].pending(now))]
        return min(found, default=None)

    def _sleep(self, page: str, due: Chronon | None) -> None:
        self._wake[page] = _NEVER if due is None else due
        if due is not None:
            heappush(self._due, (due, page))
