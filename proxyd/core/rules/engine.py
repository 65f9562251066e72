"""The rule engine: one outcome of one probe in, everything there is to record and to send out.

Nothing here waits, reads a clock or stores: the daemon applies an ``Observation`` in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.field_values import coerce
from proxyd.core.model.item import EventKind, Item
from proxyd.core.model.outcome import NO_VALIDATORS, OutcomeKind, ProbeOutcome
from proxyd.core.model.profile import PageClass, Source
from proxyd.core.model.schedule import Probe
from proxyd.core.politeness import BackOff, back_off, fresh_until_s
from proxyd.core.rates.evidence import Evidence
from proxyd.core.rates.model_fit import SourceModel
from proxyd.core.rates.rate_blend import Blend
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.stages.calibration import Calibration, Gap, predicted
from proxyd.core.rules.stages.events import Discovery, DocumentView, Shape, discover, unchanged
from proxyd.core.rules.stages.joint_intervals import JointInterval
from proxyd.core.rules.stages.payload import History, notice
from proxyd.core.rules.stages.redirects import after_document, after_redirects, has_vanished, is_missing
from proxyd.core.rules.stages.streams import Firing, advance
from proxyd.core.rules.state import (
    HistoryQuery,
    IntervalRecord,
    Notification,
    SourceState,
    StateChanges,
    StoredEvent,
    StoreQuery,
    StreamState,
)
from proxyd.core.rules.subscriptions import Subscription


@dataclass(frozen=True, slots=True)
class PageContext:
    """Everything an observation of one source depends on but the outcome itself."""

    source: Source
    page_class: PageClass
    state: SourceState
    rules: Sequence[tuple[RuleProgram, StreamState]]
    across: Mapping[str, StreamState]
    grid: ChrononGrid
    spacing_s: float
    blend: Blend
    freshness_cap_s: float = 0.0
    declared_s: float = 0.0
    is_excused: bool = False  # whether a failure is not the source's

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
        return self.is_another_page and self.shape is not Shape.FEED

    @property
    def is_another_page(self) -> bool:
        """Whether the source was another page before, or read otherwise."""
        return self.state.first_contact_s is None and self.state.next_seq > 1

    def rate_per_s(self, now_s: float) -> float:
        """Return the source's update rate as it stands, in items per second."""
        return self.blend.rate_per_s(self.state.rate, now_s, expect_per_s=expected_per_s(self.source))


@dataclass(frozen=True, slots=True)
class Observation:
    """What one probe changed, to be applied whole or not at all.

    Parameters
    ----------
    firings
        Those whose intervals several pages must capture.
    joint, ended
        Such intervals, opened or changed, and the ids of those that are over.
    starts_afresh
        Whether what is stored of the source's items was of another page.
    week
        The source's items by hour of the week, where there are new ones.
    account
        What was found beside what was predicted, of a probe of a source already known whose hub does not push.
    probe
        What was planned and is observed here; ``None`` of what a hub pushed.
    kept_kinds
        The kinds of events that rules wait for: of others only the items' present state is stored.
    """

    state: SourceState
    outcome: ProbeOutcome
    events: tuple[StoredEvent, ...] = ()
    edited: tuple[Item, ...] = ()
    present: tuple[str, ...] = ()
    streams: tuple[StreamState, ...] = ()
    intervals: tuple[IntervalRecord, ...] = ()
    notifications: tuple[Notification, ...] = ()
    firings: tuple[Firing, ...] = ()
    joint: tuple[JointInterval, ...] = ()
    ended: tuple[str, ...] = ()
    evidence: Evidence | None = None
    week: WeekCounts | None = None
    account: Calibration | None = None
    lost_items: float = 0.0
    unfit_values: int = 0
    subscription: Subscription | None = None
    starts_afresh: bool = False
    probe: Probe | None = None
    kept_kinds: frozenset[EventKind] = frozenset(EventKind)

    @property
    def delays_s(self) -> list[float]:
        """Published to seen, of the new items whose own time is known."""
        return [e.seen_s - e.event_s for e in self.events if e.exact and not e.seed]


