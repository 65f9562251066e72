"""The search for stored items by their words: FTS5 in SQLite, a GIN index in PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, String, cast, column, func, literal_column, select, table

from proxyd.core.errors import BusyError
from proxyd.core.rules.answers.shown_events import texts_of
from proxyd.core.rules.programs.message_program import link_of
from proxyd.queries import FoundItem
from proxyd.store import rows
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import Connections
from proxyd.store.rows import Search, in_postgresql, in_sqlite, search_of

_i = t.items.c
_SIMPLE: ColumnElement[str] = literal_column("'simple'::regconfig")
_words = table("item_words", column("rowid"), column("item_words"))
_MOST_WAIT_S = 5.0  # for the searches before
_COLUMNS = (_i.position, _i.source_id, _i.item_id, _i.fields, _i.event_s, _i.seen_s, _i.exact, _i.gone_s)


class SqlItemSearch:
    """Searches on a connection for people, so a slow search delays neither probes nor deliveries.

    One search runs at a time: the other connections are left to those who want to see a page.
    """

    def __init__(self, people: Connections) -> None:
        self._people = people
        self._turn = asyncio.Lock()

    async def search(self, text: str, *, source_id: str | None, before: int | None, limit: int) -> list[FoundItem]:
        """Return the items that match a text, those seen last first; ``before`` is a position.

        Raises ``BadSearchError`` if the text has no words, or too many, and ``BusyError`` if others search for long.
        """
        search = search_of(text)

        def read(connection: Connection) -> list[FoundItem]:
            is_sqlite = connection.dialect.name == "sqlite"
            query = _by_fts5(search, source_id, before) if is_sqlite else _by_gin(search, source_id, before)
            return [_found(row) for row in connection.execute(query.limit(limit))]

        try:
            async with asyncio.timeout(_MOST_WAIT_S):
                await self._turn.acquire()
        except TimeoutError:
            raise BusyError("other searches take long; try again in a few seconds") from None
        try:
            return await self._people.call(read)
        finally:
            self._turn.release()


def _by_fts5(search: Search, source_id: str | None, before: int | None) -> Select[*tuple[Any, ...]]:
    """Return a query that FTS5 runs from its newest row on."""
    rowid = _words.c.rowid
    query = (
        select(*_COLUMNS)
        .join_from(_words, t.items, _i.position == rowid)
        .where(literal_column("item_words").op("MATCH")(in_sqlite(search, source_id)))
        .order_by(rowid.desc())
    )
    query = query if before is None else query.where(rowid < before)
    return query if source_id is None else query.where(_i.source_id == source_id)


def _by_gin(search: Search, source_id: str | None, before: int | None) -> Select[*tuple[Any, ...]]:
    wanted = func.to_tsquery(_SIMPLE, cast(in_postgresql(search), String))
    query = select(*_COLUMNS).where(func.to_tsvector(_SIMPLE, _i.words).op("@@")(wanted)).order_by(_i.position.desc())
    query = query if before is None else query.where(_i.position < before)
    return query if source_id is None else query.where(_i.source_id == source_id)


def _found(row: Row[Any]) -> FoundItem:
    fields = rows.item_fields(row.fields)
    title, *texts = texts_of(fields)
    return FoundItem(
        position=row.position,
        source_id=row.source_id,
        item_id=row.item_id,
        title=title,
        text=" ".join(texts),
        link=link_of(fields) or None,
        event_s=row.event_s,
        seen_s=row.seen_s,
        is_exact=row.exact,
        is_gone=row.gone_s is not None,
    )
