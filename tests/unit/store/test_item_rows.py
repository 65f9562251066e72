"""A list of items takes as many steps of the database with a hundred thousand items as with ten thousand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from sqlalchemy import Connection, create_engine, insert

from proxyd.store.api_rows import ME
from proxyd.store.databases import tables as t
from proxyd.store.databases.connections import sqlite_url
from proxyd.store.item_rows import Shelf, View, _read_items, _Scan
from tests.databases import migrated_file

SMALL, LARGE = 10_000, 100_000
SOURCES, STEPS = 150, 100
SOME, MANY = (frozenset(f"s{n}" for n in range(count)) for count in (20, 120))


@contextmanager
def filled(path: Path, items: int) -> Iterator[Connection]:
    """Yield a connection to a database with so many items, of which a person has read some and starred some."""
    engine = create_engine(sqlite_url(migrated_file(path)))
    with engine.connect() as connection:
        connection.exec_driver_sql("DROP TRIGGER item_words_insert")  # the index of words plays no part
        same = {"content_hash": "h", "fields": "{}", "exact": True, "seed": False}
        rows = [
            {"position": n, "source_id": f"s{n % SOURCES}", "seq": n, "item_id": f"i{n}", **same}
            | dict.fromkeys(("event_s", "seen_s", "present_s"), float(n))
            for n in range(1, items + 1)
        ]
        connection.execute(insert(t.items), rows)
        read = ((n, True, None) for n in range(items - 2_000, items))
        starred = ((n, None, 1.0) for n in range(1, items - 2_000, 17))
        marks = [
            {"position": n, "person": ME, "source_id": f"s{n % SOURCES}", "is_read": is_read, "starred_s": starred_s}
            for n, is_read, starred_s in (*read, *starred)
        ]
        connection.execute(insert(t.marks), marks)
        connection.commit()
        yield connection
    engine.dispose()


def steps(connection: Connection, shelf: Shelf, start: int | None = None) -> int:
    """Return how many steps the database takes for a page of a shelf, in hundreds."""
    counted = [0]

    def count() -> None:
        counted[0] += 1

    driver = connection.connection.driver_connection
    assert driver is not None
    driver.set_progress_handler(count, STEPS)
    found = [row.position for row in islice(_Scan(connection, shelf, start).rows(), 51)]
    assert _read_items(connection, found, ME)
    driver.set_progress_handler(None, STEPS)
    return counted[0]


def test_a_list_takes_as_many_steps_however_many_items_there_are(tmp_path: Path) -> None:
    with filled(tmp_path / "small.db", SMALL) as small, filled(tmp_path / "large.db", LARGE) as large:
        for view in View:
            for sources in (None, SOME, MANY):
                few, many = (
                    steps(each, Shelf(view, sources, since_s=items - 5_000.0))
                    for each, items in ((small, SMALL), (large, LARGE))
                )
                assert many <= few * 1.3 + 50, (view, sources and len(sources), few, many)
        assert steps(large, Shelf(View.ALL), LARGE // 2) <= steps(small, Shelf(View.ALL), SMALL // 2) + 20
