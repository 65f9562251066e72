"""The state of a source after an outcome."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil, expm1

import numpy as np

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.item import EventKind
from proxyd.core.model.outcome import NO_VALIDATORS, OutcomeKind, ProbeOutcome
from proxyd.core.politeness.host_budgets import BackOff, back_off, fresh_until_s
from proxyd.core.rates.model_fit import ItemGaps, ModelFit, SourceModel
from proxyd.core.rates.rate_blend import ItemTimes, RateEvidence, leave_out
from proxyd.core.rules.known.compiled import MOVED_AFTER
from proxyd.core.rules.known.context import Shape, SourceContext
from proxyd.core.rules.known.state import IntervalRecord, SourceHealth, SourceState, StateChanges
from proxyd.core.rules.programs.rule_program import RuleProgram
from proxyd.core.rules.programs.stream_state import StreamState
from proxyd.core.rules.stages.events import Discovery, WindowEvents

_DISTRUST_S = 30 * 86400.0
_TEMPORARY = frozenset({OutcomeKind.THROTTLED, OutcomeKind.NO_BROWSER})
_SURE_S = 60.0  # an item must be at least so much older than the 304 that denied it


def next_state(
    context: SourceContext, found: Discovery, judged: Judgement, health: SourceHealth, *, rng: np.random.Generator
) -> SourceState:
    """Return the state of a source after an outcome, with its ``health``; ``rng`` draws the jitter of the back-off."""
    outcome, window = found.outcome, found.window
    state = context.state if outcome.is_push else after_redirects(context.state, outcome)
    changes = {} if outcome.is_push else _after_probe(context, found, rng)
    if outcome.is_push:
        changes |= _after_push(state, outcome, window, context.shape)
    elif outcome.kind.is_success:
        changes |= _after_success(state, outcome, window, context.shape)
    elif found.is_seen:
        changes |= _after_vanishing(state, outcome, window)
    return replace(state, **changes, rate=_rate(context, window, judged), fit=judged.fit, health=health)


def _rate(context: SourceContext, window: WindowEvents, judged: Judgement) -> RateEvidence:
    if window.evidence is None:
        return context.state.rate
    expect_per_s, mass_s = context.source.expected_per_s, window.mass_s
    rate = context.blend.seen(context.state.rate, window.evidence, expect_per_s=expect_per_s, mass_s=mass_s)
    return rate if judged.jumped_to_per_s is None else rate.forgotten(judged.jumped_to_per_s)


def after_redirects(state: SourceState, outcome: ProbeOutcome) -> SourceState:
    """Count how often a permanent redirect led to the same place; return to the declared address if that fails."""
    if not outcome.kind.is_success:
        is_patient = state.failures < MOVED_AFTER - 1
        may_pass = outcome.kind is OutcomeKind.TIMEOUT or outcome.status == 503
        is_temporary = outcome.kind in _TEMPORARY or (may_pass and is_patient)
        return state if is_temporary else replace(state, moved_url=None, moved_times=0)
    if outcome.permanent_url is None:
        is_settled = state.moved_times == 0 or state.moved_times >= MOVED_AFTER
        return state if is_settled else replace(state, moved_url=None, moved_times=0)
    times = state.moved_times + 1 if outcome.permanent_url == state.moved_url else 1
    return replace(state, moved_url=outcome.permanent_url, moved_times=times)


def _after_document(state: SourceState, outcome: ProbeOutcome, found: WindowEvents) -> StateChanges:
    """Return the changes to the state: count 304s, and distrust them if a whole document shows what they denied."""
    if outcome.kind is OutcomeKind.NOT_MODIFIED:
        return {"not_modified": state.not_modified + 1}
    after: StateChanges = {"full_s": outcome.finished_s, "not_modified": 0}
    if state.not_modified == 0 or outcome.kind is not OutcomeKind.CHANGED:
        return after
    # The same validators with other content are proof. New items may have been backdated, so two such documents in a
    # row are required.
    has_same = outcome.validators == state.validators != NO_VALIDATORS
    doubts = state.doubts + 1 if _was_denied(state, found) else 0
    if (found.events and has_same) or doubts >= 2:
        return after | {"doubts": 0, "distrust_until_s": outcome.finished_s + _DISTRUST_S}
    return after | {"doubts": doubts}


def _was_denied(state: SourceState, found: WindowEvents) -> bool:
    if state.full_s is None or state.last_success_s is None:
        return False
    until_s = state.last_success_s - _SURE_S
    times = [event.item.published_s for event in found.events if event.kind is EventKind.INSERT]
    return any(time_s is not None and state.full_s < time_s < until_s for time_s in times)


def _after_probe(context: SourceContext, found: Discovery, rng: np.random.Generator) -> StateChanges:
    state, outcome = context.state, found.outcome
    previous = BackOff(state.failures, state.not_before_s)
    waited = back_off(
        previous,
        outcome,
        spacing_s=context.spacing_s,
        rng=rng,
        counts=not context.is_excused,
        grows=context.source.backoff is not False,
    )
    period_s = outcome.period_s if outcome.kind is OutcomeKind.CHANGED else state.period_s
    return {
        "last_start_s": outcome.started_s if outcome.requests else state.last_start_s,
        "last_outcome": outcome.kind.value,
        "last_detail": outcome.detail,
        "failures": waited.failures,
        "not_before_s": waited.not_before_s,
        "fresh_until_s": fresh_until_s(outcome, period_s=period_s, cap_s=context.freshness_cap_s),
        "period_s": period_s,
        "missing": state.missing + 1 if outcome.is_missing or found.is_doubtful else 0,
    }


def _after_vanishing(state: SourceState, outcome: ProbeOutcome, found: WindowEvents) -> StateChanges:
    """Return the state of a page that is gone: it counts as seen, and is read again if it comes back."""
    return {
        "validators": NO_VALIDATORS,
        "body_hash": None,
        "first_contact_s": outcome.finished_s if state.first_contact_s is None else state.first_contact_s,
        "last_success_s": outcome.finished_s,
        **_counts(state, found),
        "lost_items": state.lost_items + found.lost_items,
    }


def _after_push(state: SourceState, outcome: ProbeOutcome, found: WindowEvents, shape: Shape) -> StateChanges:
    """Return the state after a push; a pushed feed is not the document that the next probe compares with."""
    forgotten = {} if shape is Shape.FEED else {"validators": NO_VALIDATORS, "body_hash": None}
    return forgotten | {
        "last_push_s": outcome.finished_s,
        "newest_s": _newest_s(state, found),
        **_counts(state, found),
    }


def _counts(state: SourceState, found: WindowEvents) -> StateChanges:
    arrivals = sum(not event.seed and event.kind is not EventKind.DELETE for event in found.events)
    return {
        "next_seq": state.next_seq + len(found.events) + len(found.unawaited),
        "unawaited": state.unawaited + len(found.unawaited),
        "arrivals": state.arrivals + arrivals + len(found.unawaited),
    }


def _shown(state: SourceState, outcome: ProbeOutcome, found: WindowEvents) -> StateChanges:
    """Return how many items a feed shows; old ones slid off if it shows as many as before, including new ones."""
    shown = len(outcome.items)
    new = sum(event.kind is EventKind.INSERT and not event.seed for event in found.events)
    if not shown:  # the window of a feed is unknown if some items were removed, or if it is empty
        return {"shown": 0, "slides": False}
    has_slid = 0 < state.shown <= shown < state.shown + new
    return {"shown": shown, "slides": (state.slides and shown >= state.shown) or has_slid or found.lost_items > 0}


def _newest_s(state: SourceState, found: WindowEvents) -> float | None:
    times = [e.item.published_s for e in found.events if e.item.published_s is not None and e.exact]
    return max([*times, *([] if state.newest_s is None else [state.newest_s])], default=None)


def _after_success(state: SourceState, outcome: ProbeOutcome, found: WindowEvents, shape: Shape) -> StateChanges:
    changes = _after_document(state, outcome, found) | {"last_success_s": outcome.finished_s}
    if outcome.kind is OutcomeKind.NOT_MODIFIED:
        return changes
    changes["validators"] = outcome.validators
    if outcome.kind is OutcomeKind.CHANGED:
        changes |= {
            "body_hash": outcome.body_hash,
            "first_contact_s": outcome.finished_s if state.first_contact_s is None else state.first_contact_s,
            "newest_s": _newest_s(state, found),
            **_counts(state, found),
            "lost_items": state.lost_items + found.lost_items,
        } | (_shown(state, outcome, found) if shape is Shape.FEED else {})
    return changes


@dataclass(frozen=True, slots=True)
class Calibration:
    """Sums over some probes of known sources: what was found, and what was predicted for the same gaps.

    >>> day = Calibration(2, items=3, predicted_items=2.5, timed_items=3, delay_item_s=90.0, captured=3, missed=1)
    >>> day.mean_delay_s, day.predicted_mean_delay_s, day.completeness
    (30.0, None, 0.75)
    """

    probes: int = 0
    # ``items``, ``predicted_items``: new items; for a document that is one item, whether it changed
    items: int = 0
    predicted_items: float = 0.0
    # ``timed_items``, ``delay_item_s``, ``predicted_timed_items``, ``predicted_delay_item_s``: items of sources that
    # date their items, and the sum of their waiting times, in item-seconds
    timed_items: int = 0
    predicted_timed_items: float = 0.0
    delay_item_s: float = 0.0
    predicted_delay_item_s: float = 0.0
    # ``captured``, ``missed``, ``predicted_captured``, ``predicted_missed``: execution intervals of a single source
    captured: int = 0
    predicted_captured: float = 0.0
    missed: int = 0
    predicted_missed: float = 0.0

    @property
    def mean_delay_s(self) -> float | None:
        """Mean delay of the items found; ``None`` without any."""
        return _share(self.delay_item_s, self.timed_items)

    @property
    def predicted_mean_delay_s(self) -> float | None:
        """Mean delay of the items predicted."""
        return _share(self.predicted_delay_item_s, self.predicted_timed_items)

    @property
    def completeness(self) -> float | None:
        """Captured over all execution intervals found."""
        return _share(self.captured, self.captured + self.missed)

    @property
    def predicted_completeness(self) -> float | None:
        """Captured over all execution intervals predicted."""
        return _share(self.predicted_captured, self.predicted_captured + self.predicted_missed)


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


@dataclass(frozen=True, slots=True)
class Judgement:
    """How well a source's model predicted an outcome."""

    fit: ModelFit  # how well it has predicted recently
    # the rate since it proved wrong, in items per second, if it did so just now; otherwise ``None``
    jumped_to_per_s: float | None = None
    # what was found compared with what was predicted. ``None`` at first contact, and for a source whose hub pushes,
    # because a probe finds there only what the hub left out.
    calibration: Calibration | None = None


