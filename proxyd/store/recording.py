"""Writes what observations and rules change: sources, items, streams, intervals, notifications and deliveries."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import structlog
from sqlalchemy import ColumnElement, Connection, and_, bindparam, cast, exists, func, insert, literal, select, update

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.day_parts import quiet_until_s
from proxyd.core.model.item import EventKind
from proxyd.core.model.schedule import Probe
from proxyd.core.rules.known.state import IntervalRecord, Notification, StoredEvent
from proxyd.core.rules.stages.observation import Observation, RuleResults
from proxyd.core.rules.stages.source_state import Calibration
from proxyd.store import rows
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import LOCKS, NEWS
from proxyd.store.digest_rows import RuleTimes, exceeding
from proxyd.store.lanes import mark_due
from proxyd.store.plan_rows import joint_row, record_sources
from proxyd.store.rows import DigestTimes
from proxyd.store.site_rows import record_sites
from proxyd.store.statements import Upsert, delete_named, execute_many
from proxyd.store.suspension_rows import record_failing
from proxyd.store.webhook_states import held, state_of

_CHUNK = 500
log = structlog.get_logger("store")
_NOTIFICATION_FIELDS = (
    *("notification_id", "rule", "source_id", "event_s", "created_s"),
    *("late", "body", "limited_by", "picture"),
)
_UNAWAITED_COLUMNS = (
    *("source_id", "seq", "item_id", "content_hash", "fields"),
    *("published_s", "event_s", "seen_s", "exact"),
)

_of_item = and_(
    t.items.c.source_id == bindparam("of_source"), t.items.c.item_id == bindparam("of_item"), t.items.c.gone_s.is_(None)
)
_UPSERT_STREAM, _UPSERT_JOINT = Upsert(t.streams), Upsert(t.joint_intervals)
_UPSERT_WEEK, _ADD_ACCOUNT = Upsert(t.weeks), Upsert(t.accounts, adds=True)
_INSERT_ITEM, _INSERT_CHANGE, _INSERT_INTERVAL = insert(t.items), insert(t.changes), insert(t.intervals)
_INSERT_PROBE, _INSERT_SOURCE_EVENT = insert(t.probes), insert(t.source_events)
_INSERT_NOTIFICATION, _INSERT_OUTBOX = insert(t.notifications), insert(t.outbox)
_EDIT_ITEM = (
    update(t.items)
    .where(_of_item)
    .values(
        content_hash=bindparam("hash"),
        fields=bindparam("text"),
        words=bindparam("new_words"),
        published_s=func.coalesce(bindparam("new_published_s"), t.items.c.published_s),
    )
)
_recent = t.changes.alias("recent")
_kept_recently = exists().where(
    _recent.c.source_id == bindparam("new_source_id"),
    _recent.c.item_id == bindparam("new_item_id"),
    _recent.c.seen_s > bindparam("recent_s"),
)
_UNAWAITED: dict[str, ColumnElement[Any]] = {
    name: cast(bindparam(f"new_{name}"), t.changes.c[name].type) for name in _UNAWAITED_COLUMNS
}
_INSERT_UNAWAITED = insert(t.changes).from_select(  # with the fields that the item still has
    [*_UNAWAITED, "kind", "old_hash", "old_fields"],
    select(*_UNAWAITED.values(), literal(EventKind.UPDATE.value), t.items.c.content_hash, t.items.c.fields).where(
        t.items.c.source_id == bindparam("new_source_id"),
        t.items.c.item_id == bindparam("new_item_id"),
        t.items.c.gone_s.is_(None),
        ~_kept_recently,
    ),
)
_RENAME_ITEM = update(t.items).where(_of_item).values(item_id=bindparam("new_id"))
_MARK_PRESENT = update(t.items).where(_of_item).values(present_s=bindparam("seen_at_s"))
_MARK_ALL_GONE = (
    update(t.items)
    .where(t.items.c.source_id == bindparam("of_source"), t.items.c.gone_s.is_(None))
    .values(gone_s=bindparam("seen_at_s"))
)
_MARK_GONE = update(t.items).where(_of_item).values(gone_s=bindparam("seen_at_s"))


def record_observations(connection: Connection, observations: Sequence[Observation], part: int) -> None:
    """Write what probes changed; ``part`` is which of the sources this process has."""
    record_sources(connection, observations, part)
    events = [(o.state.source_id, event) for o in observations for event in o.found.events]
    renamed = [
        {"of_source": o.state.source_id, "of_item": old_id, "new_id": new_id}
        for o in observations
        for old_id, new_id in o.found.window.renamed
    ]
    execute_many(connection, _RENAME_ITEM, renamed)
    # what is stored of a source that starts afresh is of an earlier address or reading
    afresh = [_at_end(o) for o in observations if o.found.starts_afresh]
    execute_many(connection, _MARK_ALL_GONE, afresh)
    gone = [
        {"of_source": source_id, "of_item": event.item.item_id, "seen_at_s": event.seen_s}
        for source_id, event in events
        if event.kind is EventKind.DELETE
    ]
    execute_many(connection, _MARK_GONE, gone)
    inserted = [rows.item_row(*each) for each in events if each[1].kind is EventKind.INSERT]
    news = [
        row
        for o in observations
        for event in o.found.events
        if event.kind is EventKind.UPDATE and event.kind in o.found.kept_kinds
        if (row := rows.news_row(o.state.source_id, event)) is not None
    ]
    execute_many(connection, _INSERT_ITEM, inserted + news)
    changed = [
        rows.change_row(o.state.source_id, event)
        for o in observations
        for event in o.found.events
        if event.kind is not EventKind.INSERT and event.kind in o.found.kept_kinds
    ]
    execute_many(connection, _INSERT_CHANGE, changed)
    aside = [_aside_row(o.state.source_id, event) for o in observations for event in o.found.unawaited]
    execute_many(connection, _INSERT_UNAWAITED, aside)
    of_sources = [rows.source_event_row(o.state.source_id, each) for o in observations for each in o.source_events]
    execute_many(connection, _INSERT_SOURCE_EVENT, of_sources)
    execute_many(
        connection, _EDIT_ITEM, [rows.edit_row(o, item) for o in observations for item in o.found.window.edited]
    )
    present = [_at_end(o) | {"of_item": item_id} for o in observations for item_id in o.found.present]
    execute_many(connection, _MARK_PRESENT, present)
    weeks = [rows.week_row(o.state.source_id, o.week) for o in observations if o.week is not None]
    execute_many(connection, _UPSERT_WEEK, weeks)
    told = [(o, o.calibration) for o in observations if o.calibration is not None]
    accounts = [_account_row(*each, part) for each in told]
    execute_many(connection, _ADD_ACCOUNT, accounts)
    record_sites(connection, observations)
    probes = [_probe_row(o, o.probe) for o in observations if o.probe is not None]
    execute_many(connection, _INSERT_PROBE, probes)


def record_results(
    connection: Connection, results: Sequence[RuleResults], grid: ChrononGrid, *, is_shared: bool
) -> None:
    """Write the streams and intervals of rules, and how they failed; ``is_shared`` if several planners write."""
    open_on_several = {one.interval_id: joint_row(one) for each in results for one in each.joint}
    ended = [interval_id for each in results for interval_id in each.ended]
    execute_many(connection, _UPSERT_JOINT, list(open_on_several.values()))
    delete_named(connection, t.joint_intervals, t.joint_intervals.c.interval_id, ended)
    if is_shared and any(each.intervals or each.notifications or each.failing for each in results):
        # Readers go on after the highest position: none may be committed after a higher one
        connection.execute(select(func.pg_advisory_xact_lock(LOCKS, NEWS)))
    execute_many(connection, _UPSERT_STREAM, [rows.stream_row(stream) for each in results for stream in each.streams])
    intervals = [_interval_row(record, grid) for each in results for record in each.intervals]
    execute_many(connection, _INSERT_INTERVAL, intervals)
    if failing := [one for each in results for one in each.failing]:
        record_failing(connection, failing)


def not_stored(connection: Connection, sent: Sequence[Notification]) -> list[Notification]:
    """Return the notifications whose ids are not stored yet: what is found again after a crash is not told again."""
    by_id = {one.notification_id: one for one in reversed(sent)}
    ids, c = list(by_id), t.notifications.c.notification_id
    for begin in range(0, len(ids), _CHUNK):
        for known in connection.scalars(select(c).where(c.in_(ids[begin : begin + _CHUNK]))):
            del by_id[known]
            log.warning("a notification was recorded before, and is not told again", notification=known)
    return [one for one in sent if by_id.get(one.notification_id) is one]


def record_notifications(
    connection: Connection,
    sent: Sequence[Notification],
    muted: Collection[str],
    times: RuleTimes,
) -> None:
    """Write notifications, and a delivery to each of their receivers; one that exceeds a limit is not sent.

    Those of ``muted`` rules wait until these are no longer muted, gathered ones for the end of their period, those of
    quiet hours for their end.
    """
    unanswered, limited = held(connection), exceeding(connection, sent, times.limits)
    made, outbox = list[dict[str, Any]](), list[dict[str, Any]]()
    for one in sent:
        digest, is_muted, is_limited = times.digests.get(one.rule), one.rule in muted, one.notification_id in limited
        end_s = one.created_s if digest is None else digest.end_s(one.created_s)
        quiet_s = quiet_until_s(times.quiet.get(one.rule, ()), end_s)
        row = {name: getattr(one, name) for name in _NOTIFICATION_FIELDS}
        made.append(row | {"muted": is_muted, "limited": is_limited})
        for delivery in _outbox_rows(one, digest, end_s if quiet_s is None else quiet_s):
            if is_limited:
                state = "limited"
            elif is_muted:
                state = "muted"
            elif digest is not None:
                state = "gathering"
            elif quiet_s is not None:
                state = "released"  # at the end each receiver gets one digest
            else:
                state = state_of(delivery, unanswered)
            outbox.append(delivery | {"state": state, "done_s": one.created_s if is_limited else None})
            if state == "pending":
                mark_due(connection, [delivery["lane"]], one.created_s)
    execute_many(connection, _INSERT_NOTIFICATION, made)
    execute_many(connection, _INSERT_OUTBOX, outbox)


def _at_end(observation: Observation) -> dict[str, Any]:
    return {"of_source": observation.state.source_id, "seen_at_s": observation.outcome.finished_s}


def _account_row(observation: Observation, account: Calibration, part: int) -> dict[str, Any]:
    """Return what to add to the row of ``accounts`` for a part of the sources and the day on which the probe ended."""
    row = {name: getattr(account, name) for name in rows.ACCOUNT_FIELDS}
    return row | {"day": int(observation.outcome.finished_s // rows.DAY_S), "part": part}


def _probe_row(observation: Observation, probe: Probe) -> dict[str, Any]:
    outcome, found = observation.outcome, observation.found
    delays_s = found.delays_s
    return {
        "source_id": probe.source_id,
        "started_s": outcome.started_s,
        "finished_s": outcome.finished_s,
        "reason": probe.reason.value,
        "rule": probe.rule,
        "outcome": outcome.kind.value,
        "status": outcome.status,
        "detail": outcome.detail[: rows.MOST_DETAIL],
        "items": sum(event.kind is EventKind.INSERT and not event.seed for event in found.events),
        "updates": found.updates,
        # the mean of the new items whose own time is known
        "delay_s": sum(delays_s) / len(delays_s) if delays_s else None,
        "body_bytes": outcome.body_bytes,
        "requests": outcome.requests,
    }


def _aside_row(source_id: str, stored: StoredEvent) -> dict[str, Any]:
    """Return the parameters that keep an update that no rule awaits, unless one was kept within a day before it."""
    row = rows.change_row(source_id, stored)
    return {f"new_{name}": row[name] for name in _UNAWAITED_COLUMNS} | {"recent_s": stored.seen_s - rows.DAY_S}


def _interval_row(record: IntervalRecord, grid: ChrononGrid) -> dict[str, Any]:
    return {
        "rule": record.rule,
        "source_id": record.source_id,
        "seq": record.seq,
        "start_s": grid.start_s(record.start),
        # the end of the last chronon
        "deadline_s": None if record.deadline is None else grid.start_s(record.deadline + 1),
        "probed_s": grid.start_s(record.probed),
        "captured": record.captured,
        "exact": record.exact,
        "delay_s": record.delay_s,
        "utility": record.utility,
        "seen": record.seen,
    }


def _outbox_rows(sent: Notification, digest: DigestTimes | None, next_s: float) -> list[dict[str, Any]]:
    """Return a row of ``outbox`` for every delivery of a notification, without its state."""
    waits = {
        "next_s": next_s,
        "most_items": None if digest is None else digest.digest.at_most,
        "attempts": 0,
    }
    return [
        {"notification_id": sent.notification_id, "endpoint": each.endpoint, "receiver": each.receiver}
        | {"lane": rows.lane(sent.rule, each.endpoint)}
        | rows.way_of(each)
        | waits
        for each in sent.deliveries
    ]
