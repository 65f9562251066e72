"""What a source's answers say about its origin: where it moved, whether its 304s are true, whether it is there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace

from proxyd.core.model.item import EventKind
from proxyd.core.model.outcome import NO_VALIDATORS, OutcomeKind, ProbeOutcome, ProbeRequest, Validators
from proxyd.core.model.profile import Declaration, PageClass, Source
from proxyd.core.rules.stages.events import Discovery
from proxyd.core.rules.state import SourceState, StateChanges

MOVED_AFTER = 3  # probes in a row that a permanent redirect must lead to the same place
MISSING_AFTER = 2  # probes in a row that a page must not be found; "gone" (410) counts at once
EXPECTED_CHANGES = 5.0  # a quiet time in which so many were expected asks for the whole document
MOST_NOT_MODIFIED = 50  # 304s in a row after which it is asked for anyway
FEWEST_NOT_MODIFIED = 3
DISTRUST_S = 30 * 86400.0
_SURE_S = 60.0  # by how much an item must be older than the 304 that denied it
MISSING = frozenset({404, 410})


def reading_of(source: Source, page_class: PageClass) -> str:
    """Return what identifies an address and how it is read: of another reading nothing learned of items holds.

    Feeds are read whole, whatever fields their class declares.
    """
    how = () if page_class.is_feed else (page_class.fields, page_class.each, page_class.key)
    return hashlib.sha256(repr((source.url, how)).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def probe_request(source: Source, declaration: Declaration) -> ProbeRequest:
    """Return the request of a source of which nothing is known yet; pages obey robots.txt unless told otherwise."""
    page_class = declaration.page_class(source)
    obeys_robots = not page_class.is_feed if source.robots is None else source.robots
    return ProbeRequest(
        source.source_id,
        source.url,
        page_class=page_class,
        reading=reading_of(source, page_class),
        headers=source.headers,
        auth=source.auth,
        obeys_robots=obeys_robots,
    )


def moved_url(state: SourceState, source: Source) -> str | None:
    """Return where to ask instead of the declared address, ``None`` where it did not move for good.

    What a profile adds to requests (HEADER, AUTH) is meant for the declared address: it is asked first for ever.
    """
    has_secrets = bool(source.headers or source.auth)
    return state.moved_url if state.moved_times >= MOVED_AFTER and not has_secrets else None


def validators(state: SourceState, *, now_s: float, rate_per_s: Callable[[], float]) -> Validators:
    """Return what to ask with: nothing where a 304 would not be believed.

    Some servers answer 304 whatever they are asked. So the whole document is fetched now and then: after a quiet time
    in which the source's own rate expects several changes, or after many 304s. It is a small share of the probes: a
    source that is quiet for long has a low rate, and a changed one is sent whole anyway.
    """
    if now_s < state.distrust_until_s:
        return NO_VALIDATORS
    quiet_s = 0.0 if state.full_s is None else now_s - state.full_s
    is_odd = state.not_modified >= FEWEST_NOT_MODIFIED and rate_per_s() * quiet_s >= EXPECTED_CHANGES
    return NO_VALIDATORS if is_odd or state.not_modified >= MOST_NOT_MODIFIED else state.validators


def after_redirects(state: SourceState, outcome: ProbeOutcome) -> SourceState:
    """Count how often a permanent redirect led to the same place; believe the declared address again if that fails."""
    if not outcome.kind.is_success:
        is_patient = state.failures < MOVED_AFTER - 1
        is_temporary = outcome.kind is OutcomeKind.THROTTLED or (outcome.kind is OutcomeKind.TIMEOUT and is_patient)
        return state if is_temporary else replace(state, moved_url=None, moved_times=0)
    if outcome.permanent_url is None:
        is_settled = state.moved_times == 0 or state.moved_times >= MOVED_AFTER
        return state if is_settled else replace(state, moved_url=None, moved_times=0)
    times = state.moved_times + 1 if outcome.permanent_url == state.moved_url else 1
    return replace(state, moved_url=outcome.permanent_url, moved_times=times)


def after_document(state: SourceState, outcome: ProbeOutcome, found: Discovery) -> StateChanges:
    """Count 304s, and doubt them where a whole document shows what they denied; return what changes.

    The same validators on other content are proof. New items dated between the last whole document and the last 304
    may have been backdated: it takes two such documents in a row.
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


def _was_denied(state: SourceState, found: Discovery) -> bool:
    if state.full_s is None or state.last_success_s is None:
        return False
    until_s = state.last_success_s - _SURE_S
    times = [event.item.published_s for event in found.events if event.kind is EventKind.INSERT]
    return any(time_s is not None and state.full_s < time_s < until_s for time_s in times)


def is_missing(outcome: ProbeOutcome) -> bool:
    """Return whether the origin says that there is no such page."""
    return outcome.status in MISSING


def has_vanished(outcome: ProbeOutcome, missing: int) -> bool:
    """Return whether a page is gone, not found ``missing`` times in a row: one 404 may be a mistake of the origin."""
    return outcome.kind is OutcomeKind.GONE or (is_missing(outcome) and missing >= MISSING_AFTER)
