"""UNIFORM(t): a probe in each period of length t, regardless of what is found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from zlib import crc32

from proxyd.core.model.chronon import Chronon, ChrononGrid
from proxyd.core.planning.kernels.golden_turns import turn
from proxyd.core.planning.policies.expected_intervals import PlannedInterval
from proxyd.core.planning.policies.rule_demand import RuleDemand, RuleRequest


@dataclass(slots=True)
class UniformDemand(RuleDemand):
    """A probe every ``period`` chronons; any probe since the last due one serves.

    Examples
    --------
    >>> demand = UniformDemand("r", period=5, next_due=0)
    >>> demand.probed(1)
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

    def probed(self, chronon: Chronon) -> None:
        """Note a probe; the phase is kept, and a missed period is not made up for."""
        if chronon >= self.next_due:
            self.next_due += ((chronon - self.next_due) // self.period + 1) * self.period

    def asked_per_s(self, length_s: float) -> float:
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