def calibrate(context: SourceContext, found: Discovery, intervals: Sequence[IntervalRecord]) -> Judgement:
    """Return how well the model of a source, before the outcome, predicted what was found."""
    before, model, outcome = context.state, context.model, found.outcome
    if model is None or before.last_success_s is None or before.first_contact_s is None or not outcome.kind.is_success:
        history = found.window.evidence
        if before.last_success_s is None and isinstance(history, ItemTimes):
            return Judgement(replace(before.fit, gaps=ItemGaps.of_times(history.times_s)))
        return Judgement(before.fit)
    fit, jumped_to_per_s = before.fit, None
    evidence, mass_s = found.window.evidence, found.window.mass_s
    if evidence is not None:
        fit = model.judge(before.fit, leave_out(evidence, mass_s) if mass_s and context.blend.is_thin else evidence)
        if fit.rate_off_since_s is not None and before.fit.rate_off_since_s is None:
            jumped_to_per_s = model.rate_per_s * fit.found / max(fit.expected, 1e-9)
    if outcome.is_push or max(context.pushed_until_s, before.last_push_s or 0.0) > before.last_success_s:
        return Judgement(fit, jumped_to_per_s)
    gap = Gap(before.last_success_s, outcome.finished_s, context.shape is Shape.PAGE, before.newest_s is not None)
    expected = predict(
        model.model_to_plan_by(before.fit), gap, context.own_rules, context.grid, declared_s=context.declared_s
    )
    return Judgement(fit, jumped_to_per_s, _with_findings(expected, found, gap, intervals))


