"""Terms of leaders, and databases that cannot be copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest
from sqlalchemy import Connection, create_engine, update

from proxyd.errors import StoreError
from proxyd.store.databases.database_copies import copy_tables
from proxyd.store.databases.leading import LastTerm, LeaderCandidate, _begin_term, _note_in_term
from proxyd.store.tables import leaders, metadata

Began: TypeAlias = Callable[[str, float, float], tuple[int, LastTerm]]


@pytest.fixture
def empty() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture
def began(empty: Connection) -> Began:
    """Begin a term: name, time and hold."""

    def begin(name: str, now_s: float, hold_s: float) -> tuple[int, LastTerm]:
        return _begin_term(empty, LeaderCandidate(name, 10.0, hold_s), now_s)

    return begin


def test_each_term_is_greater_than_those_before_it_and_than_the_time(empty: Connection, began: Began) -> None:
    metadata.create_all(empty)
    assert began("a", 1000.5, 3.0) == (1001, LastTerm(0.0, frozenset()))
    assert began("b", 900.0, 2.0) == (
        1002,
        LastTerm(3.0, frozenset()),
    )  # the clock was put back
    assert began("a", 5000.0, 1.0)[0] == 5001


def test_a_leader_knows_who_may_work_for_the_last_one_and_for_how_long(empty: Connection, began: Began) -> None:
    metadata.create_all(empty)
    term, _ = began("a", 1000.0, 6.0)
    _note_in_term(empty, term, {"probers": ["p", "q"]})
    assert began("b", 1001.0, 4.0)[1] == LastTerm(6.0, frozenset("pq"))
    assert began("c", 1002.0, 4.0)[1] == LastTerm(6.0, frozenset("pq"))  # the second died soon
    _note_in_term(empty, term, {"rest_s": 0.0, "probers": []})  # it no longer leads
    assert began("d", 1003.0, 4.0)[1] == LastTerm(6.0, frozenset("pq"))
    _note_in_term(empty, 1004, {"rest_s": 1.5})
    assert began("e", 1004.0, 4.0)[1].rest_s == 1.5
    empty.execute(update(leaders).values(rest_s=None, probers=None))  # by a version that did not know it
    assert began("f", 1005.0, 4.0)[1] == LastTerm(4.0, None)


def test_a_database_without_the_tables_of_this_version_is_not_copied(empty: Connection) -> None:
    with pytest.raises(StoreError, match="the database to copy from does not have the tables of this version; run"):
        copy_tables(empty, empty)
