"""GOLDEN, MEMORYLESS and ADAPTIVE: as many probes as detection makes at the price, at times chosen by each policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, log2, sqrt
from typing import Any, ClassVar
from zlib import crc32

import numpy as np

from proxyd.core.model.chronon import Chronon, ChrononGrid
from proxyd.core.model.profile import PolicyName
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.kernels.golden_turns import turn, turns
from proxyd.core.planning.policies.rule_demand import Findings, PlannedInterval, RuleDemand, RuleRequest, SeenSource

_POINTS = 8  # least number of probes of a source in a cycle of the golden ratio
_APART = 0.25  # part of the mean gap; a point that comes sooner after a probe is skipped
_LEAST_S = 1e-3  # shorter gaps mean "always", because unix times have no more digits


@dataclass(slots=True)
class PacedDemand(RuleDemand):
    """A probe when it is worth its price on average, at a time that the policy chooses.

    Parameters
    ----------
    policy
        GOLDEN, MEMORYLESS or ADAPTIVE.
    seed
        Seed of the draws: the same seed, source and last probe give the same next probe, regardless of the order and
        of restarts.
    own_rate_per_s
        The rate by ADAPTIVE's own estimate; other policies use the source's estimate.

    Notes
    -----
    The papers share a number of probes a step among the sources. Here a price does this, which is shared with all other
    rules: the mean gap is that of AUTO. ADAPTIVE shortens or lengthens it as its own estimate of
    the rate asks for, by the root of the quotient of the rates. Source: Mahmoody, Riondato and Upfal,
    sections 4 and 5 (memoryless, adaptive); Coffman, Liu and Weber, section 5 (golden ratio).

    Examples
    --------
    >>> demand = PacedDemand("r", PolicyName.GOLDEN, seed=1)
    >>> 0.0 < demand.next_s("s", 0.0, gap_s=3600.0) < 2 * 3600.0
    True
    """

    is_priced: ClassVar[bool] = True
    never_early: ClassVar[bool] = True

    policy: PolicyName
    seed: int = 0
    own_rate_per_s: float | None = None

    @classmethod
    def of(cls, request: RuleRequest) -> PacedDemand:
        """Return the demand of a rule."""
        demand = cls(request.rule, request.choice.name)
        demand.count(request.count, request.now_s - request.since_s)
        return demand

    @property
    def reason(self) -> Reason:
        """The reason of a probe that falls due by this demand."""
        return Reason[self.policy.name]

    def due_s(self, source: SeenSource) -> float:
        """Return when the source is due at its price."""
        gap_s = source.mean_gap_s()
        if self.own_rate_per_s is not None and gap_s < inf:
            gap_s *= sqrt(source.rate_per_s / self.own_rate_per_s)
        return self.next_s(source.source_id, source.last_s, gap_s=gap_s)

    def next_s(self, source_id: str, last_s: float, *, gap_s: float) -> float:
        """Return when the source is due after a probe at ``last_s``, in unix seconds; ``gap_s`` is the mean gap."""
        if not 0 < gap_s < inf:
            return last_s + gap_s
        number = crc32(source_id.encode())
        if self.policy is PolicyName.GOLDEN:
            return golden_after_s(last_s, gap_s, number)
        entropy = (self.seed, number, int(max(0.0, last_s) * 1e3))
        return last_s + gap_s * float(np.random.Generator(np.random.PCG64(entropy)).exponential())

    def count(self, events: int, since_s: float) -> None:
        """Take the rate from a count, as the paper's Adaptive does: ``max(1, N) / t``."""
        if self.policy is PolicyName.ADAPTIVE and since_s > 0:
            self.own_rate_per_s = max(1, events) / since_s

    def note_findings(self, found: Findings) -> None:
        """Count what was found."""
        self.count(found.events, found.counting_s)

    def asks(self, grid: ChrononGrid) -> tuple[Any, ...] | None:
        """Return the policy; only ADAPTIVE has a state."""
        return ("paced", self.policy.name) if self.policy is PolicyName.ADAPTIVE else None

    def state(self, grid: ChrononGrid) -> tuple[Any, ...]:
        """Return ADAPTIVE's own rate."""
        return (self.own_rate_per_s,)

    def resume(self, state: Sequence[Any], grid: ChrononGrid) -> None:
        """Keep ADAPTIVE's own rate."""
        (self.own_rate_per_s,) = state


