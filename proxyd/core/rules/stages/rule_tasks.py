"""The work of rules as values: each task runs here or in another process, under a meter, and fails alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from proxyd.core.errors import WorkLimitError
from proxyd.core.model.chronon import Chronon, ChrononGrid
from proxyd.core.model.item import EventKind, UpdateEvent
from proxyd.core.model.profile import Source
from proxyd.core.rules.known.context import History, SourceContext
from proxyd.core.rules.known.failing_rules import RuleFailure
from proxyd.core.rules.known.state import MAX_PENDING_CHARACTERS, IntervalRecord, StoredEvent
from proxyd.core.rules.programs.meter import UNMETERED, Limits, Meter
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.programs.stream_state import MAX_PENDING, StreamState
from proxyd.core.rules.programs.trigger_program import Tally
from proxyd.core.rules.stages.observation import Answer, Firing, RuleResults
from proxyd.core.rules.stages.payload import Announcement, ProbeFacts, joint_notifications, notifications_of_firings

_STEPS_PER_EVENT, _STEPS_TO_MEASURE = 150, 8
_AHEAD_S = 600.0  # the clock of an origin may be ahead by so much
_R_co = TypeVar("_R_co", covariant=True)


class Task(Protocol[_R_co]):
    """Work of one rule that depends on nothing but its own values."""

    @property
    def program(self) -> RuleProgram:
        """The rule."""

    def run(self, meter: Meter) -> _R_co:
        """Return the result; once the meter is spent, the rest fails. Raises nothing."""

    def failure(self, reason: str) -> _R_co:
        """Return the result of a task that could not be run, for this reason."""


@dataclass(frozen=True, slots=True)
class RuleTask:
    """Takes the events that were ``found`` on a source into a rule's stream, and makes the notifications."""

    program: RuleProgram
    stream: StreamState
    found: Sequence[StoredEvent]
    facts: ProbeFacts
    across: StreamState | None = None
    history: History = field(default_factory=dict)  # fields of stored items, for tables that look back
    is_replay: bool = False  # past intervals that several sources must capture are counted, but not notified
    # whether the source has the class of the rule's trigger, and that of its THEN
    is_first: bool = True
    is_answer: bool = False

    @property
    def counting(self) -> Sequence[StoredEvent]:
        """The events that may count; a seed of the source itself counts for a rule that has not seen any event yet."""
        if not self.program.is_of_source:
            return self.found if self.is_first else ()
        return [replace(each, seed=False) for each in self.found if not each.seed or not self.stream.seen]

    def run(self, meter: Meter) -> RuleResults:
        """Return the advanced streams, and the notifications of the firings that this source alone decides."""
        program, step = self.program, advance(self, meter)
        if not program.is_joint:
            told = notifications_of_firings(program, step.firings, self.history, self.found, meter, self.facts)
            failures = (*step.failures, *told.failures)
            return replace(step, firings=(), notifications=told.notifications, failures=failures)
        if self.is_replay:
            return replace(step, firings=())
        if not self.is_answer:
            return step
        given = _find_answers(self, meter)
        return replace(step, answers=given.answers, failures=(*step.failures, *given.failures))

    def failure(self, reason: str) -> RuleResults:
        """Return the streams as they were; the events are lost to the rule."""
        streams = (self.stream,) if self.across is None else (self.stream, self.across)
        return RuleResults(streams, failures=(RuleFailure(self.program.rule.name, self.stream.source_id, reason),))


def tasks_of(
    context: SourceContext,
    found: Sequence[StoredEvent],
    of_source: Sequence[StoredEvent],
    history: History,
    picture: str | None,
) -> tuple[RuleTask, ...]:
    """Return the tasks of a source's rules: on ``found`` events of items, and on events ``of_source`` itself."""
    facts = ProbeFacts(context.source.url, context.grid, context.declared_s, picture=picture)
    work = [(*each, found) for each in context.own_rules if found]
    work += [(*each, of_source) for each in context.source_rules if of_source]
    return tuple(
        RuleTask(
            program,
            stream,
            events,
            facts,
            context.across.get(program.rule.name),
            {key: rows for key, rows in history.items() if key[0] == program.rule.name},
            is_first=program.is_of_source or program.event_class == context.page_class,
            is_answer=program.answer is not None and program.answer.page_class == context.page_class,
        )
        for program, stream, events in work
    )


