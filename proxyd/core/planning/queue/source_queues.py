"""The queues of sources: asleep until they may be due, awake as candidates, or ranked for room in the budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import TypeAlias

import numpy as np

from proxyd.core.model.arrays import Floats, Ints
from proxyd.core.model.chronon import Chronon
from proxyd.core.model.schedule import Constraint, Reason
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.planning.queue.due_times import NEVER_CHRONONS, REQUIRED, DueTime, DueTimes
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import PlannerSettings


class SourceQueues:
    """Each source is in one queue; those that wait for room may also be asleep, to wake before items slide off.

    ``unseen`` ranks sources before first contact, ``required`` and ``due`` those that were due and wait only for room.
    If the objective is to spend the budget, ``spare`` ranks those that may be probed although they sleep until they are
    due. Those that ask in certain chronons are looked at one by one while they are ``awake``.
    """

    def __init__(self, settings: PlannerSettings, due_times: DueTimes) -> None:
        self._settings = settings
        self._due_times = due_times
        self._sleeping = _WakeQueue()
        self._awake: set[str] = set()
        self._ready = self.unseen, self.required, self.due, self.spare = (
            ReadyQueue(),
            ReadyQueue(),
            ReadyQueue(),
            ReadyQueue(),
        )
        self._why: dict[str, DueTime] = {}  # by source of ``required`` and ``due``, unless it is due for detection

    @property
    def awake(self) -> Set[str]:
        """The sources that are candidates individually."""
        return self._awake

    def sleep(self, source: PlannedSource, wake: Chronon) -> None:
        """Put a source to sleep until it is due at ``wake``, or may have what others leave of the budget."""
        spare_s = self._due_times.spare_from_s(source)
        self.sleep_until(source, wake if spare_s == inf else min(wake, self._settings.grid.chronon_at(spare_s)))

    def sleep_until(self, source: PlannedSource, until: Chronon) -> None:
        """Put a source to sleep, whatever is left of the budget meanwhile."""
        self.rest(source.source_id)
        self._sleeping.put(source, until)

    def rest(self, source_id: str) -> None:
        """Stop a source from being a candidate until it wakes again."""
        self._awake.discard(source_id)
        self._why.pop(source_id, None)
        for queue in self._ready:
            queue.remove(source_id)

    def renumber(self, week: WeekPlan) -> None:
        """Rank by another plan."""
        for queue in (self.required, self.due, self.spare):
            queue.renumber(week)

    def forget(self, source: PlannedSource) -> None:
        """Remove a source."""
        self._sleeping.remove(source)
        self.rest(source.source_id)

    def wake_up(self, now: Chronon, sources: Mapping[str, PlannedSource]) -> None:
        """Wake the sources whose time has come: as individual candidates, or ranked with all that wait for room."""
        week, now_s = self._due_times.week, self._settings.grid.start_s(now)
        for source in self._sleeping.wake_up(now, sources):
            self.rest(source.source_id)
            if 0.0 < source.pushed_until_s <= now_s and (wake := self._due_without_hub(source, now)) > now:
                self.sleep(source, wake)
                continue
            is_special = source.hidden or source.is_pushed(now_s) or source.asked is not None
            if (due := self._due_if_spare(source, now)) is not None:
                self.spare.put(source, week, self._due_times.price_of(source))
                self._sleeping.put(source, due)
            elif source.demands.once or source.demands.has_deadlines or is_special:
                self._awake.add(source.source_id)
            elif source.last_seen_s is None:
                self.unseen.put(source, week)
            elif source.demands.only_detects and self._due_times.only_detects(source, now):
                self._wait_for_room(source, week)
            else:
                self._wait_for_reason(source, now)

    def _due_without_hub(self, source: PlannedSource, now: Chronon) -> Chronon:
        """Return when a source is due whose hub's promise is over."""
        source.pushed_until_s, source.dues = 0.0, None
        if self._due_times.week is not None:
            source.follow(self._due_times.week)
        return self._due_times.wake(source, now)

    def _due_if_spare(self, source: PlannedSource, now: Chronon) -> Chronon | None:
        """Return when a source is due that is not yet, and may have what others leave of the budget until then."""
        if self._due_times.spare_from_s(source) >= self._settings.grid.start_s(now + 1):
            return None
        due = self._due_times.wake(source, now)
        return due if due > now else None

    def _wait_for_room(self, source: PlannedSource, week: WeekPlan | None) -> None:
        """Let a source wait for room, and wake it again in time to save items from sliding off its feed."""
        self.due.put(source, week, self._due_times.price_of(source))
        if (overflow_s := self._due_times.overflow_s(source)) < inf:
            self._sleeping.put(source, self._settings.grid.chronon_at(overflow_s))

    def _wait_for_reason(self, source: PlannedSource, now: Chronon) -> None:
        """Rank a source by why it is due, which is the same until it is rescheduled; other sources stay candidates."""
        # When each was looked at in each chronon, 512 sources that were due took 203 ms of a chronon of 100.
        due = self._due_times.most_overdue(source, now)
        if due is None or due.reason is Reason.LEARNING:
            self._awake.add(source.source_id)
            return
        queue = self.required if due.reason in REQUIRED else self.due
        queue.put(source, self._due_times.week, self._due_times.price_of(source), due.worth_per_s2)
        self._why[source.source_id] = due
        if queue is self.due and (required_s := self._due_times.required_s(source)) < inf:
            self._sleeping.put(source, self._settings.grid.chronon_at(required_s))

    def why(self, source: PlannedSource) -> DueTime | None:
        """Return why a source waits for room; ``None`` if for detection."""
        return self._why.get(source.source_id)

    def next_wake(self, now: Chronon) -> Chronon:
        """Return the next chronon after ``now`` at which a source may be due."""
        if self._awake or self.unseen or self.required or self.due or self.spare:
            return now + 1
        wake = self._sleeping.next_wake
        return now + NEVER_CHRONONS if wake is None else wake

    def best(self, queue: ReadyQueue, now_s: float, *, is_alone: bool) -> Iterator[tuple[float, PlannedSource]]:
        """Yield gain over price and source of ``due`` or ``spare``, the largest gain first."""
        return queue.best(self._gains_at(queue, now_s, is_alone=is_alone))

    def _gains_at(self, queue: ReadyQueue, now_s: float, *, is_alone: bool) -> Callable[[Ints], Floats]:
        """Return a function for the gains; a single source is not ranked."""
        if is_alone:
            return lambda places: np.zeros(len(places))
        return partial(queue.gains, now_s=now_s, week=self._due_times.week)

    def first(
        self, room: int, sources: Mapping[str, PlannedSource], now_s: float, until_s: float
    ) -> tuple[set[str], Chronon | None]:
        """Return the sources that the first ``room`` probes come from, and when the next of the others wakes."""
        is_alone = len(sources) == 1
        found = self.unseen.first(room, self.unseen.soonest, self.unseen.soonest)
        for queue in (self.required, self.due, self.spare):
            found += queue.first(room, *(self._gains_at(queue, at_s, is_alone=is_alone) for at_s in (now_s, until_s)))
        sleeping = self._sleeping.first(room + 1, sources)
        until = sleeping.pop().wake if len(sleeping) > room else None
        return self._awake | {source.source_id for source in (*found, *sleeping)}, until

    def copy_into(self, other: SourceQueues, sources: Mapping[str, PlannedSource]) -> None:
        """Put copies of some sources to sleep elsewhere; those that are awake or waiting wake again at once."""
        for source_id, source in sources.items():
            is_waiting = any(source_id in queue for queue in (self.required, self.due, self.spare))
            other._sleeping.put(source, 0 if is_waiting else source.wake)

    def pass_over(self, limit: Constraint) -> int:
        """Count that there was no room for the sources still waiting, and return their number."""
        return sum(queue.pass_over(limit) for queue in (self.unseen, self.required, self.due))

    def note_look(self, source_id: str, limit: Constraint) -> None:
        """Note that a source was looked at, so that it does not count as passed over."""
        for queue in (self.unseen, self.required, self.due):
            queue.note_look(source_id, limit)

    def count_passed_over(self, source_id: str) -> Counter[Constraint]:
        """Return how often there was no room for a source."""
        counts = (queue.count_passed_over(source_id) for queue in (self.unseen, self.required, self.due))
        return sum(counts, Counter[Constraint]())


