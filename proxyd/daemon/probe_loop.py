"""The probe loop: asks the decider every chronon, starts probes from one heap, and records their findings."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from math import inf

import structlog

from proxyd.base.clock import Signal
from proxyd.base.interpreter import growing
from proxyd.base.metrics import Metrics
from proxyd.base.ports import Clock, Transport, Unmade
from proxyd.core.model.chronon import Chronon
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.core.planning.queue.probe_slots import LateStarts, OverloadLimiter, PlannedProbe
from proxyd.core.rules.decider import Decider
from proxyd.daemon.observer import Observer
from proxyd.tracing import NO_TRACES, Tracer

log = structlog.get_logger("probes")
_BUDGET_WINDOW_S = 3600.0
_NOTED_JUMP_S = 60.0
_MOST_STARTED, _MOST_SET_ASIDE = 16, 1000  # in one turn of the loop
_LATE_S = 1.0  # a choice made later in its chronon than this gets only the part of the budget that is left
_TIMES_CHOOSING = 9  # while probes wait, the next choice comes after 9 times as long as the last one took
# After a start the next ones wait for so long and begin together: alone, with cold caches, each takes twice the time
_TOGETHER, _MOST_TOGETHER_S = 1 / 32, 0.2  # of a chronon; less than what counts as late
_MANY_PARTS = 40  # of fifty sources each; fewer are not worth a collection


@dataclass(order=True, slots=True)
class _Due:
    start_s: float
    source_id: str
    planned: PlannedProbe = field(compare=False)


class _BudgetUse:
    """Planned probes that were not dropped, as a share of allowed probes, over the last hour."""

    def __init__(self) -> None:
        self._entries: deque[tuple[float, int, int]] = deque()
        self._planned = self._allowed = 0

    def add(self, now_s: float, planned: int, allowed: int) -> float:
        """Count probes, dropped ones as less than none, and return the share, or 0 if no probes were allowed."""
        self._entries.append((now_s, planned, allowed))
        self._planned += planned
        self._allowed += allowed
        while self._entries[0][0] < now_s - _BUDGET_WINDOW_S:
            _, old_planned, old_allowed = self._entries.popleft()
            self._planned -= old_planned
            self._allowed -= old_allowed
        return max(0.0, self._planned / self._allowed) if self._allowed else 0.0


class _WaitingProbes:
    """The chosen probes that have not started, by planned start; late ones wait for room in the present chronon."""

    def __init__(self) -> None:
        self._heap: list[_Due] = []
        self._late: deque[PlannedProbe] = deque()  # due in this chronon while the loop stood still
        self._starts = LateStarts()
        self._room = inf  # for late probes in this chronon

    def begin_chronon(self, length_s: float, capacity: int, *, room: float = inf) -> None:
        """Begin a chronon that has room for so many late probes, and spread their starts over it."""
        self._room = room
        self._starts.use_parts(length_s, capacity)

    def put(self, planned: PlannedProbe, start_s: float) -> None:
        """Keep a probe until its start."""
        heappush(self._heap, _Due(start_s, planned.probe.source_id, planned))

    def put_late(self, planned: PlannedProbe) -> None:
        """Keep a probe whose time is over."""
        self._late.append(planned)

    def set_late_aside(self, now_s: float) -> None:
        """Let the probes whose time is over wait for room."""
        for _ in range(_MOST_SET_ASIDE):
            if not self._heap or not self._starts.is_late(self._heap[0].start_s, now_s):
                return
            self._late.append(heappop(self._heap).planned)

    def take_due(self, now_s: float) -> PlannedProbe | None:
        """Take a probe that may start now, a late one only if none is on time."""
        if self._heap and self._heap[0].start_s <= now_s:
            return heappop(self._heap).planned
        if self._late and self._room > 0 and self._starts.next_s <= now_s:
            return self._late.popleft()
        return None

    def note_start(self, now_s: float, units: int) -> None:
        """Note the start of a probe that costs so many units of the budget."""
        self._room -= 1
        self._starts.note_start(now_s, units)

    def next_s(self) -> float:
        """Return when the next probe may start."""
        next_s = self._heap[0].start_s if self._heap else inf
        return min(next_s, self._starts.next_s) if self._late and self._room > 0 else next_s

    def take_all(self) -> list[PlannedProbe]:
        """Take out all, in order of their planned starts."""
        taken = [*self._late, *(due.planned for due in sorted(self._heap))]
        self._late.clear()
        self._heap.clear()
        return taken

    def take_of(self, is_gone: Callable[[str], bool]) -> list[PlannedProbe]:
        """Take out the probes of some sources."""
        waiting = [*(due.planned for due in self._heap), *self._late]
        self._heap = [due for due in self._heap if not is_gone(due.source_id)]
        heapify(self._heap)
        self._late = deque(each for each in self._late if not is_gone(each.probe.source_id))
        return [each for each in waiting if is_gone(each.probe.source_id)]


class _ProbeChoice:
    """Chooses the probes of each chronon, and says which of them start now."""

    def __init__(self, decider: Decider, clock: Clock, metrics: Metrics) -> None:
        self.waiting = _WaitingProbes()
        self.chosen_s = -inf  # when probes were chosen last
        self._decider = decider
        self._planner = decider.planner
        self._clock = clock
        self._metrics = metrics
        self._reached: Chronon | None = None  # the last chronon that has probes: chosen for it, or carried to it
        self._has_more = False  # whether sources have come since the last choice
        self._started = 0  # probes that started in the last chronon that has probes
        self._choose_again_s = -inf
        self._overload = OverloadLimiter()
        self._used = _BudgetUse()
        self._is_ahead = False  # whether our time is ahead of the machine's clock, which was put back

    def choose(self, now: Chronon, now_s: float) -> None:
        """Choose once in each chronon, and after ``choose_again``; give back what an earlier one did not start."""
        is_again = self._has_more and now == self._reached
        self._has_more = False
        if self._reached is not None and now <= self._reached and not is_again:
            return
        waiting, known = self.waiting.take_all(), self._decider.known
        if self._reached == now - 1 and waiting and now_s < self._choose_again_s:
            self._carry(waiting, now)
            return
        if self._reached == now - 1:
            self._overload.after(self._started, dropped=len(waiting))
        for planned in waiting:
            if is_again:
                self._put_back(planned)
            else:
                self.drop(planned)
        self._reached, self._started = now, self._started if is_again else 0
        length_s = known.grid.length_s
        capacity = self._planner.settings.capacity(now)
        self.waiting.begin_chronon(length_s, capacity)
        # After a start, or a freeze that began in an earlier chronon, there is only room for what is left of this one
        from_s = now_s if is_again or now_s - known.grid.start_s(now) > _LATE_S else -inf
        began_s = self._clock.monotonic_s()
        choice = self._decider.choose(now, self._overload.most, from_s=from_s, in_parts=True)
        took_s = self._clock.monotonic_s() - began_s
        for planned in choice.probes:
            self.waiting.put(planned, planned.start_s)
            self._metrics.planned.labels(planned.probe.reason.value).inc()
        self._metrics.rules_suspended.set(known.failing.suspended)
        self._metrics.planned_sources.set(len(self._planner.sources))
        held_back = Counter(held for _, held in choice.held_back)
        held_back[choice.limit] += choice.passed_over
        for constraint, count in held_back.items():
            self._metrics.postponed.labels(constraint).inc(count)
        self._count_budget(now_s, choice.spent, 0 if is_again else capacity)
        self._note_clock()
        self._choose_again_s = self._clock.time_s() + _TIMES_CHOOSING * took_s
        if took_s > length_s and (late := known.grid.chronon_at(self._clock.time_s())) > now:
            self._carry(self.waiting.take_all(), late)

    def _carry(self, waiting: Iterable[PlannedProbe], now: Chronon) -> None:
        """Keep probes that were not started for a later chronon, as its budget allows."""
        # They are not ranked again: that is what took too long
        capacity = self._planner.settings.capacity(now)
        self._reached = now
        self.waiting.begin_chronon(self._decider.known.grid.length_s, capacity, room=capacity)
        for planned in waiting:
            if (carried := self._planner.carry(planned, now)) is None:
                self.drop(planned)
            else:
                self.waiting.put_late(carried)
        self._count_budget(self._clock.time_s(), 0, capacity)

    def choose_again(self) -> None:
        """Choose again in this chronon, for what is left of it: sources that have come would wait for the next one."""
        self._has_more = True

    def _count_budget(self, now_s: float, spent: int, capacity: int) -> None:
        self.chosen_s = now_s
        self._metrics.allowed.inc(capacity)
        self._metrics.budget_used.set(self._used.add(now_s, spent, capacity))

    def _note_clock(self) -> None:
        """Log once that the machine's clock was set back, and once that it has caught up."""
        ahead_s = self._clock.time_s() - self._clock.wall_s()
        is_ahead = ahead_s > _NOTED_JUMP_S
        self._metrics.clock_ahead.set(ahead_s if is_ahead else 0.0)
        if is_ahead and not self._is_ahead:
            remedy = "time runs at half speed until the clock has caught up; restart proxyd to follow it at once"
            log.warning("the machine's clock was put back", seconds=round(ahead_s), remedy=remedy)
        self._is_ahead = is_ahead

    def drop(self, planned: PlannedProbe) -> None:
        """Give a probe back that is not made."""
        self._metrics.dropped.inc()
        self._put_back(planned)

    def _put_back(self, planned: PlannedProbe) -> None:
        now_s = self._clock.time_s()
        self._metrics.budget_used.set(self._used.add(now_s, -self._units(planned), 0))
        self._planner.drop(planned, now_s)

    def _units(self, planned: PlannedProbe) -> int:
        source = self._planner.sources.get(planned.probe.source_id)
        return 1 if source is None else source.probe_units

    def take_due(self, now_s: float) -> Iterator[PlannedProbe]:
        """Yield the probes that start now: a few, so that other tasks do not wait, and late ones as the budget allows.

        One whose host was asked later than planned is postponed, or dropped.
        """
        self.waiting.set_late_aside(now_s)
        for _ in range(_MOST_STARTED):
            if (planned := self.waiting.take_due(now_s)) is None:
                return
            at_s = self._planner.start(planned, now_s)
            if at_s >= self._decider.known.grid.start_s(planned.probe.chronon + 1):
                self.drop(planned)
            elif at_s > now_s:
                self.waiting.put(planned, at_s)
            else:
                self._started += 1
                self.waiting.note_start(now_s, self._units(planned))
                yield planned


