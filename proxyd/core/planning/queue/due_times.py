"""When sources that were seen are due: for detection, before overflow, or for a number or pace of probes."""

from __future__ import annotations

from math import inf, isinf
from typing import NamedTuple

from proxyd.core.model.chronon import Chronon
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.counted_events import ItemsLine
from proxyd.core.planning.planned_source import PlannedSource
from proxyd.core.planning.planner_settings import DEFAULT_PRICE_ITEM_S, PlannerSettings
from proxyd.core.planning.policies import detection
from proxyd.core.planning.policies.demand import CountedDemand, DoeDemand
from proxyd.core.planning.policies.detection import most_items

LOOKAHEAD_CHRONONS = 60
_LEAST_PRICE = 1e-9
_LONGEST_S = 30 * 86400.0


class DueTime(NamedTuple):
    """When and why a rule wants a source, in unix seconds."""

    due_s: float
    reason: Reason
    rule: str


class CountedAhead(NamedTuple):
    """The item that a rule waits for: its number, and how probably it comes by ``by_s``, the due time of the probe.

    Items are counted since the rule last fired, or since its START if ``is_first``.

    >>> CountedAhead(number=3, is_first=False, chance=0.62, by_s=3600.0).number
    3
    """

    number: int
    is_first: bool
    chance: float
    by_s: float


