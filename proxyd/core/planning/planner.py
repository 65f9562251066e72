"""The planner: takes rates, rules and politeness, and returns the probes of the present chronon with their reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from heapq import merge
from math import inf
from operator import attrgetter
from typing import TypeAlias

import numpy as np

from proxyd.core.model.chronon import Chronon
from proxyd.core.model.schedule import Constraint, Probe, Reason
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.chunks import Chunked, chunks, run_all
from proxyd.core.planning.queue.candidates import Candidate, Candidates
from proxyd.core.planning.queue.due_times import LEARNS_EVERY_S, DueTimes, learning_s
from proxyd.core.planning.queue.planned_source import PlannedSource, ProbeLimits
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.planning.queue.probe_slots import PlannedProbe, SlotAllocator, UnitDebt
from proxyd.core.planning.queue.source_queues import SourceQueues
from proxyd.core.politeness.host_budgets import HostBudgets, ScopeBlocks

Learn: TypeAlias = Callable[[PlannedSource], None]

_ROUNDING_S = 1e-6  # sums of 0.2 s miss the start of a chronon by a little


def _learn_nothing(source: PlannedSource) -> None:
    pass


def _still_asks(source: PlannedSource, probe: Probe, now: Chronon) -> bool:
    """Whether a rule that asks in certain chronons asks for a probe in ``now`` too; others ask until they have it."""
    asking = [demand for demand in source.demands if demand.has_deadline and demand.reason is probe.reason]
    asked = (demand.pending(now) for demand in asking)
    return not asking or any(interval and interval.start <= now <= interval.deadline for interval in asked)


@dataclass(frozen=True, slots=True)
class Choice:
    """The probes of a chronon, and how they were chosen."""

    probes: list[PlannedProbe]
    held_back: list[tuple[str, Constraint]]  # sources that could not be probed, and why
    passed_over: int  # how many more that only detect found no room
    limit: Constraint  # what left no room: the budget or this machine
    spent: int  # units of the budget, of which a render costs several


class Planner:
    """Chooses, chronon by chronon, which sources to probe.

    The hardest constraints come first: back-off and Retry-After, source and host politeness, the budget ``C_j``. Then
    come execution intervals and fixed probes by deadline, first contacts, detection by expected delay saved and, if the
    objective is to spend, the probes that save most. In a tenth of the chronons, by the golden ratio, first contacts
    and detection come first: fixed probes may ask for the whole budget. A source is looked at only when it may be due:
    O(log n) a probe.

    It reads no clock: call ``choose`` with non-decreasing chronons. The budget that one chronon did not use is lost.
    """

    def __init__(self, settings: PlannerSettings) -> None:
        self.settings = self._whole = settings
        self.budget_part = 1.0
        self.sources: dict[str, PlannedSource] = {}
        self.timed: dict[str, PlannedSource] = {}  # those that do not only detect, which are few in most fleets
        self.limits = ProbeLimits(HostBudgets(settings.host_budget), ScopeBlocks())
        self.in_flight: dict[str, Chronon] = {}  # sources whose probes have not finished; when they were chosen
        self._debt = UnitDebt()
        self.due_times = DueTimes(settings)
        self.queues = SourceQueues(settings, self.due_times)
        self._candidates = Candidates(settings, self.due_times)
        self._coming: WeekPlan | None = None

    # -- inputs from the daemon

    def share(self, part: float) -> None:
        """Choose within a part of the budget from now on, 0 to 1; other planners have the rest."""
        self.budget_part = part
        self.settings = replace(self._whole, budget=self._whole.budget.times(part))
        self._candidates.use(self.settings)

    def announce(self, week: WeekPlan) -> None:
        """Let a plan that will be taken over follow every probe from now on."""
        self._coming = week

    def change_to(self, week: WeekPlan) -> None:
        """Detect by another plan; its sources keep sleeping until they are rescheduled."""
        self.due_times.follow(week)
        self._coming = None
        self.queues.renumber(week)

    def in_parts(self, order: Iterable[str] | None = None) -> Iterator[list[PlannedSource]]:
        """Yield all sources in parts, or those of ``order``; those put or removed meanwhile may be missing."""
        for names in chunks(tuple(self.sources if order is None else order)):
            yield [source for name in names if (source := self.sources.get(name)) is not None]

    def put(self, source: PlannedSource, now: Chronon) -> None:
        """Add or replace a source."""
        self.remove(source.source_id)
        self.sources[source.source_id] = source
        if not source.demands.only_detects:
            self.timed[source.source_id] = source
        self.reschedule(source.source_id, now)

    def remove(self, source_id: str) -> None:
        """Forget a source; does nothing if it is not known."""
        source = self.sources.pop(source_id, None)
        self.timed.pop(source_id, None)
        if source is not None:
            self.queues.forget(source)

    def start(self, planned: PlannedProbe, now_s: float) -> float:
        """Return when a planned probe may really start, given other starts; at ``now_s`` it has started."""
        # A loop that is late asks this before every start, and drops the probe if the answer lies outside its chronon.
        source = self.sources.get(planned.probe.source_id)
        if source is None:
            return now_s
        at_s = self.limits.hosts.start(source.host, planned.start_s, now_s)
        if at_s <= now_s:
            source.move_last(now_s)
        return at_s

    def join(self, source_id: str, start_s: float) -> bool:
        """Let a source take part in a probe of another one with the same address; return whether it waits for one.

        It counts for the source's own limits, and not once more for those of the host.
        """
        source = self.sources.get(source_id)
        if source is None or source_id in self.in_flight:
            return False
        source.record(start_s)
        self.in_flight[source_id] = self.settings.grid.chronon_at(start_s)
        return True

    def finish(self, source_id: str, now_s: float, *, seen: bool, learn: Learn = _learn_nothing) -> None:
        """Note that a probe ended; ``seen`` says whether it showed the source's state."""
        chronon = self.in_flight.pop(source_id, None)
        source = self.sources.get(source_id)
        if source is None:
            return
        source.asked = None
        if seen:
            source.note_seen(now_s, chronon)
        learn(source)  # before the source is rescheduled, once: due times may take 0.3 ms
        self.reschedule(source_id, self.settings.grid.chronon_at(now_s))

    def ask(self, source_id: str, now_s: float, reason: Reason = Reason.ASKED) -> None:
        """Make a source due at once, whatever its freshness and its back-off say, for one probe."""
        source = self.sources[source_id]
        source.asked = reason
        if source_id not in self.in_flight:
            self.reschedule(source_id, self.settings.grid.chronon_at(now_s))

    def hint(self, source_id: str, items: float, *, since_s: float, now_s: float) -> None:
        """Note that so many items may wait at a source unless it was seen since ``since_s``; it is then due earlier."""
        source = self.sources.get(source_id)
        if source is None or source.last_seen_s is None or source.last_seen_s >= since_s:
            return
        if items > source.hidden:
            source.hidden, source.hidden_since_s = items, since_s
            self.reschedule(source_id, self.settings.grid.chronon_at(now_s))

    def wake(self, source_ids: Iterable[str], now_s: float) -> None:
        """Look at sources again that the plan of the week made due earlier."""
        for source_id in source_ids:
            if source_id in self.sources and source_id not in self.in_flight:
                self.reschedule(source_id, self.settings.grid.chronon_at(now_s))

    def note_push(self, source_id: str, now_s: float, *, learn: Learn = _learn_nothing) -> None:
        """Note that a hub showed new items of a source; if it leaves out few, this is as good as a probe, and free."""
        source = self.sources.get(source_id)
        if source is not None:
            if source.is_pushed(now_s):  # else the items that it leaves out would never be looked for
                source.note_seen(now_s, self.settings.grid.chronon_at(now_s))
            learn(source)
            self.reschedule(source_id, self.settings.grid.chronon_at(now_s))

    def drop(self, planned: PlannedProbe, now_s: float) -> None:
        """Note that a planned probe was never started; the demand behind it asks again, at the due time it had."""
        self.in_flight.pop(planned.probe.source_id, None)
        source = self.sources.get(planned.probe.source_id)
        if source is not None:
            source.take_back()
            self._debt.forgive(source.probe_units - 1)
            self.limits.hosts.take_back(source.host, planned.start_s)
            self._sleep(source, self.settings.grid.chronon_at(now_s))

    def carry(self, planned: PlannedProbe, now: Chronon) -> PlannedProbe | None:
        """Plan a probe that its chronon did not reach for ``now``; return ``None`` if it must be planned again.

        The caller keeps within the budget of ``now``.
        """
        probe, source = planned.probe, self.sources.get(planned.probe.source_id)
        now_s = self.settings.grid.start_s(now)
        if source is None or source.probe_units > 1 or self.limits.throttle_end_s(source) > now_s:
            return None
        # Nothing asks for it any more, or it may not start.
        if source.asked is None and (source.not_before_s > now_s or not _still_asks(source, probe, now)):
            return None
        self.in_flight[source.source_id] = now
        return PlannedProbe(replace(probe, chronon=now), planned.start_s)

    def reschedule(self, source_id: str, now: Chronon) -> None:
        """Compute again when to look at a source, after its rate, demands or back-off changed."""
        source = self.sources[source_id]
        source.dues = None
        self._sleep(source, now)

    def _sleep(self, source: PlannedSource, now: Chronon) -> None:
        for week in (self.week, self._coming):
            if week is not None:
                source.follow(week)
        self.queues.sleep(source, self.due_times.wake(source, now))

    def wake_due(self, now: Chronon) -> None:
        """Wake the sources whose time has come, so that the next choice has less to do."""
        self.queues.wake_up(now, self.sources)

    # -- decisions

    def choose(self, now: Chronon, most: float = inf, *, from_s: float = -inf) -> Choice:
        """Choose the probes to start in chronon ``now``: at most ``most``, none before ``from_s``.

        They take their slots of hosts and budget.
        """
        self.queues.wake_up(now, self.sources)
        start_s = self.settings.grid.start_s(now)
        stop_s = self.settings.grid.start_s(now + 1)
        capacity = self.settings.capacity(now)
        limit = Constraint.OVERLOAD if most < capacity else Constraint.BUDGET
        left = self._debt.pay(now, capacity, self.settings.capacity)
        slots = SlotAllocator(start_s, stop_s - start_s, int(min(left, most)), from_s=from_s)
        given = slots.room
        if not given and from_s > start_s:  # too late for this chronon: no source loses its turn
            return Choice([], [], 0, limit, capacity - left)
        chosen: list[PlannedProbe] = []
        held_back: list[tuple[str, Constraint]] = []
        without_turn: list[PlannedSource] = []
        hard = self._candidates.hardest(self.queues.awake, self.sources, self.in_flight, now)
        is_alone = len(self.sources) == 1  # there is no other source to be ranked with
        waiting = self._candidates.waiting(self.queues, now, slots, is_alone=is_alone)
        free = (candidate for candidate in waiting if candidate.source.source_id not in self.in_flight)
        for candidate in merge(hard, free, key=attrgetter("rank")):
            source = candidate.source
            earliest_s = max(start_s, from_s, self.limits.earliest_s(source), candidate.earliest_s)
            if earliest_s >= stop_s - _ROUNDING_S:
                blocked_by = self.limits.obstacle_at(source, stop_s - _ROUNDING_S) or Constraint.HOST_POLITENESS
                if candidate.reason is Reason.SPEND:
                    without_turn.append(source)
            elif (source.probe_units > 1 and self._debt.is_owed) or (at_s := slots.take(earliest_s)) is None:
                blocked_by = limit
            else:
                self._debt.owe(slots.spend(source.probe_units - 1))
                chosen.append(self._take(candidate, now, at_s))
                continue
            if candidate.reason is Reason.LEARNING:
                self._put_off_learning(source, now, has_room=capacity > 0)
            else:
                held_back.append((source.source_id, blocked_by))
                source.postpone(blocked_by)
                self.queues.note_look(source.source_id, limit)
        for planned in chosen:
            self.queues.rest(planned.probe.source_id)
        self._wait_for_turns(without_turn, now)
        chosen.sort(key=lambda p: (p.start_s, p.probe.source_id))
        spent = capacity - left + given - slots.room
        return Choice(chosen, held_back, self.queues.pass_over(limit), limit, spent)

    def part(self, source_ids: Iterable[str]) -> Planner:
        """Return a copy that has only some of the sources."""
        return run_all(self.copy_in_parts(source_ids))

    def copy_in_parts(self, source_ids: Iterable[str]) -> Chunked[Planner]:
        """Return what ``part`` returns, made in parts; sources that are put or removed meanwhile may be missing."""
        part = Planner(self.settings)
        part.limits = replace(part.limits, blocks=self.limits.blocks.copy())
        for sources in self.in_parts(source_ids):
            copies = {source.source_id: source.copy() for source in sources}
            part.sources |= copies
            part.timed |= {name: source for name, source in copies.items() if name in self.timed}
            part.in_flight |= {name: self.in_flight[name] for name in copies if name in self.in_flight}
            self.limits.hosts.copy_into(part.limits.hosts, {source.host for source in sources})
            self.queues.copy_into(part.queues, copies)
            yield
        part._debt = self._debt.copy()
        if part.sources:
            part.due_times.follow(deepcopy(self.week))
        return part

    @property
    def week(self) -> WeekPlan | None:
        """The plan of the week, if there is one."""
        return self.due_times.week

    def postponements(self, source_id: str) -> dict[Constraint, int]:
        """Return how often each constraint held back a source's probes."""
        source = self.sources[source_id]
        return dict(Counter(source.postponed) + self.queues.count_passed_over(source_id))

    def _take(self, candidate: Candidate, now: Chronon, at_s: float) -> PlannedProbe:
        source = candidate.source
        is_first = source.last_seen_s is None and not source.log.starts_s
        self.in_flight[source.source_id] = now
        source.record(at_s)
        self.limits.hosts.plan(source.host, at_s)
        reason = Reason.FIRST_CONTACT if is_first else candidate.reason
        probe = Probe(source.source_id, now, reason, candidate.rule, source.rate_per_s * 86400.0)
        return PlannedProbe(probe, at_s)

    def _put_off_learning(self, source: PlannedSource, now: Chronon, *, has_room: bool) -> None:
        """Let a source that is only asked because it is new wait for its next turn, or for a chronon with room."""
        # Thousands of new sources may wait for room, and must not be looked at in every chronon.
        if not has_room:  # five of six chronons, with one probe a minute: its turn is not over by that
            stop = now + 1 + self.settings.grid.ceil(LEARNS_EVERY_S)
            self.queues.sleep_until(source, self.settings.next_room(now + 1, stop))
            return
        source.skipped_s, source.dues = self.settings.grid.start_s(now + 1), None
        self.queues.sleep(source, self.due_times.wake(source, now))

    def _wait_for_turns(self, sources: Iterable[PlannedSource], now: Chronon) -> None:
        """Let sources that are not due sleep until their hosts may have a turn for them; thousands may share a host."""
        for source in sources:
            turn_s = self.limits.hosts.turn_s(source.host, self.limits.earliest_s(source))
            turn = max(now + 1, self.settings.grid.chronon_at(turn_s))
            self.queues.sleep_until(source, min(turn, self.due_times.wake(source, now + 1)))


