"""The daemon's store, over SQLAlchemy."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    select,
    text,
    update,
)

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.item import EventKind, Item
from proxyd.core.model.profile import NotificationRule
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.observation import Observation, RuleResults
from proxyd.core.rules.stages.joint_intervals import JointInterval
from proxyd.core.rules.stages.stored import HistoryQuery, StoredContext, StoreQuery
from proxyd.core.rules.state import Notification, SourceState, StoredEvent, StreamState
from proxyd.core.rules.subscriptions import Subscription
from proxyd.store import rows
from proxyd.store import tables as t
from proxyd.store.access_rows import SqlAccess
from proxyd.store.databases.connections import StoreConnections
from proxyd.store.history import SqlHistory
from proxyd.store.outbox import SqlOutbox, forget_changed_endpoints
from proxyd.store.rows import DigestTimes
from proxyd.store.statements import add_up, delete_named, execute_many, upsert
from proxyd.store.webhook_states import Key, held, state_of
from proxyd.store.writer import Writer, drained

_CHUNK = 500
_MOST_DELETED = 5_000  # in one commit
_LONGEST_WAIT_S = 2 * 86400.0  # the longest step of the ladder of retries is a day and its jitter
KEPT_PROBES_S = 7 * 86400.0  # at one probe a second these are 600,000 rows
MOST_PROBES = 2_000_000
MOST_HISTORY = 10_000  # items that a table of a query reads


_of_item = and_(
    t.items.c.source_id == bindparam("of_source"),
    t.items.c.item_id == bindparam("of_item"),
    t.items.c.gone_s.is_(None),
)
_UPSERT_SOURCE, _UPSERT_STREAM = upsert(t.sources), upsert(t.streams)
_UPSERT_SUBSCRIPTION, _UPSERT_JOINT = upsert(t.subscriptions), upsert(t.joint_intervals)
_UPSERT_WEEK, _ADD_ACCOUNT = upsert(t.weeks), add_up(t.accounts)
_INSERT_ITEM, _INSERT_CHANGE, _INSERT_INTERVAL = insert(t.items), insert(t.changes), insert(t.intervals)
_INSERT_PROBE = insert(t.probes)
_INSERT_NOTIFICATION, _INSERT_OUTBOX = insert(t.notifications), insert(t.outbox)
_EDIT_ITEM = update(t.items).where(_of_item).values(content_hash=bindparam("hash"), fields=bindparam("text"))
_MARK_PRESENT = update(t.items).where(_of_item).values(present_s=bindparam("seen_at_s"))
_MARK_ALL_GONE = (
    update(t.items)
    .where(t.items.c.source_id == bindparam("of_source"), t.items.c.gone_s.is_(None))
    .values(gone_s=bindparam("seen_at_s"))
)
_MARK_GONE = update(t.items).where(_of_item).values(gone_s=bindparam("seen_at_s"))


@dataclass(frozen=True, slots=True)
class StoredText:
    """A text of the declaration: a file, or a text sent over the API."""

    name: str
    origin: str
    text: str


class SqlStore(SqlOutbox):
    """Reads on connections of its own; writes through the group-committing writer, whose task the owner must run."""

    def __init__(self, connections: StoreConnections, grid: ChrononGrid) -> None:
        self.writer = Writer(connections.writer)

        async def people(query: Select[*tuple[Any, ...]]) -> Sequence[Any]:
            """Return all rows of a query that may be slow: probes and deliveries do not wait for it."""
            return await connections.people.call(lambda connection: connection.execute(query).all())

        super().__init__(self.writer, self._all, people)
        self.history = SqlHistory(people)
        self.access = SqlAccess(self.writer, self._all)
        self.upkeep = connections.upkeep
        self._connections = connections
        self._grid = grid
        self._waiting: deque[Observation] = deque()
        self._subscriptions: deque[tuple[str, Subscription | None]] = deque()
        self._digests: dict[str, DigestTimes] = {}

    # -- the declaration

    async def load_texts(self) -> list[StoredText]:
        """Return the texts of the last good declaration, in order."""
        found = await self._all(select(t.texts).order_by(t.texts.c.position))
        return [StoredText(row.name, row.origin, row.text) for row in found]

    async def accept(
        self, texts: Sequence[StoredText], rules: Iterable[NotificationRule], now_s: float
    ) -> dict[str, float]:
        """Replace the declaration and return when each rule was first accepted (its NOW).

        A changed or removed rule loses its streams; a changed one starts again at ``now_s``.
        """
        rules = list(rules)
        wanted = {rule.name: rule.fingerprint for rule in rules}
        length_s = self._grid.length_s
        self._digests = {
            rule.name: DigestTimes(rule.digest.every.in_seconds(chronon_s=length_s), rule.digest.at_most)
            for rule in rules
            if rule.digest is not None
        }

        def write(connection: Connection) -> dict[str, float]:
            stored = {row.name: row for row in connection.execute(select(t.rules))}
            stale = [name for name, row in stored.items() if wanted.get(name) != row.fingerprint]
            fresh = [name for name in wanted if name not in stored or name in stale]
            delete_named(connection, t.rules, t.rules.c.name, stale)
            delete_named(connection, t.streams, t.streams.c.rule, [*stale, *fresh])
            execute_many(
                connection,
                insert(t.rules),
                [{"name": name, "fingerprint": wanted[name], "accepted_s": now_s} for name in fresh],
            )
            forget_changed_endpoints(connection, rules)
            self.webhooks.declare(connection, rules, now_s)
            connection.execute(delete(t.texts))
            execute_many(
                connection,
                insert(t.texts),
                [{"name": x.name, "origin": x.origin, "position": n, "text": x.text} for n, x in enumerate(texts)],
            )
            _forget_future(connection, now_s)
            return {row.name: row.accepted_s for row in connection.execute(select(t.rules))}

        return await self.writer.submit(write)

    async def declare_sources(self, names: Iterable[str], now_s: float) -> dict[str, float]:
        """Return when each of these sources was first declared, and forget all others."""
        wanted = set(names)

        def write(connection: Connection) -> dict[str, float]:
            stored = {row.source_id: row.declared_s for row in connection.execute(select(t.declared))}
            gone = [name for name in stored if name not in wanted]
            delete_named(connection, t.declared, t.declared.c.source_id, gone)
            new = [{"source_id": name, "declared_s": now_s} for name in sorted(wanted - stored.keys())]
            execute_many(connection, insert(t.declared), new)
            return {name: min(stored.get(name, now_s), now_s) for name in wanted}

        return await self.writer.submit(write)

    # -- sources and streams

    async def load_states(self) -> dict[str, SourceState]:
        """Return the state of every source."""
        return {row.source_id: rows.source_state(row) for row in await self._all(select(t.sources))}

    async def load_changes(self, *, limit: int) -> list[tuple[str, float]]:
        """Return the newest ``limit`` pairs of a source and an item's own time, oldest first."""
        items = t.items.c
        newest = select(items.source_id, items.event_s).where(items.exact).order_by(items.event_s.desc()).limit(limit)
        return [(row.source_id, row.event_s) for row in reversed(await self._all(newest))]

    async def load_weeks(self) -> dict[str, WeekCounts]:
        """Return each source's counts of items by time of week."""
        return {row.source_id: rows.week_counts(row) for row in await self._all(select(t.weeks))}

    async def forget_streams(self, rules: Sequence[str]) -> None:
        """Delete the streams of these rules."""
        if rules:
            await self.writer.submit(lambda connection: delete_named(connection, t.streams, t.streams.c.rule, rules))

    async def load_streams(self) -> dict[tuple[str, str], StreamState]:
        """Return every stream by (rule, source), without its pending events."""
        return {(row.rule, row.source_id): rows.stream_state(row) for row in await self._all(select(t.streams))}

    async def load_events_after(self, source_id: str, seq: int, *, kind: EventKind, limit: int) -> list[StoredEvent]:
        """Return a source's newest ``limit`` events of a kind with numbers after ``seq``, in order."""
        query, event = _events(source_id, kind)
        table = query.get_final_froms()[0]
        newest = await self._all(query.where(table.c.seq > seq).order_by(table.c.seq.desc()).limit(limit))
        return [event(row) for row in reversed(newest)]

    async def load_events(self, source_id: str, since_s: float, *, kind: EventKind) -> list[StoredEvent]:
        """Return a source's stored events of a kind that are not before ``since_s``, in order."""
        query, event = _events(source_id, kind)
        table = query.get_final_froms()[0]
        found = await self._all(query.where(table.c.event_s >= since_s).order_by(table.c.seq))
        return [event(row) for row in found]

    async def known(self, source_id: str, needed: StoreQuery) -> StoredContext:
        """Return the stored items of a source and the histories that a query needs."""
        history = {(each.rule, each.position): await self._history(each) for each in needed.histories}
        return StoredContext(await self.known_items(source_id, needed), history)

    async def _history(self, needed: HistoryQuery) -> list[dict[str, Any]]:
        """Return the fields of the newest insertions that a query's table reads, oldest first."""
        c = t.items.c
        query = select(c.fields).where(c.source_id.in_(needed.source_ids), c.event_s >= needed.since_s)
        newest = await self._all(query.order_by(c.event_s.desc(), c.seq.desc()).limit(MOST_HISTORY))
        return [json.loads(row.fields) for row in reversed(newest)]

    async def known_items(self, source_id: str, needed: StoreQuery) -> dict[str, Item]:
        """Return the needed stored items of a source by id; their fields are left out unless needed."""
        if needed.item_ids == ():
            return {}
        c = t.items.c
        columns = [c.item_id, c.content_hash, c.published_s, *([c.fields] if needed.fields else [])]
        query = select(*columns).where(c.source_id == source_id, c.gone_s.is_(None)).order_by(c.seq)
        if needed.item_ids is None:
            return {row.item_id: rows.item(row) for row in await self._all(query)}
        known: dict[str, Item] = {}
        for begin in range(0, len(needed.item_ids), _CHUNK):
            chunk = query.where(c.item_id.in_(needed.item_ids[begin : begin + _CHUNK]))
            known |= {row.item_id: rows.item(row) for row in await self._all(chunk)}
        return known

    async def record(self, observation: Observation) -> None:
        """Store everything that one probe changed, in one transaction; returns once it is committed.

        Observations that wait for the same commit share its statements.
        """
        if observation.subscription is not None:  # first: the stored observation must find it
            self._subscriptions.append((observation.subscription.source_id, observation.subscription))
        self._waiting.append(observation)
        await self.writer.submit(self._record_waiting)

    async def record_results(self, results: RuleResults) -> None:
        """Store the results of rules from events without a probe, in one transaction; returns once it is committed."""
        await self.writer.submit(lambda connection: self._record_results(connection, [results]))

    def _record_waiting(self, connection: Connection) -> None:
        observations = drained(self._waiting)
        if not observations:
            return
        execute_many(connection, _UPSERT_SOURCE, [rows.source_row(o.state) for o in observations])
        events = [(o.state.source_id, event) for o in observations for event in o.found.events]
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
        execute_many(
            connection, _EDIT_ITEM, [rows.edit_row(o, item) for o in observations for item in o.found.window.edited]
        )
        present = [rows.present_row(o, item_id) for o in observations for item_id in o.found.present]
        execute_many(connection, _MARK_PRESENT, present)
        weeks = [rows.week_row(o.state.source_id, o.week) for o in observations if o.week is not None]
        execute_many(connection, _UPSERT_WEEK, weeks)
        accounts = [rows.account_row(o, o.calibration) for o in observations if o.calibration is not None]
        execute_many(connection, _ADD_ACCOUNT, accounts)
        probes = [rows.probe_row(o, o.probe) for o in observations if o.probe is not None]
        execute_many(connection, _INSERT_PROBE, probes)
        self._write_subscriptions(connection)
        self._record_results(connection, [o.rules for o in observations])

    def _record_results(self, connection: Connection, results: Sequence[RuleResults]) -> None:
        open_on_several = {one.interval_id: rows.joint_row(one) for each in results for one in each.joint}
        ended = [interval_id for each in results for interval_id in each.ended]
        execute_many(connection, _UPSERT_JOINT, list(open_on_several.values()))
        delete_named(connection, t.joint_intervals, t.joint_intervals.c.interval_id, ended)
        streams = [rows.stream_row(stream) for each in results for stream in each.streams]
        intervals = [rows.interval_row(record, self._grid) for each in results for record in each.intervals]
        sent = [notification for each in results for notification in each.notifications]
        execute_many(connection, _UPSERT_STREAM, streams)
        execute_many(connection, _INSERT_INTERVAL, intervals)
        execute_many(connection, _INSERT_NOTIFICATION, [rows.notification_row(one) for one in sent])
        if sent:
            unanswered = held(connection)
            outbox = [row for one in sent for row in self._outbox_rows(one, unanswered)]
            execute_many(connection, _INSERT_OUTBOX, outbox)

    def _outbox_rows(self, sent: Notification, unanswered: Collection[Key]) -> list[dict[str, Any]]:
        return rows.outbox_rows(sent, self._digests.get(sent.rule), lambda row: state_of(row, unanswered))

    # -- intervals of several pages

    async def load_joint_intervals(self) -> list[JointInterval]:
        """Return the open intervals that span several pages."""
        return [rows.joint_interval(row) for row in await self._all(select(t.joint_intervals))]

    async def forget_joint_intervals(self, interval_ids: Sequence[str]) -> None:
        """Delete intervals that are no longer awaited."""
        if interval_ids:
            c = t.joint_intervals.c.interval_id
            await self.writer.submit(lambda connection: delete_named(connection, t.joint_intervals, c, interval_ids))

    async def present_items(self, source_id: str) -> list[Item]:
        """Return the items that a source showed when it was last read."""
        c = t.items.c
        newest = select(func.max(c.present_s)).where(c.source_id == source_id).scalar_subquery()
        query = select(t.items).where(c.source_id == source_id, c.gone_s.is_(None), c.present_s == newest)
        return [rows.item(row) for row in await self._all(query.order_by(c.seq))]

    # -- subscriptions

    async def load_subscriptions(self) -> dict[str, Subscription]:
        """Return every subscription by source."""
        return {row.source_id: rows.subscription(row) for row in await self._all(select(t.subscriptions))}

    async def save_subscription(self, source_id: str, subscription: Subscription | None) -> None:
        """Store a source's current subscription, or delete it."""
        self._subscriptions.append((source_id, subscription))
        await self.writer.submit(self._write_subscriptions)

    def _write_subscriptions(self, connection: Connection) -> None:
        """Write each source's newest subscription: those of observations and others must not overtake each other."""
        waiting = dict(drained(self._subscriptions))
        kept = [rows.subscription_row(each) for each in waiting.values() if each is not None]
        gone = [source_id for source_id, each in waiting.items() if each is None]
        execute_many(connection, _UPSERT_SUBSCRIPTION, kept)
        delete_named(connection, t.subscriptions, t.subscriptions.c.source_id, gone)

    async def ping(self) -> None:
        """Prove that the writer commits."""
        await self.writer.submit(lambda connection: connection.execute(text("SELECT 1")))

    async def _all(self, query: Select[*tuple[Any, ...]]) -> Sequence[Any]:
        return await self._connections.readers.call(lambda connection: connection.execute(query).all())


def _forget_future(connection: Connection, now_s: float) -> None:
    """Bring times that lie too far in the future back to now: the clock was set back."""
    o, rules = t.outbox.c, t.rules.c
    connection.execute(update(t.rules).where(rules.accepted_s > now_s).values(accepted_s=now_s))
    waiting = o.state.in_(("pending", "held"))
    connection.execute(update(t.outbox).where(waiting, o.next_s > now_s + _LONGEST_WAIT_S).values(next_s=now_s))
    connection.execute(update(t.outbox).where(waiting, o.first_attempt_s > now_s).values(first_attempt_s=now_s))


def _events(source_id: str, kind: EventKind) -> tuple[Select[*tuple[Any, ...]], Callable[[Any], StoredEvent]]:
    """Return a query of a source's events of a kind, and the function that makes an event from a row."""
    if kind is EventKind.INSERT:
        return select(t.items).where(t.items.c.source_id == source_id), rows.inserted
    return select(t.changes).where(t.changes.c.source_id == source_id, t.changes.c.kind == kind.value), rows.changed
