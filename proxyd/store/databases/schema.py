"""The schema of the tables: which one they have, and the migrations that bring them to the newest.

Alembic is loaded only to migrate: most starts find the newest schema.
"""

from __future__ import annotations

import ast
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import Connection, NullPool, Table, column, create_engine, func, insert, inspect, select, table, true

from proxyd.base.interpreter import without
from proxyd.core.errors import StoreError
from proxyd.store.databases.connections import LOCKS, Connections, StoreConnections, sqlite_url
from proxyd.store.databases.tables import metadata

if TYPE_CHECKING:
    from alembic.config import Config


_IDLE = "idle_in_transaction_session_timeout"  # a busy machine may pause a migration for longer than a lease
_MIGRATION = 1  # the number of its lock; those after it belong to the roles
_TABLE = table("alembic_version", column("version_num"))
log = structlog.get_logger("store")


async def migrate(writer: Connections) -> None:
    """Bring the tables to the newest schema; if several processes try at once, one does it.

    Raises ``StoreError``: a newer proxyd made these tables.
    """
    await writer.call(upgrade)


def upgrade(connection: Connection) -> None:
    """Bring the tables to the newest schema in the current transaction; raises as ``migrate`` does."""
    if connection.dialect.name == "postgresql":
        if connection.scalar(select(func.current_setting(_IDLE))) != "0":
            connection.execute(select(func.set_config(_IDLE, "60s", true())))
        connection.execute(select(func.pg_advisory_xact_lock(LOCKS, _MIGRATION)))
    before = _known_revision(connection)
    if before == revisions()[0]:
        return
    if before is not None and before < revisions()[-1]:
        connection.execute(_TABLE.delete())  # the first migration takes what it finds, of whatever revision before it
    with without("mako.ext.pygmentplugin"):  # Mako would load lexers for error pages
        from alembic import command
    command.upgrade(migration_config(connection), "head")
    if before is not None and before != (now := revision_of(connection)):
        log.info("tables are brought to the newest schema", before=before, now=now)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What upgrading a database changes."""

    schema: str  # that the tables have
    migrations: Mapping[str, str]  # what each that they lack does, by revision, oldest first


def find_upgrade(connection: Connection) -> Upgrade | None:
    """Return what migrating the tables would do; ``None`` if there are none, or they have the newest schema."""
    found = _known_revision(connection)
    if found is None or found == revisions()[0]:
        return None
    return Upgrade(found, {each: _purpose(each) for each in reversed(revisions()) if each > found})


def _purpose(revision: str) -> str:
    (file,) = (migrations_folder() / "versions").glob(f"{revision}_*.py")
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def is_newest(connection: Connection) -> bool:
    """Return whether the tables have the newest schema; raises ``StoreError`` if a newer proxyd made them."""
    return _known_revision(connection) == revisions()[0]


def refuse_lacking(connection: Connection) -> None:
    """Raise ``StoreError`` if a database of the newest schema lacks a table or a column of it."""
    inspector = inspect(connection)
    there = {name: {each["name"] for each in inspector.get_columns(name)} for name in inspector.get_table_names()}
    wanted = ((of.name, each.name) for of in metadata.sorted_tables for each in of.columns)
    lacking = dict.fromkeys(
        f"{of}.{name}" if of in there else of for of, name in wanted if name not in there.get(of, ())
    )
    if lacking:
        raise StoreError(f"the database lacks {', '.join(lacking)[:200]}: it is not as proxyd made it")


def _known_revision(connection: Connection) -> str | None:
    """Return the schema of the tables, if there are any; raises ``StoreError`` if a newer proxyd made them."""
    found = revision_of(connection)
    if found is not None and found > revisions()[0]:
        raise StoreError(f"the tables have the schema {found}: a newer proxyd created them; use that version")
    return found


@cache
def revisions() -> tuple[str, ...]:
    """Return the schema revisions that this proxyd knows, newest first: the names of their files begin with them."""
    files = (migrations_folder() / "versions").glob("[0-9]*.py")
    found = sorted((each.name.partition("_")[0] for each in files), reverse=True)
    if not found:
        raise StoreError(f"there are no migrations in {migrations_folder()}: install proxyd again")
    return tuple(found)


def revision_of(connection: Connection) -> str | None:
    """Return the schema revision of the tables, or ``None`` if there are none."""
    if not inspect(connection).has_table(_TABLE.name):
        return None
    found = connection.scalar(select(_TABLE.c.version_num))
    return None if found is None else str(found)  # SQLite keeps a number in a column of texts


def migration_config(connection: Connection) -> Config:
    """Return the configuration with which Alembic runs the migrations on ``connection``."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    config.attributes["connection"] = connection
    return config


def migrations_folder() -> Path:
    """Return the folder of the migrations: next to the package in a checkout, inside it in a wheel."""
    package = Path(__file__).resolve().parents[2]
    inside = package / "migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


_ROWS, _PICTURES = 1000, 20  # for each statement; a picture may have half a megabyte


async def copy_between(source: StoreConnections, target: StoreConnections) -> dict[str, int]:
    """Copy every row of a database into another's empty tables; return the number of rows in each copied."""
    with tempfile.TemporaryDirectory() as folder:
        between = Path(folder) / "copy.db"
        await source.upkeep.backup(between)
        return await target.writer.call(lambda connection: copy_from_file(between, connection))


def _copy_tables(source: Connection, target: Connection) -> dict[str, int]:
    """Copy every row into existing, empty tables; return the number of rows in each.

    The caller commits. ``source`` should read from a single snapshot. Raises ``StoreError``: the target is not empty,
    or either database lacks the newest tables.
    """
    for connection, name in ((source, "the database to copy from"), (target, "the database to copy to")):
        if not is_newest(connection):
            raise StoreError(f"{name} does not have the tables of this version; run `proxyd db migrate` on it")
    for copied in metadata.sorted_tables:
        if target.execute(select(1).select_from(copied).limit(1)).first() is not None:
            raise StoreError(f"the target is not empty: there are rows in {copied.name}; name an empty database")
    return {copied.name: _copy_table(source, target, copied) for copied in metadata.sorted_tables}


def _copy_table(source: Connection, target: Connection, copied: Table) -> int:
    most = _PICTURES if copied.name == "pictures" else _ROWS
    found = source.execution_options(yield_per=most).execute(select(copied))
    count = 0
    for rows in found.mappings().partitions(most):
        target.execute(insert(copied), [dict(row) for row in rows])
        count += len(rows)
    if target.dialect.name == "postgresql" and count:
        _continue_numbers(target, copied)
    return count


def _continue_numbers(target: Connection, copied: Table) -> None:
    """Continue the database's own row numbers after the greatest copied one."""
    column = copied.autoincrement_column
    if column is not None:
        sequence = func.pg_get_serial_sequence(copied.name, column.name)
        target.execute(select(func.setval(sequence, select(func.max(column)).scalar_subquery())))


def copy_from_file(source: Path, target: Connection) -> dict[str, int]:
    """Copy every row of a SQLite database that nobody has open."""
    engine = create_engine(sqlite_url(source), poolclass=NullPool)
    with engine.connect() as connection:
        return _copy_tables(connection, target)


def copy_to_file(source: Connection, target: Path) -> dict[str, int]:
    """Copy every row to a new SQLite database; return the number of rows in each copied."""
    target.touch(0o600, exist_ok=False)  # it holds secrets
    engine = create_engine(sqlite_url(target), poolclass=NullPool)
    with engine.begin() as connection:
        upgrade(connection)
        return _copy_tables(source, connection)