def _with_findings(
    expected: Calibration, found: Discovery, gap: Gap, intervals: Sequence[IntervalRecord]
) -> Calibration:
    delays_s = found.delays_s if gap.is_timed else []
    captured = sum(record.captured for record in intervals)
    return replace(
        expected,
        probes=1,
        items=len(found.events),
        timed_items=len(delays_s),
        delay_item_s=sum(delay_s if delay_s > 0 else 0.0 for delay_s in delays_s),
        captured=captured,
        missed=len(intervals) - captured,
    )


@dataclass(frozen=True, slots=True)
class Gap:
    """The time that a probe covers: (``since_s``, ``until_s``] of a source, in unix seconds."""

    since_s: float
    until_s: float
    is_page: bool = False  # it has one item
    is_timed: bool = True  # its items carry their time


def predict(
    model: SourceModel,
    gap: Gap,
    rules: Iterable[tuple[RuleProgram, StreamState]],
    grid: ChrononGrid,
    *,
    declared_s: float = 0.0,
) -> Calibration:
    """Return what a probe at the end of a gap is expected to find.

    Several updates of a one-item source count as one, and items in one chronon share an execution interval. A rule that
    counts fires on its share of the items; a rule with a condition fires on its share so far.

    Examples
    --------
    >>> predict(SourceModel(0.01), Gap(0.0, 100.0), [], ChrononGrid(10.0)).predicted_delay_item_s
    50.0
    """
    items, waits = model.expect(gap.since_s, gap.until_s)
    captured = missed = 0.0
    for program, stream in rules:
        if not program.is_joint and program.is_active(gap.until_s):
            start_s = program.starts_at(declared_s)
            own = gap if start_s <= gap.since_s else replace(gap, since_s=start_s)
            own_items = items if own is gap else model.expect(own.since_s, own.until_s)[0]
            found, lost = _expect_captures(program, stream, model, own, grid.length_s, own_items)
            captured, missed = captured + found, missed + lost
    return Calibration(
        predicted_items=-expm1(-items) if gap.is_page else items,
        predicted_timed_items=items if gap.is_timed else 0.0,
        predicted_delay_item_s=waits if gap.is_timed else 0.0,
        predicted_captured=captured,
        predicted_missed=missed,
    )


