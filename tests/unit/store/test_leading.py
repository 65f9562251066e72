"""Terms of leaders, and databases that cannot be copied."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, create_engine

from proxyd.errors import StoreError
from proxyd.store.databases.database_copies import copy_tables
from proxyd.store.databases.leading import _begin_term
from proxyd.store.tables import metadata


@pytest.fixture
def empty() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_each_term_is_greater_than_those_before_it_and_than_the_time(empty: Connection) -> None:
    metadata.create_all(empty)
    assert _begin_term(empty, "planner", "a", 1000.5) == 1001
    assert _begin_term(empty, "planner", "b", 900.0) == 1002  # the clock was put back
    assert _begin_term(empty, "notifier", "b", 900.0) == 901
    assert _begin_term(empty, "planner", "a", 5000.0) == 5001


def test_a_database_without_the_tables_of_this_version_is_not_copied(empty: Connection) -> None:
    with pytest.raises(StoreError, match="the database to copy from does not have the tables of this version; run"):
        copy_tables(empty, empty)
