"""A source in the planner's form, and the constraints that may hold its probes back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from math import inf
from typing import Any

from proxyd.core.model.chronon import Chronon, ChrononGrid
from proxyd.core.model.schedule import Constraint, Reason
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.policies.demands import Demands
from proxyd.core.politeness.host_budgets import HostBudgets, ProbeLog, ScopeBlocks
from proxyd.core.rates.model_fit import NO_GAPS, ItemGaps

_NEVER: Mapping[Constraint, int] = {}  # shared by all that were never held back
_KNOWN_ITEMS = 4.0  # four of five rates are then within a factor of two


@dataclass(slots=True)
class PlannedSource:
    """A source in the planner's form; times are unix seconds."""

    source_id: str
    host: str
    log: ProbeLog
    demands: Demands
    rate_per_s: float
    items_known: float = inf  # from so many items its rate is known
    last_seen_s: float | None = None  # when a probe last saw its state; ``None`` before first contact
    not_before_s: float = 0.0  # back-off and Retry-After
    fresh_until_s: float = 0.0  # the origin says that nothing changes before
    asked: Reason | None = None  # why a probe is wanted at once, which waits only for the source and its host
    learns_until_s: float = 0.0  # until when it is probed often because it is new
    skipped_s: float = 0.0  # when it was last due because it is new, and could not be probed
    pushed_until_s: float = 0.0  # a hub pushes until then: only safety probes and fixed ones are made before
    left_out: float = 1.0  # the part of its items that the hub is expected not to push
    throttle_scope: str = ""  # the hosts that a throttle of it silences; only its own if this is empty
    hidden: float = 0.0  # items that may wait because siblings changed, besides those its rate expects
    hidden_since_s: float = 0.0  # the time of the item of a sibling that says so
    window: int | None = None  # how many items the feed shows; ``None`` if nothing slides off
    dispersion: float = 1.0  # variance over mean of the number of items that a probe finds
    matching: float = 1.0  # the share of its events, by weight, that match its rules
    gaps: ItemGaps = NO_GAPS  # between its items
    wake: Chronon = 0
    probe_units: int = 1  # what a probe costs, in probes of the budget
    postponed: Mapping[Constraint, int] = field(default_factory=lambda: _NEVER)
    dues: tuple[int, Sequence[Any]] | None = None  # of ``DueTimes``, with the number of its plan, until rescheduled

    @property
    def weight_at_price(self) -> float:
        """The cost of a delay for the rules that want a probe when it is worth its price; 0 without such rules.

        Of a source whose hub pushes, only what the hub leaves out waits for a probe.
        """
        waiting = self.left_out if self.pushed_until_s > (self.last_seen_s or inf) else 1.0
        return self.weight * waiting if self.demands.is_priced else 0.0

    @property
    def passing(self) -> float:
        """The part of its items that matters for the times of probes: less than 1 only if all its rules count items."""
        if self.matching == 1.0:
            return 1.0
        counts = all(demand.counts_items for demand in self.demands.rules if demand.is_priced)
        return self.matching if counts else 1.0

    @property
    def is_rate_known(self) -> bool:
        """Whether its rate is known within a factor of two in four of five cases."""
        return self.items_known >= _KNOWN_ITEMS

    @property
    def weight(self) -> float:
        """The cost of a delay of an event for each unit of the budget that a probe costs."""
        # Detection pays more until the rate is known: planning by a rate that is known from k items loses 1 / (4 k) of
        # the price of a probe (``docs/decisions/planner-prices.md``).
        is_new = not self.is_rate_known and any(demand.detects for demand in self.demands.rules)
        each = self.demands.weight * self.matching * (1.0 + 0.25 / self.items_known if is_new else 1.0)
        return each / self.probe_units

    def copy(self) -> PlannedSource:
        """Return an independent copy."""
        # A source that only detects shares its demands, because they do not change.
        demands = self.demands if self.demands.only_detects else self.demands.copy()
        return replace(self, log=self.log.copy(), demands=demands, dues=None)

    def postpone(self, constraint: Constraint, times: int = 1) -> None:
        """Count that a constraint held a probe back."""
        self.postponed = {**self.postponed, constraint: self.postponed.get(constraint, 0) + times}

    def follow(self, week: WeekPlan) -> None:
        """Tell a plan of the week when the source was last seen, and its rate and weight."""
        if self.last_seen_s is not None:
            week.follow(self.source_id, self.rate_per_s, self.weight_at_price, self.last_seen_s, self.gaps)

    def note_seen(self, now_s: float, chronon: Chronon | None) -> None:
        """Note that its state was seen; ``chronon`` is the one in which the probe was chosen, ``None`` if none was."""
        # Until its items are counted, as many as expected are taken to have come.
        passed_s = now_s - (now_s if self.last_seen_s is None else self.last_seen_s)
        for demand in self.demands.rules:
            demand.expect_items(self.rate_per_s * max(0.0, passed_s))
        self.last_seen_s, self.hidden = max(now_s, self.last_seen_s or 0.0), 0.0
        if chronon is not None:
            self.demands.note_probe(chronon)

    @property
    def starts_s(self) -> tuple[float, ...]:
        """The starts of its probes that count toward a number of probes in a time, oldest first."""
        return tuple(max(self._logs(), key=lambda log: len(log.starts_s)).starts_s)

    def record(self, start_s: float) -> None:
        """Note the start of a probe."""
        for log in self._logs():
            log.record(start_s)

    def move_last(self, start_s: float) -> None:
        """Correct the start of the last probe."""
        for log in self._logs():
            log.move_last(start_s)

    def take_back(self) -> None:
        """Remove the start of the last probe, which was not made."""
        for log in self._logs():
            log.take_back()

    def _logs(self) -> list[ProbeLog]:
        return [self.log, *(demand.starts for demand in self.demands.rules if demand.starts is not None)]

    @property
    def stays_fresh_until_s(self) -> float:
        """Until when a probe is not worth making, as the origin says, or a rule that sets the longest gap."""
        if not self.fresh_until_s:
            return 0.0
        return min(self.fresh_until_s, (self.last_seen_s or 0.0) + self.demands.longest_gap_s)

    def earliest_start_s(self) -> float:
        """Return the earliest start that the source itself allows, in unix seconds."""
        if self.asked is not None:
            return self.log.earliest_s()
        return max(self.not_before_s, self.stays_fresh_until_s, self.log.earliest_s())

    def is_pushed(self, now_s: float) -> bool:
        """Whether a hub pushes new items."""
        return self.last_seen_s is not None and self.pushed_until_s > now_s

    def obstacle_at(self, now_s: float) -> Constraint | None:
        """Return the constraint of the source that forbids a start at ``now_s``."""
        if self.not_before_s > now_s and self.asked is None:
            return Constraint.BACK_OFF
        if self.log.earliest_s() > now_s:
            return Constraint.SOURCE_POLITENESS
        if self.asked is not None:
            return None
        return Constraint.FRESHNESS if self.stays_fresh_until_s > now_s else None


