"""The daemon's store, over SQLAlchemy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from sys import intern
from typing import Any, TypeVar

import structlog
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    cast,
    exists,
    func,
    insert,
    literal,
    select,
    text,
    update,
)

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.item import EventKind, Item
from proxyd.core.model.outcome import Picture
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.known.context import HistoryQuery, StoredContext, StoreQuery
from proxyd.core.rules.known.state import JointInterval, Notification, SourceState, StoredEvent
from proxyd.core.rules.known.subscriptions import Subscription
from proxyd.core.rules.programs.stream_state import StreamState
from proxyd.core.rules.stages.observation import Observation, RuleResults
from proxyd.store import rows
from proxyd.store.access_rows import SqlAccess
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import LOCKS, NEWS, StoreConnections, StoreReader
from proxyd.store.databases.shards import OwnShards
from proxyd.store.declared_rows import SqlDeclarations
from proxyd.store.digest_rows import exceeding
from proxyd.store.history import SqlHistory, SqlItemSearch
from proxyd.store.outbox import SqlOutbox
from proxyd.store.plan_rows import SqlPlanRecord, joint_interval, joint_row, record_pictures
from proxyd.store.statements import add_up, delete_named, execute_many, is_one_of, upsert
from proxyd.store.suspension_rows import SqlFailingRules, SqlSuspensions, record_failing
from proxyd.store.webhook_states import held, state_of
from proxyd.store.writer import Writer, take_all

T = TypeVar("T")
log = structlog.get_logger("store")
_CHUNK = 500
_MOST_SHOWN = 1_000  # items that are compared with new ones
_MOST_HISTORY = 10_000  # items that a table of a query reads


_of_item = and_(
    t.items.c.source_id == bindparam("of_source"), t.items.c.item_id == bindparam("of_item"), t.items.c.gone_s.is_(None)
)
_UPSERT_STREAM = upsert(t.streams)
_UPSERT_SUBSCRIPTION, _UPSERT_JOINT = upsert(t.subscriptions), upsert(t.joint_intervals)
_UPSERT_WEEK, _ADD_ACCOUNT = upsert(t.weeks), add_up(t.accounts)
_INSERT_ITEM, _INSERT_CHANGE, _INSERT_INTERVAL = insert(t.items), insert(t.changes), insert(t.intervals)
_INSERT_PROBE, _INSERT_SOURCE_EVENT = insert(t.probes), insert(t.source_events)
_INSERT_NOTIFICATION, _INSERT_OUTBOX = insert(t.notifications), insert(t.outbox)
_MOVE = (
    update(t.sources)
    .where(t.sources.c.source_id == bindparam("of_source"))
    .values({name: bindparam(f"is_{name}") for name in rows.MOVED_COLUMNS})
)
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


class _SqlSubscriptions:
    """Subscriptions to hubs."""

    def __init__(self, writer: Writer, read: StoreReader) -> None:
        self._writer = writer
        self._read = read
        self._waiting: deque[tuple[str, Subscription | None]] = deque()

    async def load(self) -> dict[str, Subscription]:
        """Return every subscription by source."""
        return {row.source_id: rows.subscription(row) for row in await self._read(select(t.subscriptions))}

    async def source_of(self, callback_id: str) -> str | None:
        """Return the source whose subscription has a callback, or ``None`` if none has."""
        c = t.subscriptions.c
        found = await self._read(select(c.source_id).where(c.callback_id == callback_id).limit(1))
        return next((row.source_id for row in found), None)

    async def save(self, source_id: str, subscription: Subscription | None) -> None:
        """Store a source's current subscription, or delete it."""
        self.add(source_id, subscription)
        await self._writer.submit(self.write)

    def add(self, source_id: str, subscription: Subscription | None) -> None:
        """Let the next commit store a source's current subscription, or delete it."""
        self._waiting.append((source_id, subscription))

    def write(self, connection: Connection) -> None:
        """Write each source's newest subscription: those of observations and others must not overtake each other."""
        waiting = dict(take_all(self._waiting))
        kept = [rows.subscription_row(each) for each in waiting.values() if each is not None]
        gone = [source_id for source_id, each in waiting.items() if each is None]
        execute_many(connection, _UPSERT_SUBSCRIPTION, kept)
        delete_named(connection, t.subscriptions, t.subscriptions.c.source_id, gone)


