"""When sources that were seen are due: for the policies of their rules, or before items slide off their feeds."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isinf, sqrt
from typing import NamedTuple
from zlib import crc32

from proxyd.core.model.chronon import Chronon
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.kernels.counted_events import ItemsLine
from proxyd.core.planning.policies.demands import detection_index, due_after_s, meets_after_s, most_items
from proxyd.core.planning.policies.rule_demand import CountedAhead, RuleDemand
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import DEFAULT_PRICE_ITEM_S, PlannerSettings

REQUIRED = frozenset({Reason.OVERFLOW, Reason.DOE, Reason.EVERY})
"""Reasons of probes that come before those worth their price."""
LOOKAHEAD_CHRONONS = 60  # intervals that end within so many compete for the budget; those that end later can wait
NEVER_CHRONONS = 10**9  # until a source that nothing wakes
_LEAST_PRICE, _LEAST_GAP_S = 1e-9, 1e-3
LEARNS_EVERY_S, _SPREAD = 1200.0, 0.1  # sources that came together are not asked together for long
_LONGEST_S = 30 * 86400.0
_LONGEST_SAFE_S = 86400.0  # after which a hub that has died is noticed


class DueTime(NamedTuple):
    """When and why a rule wants a source, in unix seconds."""

    due_s: float
    reason: Reason
    rule: str
    worth_per_s2: float | None = None  # the rule's own worth over the price, by half the square of the wait
    earliest_s: float = -inf  # no probe may start before this, even in the chronon of the due time


class _Seen:
    """A source that was seen, as the demands of its rules read it."""

    def __init__(self, due_times: DueTimes, source: PlannedSource, last_s: float) -> None:
        self._due_times, self.source = due_times, source
        self.source_id, self.last_s = source.source_id, last_s
        self.rate_per_s, self.is_rate_known = source.rate_per_s, source.is_rate_known

    @property
    def price_item_s(self) -> float:
        return self._due_times.price_of(self.source)

    def detection_s(self) -> float:
        return self._due_times.detection_s(self.source)

    def mean_gap_s(self) -> float:
        week = self._due_times.week
        planned_s = None if week is None else week.mean_gap_s(self.source_id)
        return self._due_times.gap_without_plan_s(self.source) if planned_s is None else planned_s

    def due_without_plan_s(self) -> float:
        return self.last_s + self._due_times.gap_without_plan_s(self.source)

    def items_line(self, passing: float) -> ItemsLine:
        rate_per_s, week = self.rate_per_s * passing, self._due_times.week
        line = None if week is None else week.items_line(self.source_id, rate_per_s)
        return line or ItemsLine.even(rate_per_s)

    def doe_s(self, probes: int, per_s: float) -> float | None:
        week = self._due_times.week
        return None if week is None else week.doe_due_s(self.source_id, probes, per_s, self.last_s)


def learning_s(source: PlannedSource) -> float:
    """Return when a new source is due in any case: some 20 minutes after its last turn, always the same."""
    if source.learns_until_s <= 0.0 or source.last_seen_s is None:
        return inf
    gap_s = LEARNS_EVERY_S * (1.0 + _SPREAD * crc32(source.source_id.encode()) / 2**32)
    due_s = max(source.last_seen_s, source.skipped_s) + gap_s
    return due_s if due_s <= source.learns_until_s else inf


class DueTimes:
    """Tells when sources are due without an interval, by the plan of the week or, without one, only by rates."""

    def __init__(self, settings: PlannerSettings) -> None:
        self._settings = settings
        self.week: WeekPlan | None = None  # the plan, if there is one; ``follow`` changes it
        self._plans = 0

    def follow(self, week: WeekPlan | None) -> None:
        """Follow another plan of the week."""
        self.week, self._plans = week, self._plans + 1

    @property
    def price_item_s(self) -> float | None:
        """The delay that a detection probe must save, in item-seconds; ``None`` before targets have a price."""
        return self._settings.price_item_s if self.week is None else self.week.price_item_s

    def price_of(self, source: PlannedSource) -> float:
        """Return the delay that a probe of a source must save, in item-seconds."""
        planned = None if self.week is None else self.week.price_of(source.source_id)
        if planned is not None:
            return planned
        rate_per_s, weight = source.rate_per_s, source.weight
        if not self._settings.has_targets:
            return self.price_item_s or DEFAULT_PRICE_ITEM_S
        gap_s, missed_s = self.gap_without_plan_s(source), self._settings.missed_s
        lost_s = sum(missed_s * step.delay * step.after for step in source.demands.losses.steps if step.after < gap_s)
        return max(_LEAST_PRICE, detection_index(rate_per_s, gap_s, weight) + weight * rate_per_s * lost_s)

    def gap_without_plan_s(self, source: PlannedSource) -> float:
        """Return how long after the last probe a source that the plan does not know is due."""
        demands, settings = source.demands, self._settings
        if settings.has_targets:
            meets_s = meets_after_s((target for _, target in demands.targets), source.rate_per_s)
            scarce = 0.0 if self.week is None else self.week.budget_price_item_s
            afford_s = due_after_s(source.rate_per_s, price_item_s=scarce, weight=source.weight)
            return max(meets_s, min(afford_s, _LONGEST_S))
        return due_after_s(
            source.rate_per_s,
            price_item_s=self.price_of(source),
            weight=source.weight,
            losses=demands.losses,
            missed_s=settings.missed_s,
        )

    def of(self, source: PlannedSource) -> Sequence[DueTime]:
        """Return when a source that was seen is due for rules that do not ask for probes in certain chronons.

        These are computed once after each reschedule and each new plan.
        """
        # This may cost 0.3 ms, and each probe asks four times.
        if source.dues is None or source.dues[0] != self._plans:
            source.dues = self._plans, self._compute(source)
        dues: Sequence[DueTime] = source.dues[1]
        return dues

    def _compute(self, source: PlannedSource) -> Sequence[DueTime]:
        demands, seen = source.demands, self._seen(source)
        if seen is None:
            return ()
        dues = [self._due(demand, seen) for demand in demands.timed]
        if source.hidden > 0 and source.rate_per_s > 0:
            early_s = source.hidden / source.rate_per_s  # the time in which as many items are expected
            helped = (due for demand, due in zip(demands.timed, dues, strict=True) if demand.is_helped)
            dues = [*dues, *(DueTime(due.due_s - early_s, Reason.SIBLING, due.rule) for due in helped)]
        for rule in demands.priced[:1]:
            over_s = self.overflow_s(source)
            # late by the same part of its gap as one of EVERY, it is worth the same
            worth_per_s2 = 2.0 / max(over_s - seen.last_s, _LEAST_GAP_S) ** 2 if over_s < inf else None
            dues.append(DueTime(over_s, Reason.OVERFLOW, rule, worth_per_s2))
            dues.append(DueTime(learning_s(source), Reason.LEARNING, rule))
        return dues

    def have_come(self, due_s: float, now: Chronon) -> bool:
        """Whether a time comes by the end of ``now``."""
        return due_s < inf and self._settings.grid.chronon_at(due_s) <= now

    def only_detects(self, source: PlannedSource, now: Chronon) -> bool:
        """Whether the source is due for detection, and not to save items from sliding off its feed."""
        return self.have_come(self.detection_s(source), now) and not self.have_come(self.overflow_s(source), now)

    def most_overdue(self, source: PlannedSource, now: Chronon) -> DueTime | None:
        """Return the earliest of the due times that have come, of required probes if there are any."""
        late = [due for due in self.of(source) if self.have_come(due.due_s, now)]
        return min(late, key=lambda due: (due.reason not in REQUIRED, due.due_s), default=None)

    def required_s(self, source: PlannedSource) -> float:
        """Return when a probe of a source that was seen is required, in unix seconds."""
        return min((due.due_s for due in self.of(source) if due.reason in REQUIRED), default=inf)

    def detection_s(self, source: PlannedSource) -> float:
        """Return when the waiting items of a source that was seen are worth the price of a probe."""
        assert source.last_seen_s is not None
        due_s = None if self.week is None else self.week.due_s(source.source_id)
        if due_s is not None:
            return due_s
        return source.last_seen_s + self.gap_without_plan_s(source)

    def items_ahead(self, source: PlannedSource) -> dict[str, CountedAhead]:
        """Return the item that each rule waits for, without those that wait for none; nothing before first contact."""
        seen = self._seen(source)
        if seen is None:
            return {}
        found = ((demand.rule, demand.ahead(seen)) for demand in source.demands.rules)
        return {rule: ahead for rule, ahead in found if ahead is not None}

    def overflow_s(self, source: PlannedSource) -> float:
        """Return when items may slide off the feed unseen with the allowed probability."""
        if source.last_seen_s is None or source.window is None:
            return inf
        if source.rate_per_s <= 0 or self._settings.overflow >= 1:
            return inf
        items = most_items(source.window, self._settings.overflow, round(source.dispersion, 1))
        planned_s = None if self.week is None else self.week.reach_s(source.source_id, items)
        return source.last_seen_s + items / source.rate_per_s if planned_s is None else planned_s

    def safety_s(self, source: PlannedSource) -> float:
        """Return when a source whose hub pushes gets a safety probe: after the mean gap that its plan gives it.

        If the hub has died, it comes within a day, or before items slide off the feed; but that is no reason to probe
        more often than every six hours.
        """
        asked_s = source.log.starts_s[-1] if source.log.starts_s else source.last_seen_s or 0.0
        gap_s = None if self.week is None else self.week.mean_gap_s(source.source_id)
        if gap_s is None or not source.demands.is_priced:
            return asked_s + self._settings.safety_s
        # The best gap grows with the root of one over the rate; without its hub the source would have this one.
        without_hub_s = gap_s * sqrt(source.left_out) if gap_s < inf else 0.0
        longest_s = max(without_hub_s, _LONGEST_SAFE_S)
        if source.window is not None and source.rate_per_s > 0 and self._settings.overflow < 1:
            items = most_items(source.window, self._settings.overflow, round(source.dispersion, 1))
            longest_s = min(longest_s, max(items / source.rate_per_s, self._settings.safety_s))
        return asked_s + min(gap_s, longest_s)

    def spare_from_s(self, source: PlannedSource) -> float:
        """Return when a source that is not due may have what others leave of the budget, in unix seconds."""
        # UNIFORM, DOE, SUP and fbSUP say themselves how many probes they want.
        if not self._settings.spend or source.last_seen_s is None or not source.demands.is_priced:
            return inf
        grid = self._settings.grid
        return max(source.earliest_start_s(), grid.start_s(grid.ceil(source.pushed_until_s)))

    def _seen(self, source: PlannedSource) -> _Seen | None:
        return None if source.last_seen_s is None else _Seen(self, source, source.last_seen_s)

    def _due(self, demand: RuleDemand, seen: _Seen) -> DueTime:
        """Return when and why a demand is due."""
        grid, due_s, earliest_s = self._settings.grid, demand.due_s(seen), -inf
        if demand.quota is not None:
            earliest_s = due_s  # within its chronon: waiting for the next one lost a chronon in each gap
        elif demand.never_early and not isinf(due_s):
            due_s = grid.start_s(grid.ceil(due_s))
        return DueTime(due_s, demand.reason, demand.rule, demand.worth_per_s2(seen, due_s), earliest_s)

    def wake(self, source: PlannedSource, now: Chronon) -> Chronon:
        """Return the first chronon from ``now`` on at which a source could be a candidate."""
        if not source.demands:
            return now + NEVER_CHRONONS
        grid = self._settings.grid
        is_pushed = source.is_pushed(grid.start_s(now))
        wakes: list[float] = [now] if source.last_seen_s is None or source.asked is not None else []
        for demand in source.demands:
            asked = demand.pending(now) if demand.has_deadline and not (is_pushed and demand.has_intervals) else None
            if asked is not None:
                wakes.append(asked.deadline - LOOKAHEAD_CHRONONS if demand.has_intervals else asked.start)
        if is_pushed:
            wakes.append(grid.ceil(min(self.safety_s(source), source.pushed_until_s)))
        else:
            wakes += [grid.chronon_at(due.due_s) for due in self.of(source) if due.due_s < inf]
        allowed_s = source.earliest_start_s()
        if source.asked is None:
            allowed_s = max(allowed_s, source.demands.earliest_s)
        earliest = now if isinf(allowed_s) else grid.chronon_at(allowed_s)
        return int(max(now, earliest, min(wakes, default=now + NEVER_CHRONONS)))
