"""Previews: the coming probes if every probe finds what the rates expect. Plays copies and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

from proxyd.core.model.chronon import Chronon, Epoch
from proxyd.core.model.schedule import Constraint, ExecutionInterval
from proxyd.core.planning.chunks import Chunked
from proxyd.core.planning.planner import Choice, Planner
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.probe_slots import PlannedProbe

_MOST_COPIED = 1000  # sources: some 25 ms
_MOST_BESIDE = 256  # sources besides the first ones: who ranks first in a chronon may start last, when its host is free
_MOST_WORK = 10_000  # chronons, and sources held back in one: a tenth of a second


def play(planner: Planner, epoch: Epoch) -> Iterator[tuple[Chronon, Choice]]:
    """Play an epoch as if every probe ended at once, including those in flight; yields each chronon's choice."""
    for source_id in tuple(planner.in_flight):
        planner.finish(source_id, planner.settings.grid.start_s(epoch.start), seen=True)
    now = epoch.start
    while now < epoch.stop:
        choice = planner.choose(now)
        for planned in choice.probes:
            planner.finish(planned.probe.source_id, planned.start_s, seen=True, learn=_assume_items)
        yield now, choice
        # with one probe a day 8,639 chronons of it have no room
        now = planner.settings.next_room(max(now + 1, planner.queues.next_wake(now)), epoch.stop)


def _assume_items(source: PlannedSource) -> None:
    source.gaps = source.gaps.assume_items(source.last_seen_s or 0.0)


def preview(planner: Planner, epoch: Epoch, *, limit: int | None = None) -> list[PlannedProbe]:
    """Return the probes of ``epoch`` that are made if every probe finds what the rates expect, at most ``limit``."""
    if limit is None:
        return _play(planner.part(planner.sources), epoch, limit).probes
    rounds, played = preview_in_rounds(planner, epoch, limit=limit), None
    while True:
        try:
            played = rounds.send(played)()
        except StopIteration as end:
            return cast("list[PlannedProbe]", end.value)


def preview_in_rounds(
    planner: Planner, epoch: Epoch, *, limit: int
) -> Generator[Callable[[], _Played], _Played | None, list[PlannedProbe]]:
    """Return the first probes of ``epoch`` if every probe finds what the rates expect, at most ``limit``.

    Each round yields work that may be done in another thread, and is sent its result. Only the sources that may come
    before all others are copied: those that wake first, and the best of those that wait for room; a thousand at most.
    If hosts hold back many of these, the sources that would be probed in their place may be missing. It also stops
    after many chronons in which sources wait for a small budget.
    """
    room = limit + min(planner.settings.capacity(epoch.start), _MOST_BESIDE)
    while True:
        names, until = _first(planner, room, epoch)
        is_all = len(names) == len(planner.sources)
        if is_cut := len(names) > _MOST_COPIED:
            names = set(sorted(names)[:_MOST_COPIED])
        part, stop = planner.part(names), max(epoch.start, until)
        played = yield partial(_play, part, Epoch(epoch.start, stop), limit)
        assert played is not None
        probes, held_back = played.probes, played.held_back
        is_sure = room > _MOST_COPIED or room >= limit + held_back
        is_all = is_all or (until >= epoch.stop and not held_back)
        if is_cut or played.is_cut or is_all or (is_sure and len(probes) >= limit):
            return probes[:limit]
        room = 4 * max(room, held_back)


def preview_source(planner: Planner, source_id: str, epoch: Epoch) -> PlannedProbe | None:
    """Return the first probe of one source in ``epoch``, as if it had the budget to itself."""
    source = planner.sources.get(source_id)
    if source is None:
        return None
    alone = _alone(planner, source, epoch.start)
    blocked_s = alone.limits.throttle_end_s(source)
    now = max(epoch.start, planner.settings.grid.chronon_at(max(source.earliest_start_s(), blocked_s, 0.0)))
    now = planner.settings.next_room(max(now, alone.queues.next_wake(now - 1)), epoch.stop)
    while now < epoch.stop:
        if chosen := alone.choose(now).probes:
            return chosen[0]
        now = planner.settings.next_room(max(now + 1, alone.queues.next_wake(now)), epoch.stop)
    return None


