"""Terms of leaders, and databases that cannot be copied."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, create_engine, update

from proxyd.errors import StoreError
from proxyd.store.databases.database_copies import copy_tables
from proxyd.store.databases.leading import _begin_term, _note_rest
from proxyd.store.databases.lease import Lease
from proxyd.store.tables import leaders, metadata


@pytest.fixture
def empty() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_each_term_is_greater_than_those_before_it_and_than_the_time(empty: Connection) -> None:
    metadata.create_all(empty)
    assert _begin_term(empty, "planner", "a", 1000.5, 3.0) == (1001, 0.0)
    assert _begin_term(empty, "planner", "b", 900.0, 2.0) == (1002, 3.0)  # the clock was put back
    assert _begin_term(empty, "notifier", "b", 900.0, 0.0) == (901, 0.0)
    assert _begin_term(empty, "planner", "a", 5000.0, 1.0)[0] == 5001


def test_a_leader_waits_as_long_as_the_probers_of_the_last_one_may_work(empty: Connection) -> None:
    metadata.create_all(empty)
    lease = Lease("planner", 10.0)
    lease.term, _ = _begin_term(empty, "planner", "a", 1000.0, 6.0)
    assert _begin_term(empty, "planner", "b", 1001.0, 4.0) == (1002, 6.0)
    assert _begin_term(empty, "planner", "c", 1002.0, 4.0)[1] == 6.0  # the second died before those of the first had
    _note_rest(empty, lease, 0.0)  # it no longer leads
    assert _begin_term(empty, "planner", "d", 1003.0, 4.0)[1] == 6.0
    lease.term = 1004
    _note_rest(empty, lease, 1.5)
    assert _begin_term(empty, "planner", "e", 1004.0, 4.0)[1] == 1.5
    empty.execute(update(leaders).values(rest_s=None))  # by a version that did not know it
    assert _begin_term(empty, "planner", "f", 1005.0, 4.0)[1] == 4.0


def test_a_database_without_the_tables_of_this_version_is_not_copied(empty: Connection) -> None:
    with pytest.raises(StoreError, match="the database to copy from does not have the tables of this version; run"):
        copy_tables(empty, empty)
