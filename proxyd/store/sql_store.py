"""The daemon's store, over SQLAlchemy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from sys import intern
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, and_, bindparam, func, select, update

from proxyd.base.doers import current_doer
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.item import EventKind, Item
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.known.context import HistoryQuery, StoredContext, StoreQuery
from proxyd.core.rules.known.state import SourceState, StoredEvent
from proxyd.core.rules.known.subscriptions import Subscription
from proxyd.core.rules.programs.stream_state import StreamState
from proxyd.core.rules.stages.observation import Observation, RuleResults
from proxyd.store import rows
from proxyd.store.api_rows import SqlAccess
from proxyd.store.audit_rows import SqlAudit, note_deed
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import StoreConnections, StoreReader
from proxyd.store.databases.shards import OwnShards
from proxyd.store.declared_rows import SqlDeclarations, SqlRemoved
from proxyd.store.follower_rows import SqlFollowers
from proxyd.store.history import SqlHistory
from proxyd.store.item_rows import SqlItemSearch, SqlReading
from proxyd.store.lanes import write_lanes
from proxyd.store.outbox import SqlOutbox
from proxyd.store.person_rows import SqlPeople
from proxyd.store.plan_rows import SqlPlanRecord, record_pictures
from proxyd.store.recording import not_stored, record_notifications, record_observations, record_results
from proxyd.store.site_rows import SqlSites
from proxyd.store.statements import Upsert, delete_named, execute_many, is_one_of
from proxyd.store.suspension_rows import SqlFailingRules, SqlSuspensions
from proxyd.store.writer import Writer, take_all

_T = TypeVar("_T")
_CHUNK = 500
_MOST_SHOWN = 1_000  # items that are compared with new ones
_MOST_HISTORY = 10_000  # items that a table of a query reads
_UPSERT_SUBSCRIPTION = Upsert(t.subscriptions)
_MOVE = (
    update(t.sources)
    .where(t.sources.c.source_id == bindparam("of_source"))
    .values({name: bindparam(f"is_{name}") for name in rows.MOVED_COLUMNS})
)


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
        waiting = dict(take_all(connection, self._waiting))
        kept = [rows.subscription_row(each) for each in waiting.values() if each is not None]
        gone = [source_id for source_id, each in waiting.items() if each is None]
        execute_many(connection, _UPSERT_SUBSCRIPTION, kept)
        delete_named(connection, t.subscriptions, t.subscriptions.c.source_id, gone)


class SqlStore(SqlOutbox):
    """Reads on connections of its own; writes through the group-committing writer, whose task the owner must run."""

    def __init__(
        self,
        connections: StoreConnections,
        grid: ChrononGrid,
        shards: OwnShards | None = None,
        *,
        shared_s: float = 0.0,
    ) -> None:
        upkeep = connections.upkeep
        self.writer = Writer(connections.writer, upkeep.checkpoint, finish=write_lanes, shared_s=shared_s)

        async def people(query: Select[*tuple[Any, ...]], values: Mapping[str, object] | None = None) -> Sequence[Any]:
            """Return all rows of a query that may be slow: probes and deliveries do not wait for it."""
            return await connections.people.call(lambda connection: connection.execute(query, values).all())

        super().__init__(self.writer, self.read, people)
        self._shards = shards
        self.history = SqlHistory(people)
        self.sites = SqlSites(people)
        self.items = SqlItemSearch(connections.people)
        self.reading = SqlReading(self.writer, connections.people)
        self.declarations = SqlDeclarations(self.writer, self.read, self.webhooks, grid)
        self.removed = SqlRemoved(self.writer, self.read)
        self.subscriptions = _SqlSubscriptions(self.writer, self.read)
        self.suspensions = SqlSuspensions(self.writer, self.read, is_shared=shards is not None)
        self.failing = SqlFailingRules(self.writer, self.read)
        self.plan = SqlPlanRecord(self.writer, self.read, self.read_each, self._part)
        self.access = SqlAccess(self.writer, self.read)
        self.people = SqlPeople(self.writer, self.read)
        self.followers = SqlFollowers(self.writer, self.read)
        self.audit = SqlAudit(self.writer, people)
        self.upkeep = upkeep
        self.session_waits_s = connections.waits_s
        self._connections = connections
        self._grid = grid
        self._waiting: deque[Observation | RuleResults] = deque()

    @property
    def can_record(self) -> bool:
        """Whether it takes in outcomes now; otherwise they wait for a lock, or for space on the disk."""
        return not self.writer.waits_for

    # -- sources and streams

    async def load_states(self) -> dict[str, SourceState]:
        """Return the state of every source."""
        return dict(await self.read_each(select(t.sources), lambda row: (row.source_id, rows.source_state(row))))

    async def move(self, states: Sequence[SourceState]) -> None:
        """Store at which addresses sources are read, without anything else of their states."""
        moved = [rows.row_of_move(state) for state in states]
        if moved:
            await self.writer.submit(lambda connection: execute_many(connection, _MOVE, moved))

    async def accept_move(self, state: SourceState, now_s: float) -> None:
        """Store that somebody has a source read at another address."""
        doer, moved = current_doer(), [rows.row_of_move(state)]

        def write(connection: Connection) -> None:
            execute_many(connection, _MOVE, moved)
            note_deed(connection, doer, now_s, "accept move", f"source {state.source_id}")

        await self.writer.submit(write)

    async def load_changes(self, *, limit: int) -> list[tuple[str, float]]:
        """Return the newest ``limit`` pairs of a source and an item's own time, oldest first."""
        items = t.items.c
        newest = select(items.source_id, items.event_s).where(items.exact).order_by(items.event_s.desc()).limit(limit)
        return [(row.source_id, row.event_s) for row in reversed(await self.read(newest))]

    async def load_weeks(self) -> dict[str, WeekCounts]:
        """Return each source's counts of items by time of week."""
        return dict(await self.read_each(select(t.weeks), lambda row: (intern(row.source_id), rows.week_counts(row))))

    async def forget_streams(self, rules: Sequence[str]) -> None:
        """Delete the streams of these rules."""
        if rules:
            await self.writer.submit(lambda connection: delete_named(connection, t.streams, t.streams.c.rule, rules))

    async def load_streams(self) -> dict[tuple[str, str], StreamState]:
        """Return every stream by (rule, source), without its pending events."""
        streams = await self.read_each(select(t.streams), rows.stream_state)
        return {(stream.rule, stream.source_id): stream for stream in streams}

    async def load_events_after(self, source_id: str, seq: int, *, kind: EventKind, limit: int) -> list[StoredEvent]:
        """Return a source's newest ``limit`` events of a kind with numbers after ``seq``, in order."""
        query, event = _events(source_id, kind)
        table = query.get_final_froms()[0]
        newest = query.where(table.c.seq > seq).order_by(table.c.seq.desc()).limit(limit)
        return (await self.read_each(newest, event))[::-1]

    async def load_events(self, source_id: str, since_s: float, *, kind: EventKind) -> list[StoredEvent]:
        """Return a source's stored events of a kind that are not before ``since_s``, in order."""
        query, event = _events(source_id, kind)
        table = query.get_final_froms()[0]
        return await self.read_each(query.where(table.c.event_s >= since_s).order_by(table.c.seq), event)

    async def known(self, source_id: str, needed: StoreQuery) -> StoredContext:
        """Return the stored items of a source and the histories that a query needs."""
        history = {(each.rule, each.position): await self._history(each) for each in needed.histories}
        items = await self.known_items(source_id, needed)
        shown = await self.present_items(source_id, most=_MOST_SHOWN) if needed.wants_shown(items) else ()
        return StoredContext(items, history, shown)

    async def _history(self, needed: HistoryQuery) -> list[dict[str, Any]]:
        """Return the fields of the newest insertions that a query's table reads, oldest first."""
        c = t.items.c
        query = select(c.fields).where(is_one_of(c.source_id, needed.source_ids), c.event_s >= needed.since_s, t.came)
        newest = query.order_by(c.event_s.desc(), c.seq.desc()).limit(_MOST_HISTORY)
        return (await self.read_each(newest, lambda row: rows.item_fields(row.fields)))[::-1]

    async def known_items(self, source_id: str, needed: StoreQuery) -> dict[str, Item]:
        """Return the needed stored items of a source by id; their fields are left out unless needed."""
        if needed.item_ids == ():
            return {}
        c = t.items.c
        columns = [c.item_id, c.content_hash, c.published_s, *([c.fields] if needed.fields else [])]
        query = select(*columns).where(c.source_id == source_id, c.gone_s.is_(None)).order_by(c.seq)
        if needed.item_ids is None:
            return {item.item_id: item for item in await self.read_each(query, rows.item)}
        known: dict[str, Item] = {}
        item_ids = (*needed.item_ids, *needed.former_ids)
        for begin in range(0, len(item_ids), _CHUNK):
            chunk = query.where(c.item_id.in_(item_ids[begin : begin + _CHUNK]))
            known |= {item.item_id: item for item in await self.read_each(chunk, rows.item)}
        return known

    async def record(self, observation: Observation) -> None:
        """Store everything that one probe changed, in one transaction; returns once it is committed."""
        # Observations that wait for the same commit share its statements
        if observation.subscription is not None:  # first: the stored observation must find it
            self.subscriptions.add(observation.subscription.source_id, observation.subscription)
        self._waiting.append(observation)
        await self.writer.submit(self._record_waiting, may_wait=observation.is_quiet)

    async def record_results(self, results: RuleResults) -> None:
        """Store the results of rules from events without a probe, in one transaction; returns once it is committed."""
        self._waiting.append(results)  # in turn with observations: both write streams and intervals
        await self.writer.submit(self._record_waiting)

    def _record_waiting(self, connection: Connection) -> None:
        waiting = take_all(connection, self._waiting)
        observations = [each for each in waiting if isinstance(each, Observation)]
        if observations:
            record_observations(connection, observations, self._part())
            self.subscriptions.write(connection)
        results = [each.rules if isinstance(each, Observation) else each for each in waiting]
        record_results(connection, results, self._grid, is_shared=self._shards is not None)
        if sent := not_stored(connection, [one for each in results for one in each.notifications]):
            muted = self.suspensions.mutes_among({one.rule for one in sent}, connection)
            record_notifications(connection, sent, muted, self.declarations.times)
            taken = {each.sha256: each for o in observations if (each := o.outcome.picture) is not None}
            record_pictures(connection, taken, sent)

    async def present_items(self, source_id: str, *, most: int | None = None) -> list[Item]:
        """Return the items that a source showed when it was last read, ``most`` at most."""
        c = t.items.c
        of_source = and_(c.source_id == source_id, c.gone_s.is_(None))
        newest = select(func.max(c.present_s)).where(c.source_id == source_id).scalar_subquery()
        query = select(t.items).where(of_source, c.present_s == newest).order_by(c.seq)
        return await self.read_each(query.limit(most), rows.item)

    def _part(self) -> int:
        """Return which part of the sources this process has, if it shares them with others."""
        return min(self._shards(), default=0) if self._shards is not None else 0

    async def read(self, query: Select[*tuple[Any, ...]], values: Mapping[str, object] | None = None) -> Sequence[Any]:
        """Return all rows of a query."""
        return await self._connections.readers.call(lambda connection: connection.execute(query, values).all())

    async def read_each(self, query: Select[*tuple[Any, ...]], make: Callable[[Any], _T]) -> list[_T]:
        """Return the value of each row; values are made where the query runs, because rows may be large and many."""
        return await self._connections.readers.call(lambda connection: [make(row) for row in connection.execute(query)])


def _events(source_id: str, kind: EventKind) -> tuple[Select[*tuple[Any, ...]], Callable[[Any], StoredEvent]]:
    """Return a query of a source's events of a kind, and the function that makes an event from a row."""
    if kind is EventKind.INSERT:
        return select(t.items).where(t.items.c.source_id == source_id, t.came), rows.event_of_item
    table, event = (t.source_events, rows.source_event) if kind.is_of_source else (t.changes, rows.event_of_change)
    return select(table).where(table.c.source_id == source_id, table.c.kind == kind.value), event
