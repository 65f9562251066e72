"""Copies of whole databases of either kind: for moving to PostgreSQL and for backups."""

from __future__ import annotations

import tempfile
from pathlib import Path

from sqlalchemy import Connection, NullPool, Table, create_engine, func, insert, select

from proxyd.core.errors import StoreError
from proxyd.store.databases.connections import StoreConnections, sqlite_url
from proxyd.store.databases.schema import is_newest, upgrade
from proxyd.store.databases.tables import metadata

_ROWS, _PICTURES = 1000, 20  # for each statement; a picture may have half a megabyte


async def copy_between(source: StoreConnections, target: StoreConnections) -> dict[str, int]:
    """Copy every row of a database into another's empty tables; return the number of rows in each table."""
    with tempfile.TemporaryDirectory() as folder:
        between = Path(folder) / "copy.db"
        await source.upkeep.backup(between)
        return await target.writer.call(lambda connection: copy_from_file(between, connection))


def copy_tables(source: Connection, target: Connection) -> dict[str, int]:
    """Copy every row into existing, empty tables; return the number of rows in each.

    The caller commits. ``source`` should read from a single snapshot.

    Raises
    ------
    StoreError
        The target is not empty, or either database lacks the newest tables.
    """
    for connection, name in ((source, "the database to copy from"), (target, "the database to copy to")):
        if not is_newest(connection):
            raise StoreError(f"{name} does not have the tables of this version; run `proxyd db migrate` on it")
    for table in metadata.sorted_tables:
        if target.execute(select(1).select_from(table).limit(1)).first() is not None:
            raise StoreError(f"the target is not empty: there are rows in {table.name}; name an empty database")
    return {table.name: _copy_table(source, target, table) for table in metadata.sorted_tables}


def _copy_table(source: Connection, target: Connection, table: Table) -> int:
    most = _PICTURES if table.name == "pictures" else _ROWS
    found = source.execution_options(yield_per=most).execute(select(table))
    count = 0
    for rows in found.mappings().partitions(most):
        target.execute(insert(table), [dict(row) for row in rows])
        count += len(rows)
    if target.dialect.name == "postgresql" and count:
        _continue_numbers(target, table)
    return count


def _continue_numbers(target: Connection, table: Table) -> None:
    """Continue the database's own row numbers after the greatest copied one."""
    column = table.autoincrement_column
    if column is not None:
        sequence = func.pg_get_serial_sequence(table.name, column.name)
        target.execute(select(func.setval(sequence, select(func.max(column)).scalar_subquery())))


def copy_from_file(source: Path, target: Connection) -> dict[str, int]:
    """Copy every row of a SQLite database that nobody has open."""
    engine = create_engine(sqlite_url(source), poolclass=NullPool)
    with engine.connect() as connection:
        return copy_tables(connection, target)


def copy_to_file(source: Connection, target: Path) -> dict[str, int]:
    """Copy every row to a new SQLite database; return the number of rows in each table."""
    target.touch(0o600, exist_ok=False)  # it holds secrets
    engine = create_engine(sqlite_url(target), poolclass=NullPool)
    with engine.begin() as connection:
        upgrade(connection)
        return copy_tables(source, connection)
