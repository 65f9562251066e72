"""The stored items as people read them: searched for, listed newest first, marked as read, and starred."""

from __future__ import annotations

import asyncio
import operator
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from enum import Enum
from functools import partial
from heapq import merge
from itertools import islice, takewhile
from math import inf
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    String,
    and_,
    case,
    cast,
    column,
    exists,
    false,
    func,
    literal_column,
    select,
    table,
    true,
    update,
)

from proxyd.core.errors import BusyError
from proxyd.core.model.item import Value
from proxyd.core.rules.answers.shown_events import difference_in_a_line, summary_of, texts_of
from proxyd.core.rules.programs.message_program import link_of
from proxyd.store import rows
from proxyd.store.api_rows import ME
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import Connections
from proxyd.store.listed_rows import FoundItem
from proxyd.store.retention import delete_in_parts
from proxyd.store.rows import Search, in_postgresql, in_sqlite, search_of
from proxyd.store.statements import Upsert, execute_many, is_one_of
from proxyd.store.writer import Writer

SHOWN_SEEDS = 20
"""Of the items that a source had at the first contact, the newest so many are unread; the others are read."""
MOST_COUNTED = 1_000
"""Unread items that are counted; of more it is said that there are more."""
MOST_TOTAL = 100_000
"""Items of all kinds that are counted."""
_i, _m, _u = t.items.c, t.marks.c, t.read_up_to.c
_FEW_SOURCES = 60  # whose items are read one source after the other; of more, among those of all sources
_MOST_SCANNED = 5_000  # items that one answer looks at
_CHUNK, _FIRST_CHUNK = 500, 64
_SLACK_S = 3600.0  # by which items may be stored later than others that were seen after them
_EVERY = ""  # in ``read_up_to``, in place of the name of a source
_UPSERT_MARK, _UPSERT_UP_TO, _UPSERT_ARTICLE = Upsert(t.marks), Upsert(t.read_up_to), Upsert(t.articles)
_a = (t.articles.c.html, t.articles.c.failure, t.articles.c.fetched_s)


class View(Enum):
    """Which items are listed."""

    UNREAD = "unread"
    TODAY = "today"
    ALL = "all"
    STARRED = "starred"


@dataclass(frozen=True, slots=True)
class Shelf:
    """The items that a person wants to see: those of some sources, or of all if ``sources`` is ``None``.

    Those of ``TODAY`` came at or after ``since_s``.
    """

    view: View = View.UNREAD
    sources: AbstractSet[str] | None = None
    since_s: float = 0.0
    person: str = ME


@dataclass(frozen=True, slots=True)
class _ShelfPage:
    """Items, newest first, and the position before which the list goes on, or ``None`` at its end.

    A page may have fewer items than asked for although the list goes on, because it looks at a limited number.
    """

    items: list[FoundItem]
    rest: int | None


@dataclass(frozen=True, slots=True)
class PlaceFilter:
    """What else is asked of items; ``None`` asks nothing. Times are when they were seen, in unix seconds."""

    read: bool | None = None
    starred: bool | None = None
    since_s: float | None = None
    until_s: float | None = None
    oldest_first: bool = False

    def takes(self, row: Row[Any]) -> bool:
        """Return whether an item is asked for."""
        return (
            self.read in {None, row.is_read}
            and self.starred in {None, row.is_starred}
            and (self.since_s is None or row.seen_s >= self.since_s)
            and (self.until_s is None or row.seen_s <= self.until_s)
        )

    def may_follow(self, row: Row[Any]) -> bool:
        """Return whether items that are asked for may follow one."""
        return self.oldest_first or self.since_s is None or row.seen_s >= self.since_s - _SLACK_S


@dataclass(frozen=True, slots=True)
class MarkedPlace:
    """Where an item is, and when it was seen, in unix seconds."""

    position: int
    seen_s: float


@dataclass(frozen=True, slots=True)
class _Places:
    """Places in the order that was asked for, and the position after which the list goes on, or ``None`` at its end."""

    places: list[MarkedPlace]
    rest: int | None


@dataclass(frozen=True, slots=True)
class UnreadCounts:
    """How many items are unread and when the newest was seen, in unix seconds, by source.

    ``is_more`` if there may be others that were not counted.
    """

    by_source: Mapping[str, int]
    newest_s: Mapping[str, float]
    is_more: bool

    @property
    def total(self) -> int:
        """The number of all that were counted."""
        return sum(self.by_source.values())


