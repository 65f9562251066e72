"""The rule engine: one outcome of one probe in, everything there is to record and to send out.

Nothing here waits, reads a clock or stores: the daemon applies an ``Observation`` in one transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from proxyd.estimation import Evidence, GammaRate
from proxyd.model.chronon import Chronon, ChrononGrid
from proxyd.model.item import EventKind, Item, UpdateEvent
from proxyd.model.outcome import NO_VALIDATORS, OutcomeKind, ProbeOutcome
from proxyd.model.profile import Declaration, NotificationRule, PageClass, Source
from proxyd.politeness import BackOff, back_off, fresh_until_s
from proxyd.rules.events import Discovery, Shape, View, discover, unchanged
from proxyd.rules.expression import Row
from proxyd.rules.origins import after_document, after_redirects, has_vanished, is_missing
from proxyd.rules.query import QueryProgram, compile_query
from proxyd.rules.state import (
    MAX_PENDING,
    MAX_PENDING_CHARACTERS,
    IntervalRecord,
    Needed,
    Notification,
    SourceState,
    StoredEvent,
    StreamState,
)
from proxyd.rules.subscriptions import Subscription
from proxyd.rules.trigger import TriggerProgram, compile_trigger
from proxyd.rules.values import coerce, iso_time


@dataclass(frozen=True, slots=True)
class RuleProgram:
    """A rule ready to run: compiled, its period resolved to unix seconds, its life to chronons."""

    rule: NotificationRule
    trigger: TriggerProgram
    query: QueryProgram
    accepted_s: float
    start_s: float
    end_s: float
    life_s: float | None

    def new_stream(self, source_id: str) -> StreamState:
        """Return the state of a stream that saw nothing."""
        return StreamState(self.rule.name, source_id, self.trigger.zero)

    def is_active(self, now_s: float) -> bool:
        """Whether its period runs: only then are probes made on its behalf."""
        return self.start_s <= now_s < self.end_s


def compile_rule(
    rule: NotificationRule, declaration: Declaration, *, accepted_s: float, chronon_s: float
) -> RuleProgram:
    """Return the program of a checked rule that was first accepted at ``accepted_s`` (its NOW)."""
    source = declaration.sources[rule.source_ids[0]] if rule.source_ids else None
    domain = source.domain if source else rule.trigger.page_class.domain or ""
    page_class = declaration.domains[domain].classes[source.page_class if source else rule.trigger.page_class.name]
    window = rule.life.window if rule.life else None
    return RuleProgram(
        rule=rule,
        trigger=compile_trigger(rule.trigger, page_class),
        query=compile_query(rule.query, page_class),
        accepted_s=accepted_s,
        start_s=rule.start.resolve(accepted_s, chronon_s=chronon_s),
        end_s=rule.end.resolve(accepted_s, chronon_s=chronon_s),
        life_s=window.in_seconds(chronon_s=chronon_s) if window else None,
    )


@dataclass(frozen=True, slots=True)
class PageContext:
    """Everything an observation of one source depends on but the outcome itself."""

    source: Source
    page_class: PageClass
    state: SourceState
    rules: Sequence[tuple[RuleProgram, StreamState]]
    grid: ChrononGrid
    half_life_s: float
    spacing_s: float
    prior_per_s: float
    freshness_cap_s: float = 0.0
    is_excused: bool = False  # whether a failure is not the source's
    now_s: float | None = None  # when history is replayed; what a probe finds is notified when it is seen

    @property
    def shape(self) -> Shape:
        """What the source's items are together."""
        return Shape.of(self.page_class)

    @property
    def has_updates(self) -> bool:
        """Whether a rule waits for updates of items."""
        return any(program.rule.trigger.kind is EventKind.UPDATE for program, _ in self.rules)

    @property
    def starts_afresh(self) -> bool:
        """Whether what is stored of the source's items was of another page, or of another reading of this one."""
        is_new = self.state.first_contact_s is None and self.state.next_seq > 1
        return is_new and self.shape is not Shape.FEED

    def rate(self) -> GammaRate:
        """Return the rate estimate of the source as it stands."""
        return source_rate(self.state, self.source, half_life_s=self.half_life_s)


@dataclass(frozen=True, slots=True)
class Observation:
    """What one probe changed, to be applied whole or not at all.

    ``starts_afresh`` where what is stored of the source's items was of another page; ``kept_kinds`` are the kinds of
    events that rules wait for: of others only the items' present state is stored.
    """

    state: SourceState
    outcome: ProbeOutcome
    events: tuple[StoredEvent, ...] = ()
    edited: tuple[Item, ...] = ()
    present: tuple[str, ...] = ()
    streams: tuple[StreamState, ...] = ()
    intervals: tuple[IntervalRecord, ...] = ()
    notifications: tuple[Notification, ...] = ()
    evidence: Evidence | None = None
    lost_items: float = 0.0
    unfit_values: int = 0
    subscription: Subscription | None = None
    starts_afresh: bool = False
    kept_kinds: frozenset[EventKind] = frozenset(EventKind)

    @property
    def delays_s(self) -> list[float]:
        """Published to seen, of the new items whose own time is known."""
        return [e.seen_s - e.event_s for e in self.events if e.exact and not e.seed]


