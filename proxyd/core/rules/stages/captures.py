"""Intervals that several sources must capture: an event in one class with a query of others, or a count over a class.

An event opens the interval on every source of the query that correlates with it. The notification is sent once all are
captured, or is sent as partial when the interval ends; what is obtained later is sent once, as a supplement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from proxyd.core.model.chronon import Chronon, ChrononGrid
from proxyd.core.model.item import Item, UpdateEvent, Value
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.planning.policies.demands import OnceDemand
from proxyd.core.rules.known.context import History, StoreQuery, history_query
from proxyd.core.rules.known.knowledge import Knowledge, Ownership
from proxyd.core.rules.known.state import LONGEST_S, IntervalRecord, JointInterval, Obtained, StoredEvent
from proxyd.core.rules.programs.expression_compiler import Closure, Row, is_true
from proxyd.core.rules.programs.meter import CORRELATION_LIMITS, Meter
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.stages.answers import AwaitedAnswers, IntervalStep, Match, MatchTask
from proxyd.core.rules.stages.events import Discovery
from proxyd.core.rules.stages.observation import Answer, Firing, RuleResults
from proxyd.core.rules.stages.payload import Announcement, histories
from proxyd.core.rules.stages.rule_tasks import with_fates

_MOST_ROWS = 1000  # of one source in a query
_LIVES = 2.0  # expected lives of a source after which its interval is assumed to have ended
_STEPS_PER_COPY = 12  # of a row
_MOST_CORRELATING = 150_000  # steps for all events of one probe, about 0.1 s; events after that wait for all sources


class OpenIntervals:
    """Open joint intervals by id, in the order in which they were opened."""

    def __init__(self, intervals: Iterable[JointInterval] = ()) -> None:
        self._by_id: dict[str, JointInterval] = {}
        self._wanting: dict[str, dict[str, None]] = {}  # ids by source
        for interval in intervals:
            self.keep(interval)

    def __iter__(self) -> Iterator[JointInterval]:
        return iter(self._by_id.values())

    def get(self, interval_id: str) -> JointInterval | None:
        """Return an interval, or ``None`` if it is not open."""
        return self._by_id.get(interval_id)

    def wanting(self, source_id: str) -> list[JointInterval]:
        """Return the intervals that want a source."""
        return [self._by_id[interval_id] for interval_id in self._wanting.get(source_id, ())]

    def keep(self, interval: JointInterval) -> None:
        """Add an interval, or put it in place of what it was before."""
        before = self._by_id.get(interval.interval_id)
        wanted, was_wanted = set(interval.wanted), set(() if before is None else before.wanted)
        for source_id in was_wanted - wanted:
            self._forget(source_id, interval.interval_id)
        for source_id in wanted - was_wanted:
            self._wanting.setdefault(source_id, {})[interval.interval_id] = None
        self._by_id[interval.interval_id] = interval

    def drop(self, interval_id: str) -> JointInterval | None:
        """Remove and return an interval; ``None`` if it is not open."""
        interval = self._by_id.pop(interval_id, None)
        for source_id in () if interval is None else set(interval.wanted):
            self._forget(source_id, interval_id)
        return interval

    def _forget(self, source_id: str, interval_id: str) -> None:
        wanting = self._wanting[source_id]
        del wanting[interval_id]
        if not wanting:
            del self._wanting[source_id]


@dataclass(frozen=True, slots=True)
class Captured:
    """The progress of joint intervals."""

    results: RuleResults
    announcements: tuple[Announcement, ...] = ()  # the intervals to notify
    sources: tuple[str, ...] = ()  # sources that joint intervals now want, or no longer want


_NOTHING_CAPTURED = Captured(RuleResults())


@dataclass(slots=True)
class _ProbeEnd:
    """What is known of sources at the end of a probe, and the steps that its firings have spent on correlating."""

    known: Knowledge
    now_s: float
    steps: float = 0.0
    _facts: dict[str, tuple[float, float | None]] = field(default_factory=dict)

    def rate_per_s(self, source_id: str) -> float:
        """Return the estimated update rate of a source, in updates per second."""
        return self._facts_of(source_id)[0]

    def last_success_s(self, source_id: str) -> float | None:
        """Return when a source was last seen, in unix seconds, or ``None`` if it never was."""
        return self._facts_of(source_id)[1]

    def _facts_of(self, source_id: str) -> tuple[float, float | None]:
        if source_id not in self._facts:
            source = self.known.compiled.sources[source_id]
            rate_per_s = self.known.rate_per_s(source, self.now_s)
            self._facts[source_id] = rate_per_s, self.known.state(source).last_success_s
        return self._facts[source_id]


class _ShownRows:
    """The rows that the sources of queries showed last: of each row the fields that some query reads."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[Mapping[str, Value], ...]] = {}
        self._paths: Mapping[str, frozenset[str]] = {}

    def declare(self, programs: Iterable[RuleProgram]) -> None:
        """Follow a declaration; the rows of a source stay if queries read the same of its fields."""
        paths: dict[str, frozenset[str]] = {}
        for program in programs:
            for source_id in (source_id for joined in program.joined for source_id in joined.sources):
                paths[source_id] = paths.get(source_id, frozenset()) | program.query.paths
        self._rows = {
            source_id: rows
            for source_id, rows in self._rows.items()
            if paths.get(source_id) == self._paths.get(source_id)
        }
        self._paths = paths

    def sources_unseen(self) -> list[str]:
        """Return the sources that queries read and whose rows are unknown."""
        return [source_id for source_id in self._paths if source_id not in self._rows]

    def see(self, source_id: str, items: Iterable[Item]) -> None:
        """Take in the items that a source shows now; those of a source that no query reads are ignored."""
        if source_id in self._paths:
            self._rows[source_id] = rows_of(items, self._paths[source_id])

    def get(self, source_id: str) -> tuple[Mapping[str, Value], ...] | None:
        """Return the rows of a source, or ``None`` if they are unknown."""
        return self._rows.get(source_id)


