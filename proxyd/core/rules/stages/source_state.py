"""The state of a source after an outcome."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from proxyd.core.model.item import EventKind
from proxyd.core.model.outcome import NO_VALIDATORS, OutcomeKind, ProbeOutcome
from proxyd.core.politeness import BackOff, back_off, fresh_until_s
from proxyd.core.rates.rate_blend import RateEvidence
from proxyd.core.rules.source_requests import MOVED_AFTER
from proxyd.core.rules.stages.calibration import Judgement
from proxyd.core.rules.stages.context import Shape, SourceContext
from proxyd.core.rules.stages.events import Discovery, WindowEvents
from proxyd.core.rules.state import SourceState, StateChanges

DISTRUST_S = 30 * 86400.0
_TEMPORARY = frozenset({OutcomeKind.THROTTLED, OutcomeKind.NO_BROWSER})
_SURE_S = 60.0  # an item must be at least so much older than the 304 that denied it


def next_state(context: SourceContext, found: Discovery, judged: Judgement, *, rng: np.random.Generator) -> SourceState:
    """Return the state of a source after an outcome; ``rng`` draws the jitter of the back-off."""
    outcome, window = found.outcome, found.window
    state = context.state if outcome.is_push else after_redirects(context.state, outcome)
    changes = {} if outcome.is_push else _after_probe(context, found, rng)
    if outcome.is_push:
        changes |= _after_push(state, outcome, window, context.shape)
    elif outcome.kind.is_success:
        changes |= _after_success(state, outcome, window, context.shape)
    elif found.is_seen:
        changes |= _after_vanishing(state, outcome, window)
    return replace(state, **changes, rate=_rate(context, window, judged), fit=judged.fit)


def _rate(context: SourceContext, window: WindowEvents, judged: Judgement) -> RateEvidence:
    if window.evidence is None:
        return context.state.rate
    rate = context.blend.seen(context.state.rate, window.evidence, expect_per_s=context.source.expected_per_s)
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


def after_document(state: SourceState, outcome: ProbeOutcome, found: WindowEvents) -> StateChanges:
    """Return the changes to the state: count 304s, and distrust them if a whole document shows what they denied.

    The same validators with other content are proof. New items dated between the last whole document and the last 304
    may have been backdated, so two such documents in a row are required.
    """
    if outcome.kind is OutcomeKind.NOT_MODIFIED:
        return {"not_modified": state.not_modified + 1}
    after: StateChanges = {"full_s": outcome.finished_s, "not_modified": 0}
    if state.not_modified == 0 or outcome.kind is not OutcomeKind.CHANGED:
        return after
    has_same = outcome.validators == state.validators != NO_VALIDATORS
    doubts = state.doubts + 1 if _was_denied(state, found) else 0
    if (found.events and has_same) or doubts >= 2:
        return after | {"doubts": 0, "distrust_until_s": outcome.finished_s + DISTRUST_S}
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
    """Return the numbers of a source after what was found."""
    arrivals = sum(not event.seed and event.kind is not EventKind.DELETE for event in found.events)
    return {
        "next_seq": state.next_seq + found.numbered,
        "unawaited": state.unawaited + len(found.unawaited),
        "arrivals": state.arrivals + arrivals + len(found.unawaited),
    }


def _shown(state: SourceState, outcome: ProbeOutcome, found: WindowEvents) -> StateChanges:
    """Return how many items a feed shows; old ones slid off if it shows as many as before, including new ones.

    If it shows fewer items than before, some were removed, and its window is unknown; so is that of an empty feed.
    """
    shown = len(outcome.items)
    new = sum(event.kind is EventKind.INSERT and not event.seed for event in found.events)
    if not shown:
        return {"shown": 0, "slides": False}
    has_slid = 0 < state.shown <= shown < state.shown + new
    return {"shown": shown, "slides": (state.slides and shown >= state.shown) or has_slid or found.lost_items > 0}


def _newest_s(state: SourceState, found: WindowEvents) -> float | None:
    times = [e.item.published_s for e in found.events if e.item.published_s is not None and e.exact]
    return max([*times, *([] if state.newest_s is None else [state.newest_s])], default=None)


def _after_success(state: SourceState, outcome: ProbeOutcome, found: WindowEvents, shape: Shape) -> StateChanges:
    changes = after_document(state, outcome, found) | {"last_success_s": outcome.finished_s}
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