@dataclass(frozen=True, slots=True)
class StoredContext:
    """What is stored and needed: items by id, and histories by rule and number of the table that reads them."""

    items: Mapping[str, Item] = field(default_factory=dict)
    history: History = field(default_factory=dict)


NO_CONTEXT = StoredContext()


def needed(context: PageContext, outcome: ProbeOutcome, *, completes: bool = False) -> StoreQuery | None:
    """Return what it takes of the store to observe an outcome, ``None`` where it takes nothing.

    ``completes`` says that an interval of several pages waits for this one: then something may fire anyway.
    """
    is_feed = context.shape is Shape.FEED
    programs = [program for program, _ in context.rules]
    histories = history_needed(programs, context.source.source_id, outcome.finished_s)
    item_ids = tuple(item.item_id for item in outcome.items)
    if is_feed and item_ids:
        return replace(histories, item_ids=item_ids, fields=context.has_updates)
    if not is_feed and outcome.truncated:  # rows that are not shown are not gone, and there may be any number of them
        return replace(histories, item_ids=item_ids, fields=True)
    if not is_feed and (outcome.kind is OutcomeKind.CHANGED or is_missing(outcome)):
        return replace(histories, item_ids=None, fields=True)
    return histories if completes and histories.histories else None


def history_needed(programs: Iterable[RuleProgram], source_id: str, now_s: float) -> StoreQuery:
    """Return the histories that rules read when they fire on a page, and no items."""
    return StoreQuery((), fields=False, histories=tuple(_histories(programs, source_id, now_s)))


def _histories(programs: Iterable[RuleProgram], source_id: str, now_s: float) -> Iterator[HistoryQuery]:
    for program in programs:
        for position, table in enumerate(program.query.tables):
            if table.over_s is not None:
                is_own = table.page_class == program.event_class and not program.trigger.counts_across
                sources = (source_id,) if is_own else program.table_sources[position]
                yield HistoryQuery(program.rule.name, position, sources, now_s - table.over_s)


def observe(
    context: PageContext, outcome: ProbeOutcome, known: StoredContext, *, rng: np.random.Generator
) -> Observation:
    """Return what ``outcome`` changed; ``known`` holds what is ``needed``."""
    if _is_outdated(context, outcome):
        outcome = replace(outcome, kind=OutcomeKind.SAME_BODY, items=(), validators=NO_VALIDATORS, body_hash=None)
    state = context.state if outcome.is_push else after_redirects(context.state, outcome)
    changes = {} if outcome.is_push else _after_probe(context, outcome, rng)
    if outcome.is_push:
        found = _found(context, outcome, known)
        changes |= _after_push(state, outcome, found, context.shape)
    elif outcome.kind.is_success:
        found = _found(context, outcome, known)
        changes |= _after_success(state, outcome, found, context.shape)
    elif context.shape is not Shape.FEED and has_vanished(outcome, changes["missing"]):
        found = _found(context, outcome, known)
        changes |= _after_vanishing(state, outcome, found)
    else:
        return Observation(replace(state, **changes), outcome)
    if found.evidence is not None:
        expect_per_s = expected_per_s(context.source)
        changes["rate"] = context.blend.seen(state.rate, found.evidence, expect_per_s=expect_per_s)
    seen = Observation(
        replace(state, **changes),
        outcome,
        edited=found.edited,
        present=_present(outcome),
        evidence=found.evidence,
        lost_items=found.lost_items,
        unfit_values=outcome.misfits,
        starts_afresh=context.starts_afresh,
    )
    # most probes find nothing: no stream moves, and none is written
    return _with_events(context, seen, found.events, known) if found.events else seen


def _with_events(
    context: PageContext, seen: Observation, events: tuple[StoredEvent, ...], known: StoredContext
) -> Observation:
    """Return an observation with its events, and what they mean for the rules."""
    steps = [
        advance(
            program,
            stream,
            events,
            context.grid,
            context.across.get(program.rule.name),
            declared_s=context.declared_s,
        )
        for program, stream in context.rules
        if context.source.source_id in program.event_sources
    ]
    firings = [firing for step in steps for firing in step.firings]
    return replace(
        seen,
        events=events,
        streams=tuple(stream for step in steps for stream in step.streams),
        intervals=tuple(record for step in steps for record in step.intervals),
        notifications=tuple(_notices(context, firings, events, known)),
        firings=tuple(firing for firing in firings if firing.program.is_joint),
        unfit_values=seen.unfit_values + sum(_unfit_values(context, event.item) for event in events),
        kept_kinds=frozenset(program.rule.trigger.kind for program, _ in context.rules),
    )