@dataclass(frozen=True, slots=True)
class StreamStep:
    """How events moved one stream."""

    stream: StreamState
    intervals: tuple[IntervalRecord, ...] = ()
    notifications: tuple[Notification, ...] = field(default=())


def needed(context: PageContext, outcome: ProbeOutcome) -> Needed | None:
    """Return which stored items it takes to observe an outcome, ``None`` where it takes none."""
    item_ids = tuple(item.item_id for item in outcome.items)
    if context.shape is Shape.FEED:
        return Needed(item_ids, context.has_updates) if item_ids else None
    if outcome.truncated:  # rows that are not shown are not gone, and there may be any number of them
        return Needed(item_ids, fields=True)
    return Needed(None, fields=True) if outcome.kind is OutcomeKind.CHANGED or is_missing(outcome) else None


def observe(
    context: PageContext, outcome: ProbeOutcome, known: Mapping[str, Item], *, rng: np.random.Generator
) -> Observation:
    """Return what ``outcome`` changed; ``known`` holds the stored items that are ``needed``, by id."""
    if _is_outdated(context, outcome):
        outcome = replace(outcome, kind=OutcomeKind.SAME_BODY, items=(), validators=NO_VALIDATORS, body_hash=None)
    state = context.state if outcome.is_push else _after_probe(context, outcome, rng)
    if outcome.is_push:
        found = _found(context, outcome, known)
        state = _after_push(state, outcome, found, context.shape)
    elif outcome.kind.is_success:
        found = _found(context, outcome, known)
        state = _after_success(state, outcome, found)
    elif context.shape is not Shape.FEED and has_vanished(state, outcome):
        found = _found(context, outcome, known)
        state = _after_vanishing(state, outcome, found)
    else:
        return Observation(state, outcome)
    if found.evidence is not None:
        rate = context.rate()
        rate.update(found.evidence, prior_per_s=context.prior_per_s)
        state = replace(state, rate_events=rate.events, rate_exposure_s=rate.exposure_s, rate_as_of_s=rate.as_of_s)
    if not found.events:  # most probes find nothing: no stream moves, and none is written
        return Observation(
            state,
            outcome,
            edited=found.edited,
            present=_present(outcome),
            evidence=found.evidence,
            lost_items=found.lost_items,
            unfit_values=outcome.misfits,
            starts_afresh=context.starts_afresh,
        )
    steps = [advance(program, stream, found.events, context) for program, stream in context.rules]
    return Observation(
        state=state,
        outcome=outcome,
        events=found.events,
        edited=found.edited,
        present=_present(outcome),
        streams=tuple(step.stream for step in steps),
        intervals=tuple(record for step in steps for record in step.intervals),
        notifications=tuple(sent for step in steps for sent in step.notifications),
        evidence=found.evidence,
        lost_items=found.lost_items,
        unfit_values=outcome.misfits + sum(_unfit_values(context, event.item) for event in found.events),
        starts_afresh=context.starts_afresh,
        kept_kinds=frozenset(program.rule.trigger.kind for program, _ in context.rules),
    )


def _present(outcome: ProbeOutcome) -> tuple[str, ...]:
    return () if outcome.is_push else tuple(item.item_id for item in outcome.items)


def _is_outdated(context: PageContext, outcome: ProbeOutcome) -> bool:
    """Whether a probe read a page before a hub pushed what it is now."""
    pushed_s = context.state.last_push_s
    is_older = pushed_s is not None and not outcome.is_push and outcome.started_s < pushed_s
    return is_older and context.shape is not Shape.FEED and outcome.kind is OutcomeKind.CHANGED


def _found(context: PageContext, outcome: ProbeOutcome, known: Mapping[str, Item]) -> Discovery:
    seen_s = outcome.finished_s
    if outcome.kind in {OutcomeKind.SAME_BODY, OutcomeKind.NOT_MODIFIED}:
        return unchanged(context.state, seen_s=seen_s)
    view = View(
        context.shape,
        {} if context.starts_afresh else known,
        context.has_updates,
        not outcome.truncated,
        outcome.is_push,
    )
    rate_per_s = context.rate().rate_per_s(seen_s, prior_per_s=context.prior_per_s)
    return discover(outcome.items, view, context.state, seen_s=seen_s, rate_per_s=rate_per_s)


