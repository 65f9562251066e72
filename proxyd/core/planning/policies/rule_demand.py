"""The contract of a policy: what one rule asks of the planner for one source, and how it learns from probes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from proxyd.core.model.chronon import Chronon, ChrononGrid, Epoch
from proxyd.core.model.profile import PolicyChoice
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.kernels.counted_events import ItemsLine
from proxyd.core.planning.kernels.losses import NO_LOSSES, Losses
from proxyd.core.politeness.host_budgets import ProbeLog


@dataclass(frozen=True, slots=True)
class FiringPattern:
    """When a rule fires, counted in items of its source: at counts ``remainder`` modulo ``every``.

    ``COUNT(*) % 3 = 1`` is ``FiringPattern(3, 1)``; a rule that does not count is ``FiringPattern(1, 0)``.

    >>> FiringPattern(every=3, remainder=1).items_to_next(1)
    3
    """

    every: int = 1
    remainder: int = 0

    def items_to_next(self, count: int, k: int = 1) -> int:
        """Return the number of items from ``count`` to the k-th firing (k from 1).

        >>> third = FiringPattern(3, 0)
        >>> third.items_to_next(4), third.items_to_next(3), third.items_to_next(3, k=2)
        (2, 3, 6)
        """
        return (self.remainder - count - 1) % self.every + 1 + (k - 1) * self.every


@dataclass(frozen=True, slots=True)
class PlannedInterval:
    """Chronons ``start`` to ``deadline``, both inclusive, in which the rate model expects a probe to be useful."""

    start: Chronon
    deadline: Chronon


@dataclass(frozen=True, slots=True)
class RuleRequest:
    """What a rule asks for on one source, and what is known of both when it begins."""

    rule: str
    source_id: str
    choice: PolicyChoice
    firing: FiringPattern
    grid: ChrononGrid
    now_s: float
    since_s: float = 0.0  # since when it counts events: its START, or when it was accepted
    rate_per_s: float = 0.0  # of the source
    count: int = 0  # the events that the rule has counted
    passing: float = 1.0  # the part of the items that it counts
    life_s: float | None = None  # how long an item is worth capturing; ``None`` until the next one
    losses: Losses = NO_LOSSES  # in parts of an item, with lives in seconds; only for rules that count items
    weight: float = 1.0  # the cost of a delay, 1 for a strict rule
    has_importance: bool = False  # whether that depends on the time
    is_crowded: bool = False  # whether as many kinds of counting rules as get a plan come before it on its source


class Findings(NamedTuple):
    """What a probe that ended at ``at_s`` showed for a rule; times in unix seconds."""

    at_s: float
    rate_per_s: float
    events: int  # that the rule has counted in ``counting_s`` seconds
    fired: bool
    passing: float = 1.0  # the part of the source's items that it counts
    counting_s: float = 0.0


class CountedAhead(NamedTuple):
    """The item that a rule waits for, counted since the rule last fired, or since its START if ``is_first``."""

    number: int
    is_first: bool
    chance: float  # that it comes by ``by_s``, the due time of the probe
    by_s: float


class SeenSource(Protocol):
    """A source that was seen, as the planner knows it; the demands of rules read it to tell when they are due."""

    source_id: str
    last_s: float  # when it was last seen
    rate_per_s: float
    is_rate_known: bool

    @property
    def price_item_s(self) -> float:
        """The delay that a probe must save, in item-seconds."""

    def detection_s(self) -> float:
        """Return when its waiting items are worth a probe by the plan of the week, in unix seconds."""

    def mean_gap_s(self) -> float:
        """Return the mean time between two probes by the plan of the week, or without one, in seconds."""

    def due_without_plan_s(self) -> float:
        """Return when it would be due without a plan of the week, in unix seconds."""

    def items_line(self, passing: float) -> ItemsLine:
        """Return the items expected over time, of which a rule counts a part; its rate must be greater than 0."""

    def doe_s(self, probes: int, per_s: float) -> float | None:
        """Return the next of so many probes in a time that the plan of the week has placed, in unix seconds."""


@dataclass(slots=True)
class RuleDemand:
    """What one rule asks of the planner for one source. A policy is a class of demands; the rest is the same for all.

    The planner, the simulator and the daemon know no more of a policy than this. A demand asks for probes in chronons
    (``pending``) or from a time on (``due_s``), learns from every probe of its source (``note_probe``, ``found``), and
    survives restarts (``asks``, ``state``). It reads no clock. ``tests/contract/test_policies.py`` checks all policies.

    Examples
    --------
    A policy that asks for a probe in every other chronon:

    >>> class EveryOther(RuleDemand):
    ...     has_deadline = True
    ...
    ...     def pending(self, now: Chronon) -> PlannedInterval:
    ...         return PlannedInterval(now + now % 2, now + now % 2)
    >>> EveryOther("r").pending(3), EveryOther("r").is_priced
    (PlannedInterval(start=4, deadline=4), False)
    """

    has_deadline: ClassVar[bool] = False  # it asks in chronons
    # These are intervals in which it expects an item: probed as late as possible, laid again in each epoch.
    has_intervals: ClassVar[bool] = False
    is_priced: ClassVar[bool] = False  # it asks when a probe is worth it: the plan of the week decides how often
    detects: ClassVar[bool] = False  # and when, too; of several such demands on a source, one is asked
    counts_items: ClassVar[bool] = False  # its probes depend on the items since it last fired, not on each item
    # Its number of probes is never exceeded: it is due in the first chronon that starts at its time or later or, with a
    # ``quota``, at its time within a chronon.
    never_early: ClassVar[bool] = False

    rule: str

    def copy(self) -> Self:
        """Return a demand that changes independently."""
        return copy.copy(self)

    # -- when it wants a probe

    @property
    def reason(self) -> Reason:
        """The reason of a probe that it asks for."""
        return Reason.FIXED

    def pending(self, now: Chronon) -> PlannedInterval | None:
        """Return the chronons in which the next probe is wanted; they end at ``now`` or later."""
        return None

    def upcoming(self, epoch: Epoch) -> Sequence[PlannedInterval]:
        """Return the intervals that end in an epoch and that a forecast is to meet."""
        return ()

    def due_s(self, source: SeenSource) -> float:
        """Return when a source that was seen falls due, in unix seconds; ``inf`` if it does not."""
        return inf

    def worth_per_s2(self, source: SeenSource, due_s: float) -> float | None:
        """Return what a probe at ``due_s`` is worth over its price, by half the square of the time since the last one.

        ``None`` if the plan of the week knows it.
        """
        return None

    def ahead(self, source: SeenSource) -> CountedAhead | None:
        """Return the item that it waits for; ``None`` if no single one is waited for."""
        return None

    @property
    def earliest_s(self) -> float:
        """The time before which it wants no probe at all, not even a retry, in unix seconds."""
        return -inf

    @property
    def longest_gap_s(self) -> float:
        """The longest time between two probes that it allows, even if the origin says that nothing changes."""
        return inf

    # -- what the plan of the week is told

    def demand_per_s(self, length_s: float) -> float:
        """Return the probes a second that it asks for at any price, in chronons of ``length_s``."""
        return 0.0

    @property
    def is_helped(self) -> bool:
        """Whether items that siblings of the source hint at make it due earlier."""
        return self.is_priced and not self.never_early

    @property
    def quota(self) -> tuple[int, float] | None:
        """The number of probes in a time, in seconds, that the plan of the week is to place."""
        return None

    @property
    def starts(self) -> ProbeLog | None:
        """The starts of the probes that count toward that number."""
        return None

    # -- how it learns

    def note_probe(self, chronon: Chronon) -> None:
        """Note that the source is probed in a chronon."""

    def expect_items(self, items: float) -> None:
        """Note that so many items are expected to have come before a probe; ``found`` corrects it."""

    def note_findings(self, found: Findings) -> None:
        """Take in what a probe showed."""

    def lay(self, now_s: float, *, rate_per_s: float, count: int, is_first: bool = False) -> None:
        """Lay the probes again, at first contact (``is_first``) and in each epoch."""

    @property
    def missed(self) -> int:
        """How many of its intervals had no probe."""
        return 0

    # -- how it survives restarts and new declarations

    def asks(self, grid: ChrononGrid) -> tuple[Any, ...] | None:
        """Return what was asked for, in values of JSON: a demand that asks for the same continues this one.

        ``None`` if it has no state; then it always starts again. If the form of the state changes, change the first
        word, so that older states are not resumed.
        """
        return None

    def state(self, grid: ChrononGrid) -> tuple[Any, ...]:
        """Return what ``resume`` needs, in values of JSON; times are unix seconds, because chronons may change."""
        return ()

    def resume(self, state: Sequence[Any], grid: ChrononGrid) -> None:
        """Continue from what ``state`` returned."""

    def resume_starts(self, starts_s: Sequence[float], since_s: float) -> None:
        """Continue from the starts of the source's probes; the rule counts events since ``since_s``."""