@dataclass(frozen=True, slots=True)
class ProbeLimits:
    """What hosts allow: their politeness budgets, and the throttles under way."""

    hosts: HostBudgets
    blocks: ScopeBlocks

    def earliest_s(self, source: PlannedSource) -> float:
        """Return the earliest start that a source and its host allow, in unix seconds."""
        return max(source.earliest_start_s(), self.hosts.earliest_s(source.host), self.throttle_end_s(source))

    def obstacle_at(self, source: PlannedSource, now_s: float) -> Constraint | None:
        """Return the constraint that forbids a start of a source at ``now_s``."""
        if (own := source.obstacle_at(now_s)) is not None:
            return own
        if self.throttle_end_s(source) > now_s:
            return Constraint.HOST_THROTTLED
        return Constraint.HOST_POLITENESS if self.earliest_s(source) > now_s else None

    def throttle_end_s(self, source: PlannedSource) -> float:
        """Return when the throttle of a source's hosts ends."""
        return self.blocks.until_s(source.throttle_scope or source.host)

    def forget(self, used: Set[str], now_s: float) -> None:
        """Forget the hosts that are no longer used, and the throttles that are over."""
        self.hosts.keep(used, now_s)
        self.blocks.forget(now_s)


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """What is stored of a source in addition to its state; times are unix seconds, because chronons may change."""

    as_of_s: float
    rate_per_s: float
    items_known: float = inf
    expected_per_s: float | None = None  # what its author expected then
    starts_s: tuple[float, ...] = ()  # of the probes that count toward a number of probes in a time, oldest first
    host_spacing_s: float = 0.0
    counted_s: float | None = None  # when its last probe counts as made in the plan of the week
    hidden: float = 0.0
    hidden_since_s: float = 0.0
    demands: tuple[tuple[str, tuple[Any, ...], tuple[Any, ...]], ...] = ()  # rule, what it asks for, its state

    @classmethod
    def of(cls, planned: PlannedSource, as_of_s: float, *, grid: ChrononGrid, **others: Any) -> SourceRecord:
        """Return the record of a source; ``others`` are the fields that the planner's form does not have."""
        asked = ((demand, demand.asks(grid)) for demand in planned.demands.rules)
        return cls(
            as_of_s=as_of_s,
            rate_per_s=planned.rate_per_s,
            items_known=planned.items_known,
            starts_s=planned.starts_s,
            hidden=planned.hidden,
            hidden_since_s=planned.hidden_since_s,
            demands=tuple((demand.rule, asks, demand.state(grid)) for demand, asks in asked if asks is not None),
            **others,
        )

    def values(self) -> dict[str, Any]:
        """Return what differs from the defaults, in values of JSON."""
        found = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, default) in found.items() if value != default}

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> SourceRecord:
        """Return the record of ``values``; keys that this version does not know are ignored."""
        return cls(**{name: _tuples(value) for name, value in values.items() if name in _NAMES})

    def as_of(self, now_s: float) -> SourceRecord:
        """Return the record without times later than ``now_s``, after the machine's clock was set back."""
        if self.as_of_s <= now_s:
            return self
        starts_s = tuple(min(start_s, now_s) for start_s in self.starts_s)
        return SourceRecord(
            now_s, self.rate_per_s, self.items_known, self.expected_per_s, starts_s, self.host_spacing_s
        )

    def state_of(self, rule: str, asks: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        """Return the state of a rule's demand; ``None`` if it had none, or the rule asked for something else."""
        return next((state for name, asked, state in self.demands if (name, asked) == (rule, asks)), None)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


_NAMES = frozenset(field.name for field in fields(SourceRecord))
