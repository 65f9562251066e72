"""The schema of the tables: which one they have, and the migrations that bring them to the newest.

Alembic is loaded only to migrate: most starts find the newest schema.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import Connection, column, func, inspect, select, table, true

from proxyd.base.lean_imports import without
from proxyd.core.errors import StoreError
from proxyd.store.databases.connections import LOCKS, Connections

if TYPE_CHECKING:
    from alembic.config import Config

_IDLE = "idle_in_transaction_session_timeout"  # a busy machine may pause a migration for longer than a lease
_MIGRATION = 1  # the number of its lock; those after it belong to the roles
_TABLE = table("alembic_version", column("version_num"))
log = structlog.get_logger("store")


async def migrate(writer: Connections, revision: str = "head") -> None:
    """Migrate the tables to ``revision``; if several processes try at once, one does it.

    Raises
    ------
    StoreError
        A newer proxyd made these tables.
    """
    await writer.call(lambda connection: upgrade(connection, revision))


def upgrade(connection: Connection, revision: str = "head") -> None:
    """Migrate the tables to ``revision`` in the current transaction; raises as ``migrate`` does."""
    if connection.dialect.name == "postgresql":
        if connection.scalar(select(func.current_setting(_IDLE))) != "0":
            connection.execute(select(func.set_config(_IDLE, "60s", true())))
        connection.execute(select(func.pg_advisory_xact_lock(LOCKS, _MIGRATION)))
    before = _known_revision(connection)
    if before == revisions()[0]:
        return
    with without("mako.ext.pygmentplugin"):  # Mako would load lexers for error pages
        from alembic import command
    command.upgrade(migration_config(connection), revision)
    if before is not None and before != (now := revision_of(connection)):
        log.info("tables are brought to the newest schema", before=before, now=now)


def is_newest(connection: Connection) -> bool:
    """Return whether the tables have the newest schema; raises ``StoreError`` if a newer proxyd made them."""
    return _known_revision(connection) == revisions()[0]


def _known_revision(connection: Connection) -> str | None:
    """Return the schema of the tables, if there are any; raises ``StoreError`` if a newer proxyd made them."""
    found = revision_of(connection)
    if found is not None and found not in revisions():
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
    return connection.scalar(select(_TABLE.c.version_num))


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