def switch_plan(planner: Planner, week: WeekPlan, now: Chronon) -> Chunked[None]:
    """Detect by a new plan of the week, once it has caught up with the probes made while it was computed.

    Until then the old plan holds. From then on a source that was not rescheduled yet may wake at the time of the old
    plan, too early or late, but it is due by the new one; so no probe is made twice, and none is lost.
    """
    planner.announce(week)
    for sources in planner.in_parts():
        for source in _behind(week, sources):
            source.follow(week)
        yield  # before the next part is looked up: sources may come and go meanwhile
    planner.change_to(week)
    for sources in planner.in_parts():
        _reschedule(planner, week, sources, now)
        yield


def _behind(week: WeekPlan, sources: Sequence[PlannedSource]) -> list[PlannedSource]:
    """Return the sources that changed since the plan was made."""
    seen = [source for source in sources if source.last_seen_s is not None]
    told = np.array(
        [(source.rate_per_s, source.weight_at_price, source.last_seen_s) for source in seen], dtype=np.float64
    )
    behind = week.behind([source.source_id for source in seen], told.reshape(len(seen), 3))
    return [source for source, is_behind in zip(seen, behind.tolist(), strict=True) if is_behind]


def _reschedule(planner: Planner, week: WeekPlan, sources: Sequence[PlannedSource], now: Chronon) -> None:
    """Reschedule sources by the new plan; those seen before that only detect are looked up in it together."""
    grid, plain, allowed_s = planner.settings.grid, list[PlannedSource](), list[float]()
    for source in sources:
        at_s = source.earliest_start_s()
        is_plain = source.demands.only_detects and source.window is None and not source.hidden and at_s < inf
        if not is_plain or source.asked is not None or source.is_pushed(grid.start_s(now)):
            planner.reschedule(source.source_id, now)
        elif source.last_seen_s is not None:
            plain.append(source)
            allowed_s.append(at_s)
    dues_s = week.dues_s([source.source_id for source in plain]).tolist()
    for source, at_s, planned_s in zip(plain, allowed_s, dues_s, strict=True):
        if planned_s < inf:
            # the first plan let new sources wait until it wanted them, though they are asked often on their first day
            due_s = min(planned_s, learning_s(source))
            planner.queues.sleep(source, max(now, grid.chronon_at(at_s), grid.chronon_at(due_s)))
        else:  # the plan never wants the source, or does not know it: it was first seen after the plan was begun
            planner.reschedule(source.source_id, now)
    planner.wake_due(now)  # a scarce budget lets thousands be due at once