@dataclass(frozen=True, slots=True)
class FullText:
    """What the page of an item holds, as HTML of strangers, or why it could not be read; unix seconds."""

    html: str
    failure: str
    fetched_s: float


@dataclass(frozen=True, slots=True)
class StoredArticle:
    """An item with all its fields, and the text of its page if that was fetched."""

    item: FoundItem
    fields: Mapping[str, Value]
    full: FullText | None = None


class SqlReading:
    """Lists and marks; reads on a connection for people, so no list delays probes or deliveries."""

    def __init__(self, writer: Writer, people: Connections) -> None:
        self._writer = writer
        self._people = people

    async def find(self, shelf: Shelf, *, before: int | None, limit: int) -> _ShelfPage:
        """Return a page of a shelf, from before a position on."""

        def read(connection: Connection) -> _ShelfPage:
            scan = _Scan(connection, shelf, before)
            found = list(islice(scan.rows(), limit + 1))
            is_full = len(found) > limit
            kept = [row.position for row in found[:limit]]
            rest = kept[-1] if is_full else scan.broken_off_at
            return _ShelfPage(_read_items(connection, kept, shelf.person), rest)

        return await self._people.call(read)

    async def places(self, shelf: Shelf, wanted: PlaceFilter, *, start: int | None, limit: int) -> _Places:
        """Return where the items of a shelf are, after a position; it may be fewer than asked for, as of ``find``."""

        def read(connection: Connection) -> _Places:
            scan = _Scan(connection, shelf, start, upwards=wanted.oldest_first)
            near = takewhile(wanted.may_follow, scan.rows())
            found = [MarkedPlace(row.position, row.seen_s) for row in islice(filter(wanted.takes, near), limit + 1)]
            return _Places(found[:limit], found[limit - 1].position if len(found) > limit else scan.broken_off_at)

        return await self._people.call(read)

    async def newer(self, shelf: Shelf, position: int) -> int | None:
        """Return the position of the next newer item on a shelf, or ``None`` if there is none near."""

        def read(connection: Connection) -> int | None:
            scan = _Scan(connection, shelf, position, upwards=True)
            return next((row.position for row in scan.rows()), None)

        return await self._people.call(read)

    async def count(self, shelf: Shelf) -> UnreadCounts:
        """Return how many items of a shelf's sources are unread."""

        def read(connection: Connection) -> UnreadCounts:
            scan = _Scan(connection, replace(shelf, view=View.UNREAD), None)
            found, newest_s = Counter[str](), dict[str, float]()
            for row in islice(scan.rows(), MOST_COUNTED):
                found[row.source_id] += 1
                newest_s.setdefault(row.source_id, row.seen_s)  # they come with the newest first
            return UnreadCounts(found, newest_s, scan.broken_off_at is not None or found.total() >= MOST_COUNTED)

        return await self._people.call(read)

    async def total(self, sources: AbstractSet[str] | None) -> int:
        """Return how many items some sources have, or all; at most ``MOST_TOTAL``."""

        def read(connection: Connection) -> int:
            some = [true()] if sources is None else [_i.source_id.in_(each) for each in _chunks(sorted(sources))]
            found = 0
            for of in some:
                part = select(_i.position).where(of).limit(MOST_TOTAL - found).subquery()
                found += connection.scalar(select(func.count()).select_from(part)) or 0
            return found

        return await self._people.call(read)

    async def article(self, position: int, person: str = ME) -> StoredArticle | None:
        """Return an item with its fields, or ``None`` if there is none at that position."""
        return next(iter(await self.articles([position], person)), None)

    async def articles(
        self, positions: Sequence[int], person: str = ME, sources: Collection[str] | None = None
    ) -> list[StoredArticle]:
        """Return the items at some positions, at most a few hundred, with their fields, newest first.

        Those of some ``sources`` or, if it is ``None``, of all.
        """

        def read(connection: Connection) -> list[StoredArticle]:
            found = _read_items(connection, positions, person, sources)
            known = [each.position for each in found]
            stored = connection.execute(select(_i.position, _i.fields).where(_i.position.in_(known)))
            texts = {row.position: row.fields for row in stored}
            fetched = select(t.articles.c.position, *_a).where(t.articles.c.position.in_(known))
            full = {row.position: FullText(*row[1:]) for row in connection.execute(fetched)}
            return [
                StoredArticle(each, rows.item_fields(texts[each.position] or "{}"), full.get(each.position))
                for each in found
            ]

        return await self._people.call(read)

    async def keep_full(self, position: int, full: FullText) -> None:
        """Store what the page of an item holds, unless the item was deleted meanwhile."""

        def write(connection: Connection) -> None:
            item = select(_i.position).where(_i.position == position).with_for_update(read=True, key_share=True)
            if connection.scalar(item) is not None:
                execute_many(connection, _UPSERT_ARTICLE, [{"position": position, **asdict(full)}])

        await self._writer.submit(write)

    async def mark(
        self,
        positions: Sequence[int],
        *,
        now_s: float,
        read: bool | None = None,
        starred: bool | None = None,
        person: str = ME,
    ) -> int:
        """Mark items as read or unread, starred or not; ``None`` leaves it as it is. Return how many there are."""

        def write(connection: Connection) -> int:
            # locked, so that retention deletes none of them meanwhile
            items = select(_i.position, _i.source_id).where(_i.position.in_(positions))
            known = connection.execute(items.with_for_update(read=True, key_share=True)).all()
            old = {
                row.position: row
                for row in connection.execute(
                    select(t.marks).where(_m.person == person, _m.position.in_([row.position for row in known]))
                )
            }
            new = [_mark_row(row, old.get(row.position), read, starred, now_s) | {"person": person} for row in known]
            execute_many(connection, _UPSERT_MARK, new)
            return len(known)

        return await self._writer.submit(write)

    async def mark_up_to(self, position: int, sources: Iterable[str] | None = None, person: str = ME) -> None:
        """Mark all items up to a position as read, those of some sources or of all."""
        if sources is None:
            await self._writer.submit(lambda on: _raise_up_to(on, [_EVERY], position, person))
            covered = and_(_u.person == person, _u.source_id != _EVERY, _u.position <= position)
            await delete_in_parts(self._writer, t.read_up_to, covered)
            await self._forget_read(_m.person == person, position)
            return
        for some in _chunks(sorted(sources)):
            await self._writer.submit(partial(_raise_up_to, names=some, position=position, person=person))
            await self._forget_read(and_(_m.person == person, _m.source_id.in_(some)), position)

    async def forget(self, person: str) -> None:
        """Delete all that a person has marked."""
        await delete_in_parts(self._writer, t.marks, _m.person == person)
        await delete_in_parts(self._writer, t.read_up_to, _u.person == person)

    async def _forget_read(self, of: ColumnElement[bool], position: int) -> None:
        """Forget what marks up to a position say of reading; a star stays."""
        said = and_(of, _m.position <= position)
        await delete_in_parts(self._writer, t.marks, and_(said, _m.starred_s.is_(None)))
        starred = select(_m.position).where(said, _m.is_read.is_not(None)).limit(_CHUNK)
        forget = update(t.marks).where(of, _m.position.in_(starred)).values(is_read=None)
        while await self._writer.submit(lambda on: on.execute(forget).rowcount):
            pass