@dataclass(frozen=True, slots=True)
class JointTask:
    """Makes the notification of an interval; ``picture`` is the hash of the picture that the completing probe took."""

    announced: Announcement
    grid: ChrononGrid
    picture: str | None = None

    @property
    def program(self) -> RuleProgram:
        """The rule."""
        return self.announced.program

    def run(self, meter: Meter) -> RuleResults:
        """Return the notification, with the rows of the query over what the sources showed."""
        return joint_notifications(self.announced, meter, grid=self.grid, picture=self.picture)

    def failure(self, reason: str) -> RuleResults:
        """Return no notification."""
        failure = RuleFailure(self.program.rule.name, self.announced.interval.event.source_id, reason)
        return RuleResults(failures=(failure,))


@dataclass(frozen=True, slots=True)
class RecallTask:
    """Restores the part of a stream that is not stored with it, from the events of its sources."""

    program: RuleProgram
    stream: StreamState
    found: Sequence[UpdateEvent]
    now_s: float

    def run(self, meter: Meter) -> StreamState:
        """Return the stream after the events."""
        return recall_stream(self.program, self.stream, self.found, self.now_s, meter)

    def failure(self, reason: str) -> StreamState:
        """Return the stream as it was stored."""
        return self.stream


@dataclass(frozen=True, slots=True)
class Backlog:
    """A new stream whose START lies in the past of a known source.

    The stored items numbered before ``before_seq`` are to be run through it; later ones reach it without help.
    """

    program: RuleProgram
    source: Source
    before_seq: int


def run_task(task: Task[_R_co], limits: Limits) -> _R_co:
    """Return the result of one task under ``limits``; worker processes call this."""
    return task.run(Meter(limits))


def with_fates(stream: StreamState, records: Sequence[IntervalRecord]) -> StreamState:
    """Return the stream with the fates of some of its intervals counted."""
    captured = sum(record.captured for record in records)
    return replace(
        stream,
        captured=stream.captured + captured,
        missed=stream.missed + len(records) - captured,
        utility=stream.utility + sum(record.utility for record in records),
    )


def advance(task: RuleTask, meter: Meter = UNMETERED) -> RuleResults:
    """Return the streams of a task after the events that may count, taken one by one in order.

    Firings in one chronon share one interval, because the measures count updates in one chronon as one event. Seeds
    count if they are known to be younger than START; events outside [START, END) never count. Intervals that several
    sources must capture are not recorded here, because they have not ended yet. An event that does not pass WHERE does
    not count for the rule, nor does one on which the rule's expressions fail; once the meter is spent, no more count.
    """
    program, stream, across, found, grid = task.program, task.stream, task.across, task.counting, task.facts.grid
    intervals: list[IntervalRecord] = []
    firings: list[Firing] = []
    failures: list[RuleFailure] = []
    overwritten: Sequence[Chronon | None] = ()
    for position, stored in enumerate(found):
        if not counts(program, stored, task.facts.declared_s):
            continue
        event = program.own_view(stored.event(stream.source_id))
        if event is None:
            continue
        stream = replace(stream, seen=stream.seen + 1)
        try:
            meter.spend(_STEPS_PER_EVENT)
            if not program.trigger.passes(event, meter):
                continue
            taken = _take(program, stream, event, meter)
            taken_across = None if across is None else _take(program, across, event, meter)
            fires = program.trigger.fires(event, taken, taken_across or taken, meter)
        except WorkLimitError as error:
            failures.append(RuleFailure.of(program, event.source_id, error))
            break  # all others would fail too
        except Exception as error:  # noqa: BLE001 - whatever happens fails this rule alone
            failures.append(RuleFailure.of(program, event.source_id, error))
            continue
        stream, across = taken, taken_across
        if not fires:
            continue
        overwritten = overwritten or overwriting([grid.chronon_at(each.event_s) for each in found])
        record = actual_interval(program, event, overwritten[position], grid)
        opened = not intervals or record.start != intervals[-1].start
        is_own = opened and not program.is_joint and not program.is_of_source  # an event of a source is not missed
        if is_own:
            intervals.append(record)
        pending = (across or stream).pending
        is_alone = program.trigger.is_mixed or program.answer is not None
        firings.append(Firing(program.rule.name, pending[-1:] if is_alone else pending, record))
        stream = _fire(with_fates(stream, [record] if is_own else []), event)
        across = None if across is None else _fire(across, event)
    streams = (stream,) if across is None else (stream, across)
    return RuleResults(streams, tuple(intervals), failures=tuple(failures), firings=tuple(firings))