def _expect_captures(
    program: RuleProgram, stream: StreamState, model: SourceModel, gap: Gap, chronon_s: float, items: float
) -> tuple[float, float]:
    """Return the captured and the missed intervals that are expected of a rule among the ``items`` of a gap.

    Under *overwrite* the last update is captured. A window is counted in whole chronons, which adds half a chronon on
    average. Items without a time are assumed to lie in the middle of the gap, all in one chronon.
    """
    gap_s, share, any_item = gap.until_s - gap.since_s, _firing_share(program, stream), -expm1(-items)
    life_s = None if program.life_s is None else (ceil(program.life_s / chronon_s) + 0.5) * chronon_s
    if not gap.is_timed:
        in_time = life_s is None or gap_s / 2 <= life_s
        return (share * any_item, 0.0) if in_time else (0.0, share * any_item)
    opened = _chronons_hit(items, gap_s / chronon_s)
    if life_s is None:
        return share * any_item, share * max(0.0, opened - any_item)
    if life_s >= gap_s:
        return share * opened, 0.0
    captured = _chronons_hit(model.expect(gap.until_s - life_s, gap.until_s)[0], life_s / chronon_s)
    return share * captured, share * max(0.0, opened - captured)


def _chronons_hit(items: float, chronons: float) -> float:
    """Return in how many chronons at least one item is expected, if the items were spread evenly."""
    chronons = max(1.0, chronons)
    return -chronons * expm1(-items / chronons)


def _firing_share(program: RuleProgram, stream: StreamState) -> float:
    trigger = program.trigger
    passing = 1.0 if trigger.where is None else (stream.count + 1) / (stream.seen + 1)
    if trigger.condition is None or trigger.firing.every > 1:
        return passing / trigger.firing.every
    return min(1.0, (stream.captured + stream.missed + 1) / (stream.seen + 1))  # an edit may have begun ``seen`` again