class JointCaptures:
    """The open joint intervals, and the last known rows of the sources that queries read."""

    def __init__(self, known: Knowledge) -> None:
        self._known = known
        self._grid = known.grid
        self._open = OpenIntervals()
        self._awaited = AwaitedAnswers(known)
        self._orphans: list[str] = []
        self._first_end_s = -inf  # no interval ends before this time
        self.shown = _ShownRows()

    def restore(self, intervals: Iterable[JointInterval]) -> None:
        """Take over the intervals that were open."""
        self._open = OpenIntervals(intervals)
        self._first_end_s = -inf

    def declare(self) -> None:
        """Forget the intervals of rules that no longer exist."""
        self._first_end_s = -inf
        self.read_for(self._known.owned)
        gone = self._unfit()
        self._awaited.declare(self._programs)
        self._forget(gone)

    def take_over(self, intervals: Iterable[JointInterval]) -> None:
        """Take over what was open of the rules that another planner had until now."""
        for each in intervals:
            self._open.keep(each)
        self._first_end_s = -inf
        self._forget(self._unfit())

    def release(self) -> None:
        """Drop the intervals of rules that another planner has now; it goes on with them."""
        is_ours = self._known.has_rule
        for interval_id in [each.interval_id for each in self._open if not is_ours(each.rule)]:
            self._open.drop(interval_id)
        self._awaited.release(is_ours)
        self.read_for(self._known.owned)

    def read_for(self, owned: Ownership) -> None:
        """Follow what the queries of those rules read that this planner would have."""
        programs, has_rule = self._programs.values(), self._known.has_rule
        self.shown.declare(each for each in programs if not each.joined or has_rule(each.rule.name, owned))

    def _unfit(self) -> list[str]:
        """Return the ids of the intervals whose rule or sources are gone."""
        return [each.interval_id for each in self._all() if not self._fits(each)]

    def _forget(self, gone: Sequence[str]) -> None:
        """Forget intervals, and let rules with THEN have theirs."""
        for interval_id in gone:
            self._open.drop(interval_id)
        self._orphans += gone
        for kept in [each for each in self._open if self._awaited.takes(each.rule)]:
            self._open.drop(kept.interval_id)
            self._awaited.adopt(kept)

    @property
    def _programs(self) -> Mapping[str, RuleProgram]:
        return self._known.compiled.programs

    def take_orphans(self) -> list[str]:
        """Return, once, the ids of the intervals that were forgotten because their rule or sources are gone."""
        orphans, self._orphans = self._orphans, []
        return orphans

    def wanting(self, source_id: str) -> list[JointInterval]:
        """Return the intervals that a source has yet to capture."""
        return self._open.wanting(source_id)

    def single_demands(self, source_id: str) -> tuple[OnceDemand, ...]:
        """Return the probes that a source needs for the intervals that it has yet to capture."""
        grid = self._grid
        return tuple(
            OnceDemand(each.rule, each.opened, grid.chronon_at(each.ends_s) if each.deadline is None else each.deadline)
            for each in self.wanting(source_id)
            if each.told is None
        ) + tuple(self._awaited.single_demands(source_id))

    def is_overdue(self, now_s: float) -> bool:
        """Return whether an interval is to be ended without some of its sources."""
        if self._first_end_s <= now_s:
            self._first_end_s = min((each.ends_s for each in self._all()), default=inf)
        return self._first_end_s <= now_s

    def overdue(self, now_s: float) -> list[tuple[JointInterval, StoreQuery]]:
        """Return the intervals to end without some of their sources, and what to read for their notifications."""
        return [
            (each, history_query([self._programs[each.rule]], each.event.source_id, now_s))
            for each in self._all()
            if each.ends_s <= now_s
        ]

    def _all(self) -> Iterator[JointInterval]:
        yield from self._open
        yield from self._awaited

    # -- what moves them

    def match_tasks(self, firings: Iterable[Firing], given: Iterable[Answer], source_id: str) -> list[MatchTask]:
        """Return the tasks that let the first events and the answers that a source showed find each other."""
        with_answers = (each for each in firings if self._awaited.takes(each.rule))
        return self._awaited.match_tasks(with_answers, given, source_id)

    def update(
        self, found: Discovery, firings: Sequence[Firing], history: History, matches: Sequence[Match] = ()
    ) -> Captured:
        """Update the joint intervals with what a probe found and its joint ``firings``, and return what changed.

        The streams of the rules must already hold what the probe found.
        """
        outcome = found.outcome
        if outcome.kind is OutcomeKind.CHANGED and not outcome.is_push:
            self.shown.see(outcome.source_id, outcome.items)
        steps = self._obtain_from_probe(outcome, found.events, history)
        probe_end = _ProbeEnd(self._known, outcome.finished_s)
        at_firing: dict[str, Callable[[Firing], History]] = {}
        for firing in (each for each in firings if not self._awaited.takes(each.rule)):
            if firing.rule not in at_firing:
                at_firing[firing.rule] = histories(history, self._programs[firing.rule], found.events)
            steps.append(self._open_interval(firing, probe_end, at_firing[firing.rule](firing)))
        return self._apply_steps(steps + self._awaited.update(found, matches))

    def end_overdue(self, interval: JointInterval, history: History, now_s: float) -> Captured | None:
        """End an interval without the sources that it still wants, or return ``None`` if it changed meanwhile."""
        if self._awaited.takes(interval.rule):
            step = self._awaited.end_overdue(interval, now_s)
        else:
            step = self._end_overdue(interval, history, now_s)
        return None if step is None else self._apply_steps([step])

    def _apply_steps(self, steps: Sequence[IntervalStep]) -> Captured:
        """Count the intervals that steps have decided, and return all that changed."""
        if not steps:
            return _NOTHING_CAPTURED
        self._first_end_s = min(self._first_end_s, *(step.interval.ends_s for step in steps if not step.is_over), inf)
        decided: dict[tuple[str, str], list[IntervalRecord]] = {}
        for step in steps:
            decided.setdefault((step.interval.rule, step.interval.event.source_id), []).extend(step.records)
        streams = {key: with_fates(self._known.streams[key], records) for key, records in decided.items()}
        self._known.keep_streams(streams.values())
        wanted = [step.asks or self._sources_of(step.interval) for step in steps]
        results = RuleResults(
            streams=tuple(streams.values()),
            intervals=tuple(record for step in steps for record in step.records),
            joint=tuple(step.interval for step in steps if not step.is_over),
            ended=tuple(step.interval.interval_id for step in steps if step.is_over),
        )
        return Captured(
            results,
            announcements=tuple(step.announced for step in steps if step.announced is not None),
            sources=tuple(dict.fromkeys(source_id for names in wanted for source_id in names)),
        )

    def _sources_of(self, interval: JointInterval) -> Iterator[str]:
        """Yield the sources that an interval wants or wanted; a rule with THEN has its sources probed as planned."""
        if not self._awaited.takes(interval.rule):
            yield from interval.wanted
            yield from (each.source_id for each in interval.obtained)

    # -- steps

    def _open_interval(self, firing: Firing, probe_end: _ProbeEnd, history: History) -> IntervalStep:
        """Open the interval of a firing.

        For a query of another class it opens when the event is discovered, on the sources that correlate with the
        event. For a count across sources it opens with the event, on every source of the class; sources probed since
        have captured it.
        """
        program, event, record = self._programs[firing.rule], firing.events[-1], firing.record
        opened = self._grid.chronon_at(event.seen_s) if program.joined else record.start
        counted_on = _sources_to_count(program, event)
        done = list(self._seen_since(opened, counted_on, probe_end))
        done_ids = {each.source_id for each in done}
        late = (source_id for source_id in counted_on if source_id not in done_ids)
        wanted = [*self._sources_to_correlate(program, event, probe_end), *late]
        deadline = None if program.life_s is None else opened + self._grid.ceil(program.life_s)
        waited_s = wait_s(map(probe_end.rate_per_s, wanted), chronon_s=self._grid.length_s)
        interval = JointInterval(
            interval_id=program.notification_id(event),
            rule=program.rule.name,
            events=firing.events,
            opened=opened,
            opened_s=event.seen_s,
            deadline=deadline,
            ends_s=event.seen_s + waited_s if deadline is None else self._grid.start_s(deadline + 1),
            wanted=tuple(dict.fromkeys(wanted)),
            obtained=tuple(done),
        )
        own = [replace(record, deadline=deadline)] if program.trigger.counts_across else []
        decided = [self._record(interval, each.source_id, each.seen_s, captured=True) for each in done]
        return self._step(interval, (*own, *decided), history, event.seen_s)

    def _seen_since(self, opened: Chronon, source_ids: Iterable[str], probe_end: _ProbeEnd) -> Iterator[Obtained]:
        """Yield the sources that were seen in or after the chronon in which an interval opened."""
        for source_id in source_ids:
            seen_s = probe_end.last_success_s(source_id)
            if seen_s is not None and self._grid.chronon_at(seen_s) >= opened:
                yield Obtained(source_id, seen_s, captured=True)

    def _obtain_from_probe(
        self, outcome: ProbeOutcome, found: Sequence[StoredEvent], history: History
    ) -> list[IntervalStep]:
        """Return the steps of the intervals that opened before a probe started: its source captured or missed them."""
        source_id = outcome.source_id
        steps = []
        for interval in self.wanting(source_id):
            if outcome.started_s < interval.opened_s or not outcome.kind.is_success or outcome.is_push:
                continue
            after = _obtain(
                interval, source_id, found, self.shown.get(source_id) or (), seen_s=outcome.finished_s, grid=self._grid
            )
            captured = after.obtained[-1].captured and interval.told is None
            record = self._record(interval, source_id, outcome.finished_s, captured=captured)
            records = (record,) if interval.told is None else ()  # the partial notification has decided all
            steps.append(self._step(after, records, history, outcome.finished_s, asks=(source_id,)))
        return steps

    def _end_overdue(self, interval: JointInterval, history: History, now_s: float) -> IntervalStep | None:
        """End an interval without the sources that it still wants, or return ``None`` if it changed meanwhile."""
        if self._open.get(interval.interval_id) != interval:
            return None
        if interval.told is not None:
            self._open.drop(interval.interval_id)
            announced = self._announce(interval, history, now_s) if interval.news() else None
            return IntervalStep(interval, is_over=True, announced=announced)
        announced = self._announce(interval, history, now_s)
        told = tuple(each.source_id for each in interval.obtained)
        # it now waits for a supplement until its second end
        after = replace(interval, told=told, ends_s=now_s + LONGEST_S)
        self._open.keep(after)
        records = (self._record(interval, source_id, now_s, captured=False) for source_id in interval.wanted)
        missed = tuple(replace(record, seen=False) for record in records)
        return IntervalStep(after, announced=announced, records=missed, asks=interval.wanted)

    # -- how

    def _step(
        self,
        interval: JointInterval,
        records: tuple[IntervalRecord, ...],
        history: History,
        now_s: float,
        asks: tuple[str, ...] = (),
    ) -> IntervalStep:
        if not interval.is_complete:
            self._open.keep(interval)
            return IntervalStep(interval, records=records, asks=asks)
        self._open.drop(interval.interval_id)
        return IntervalStep(interval, True, self._announce(interval, history, now_s), records, asks)

    def _announce(self, interval: JointInterval, history: History, now_s: float) -> Announcement:
        url = self._known.compiled.url_of(interval.event.source_id)
        return Announcement(self._programs[interval.rule], interval, history, url, now_s)

    def _sources_to_correlate(self, program: RuleProgram, event: UpdateEvent, probe_end: _ProbeEnd) -> list[str]:
        found: list[str] = []
        for each in program.joined:
            rows = {source: self.shown.get(source) for source in each.sources}
            condition = each.correlation if probe_end.steps < _MOST_CORRELATING else None
            meter = Meter(CORRELATION_LIMITS)
            found += _find_correlated_sources(event, rows, each.table, condition, meter)
            probe_end.steps += meter.steps
        return found

    def _record(self, interval: JointInterval, source_id: str, seen_s: float, *, captured: bool) -> IntervalRecord:
        delay_s = max(0.0, seen_s - interval.event.time_s)
        return IntervalRecord(
            rule=interval.rule,
            source_id=source_id,
            seq=interval.event.seq,
            start=interval.opened,
            deadline=interval.deadline,
            probed=self._grid.chronon_at(seen_s),
            captured=captured,
            exact=interval.event.exact,
            delay_s=delay_s,
            utility=self._programs[interval.rule].utility(delay_s, captured=captured),
        )

    def _fits(self, interval: JointInterval) -> bool:
        program = self._programs.get(interval.rule)
        sources = {*interval.wanted, interval.event.source_id}
        if program is None or not program.is_joint or not sources <= set(program.rule.source_ids):
            return False
        return interval.is_complete == (program.answer is not None)  # what awaits an answer wants no source


