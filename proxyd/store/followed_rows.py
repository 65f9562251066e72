"""Rows of a PostgreSQL table that another process follows: each look reads only those written since the last one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Generic, TypeVar

from sqlalchemy import BigInteger, ColumnElement, Row, Select, Table, Text, cast, func, literal_column, select, tuple_

from proxyd.core.planning.queue.planned_source import SourceRecord
from proxyd.core.rates.week_counts import WeekCounts
from proxyd.core.rules.known.state import SourceState
from proxyd.core.rules.programs.stream_state import StreamState
from proxyd.store import rows
from proxyd.store.databases import tables as t
from proxyd.store.declared_rows import StoredText, in_order
from proxyd.store.plan_rows import ReadEach

_T = TypeVar("_T")
_V = TypeVar("_V")
_PAGE = 500  # rows that are read at once, which takes some milliseconds
_NUMBERS = 2**32  # of transactions, before they begin again
_SERVER = select(
    cast(func.pg_postmaster_start_time(), Text), func.txid_snapshot_xmin(func.txid_current_snapshot())
)  # when it was started, and the oldest transaction that has not ended
_WRITER = cast(cast(literal_column("xmin"), Text), BigInteger)


class FollowedRows(Generic[_V]):
    """What is kept of each row of a table, by its primary key; of a key with several columns, by their tuple.

    PostgreSQL marks each row with the number of the transaction that wrote it. A look reads the rows of transactions
    that had not ended at the last one. Numbers have 32 bits: a row that was written very long ago may be read again.
    Deleted rows are noticed by their number. Another server, which may lack the last transactions, is read from anew.
    ``changes`` grows with each look that finds something else, ``server`` says when the server was started that was
    read. While a transaction is open for long in any database of the server, what was written since is read again.
    """

    def __init__(self, table: Table, keep: Callable[[Row[Any]], _V]) -> None:
        self.values: dict[Any, _V] = {}
        self._table = table
        self._keep = keep
        self._key: list[ColumnElement[Any]] = [*table.primary_key]
        self.server = ""
        self.changes = 0
        self._since = 0

    async def catch_up(self, read_each: ReadEach, note: Callable[[Row[Any]], object] = lambda _row: None) -> None:
        """Read what has changed, in parts; ``note`` is called with each row that was written."""

        def kept(row: Row[Any]) -> tuple[Any, _V]:
            note(row)
            return self._key_of(row), self._keep(row)

        ((server, oldest),) = await read_each(_SERVER, lambda row: (str(row[0]), int(row[1])))
        written = select(self._table)
        if server == self.server:
            written = written.where(is_since(_WRITER, self._since))
        else:
            self.values, self.changes = {}, self.changes + 1
        async for page in self._pages(read_each, written, kept):
            self.values.update(page)
            self.changes += 1
        (count,) = await read_each(select(func.count()).select_from(self._table), lambda row: int(row[0]))
        if count != len(self.values):
            pages = self._pages(read_each, select(*self._key), lambda row: (self._key_of(row), None))
            there = {key async for page in pages for key, _ in page}
            self.values = {key: value for key, value in self.values.items() if key in there}
            self.changes += 1
        self.server, self._since = server, oldest

    async def _pages(
        self, read_each: ReadEach, query: Select[*tuple[Any, ...]], make: Callable[[Row[Any]], tuple[Any, _T]]
    ) -> AsyncIterator[list[tuple[Any, _T]]]:
        """Yield the rows of a query in the order of their keys, some at a time."""
        ordered = query.order_by(*self._key).limit(_PAGE)
        page = await read_each(ordered, make)
        while page:
            yield page
            last = page[-1][0] if len(self._key) > 1 else (page[-1][0],)
            page = [] if len(page) < _PAGE else await read_each(ordered.where(tuple_(*self._key) > tuple_(*last)), make)

    def _key_of(self, row: Row[Any]) -> Any:
        key = tuple(getattr(row, column.name) for column in self._table.primary_key)
        return key if len(key) > 1 else key[0]


def is_since(writer: ColumnElement[int], oldest: int) -> ColumnElement[bool]:
    """Return the condition that a transaction, by its number of 32 bits, is this one or was begun after it."""
    return (writer - oldest % _NUMBERS + _NUMBERS) % _NUMBERS < _NUMBERS // 2


@dataclass(frozen=True, slots=True)
class RememberedSources:
    """What the store remembers of each source: its state, how the planner stood with it, its streams and its week."""

    states: Mapping[str, SourceState]
    records: Mapping[str, SourceRecord]
    streams: Mapping[tuple[str, str], StreamState]
    weeks: Mapping[str, WeekCounts]


@dataclass(frozen=True, slots=True)
class StoredDeclaration:
    """The texts of a declaration, when its rules were accepted and since when its sources are declared (unix seconds).

    It was read while another process may have changed it, so something may be missing.
    """

    texts: Sequence[StoredText]
    accepted: Mapping[str, float]
    declared: Mapping[str, float]


class FollowedFleet:
    """What the database holds of the sources and the declaration, by whatever planner; of tables only what is new.

    It keeps of each source only how its planner stood with it, as it is stored.
    """

    def __init__(self, read_each: ReadEach) -> None:
        self._read_each = read_each
        self._sources = FollowedRows(t.sources, rows.kept_record)
        self._streams = FollowedRows(t.streams, lambda _row: None)
        self._weeks = FollowedRows(t.weeks, lambda _row: None)
        self._texts = FollowedRows(t.texts, lambda row: (row.position, StoredText(row.name, row.origin, row.text)))
        self._rules = FollowedRows(t.rules, lambda row: float(row.accepted_s))
        self._declared = FollowedRows(t.declared, lambda row: float(row.declared_s))

    async def catch_up(self, is_wanted: Callable[[str], bool]) -> RememberedSources:
        """Read what has changed of the sources, in parts, and return that of those that are wanted.

        The records are left out: ``records`` returns those.
        """
        states: dict[str, SourceState] = {}
        streams: dict[tuple[str, str], StreamState] = {}
        weeks: dict[str, WeekCounts] = {}

        def note_source(row: Row[Any]) -> None:
            if is_wanted(row.source_id):
                states[row.source_id] = rows.source_state(row)

        def note_stream(row: Row[Any]) -> None:
            if is_wanted(row.source_id):
                streams[row.rule, row.source_id] = rows.stream_state(row)

        def note_week(row: Row[Any]) -> None:
            if is_wanted(row.source_id):
                weeks[row.source_id] = rows.week_counts(row)

        await asyncio.gather(
            self._sources.catch_up(self._read_each, note_source),
            self._streams.catch_up(self._read_each, note_stream),
            self._weeks.catch_up(self._read_each, note_week),
        )
        return RememberedSources(states, {}, streams, weeks)

    def records(self, sources: Iterable[str]) -> dict[str, SourceRecord]:
        """Return how the planners stood with some sources at the last look."""
        kept = ((source_id, self._sources.values.get(source_id)) for source_id in sources)
        found = ((source_id, rows.source_record(each)) for source_id, each in kept if each is not None)
        return {source_id: record for source_id, record in found if record is not None}

    async def sources(self) -> RememberedSources:
        """Return what is stored of all sources, for a start."""
        found = await self.catch_up(lambda _source: True)
        return replace(found, records=self.records(found.states))

    async def changes(self) -> int:
        """Read what has changed of the declaration, in parts; return a number that grows whenever something has."""
        for each in (self._texts, self._rules, self._declared):
            await each.catch_up(self._read_each)
        return self._texts.changes + self._rules.changes + self._declared.changes

    def declaration(self) -> StoredDeclaration | None:
        """Return what ``changes`` found, or ``None`` if nothing was ever declared; many texts take long."""
        if not self._texts.values:
            return None
        texts = [text for _, text in sorted(self._texts.values.values(), key=itemgetter(0))]
        return StoredDeclaration(in_order(texts), dict(self._rules.values), dict(self._declared.values))