class DueTimes:
    """Tells when sources are due without an interval, by the plan of the week or, without one, only by rates."""

    def __init__(self, settings: PlannerSettings) -> None:
        self._settings = settings
        self.week: WeekPlan | None = None

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
        gap_s, missed_s = self.unplanned_gap_s(source), self._settings.missed_s
        lost_s = sum(missed_s * step.delay * step.after for step in source.demands.losses.steps if step.after < gap_s)
        return max(_LEAST_PRICE, detection.index(rate_per_s, gap_s, weight) + weight * rate_per_s * lost_s)

    def unplanned_gap_s(self, source: PlannedSource) -> float:
        """Return how long after the last probe a source that the plan does not know is due."""
        demands, settings = source.demands, self._settings
        if settings.has_targets:
            meets_s = detection.meets_after_s((target for _, target in demands.targets), source.rate_per_s)
            scarce = 0.0 if self.week is None else self.week.budget_price_item_s
            afford_s = detection.due_after_s(source.rate_per_s, price_item_s=scarce, weight=source.weight)
            return max(meets_s, min(afford_s, _LONGEST_S))
        return detection.due_after_s(
            source.rate_per_s,
            price_item_s=self.price_of(source),
            weight=source.weight,
            losses=demands.losses,
            missed_s=settings.missed_s,
        )

    def of(self, source: PlannedSource) -> list[DueTime]:
        """Return when rules that do not ask for intervals want the source."""
        last_s, demands = source.last_seen_s, source.demands
        if last_s is None:
            return []
        dues = [DueTime(self.detection_s(source), Reason.DETECTION, rule) for rule in demands.detecting[:1]]
        price = self.price_of(source) if demands.paced else 0.0
        worth = {"rate_per_s": source.rate_per_s, "price_item_s": price, "weight": demands.weight}
        if source.hidden > 0 and source.rate_per_s > 0:  # the time in which as many items are expected
            early_s = source.hidden / source.rate_per_s
            dues += [DueTime(each.due_s - early_s, Reason.SIBLING, each.rule) for each in dues]
        dues += [DueTime(self.overflow_s(source), Reason.OVERFLOW, rule) for rule in demands.priced[:1]]
        dues += [DueTime(self.counted_s(source, d), Reason.COUNTED, d.rule) for d in demands.counted]
        paced = ((d, self._wholly_s(d.due_s(source.source_id, last_s, **worth))) for d in demands.paced)
        dues += [DueTime(due_s, demand.reason, demand.rule) for demand, due_s in paced]
        return dues + [DueTime(self._doe_s(source, d, last_s), Reason.DOE, d.rule) for d in demands.doe]

    def have_come(self, due_s: float, now: Chronon) -> bool:
        """Whether a time comes by the end of ``now``; a probe is made in the chronon in which it is due."""
        return due_s < inf and self._settings.grid.chronon_at(due_s) <= now

    def only_detects(self, source: PlannedSource, now: Chronon) -> bool:
        """Whether the source is due for detection, and not to save items from sliding off its feed."""
        return self.have_come(self.detection_s(source), now) and not self.have_come(self.overflow_s(source), now)

    def most_overdue(self, source: PlannedSource, now: Chronon) -> DueTime | None:
        """Return the earliest of the due times that have come."""
        late = [due for due in self.of(source) if self.have_come(due.due_s, now)]
        return min(late, key=lambda due: due.due_s, default=None)

    def detection_s(self, source: PlannedSource) -> float:
        """Return when the waiting items of a source that was seen are worth the price of a probe."""
        assert source.last_seen_s is not None
        due_s = None if self.week is None else self.week.due_s(source.source_id)
        if due_s is not None:
            return due_s
        return source.last_seen_s + self.unplanned_gap_s(source)

    def counted_s(self, source: PlannedSource, demand: CountedDemand) -> float:
        """Return when a probe of a source that was seen is worth its price to a rule that counts items.

        As long as its rate is hardly known, it is due for its single items too.
        """
        line = self.items_line(source, demand)
        if line is None or source.last_seen_s is None:
            return inf
        due_s = demand.due_s(source.last_seen_s, line, price_s=self.price_of(source))
        return due_s if source.is_rate_known else min(due_s, source.last_seen_s + self.unplanned_gap_s(source))

    def counted_ahead(self, source: PlannedSource, demand: CountedDemand) -> CountedAhead | None:
        """Return the item that a rule waits for; ``None`` before first contact, and if no probe is planned for it."""
        due_s, line = self.counted_s(source, demand), self.items_line(source, demand)
        if line is None or source.last_seen_s is None or due_s == inf:
            return None
        return CountedAhead(demand.number, demand.is_first, demand.chance(source.last_seen_s, due_s, line), due_s)

    def counted_gain(self, source: PlannedSource, now_s: float) -> float:
        """Return what a probe is worth to the rules that count items, divided by its price: 1 when it falls due."""
        due_s = min(self.counted_s(source, demand) for demand in source.demands.counted)
        last_s = source.last_seen_s or 0.0
        return ((now_s - last_s) / max(due_s - last_s, 1e-9)) ** 2

    def items_line(self, source: PlannedSource, demand: CountedDemand) -> ItemsLine | None:
        """Return the items that a rule is expected to count over time; ``None`` if none are expected."""
        rate_per_s = source.rate_per_s * demand.passing
        if not rate_per_s * demand.weight > 0:
            return None
        line = None if self.week is None else self.week.items_line(source.source_id, rate_per_s)
        return line or ItemsLine.even(rate_per_s)

    def overflow_s(self, source: PlannedSource) -> float:
        """Return when items may slide off the feed unseen with the allowed probability."""
        if source.last_seen_s is None or source.window is None:
            return inf
        if source.rate_per_s <= 0 or self._settings.overflow >= 1:
            return inf
        items = most_items(source.window, self._settings.overflow, round(source.dispersion, 1))
        planned_s = None if self.week is None else self.week.reached_s(source.source_id, items)
        return source.last_seen_s + items / source.rate_per_s if planned_s is None else planned_s

    def safety_s(self, source: PlannedSource) -> float:
        """Return when a source whose hub pushes gets a safety probe."""
        asked_s = source.log.starts_s[-1] if source.log.starts_s else source.last_seen_s or 0.0
        return asked_s + self._settings.safety_s

    def _doe_s(self, source: PlannedSource, demand: DoeDemand, last_s: float) -> float:
        week = self.week
        planned_s = None if week is None else week.doe_due_s(source.source_id, demand.probes, demand.per_s, last_s)
        return self._wholly_s(demand.due_s(last_s, planned_s))

    def _wholly_s(self, due_s: float) -> float:
        """Return the start of the first chronon that is entirely due; a number or pace of probes is never exceeded."""
        grid = self._settings.grid
        return due_s if isinf(due_s) else grid.start_s(grid.ceil(due_s))

    def wake(self, source: PlannedSource, now: Chronon) -> Chronon:
        """Return the first chronon from ``now`` on at which a source could be a candidate."""
        if not source.demands:
            return now + 10**9
        grid = self._settings.grid
        wakes: list[float] = [d.pending(now).start for d in source.demands.fixed]
        wakes += [d.opened for d in source.demands.once]
        if source.last_seen_s is None:
            wakes.append(now)
        if source.is_pushed(grid.start_s(now)):
            wakes.append(grid.ceil(min(self.safety_s(source), source.pushed_until_s)))
        else:
            wakes += [
                d.pending(now).deadline - LOOKAHEAD_CHRONONS for d in source.demands.intervals if d.rate_per_s > 0
            ]
            wakes += [grid.chronon_at(due.due_s) for due in self.of(source) if due.due_s < inf]
        allowed_s = max(source.allowed_s(), source.demands.earliest_s)
        earliest = now if isinf(allowed_s) else grid.chronon_at(allowed_s)
        return int(max(now, earliest, min(wakes, default=now + 10**9)))
