"""The sources that want a probe in a chronon, each with its hardest demand, ranked; intervals by their latest slot."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import islice
from math import floor, inf
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from proxyd.core.model.chronon import Chronon
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.kernels.golden_turns import GOLDEN
from proxyd.core.planning.policies.demands import detection_index
from proxyd.core.planning.policies.rule_demand import PlannedInterval
from proxyd.core.planning.queue.due_times import LOOKAHEAD_CHRONONS, REQUIRED, DueTime, DueTimes
from proxyd.core.planning.queue.planned_source import PlannedSource
from proxyd.core.planning.queue.planner_settings import OTHERS_PART, PlannerSettings
from proxyd.core.planning.queue.probe_slots import SlotAllocator
from proxyd.core.planning.queue.source_queues import ReadyQueue, SourceQueues

_FIXED, _CONTACT, _WORTH, _SPARE = 1, 2, 3, 4  # the places of those that wait for room; deadlines are 0
_GROUPS = {**dict.fromkeys(REQUIRED, _FIXED), Reason.SPEND: _SPARE, Reason.LEARNING: _SPARE}
_MOST_SPARE, _MOST_EACH = 4096, 4  # sources that are not due: a chronon looks at so many, and at more for each probe
_USUALLY = {group: group for group in (_FIXED, _CONTACT, _WORTH, _SPARE)}
_IN_TURN = {**_USUALLY, _CONTACT: 1, _WORTH: 2, _FIXED: 3}
_Wanted: TypeAlias = tuple[PlannedSource, DueTime]
_Places: TypeAlias = Mapping[int, int]


class Candidate(NamedTuple):
    """A source that wants a probe, the rule that asks for it, and its rank; the smallest rank goes first."""

    rank: tuple[int, float, float, str]
    source: PlannedSource
    reason: Reason
    rule: str | None
    earliest_s: float = -inf


class Candidates:
    """Ranks sources: by deadline, at fixed times, first contacts, then by the delay that a probe saves.

    In a tenth of the chronons first contacts and detection come before fixed times, which may ask for the whole budget.
    """

    def __init__(self, settings: PlannerSettings, due_times: DueTimes) -> None:
        self._due_times = due_times
        self.use(settings)

    def use(self, settings: PlannerSettings) -> None:
        """Rank by other settings from now on."""
        self.settings = settings
        # of a small budget only some chronons have a probe, and turns go by these
        self._granted = min(1.0, settings.budget.mean_per_s * settings.grid.length_s)

    def of(self, sources: Sequence[PlannedSource], now: Chronon) -> dict[str, Candidate]:
        """Return the candidates of ``now`` among some sources, by source."""
        now_s, places = self.settings.grid.start_s(now), self._places(now)
        ranked = self._by_deadline(sources, now, now_s)
        for source in sources:
            if source.asked is not None:
                rank = (0, float(now), 0.0, source.source_id)
                ranked[source.source_id] = Candidate(rank, source, source.asked, source.demands.first_rule)
        for source in sources:
            if source.source_id not in ranked and (candidate := self._contact(source, now_s, places)) is not None:
                ranked[source.source_id] = candidate
        others = (source for source in sources if source.source_id not in ranked and not source.is_pushed(now_s))
        overdue = ((source, self._due_times.most_overdue(source, now)) for source in others)
        self._rank(ranked, [(source, due) for source, due in overdue if due is not None], now_s, places)
        return ranked

    def hardest(
        self, awake: Iterable[str], sources: Mapping[str, PlannedSource], in_flight: Container[str], now: Chronon
    ) -> list[Candidate]:
        """Return the candidates that wait for more than room, hardest first."""
        looked_at = [sources[source_id] for source_id in sorted(awake) if source_id not in in_flight]
        ranked = self.of(looked_at, now)
        others = (source for source in looked_at if source.source_id not in ranked)
        self._rank(ranked, [*self._spare(others, now)], self.settings.grid.start_s(now), self._places(now))
        return sorted(ranked.values(), key=attrgetter("rank"))

    def waiting(
        self, queues: SourceQueues, now: Chronon, slots: SlotAllocator, *, is_alone: bool
    ) -> Iterator[Candidate]:
        """Yield those that only wait for room, while there is any, group by group."""
        for candidate in self._by_worth(queues, now, _MOST_SPARE + _MOST_EACH * slots.room, is_alone=is_alone):
            if not slots.has_room:
                return
            yield candidate

    def _by_worth(self, queues: SourceQueues, now: Chronon, most_spare: int, *, is_alone: bool) -> Iterator[Candidate]:
        now_s = self.settings.grid.start_s(now)
        places = self._places(now)
        groups: dict[int, Iterator[Candidate | None]] = {
            _FIXED: self._of_queue(queues, queues.required, now_s, places, is_alone=is_alone),
            _CONTACT: (self._contact(source, now_s, places) for _, source in queues.unseen.best(queues.unseen.soonest)),
            _WORTH: self._of_queue(queues, queues.due, now_s, places, is_alone=is_alone),
        }
        for group in sorted(groups, key=places.__getitem__):
            yield from filter(None, groups[group])
        for gain, source in islice(queues.best(queues.spare, now_s, is_alone=is_alone), most_spare):
            rank = (_SPARE, -gain, 0.0, source.source_id)
            yield Candidate(rank, source, Reason.SPEND, source.demands.priced[0])

    def _places(self, now: Chronon) -> _Places:
        """Return the place of each group among those that wait for room."""
        is_turn = floor(now * self._granted) * GOLDEN % 1.0 < OTHERS_PART  # the golden ratio spreads turns evenly
        return _IN_TURN if is_turn else _USUALLY

    def _of_queue(
        self, queues: SourceQueues, queue: ReadyQueue, now_s: float, places: _Places, *, is_alone: bool
    ) -> Iterator[Candidate]:
        for gain, source in queues.best(queue, now_s, is_alone=is_alone):
            yield self._waiting_for(source, queues.why(source), gain, places)

    def _spare(self, sources: Iterable[PlannedSource], now: Chronon) -> Iterator[_Wanted]:
        """Yield those that may have what others leave of the budget."""
        stop_s = self.settings.grid.start_s(now + 1)
        for source in sources:
            if (spare_s := self._due_times.spare_from_s(source)) < stop_s:
                yield source, DueTime(spare_s, Reason.SPEND, source.demands.priced[0])

    def _contact(self, source: PlannedSource, now_s: float, places: _Places) -> Candidate | None:
        """Return the candidate of a source that was never seen, or whose hub pushes and may be silent."""
        if now_s + 1e-9 < source.demands.earliest_s:
            return None
        if source.last_seen_s is None:
            reason = Reason.RETRY if source.log.starts_s else Reason.FIRST_CONTACT
            rank = (places[_CONTACT], source.not_before_s, 0.0, source.source_id)
            return Candidate(rank, source, reason, source.demands.first_rule)
        if source.is_pushed(now_s) and now_s + 1e-9 >= self._due_times.safety_s(source):
            rank = (places[_WORTH], 0.0, 0.0, source.source_id)
            return Candidate(rank, source, Reason.SAFETY, source.demands.first_rule)
        return None

    @staticmethod
    def _waiting_for(source: PlannedSource, due: DueTime | None, gain: float, places: _Places) -> Candidate:
        """Return the candidate of a source that waits for room; ``gain`` is what a probe is worth over its price."""
        group = _WORTH if due is None else _GROUPS.get(due.reason, _WORTH)
        rank = (places[group], -gain, 0.0, source.source_id)
        if due is None:
            return Candidate(rank, source, Reason.DETECTION, source.demands.first_rule)
        return Candidate(rank, source, due.reason, due.rule, due.earliest_s)

    def _by_deadline(self, sources: Iterable[PlannedSource], now: Chronon, now_s: float) -> dict[str, Candidate]:
        """Return sources whose interval cannot wait longer if all are to be served, and due fixed probes."""
        planned = (source for source in sources if not source.is_pushed(now_s))
        waiting = [
            (source, demand, interval)
            for source in planned
            for demand in source.demands.rules
            if demand.has_intervals and (interval := demand.pending(now)) is not None
        ]
        jobs = [job for job in waiting if job[2].deadline <= now + LOOKAHEAD_CHRONONS]
        slots = latest_slots(
            [job[2] for job in jobs], lambda at: self.settings.capacity(at) if at >= now else 0, now=now
        )
        ranked: dict[str, Candidate] = {}
        for (source, demand, interval), slot in zip(jobs, slots, strict=True):
            if (interval.start if slot is None else slot) <= now and _sooner(interval, ranked.get(source.source_id)):
                rank = _deadline_rank(interval, source)
                ranked[source.source_id] = Candidate(rank, source, demand.reason, demand.rule)
        length_s, places = self.settings.grid.length_s, self._places(now)
        for source in sources:
            for demand in source.demands:
                asked = demand.pending(now) if demand.has_deadline and not demand.has_intervals else None
                if not (asked and asked.start <= now and _sooner(asked, ranked.get(source.source_id))):
                    continue
                rank = _deadline_rank(asked, source)
                if places is _IN_TURN and demand.demand_per_s(length_s) > 0.0:  # not one that is wanted once
                    rank = (places[_FIXED], *rank[1:])
                ranked[source.source_id] = Candidate(rank, source, demand.reason, demand.rule)
        return ranked

    def _rank(self, ranked: dict[str, Candidate], wanted: Sequence[_Wanted], now_s: float, places: _Places) -> None:
        """Add sources without a harder demand, by the delay that a probe would save, divided by its price."""
        week = self._due_times.week
        planned = [source.source_id for source, _ in wanted if week is not None and source.source_id in week]
        gains = dict(zip(planned, week.gains(planned, now_s), strict=True)) if week and planned else {}
        for source, due in wanted:
            waited_s = now_s - (source.last_seen_s or 0.0)
            gain = None if due.worth_per_s2 is None else due.worth_per_s2 * waited_s**2 / 2
            if gain is None:
                gain = gains.get(source.source_id)
            if gain is None:
                gain = detection_index(source.rate_per_s, waited_s, source.weight)
                gain /= self._due_times.price_of(source)
            ranked[source.source_id] = self._waiting_for(source, due, float(gain), places)


def _deadline_rank(interval: PlannedInterval, source: PlannedSource) -> tuple[int, float, float, str]:
    """Rank by deadline; of equal ones the source unseen for longest goes first, or the others would starve it."""
    return 0, float(interval.deadline), source.last_seen_s or 0.0, source.source_id


def _sooner(interval: PlannedInterval, other: Candidate | None) -> bool:
    return other is None or interval.deadline < other.rank[1]


def latest_slots(
    windows: Sequence[PlannedInterval], capacity: Callable[[Chronon], int], *, now: Chronon
) -> list[Chronon | None]:
    """Return for each window the latest chronon to serve it at, all served if possible.

    Earliest deadline first run backwards in time: from the last deadline down to ``now``, each chronon takes the open
    windows that start last. A window that finds no room gets ``None``. No schedule serves more windows.

    Parameters
    ----------
    windows
        Chronons, both ends inclusive; chronons before ``now`` cannot be used.
    capacity
        Windows that may be served at a chronon.

    Notes
    -----
    O(n log n) plus the chronons that are walked; runs of chronons without an open window are skipped.

    Examples
    --------
    >>> latest_slots([PlannedInterval(0, 5), PlannedInterval(2, 5)], lambda j: 1, now=0)
    [4, 5]
    >>> latest_slots([PlannedInterval(5, 5), PlannedInterval(5, 5)], lambda j: 1, now=0)
    [5, None]
    """
    slots: list[Chronon | None] = [None] * len(windows)
    order = sorted(range(len(windows)), key=lambda i: (windows[i].deadline, i))
    open_windows: list[tuple[int, int]] = []
    chronon = windows[order[-1]].deadline if order else now
    while chronon >= now and (order or open_windows):
        if not open_windows:
            chronon = min(chronon, windows[order[-1]].deadline)
            if chronon < now:
                break
        while order and windows[order[-1]].deadline >= chronon:
            index = order.pop()
            heappush(open_windows, (-windows[index].start, index))
        room = capacity(chronon)
        while room > 0 and open_windows:
            start, index = heappop(open_windows)
            if -start <= chronon:
                slots[index] = chronon
                room -= 1
        chronon -= 1
    return slots
