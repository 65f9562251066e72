"""The demands of all rules on one source, and when a probe is due that only detects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from math import expm1, inf, sqrt
from typing import ClassVar

import numpy as np

from proxyd.core.model.chronon import Chronon, Target
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.kernels.losses import NO_LOSSES, Losses, even_gaps
from proxyd.core.planning.policies.rule_demand import PlannedInterval, RuleDemand
from proxyd.core.rates.count_distributions import beta_share, gamma_quantile, root

_GAPS_S = 2.0 ** (np.arange(-8 * 8, 30 * 8) / 8)  # gaps to choose from where items have a life
_SHORTEST_S, DAY_S = 1e-3, 86400.0
_CALM = 1.05  # a dispersion below this is treated as 1, that of a Poisson process


@lru_cache(65_536)
def most_items(window: int, probability: float, dispersion: float = 1.0) -> float:
    """Return the expected items at which more than ``window`` come with just the given probability.

    Parameters
    ----------
    window
        Items that the feed shows.
    probability
        Of losing some, between 0 and 1.
    dispersion
        Variance over mean of the number of items; above 1 they come in batches.

    Notes
    -----
    Source: ``docs/decisions/probe-timing.md``. The items of a gap are Poisson or, in batches, negative binomial.
    The probability of more than w is then the regularised incomplete gamma or beta function of ``w + 1``, which is
    inverted.

    Examples
    --------
    >>> round(most_items(20, 0.01), 2), round(most_items(20, 0.01, dispersion=4.0), 2)
    (11.83, 5.22)
    """
    calm = gamma_quantile(window + 1.0, probability)
    if dispersion < _CALM:
        return calm
    batches = dispersion - 1.0

    def excess(items: float) -> float:
        return beta_share(window + 1.0, items / batches, 1.0 - 1.0 / dispersion) - probability

    # The mean at which the variable exceeds the window half of the time is an upper bound.
    high = gamma_quantile(window + 1.0, 0.5) * dispersion
    while excess(high) < 0:
        high *= 2.0
    return root(excess, 1e-9, high)


def due_after_s(
    rate_per_s: float, *, price_item_s: float, weight: float = 1.0, losses: Losses = NO_LOSSES, missed_s: float = 0.0
) -> float:
    """Return how long after the last probe the next one pays for itself, in seconds.

    Without losses, waiting tau leaves ``weight * rate * tau^2 / 2`` item-seconds of delay; the probe is due when that
    reaches the price: ``tau = sqrt(2 price / (weight rate))``.

    Parameters
    ----------
    price_item_s
        Item-seconds of delay that a probe must save.
    losses
        What items lose in addition to their delay, in parts of an item, with lives in seconds; a whole item counts as
        ``missed_s`` seconds of waiting.

    Notes
    -----
    Source: ``docs/decisions/planner-prices.md``. This is the gap of least cost a second: the price and what its
    items lose, divided by its length.

    Examples
    --------
    >>> due_after_s(1 / 3600, price_item_s=1800.0)
    3600.0
    >>> from proxyd.core.planning.kernels.losses import window
    >>> late = Losses(window(600.0, delay=1.0))
    >>> due_after_s(1 / 3600, price_item_s=1800.0, losses=late, missed_s=1e6)
    600.0
    """
    if losses and rate_per_s > 0 and weight > 0:
        price, in_delay = np.array([price_item_s / (weight * rate_per_s)]), losses.scale(1.0, missed_s)
        gaps = np.array([*_GAPS_S, *(step.after for step in losses.steps), sqrt(2 * price[0])])
        return float(even_gaps(price, replace(in_delay, rate=rate_per_s if losses.overwritten else 0.0), gaps)[0])
    return sqrt(2 * price_item_s / (weight * rate_per_s)) if rate_per_s > 0 and weight > 0 else inf


def meets_after_s(targets: Iterable[Target], rate_per_s: float) -> float:
    """Return the longest gap between two probes that meets all targets if items come evenly; at most a day.

    >>> round(meets_after_s([Target(0.9, ((3600.0, 1.0),))], 1 / 3600))
    4000
    """
    return min((_gap_s(target, rate_per_s) for target in targets), default=DAY_S)


@lru_cache(65_536)
def _gap_s(target: Target, rate_per_s: float) -> float:
    """Return the gap that meets a target; the share of an item's worth that is kept falls with the gap."""

    def over(gap_s: float) -> float:
        return sum(part * _kept(gap_s, after_s, rate_per_s) for after_s, part in target.parts) - target.share

    if over(DAY_S) >= 0:
        return DAY_S
    return root(over, _SHORTEST_S, DAY_S) if over(_SHORTEST_S) > 0 else _SHORTEST_S