_SPAN = 16  # chronons; few enough that waking a span of them is cheap compared with the rest


def _order(source: PlannedSource) -> tuple[Chronon, str]:
    return source.wake, source.source_id


class _WakeQueue:
    """Wakes sources in order: those of the current span of chronons are in a heap, later ones in a set a span."""

    def __init__(self) -> None:
        self._near: list[tuple[Chronon, str]] = []
        self._far: dict[int, set[str]] = {}
        self._spans: list[int] = []
        self._reached = -1

    def put(self, source: PlannedSource, wake: Chronon) -> None:
        """Put a source to sleep until ``wake``."""
        self.remove(source)  # so the queue does not grow when sources are planned again often
        source.wake = wake
        span = wake // _SPAN
        if span <= self._reached:
            heappush(self._near, (wake, source.source_id))
            return
        if span not in self._far:
            self._far[span] = set()
            heappush(self._spans, span)
        self._far[span].add(source.source_id)

    def remove(self, source: PlannedSource) -> None:
        """Forget a source; does nothing if it does not sleep."""
        if (far := self._far.get(source.wake // _SPAN)) is not None:
            far.discard(source.source_id)

    def wake_up(self, now: Chronon, sources: Mapping[str, PlannedSource]) -> list[PlannedSource]:
        """Return the sources whose time has come, in order."""
        while self._spans and self._spans[0] <= now // _SPAN:
            for source_id in self._far.pop(heappop(self._spans)):
                heappush(self._near, (sources[source_id].wake, source_id))
        self._reached = max(self._reached, now // _SPAN)
        woken = []
        while self._near and self._near[0][0] <= now:
            wake, source_id = heappop(self._near)
            source = sources.get(source_id)
            if source is not None and source.wake == wake:
                woken.append(source)
        return woken

    def first(self, count: int, sources: Mapping[str, PlannedSource]) -> list[PlannedSource]:
        """Return the sources that wake first, in order; changes nothing."""
        found: dict[str, PlannedSource] = {}
        for wake, source_id in sorted(self._near):
            source = sources.get(source_id)
            if source is not None and source.wake == wake:
                found[source_id] = source
        for span in sorted(self._spans):
            if len(found) >= count:
                break
            found |= {source.source_id: source for source in sorted((sources[s] for s in self._far[span]), key=_order)}
        return list(found.values())[:count]

    @property
    def next_wake(self) -> Chronon | None:
        """The earliest chronon at which a source may wake, or ``None`` if none sleeps."""
        if self._near:
            return self._near[0][0]
        return self._spans[0] * _SPAN if self._spans else None


_Gains: TypeAlias = Callable[[Ints], Floats]
_LIMITS = (Constraint.BUDGET, Constraint.OVERLOAD)
_UNPLANNED, _OF_ITS_OWN = -1, -2  # sources that the plan of the week does not know, or whose rule says their worth
_FOUND = 2048  # number of gains that a call computes again
_SHORT = 4096  # number of sources on a new short list
_RUN = 256  # number sorted first, then four times as many


class ReadyQueue:
    """Sources that wait only for room, or for their first contact; one that changes is removed and put again.

    For more than some thousand sources the gains are computed again in turn. Whenever all had their turn, the best ones
    form the short list. Each call ranks only this list and the sources put since whose gain is at least that of any
    source left out. So a source is passed over for one of smaller gain only by less than its own gain grows in two
    rounds of turns.
    """

    def __init__(self) -> None:
        self._sources: list[PlannedSource] = []
        self._place: dict[str, int] = {}
        self._numbers = np.zeros(64, dtype=np.int64)
        self._kept = np.zeros((64, 5))  # worth over price, last seen, not before, what to take from the calls
        self._gains = np.zeros(64)  # as last computed, nan if never
        self._calls = [0] * len(_LIMITS)  # calls in which there was no room for all, by reason
        self._looked_at = self._turn = 0
        self._short = np.zeros(0, dtype=np.int64)
        self._joined: set[int] = set()  # places of the sources put or moved since the last call
        self._least = inf  # the largest gain that the short list left out; infinity if a new list is needed

    def __len__(self) -> int:
        return len(self._sources)

    def __contains__(self, source_id: str) -> bool:
        return source_id in self._place

    def put(
        self,
        source: PlannedSource,
        week: WeekPlan | None,
        price_item_s: float = 1.0,
        own_per_s2: float | None = None,  # worth over price, by half the square of the wait, if a rule says it
    ) -> None:
        """Add a source; the price is that of a probe of it, if the plan does not know it."""
        place = self._place[source.source_id] = len(self._sources)
        self._sources.append(source)
        self._joined.add(place)
        if place == len(self._numbers):
            self._numbers = np.concatenate([self._numbers, self._numbers])
            self._gains = np.concatenate([self._gains, self._gains])
            self._kept = np.concatenate([self._kept, self._kept])
        self._numbers[place] = _number(source, week) if own_per_s2 is None else _OF_ITS_OWN
        self._gains[place] = np.nan
        worth = source.rate_per_s * source.weight / price_item_s if own_per_s2 is None else own_per_s2
        self._kept[place] = worth, source.last_seen_s or 0.0, source.not_before_s, *self._calls

    def remove(self, source_id: str) -> None:
        """Forget a source; does nothing if it does not wait."""
        place = self._place.get(source_id)
        if place is None:
            return
        source = self._sources[place]
        for limit, passed in self.count_passed_over(source_id).items():
            source.postpone(limit, passed)
        del self._place[source_id]
        last = self._sources.pop()
        if last is not source:
            self._sources[place], self._place[last.source_id] = last, place
            self._joined.add(place)
            self._numbers[place], self._gains[place] = self._numbers[len(self)], np.nan  # it may miss its turn
            self._kept[place] = self._kept[len(self)]

    def renumber(self, week: WeekPlan | None) -> None:
        """Use a new plan; all gains are computed again at the next ranking."""
        others = np.flatnonzero(self._numbers[: len(self)] != _OF_ITS_OWN)
        self._numbers[others] = [_number(self._sources[place], week) for place in others.tolist()]
        self._gains[: len(self)], self._turn, self._least = np.nan, 0, inf

    # -- ranking

    def gains(self, places: Ints, *, now_s: float, week: WeekPlan | None) -> Floats:
        """Return the expected delay that a probe at each place would end, divided by its price; shape (places,)."""
        worth, seen_s = self._kept[places, :2].T
        gains: Floats = worth * (now_s - seen_s) ** 2 / 2
        if week is not None:
            planned = np.flatnonzero(self._numbers[places] >= 0)
            gains[planned] = week.gains_of(self._numbers[places[planned]], now_s)
        return gains

    def soonest(self, places: Ints) -> Floats:
        """Return gains that rank first the sources that might be probed first; shape (places,)."""
        soonest: Floats = -self._kept[places, 2]
        return soonest

    def first(self, count: int, gains_of: _Gains, later_of: _Gains) -> list[PlannedSource]:
        """Return the sources of the largest gains, and those that may overtake one of these, in no order."""
        # Gains only grow, so the first ``count`` probes are among these regardless of the order of probes.
        if count >= len(self):
            return list(self._sources)
        places = np.arange(len(self))
        least = np.partition(gains_of(places), -count)[-count]
        later = later_of(places)
        found = np.flatnonzero(later >= least)
        if len(found) > _SHORT + count:  # sources that were never seen are all alike: so many of them are enough
            found = np.concatenate([np.flatnonzero(later > least), np.flatnonzero(later == least)])[: _SHORT + count]
        return [self._sources[place] for place in found.tolist()]

    def best(self, gains_of: _Gains) -> Iterator[tuple[float, PlannedSource]]:
        """Yield gain and source, the largest gain first; do not put or remove sources meanwhile."""
        if len(self) <= 1:  # usual for planners of one source
            yield from zip(gains_of(np.arange(len(self))).tolist(), self._sources, strict=True)
            return
        self._rank_short(gains_of)
        yield from self._rank_places(self._short)
        if len(self._short) < len(self):
            self._least = inf
            others = np.ones(len(self), dtype=np.bool_)
            others[self._short] = False
            yield from self._rank_places(np.flatnonzero(others))

    def _rank_short(self, gains_of: _Gains) -> None:
        """Compute gains again, and with them the short list."""
        gains, short = self._gains[: len(self)], self._list_offers()
        new = np.flatnonzero(np.isnan(gains)) if self._least == inf else short[np.isnan(gains[short])]
        turn = np.arange(self._turn, min(self._turn + _FOUND, len(self)))
        for places in (new, turn):
            gains[places] = gains_of(places)
        self._turn += _FOUND
        self._short = short[gains[short] >= self._least]
        if self._turn >= len(self):
            self._turn, self._least = 0, inf
        if self._least == inf or not _RUN <= len(self._short) <= 2 * _SHORT:
            beyond = max(0, len(self) - _SHORT)
            self._short = np.sort(np.argpartition(gains, beyond)[beyond:]) if beyond else np.arange(len(self))
            self._least = float(gains[self._short].min()) if beyond else -inf

    def _list_offers(self) -> Ints:
        """Return the places of the short list and of those that joined it, in order and without repetition."""
        joined = np.fromiter(self._joined, np.int64, len(self._joined))
        self._joined.clear()
        listed = np.sort(np.concatenate([self._short, joined]), kind="stable")
        return listed[(np.diff(listed, prepend=-1) > 0) & (listed < len(self))]

    def _rank_places(self, left: Ints) -> Iterator[tuple[float, PlannedSource]]:
        """Yield gain and source of some places, the largest gain first."""
        losses, run = -self._gains[left], _RUN
        while len(left):
            order = np.argpartition(losses, run) if len(left) > run else np.arange(len(left))
            first, order = order[:run], order[run:]
            places = left[first].tolist()
            names = [self._sources[place].source_id for place in places]
            for loss, _, place in sorted(zip(losses[first].tolist(), names, places, strict=True)):
                yield -loss, self._sources[place]
            left, losses, run = left[order], losses[order], 4 * run

    # -- counts of calls without room

    def pass_over(self, limit: Constraint) -> int:
        """Count one more call without room for all but those ``looked_at`` since the last call; return how many."""
        passed, self._looked_at = len(self) - self._looked_at, 0
        self._calls[_LIMITS.index(limit)] += 1
        return passed

    def note_look(self, source_id: str, limit: Constraint) -> None:
        """Note that a source was held back for a reason of its own; does nothing if it does not wait."""
        if (place := self._place.get(source_id)) is not None:
            self._kept[place, 3 + _LIMITS.index(limit)] += 1
            self._looked_at += 1

    def count_passed_over(self, source_id: str) -> Counter[Constraint]:
        """Return how often a source was passed over since it was put, by the limit that left no room."""
        place = self._place.get(source_id)
        if place is None:
            return Counter()
        passed = zip(_LIMITS, self._calls, self._kept[place, 3:].tolist(), strict=True)
        return Counter({limit: calls - int(taken) for limit, calls, taken in passed if calls > taken})


def _number(source: PlannedSource, week: WeekPlan | None) -> int:
    number = None if week is None else week.number(source.source_id)
    return _UNPLANNED if number is None else number