def _alone(planner: Planner, source: PlannedSource, now: Chronon) -> Planner:
    """Return a planner with a copy of one source that has its host to itself; it is valid until that is probed."""
    alone = Planner(planner.settings)
    if planner.week is not None:
        alone.change_to(planner.week)  # it does not change until a probe ends
    alone.limits.blocks.block(source.throttle_scope or source.host, planner.limits.throttle_end_s(source))
    alone.put(source.copy(), now)
    return alone


def _first(planner: Planner, room: int, epoch: Epoch) -> tuple[set[str], Chronon]:
    """Return the sources that the first ``room`` probes come from, and the chronon before which no others come."""
    grid, sources = planner.settings.grid, planner.sources
    until = _when_used(planner, room, epoch)
    waiting, wakes = planner.queues.first(room, sources, grid.start_s(epoch.start), grid.start_s(until))
    until = until if wakes is None else min(until, wakes)
    names = (waiting | planner.in_flight.keys()) & sources.keys()
    return names, epoch.stop if len(names) >= len(sources) else until


def _when_used(planner: Planner, room: int, epoch: Epoch) -> Chronon:
    """Return the first chronon before which the budget has room for so many probes."""
    left, now = room, epoch.start
    while left > 0 and now < epoch.stop:
        now = planner.settings.next_room(now, epoch.stop)
        left -= planner.settings.capacity(now)
        now += 1
    return min(now, epoch.stop)


class _Played(NamedTuple):
    """What was played: the probes, how many sources were held back, and whether it was given up as too long."""

    probes: list[PlannedProbe]
    held_back: int
    is_cut: bool


def _play(part: Planner, epoch: Epoch, limit: int | None) -> _Played:
    """Play an epoch of a copy, until ``limit`` probes were made."""
    probes: list[PlannedProbe] = []
    held_back: set[str] = set()
    work = 0
    for _, choice in play(part, epoch):
        probes += choice.probes
        held_back.update(name for name, _ in choice.held_back)
        work += 1 + len(choice.held_back)
        if limit is not None and (len(probes) >= limit or work >= _MOST_WORK):
            return _Played(probes, len(held_back), work >= _MOST_WORK)
    return _Played(probes, len(held_back), is_cut=False)


_PUSHED = "pushed by its hub"


@dataclass(frozen=True, slots=True)
class _Unmet:
    """An expected interval in which no probe is planned, and the constraint that prevents one."""

    interval: ExecutionInterval
    constraint: str


@dataclass(frozen=True, slots=True)
class IntervalForecast:
    """The intervals that rules expect in an epoch, the probes planned for them, and the unmet intervals."""

    epoch: Epoch
    intervals: tuple[ExecutionInterval, ...]
    probes: tuple[PlannedProbe, ...]
    unmet: tuple[_Unmet, ...]


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
        return cls(epoch, (yield from planner.copy_in_parts(names if has_intervals else ())))

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
        for now, choice in play(self.part, self.epoch):
            watch.take(self.part, now, choice)
            probes += choice.probes
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
        self.unmet: list[_Unmet] = []

    def take(self, planner: Planner, now: Chronon, choice: Choice) -> None:
        """Take in the probes that a chronon chose, and the sources it held back."""
        self.pass_by(planner, now)
        for planned in choice.probes:
            name = planned.probe.source_id
            self._open[name] = [interval for interval in self._open.get(name, ()) if now not in interval]
        self._held |= {name: (now, constraint) for name, constraint in choice.held_back}

    def pass_by(self, planner: Planner, now: Chronon) -> None:
        """Note the intervals that ended before ``now`` unmet."""
        while self._ends and self._ends[-1][0] < now:
            deadline, name = self._ends.pop()
            for interval in [each for each in self._open[name] if each.deadline == deadline]:
                self._open[name].remove(interval)
                self.unmet.append(_Unmet(interval, self._constraint(planner, interval)))

    def _constraint(self, planner: Planner, interval: ExecutionInterval) -> str:
        """Return the constraint that last held the source back; if it was never due, the one that forbids a start."""
        source: PlannedSource = planner.sources[interval.source_id]
        deadline = interval.deadline or interval.start
        held_at, constraint = self._held.get(source.source_id, (interval.start - 1, ""))
        if held_at >= interval.start:
            return constraint
        grid = planner.settings.grid
        if source.pushed_until_s > grid.start_s(interval.start):
            return _PUSHED
        return planner.limits.obstacle_at(source, grid.start_s(deadline)) or Constraint.BUDGET
