"""Writes what observations and rules change: sources, items, streams, intervals, notifications and deliveries."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import structlog
from sqlalchemy import ColumnElement, Connection, and_, bindparam, cast, exists, func, insert, literal, select, update

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.item import EventKind
from proxyd.core.rules.known.state import Notification
from proxyd.core.rules.stages.observation import Observation, RuleResults
from proxyd.store import rows
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import LOCKS, NEWS
from proxyd.store.digest_rows import LimitTimes, exceeding
from proxyd.store.plan_rows import joint_row, record_sources
from proxyd.store.rows import DigestTimes
from proxyd.store.statements import add_up, delete_named, execute_many, upsert
from proxyd.store.suspension_rows import record_failing
from proxyd.store.webhook_states import held, state_of

_CHUNK = 500
log = structlog.get_logger("store")

_of_item = and_(
    t.items.c.source_id == bindparam("of_source"), t.items.c.item_id == bindparam("of_item"), t.items.c.gone_s.is_(None)
)
_UPSERT_STREAM, _UPSERT_JOINT = upsert(t.streams), upsert(t.joint_intervals)
_UPSERT_WEEK, _ADD_ACCOUNT = upsert(t.weeks), add_up(t.accounts)
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
    name: cast(bindparam(f"new_{name}"), t.changes.c[name].type) for name in rows.UNAWAITED_COLUMNS
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
    renamed = [rows.row_of_new_identity(o, *names) for o in observations for names in o.found.window.renamed]
    execute_many(connection, _RENAME_ITEM, renamed)
    afresh = [rows.afresh_row(o) for o in observations if o.found.starts_afresh]
    execute_many(connection, _MARK_ALL_GONE, afresh)
    gone = [rows.gone_row(*each) for each in events if each[1].kind is EventKind.DELETE]
    execute_many(connection, _MARK_GONE, gone)
    inserted = [rows.item_row(*each) for each in events if each[1].kind is EventKind.INSERT]
    execute_many(connection, _INSERT_ITEM, inserted)
    changed = [
        rows.change_row(o.state.source_id, event)
        for o in observations
        for event in o.found.events
        if event.kind is not EventKind.INSERT and event.kind in o.found.kept_kinds
    ]
    execute_many(connection, _INSERT_CHANGE, changed)
    aside = [
        rows.row_of_unawaited_update(o.state.source_id, event) for o in observations for event in o.found.unawaited
    ]
    execute_many(connection, _INSERT_UNAWAITED, aside)
    of_sources = [rows.source_event_row(o.state.source_id, each) for o in observations for each in o.source_events]
    execute_many(connection, _INSERT_SOURCE_EVENT, of_sources)
    execute_many(
        connection, _EDIT_ITEM, [rows.edit_row(o, item) for o in observations for item in o.found.window.edited]
    )
    present = [rows.present_row(o, item_id) for o in observations for item_id in o.found.present]
    execute_many(connection, _MARK_PRESENT, present)
    weeks = [rows.week_row(o.state.source_id, o.week) for o in observations if o.week is not None]
    execute_many(connection, _UPSERT_WEEK, weeks)
    told = [(o, o.calibration) for o in observations if o.calibration is not None]
    accounts = [rows.account_row(*each, part) for each in told]
    execute_many(connection, _ADD_ACCOUNT, accounts)
    probes = [rows.probe_row(o, o.probe) for o in observations if o.probe is not None]
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
    intervals = [rows.interval_row(record, grid) for each in results for record in each.intervals]
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
    digests: Mapping[str, DigestTimes],
    limits: Mapping[str, LimitTimes],
) -> None:
    """Write notifications, and a delivery to each of their receivers; those of ``muted`` rules are kept back."""
    unanswered, limited = held(connection), exceeding(connection, sent, limits)
    marks = [{"is_muted": one.rule in muted, "is_limited": one.notification_id in limited} for one in sent]
    made = [rows.notification_row(one, **mark) for one, mark in zip(sent, marks, strict=True)]
    execute_many(connection, _INSERT_NOTIFICATION, made)

    def may_go(row: Mapping[str, Any]) -> str:
        return state_of(row, unanswered)

    outbox = [
        row
        for one, mark in zip(sent, marks, strict=True)
        for row in rows.outbox_rows(one, digests.get(one.rule), may_go, **mark)
    ]
    execute_many(connection, _INSERT_OUTBOX, outbox)