class SqlStore(SqlOutbox):
    """Reads on connections of its own; writes through the group-committing writer, whose task the owner must run."""

    def __init__(self, connections: StoreConnections, grid: ChrononGrid, shards: OwnShards | None = None) -> None:
        self.writer = Writer(connections.writer)

        async def people(query: Select[*tuple[Any, ...]], values: Mapping[str, object] | None = None) -> Sequence[Any]:
            """Return all rows of a query that may be slow: probes and deliveries do not wait for it."""
            return await connections.people.call(lambda connection: connection.execute(query, values).all())

        super().__init__(self.writer, self._all, people, shards)
        self.history = SqlHistory(people)
        self.items = SqlItemSearch(connections.people)
        self.declarations = SqlDeclarations(self.writer, self._all, self.webhooks, grid)
        self.subscriptions = _SqlSubscriptions(self.writer, self._all)
        self.suspensions = SqlSuspensions(self.writer, self._all, is_shared=shards is not None)
        self.failing = SqlFailingRules(self.writer, self._all)
        self.plan = SqlPlanRecord(self.writer, self._all, self._each, self._part)
        self.access = SqlAccess(self.writer, self._all)
        self.upkeep = connections.upkeep
        self.read, self.read_each = self._all, self._each
        self._connections = connections
        self._grid = grid
        self._waiting: deque[Observation | RuleResults] = deque()

    # -- sources and streams

    async def load_states(self) -> dict[str, SourceState]:
        """Return the state of every source."""
        return dict(await self._each(select(t.sources), lambda row: (row.source_id, rows.source_state(row))))

    async def move(self, states: Sequence[SourceState]) -> None:
        """Store at which addresses sources are read, without anything else of their states."""
        moved = [rows.row_of_move(state) for state in states]
        if moved:
            await self.writer.submit(lambda connection: execute_many(connection, _MOVE, moved))

    async def load_changes(self, *, limit: int) -> list[tuple[str, float]]:
        """Return the newest ``limit`` pairs of a source and an item's own time, oldest first."""
        items = t.items.c
        newest = select(items.source_id, items.event_s).where(items.exact).order_by(items.event_s.desc()).limit(limit)
        return [(row.source_id, row.event_s) for row in reversed(await self._all(newest))]

    async def load_weeks(self) -> dict[str, WeekCounts]:
        """Return each source's counts of items by time of week."""
        return dict(await self._each(select(t.weeks), lambda row: (intern(row.source_id), rows.week_counts(row))))

    async def forget_streams(self, rules: Sequence[str]) -> None:
        """Delete the streams of these rules."""
        if rules:
            await self.writer.submit(lambda connection: delete_named(connection, t.streams, t.streams.c.rule, rules))

    async def load_streams(self) -> dict[tuple[str, str], StreamState]:
        """Return every stream by (rule, source), without its pending events."""
        streams = await self._each(select(t.streams), rows.stream_state)
        return {(stream.rule, stream.source_id): stream for stream in streams}

    async def load_events_after(self, source_id: str, seq: int, *, kind: EventKind, limit: int) -> list[StoredEvent]:
        """Return a source's newest ``limit`` events of a kind with numbers after ``seq``, in order."""
        query, event = _events(source_id, kind)
        table = query.get_final_froms()[0]
        newest = query.where(table.c.seq > seq).order_by(table.c.seq.desc()).limit(limit)
        return (await self._each(newest, event))[::-1]

    async def load_events(self, source_id: str, since_s: float, *, kind: EventKind) -> list[StoredEvent]:
        """Return a source's stored events of a kind that are not before ``since_s``, in order."""
        query, event = _events(source_id, kind)
        table = query.get_final_froms()[0]
        return await self._each(query.where(table.c.event_s >= since_s).order_by(table.c.seq), event)

    async def known(self, source_id: str, needed: StoreQuery) -> StoredContext:
        """Return the stored items of a source and the histories that a query needs."""
        history = {(each.rule, each.position): await self._history(each) for each in needed.histories}
        items = await self.known_items(source_id, needed)
        shown = await self._shown_items(source_id) if needed.wants_shown(items) else ()
        return StoredContext(items, history, shown)

    async def _history(self, needed: HistoryQuery) -> list[dict[str, Any]]:
        """Return the fields of the newest insertions that a query's table reads, oldest first."""
        c = t.items.c
        query = select(c.fields).where(is_one_of(c.source_id, needed.source_ids), c.event_s >= needed.since_s)
        newest = query.order_by(c.event_s.desc(), c.seq.desc()).limit(_MOST_HISTORY)
        return (await self._each(newest, lambda row: rows.item_fields(row.fields)))[::-1]

    async def known_items(self, source_id: str, needed: StoreQuery) -> dict[str, Item]:
        """Return the needed stored items of a source by id; their fields are left out unless needed."""
        if needed.item_ids == ():
            return {}
        c = t.items.c
        columns = [c.item_id, c.content_hash, c.published_s, *([c.fields] if needed.fields else [])]
        query = select(*columns).where(c.source_id == source_id, c.gone_s.is_(None)).order_by(c.seq)
        if needed.item_ids is None:
            return {item.item_id: item for item in await self._each(query, rows.item)}
        known: dict[str, Item] = {}
        item_ids = (*needed.item_ids, *needed.former_ids)
        for begin in range(0, len(item_ids), _CHUNK):
            chunk = query.where(c.item_id.in_(item_ids[begin : begin + _CHUNK]))
            known |= {item.item_id: item for item in await self._each(chunk, rows.item)}
        return known

    async def record(self, observation: Observation) -> None:
        """Store everything that one probe changed, in one transaction; returns once it is committed."""
        # Observations that wait for the same commit share its statements
        if observation.subscription is not None:  # first: the stored observation must find it
            self.subscriptions.add(observation.subscription.source_id, observation.subscription)
        self._waiting.append(observation)
        await self.writer.submit(self._record_waiting)

    async def record_results(self, results: RuleResults) -> None:
        """Store the results of rules from events without a probe, in one transaction; returns once it is committed."""
        self._waiting.append(results)  # in turn with observations: both write streams and intervals
        await self.writer.submit(self._record_waiting)

    def _record_waiting(self, connection: Connection) -> None:
        waiting = take_all(self._waiting)
        observations = [each for each in waiting if isinstance(each, Observation)]
        if observations:
            self._record_observations(connection, observations)
        taken = {each.sha256: each for o in observations if (each := o.outcome.picture) is not None}
        results = [each.rules if isinstance(each, Observation) else each for each in waiting]
        self._record_results(connection, results, taken)

    def _record_observations(self, connection: Connection, observations: Sequence[Observation]) -> None:
        self.plan.write(connection, observations)
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
        accounts = [rows.account_row(*each, self._part()) for each in told]
        execute_many(connection, _ADD_ACCOUNT, accounts)
        probes = [rows.probe_row(o, o.probe) for o in observations if o.probe is not None]
        execute_many(connection, _INSERT_PROBE, probes)
        self.subscriptions.write(connection)

    def _record_results(
        self, connection: Connection, results: Sequence[RuleResults], taken: Mapping[str, Picture]
    ) -> None:
        open_on_several = {one.interval_id: joint_row(one) for each in results for one in each.joint}
        ended = [interval_id for each in results for interval_id in each.ended]
        execute_many(connection, _UPSERT_JOINT, list(open_on_several.values()))
        delete_named(connection, t.joint_intervals, t.joint_intervals.c.interval_id, ended)
        streams = [rows.stream_row(stream) for each in results for stream in each.streams]
        intervals = [rows.interval_row(record, self._grid) for each in results for record in each.intervals]
        sent = [notification for each in results for notification in each.notifications]
        failing = [one for each in results for one in each.failing]
        if self._shards is not None and (intervals or sent or failing):
            # Readers go on after the highest position: none may be committed after a higher one.
            connection.execute(select(func.pg_advisory_xact_lock(LOCKS, NEWS)))
        execute_many(connection, _UPSERT_STREAM, streams)
        execute_many(connection, _INSERT_INTERVAL, intervals)
        if failing:
            record_failing(connection, failing)
        if sent := _not_stored(connection, sent):
            self._record_notifications(connection, sent)
            record_pictures(connection, taken, sent)

    def _record_notifications(self, connection: Connection, sent: Sequence[Notification]) -> None:
        unanswered, digests = held(connection), self.declarations.digests
        muted = self.suspensions.mutes_among({one.rule for one in sent}, connection)
        limited = exceeding(connection, sent, self.declarations.limits)
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

    # -- intervals of several sources

    async def load_joint_intervals(self) -> list[JointInterval]:
        """Return the open intervals that span several sources."""
        return await self._each(select(t.joint_intervals), joint_interval)

    async def forget_joint_intervals(self, interval_ids: Sequence[str]) -> None:
        """Delete intervals that are no longer awaited."""
        if interval_ids:
            c = t.joint_intervals.c.interval_id
            await self.writer.submit(lambda connection: delete_named(connection, t.joint_intervals, c, interval_ids))

    async def present_items(self, source_id: str) -> list[Item]:
        """Return the items that a source showed when it was last read."""
        return await self._each(_present(source_id, *t.items.c), rows.item)

    async def _shown_items(self, source_id: str) -> list[Item]:
        """Return the first items that a source showed when it was last read."""
        return await self._each(_present(source_id, *t.items.c).limit(_MOST_SHOWN), rows.item)

    def _part(self) -> int:
        """Return which part of the sources this process has, if it shares them with others."""
        return min(self._shards(), default=0) if self._shards is not None else 0

    async def ping(self) -> None:
        """Prove that the writer commits."""
        await self.writer.submit(lambda connection: connection.execute(text("SELECT 1")))

    async def _all(self, query: Select[*tuple[Any, ...]], values: Mapping[str, object] | None = None) -> Sequence[Any]:
        return await self._connections.readers.call(lambda connection: connection.execute(query, values).all())

    async def _each(self, query: Select[*tuple[Any, ...]], make: Callable[[Any], T]) -> list[T]:
        """Return the value of each row; values are made where the query runs, because rows may be large and many."""
        return await self._connections.readers.call(lambda connection: [make(row) for row in connection.execute(query)])