def _unfit_values(context: PageContext, item: Item) -> int:
    """Count the item's values that do not fit the type their class declares: rules read them as null."""
    return sum(
        value is not None and coerce(value, declared.type, path=declared.path.lower()) is None
        for declared in context.page_class.fields
        for value in [item.fields.get(declared.path.lower())]
    )


def source_rate(state: SourceState, source: Source, *, half_life_s: float) -> GammaRate:
    """Return the rate estimate of a source as it stands."""
    expected = None
    if source.expect is not None:
        expected = float(source.expect.amount) / source.expect.per.in_seconds(chronon_s=1.0)
    return GammaRate(half_life_s, state.rate_events, state.rate_exposure_s, state.rate_as_of_s, expected)


def advance(
    program: RuleProgram, stream: StreamState, found: Sequence[StoredEvent], context: PageContext
) -> StreamStep:
    """Return the stream after the events ``found`` by one probe, taken one by one in their order.

    Firings in one chronon share one interval: updates in one chronon are one event for the measures. Seeds count where
    they are known to be younger than START; what lies outside [START, END) does not count at all.
    """
    intervals: list[IntervalRecord] = []
    notifications: list[Notification] = []
    for position, stored in enumerate(found):
        if not _counts(program, stored):
            continue
        event = stored.event(context.source.source_id)
        counts, fires = program.trigger.step(stream.counts, event)
        pending = bounded((*stream.pending, _remembered(program, event)))
        stream = replace(stream, counts=counts, pending=pending)
        if fires:
            record = _interval(program, event, found[position + 1 :], context.grid)
            opened = not intervals or record.start != intervals[-1].start
            if opened:
                intervals.append(record)
            notifications.append(_notification(program, stream, record, context))
            stream = _fired(stream, record, opened=opened)
    return StreamStep(stream, tuple(intervals), tuple(notifications))


def pending_events(program: RuleProgram, source_id: str, stored: Sequence[StoredEvent]) -> tuple[UpdateEvent, ...]:
    """Return those of the stored items that count for a rule, as events."""
    counted = [each.event(source_id) for each in stored if _counts(program, each)]
    return bounded(tuple(_remembered(program, event) for event in counted[-MAX_PENDING:]))


def bounded(pending: tuple[UpdateEvent, ...]) -> tuple[UpdateEvent, ...]:
    """Return the newest events that a stream remembers: so many, and of so many characters."""
    pending = pending[-MAX_PENDING:]
    if not pending or _characters(pending[-1]) * MAX_PENDING <= MAX_PENDING_CHARACTERS:
        return pending
    left = MAX_PENDING_CHARACTERS
    for number, event in enumerate(reversed(pending)):
        left -= _characters(event)
        if left < 0 and number:
            return pending[len(pending) - number :]
    return pending


def _characters(event: UpdateEvent) -> int:
    versions = (event.item, event.old) if event.old is not None else (event.item,)
    return sum(len(value) for each in versions for value in each.fields.values() if isinstance(value, str))


def _remembered(program: RuleProgram, event: UpdateEvent) -> UpdateEvent:
    """Return an event with the fields its rule's query reads: a rule that seldom fires keeps many of them."""
    query = program.query
    paths, old_paths = query.paths, query.old_paths
    if event.kind is EventKind.DELETE:
        paths = paths | old_paths
    old = event.old and replace(event.old, fields={path: event.old.fields.get(path) for path in old_paths})
    fields = {path: event.item.fields.get(path) for path in paths}
    return replace(event, item=replace(event.item, fields=fields), old=old)


def _counts(program: RuleProgram, item: StoredEvent) -> bool:
    """Whether something that happened is an event of the rule's kind inside its period.

    Many feeds cut times to whole seconds: what appeared in the second of START and was not there before counts.
    """
    if item.kind is not program.rule.trigger.kind:
        return False
    published_s = item.item.published_s if item.kind is EventKind.INSERT else None
    if item.seed and published_s is None:
        return False
    started = item.event_s >= program.start_s
    if not started and not item.seed and published_s is not None and published_s.is_integer():
        started = published_s + 1.0 > program.start_s
    return started and item.event_s < program.end_s


def _interval(
    program: RuleProgram, event: UpdateEvent, later: Sequence[StoredEvent], grid: ChrononGrid
) -> IntervalRecord:
    """Return the actual interval that ``event`` opened and whether the probe that found it came in time.

    Whatever happens to the page ``later`` overwrites it, of whatever kind it is.
    """
    start = grid.chronon_at(event.time_s)
    probed = grid.chronon_at(event.seen_s)
    deadline: Chronon | None
    if program.life_s is not None:
        deadline = start + grid.ceil(program.life_s)
    else:
        chronons = (grid.chronon_at(other.event_s) for other in later)
        deadline = next((chronon - 1 for chronon in chronons if chronon > start), None)
    return IntervalRecord(
        rule=program.rule.name,
        source_id=event.source_id,
        seq=event.seq,
        start=start,
        deadline=deadline,
        probed=probed,
        captured=deadline is None or probed <= deadline,
        exact=event.exact,
        delay_s=max(0.0, event.seen_s - event.time_s),
    )