@dataclass(slots=True)
class LongestGapDemand(RuleDemand):
    """A probe at the latest ``gap_s`` seconds after the source was seen, beside what the rule's policy asks for.

    Examples
    --------
    >>> LongestGapDemand("r", gap_s=300.0).demand_per_s(10.0) * 300.0
    1.0
    """

    gap_s: float

    @property
    def longest_gap_s(self) -> float:
        """The gap."""
        return self.gap_s

    @property
    def reason(self) -> Reason:
        """The reason of a probe that it asks for."""
        return Reason.EVERY

    def due_s(self, source: SeenSource) -> float:
        """Return when the gap ends."""
        return source.last_s + self.gap_s

    def worth_per_s2(self, source: SeenSource, due_s: float) -> float:
        """Return 2 over the square of the gap, in 1/s²: sources rank by the part of their gap that has passed."""
        return 2.0 / self.gap_s**2

    def demand_per_s(self, length_s: float) -> float:
        """Return one probe in each gap."""
        return 1.0 / max(self.gap_s, length_s)


def golden_after_s(last_s: float, gap_s: float, number: int) -> float:
    """Return the next of a source's points on the golden ratio's circle, ``gap_s`` apart on average.

    A cycle is a power of two seconds, so that sources of similar frequency share it. Each source has consecutive
    multiples of the golden ratio in it, beginning with ``number``; any such run is nearly even.

    >>> golden_after_s(0.0, 100.0, 7) < golden_after_s(golden_after_s(0.0, 100.0, 7), 100.0, 7) < 400.0
    True
    """
    if gap_s < _LEAST_S:
        return last_s + gap_s
    cycle_s = 2.0 ** ceil(log2(_POINTS * gap_s))
    points = np.sort(turns(number % 2**20 + np.arange(max(1, round(cycle_s / gap_s))))) * cycle_s
    start_s = last_s // cycle_s * cycle_s
    ahead = np.concatenate([start_s + points, start_s + cycle_s + points])
    return float(ahead[np.searchsorted(ahead, last_s + _APART * gap_s, side="right")])


@dataclass(slots=True)
class UniformDemand(RuleDemand):
    """A probe every ``period`` chronons; any probe since the last due one serves.

    Examples
    --------
    >>> demand = UniformDemand("r", period=5, next_due=0)
    >>> demand.note_probe(1)
    >>> demand.pending(2)
    PlannedInterval(start=5, deadline=9)
    """

    has_deadline: ClassVar[bool] = True

    period: int
    next_due: Chronon

    @classmethod
    def of(cls, request: RuleRequest) -> UniformDemand:
        """Return the demand of a rule; each source has its own phase, so that they are not all probed at once."""
        grid, length = request.grid, request.choice.period
        period = max(1, grid.ceil(length.in_seconds(chronon_s=grid.length_s))) if length else 1
        phase, now = int(turn(crc32(request.source_id.encode())) * period), grid.chronon_at(request.now_s)
        return cls(request.rule, period, now + (phase - now) % period)

    def pending(self, now: Chronon) -> PlannedInterval:
        """Return the chronons in which the next probe is wanted.

        A late probe keeps its start, and its deadline is now: of several, the source unseen for longest goes first.
        """
        return PlannedInterval(self.next_due, max(now, self.next_due + self.period - 1))

    def note_probe(self, chronon: Chronon) -> None:
        """Note a probe; the phase is kept, and a missed period is not made up for."""
        if chronon >= self.next_due:
            self.next_due += ((chronon - self.next_due) // self.period + 1) * self.period

    def demand_per_s(self, length_s: float) -> float:
        """Return one probe a period."""
        return 1.0 / (self.period * length_s)

    def asks(self, grid: ChrononGrid) -> tuple[Any, ...]:
        """Return the period, in seconds."""
        return ("uniform", self.period * grid.length_s)

    def state(self, grid: ChrononGrid) -> tuple[Any, ...]:
        """Return when the next probe is due."""
        return (grid.start_s(self.next_due),)

    def resume(self, state: Sequence[Any], grid: ChrononGrid) -> None:
        """Keep the phase."""
        self.next_due = grid.chronon_at(state[0])