def _present(source_id: str, *columns: ColumnElement[Any]) -> Select[*tuple[Any, ...]]:
    """Return a query of the items that a source showed when it was last read."""
    c = t.items.c
    newest = select(func.max(c.present_s)).where(c.source_id == source_id).scalar_subquery()
    return select(*columns).where(c.source_id == source_id, c.gone_s.is_(None), c.present_s == newest).order_by(c.seq)


def _events(source_id: str, kind: EventKind) -> tuple[Select[*tuple[Any, ...]], Callable[[Any], StoredEvent]]:
    """Return a query of a source's events of a kind, and the function that makes an event from a row."""
    if kind is EventKind.INSERT:
        return select(t.items).where(t.items.c.source_id == source_id), rows.event_of_item
    table, event = (t.source_events, rows.source_event) if kind.is_of_source else (t.changes, rows.event_of_change)
    return select(table).where(table.c.source_id == source_id, table.c.kind == kind.value), event


def _not_stored(connection: Connection, sent: Sequence[Notification]) -> list[Notification]:
    """Return the notifications whose ids are not stored yet: what is found again after a crash is not told again."""
    by_id = {one.notification_id: one for one in reversed(sent)}
    ids, c = list(by_id), t.notifications.c.notification_id
    for begin in range(0, len(ids), _CHUNK):
        for known in connection.scalars(select(c).where(c.in_(ids[begin : begin + _CHUNK]))):
            del by_id[known]
            log.warning("a notification was recorded before, and is not told again", notification=known)
    return [one for one in sent if by_id.get(one.notification_id) is one]
