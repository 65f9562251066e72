"""The planner: rates, rules and politeness in, probes of the present chronon out, each with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from functools import partial
from heapq import merge
from math import inf, isinf
from operator import attrgetter

import numpy as np

from proxyd.core.model.chronon import Chronon, Epoch
from proxyd.core.model.schedule import Constraint, Probe, Reason
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.chunks import chunks
from proxyd.core.planning.planned_source import PlannedSource
from proxyd.core.planning.planner_settings import PlannerSettings
from proxyd.core.planning.queue.candidates import LOOKAHEAD_CHRONONS, Candidate, Candidates
from proxyd.core.planning.queue.due_times import DueTimes
from proxyd.core.planning.queue.probe_slots import PlannedProbe, SlotAllocator
from proxyd.core.planning.queue.ready_queue import Floats, Ints, ReadyQueue
from proxyd.core.planning.queue.wake_queue import WakeQueue
from proxyd.core.politeness import HostBudgets

_MOST_COPIED = 4000
_ROUNDING_S = 1e-6  # sums of 0.2 s miss the start of a chronon by a little


class Planner:
    """Chooses, chronon by chronon, which sources to probe.

    Hardest first: back-off and Retry-After, source and host politeness, the budget ``C_j``; then execution intervals
    and fixed probes by deadline, first contacts, detection by expected delay saved and, where the objective is to
    spend, whatever saves most. A page is looked at only when it may be due: O(log n) a probe.

    It reads no clock: ``choose`` must be called with non-decreasing chronons. What one chronon did not use is lost.
    ``held_back`` holds the sources that the last call wanted to probe and could not, with the constraint;
    ``passed_over`` says for how many more that only detect there was no room, and ``limit`` what left none: the budget,
    or ``most``, which is what this machine manages.

    Examples
    --------
    >>> from proxyd.core.model.chronon import ChrononGrid
    >>> from proxyd.core.politeness import PolitenessBudget, ProbeLog
    >>> from proxyd.core.model.budget import Budget
    >>> from proxyd.core.planning.planner_settings import PlannerSettings
    >>> from proxyd.core.planning.policies.demand import Demands
    >>> planner = Planner(PlannerSettings(grid=ChrononGrid(10.0), budget=Budget(1.0)))
    >>> log = ProbeLog(PolitenessBudget(60.0))
    >>> planner.put(PlannedSource("a", "example.org", log, Demands(detecting=["r"]), rate_per_s=0.01), now=0)
    >>> [(planned.probe.source_id, planned.probe.reason.value) for planned in planner.choose(0)]
    [('a', 'first contact')]
    """

    def __init__(self, settings: PlannerSettings) -> None:
        self.settings = settings
        self.pages: dict[str, PlannedSource] = {}
        self.hosts = HostBudgets(settings.host_budget)
        self._blocked_s: dict[str, float] = {}
        self._in_flight: dict[str, Chronon] = {}
        self.held_back: list[tuple[str, Constraint]] = []
        self.passed_over = 0
        self.limit = Constraint.BUDGET
        self._sleeping = WakeQueue()
        self._awake: set[str] = set()
        self._unseen, self._due = ReadyQueue(), ReadyQueue()
        self._dues = DueTimes(settings)
        self._candidates = Candidates(settings, self._dues)
        self._coming: WeekPlan | None = None

    # -- what the daemon tells it

    def announce(self, week: WeekPlan) -> None:
        """Let a plan that is to be taken over follow every probe from now on."""
        self._coming = week

    def change_to(self, week: WeekPlan) -> None:
        """Detect by another plan; its pages go on sleeping until they are rescheduled."""
        self._dues.week, self._coming = week, None
        self._due.renumber(week)

    def sleep(self, page: PlannedSource, wake: Chronon) -> None:
        """Let a page be no candidate until ``wake``."""
        self._rest(page.source_id)
        self._sleeping.put(page, wake)

    def in_parts(self) -> Iterator[list[PlannedSource]]:
        """Yield all pages in parts, but for those that are put or removed meanwhile."""
        for names in chunks(tuple(self.pages)):
            yield [page for name in names if (page := self.pages.get(name)) is not None]

    def put(self, page: PlannedSource, now: Chronon) -> None:
        """Add or replace a page."""
        self.remove(page.source_id)
        self.pages[page.source_id] = page
        self.reschedule(page.source_id, now)

    def remove(self, source_id: str) -> None:
        """Forget a page; does nothing where it is not known."""
        page = self.pages.pop(source_id, None)
        if page is not None:
            self._sleeping.remove(page)
            self._rest(source_id)

    def _rest(self, source_id: str) -> None:
        """Let a page be no candidate until it wakes again."""
        self._awake.discard(source_id)
        self._unseen.remove(source_id)
        self._due.remove(source_id)

    def start(self, planned: PlannedProbe, now_s: float) -> float:
        """Return when a planned probe may really start, given when others really did; at ``now_s`` it has.

        A loop that is late must ask this before every start, and drop the probe (``finished``) where the answer lies
        outside its chronon.
        """
        page = self.pages.get(planned.probe.source_id)
        if page is None:
            return now_s
        at_s = self.hosts.start(page.host, planned.start_s, now_s)
        if at_s <= now_s:
            page.move_last(now_s)
        return at_s

    def finished(self, source_id: str, now_s: float, *, seen: bool) -> None:
        """Note that a probe ended; ``seen`` where it showed the source's state."""
        chronon = self._in_flight.pop(source_id, None)
        page = self.pages.get(source_id)
        if page is None:
            return
        if seen:
            page.last_seen_s, page.hidden = max(now_s, page.last_seen_s or 0.0), 0.0
            if chronon is not None:
                page.demands.probed(chronon)
        self.reschedule(source_id, self.settings.grid.chronon_at(now_s))

    def hint(self, source_id: str, items: float, *, since_s: float, now_s: float) -> None:
        """Note that so many items may wait at a source if it was not seen since ``since_s``: it is due earlier.

        A probe is due when what waits costs as much a second as the policy does on the average, whatever it waits for.
        """
        page = self.pages.get(source_id)
        if page is not None and page.last_seen_s is not None and page.last_seen_s < since_s and items > page.hidden:
            page.hidden = items
            self.reschedule(source_id, self.settings.grid.chronon_at(now_s))

    def pushed(self, source_id: str, now_s: float) -> None:
        """Note that a hub showed what is new at a source: as good as a probe, and free."""
        page = self.pages.get(source_id)
        if page is not None:
            page.last_seen_s, page.hidden = max(now_s, page.last_seen_s or 0.0), 0.0
            page.demands.probed(self.settings.grid.chronon_at(now_s))
            self.reschedule(source_id, self.settings.grid.chronon_at(now_s))

    def drop(self, planned: PlannedProbe, now_s: float) -> None:
        """Note that a planned probe was never started; what asked for it asks again."""
        page = self.pages.get(planned.probe.source_id)
        if page is not None:
            page.take_back()
            self.hosts.take_back(page.host, planned.start_s)
        self.finished(planned.probe.source_id, now_s, seen=False)

    def forget_hosts(self, now_s: float) -> None:
        """Forget the hosts that no page is of, and the throttles that are over."""
        self.hosts.keep({page.host for page in self.pages.values()})
        self._blocked_s = {scope: until_s for scope, until_s in self._blocked_s.items() if until_s > now_s}

    def block(self, throttle_scope: str, until_s: float) -> None:
        """Let no probe of a throttle scope start before ``until_s``."""
        self._blocked_s[throttle_scope] = max(until_s, self._blocked_s.get(throttle_scope, -inf))

    def reschedule(self, source_id: str, now: Chronon) -> None:
        """Find out anew when to look at a page, after its rate, demands or back-off changed."""
        page = self.pages[source_id]
        for week in (self.week, self._coming):
            if week is not None:
                page.follow(week)
        self.sleep(page, self._wake(page, now))

    # -- what it decides

    def choose(self, now: Chronon, most: float = inf) -> list[PlannedProbe]:
        """Return the probes to start in chronon ``now``, in order of start, and take them as started."""
        self._wake_up(now)
        self.held_back = []
        start_s = self.settings.grid.start_s(now)
        stop_s = self.settings.grid.start_s(now + 1)
        capacity = self.settings.capacity(now)
        self.limit = Constraint.OVERLOAD if most < capacity else Constraint.BUDGET
        pace = SlotAllocator(start_s, stop_s - start_s, int(min(capacity, most)))
        chosen: list[PlannedProbe] = []
        hard = sorted(self._wanted(now), key=attrgetter("rank"))
        waiting = self._waiting(now, pace)
        for candidate in merge(hard, waiting, key=attrgetter("rank")):
            page = candidate.page
            earliest_s = max(start_s, self.earliest_s(page))
            if earliest_s >= stop_s - _ROUNDING_S:
                self._postpone(page, self.blocked_by(page, stop_s - _ROUNDING_S) or Constraint.HOST_POLITENESS)
            elif (at_s := pace.take(earliest_s)) is None:
                self._postpone(page, self.limit)
            else:
                chosen.append(self._take(candidate, now, at_s))
        for planned in chosen:
            self._rest(planned.probe.source_id)
        self.passed_over = self._unseen.pass_over(self.limit) + self._due.pass_over(self.limit)
        return sorted(chosen, key=lambda p: (p.start_s, p.probe.source_id))

    def preview(self, epoch: Epoch, *, limit: int | None = None) -> list[PlannedProbe]:
        """Return the probes of ``epoch`` as they will come if every probe finds what the rates expect.

        Works on a copy; ``limit`` stops after that many probes, and then only the pages that may come before all others
        are copied: those that wake first, and the best of those that wait for room. Where hosts hold back thousands of
        these, what would be probed in their place may be missing.
        """
        if limit is None or self.settings.spend:
            return self._play_first(self.pages, epoch, limit)[0][:limit]
        room = limit
        while True:
            names, until = self._first(room, epoch)
            probes, held_back = self._play_first(names, Epoch(epoch.start, max(epoch.start, until)), limit)
            is_sure = room > _MOST_COPIED or room >= limit + held_back
            is_all = len(names) == len(self.pages) or (until >= epoch.stop and not held_back)
            if is_all or (is_sure and len(probes) >= limit):
                return probes[:limit]
            room = 4 * max(room, held_back)

    def _first(self, room: int, epoch: Epoch) -> tuple[set[str], Chronon]:
        """Return the pages of which the first ``room`` probes are, and before when there are no others."""
        until = self._when_used(room, epoch)
        now_s, until_s = self.settings.grid.start_s(epoch.start), self.settings.grid.start_s(until)
        unseen = self._unseen.first(room, self._unseen.soonest, self._unseen.soonest)
        due = self._due.first(room, self._gains_at(now_s), self._gains_at(until_s))
        sleeping = self._sleeping.first(room + 1, self.pages)
        if len(sleeping) > room:
            until = min(until, sleeping.pop().wake)
        names = self._awake | self._in_flight.keys() | {page.source_id for page in (*unseen, *due, *sleeping)}
        return names & self.pages.keys(), epoch.stop if len(names) >= len(self.pages) else until

    def _when_used(self, room: int, epoch: Epoch) -> Chronon:
        """Return the first chronon before which the budget has room for so many probes."""
        left = room
        for now in range(epoch.start, epoch.stop):
            if left <= 0:
                return now
            left -= self.settings.capacity(now)
        return epoch.stop

    def _gains_at(self, now_s: float) -> Callable[[Ints], Floats]:
        if len(self.pages) == 1:  # there is nobody to be ranked with
            return lambda places: np.zeros(len(places))
        return partial(self._due.gains, now_s=now_s, week=self.week, price_item_s=self.price_item_s)

    def _play_first(self, source_ids: Iterable[str], epoch: Epoch, limit: int | None) -> tuple[list[PlannedProbe], int]:
        """Return probes of some pages, ``limit`` at least if there are, and how many pages were held back meanwhile."""
        probes: list[PlannedProbe] = []
        held_back: set[str] = set()
        part = self.part(source_ids)
        for _, chosen in part.play(epoch):
            probes += chosen
            held_back.update(name for name, _ in part.held_back)
            if limit is not None and len(probes) >= limit:
                break
        return probes, len(held_back)

    def part(self, source_ids: Iterable[str]) -> Planner:
        """Return a copy that has some of the pages alone."""
        part = Planner(self.settings)
        part.pages = {source_id: self.pages[source_id].copy() for source_id in source_ids}
        part.hosts = self.hosts.part({page.host for page in part.pages.values()})
        part._dues.week = deepcopy(self.week)
        part._blocked_s = dict(self._blocked_s)
        part._in_flight = {source_id: at for source_id, at in self._in_flight.items() if source_id in part.pages}
        for source_id, page in part.pages.items():  # those that are awake, or wait, wake again at once
            part._sleeping.put(page, 0 if source_id in self._due else page.wake)
        return part

    def play(self, epoch: Epoch) -> Iterator[tuple[Chronon, list[PlannedProbe]]]:
        """Go through an epoch as if every probe ended at once, those in flight too; yields what each chronon chose."""
        for source_id in tuple(self._in_flight):
            self.finished(source_id, self.settings.grid.start_s(epoch.start), seen=True)
        now = epoch.start
        while now < epoch.stop:
            chosen = self.choose(now)
            for planned in chosen:
                self.finished(planned.probe.source_id, planned.start_s, seen=True)
            yield now, chosen
            now = max(now + 1, self.next_wake(now))

    @property
    def in_flight(self) -> int:
        """How many probes were chosen and have not finished."""
        return len(self._in_flight)

    def is_in_flight(self, source_id: str) -> bool:
        """Return whether a probe of a source was chosen and has not finished."""
        return source_id in self._in_flight

    def preview_source(self, source_id: str, epoch: Epoch) -> PlannedProbe | None:
        """Return the first probe of one source in ``epoch``, as if it had the budget to itself."""
        page = self.pages.get(source_id)
        if page is None:
            return None
        alone = Planner(self.settings)
        alone._dues.week = self.week  # it does not change until a probe ends
        alone._blocked_s = {page.throttle_scope or page.host: self._blocked_until_s(page)}
        alone.put(page.copy(), epoch.start)
        earliest_s = max(page.allowed_s(), self._blocked_until_s(page), 0.0)
        now = max(epoch.start, self.settings.grid.chronon_at(earliest_s))
        while now < epoch.stop:
            if chosen := alone.choose(now):
                return chosen[0]
            now = max(now + 1, alone.next_wake(now))
        return None

    def next_wake(self, now: Chronon) -> Chronon:
        """Return the next chronon at which a page may be due."""
        if self._awake or self._unseen or self._due or self.settings.spend:
            return now + 1
        wake = self._sleeping.next_wake
        return now + 10**9 if wake is None else wake

    def earliest_s(self, page: PlannedSource) -> float:
        """Return the earliest start that the page and its host allow, in unix seconds."""
        return max(page.allowed_s(), self.hosts.earliest_s(page.host), self._blocked_until_s(page))

    def blocked_by(self, page: PlannedSource, now_s: float) -> Constraint | None:
        """Return the constraint that forbids a start of the page at ``now_s``."""
        if (own := page.blocked_by(now_s)) is not None:
            return own
        if self._blocked_until_s(page) > now_s:
            return Constraint.HOST_THROTTLED
        return Constraint.HOST_POLITENESS if self.earliest_s(page) > now_s else None

    # -- how

    def _wake_up(self, now: Chronon) -> None:
        """Let the pages whose time has come be candidates: by themselves, or ranked with all that only detect."""
        for page in self._sleeping.wake_up(now, self.pages):
            self._rest(page.source_id)
            if self.settings.spend or not page.demands.only_detects or page.hidden or self._is_pushed(page, now):
                self._awake.add(page.source_id)
            elif page.last_seen_s is None:
                self._unseen.put(page, self.week)
            elif self._dues.only_detects(page, now):
                self._wait(page)
            else:
                self._awake.add(page.source_id)

    def _wait(self, page: PlannedSource) -> None:
        """Let a page wait for room, and wake again where items are to be saved from sliding off its feed."""
        self._due.put(page, self.week)
        if (overflow_s := self._dues.overflow_s(page)) < inf:
            self._sleeping.put(page, self.settings.grid.chronon_at(overflow_s))

    def _wake(self, page: PlannedSource, now: Chronon) -> Chronon:
        """Return the first chronon at which the page could be a candidate."""
        if not page.demands:
            return now + 10**9
        wakes: list[float] = [d.pending(now).start for d in page.demands.fixed]
        wakes += [d.opened for d in page.demands.once]
        if page.last_seen_s is None:
            wakes.append(now)
        if self._is_pushed(page, now):
            wakes.append(self.settings.grid.ceil(min(self._dues.safety_s(page), page.pushed_until_s)))
        else:
            wakes += [d.pending(now).deadline - LOOKAHEAD_CHRONONS for d in page.demands.intervals if d.rate_per_s > 0]
            wakes += [self.settings.grid.chronon_at(due.due_s) for due in self._dues.of(page) if due.due_s < inf]
        allowed_s = max(page.allowed_s(), page.demands.earliest_s)
        earliest = now if isinf(allowed_s) else self.settings.grid.chronon_at(allowed_s)
        return int(max(now, earliest, min(wakes, default=now + 10**9)))

    @property
    def week(self) -> WeekPlan | None:
        """The plan of the week, once there is one."""
        return self._dues.week

    @property
    def price_item_s(self) -> float:
        """What a probe for detection must save, in item-seconds."""
        return self._dues.price_item_s

    def _waiting(self, now: Chronon, pace: SlotAllocator) -> Iterator[Candidate]:
        """Yield those that wait for room alone while there is any: first contacts, then detection by its gain."""
        for _, page in self._unseen.best(self._unseen.soonest):
            if not pace.has_room:
                return
            candidate = self._candidates.contact(page, now)
            if candidate is not None and page.source_id not in self._in_flight:
                yield candidate
        now_s = self.settings.grid.start_s(now)
        for gain, page in self._due.best(self._gains_at(now_s)):
            if not pace.has_room:
                return
            if page.source_id not in self._in_flight:
                yield self._candidates.detecting(page, gain)

    def postponed(self, source_id: str) -> dict[Constraint, int]:
        """Return how often each constraint held back a page's probes."""
        page = self.pages[source_id]
        return dict(Counter(page.postponed) + self._unseen.passed_over(source_id) + self._due.passed_over(source_id))

    def _wanted(self, now: Chronon) -> Iterable[Candidate]:
        """Return the candidates that do not wait for room alone."""
        ranked = self._candidates.of([self.pages[s] for s in sorted(self._awake) if s not in self._in_flight], now)
        if self.settings.spend:
            self._candidates.spend_on((p for s, p in self.pages.items() if s not in self._in_flight), ranked, now)
        return ranked.values()

    def _is_pushed(self, page: PlannedSource, now: Chronon) -> bool:
        return page.is_pushed(self.settings.grid.start_s(now))

    def _blocked_until_s(self, page: PlannedSource) -> float:
        return self._blocked_s.get(page.throttle_scope or page.host, -inf)

    def _take(self, candidate: Candidate, now: Chronon, at_s: float) -> PlannedProbe:
        page = candidate.page
        is_first = page.last_seen_s is None and not page.log.starts_s
        self._in_flight[page.source_id] = now
        page.record(at_s)
        self.hosts.plan(page.host, at_s)
        reason = Reason.FIRST_CONTACT if is_first else candidate.reason
        probe = Probe(page.source_id, now, reason, candidate.rule, page.rate_per_s * 86400.0)
        return PlannedProbe(probe, at_s)

    def _postpone(self, page: PlannedSource, constraint: Constraint) -> None:
        self.held_back.append((page.source_id, constraint))
        page.postponed[constraint] = page.postponed.get(constraint, 0) + 1
        self._unseen.looked_at(page.source_id, self.limit)
        self._due.looked_at(page.source_id, self.limit)