def _kept(gap_s: float, after_s: float, rate_per_s: float) -> float:
    """Return the share of the items of a gap that its end sees in time, or before the next item if that is infinite."""
    if after_s < inf:
        return min(1.0, after_s / gap_s)
    items = rate_per_s * gap_s
    return -expm1(-items) / items if items > 0 else 1.0


def detection_index(rate_per_s: float, waited_s: float, weight: float = 1.0) -> float:
    """Return the expected delay that a probe now would end, in item-seconds; larger is more urgent.

    >>> detection_index(0.5, 10.0)
    25.0
    """
    return weight * rate_per_s * waited_s * waited_s / 2


@dataclass(slots=True)
class OnceDemand(RuleDemand):
    """One probe between two chronons, both inclusive, for an interval that an event on another source opened.

    >>> OnceDemand("r", opened=3, deadline=5).pending(0)
    PlannedInterval(start=3, deadline=5)
    """

    has_deadline: ClassVar[bool] = True
    reason: ClassVar[Reason] = Reason.INTERVAL

    opened: Chronon
    deadline: Chronon

    def pending(self, now: Chronon) -> PlannedInterval:
        """Return the chronons in which the probe is wanted."""
        return PlannedInterval(self.opened, self.deadline)


@dataclass(slots=True)
class Demands:
    """All demands of the rules on one source; another set of rules or probes is another object."""

    rules: Sequence[RuleDemand] = ()  # those that detect come first
    once: Sequence[OnceDemand] = ()  # for the intervals of rules over several sources
    weight: float = 1.0  # what a delay costs the rules, 1 for one strict rule
    losses: Losses = NO_LOSSES  # as parts of an item; lives are in seconds
    targets: Sequence[tuple[str, Target]] = ()  # the share that each rule asks for
    # Kept, because each probe asks for these some forty times.
    only_detects: bool = field(init=False)  # whether all leave the times of probes to the plan of the week
    is_priced: bool = field(init=False)  # whether any rule asks for a probe whenever it is worth its price
    has_deadlines: bool = field(init=False)  # whether a rule asks for probes in certain chronons

    def __post_init__(self) -> None:
        self.only_detects = not self.once and bool(self.rules) and all(demand.detects for demand in self.rules)
        self.is_priced = any(demand.is_priced for demand in self.rules)
        self.has_deadlines = any(demand.has_deadline for demand in self.rules)

    def __bool__(self) -> bool:
        return bool(self.rules or self.once)

    def __iter__(self) -> Iterator[RuleDemand]:
        return chain(self.rules, self.once)

    def copy(self) -> Demands:
        """Return demands that change independently."""
        return replace(self, rules=[demand.copy() for demand in self.rules], once=list(self.once))

    def note_probe(self, chronon: Chronon) -> None:
        """Note a probe for all demands; one probe serves every rule."""
        for demand in self.rules:
            demand.note_probe(chronon)

    @property
    def first_rule(self) -> str | None:
        """The rule to name if no single rule asked for the probe."""
        return next((demand.rule for demand in self), None)

    @property
    def timed(self) -> list[RuleDemand]:
        """The demands that may be due at different times: of those that detect, one."""
        return [demand for place, demand in enumerate(self.rules) if not (place and demand.detects)]

    @property
    def priced(self) -> list[str]:
        """The rules that ask for a probe whenever it is worth its price."""
        return [demand.rule for demand in self.rules if demand.is_priced]

    @property
    def in_week(self) -> list[str]:
        """The rules that a plan of the week is for."""
        return [demand.rule for demand in self.rules if demand.is_priced or demand.quota]

    @property
    def has_intervals(self) -> bool:
        """Whether a rule asks for intervals in which it expects an item."""
        return any(demand.has_intervals for demand in self.rules)

    def demand_per_s(self, length_s: float) -> float:
        """Return the probes a second that are asked for at any price, in chronons of ``length_s``."""
        # One probe serves all rules of one policy, but hardly those of two.
        most: dict[type[RuleDemand], float] = {}
        for demand in self.rules:
            if (per_s := demand.demand_per_s(length_s)) > most.get(type(demand), 0.0):
                most[type(demand)] = per_s
        return sum(most.values())

    @property
    def longest_gap_s(self) -> float:
        """The longest time between two probes that a rule allows."""
        return min((demand.longest_gap_s for demand in self.rules), default=inf)

    @property
    def earliest_s(self) -> float:
        """The time before which no rule wants a probe, not even a retry, in unix seconds."""
        return min((demand.earliest_s for demand in self), default=-inf)
