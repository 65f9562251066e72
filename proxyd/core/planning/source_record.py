"""How the planner stands with a source after a probe: what a restart needs to plan its next probes alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from math import inf
from typing import Any

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.profile import PolicyName
from proxyd.core.planning.planned_source import PlannedSource
from proxyd.core.planning.policies.demand import Demands, FixedDemand, IntervalDemand
from proxyd.core.planning.policies.expected_intervals import FiringPattern, PlannedInterval
from proxyd.core.planning.policies.frequency_demand import PacedDemand


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """What the planner knows of a source beside its state; times are unix seconds, so that chronons may change.

    Parameters
    ----------
    as_of_s
        The end of the probe after which it was written.
    rate_per_s, items_known, expected_per_s
        The rate by which the source is planned, from how many items it is known, and what its author expected then.
    starts_s
        Its probes that count toward a number of probes in a time, oldest first.
    host_spacing_s
        Least time between two probes of its host.
    counted_s
        When its last probe counts as made in the plan of the week.
    hidden, hidden_since_s
        Items that may wait unseen because siblings changed, unless it was seen since then.
    intervals
        The planned intervals of SUP and FBSUP: rule, every, remainder, life, feedback, anchor, rate, rate asked for,
        count at the anchor, number of the next interval, and begin and end of the added one.
    fixed
        The next probes of UNIFORM: rule, period, due time.
    own_rates
        The rates that ADAPTIVE estimates itself: rule, items a second or ``None`` if it cannot tell yet.

    Examples
    --------
    >>> record = SourceRecord(60.0, 0.01, 4.0, starts_s=(59.5,), fixed=(("r", 10.0, 70.0),))
    >>> record.values()
    {'as_of_s': 60.0, 'rate_per_s': 0.01, 'items_known': 4.0, 'starts_s': (59.5,), 'fixed': (('r', 10.0, 70.0),)}
    >>> record == SourceRecord.of_values(record.values())
    True
    """

    as_of_s: float
    rate_per_s: float
    items_known: float = inf
    expected_per_s: float | None = None
    starts_s: tuple[float, ...] = ()
    host_spacing_s: float = 0.0
    counted_s: float | None = None
    hidden: float = 0.0
    hidden_since_s: float = 0.0
    intervals: tuple[tuple[Any, ...], ...] = ()
    fixed: tuple[tuple[str, float, float], ...] = ()
    own_rates: tuple[tuple[str, float | None], ...] = ()

    @classmethod
    def of(cls, planned: PlannedSource, as_of_s: float, *, grid: ChrononGrid) -> SourceRecord:
        """Return the record of a source, without what the planner's form does not have."""
        demands = planned.demands
        return cls(
            as_of_s=as_of_s,
            rate_per_s=planned.rate_per_s,
            items_known=planned.items_known,
            starts_s=planned.starts_s,
            hidden=planned.hidden,
            hidden_since_s=planned.hidden_since_s,
            intervals=tuple(_interval_values(each) for each in demands.intervals),
            fixed=tuple((d.rule, d.period * grid.length_s, grid.start_s(d.next_due)) for d in demands.fixed),
            own_rates=tuple((d.rule, d.own_rate_per_s) for d in demands.paced if d.policy is PolicyName.ADAPTIVE),
        )

    def values(self) -> dict[str, Any]:
        """Return what differs from the defaults, in values of JSON."""
        found = {field.name: (getattr(self, field.name), field.default) for field in fields(self)}
        return {name: value for name, (value, default) in found.items() if value != default}

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> SourceRecord:
        """Return the record that ``values`` described."""
        return cls(**{name: _tuples(value) for name, value in values.items()})

    def as_of(self, now_s: float) -> SourceRecord:
        """Return the record without times later than ``now_s``, after the machine's clock was set back.

        >>> SourceRecord(60.0, 0.01, 4.0, starts_s=(50.0, 60.0), own_rates=(("r", 0.1),)).as_of(55.0)
        SourceRecord(as_of_s=55.0, rate_per_s=0.01, items_known=4.0, expected_per_s=None, starts_s=(50.0, 55.0), ...)
        """
        if self.as_of_s <= now_s:
            return self
        starts_s = tuple(min(start_s, now_s) for start_s in self.starts_s)
        return SourceRecord(
            now_s, self.rate_per_s, self.items_known, self.expected_per_s, starts_s, self.host_spacing_s
        )

    def demands(self, grid: ChrononGrid) -> Demands:
        """Return the demands that stand; the rules of a declaration continue those that are theirs."""
        return Demands(
            intervals=[_interval_demand(grid, *each) for each in self.intervals],
            fixed=[_fixed_demand(grid, *each) for each in self.fixed],
            paced=[PacedDemand(rule, PolicyName.ADAPTIVE, own_rate_per_s=per_s) for rule, per_s in self.own_rates],
        )


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _interval_values(demand: IntervalDemand) -> tuple[Any, ...]:
    firing, extra = demand.firing, demand.extra_s
    return (
        *(demand.rule, firing.every, firing.remainder, demand.life_s, demand.feedback),
        *(demand.anchor_s, demand.rate_per_s, demand.asked_rate_per_s, demand.count, demand.next_k, extra),
    )


def _interval_demand(
    grid: ChrononGrid, rule: str, every: int, remainder: int, life_s: float | None, feedback: bool, *laid: Any
) -> IntervalDemand:
    anchor_s, rate_per_s, asked_per_s, count, k, extra_s = laid
    extra = None if extra_s is None else PlannedInterval(*_chronons(grid, extra_s))
    firing = FiringPattern(every, remainder)
    return IntervalDemand(
        rule, firing, life_s, feedback, grid, anchor_s, rate_per_s, count, asked_per_s, _k=k, _extra=extra
    )


def _chronons(grid: ChrononGrid, times_s: Iterable[float]) -> list[int]:
    return [grid.chronon_at(time_s) for time_s in times_s]


def _fixed_demand(grid: ChrononGrid, rule: str, period_s: float, due_s: float) -> FixedDemand:
    return FixedDemand(rule, max(1, round(period_s / grid.length_s)), grid.chronon_at(due_s))