def _find_answers(task: RuleTask, meter: Meter) -> RuleResults:
    """Return the events of a probe that may answer a rule's first events, and how its conditions failed on others."""
    kept: list[Answer] = []
    failures: list[RuleFailure] = []
    program, source_id, answer = task.program, task.stream.source_id, task.program.answer
    assert answer is not None
    own = [e for e in task.found if e.kind is answer.kind and _in_period(program, e, task.facts.declared_s)]
    for event in filter(None, (program.own_view(each.event(source_id)) for each in own)):
        try:
            meter.spend(_STEPS_PER_EVENT)
            if answer.passes(event, meter):
                kept.append(Answer(program.rule.name, _without_unread_fields(program, event)))
        except WorkLimitError as error:
            failures.append(RuleFailure.of(program, source_id, error))
            break  # all others would fail too
        except Exception as error:  # noqa: BLE001 - whatever happens fails this rule alone
            failures.append(RuleFailure.of(program, source_id, error))
    return RuleResults(answers=tuple(kept), failures=tuple(failures))


def recall_stream(
    program: RuleProgram, stream: StreamState, found: Iterable[UpdateEvent], now_s: float, meter: Meter = UNMETERED
) -> StreamState:
    """Return a restored stream with the events since it last fired, and with its windows filled again."""
    try:
        events = [e for e in sorted(found, key=lambda e: (e.time_s, e.seq)) if _passes(program, e, meter)]
        tally = _recall_windows(program, events, now_s, meter)
    except WorkLimitError:  # all others would fail too, as they did when they were first seen
        return stream
    is_across = not stream.source_id
    since = [e for e in events if (e.seen_s > stream.fired_s if is_across else e.seq > stream.fired_seq)]
    pending = _limit_pending(tuple(_without_unread_fields(program, event) for event in since[-MAX_PENDING:]))
    return replace(stream, pending=pending, windows=tally.windows)


def _recall_windows(program: RuleProgram, events: Iterable[UpdateEvent], now_s: float, meter: Meter) -> Tally:
    tally = program.trigger.zero
    for event in (e for e in events if e.time_s > now_s - program.trigger.longest_s):
        with _skip_failures():
            tally = program.trigger.take(tally, event, meter)
    return tally


@contextmanager
def _skip_failures() -> Iterator[None]:
    """Go on after an event on which a rule's expressions fail, but not after a limit that the rule has reached."""
    try:
        yield
    except WorkLimitError:
        raise
    except Exception:  # noqa: BLE001 - it failed when it was first seen, and was told then
        pass


def refill_stream(program: RuleProgram, stream: StreamState, found: Iterable[UpdateEvent]) -> StreamState:
    """Return a stream whose pending events hold what an edited query reads, as far as they are ``found``."""
    stored = {(event.source_id, event.seq): event for event in found}
    pending = (
        _without_unread_fields(program, stored.get((event.source_id, event.seq), event)) for event in stream.pending
    )
    return replace(stream, pending=_limit_pending(tuple(pending)))


def _passes(program: RuleProgram, event: UpdateEvent, meter: Meter) -> bool:
    with _skip_failures():
        return program.trigger.passes(event, meter)
    return False


def _take(program: RuleProgram, stream: StreamState, event: UpdateEvent, meter: Meter) -> StreamState:
    tally = program.trigger.take(stream, event, meter)
    meter.spend(len(stream.pending) >> 4)
    pending = _limit_pending((*stream.pending, _without_unread_fields(program, event)), meter)
    return replace(stream, totals=tally.totals, windows=tally.windows, pending=pending)