def accounted(
    context: PageContext, observation: Observation, model: SourceModel, *, pushed_until_s: float
) -> Observation:
    """Return the observation with what ``model``, as it stood before, predicted of it, and how well it does since.

    Of a source whose hub pushes no account is given: what a probe finds there is what the hub left out.
    """
    before, outcome, evidence = context.state, observation.outcome, observation.evidence
    if before.first_contact_s is None or before.last_success_s is None or not outcome.kind.is_success:
        return observation
    state = observation.state
    if evidence is not None:
        fit = model.judged(before.fit, evidence)
        has_jumped = fit.rate_off_since_s is not None and before.fit.rate_off_since_s is None
        now_per_s = model.rate_per_s * fit.found / max(fit.expected, 1e-9)
        state = replace(state, fit=fit, rate=state.rate.forgotten(now_per_s) if has_jumped else state.rate)
    if outcome.is_push or max(pushed_until_s, before.last_push_s or 0.0) > before.last_success_s:
        return replace(observation, state=state)
    gap = Gap(before.last_success_s, outcome.finished_s, context.shape is Shape.PAGE, before.newest_s is not None)
    rules = [each for each in context.rules if context.source.source_id in each[0].event_sources]
    expected = predicted(model.planned(before.fit), gap, rules, context.grid, declared_s=context.declared_s)
    delays_s = observation.delays_s if gap.is_timed else []
    captured = sum(record.captured for record in observation.intervals)
    account = replace(
        expected,
        probes=1,
        items=len(observation.events),
        timed_items=len(delays_s),
        delay_item_s=sum(delay_s if delay_s > 0 else 0.0 for delay_s in delays_s),
        captured=captured,
        missed=len(observation.intervals) - captured,
    )
    return replace(observation, state=state, account=account)


def _present(outcome: ProbeOutcome) -> tuple[str, ...]:
    return () if outcome.is_push else tuple(item.item_id for item in outcome.items)


def _notices(
    context: PageContext, firings: Sequence[Firing], found: Sequence[StoredEvent], known: StoredContext
) -> Iterator[Notification]:
    """Yield the notifications of firings that their own page decides; history holds what this probe found too."""
    for firing in firings:
        if not firing.program.is_joint:
            history = with_found(known.history, firing, found)
            created_s = firing.events[-1].seen_s
            yield notice(firing, history, url=context.source.url, created_s=created_s, grid=context.grid)


def with_found(history: History, firing: Firing, found: Sequence[StoredEvent]) -> History:
    """Return a rule's history with what the probe on which it fired found, up to the event that fired."""
    program = firing.program
    now = [e.item.fields for e in found if e.kind is EventKind.INSERT and e.seq <= firing.record.seq]
    tables = program.query.tables
    return {
        (rule, position): [*stored, *now] if tables[position].page_class == program.event_class else stored
        for (rule, position), stored in history.items()
        if rule == program.rule.name
    }


def _is_outdated(context: PageContext, outcome: ProbeOutcome) -> bool:
    """Whether a probe read a page before a hub pushed what it is now."""
    pushed_s = context.state.last_push_s
    is_older = pushed_s is not None and not outcome.is_push and outcome.started_s < pushed_s
    return is_older and context.shape is not Shape.FEED and outcome.kind is OutcomeKind.CHANGED


def _found(context: PageContext, outcome: ProbeOutcome, known: StoredContext) -> Discovery:
    seen_s = outcome.finished_s
    if outcome.kind in {OutcomeKind.SAME_BODY, OutcomeKind.NOT_MODIFIED}:
        return unchanged(context.state, seen_s=seen_s)
    items = {} if context.starts_afresh else known.items
    view = DocumentView(context.shape, items, context.has_updates, not outcome.truncated, outcome.is_push)
    return discover(outcome.items, view, context.state, seen_s=seen_s, rate_per_s=lambda: context.rate_per_s(seen_s))


