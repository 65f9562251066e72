"""The demands of all rules on one source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from math import inf
from typing import ClassVar

from proxyd.core.model.budget import Target
from proxyd.core.model.chronon import Chronon
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.kernels.losses import NO_LOSSES, Losses
from proxyd.core.planning.policies.expected_intervals import PlannedInterval
from proxyd.core.planning.policies.rule_demand import RuleDemand


@dataclass(slots=True)
class OnceDemand(RuleDemand):
    """One probe between two chronons, both inclusive, for an interval that an event on another source opened.

    Examples
    --------
    >>> OnceDemand("r", opened=3, deadline=5).pending(0)
    PlannedInterval(start=3, deadline=5)
    """

    has_deadline: ClassVar[bool] = True

    opened: Chronon
    deadline: Chronon

    @property
    def reason(self) -> Reason:
        """An interval."""
        return Reason.INTERVAL

    def pending(self, now: Chronon) -> PlannedInterval:
        """Return the chronons in which the probe is wanted."""
        return PlannedInterval(self.opened, self.deadline)


@dataclass(slots=True)
class Demands:
    """All demands of the rules on one source.

    Parameters
    ----------
    rules
        A demand for each rule; those that detect come first.
    once
        Single probes for the intervals of rules over several sources.
    weight
        What a delay costs the rules, 1 for one strict rule.
    losses
        What items lose besides, as parts of an item; lives are in seconds.
    targets
        The share that each rule asks for, with times in seconds.

    Examples
    --------
    >>> from proxyd.core.planning.policies.auto import DetectionDemand
    >>> demands = Demands([DetectionDemand("r")])
    >>> bool(demands), demands.first_rule, bool(Demands())
    (True, 'r', False)
    """

    rules: Sequence[RuleDemand] = ()
    once: Sequence[OnceDemand] = ()
    weight: float = 1.0
    losses: Losses = NO_LOSSES
    targets: Sequence[tuple[str, Target]] = ()

    def __bool__(self) -> bool:
        return bool(self.rules or self.once)

    def __iter__(self) -> Iterator[RuleDemand]:
        return chain(self.rules, self.once)

    def copy(self) -> Demands:
        """Return demands that change independently, but for the starts of probes."""
        return replace(self, rules=[copy(demand) for demand in self.rules])

    def note_probe(self, chronon: Chronon) -> None:
        """Note a probe for all demands; one probe serves every rule."""
        for demand in self.rules:
            demand.note_probe(chronon)

    @property
    def first_rule(self) -> str | None:
        """The rule to name if no single rule asked for the probe."""
        return next((demand.rule for demand in self), None)

    @property
    def detects(self) -> bool:
        """Whether any rule leaves the times of probes to the plan of the week."""
        return any(demand.detects for demand in self.rules)

    @property
    def only_detects(self) -> bool:
        """Whether all demands leave the times of probes to the plan of the week."""
        return not self.once and bool(self.rules) and all(demand.detects for demand in self.rules)

    @property
    def timed(self) -> list[RuleDemand]:
        """The demands that may be due at different times: of those that detect, one."""
        return [demand for place, demand in enumerate(self.rules) if not (place and demand.detects)]

    @property
    def is_priced(self) -> bool:
        """Whether any rule asks for a probe whenever it is worth its price."""
        return any(demand.is_priced for demand in self.rules)

    @property
    def priced(self) -> list[str]:
        """The rules that ask for a probe whenever it is worth its price."""
        return [demand.rule for demand in self.rules if demand.is_priced]

    @property
    def in_week(self) -> list[str]:
        """The rules that a plan of the week is for."""
        return [demand.rule for demand in self.rules if demand.is_priced or demand.quota]

    @property
    def values_each_item(self) -> bool:
        """Whether a rule that leaves the number of probes to the plan of the week values each single item."""
        return any(demand.is_priced and not demand.counts_items for demand in self.rules)

    @property
    def has_deadlines(self) -> bool:
        """Whether a rule asks for probes in certain chronons."""
        return any(demand.has_deadline for demand in self.rules)

    @property
    def has_intervals(self) -> bool:
        """Whether a rule asks for intervals in which it expects an item."""
        return any(demand.has_intervals for demand in self.rules)

    def demand_per_s(self, length_s: float) -> float:
        """Return the probes a second that are asked for at any price, in chronons of ``length_s``.

        One probe serves all rules of one policy, but hardly those of two.
        """
        most: dict[type[RuleDemand], float] = {}
        for demand in self.rules:
            if (per_s := demand.demand_per_s(length_s)) > most.get(type(demand), 0.0):
                most[type(demand)] = per_s
        return sum(most.values())

    @property
    def earliest_s(self) -> float:
        """The time before which no rule wants a probe, not even a retry, in unix seconds."""
        return min((demand.earliest_s for demand in self), default=-inf)
