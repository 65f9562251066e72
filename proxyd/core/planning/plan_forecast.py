"""The outlook of the rules' intervals in an epoch: each gets a probe, or a constraint prevents it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from proxyd.core.model.chronon import Chronon, Epoch
from proxyd.core.model.schedule import Constraint, ExecutionInterval
from proxyd.core.planning.chunks import Chunked
from proxyd.core.planning.plan_preview import play
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.probe_slots import PlannedProbe

PUSHED = "pushed by its hub"


@dataclass(frozen=True, slots=True)
class Unmet:
    """An expected interval in which no probe is planned, and the constraint that prevents one."""

    interval: ExecutionInterval
    constraint: str


@dataclass(frozen=True, slots=True)
class IntervalForecast:
    """The intervals that rules expect in an epoch, the probes planned for them, and the unmet intervals."""

    epoch: Epoch
    intervals: tuple[ExecutionInterval, ...]
    probes: tuple[PlannedProbe, ...]
    unmet: tuple[Unmet, ...]


@dataclass(frozen=True, eq=False)
class PlanForecast:
    """Copies of the sources whose rules ask for probes at certain times, so that an epoch can be played elsewhere."""

    epoch: Epoch
    part: Planner

    @classmethod
    def of(cls, planner: Planner, epoch: Epoch) -> Chunked[PlanForecast]:
        """Copy these sources of a planner, in parts; none if no rule of them has intervals."""
        names: list[str] = []
        has_intervals = False
        for sources in planner.in_parts(planner.timed):
            names += [source.source_id for source in sources if source.demands.has_deadlines]
            has_intervals = has_intervals or any(source.demands.has_intervals for source in sources)
            yield
        return cls(epoch, (yield from planner.copied(names if has_intervals else ())))

    def forecast(self) -> IntervalForecast:
        """Play the epoch, once; any probe inside an interval meets it, otherwise the constraint is recorded."""
        intervals = tuple(
            ExecutionInterval(source.source_id, demand.rule, each.start, each.deadline)
            for source in self.part.sources.values()
            for demand in source.demands.rules
            for each in demand.upcoming(self.epoch)
        )
        if not intervals:
            return IntervalForecast(self.epoch, (), (), ())
        watch = _Watch(intervals)
        probes: list[PlannedProbe] = []
        for now, chosen in play(self.part, self.epoch):
            watch.take(self.part, now, chosen)
            probes += chosen
        watch.pass_by(self.part, self.epoch.stop)
        return IntervalForecast(self.epoch, intervals, tuple(probes), tuple(watch.unmet))


class _Watch:
    """Follows intervals through the chronons: which probes met them, and what held their sources back."""

    def __init__(self, intervals: Iterable[ExecutionInterval]) -> None:
        self._open: dict[str, list[ExecutionInterval]] = {}
        for interval in intervals:
            self._open.setdefault(interval.source_id, []).append(interval)
        self._ends = sorted((interval.deadline or 0, interval.source_id) for interval in intervals)
        self._ends.reverse()
        self._held: dict[str, tuple[Chronon, str]] = {}
        self.unmet: list[Unmet] = []

    def take(self, planner: Planner, now: Chronon, chosen: Iterable[PlannedProbe]) -> None:
        """Take in the probes that a chronon chose, and the sources it held back."""
        self.pass_by(planner, now)
        for planned in chosen:
            name = planned.probe.source_id
            self._open[name] = [interval for interval in self._open.get(name, ()) if now not in interval]
        self._held |= {name: (now, constraint) for name, constraint in planner.held_back}

    def pass_by(self, planner: Planner, now: Chronon) -> None:
        """Note the intervals that ended before ``now`` unmet."""
        while self._ends and self._ends[-1][0] < now:
            deadline, name = self._ends.pop()
            for interval in [each for each in self._open[name] if each.deadline == deadline]:
                self._open[name].remove(interval)
                self.unmet.append(Unmet(interval, self._constraint(planner, interval)))

    def _constraint(self, planner: Planner, interval: ExecutionInterval) -> str:
        """Return the constraint that last held the source back; if it was never due, the one that forbids a start."""
        source: PlannedSource = planner.sources[interval.source_id]
        deadline = interval.deadline or interval.start
        held_at, constraint = self._held.get(source.source_id, (interval.start - 1, ""))
        if held_at >= interval.start:
            return constraint
        grid = planner.settings.grid
        if source.pushed_until_s > grid.start_s(interval.start):
            return PUSHED
        return planner.limits.blocked_by(source, grid.start_s(deadline)) or Constraint.BUDGET