def _fired(stream: StreamState, record: IntervalRecord, *, opened: bool) -> StreamState:
    return replace(
        stream,
        pending=(),
        fired_seq=record.seq,
        captured=stream.captured + (opened and record.captured),
        missed=stream.missed + (opened and not record.captured),
    )


def _notification(
    program: RuleProgram, stream: StreamState, record: IntervalRecord, context: PageContext
) -> Notification:
    event = stream.pending[-1]
    rule = program.rule
    identity = f"{rule.name}\0{program.accepted_s!r}\0{event.source_id}\0{event.item.item_id}\0{event.seq}"
    notification_id = "ntf_" + hashlib.sha256(identity.encode()).hexdigest()[:32]
    grid = context.grid
    data = {
        "id": notification_id,
        "rule": rule.name,
        "profiles": list(rule.profiles),
        "source": event.source_id,
        "url": context.source.url,
        "event": {"kind": event.kind.value, "time": iso_time(event.time_s), "seen": iso_time(event.seen_s)},
        "interval": {
            "start": iso_time(grid.start_s(record.start)),
            "end": None if record.deadline is None else iso_time(grid.start_s(record.deadline + 1)),
        },
        "late": not record.captured,
        "items": program.query.run([Row.of(pending) for pending in stream.pending]),
    }
    body = {"type": "proxyd.notification", "timestamp": iso_time(event.seen_s), "data": data}
    return Notification(
        notification_id=notification_id,
        rule=rule.name,
        source_id=event.source_id,
        event_s=event.time_s,
        created_s=event.seen_s if context.now_s is None else context.now_s,
        late=not record.captured,
        body=json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(errors="replace"),
        deliveries=rule.deliveries,
    )


def _after_probe(context: PageContext, outcome: ProbeOutcome, rng: np.random.Generator) -> SourceState:
    previous = BackOff(context.state.failures, context.state.not_before_s)
    waited = back_off(previous, outcome, spacing_s=context.spacing_s, rng=rng, counts=not context.is_excused)
    period_s = outcome.period_s if outcome.kind is OutcomeKind.CHANGED else context.state.period_s
    return replace(
        after_redirects(context.state, outcome),
        last_start_s=outcome.started_s,
        last_outcome=outcome.kind.value,
        last_detail=outcome.detail,
        failures=waited.failures,
        not_before_s=waited.not_before_s,
        fresh_until_s=fresh_until_s(outcome, period_s=period_s, cap_s=context.freshness_cap_s),
        period_s=period_s,
        missing=context.state.missing + 1 if is_missing(outcome) else 0,
    )


def _after_vanishing(state: SourceState, outcome: ProbeOutcome, found: Discovery) -> SourceState:
    """Remember a page that is not there: it was seen, as nothing, and is read anew if it comes back."""
    return replace(
        state,
        validators=NO_VALIDATORS,
        body_hash=None,
        first_contact_s=outcome.finished_s if state.first_contact_s is None else state.first_contact_s,
        last_success_s=outcome.finished_s,
        next_seq=state.next_seq + len(found.events),
        lost_items=state.lost_items + found.lost_items,
    )


def _after_push(state: SourceState, outcome: ProbeOutcome, found: Discovery, shape: Shape) -> SourceState:
    """Remember a push: of a feed it says nothing of the document that the next probe compares with."""
    is_feed = shape is Shape.FEED
    return replace(
        state,
        validators=state.validators if is_feed else NO_VALIDATORS,
        body_hash=state.body_hash if is_feed else None,
        last_push_s=outcome.finished_s,
        newest_s=_newest_s(state, found),
        next_seq=state.next_seq + len(found.events),
    )


def _newest_s(state: SourceState, found: Discovery) -> float | None:
    times = [e.item.published_s for e in found.events if e.item.published_s is not None and e.exact]
    return max([*times, *([] if state.newest_s is None else [state.newest_s])], default=None)


def _after_success(state: SourceState, outcome: ProbeOutcome, found: Discovery) -> SourceState:
    state = after_document(state, outcome, found)
    read = outcome.kind is OutcomeKind.CHANGED
    return replace(
        state,
        validators=outcome.validators if outcome.kind is not OutcomeKind.NOT_MODIFIED else state.validators,
        body_hash=outcome.body_hash if read else state.body_hash,
        first_contact_s=outcome.finished_s if state.first_contact_s is None and read else state.first_contact_s,
        last_success_s=outcome.finished_s,
        newest_s=_newest_s(state, found),
        next_seq=state.next_seq + len(found.events),
        lost_items=state.lost_items + found.lost_items,
    )
