"""AUTO and INDEX: a probe whenever the items that may wait are worth its price."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from proxyd.core.model.schedule import Reason
from proxyd.core.planning.kernels.counted_events import MOST_COUNTED, CountedRule, ItemsLine
from proxyd.core.planning.kernels.losses import MISSED_S
from proxyd.core.planning.policies.rule_demand import (
    CountedAhead,
    Findings,
    FiringPattern,
    RuleDemand,
    RuleRequest,
    SeenSource,
)
from proxyd.core.rates.count_distributions import gamma_share


def auto(request: RuleRequest) -> RuleDemand:
    """Return the demand of AUTO: by the items counted since the last firing if that matters, otherwise by each item.

    >>> from dataclasses import replace
    >>> from proxyd.core.model.chronon import ChrononGrid
    >>> from proxyd.core.model.profile import PolicyChoice, PolicyName
    >>> third = RuleRequest("r", "s", PolicyChoice(PolicyName.AUTO), FiringPattern(3), ChrononGrid(10.0), now_s=0.0)
    >>> type(auto(third)).__name__, type(auto(replace(third, firing=FiringPattern()))).__name__
    ('CountedDemand', 'DetectionDemand')
    """
    is_counted = goes_by_count(request.firing, has_importance=request.has_importance) and not request.is_crowded
    return CountedDemand.of(request) if is_counted else DetectionDemand.of(request)


def goes_by_count(firing: FiringPattern, *, has_importance: bool) -> bool:
    """Return whether AUTO goes by the items counted since a rule last fired.

    >>> goes_by_count(FiringPattern(3), has_importance=False), goes_by_count(FiringPattern(), has_importance=False)
    (True, False)
    """
    # For n = 1 there is nothing to count. Above ``MOST_COUNTED``, and with an importance, each item is valued alike.
    return 1 < firing.every <= MOST_COUNTED and not has_importance


@dataclass(slots=True)
class DetectionDemand(RuleDemand):
    """A probe when the waiting items are worth its price, at the time that the plan of the week chose.

    >>> DetectionDemand("r").reason
    <Reason.DETECTION: 'detection'>
    """

    is_priced: ClassVar[bool] = True
    detects: ClassVar[bool] = True
    reason: ClassVar[Reason] = Reason.DETECTION

    @classmethod
    def of(cls, request: RuleRequest) -> DetectionDemand:
        """Return the demand of a rule."""
        return cls(request.rule)

    def due_s(self, source: SeenSource) -> float:
        """Return the time of the plan."""
        return source.detection_s()


@dataclass(slots=True)
class CountedDemand(RuleDemand):
    """AUTO with ``COUNT(*) % n = k``: a probe when the n-th item since the last firing is worth it.

    >>> from proxyd.core.planning.kernels.losses import NO_LOSSES
    >>> demand = CountedDemand("r", FiringPattern(3, 1), CountedRule(3, NO_LOSSES, missed_s=1e6), count=6)
    >>> demand.to_come, demand.number, round(demand.next_s(0.0, ItemsLine.even(0.01), price_s=50.0))
    (1, 3, 92)
    """

    is_priced: ClassVar[bool] = True
    counts_items: ClassVar[bool] = True
    reason: ClassVar[Reason] = Reason.COUNTED

    firing: FiringPattern
    worth: CountedRule  # what a probe is worth to the rule
    weight: float = 1.0  # the cost of a firing's delay, 1 for a strict rule
    count: int = 0  # the items that the rule has counted
    passing: float = 1.0  # the part of the source's items that it counts
    _next: tuple[tuple[float, ...], ItemsLine, float] | None = None

    @classmethod
    def of(cls, request: RuleRequest) -> CountedDemand:
        """Return the demand of a rule."""
        worth = CountedRule(request.firing.every, request.losses, MISSED_S)
        return cls(request.rule, request.firing, worth, request.weight, request.count, request.passing)

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

    def due_s(self, source: SeenSource) -> float:
        """Return when the next probe is worth its price; for the single items too while the rate is hardly known."""
        if not source.rate_per_s * self.passing * self.weight > 0:
            return inf
        due_s = self.next_s(source.last_s, source.items_line(self.passing), price_s=source.price_item_s)
        return due_s if source.is_rate_known else min(due_s, source.due_without_plan_s())

    def worth_per_s2(self, source: SeenSource, due_s: float) -> float:
        """Return what makes a probe worth its price when it falls due."""
        return 2.0 / max(due_s - source.last_s, 1e-9) ** 2

    def ahead(self, source: SeenSource) -> CountedAhead | None:
        """Return the item that fires, and how probably it comes by the next probe."""
        due_s = self.due_s(source)
        if due_s == inf:
            return None
        chance = self.chance(source.last_s, due_s, source.items_line(self.passing))
        return CountedAhead(self.number, self.is_first, chance, due_s)

    def next_s(self, last_s: float, line: ItemsLine, *, price_s: float) -> float:
        """Return when a probe is due after one at ``last_s``; ``line`` is that of the items that the rule counts."""
        asked = (last_s, line.rate_per_s, line.begun_s, price_s, self.count)
        if self._next is None or self._next[0] != asked or not np.array_equal(self._next[1].sums, line.sums):
            since = self.firing.every - self.to_come
            self._next = asked, line, self.worth.next_s(since, last_s, line, price_s=price_s / self.weight)
        return self._next[2]

    def chance(self, last_s: float, until_s: float, line: ItemsLine) -> float:
        """Return the probability that the rule fires between two times."""
        items = np.diff(line.items(np.array([last_s, until_s])))
        return gamma_share(self.to_come, float(items[0]))

    def expect_items(self, items: float) -> None:
        """Count as many items as are expected to have come."""
        self.count += round(items * self.passing)

    def note_findings(self, found: Findings) -> None:
        """Take in what the rule has counted."""
        self.count, self.passing = found.events, found.passing
