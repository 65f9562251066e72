"""Stored events, read for a replay: the database is not written, created or migrated, and a daemon may keep running."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, NullPool, Row, Select, Table, create_engine, false, select

from proxyd.core.errors import NotFoundError, StoreError
from proxyd.core.model.arrays import Floats
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import store_errors
from proxyd.store.databases.schema import revision_of, revisions
from proxyd.store.databases.sqlite import prepare_reader

_Bools = NDArray[np.bool_]

_SOURCES = (
    select(
        t.sources.c.source_id,
        t.sources.c.first_contact_s,
        t.sources.c.last_success_s,
        t.sources.c.last_push_s,
        t.sources.c.lost_items,
    )
    .join(t.declared, t.declared.c.source_id == t.sources.c.source_id)
    .where(t.sources.c.first_contact_s.is_not(None), t.sources.c.last_success_s.is_not(None))
    .order_by(t.sources.c.source_id)
)


@dataclass(frozen=True, slots=True, eq=False)
class PastSource:
    """The events that a daemon saw of a source."""

    source_id: str
    # When its items were first seen, and until when its events are known
    first_contact_s: float
    watched_s: float
    lost: float  # estimated number of events that were lost unseen
    # When each event happened and when a probe found it, unix seconds, shape (n,), in any order
    events_s: Floats
    seen_s: Floats
    exact: _Bools  # whether the time is the item's own; the others were placed between two probes, shape (n,)
    seed: _Bools  # whether the event was there at first contact, shape (n,)


def read_past(database: Path) -> list[PastSource]:
    """Return the events of each declared source with any, by name; not those of an address that it used to have.

    Raises ``NotFoundError``: the file does not exist; ``StoreError``: the file is not a database of this version, or
    cannot be read.
    """
    if not database.is_file():
        raise NotFoundError(
            f"{database}: no such database; name the file of the daemon, or its settings with `proxyd --config FILE`"
        )
    is_busy = _has_log(database)
    found = _read(database, is_immutable=not is_busy)
    if not is_busy and _has_log(database):  # a daemon started in the meantime
        found = _read(database, is_immutable=False)
    return found


def _has_log(database: Path) -> bool:
    return database.with_name(database.name + "-wal").exists()


def _read(database: Path, *, is_immutable: bool) -> list[PastSource]:
    """Read in one transaction; SQLite would create a missing write-ahead log unless the file is immutable."""
    uri = database.absolute().as_uri() + ("?immutable=1" if is_immutable else "?mode=ro")
    engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(uri, uri=True), poolclass=NullPool)
    prepare_reader(engine)
    try:
        with store_errors(), engine.begin() as connection:
            _check_schema(connection, database)
            return _seen(connection)
    except StoreError as error:
        raise error if str(database) in str(error) else StoreError(f"{database}: {error}") from error


def _check_schema(connection: Connection, database: Path) -> None:
    found, (newest, *_) = revision_of(connection), revisions()
    if found == newest:
        return
    if found is None:
        raise StoreError(f"{database}: this is not a database of proxyd; name the file of the daemon")
    if found < newest:
        advice = "stop its daemon and run `proxyd db migrate`"
    else:
        advice = "a newer proxyd wrote it; use that version"
    raise StoreError(f"{database}: its schema is {found}, this proxyd reads {newest}; {advice}")


def _seen(connection: Connection) -> list[PastSource]:
    events: defaultdict[str, list[Row[Any]]] = defaultdict(list)
    for query in (_events(t.items, t.items.c.seed).where(t.came), _events(t.changes, false())):
        for row in connection.execute(query):
            events[row.source_id].append(row)
    return [_source(row, events[row.source_id]) for row in connection.execute(_SOURCES)]


def _events(table: Table, seed: Any) -> Select[*tuple[Any, ...]]:
    """Return a query of the sources' events; those seen before first contact belong to an earlier address."""
    c = table.c
    return (
        select(c.source_id, c.event_s, c.seen_s, c.exact, seed.label("seed"))
        .join(t.sources, t.sources.c.source_id == c.source_id)
        .where(c.seen_s >= t.sources.c.first_contact_s)
    )


def _source(row: Any, events: list[Row[Any]]) -> PastSource:
    return PastSource(
        row.source_id,
        row.first_contact_s,
        max(row.last_success_s, row.last_push_s or row.last_success_s),
        row.lost_items,
        events_s=np.array([event.event_s for event in events], dtype=np.float64),
        seen_s=np.array([event.seen_s for event in events], dtype=np.float64),
        exact=np.array([event.exact for event in events], dtype=np.bool_),
        seed=np.array([event.seed for event in events], dtype=np.bool_),
    )
