"""Statements that the store runs over and over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Executable, Table, bindparam, delete
from sqlalchemy.dialects.sqlite import insert


def upsert(table: Table) -> Executable:
    """Return a statement that writes whole rows, whether or not there are rows of these keys."""
    statement = insert(table)
    keys = [column.name for column in table.primary_key]
    changed = {c.name: statement.excluded[c.name] for c in table.columns if c.name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)


def add_up(table: Table) -> Executable:
    """Return a statement that writes rows, and adds to those of the same keys that are there."""
    statement = insert(table)
    keys = [column.name for column in table.primary_key]
    sums = {c.name: c + statement.excluded[c.name] for c in table.columns if c.name not in keys}
    return statement.on_conflict_do_update(index_elements=keys, set_=sums)


def execute_many(connection: Connection, statement: Executable, values: list[dict[str, Any]]) -> None:
    """Run a statement with each of ``values``, none or many."""
    if values:
        connection.execute(statement, values)


def delete_named(connection: Connection, table: Table, column: ColumnElement[Any], names: Sequence[str]) -> None:
    """Delete the rows whose ``column`` holds one of ``names``."""
    if names:
        connection.execute(delete(table).where(column == bindparam("stale")), [{"stale": n} for n in names])