def _limit_pending(pending: tuple[UpdateEvent, ...], meter: Meter = UNMETERED) -> tuple[UpdateEvent, ...]:
    """Return the newest events that a stream keeps, limited in number and in characters."""
    pending = pending[-MAX_PENDING:]
    if not pending or _characters(pending[-1]) * MAX_PENDING <= MAX_PENDING_CHARACTERS:
        return pending
    meter.spend(_STEPS_TO_MEASURE * len(pending))
    left = MAX_PENDING_CHARACTERS
    for number, event in enumerate(reversed(pending)):
        left -= _characters(event)
        if left < 0 and number:
            return pending[len(pending) - number :]
    return pending


def _characters(event: UpdateEvent) -> int:
    versions = (event.item, event.old) if event.old is not None else (event.item,)
    return sum(len(value) for each in versions for value in each.fields.values() if isinstance(value, str))


def _without_unread_fields(program: RuleProgram, event: UpdateEvent) -> UpdateEvent:
    """Return an event with only the fields that its rule's query reads; a rule that seldom fires keeps many events."""
    paths, old_paths = program.kept_paths
    if event.kind is EventKind.DELETE:
        paths = paths | old_paths
    old = event.old and replace(event.old, fields={path: event.old.fields.get(path) for path in old_paths})
    fields = {path: event.item.fields.get(path) for path in paths}
    return replace(event, item=replace(event.item, fields=fields), old=old)


def counts(program: RuleProgram, item: StoredEvent, declared_s: float = 0.0) -> bool:
    """Return whether an event is of the rule's kind and inside its period; NOW is never before ``declared_s``."""
    return program.wants(item.item, item.kind) and _in_period(program, item, declared_s)


def _in_period(program: RuleProgram, item: StoredEvent, declared_s: float) -> bool:
    published_s = item.item.published_s if item.kind is EventKind.INSERT else None
    if item.seed and (published_s is None or is_ahead(item)):
        return False  # nothing says when it came
    start_s = program.starts_at(declared_s)
    started = item.event_s >= start_s
    if not started and not item.seed and published_s is not None and published_s.is_integer():
        started = published_s + 1.0 > start_s
    return started and item.event_s < program.end_s


def is_ahead(item: StoredEvent) -> bool:
    """Return whether the date of an item was still to come: it is that of an event, or wrong by a zone."""
    return item.item.published_s is not None and item.item.published_s > item.seen_s + _AHEAD_S


def actual_interval(
    program: RuleProgram, event: UpdateEvent, overwritten: Chronon | None, grid: ChrononGrid
) -> IntervalRecord:
    """Return the actual interval that ``event`` opened, and whether the probe that found it came in time."""
    start = grid.chronon_at(event.time_s)
    probed = grid.chronon_at(event.seen_s)
    deadline: Chronon | None
    if program.life_s is not None:
        deadline = start + grid.ceil(program.life_s)
    else:
        deadline = None if overwritten is None else overwritten - 1  # the next event of the source ends it
    captured = deadline is None or probed <= deadline
    delay_s = max(0.0, event.seen_s - event.time_s)
    return IntervalRecord(
        rule=program.rule.name,
        source_id=event.source_id,
        seq=event.seq,
        start=start,
        deadline=deadline,
        probed=probed,
        captured=captured,
        exact=event.exact,
        delay_s=delay_s,
        utility=program.utility(delay_s, captured=captured),
    )


def overwriting(chronons: Sequence[Chronon]) -> list[Chronon | None]:
    """Return for each event the chronon of the first one after it that lies in a later chronon.

    >>> overwriting([1, 1, 3, 2])
    [3, 3, None, None]
    """
    found: list[Chronon | None] = []
    later: list[Chronon] = []  # from late to early, without those that an earlier event in a later chronon hides
    for chronon in reversed(chronons):
        while later and later[-1] <= chronon:
            later.pop()
        found.append(later[-1] if later else None)
        later.append(chronon)
    return found[::-1]


def _fire(stream: StreamState, event: UpdateEvent) -> StreamState:
    return replace(stream, pending=(), fired_seq=event.seq, fired_s=event.seen_s)
