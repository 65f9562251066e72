"""The planner: rates, rules and politeness in, probes of the present chronon out, each with its reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from heapq import merge
from math import inf, isinf
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np

from proxyd.model.chronon import Chronon, Epoch
from proxyd.model.schedule import Probe, Reason
from proxyd.politeness import HostBudgets
from proxyd.scheduling import detection
from proxyd.scheduling.demand import DoeDemand
from proxyd.scheduling.edf import latest_slots
from proxyd.scheduling.fleet import WeekPlan
from proxyd.scheduling.intervals import PlannedInterval
from proxyd.scheduling.overflow import most_items
from proxyd.scheduling.page import HOST_POLITENESS, HOST_THROTTLED, OVER_BUDGET, OVERLOAD, Page
from proxyd.scheduling.parts import parted
from proxyd.scheduling.settings import PlannerSettings
from proxyd.scheduling.sleeping import Sleeping
from proxyd.scheduling.starts import Pace, PlannedProbe
from proxyd.scheduling.waiting import Floats, Ints, Waiting

LOOKAHEAD_CHRONONS = 60
_MOST_COPIED = 4000
_ROUNDING_S = 1e-6  # sums of 0.2 s miss the start of a chronon by a little


class _Candidate(NamedTuple):
    rank: tuple[int, float, float, str]
    page: Page
    reason: Reason
    rule: str | None


_Due: TypeAlias = tuple[Page, Reason, str]
_GROUPS = {Reason.OVERFLOW: 1, Reason.DOE: 1, Reason.SPEND: 3}  # what must be comes before what is worth it


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
    >>> from proxyd.model.chronon import ChrononGrid
    >>> from proxyd.politeness import PolitenessBudget, ProbeLog
    >>> from proxyd.scheduling import Budget, Demands, PlannerSettings
    >>> planner = Planner(PlannerSettings(grid=ChrononGrid(10.0), budget=Budget(1.0)))
    >>> log = ProbeLog(PolitenessBudget(60.0))
    >>> planner.put(Page("a", "example.org", log, Demands(detecting=["r"]), rate_per_s=0.01), now=0)
    >>> [(planned.probe.source_id, planned.probe.reason.value) for planned in planner.choose(0)]
    [('a', 'first contact')]
    """

    def __init__(self, settings: PlannerSettings) -> None:
        self.settings = settings
        self.pages: dict[str, Page] = {}
        self.hosts = HostBudgets(settings.host_budget)
        self._blocked_s: dict[str, float] = {}
        self._in_flight: dict[str, Chronon] = {}
        self.held_back: list[tuple[str, str]] = []
        self.passed_over = 0
        self.limit = OVER_BUDGET
        self._sleeping = Sleeping()
        self._awake: set[str] = set()
        self._unseen, self._due = Waiting(), Waiting()
        self.week: WeekPlan | None = None
        self._coming: WeekPlan | None = None

    # -- what the daemon tells it

    def announce(self, week: WeekPlan) -> None:
        """Let a plan that is to be taken over follow every probe from now on."""
        self._coming = week

    def change_to(self, week: WeekPlan) -> None:
        """Detect by another plan; its pages go on sleeping until they are rescheduled."""
        self.week, self._coming = week, None
        self._due.renumber(week)

    def sleep(self, page: Page, wake: Chronon) -> None:
        """Let a page be no candidate until ``wake``."""
        self._rest(page.source_id)
        self._sleeping.put(page, wake)

    def in_parts(self) -> Iterator[list[Page]]:
        """Yield all pages in parts, but for those that are put or removed meanwhile."""
        for names in parted(tuple(self.pages)):
            yield [page for name in names if (page := self.pages.get(name)) is not None]

    def put(self, page: Page, now: Chronon) -> None:
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

    def capacity(self, chronon: Chronon) -> int:
        """Return ``C_j``."""
        return self.settings.budget.capacity(chronon, self.settings.grid, self.settings.budget_zone)

    def choose(self, now: Chronon, most: float = inf) -> list[PlannedProbe]:
        """Return the probes to start in chronon ``now``, in order of start, and take them as started."""
        self._wake_up(now)
        self.held_back = []
        start_s = self.settings.grid.start_s(now)
        stop_s = self.settings.grid.start_s(now + 1)
        capacity = self.capacity(now)
        self.limit = OVERLOAD if most < capacity else OVER_BUDGET
        pace = Pace(start_s, stop_s - start_s, int(min(capacity, most)))
        chosen: list[PlannedProbe] = []
        hard = sorted(self._candidates(now), key=attrgetter("rank"))
        waiting = self._waiting(now, pace)
        for candidate in merge(hard, waiting, key=attrgetter("rank")):
            page = candidate.page
            earliest_s = max(start_s, self.earliest_s(page))
            if earliest_s >= stop_s - _ROUNDING_S:
                self._postpone(page, self.blocked_by(page, stop_s - _ROUNDING_S) or HOST_POLITENESS)
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
            left -= self.capacity(now)
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
        part.week = deepcopy(self.week)
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
        alone.week = self.week  # it does not change until a probe ends
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

    def earliest_s(self, page: Page) -> float:
        """Return the earliest start that the page and its host allow, in unix seconds."""
        return max(page.allowed_s(), self.hosts.earliest_s(page.host), self._blocked_until_s(page))

    def blocked_by(self, page: Page, now_s: float) -> str | None:
        """Return the constraint that forbids a start of the page at ``now_s``."""
        if (own := page.blocked_by(now_s)) is not None:
            return own
        if self._blocked_until_s(page) > now_s:
            return HOST_THROTTLED
        return HOST_POLITENESS if self.earliest_s(page) > now_s else None

    # -- how

    def _wake_up(self, now: Chronon) -> None:
        """Let the pages whose time has come be candidates: by themselves, or ranked with all that only detect."""
        for page in self._sleeping.wake_up(now, self.pages):
            self._rest(page.source_id)
            if self.settings.spend or not page.demands.only_detects or page.hidden or self.is_pushed(page, now):
                self._awake.add(page.source_id)
            elif page.last_seen_s is None:
                self._unseen.put(page, self.week)
            elif self._is_due(self._detection_due_s(page), now) and not self._is_due(
                self._overflow_due_s(page, page.last_seen_s), now
            ):
                self._wait(page, page.last_seen_s)
            else:
                self._awake.add(page.source_id)

    def _wait(self, page: Page, last_s: float) -> None:
        """Let a page wait for room, and wake again where items are to be saved from sliding off its feed."""
        self._due.put(page, self.week)
        if (overflow_s := self._overflow_due_s(page, last_s)) < inf:
            self._sleeping.put(page, self.settings.grid.chronon_at(overflow_s))

    def _wake(self, page: Page, now: Chronon) -> Chronon:
        """Return the first chronon at which the page could be a candidate."""
        if not page.demands:
            return now + 10**9
        wakes: list[float] = [d.pending(now).start for d in page.demands.fixed]
        wakes += [d.opened for d in page.demands.once]
        if page.last_seen_s is None:
            wakes.append(now)
        if self.is_pushed(page, now):
            wakes.append(self.settings.grid.ceil(min(self._safety_due_s(page), page.pushed_until_s)))
        else:
            wakes += [d.pending(now).deadline - LOOKAHEAD_CHRONONS for d in page.demands.intervals if d.rate_per_s > 0]
            wakes += [self.settings.grid.chronon_at(due_s) for due_s, _, _ in self._dues(page) if due_s < inf]
        allowed_s = max(page.allowed_s(), page.demands.earliest_s)
        earliest = now if isinf(allowed_s) else self.settings.grid.chronon_at(allowed_s)
        return int(max(now, earliest, min(wakes, default=now + 10**9)))

    def _is_due(self, due_s: float, now: Chronon) -> bool:
        """Whether a time comes by the end of ``now``: a probe is made in the chronon in which it is due."""
        return due_s < inf and self.settings.grid.chronon_at(due_s) <= now

    def _detection_due_s(self, page: Page) -> float:
        assert page.last_seen_s is not None
        due_s = None if self.week is None else self.week.due_s(page.source_id)
        if due_s is not None:
            return due_s
        price_item_s, weight = self.price_item_s, page.demands.weight
        return page.last_seen_s + detection.due_after_s(page.rate_per_s, price_item_s=price_item_s, weight=weight)

    def _dues(self, page: Page) -> list[tuple[float, Reason, str]]:
        """Return when rules that ask for no intervals want the page, in unix seconds, and why."""
        last_s, demands = page.last_seen_s, page.demands
        if last_s is None:
            return []
        dues = [(self._detection_due_s(page), Reason.DETECTION, rule) for rule in demands.detecting[:1]]
        worth = {"rate_per_s": page.rate_per_s, "price_item_s": self.price_item_s, "weight": demands.weight}
        if page.hidden > 0 and page.rate_per_s > 0:  # they stand for the time in which as many are expected
            early_s = page.hidden / page.rate_per_s
            dues += [(due_s - early_s, Reason.SIBLING, rule) for due_s, _, rule in dues]
        dues += [(self._overflow_due_s(page, last_s), Reason.OVERFLOW, rule) for rule in demands.priced[:1]]
        dues += [(self._not_before(d.due_s(page.source_id, last_s, **worth)), d.reason, d.rule) for d in demands.paced]
        return dues + [(self._doe_due_s(page, d, last_s), Reason.DOE, d.rule) for d in demands.doe]

    def _overflow_due_s(self, page: Page, last_s: float) -> float:
        """Return when so many items may have come that some slid off the feed unseen, with the probability allowed."""
        if page.window is None or page.rate_per_s <= 0 or self.settings.overflow >= 1:
            return inf
        items = most_items(page.window, self.settings.overflow, round(page.dispersion, 1))
        planned_s = None if self.week is None else self.week.reached_s(page.source_id, items)
        return last_s + items / page.rate_per_s if planned_s is None else planned_s

    def _doe_due_s(self, page: Page, demand: DoeDemand, last_s: float) -> float:
        week = self.week
        planned_s = None if week is None else week.doe_due_s(page.source_id, demand.probes, demand.per_s, last_s)
        return self._not_before(demand.due_s(last_s, planned_s))

    def _not_before(self, due_s: float) -> float:
        """Return the start of the first chronon that is wholly due: a number, or a pace, is never gone before."""
        grid = self.settings.grid
        return due_s if isinf(due_s) else grid.start_s(grid.ceil(due_s))

    @property
    def price_item_s(self) -> float:
        """What a probe for detection must save, in item-seconds: also of a source that is newer than the plan."""
        return self.settings.price_item_s if self.week is None else self.week.price_item_s

    def is_pushed(self, page: Page, now: Chronon) -> bool:
        """Whether a hub pushes what is new at a page."""
        return page.last_seen_s is not None and page.pushed_until_s > self.settings.grid.start_s(now)

    def _safety_due_s(self, page: Page) -> float:
        asked_s = page.log.starts_s[-1] if page.log.starts_s else page.last_seen_s or 0.0
        return asked_s + self.settings.safety_s

    def _waiting(self, now: Chronon, pace: Pace) -> Iterator[_Candidate]:
        """Yield those that wait for room alone while there is any: first contacts, then detection by its gain."""
        for _, page in self._unseen.best(self._unseen.soonest):
            if not pace.has_room:
                return
            candidate = self._other_candidate(page, now)
            if candidate is not None and page.source_id not in self._in_flight:
                yield candidate
        now_s = self.settings.grid.start_s(now)
        for gain, page in self._due.best(self._gains_at(now_s)):
            if not pace.has_room:
                return
            if page.source_id not in self._in_flight:
                rank = (2, -gain, 0.0, page.source_id)
                yield _Candidate(rank, page, Reason.DETECTION, page.demands.detecting[0])

    def postponed(self, source_id: str) -> dict[str, int]:
        """Return how often each constraint held back a page's probes."""
        page = self.pages[source_id]
        return dict(Counter(page.postponed) + self._unseen.passed_over(source_id) + self._due.passed_over(source_id))

    def _candidates(self, now: Chronon) -> Iterable[_Candidate]:
        pages = [self.pages[s] for s in sorted(self._awake) if s not in self._in_flight]
        ranked = self._interval_candidates(pages, now)
        for page in pages:
            if page.source_id in ranked:
                continue
            candidate = self._other_candidate(page, now)
            if candidate is not None:
                ranked[page.source_id] = candidate
        now_s = self.settings.grid.start_s(now)
        due: list[_Due] = []
        for page in (p for p in pages if p.source_id not in ranked and not self.is_pushed(p, now)):
            late = [due for due in self._dues(page) if self._is_due(due[0], now)]
            if late:
                due.append((page, *min(late, key=itemgetter(0))[1:]))
        self._rank(ranked, due, now_s)
        if self.settings.spend:
            stop_s = self.settings.grid.start_s(now + 1)
            others = [p for p in self.pages.values() if self._is_detected(p, now) and p.allowed_s() < stop_s]
            others = [p for p in others if p.source_id not in self._in_flight and p.source_id not in ranked]
            self._rank(ranked, [(p, Reason.SPEND, p.demands.detecting[0]) for p in others], now_s)
        return ranked.values()

    def _interval_candidates(self, pages: Iterable[Page], now: Chronon) -> dict[str, _Candidate]:
        """Pages whose interval cannot wait longer if all are to be served, and fixed probes that are due."""
        planned = [page for page in pages if not self.is_pushed(page, now)]
        waiting = [(page, d, d.pending(now)) for page in planned for d in page.demands.intervals if d.rate_per_s > 0]
        jobs = [job for job in waiting if job[2].deadline <= now + LOOKAHEAD_CHRONONS]
        slots = latest_slots([job[2] for job in jobs], self._open_capacity(now), now=now)
        ranked: dict[str, _Candidate] = {}
        for (page, demand, interval), slot in zip(jobs, slots, strict=True):
            due = interval.start <= now if slot is None else slot <= now
            if due and _sooner(interval, ranked.get(page.source_id)):
                reason = Reason.FEEDBACK if demand.has_feedback else Reason.INTERVAL
                rank = _deadline_rank(interval, page)
                ranked[page.source_id] = _Candidate(rank, page, reason, demand.rule)
        for page in pages:
            asked = [(d.pending(now), Reason.FIXED, d.rule) for d in page.demands.fixed]
            asked += [(d.pending, Reason.INTERVAL, d.rule) for d in page.demands.once]
            for interval, reason, rule in asked:
                if interval.start <= now and _sooner(interval, ranked.get(page.source_id)):
                    ranked[page.source_id] = _Candidate(_deadline_rank(interval, page), page, reason, rule)
        return ranked

    def _open_capacity(self, now: Chronon) -> Callable[[Chronon], int]:
        """Return ``C_j`` from ``now`` on, none before."""
        return lambda chronon: self.capacity(chronon) if chronon >= now else 0

    def _other_candidate(self, page: Page, now: Chronon) -> _Candidate | None:
        now_s = self.settings.grid.start_s(now)
        if now_s + 1e-9 < page.demands.earliest_s:
            return None
        if page.last_seen_s is None:
            reason = Reason.RETRY if page.log.starts_s else Reason.FIRST_CONTACT
            return _Candidate((1, page.not_before_s, 0.0, page.source_id), page, reason, page.demands.first_rule)
        if self.is_pushed(page, now):
            is_due = now_s + 1e-9 >= self._safety_due_s(page)
            rank = (2, 0.0, 0.0, page.source_id)
            return _Candidate(rank, page, Reason.SAFETY, page.demands.first_rule) if is_due else None
        return None

    def _is_detected(self, page: Page, now: Chronon) -> bool:
        return bool(page.demands.detecting) and page.last_seen_s is not None and not self.is_pushed(page, now)

    def _rank(self, ranked: dict[str, _Candidate], due: Sequence[_Due], now_s: float) -> None:
        """Add pages that nothing harder asks for, by what a probe of each would save over its price."""
        planned = [page.source_id for page, _, _ in due if self.week is not None and page.source_id in self.week]
        gains = dict(zip(planned, self.week.gains(planned, now_s), strict=True)) if self.week and planned else {}
        for page, reason, rule in due:
            gain = gains.get(page.source_id)
            if gain is None:
                waited_s = now_s - (page.last_seen_s or 0.0)
                gain = detection.index(page.rate_per_s, waited_s, page.demands.weight) / self.price_item_s
            rank = (_GROUPS.get(reason, 2), -float(gain), 0.0, page.source_id)
            ranked[page.source_id] = _Candidate(rank, page, reason, rule)

    def spare_per_s(self, times_s: Iterable[float], asked_per_s: float) -> list[float]:
        """Return what intervals and numbers of probes leave of the budget at each time; at least a tenth of it."""
        budget, zone = self.settings.budget, self.settings.budget_zone
        most = (budget.rate_per_s(time_s, zone) for time_s in times_s)
        return [max(0.1 * per_s, per_s - asked_per_s) for per_s in most]

    def _blocked_until_s(self, page: Page) -> float:
        return self._blocked_s.get(page.throttle_scope or page.host, -inf)

    def _take(self, candidate: _Candidate, now: Chronon, at_s: float) -> PlannedProbe:
        page = candidate.page
        is_first = page.last_seen_s is None and not page.log.starts_s
        self._in_flight[page.source_id] = now
        page.record(at_s)
        self.hosts.plan(page.host, at_s)
        reason = Reason.FIRST_CONTACT if is_first else candidate.reason
        probe = Probe(page.source_id, now, reason, candidate.rule, page.rate_per_s * 86400.0)
        return PlannedProbe(probe, at_s)

    def _postpone(self, page: Page, constraint: str) -> None:
        self.held_back.append((page.source_id, constraint))
        page.postponed[constraint] = page.postponed.get(constraint, 0) + 1
        self._unseen.looked_at(page.source_id, self.limit)
        self._due.looked_at(page.source_id, self.limit)


def _deadline_rank(interval: PlannedInterval, page: Page) -> tuple[int, float, float, str]:
    """Rank by deadline; of equal ones the source unseen for longest goes first, or the others would starve it."""
    return 0, float(interval.deadline), page.last_seen_s or 0.0, page.source_id


def _sooner(interval: PlannedInterval, other: _Candidate | None) -> bool:
    return other is None or interval.deadline < other.rank[1]