def _unfit_values(context: PageContext, item: Item) -> int:
    """Count the item's values that do not fit the type their class declares: rules read them as null."""
    return sum(
        value is not None and coerce(value, declared.type, path=declared.path.lower()) is None
        for declared in context.page_class.fields
        for value in [item.fields.get(declared.path.lower())]
    )


def expected_per_s(source: Source) -> float | None:
    """Return what the source's author expects (EXPECT), in items per second."""
    if source.expect is None:
        return None
    return float(source.expect.amount) / source.expect.per.in_seconds(chronon_s=1.0)


def _after_probe(context: PageContext, outcome: ProbeOutcome, rng: np.random.Generator) -> StateChanges:
    state = context.state
    previous = BackOff(state.failures, state.not_before_s)
    waited = back_off(previous, outcome, spacing_s=context.spacing_s, rng=rng, counts=not context.is_excused)
    period_s = outcome.period_s if outcome.kind is OutcomeKind.CHANGED else state.period_s
    return {
        "last_start_s": outcome.started_s if outcome.requests else state.last_start_s,
        "last_outcome": outcome.kind.value,
        "last_detail": outcome.detail,
        "failures": waited.failures,
        "not_before_s": waited.not_before_s,
        "fresh_until_s": fresh_until_s(outcome, period_s=period_s, cap_s=context.freshness_cap_s),
        "period_s": period_s,
        "missing": state.missing + 1 if is_missing(outcome) else 0,
    }


def _after_vanishing(state: SourceState, outcome: ProbeOutcome, found: Discovery) -> StateChanges:
    """Remember a page that is not there: it was seen, as nothing, and is read anew if it comes back."""
    return {
        "validators": NO_VALIDATORS,
        "body_hash": None,
        "first_contact_s": outcome.finished_s if state.first_contact_s is None else state.first_contact_s,
        "last_success_s": outcome.finished_s,
        "next_seq": state.next_seq + len(found.events),
        "lost_items": state.lost_items + found.lost_items,
    }


def _after_push(state: SourceState, outcome: ProbeOutcome, found: Discovery, shape: Shape) -> StateChanges:
    """Remember a push: of a feed it says nothing of the document that the next probe compares with."""
    forgotten = {} if shape is Shape.FEED else {"validators": NO_VALIDATORS, "body_hash": None}
    return forgotten | {
        "last_push_s": outcome.finished_s,
        "newest_s": _newest_s(state, found),
        "next_seq": state.next_seq + len(found.events),
    }


def _window(state: SourceState, outcome: ProbeOutcome, found: Discovery) -> StateChanges:
    """Remember how many items a feed shows: some have slid off where it shows as many as before, and new ones.

    Of one that shows fewer items than before some were taken out: nothing is known of its window, nor of an empty one.
    """
    shown, new = len(outcome.items), sum(event.kind is EventKind.INSERT for event in found.events)
    if not shown:
        return {"shown": 0, "slides": False}
    has_slid = 0 < state.shown <= shown < state.shown + new
    return {"shown": shown, "slides": (state.slides and shown >= state.shown) or has_slid or found.lost_items > 0}


def _newest_s(state: SourceState, found: Discovery) -> float | None:
    times = [e.item.published_s for e in found.events if e.item.published_s is not None and e.exact]
    return max([*times, *([] if state.newest_s is None else [state.newest_s])], default=None)


def _after_success(state: SourceState, outcome: ProbeOutcome, found: Discovery, shape: Shape) -> StateChanges:
    changes = after_document(state, outcome, found) | {"last_success_s": outcome.finished_s}
    if outcome.kind is OutcomeKind.NOT_MODIFIED:
        return changes
    changes["validators"] = outcome.validators
    if outcome.kind is OutcomeKind.CHANGED:
        changes |= {
            "body_hash": outcome.body_hash,
            "first_contact_s": outcome.finished_s if state.first_contact_s is None else state.first_contact_s,
            "newest_s": _newest_s(state, found),
            "next_seq": state.next_seq + len(found.events),
            "lost_items": state.lost_items + found.lost_items,
        } | (_window(state, outcome, found) if shape is Shape.FEED else {})
    return changes
