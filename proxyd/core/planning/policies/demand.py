"""The demand of one rule on one source over time: intervals to hit, fixed probes, or detection."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from math import inf
from typing import TypeVar

import numpy as np
from scipy.special import gammainc

from proxyd.core.model.chronon import Chronon, ChrononGrid, Epoch
from proxyd.core.model.target import Target
from proxyd.core.planning.allocation.losses import NO_LOSSES, Losses
from proxyd.core.planning.counted_events import CountedRule, ItemsLine
from proxyd.core.planning.policies.expected_intervals import FiringPattern, PlannedInterval, expected_interval
from proxyd.core.planning.policies.frequency_demand import PacedDemand
from proxyd.core.politeness import ProbeLog

T = TypeVar("T")
_RATE_CHANGE = 2.0  # planned intervals are laid again when the rate has changed by this factor


@dataclass(slots=True)
class IntervalDemand:
    """SUP and fbSUP: one probe inside each expected interval of the rule.

    Intervals follow from the rate and the count at the anchor, as in the papers' static plan. ``anchor`` lays them
    again at every epoch. With ``feedback``, a probe that found too few items adds an interval for the missing items,
    unless a planned one already covers it.

    Notes
    -----
    Source: Roitman et al., Algorithms 1 and 2.

    Examples
    --------
    An item every 100 s, life *overwrite*: the first interval ends one chronon before the second item.

    >>> demand = IntervalDemand("r", FiringPattern(), None, feedback=False, grid=ChrononGrid(10.0))
    >>> demand.anchor(0.0, rate_per_s=0.01, count=0)
    >>> demand.pending(0)
    PlannedInterval(start=10, deadline=19)
    >>> demand.probed(19)
    >>> demand.pending(20).start
    20
    """

    rule: str
    firing: FiringPattern
    life_s: float | None
    feedback: bool
    grid: ChrononGrid
    anchor_s: float = 0.0
    rate_per_s: float = 0.0
    count: int = 0
    asked_rate_per_s: float = 0.0
    _k: int = 1
    _extra: PlannedInterval | None = None
    unmet: int = 0

    def asks_the_same(self, other: IntervalDemand) -> bool:
        """Whether ``other`` is the same demand, regardless of where either is anchored."""
        return (self.rule, self.firing, self.life_s, self.feedback) == (
            other.rule,
            other.firing,
            other.life_s,
            other.feedback,
        )

    def anchor(self, now_s: float, *, rate_per_s: float, count: int) -> None:
        """Lay the intervals again from ``now_s`` with the present rate and count."""
        self.anchor_s, self.rate_per_s, self.count = now_s, self._useful(rate_per_s), count
        self.asked_rate_per_s = rate_per_s
        self._k, self._extra = 1, None

    def pending(self, now: Chronon) -> PlannedInterval:
        """Return the uncaught interval that ends first; those that ended before ``now`` are counted as unmet."""
        planned = self._pass_by(now)
        if self._extra is not None and self._extra.deadline < now:
            self._extra = None
        if self._extra is not None and self._extra.deadline < planned.deadline:
            return self._extra
        return planned

    def upcoming(self, epoch: Epoch) -> list[PlannedInterval]:
        """Return the uncaught intervals that end in an epoch and begin in it or are open at its start."""
        found, k = [], self._k
        if self.rate_per_s > 0:
            while (planned := self._planned(k)).deadline < epoch.stop:
                k += 1
                if planned.deadline >= epoch.start:
                    found.append(planned)
        if self._extra is not None and epoch.start <= self._extra.deadline < epoch.stop:
            found.append(self._extra)
        return found

    def probed(self, chronon: Chronon) -> None:
        """Note that the source is probed at ``chronon``; intervals that contain it are caught."""
        if self._pass_by(chronon).start <= chronon:
            self._k += 1
        if self._extra is not None and self._extra.start <= chronon:
            self._extra = None

    def observed(self, now_s: float, *, rate_per_s: float, count: int, fired: bool) -> None:
        """Take in the result of a probe: ``count`` is the stream's new count, ``fired`` whether the rule fired."""
        if not self.feedback or fired or rate_per_s <= 0:
            return
        interval = expected_interval(
            self.firing.items_to_next(count),
            anchor_s=now_s,
            rate_per_s=self._useful(rate_per_s),
            life_s=self.life_s,
            grid=self.grid,
        )
        planned = self.pending(self.grid.chronon_at(now_s) + 1).deadline
        if not interval.start <= planned <= interval.deadline:
            self._extra = interval

    def follow(self, now_s: float, *, rate_per_s: float, count: int, fired: bool) -> None:
        """Take in a probe and the new rate; if that has moved far since the anchor, lay the intervals again first."""
        asked = self.asked_rate_per_s
        if not asked <= rate_per_s * _RATE_CHANGE or not rate_per_s <= asked * _RATE_CHANGE:
            self.anchor(now_s, rate_per_s=rate_per_s, count=count)
        self.observed(now_s, rate_per_s=rate_per_s, count=count, fired=fired)

    def renew(self, now_s: float, *, rate_per_s: float, count: int) -> None:
        """Lay the intervals again if one has ended since the anchor; one still to come must not be postponed."""
        if self._k > 1:
            self.anchor(now_s, rate_per_s=rate_per_s, count=count)

    @property
    def next_k(self) -> int:
        """The number of the next interval since the anchor, from 1."""
        return self._k

    @property
    def extra_s(self) -> tuple[float, float] | None:
        """When the interval that feedback added begins, and when its last chronon does, in unix seconds."""
        extra = self._extra
        return None if extra is None else (self.grid.start_s(extra.start), self.grid.start_s(extra.deadline))

    @property
    def has_feedback(self) -> bool:
        """Whether the next interval comes from feedback."""
        return self._extra is not None and self._extra.deadline < self._planned(self._k).deadline

    def _useful(self, rate_per_s: float) -> float:
        """Return the rate, limited to one firing a chronon, because nothing finer can be planned."""
        return min(rate_per_s, self.firing.every / self.grid.length_s)

    def _pass_by(self, now: Chronon) -> PlannedInterval:
        """Count the intervals that ended before ``now`` as unmet, in one step, and return the next one."""
        elapsed_s = self.grid.start_s(now) - (self.life_s or 0.0) - self.anchor_s
        ended = (elapsed_s * self.rate_per_s - self.firing.items_to_next(self.count) - 1) / self.firing.every
        if ended > self._k + 1:
            self.unmet += int(ended) - self._k
            self._k = int(ended)
        while (planned := self._planned(self._k)).deadline < now:
            self._k += 1
            self.unmet += 1
        return planned

    def _planned(self, k: int) -> PlannedInterval:
        return expected_interval(
            self.firing.items_to_next(self.count, k),
            anchor_s=self.anchor_s,
            rate_per_s=self.rate_per_s,
            life_s=self.life_s,
            grid=self.grid,
        )