def _sources_to_count(program: RuleProgram, event: UpdateEvent) -> list[str]:
    """Return the other sources whose events a rule counts together with those of the event's own source."""
    if not program.trigger.counts_across:
        return []
    return [source_id for source_id in program.event_sources if source_id != event.source_id]


def _find_correlated_sources(
    event: UpdateEvent,
    seen: Mapping[str, Sequence[Mapping[str, Value]] | None],
    table: str,
    condition: Closure | None,
    meter: Meter,
) -> list[str]:
    """Return the sources that may have a row for an event: a row ``seen`` meets ``condition``, or none is known."""
    row = Row.of(event, meter=meter)

    def may(rows: Sequence[Mapping[str, Value]] | None) -> bool:
        if condition is None or rows is None or meter.is_spent:
            return True
        try:
            return any(is_true(condition(with_row(fields))) for fields in rows)
        except Exception:  # noqa: BLE001 - the query itself decides later, and reports what fails
            return True

    def with_row(fields: Mapping[str, Value]) -> Row:
        meter.spend(_STEPS_PER_COPY)
        return replace(row, fields=fields, tables={table: fields})

    return [source_id for source_id, rows in seen.items() if may(rows)]


def wait_s(rates_per_s: Iterable[float], *, chronon_s: float) -> float:
    """Return how long to wait for sources whose life ends with their next update: twice the longest expected life.

    >>> wait_s([0.1, 0.01], chronon_s=10.0)
    200.0
    """
    slowest = min(rates_per_s, default=0.0)
    return min(LONGEST_S, max(10 * chronon_s, _LIVES / slowest if slowest > 0 else LONGEST_S))


def _obtain(
    interval: JointInterval,
    source_id: str,
    found: Sequence[StoredEvent],
    rows: Sequence[Mapping[str, Value]],
    *,
    seen_s: float,
    grid: ChrononGrid,
) -> JointInterval:
    """Return the interval after one of its sources was seen by a probe that started after the interval opened."""
    if interval.deadline is not None:
        captured = grid.chronon_at(seen_s) <= interval.deadline
    else:
        # under *overwrite* it is captured unless it was updated in a later chronon
        captured = not any(not e.seed and grid.chronon_at(e.event_s) > interval.opened for e in found)
    obtained = Obtained(source_id, seen_s, captured, tuple(rows[:_MOST_ROWS]))
    return replace(
        interval,
        wanted=tuple(each for each in interval.wanted if each != source_id),
        obtained=(*interval.obtained, obtained),
    )


def rows_of(items: Iterable[Item], paths: Iterable[str]) -> tuple[Mapping[str, Value], ...]:
    """Return the rows of a source's items that queries see: only the fields they read."""
    wanted = tuple(paths)
    return tuple({path: item.fields.get(path) for path in wanted} for item in items)[:_MOST_ROWS]
