"""How the planner stands with a source after a probe: what a restart needs to plan its next probes alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf
from typing import Any

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.planning.queue.planned_source import PlannedSource


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """What the planner knows of a source in addition to its state; times are unix seconds, so that chronons may change.

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
    demands
        Each rule that has a state: its name, what it asks for, and the state.

    Examples
    --------
    >>> record = SourceRecord(60.0, 0.01, 4.0, demands=(("r", ("uniform", 10.0), (70.0,)),))
    >>> record.values()
    {'as_of_s': 60.0, 'rate_per_s': 0.01, 'items_known': 4.0, 'demands': (('r', ('uniform', 10.0), (70.0,)),)}
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
    demands: tuple[tuple[str, tuple[Any, ...], tuple[Any, ...]], ...] = ()

    @classmethod
    def of(cls, planned: PlannedSource, as_of_s: float, *, grid: ChrononGrid) -> SourceRecord:
        """Return the record of a source, without what the planner's form does not have."""
        asked = ((demand, demand.asks(grid)) for demand in planned.demands.rules)
        return cls(
            as_of_s=as_of_s,
            rate_per_s=planned.rate_per_s,
            items_known=planned.items_known,
            starts_s=planned.starts_s,
            hidden=planned.hidden,
            hidden_since_s=planned.hidden_since_s,
            demands=tuple((demand.rule, asks, demand.state(grid)) for demand, asks in asked if asks is not None),
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
        """Return the record without times later than ``now_s``, after the machine's clock was set back.

        >>> SourceRecord(60.0, 0.01, 4.0, starts_s=(50.0, 60.0)).as_of(55.0)
        SourceRecord(as_of_s=55.0, rate_per_s=0.01, items_known=4.0, expected_per_s=None, starts_s=(50.0, 55.0), ...)
        """
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