def _copies(demands: Sequence[T]) -> tuple[T, ...]:
    return tuple(copy(demand) for demand in demands)


@dataclass(slots=True)
class FixedDemand:
    """UNIFORM: a probe every ``period`` chronons; any probe since the last due one serves.

    Examples
    --------
    >>> fixed = FixedDemand("r", period=5, next_due=0)
    >>> fixed.probed(1)
    >>> fixed.pending(2)
    PlannedInterval(start=5, deadline=9)
    """

    rule: str
    period: int
    next_due: Chronon

    def pending(self, now: Chronon) -> PlannedInterval:
        """Return the chronons in which the next probe is wanted; a missed period is not made up for."""
        if now >= self.next_due + self.period:
            self.next_due += (now - self.next_due) // self.period * self.period
        return PlannedInterval(self.next_due, self.next_due + self.period - 1)

    def probed(self, chronon: Chronon) -> None:
        """Note a probe; the phase is kept."""
        if chronon >= self.next_due:
            self.next_due += ((chronon - self.next_due) // self.period + 1) * self.period


@dataclass(slots=True)
class DoeDemand:
    """DOE(n PROBES PER t): probes at the times that leave items waiting least, never more than n in any time t.

    ``log`` holds the starts of all of the source's probes, because probes made for other rules count too.

    Examples
    --------
    >>> from proxyd.core.politeness import PolitenessBudget
    >>> doe = DoeDemand("r", probes=2, per_s=100.0, log=ProbeLog(PolitenessBudget(0.0, 2, 100.0)))
    >>> doe.due_s(10.0, None), doe.due_s(10.0, 20.0)
    (60.0, 20.0)
    """

    rule: str
    probes: int
    per_s: float
    log: ProbeLog

    def due_s(self, last_s: float, planned_s: float | None) -> float:
        """Return when the next probe is due after one at ``last_s``: as planned, or evenly without a plan."""
        due_s = last_s + self.per_s / self.probes if planned_s is None else planned_s
        return max(due_s, self.log.earliest_s())


@dataclass(slots=True)
class CountedDemand:
    """AUTO with ``COUNT(*) % n = k``: a probe when the n-th item since the last firing is worth it.

    Parameters
    ----------
    worth
        What a probe is worth to the rule.
    weight
        The cost of a firing's delay, 1 for a strict rule.
    count
        The items that the rule has counted.
    passing
        The part of the source's items that it counts.

    Examples
    --------
    >>> from proxyd.core.planning.counted_events import CountedRule, ItemsLine
    >>> demand = CountedDemand("r", FiringPattern(3, 1), CountedRule(3, NO_LOSSES, missed_s=1e6), count=6)
    >>> demand.to_come, demand.number, round(demand.due_s(0.0, ItemsLine.even(0.01), price_s=50.0))
    (1, 3, 92)
    """

    rule: str
    firing: FiringPattern
    worth: CountedRule
    weight: float = 1.0
    count: int = 0
    passing: float = 1.0
    _due: tuple[tuple[float, ...], float] | None = None

    @property
    def to_come(self) -> int:
        """How many items must come until the rule fires."""
        return self.firing.items_to_next(self.count)

    @property
    def is_first(self) -> bool:
        """Whether the rule has not fired yet."""
        return self.count < (self.firing.remainder or self.firing.every)

    @property
    def number(self) -> int:
        """Which item since the last firing, or since START before any, is the one that fires."""
        return (self.firing.remainder or self.firing.every) if self.is_first else self.firing.every

    def due_s(self, last_s: float, line: ItemsLine, *, price_s: float) -> float:
        """Return when a probe is due after one at ``last_s``; ``line`` is that of the items that the rule counts."""
        asked = (last_s, line.rate_per_s, price_s, self.count)
        if self._due is None or self._due[0] != asked:
            since = self.firing.every - self.to_come
            self._due = asked, self.worth.next_s(since, last_s, line, price_s=price_s / self.weight)
        return self._due[1]

    def chance(self, last_s: float, until_s: float, line: ItemsLine) -> float:
        """Return the probability that the rule fires between two times."""
        items = np.diff(line.items(np.array([last_s, until_s])))
        return float(gammainc(self.to_come, max(0.0, items[0])))


@dataclass(frozen=True, slots=True)
class OnceDemand:
    """One probe between two chronons, both inclusive, for an interval that an event on another source opened.

    Examples
    --------
    >>> OnceDemand("r", opened=3, deadline=5).pending
    PlannedInterval(start=3, deadline=5)
    """

    rule: str
    opened: Chronon
    deadline: Chronon

    @property
    def pending(self) -> PlannedInterval:
        """The chronons in which the probe is wanted."""
        return PlannedInterval(self.opened, self.deadline)


@dataclass(slots=True)
class Demands:
    """All demands of the rules on one source.

    ``weight`` is the cost of a delay to them, 1 for one strict rule, and ``losses`` is what items lose beside it while
    they wait, with lives in seconds, in parts of an item. ``targets`` holds what each rule asks for, in seconds.

    Examples
    --------
    >>> demands = Demands(fixed=[FixedDemand("r", period=5, next_due=0)])
    >>> bool(demands), demands.first_rule, bool(Demands())
    (True, 'r', False)
    """

    intervals: Sequence[IntervalDemand] = ()
    fixed: Sequence[FixedDemand] = ()
    detecting: Sequence[str] = ()
    counted: Sequence[CountedDemand] = ()
    paced: Sequence[PacedDemand] = ()
    doe: Sequence[DoeDemand] = ()
    once: Sequence[OnceDemand] = ()
    weight: float = 1.0
    losses: Losses = NO_LOSSES
    targets: Sequence[tuple[str, Target]] = ()

    def copy(self) -> Demands:
        """Return demands that change independently, but for the starts of probes."""
        return replace(self, intervals=_copies(self.intervals), fixed=_copies(self.fixed), paced=_copies(self.paced))

    def probed(self, chronon: Chronon) -> None:
        """Note a probe for all demands; one probe serves every rule."""
        for demand in self.intervals:
            demand.probed(chronon)
        for fixed in self.fixed:
            fixed.probed(chronon)

    @property
    def first_rule(self) -> str | None:
        """The rule to name if no single rule asked for the probe."""
        named = [*self.detecting, *(d.rule for d in self.counted)]
        named += [*(d.rule for d in self.intervals), *(d.rule for d in self.fixed)]
        named += [*(d.rule for d in self.paced), *(d.rule for d in self.doe), *(d.rule for d in self.once)]
        return named[0] if named else None

    def __bool__(self) -> bool:
        return bool(self.intervals or self.fixed or self.is_priced or self.doe or self.once)

    @property
    def in_week(self) -> list[str]:
        """The rules that a plan of the week is for."""
        return [*self.priced, *(demand.rule for demand in self.doe)]

    @property
    def priced(self) -> list[str]:
        """The rules that ask for a probe whenever it is worth its price."""
        return [*self.detecting, *(demand.rule for demand in self.counted), *(demand.rule for demand in self.paced)]

    @property
    def is_priced(self) -> bool:
        """Whether any rule asks for a probe whenever it is worth its price."""
        return bool(self.detecting or self.counted or self.paced)

    @property
    def only_detects(self) -> bool:
        """Whether all probes asked for are those that are worth their price."""
        others = self.intervals or self.fixed or self.counted or self.paced or self.doe or self.once
        return bool(self.detecting) and not others

    def asked_per_s(self, length_s: float) -> float:
        """Return the probes a second that intervals and counted probes ask for, in chronons of ``length_s``."""
        if not (self.intervals or self.fixed or self.doe):
            return 0.0
        return (
            max([*(d.rate_per_s / d.firing.every for d in self.intervals), 0.0])
            + max([*(1.0 / (d.period * length_s) for d in self.fixed), 0.0])
            + max([*(d.probes / d.per_s for d in self.doe), 0.0])
        )

    @property
    def earliest_s(self) -> float:
        """The time before which no rule wants a probe, not even a retry: all are DOE rules with no probes left."""
        others = self.intervals or self.fixed or self.is_priced or self.once
        return -inf if others else min((demand.log.earliest_s() for demand in self.doe), default=-inf)