class ProbeLoop:
    """Owns time for the decider: reads the clock, asks, acts, records.

    A chronon that passes while the loop is stalled is lost: its planned probes are given back. Only if it took long to
    choose them are they carried over to the next chronons, so that no more than a tenth of the time is spent choosing.
    """

    def __init__(
        self,
        decider: Decider,
        transport: Transport,
        observer: Observer,
        clock: Clock,
        metrics: Metrics,
        tracer: Tracer = NO_TRACES,
        *,
        most_together_s: float = _MOST_TOGETHER_S,
    ) -> None:
        self._decider = decider
        self._transport = transport
        self._observer = observer
        self._clock = clock
        self._metrics = metrics
        self._tracer = tracer
        self._together_s = min(_TOGETHER * decider.known.grid.length_s, most_together_s)
        self._choice = _ProbeChoice(decider, clock, metrics)
        self._tasks: set[asyncio.Task[None]] = set()
        self._read_by_twins: set[str] = set()  # what is being probed for several owners, by its reading
        self._wake = Signal()
        self._ending: asyncio.Task[None] | None = None
        self._placing: asyncio.Task[None] | None = None
        self._unanswered_since_s: float | None = None
        self.is_draining = False  # whether no more probes are started

    async def run(self) -> None:
        """Probe until ``drain``."""
        grid, together_s = self._decider.known.grid, -inf
        async with asyncio.TaskGroup() as tasks:
            while not self.is_draining:
                now_s = self._clock.time_s()
                can_record = self._observer.memory.can_record
                if can_record:  # otherwise outcomes would pile up, and be made again after an end
                    self._choice.choose(grid.chronon_at(now_s), now_s)
                if self._ending is None and self._decider.captures.is_overdue(now_s):
                    self._ending = tasks.create_task(self._end_overdue(now_s), name="end intervals")
                if self._placing is None and self._decider.placement.is_waiting:
                    self._placing = tasks.create_task(self._place(), name="place sources")
                for planned in self._choice.take_due(now_s) if can_record else ():
                    self._start(planned, now_s, tasks)
                    together_s = now_s + self._together_s
                next_s = grid.start_s(grid.chronon_at(now_s) + 1)
                if can_record:
                    due_s = self._choice.waiting.next_s()
                    next_s = min(next_s, due_s if due_s <= now_s else max(due_s, together_s))
                await self._wake.sleep(self._clock, next_s - self._clock.time_s())

    async def drain(self, timeout_s: float) -> None:
        """Start no more probes; wait for the running ones, then give them up: nothing of them is recorded."""
        self.is_draining = True
        self._wake.notify()
        if self._tasks:
            _, late = await asyncio.wait(list(self._tasks), timeout=timeout_s)
            for task in late:
                task.cancel()

    @property
    def last_chosen_s(self) -> float:
        """When probes were chosen last, in unix seconds."""
        return self._choice.chosen_s

    def silence_s(self, now_s: float) -> float:
        """Seconds since the first probe that has started since the last outcome, or 0."""
        return 0.0 if self._unanswered_since_s is None else max(0.0, now_s - self._unanswered_since_s)

    def under_way(self) -> set[str]:
        """Return the sources with a probe or an observation under way; nothing is recorded of others."""
        return self._observer.under_way().union(self._decider.planner.in_flight)

    def give_back(self) -> None:
        """Give back the planned probes of sources that are another planner's now."""
        known = self._decider.known
        for planned in self._choice.waiting.take_of(lambda source_id: not known.has(source_id)):
            self._choice.drop(planned)

    def choose_again(self) -> None:
        """Choose probes at once: sources have come."""
        self._choice.choose_again()
        self._wake.notify()

    def _give_up(self, planned: PlannedProbe, why: Unmade) -> None:
        """Let a probe that has no outcome be planned again; if it may have been made, it counts as one."""
        if why is Unmade.NOT_BEGUN:
            self._choice.drop(planned)
            return
        self._metrics.lost.inc()
        self._decider.planner.finish(planned.probe.source_id, self._clock.time_s(), seen=False)

    def _start(self, planned: PlannedProbe, now_s: float, tasks: asyncio.TaskGroup) -> None:
        if self._unanswered_since_s is None:
            self._unanswered_since_s = now_s
        task = tasks.create_task(self._probe(planned), name=f"probe {planned.probe.source_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _probe(self, planned: PlannedProbe) -> None:
        request = self._decider.request(planned.probe.source_id, self._clock.time_s())
        if request is None:  # the source was removed after its probe was planned
            self._choice.drop(planned)
            return
        twins = self._decider.known.compiled.twins.get(request.reading, ())
        if twins and request.reading in self._read_by_twins:  # it gets what that probe finds
            self._choice.drop(planned)
            return
        if not twins:
            await self._make(planned, request)
            return
        self._read_by_twins.add(request.reading)
        try:
            if (outcome := await self._make(planned, request)) is not None:
                await self._tell_twins(request, outcome, [each for each in twins if each != request.source_id])
        finally:
            self._read_by_twins.discard(request.reading)

    async def _tell_twins(self, asked: ProbeRequest, outcome: ProbeOutcome, twins: Iterable[str]) -> None:
        """Let the sources that others read in the same way have the outcome, if they would have asked for the same.

        The first probe of each is its own, so that its owner is told only of what came since.
        """
        now_s, states = self._clock.time_s(), self._decider.known.states
        probed = [each for each in twins if each in states and states[each].last_start_s is not None]
        requests = {each: self._decider.request(each, now_s) for each in probed}
        alike = {name for name, its in requests.items() if its is not None and _is_alike(asked, its, outcome.kind)}
        for planned in self._choice.waiting.take_of(alike.__contains__) if alike else ():
            self._choice.drop(planned)
        for twin in sorted(alike):
            if self._decider.planner.join(twin, outcome.started_s):
                await self._observer.take_in(replace(outcome, source_id=twin), reading=asked.reading)

    async def _make(self, planned: PlannedProbe, request: ProbeRequest) -> ProbeOutcome | None:
        """Make a probe, and return its outcome once it is recorded, or ``None`` if it has none."""
        facts = {"source": planned.probe.source_id, "reason": planned.probe.reason.value}
        begun_s = min(planned.start_s, self._clock.wall_s())
        with self._tracer.span("probe", facts, begun_s=begun_s) as span:
            if trace := self._tracer.context():  # the prober goes on with this step
                request = replace(request, trace=trace)
            async with self._transport.probe(request) as outcome:
                if isinstance(outcome, Unmade):
                    self._give_up(planned, outcome)
                    span.fail(outcome.value)
                    return None
                self._unanswered_since_s = None
                lateness_s = max(0.0, outcome.started_s - planned.start_s)
                self._metrics.lateness.observe(lateness_s)
                span.note(outcome=outcome.kind.value, lateness_s=lateness_s)
                await self._observer.take_in(outcome, reading=request.reading, probe=planned.probe)
                return outcome

    async def _end_overdue(self, now_s: float) -> None:
        await self._observer.end_overdue(now_s)
        self._ending = None

    async def _place(self) -> None:
        with ExitStack() as stack:
            for parts, _ in enumerate(self._decider.placement.place_in_parts(self._clock.time_s), 1):
                if self.is_draining:
                    break
                if parts == _MANY_PARTS:
                    stack.enter_context(growing())
                await asyncio.sleep(0)
        self._placing = None


_AS_BEFORE = frozenset({OutcomeKind.SAME_BODY, OutcomeKind.NOT_MODIFIED})


def _is_alike(asked: ProbeRequest, other: ProbeRequest, kind: OutcomeKind) -> bool:
    """Return whether the outcome of a request says the same of another source, with its own headers and secrets."""
    alike = replace(asked, source_id=other.source_id, trace=other.trace)
    if kind not in _AS_BEFORE:
        alike = replace(alike, validators=other.validators, body_hash=other.body_hash)
    return alike == other
