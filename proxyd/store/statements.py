"""Statements that the store runs repeatedly."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Executable,
    Numeric,
    String,
    Table,
    TableValuedAlias,
    bindparam,
    cast,
    column,
    delete,
    func,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import GenericFunction

_MOST_PARAMETERS = 10_000  # a statement may have 32,767 with PostgreSQL, and 32,766 at least with SQLite


class Upsert:
    """Writes rows over existing ones with the same keys, or ``adds`` to these, as each database spells it."""

    def __init__(self, table: Table, *, adds: bool = False) -> None:
        self._statements = {
            "postgresql": _upsert(postgresql.insert(table), table, adds=adds),
            "sqlite": _upsert(sqlite.insert(table), table, adds=adds),
        }

    def of(self, connection: Connection) -> Executable:
        """Return the statement in this database's dialect."""
        return self._statements[connection.dialect.name]


def _upsert(statement: postgresql.Insert | sqlite.Insert, table: Table, *, adds: bool) -> Executable:
    keys = [column.name for column in table.primary_key]
    changed = {
        c.name: c + statement.excluded[c.name] if adds else statement.excluded[c.name]
        for c in table.columns
        if c.name not in keys
    }
    return statement.on_conflict_do_update(index_elements=keys, set_=changed)


class _TextsIn(GenericFunction[str]):
    """The texts in a JSON array, a row for each."""

    inherit_cache = True


@compiles(_TextsIn, "sqlite")
def _texts_in_sqlite(texts: _TextsIn, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_each({compiler.process(texts.clauses, **options)})"


@compiles(_TextsIn, "postgresql")
def _texts_in_postgresql(texts: _TextsIn, compiler: SQLCompiler, **options: Any) -> str:
    return f"json_array_elements_text(({compiler.process(texts.clauses, **options)})::json)"


def texts_in(array: ColumnElement[str] | str) -> TableValuedAlias:
    """Return a table of the texts in a JSON array, whose column is ``value``: one parameter for any number."""
    return _TextsIn(array).table_valued(column("value", String))


def is_one_of(named: ColumnElement[str], names: Collection[str]) -> ColumnElement[bool]:
    """Return a condition that a column holds one of some names, however many these are."""
    if len(names) <= _MOST_PARAMETERS:
        return named.in_(names)
    return named.in_(select(texts_in(json.dumps([*names])).c.value))


def day_of(time_s: ColumnElement[float]) -> ColumnElement[int]:
    """Return the day of a time in unix seconds, in whole days since 1970-01-01 UTC."""
    return cast(func.round(cast(time_s / 86400.0 - 0.5, Numeric)), BigInteger)  # halves of numerics are rounded up


def execute_many(connection: Connection, statement: Executable | Upsert, values: list[dict[str, Any]]) -> None:
    """Run a statement with each of ``values``, which may be empty."""
    if values:
        connection.execute(statement.of(connection) if isinstance(statement, Upsert) else statement, values)


def delete_named(connection: Connection, table: Table, column: ColumnElement[Any], names: Sequence[str]) -> None:
    """Delete the rows whose ``column`` holds one of ``names``."""
    if names:
        connection.execute(delete(table).where(column == bindparam("stale")), [{"stale": n} for n in names])