def _chunks(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for begin in range(0, len(names), _CHUNK):
        yield names[begin : begin + _CHUNK]


def _mark_row(item: Any, old: Any, read: bool | None, starred: bool | None, now_s: float) -> dict[str, Any]:
    """Return the row of ``marks`` of an item whose row was ``old``, if it had one, without the person."""
    is_read, starred_s = (None, None) if old is None else (old.is_read, old.starred_s)
    if read is not None:
        is_read = read
    if starred is not None:
        starred_s = (now_s if starred_s is None else starred_s) if starred else None
    return {"position": item.position, "source_id": item.source_id, "is_read": is_read, "starred_s": starred_s}


def _raise_up_to(connection: Connection, names: Sequence[str], position: int, person: str) -> None:
    """Move up to where a person has read some sources, never down."""
    stored = select(_u.source_id, _u.position).where(_u.person == person, _u.source_id.in_(names))
    old = {row.source_id: row.position for row in connection.execute(stored)}
    raised = [name for name in names if old.get(name, -1) < position]
    new = [{"person": person, "source_id": name, "position": position} for name in raised]
    execute_many(connection, _UPSERT_UP_TO, new)


# -- lists


def _items_and_marks(person: str, *, only_marked: bool = False) -> Select[*tuple[Any, ...]]:
    """Return a query of the places of items, and of whether a person has read and starred them."""
    # databases walk an index of marks only if no outer join leads to it
    is_theirs = and_(_m.position == _i.position, _m.person == person)
    marked = t.marks.join(t.items, is_theirs) if only_marked else t.items.outerjoin(t.marks, is_theirs)
    later = t.items.alias("later")
    is_old = exists().where(later.c.source_id == _i.source_id, later.c.seq == _i.seq + SHOWN_SEEDS, later.c.seed)
    read = case(
        (_m.is_read.is_not(None), _m.is_read),
        (_i.position <= func.coalesce(_u.position, -1), true()),
        (_i.position <= _floor(person), true()),
        (and_(_i.seed, is_old), true()),
        else_=false(),
    )
    columns = (_i.position, _i.source_id, _i.seq, _i.event_s, _i.seen_s)
    return select(*columns, read.label("is_read"), _m.starred_s.is_not(None).label("is_starred")).select_from(
        marked.outerjoin(t.read_up_to, and_(_u.person == person, _u.source_id == _i.source_id))
    )


def _floor(person: str) -> ColumnElement[int]:
    """Return the position up to which a person has read all sources; -1 if there is none."""
    up_to = t.read_up_to.alias("up_to")
    of = select(func.max(up_to.c.position)).where(up_to.c.person == person, up_to.c.source_id == _EVERY)
    return func.coalesce(of.scalar_subquery(), -1)


class _Scan:
    """One look at the items of a shelf, newest first, or from a position upwards; it ends after ``_MOST_SCANNED``."""

    def __init__(self, connection: Connection, shelf: Shelf, start: int | None, *, upwards: bool = False) -> None:
        self.broken_off_at: int | None = None  # where it ended before the shelf did
        self._connection = connection
        self._shelf = shelf
        self._start = start
        self._upwards = upwards
        self._items = _items_and_marks(shelf.person)
        self._marks = _items_and_marks(shelf.person, only_marked=True).where(_m.person == shelf.person)

    def rows(self) -> Iterator[Row[Any]]:
        """Yield the rows of the items."""
        last = None
        for number, row in enumerate(self._candidates(), start=1):
            if row.position != last and self._is_on_shelf(row):
                yield row
            last = row.position
            if number >= _MOST_SCANNED:
                self.broken_off_at = last
                return

    def _is_on_shelf(self, row: Row[Any]) -> bool:
        view, sources = self._shelf.view, self._shelf.sources
        if sources is not None and row.source_id not in sources:
            return False
        if view is View.UNREAD:
            return not row.is_read
        return view is not View.TODAY or row.event_s >= self._shelf.since_s

    def _candidates(self) -> Iterator[Row[Any]]:
        """Yield rows in order among which all of the shelf are; some may come twice in a row."""
        view, sources = self._shelf.view, self._shelf.sources
        if view is View.STARRED:
            return self._in_order(self._marks.where(_m.starred_s.is_not(None)), _m.position)
        if sources is not None and len(sources) <= _FEW_SOURCES:
            floors = self._floors(sorted(sources))
            of_each = ((self._items.where(_i.source_id == name), floor) for name, floor in floors.items())
            streams = [self._until(self._in_order(query, _i.seq), floor) for query, floor in of_each]
        else:
            streams = [self._until(self._in_order(self._items, _i.position), self._floors([_EVERY])[_EVERY])]
        if view is View.UNREAD:  # those that were read, and are marked as unread, may be below the floor
            streams.append(self._in_order(self._marks.where(_m.is_read.is_(False)), _m.position))
        return merge(*streams, key=lambda row: row.position, reverse=not self._upwards)

    def _floors(self, names: Sequence[str]) -> dict[str, int]:
        """Return the position of each source below which nothing is unread; of other views there is none."""
        if self._shelf.view is not View.UNREAD:
            return dict.fromkeys(names, -1)
        of_person = select(_u.source_id, _u.position).where(_u.person == self._shelf.person)
        stored = self._connection.execute(of_person.where(_u.source_id.in_([_EVERY, *names])))
        known = {row.source_id: row.position for row in stored}
        return {name: max(known.get(name, -1), known.get(_EVERY, -1)) for name in names}

    def _until(self, stream: Iterator[Row[Any]], floor: int) -> Iterator[Row[Any]]:
        """Yield the rows above a floor, and of today those that may have come today."""
        since_s = self._shelf.since_s - _SLACK_S if self._shelf.view is View.TODAY else -inf
        if self._upwards:
            return stream
        return takewhile(lambda row: row.position > floor and row.seen_s >= since_s, stream)

    def _in_order(self, query: Select[*tuple[Any, ...]], number: ColumnElement[int]) -> Iterator[Row[Any]]:
        """Yield the rows of a query in the order of their number, and read them in parts."""
        start, size = self._start, _FIRST_CHUNK
        beyond = operator.gt if self._upwards else operator.lt
        order = number if self._upwards else number.desc()
        part = query if start is None else query.where(beyond(_i.position, start))
        while True:
            found = self._connection.execute(part.order_by(order).limit(size)).all()
            yield from found
            if len(found) < size:
                return
            last = found[-1].seq if number is _i.seq else found[-1].position
            part, size = query.where(beyond(number, last)), _CHUNK


def _read_items(
    connection: Connection, positions: Sequence[int], person: str, sources: Collection[str] | None = None
) -> list[FoundItem]:
    """Return the items at some positions, newest first; those of some ``sources`` or, if it is ``None``, of all."""
    if not positions:
        return []
    query = _items_and_marks(person).add_columns(_i.item_id, _i.fields, _i.exact, _i.gone_s, _i.is_update)
    newest = query.where(_i.position.in_(positions)).order_by(_i.position.desc())
    newest = newest if sources is None else newest.where(is_one_of(_i.source_id, sources))
    return [_found(row) for row in connection.execute(newest)]


# -- searches

_SIMPLE: ColumnElement[str] = literal_column("'simple'::regconfig")
_words = table("item_words", column("rowid"), column("item_words"))
_MOST_WAIT_S = 5.0  # for the searches before


class SqlItemSearch:
    """Searches on a connection for people, so a slow search delays neither probes nor deliveries.

    One search runs at a time: the other connections are left to those who want to see a page.
    """

    def __init__(self, people: Connections) -> None:
        self._people = people
        self._turn = asyncio.Lock()

    async def search(
        self,
        text: str,
        *,
        source_id: str | None,
        before: int | None,
        limit: int,
        person: str = ME,
        sources: Collection[str] | None = None,
    ) -> list[FoundItem]:
        """Return the items that match a text, those seen last first; ``before`` is a position.

        Only those of ``source_id``, if it is given, and of some ``sources``.

        Raises ``BadSearchError`` if the text has no words, or too many, and ``BusyError`` if others search for long.
        """
        search = search_of(text)

        def read(connection: Connection) -> list[FoundItem]:
            is_sqlite = connection.dialect.name == "sqlite"
            query = _by_fts5(search, source_id, before) if is_sqlite else _by_gin(search, source_id, before)
            query = query if sources is None else query.where(is_one_of(_i.source_id, sources))
            return _read_items(connection, connection.scalars(query.limit(limit)).all(), person)

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
        select(_i.position)
        .join_from(_words, t.items, _i.position == rowid)
        .where(literal_column("item_words").op("MATCH")(in_sqlite(search, source_id)))
        .order_by(rowid.desc())
    )
    query = query if before is None else query.where(rowid < before)
    return query if source_id is None else query.where(_i.source_id == source_id)


def _by_gin(search: Search, source_id: str | None, before: int | None) -> Select[*tuple[Any, ...]]:
    wanted = func.to_tsquery(_SIMPLE, cast(in_postgresql(search), String))
    query = select(_i.position).where(func.to_tsvector(_SIMPLE, _i.words).op("@@")(wanted)).order_by(_i.position.desc())
    query = query if before is None else query.where(_i.position < before)
    return query if source_id is None else query.where(_i.source_id == source_id)


def _found(row: Row[Any]) -> FoundItem:
    fields = rows.item_fields(row.fields)
    if row.is_update:  # its texts that changed are differences
        fields = {name: difference_in_a_line(v) if isinstance(v, str) else v for name, v in fields.items()}
    return FoundItem(
        position=row.position,
        source_id=row.source_id,
        event=row.seq,
        item_id=row.item_id,
        title=texts_of(fields)[0],
        text=summary_of(fields),
        link=link_of(fields) or None,
        event_s=row.event_s,
        seen_s=row.seen_s,
        is_exact=row.exact,
        is_gone=row.gone_s is not None and not row.is_update,
        is_update=row.is_update,
        is_read=bool(row.is_read),
        is_starred=bool(row.is_starred),
    )
