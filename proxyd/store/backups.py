"""Backups: a database of SQLite in one file, whatever it is a copy of, and the way back."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from alembic import command
from sqlalchemy import Connection, NullPool, create_engine

from proxyd.errors import ConflictError, NotFoundError, StoreError
from proxyd.store.copying import copy_from_file
from proxyd.store.engine import migrate, migration_config, store_errors
from proxyd.store.opening import is_postgresql, migrate_database, open_connections, owner_lock
from proxyd.store.sqlite import copy_file
from proxyd.store.tables import metadata


async def back_up(database: str | Path, target: Path) -> None:
    """Write a consistent copy to ``target``, which must not exist, and check it; a daemon may go on meanwhile.

    Raises
    ------
    NotFoundError
        There is no such database.
    ConflictError
        There is something at ``target``.
    StoreError
        The database cannot be read, or the copy is damaged, as the database is then.
    """
    _must_be_new(target)
    try:
        if is_postgresql(database):
            async with open_connections(database) as connections:
                await connections.upkeep.backup(target)
        else:
            await asyncio.to_thread(_copy_beside_daemon, Path(database), target)
        await asyncio.to_thread(check_file, target)
    except BaseException:
        _remove(target)  # half a copy is none
        raise


def _must_be_new(target: Path) -> None:
    if target.exists():
        raise ConflictError(f"{target} is there already; name another file")
    if not target.parent.is_dir():
        raise NotFoundError(f"{target.parent}: no such folder")


def _remove(target: Path) -> None:
    target.unlink(missing_ok=True)


def _copy_beside_daemon(database: Path, target: Path) -> None:
    if not database.is_file():
        raise NotFoundError(f"{database}: no such database")
    with store_errors():
        copy_file(f"{database.absolute().as_uri()}?mode=ro", target)


async def restore(database: str | Path, source: Path, *, stamp: str, replaces: bool = False) -> Path | None:
    """Put a backup in place of a database that no daemon holds, and bring it to the newest schema.

    A file is moved aside, to a name with ``stamp``, which is returned. What PostgreSQL holds is deleted where
    ``replaces`` is set, in the transaction that restores.

    Raises
    ------
    NotFoundError
        There is no such backup.
    StoreError
        It is damaged, or no database of proxyd; a daemon holds the database; PostgreSQL's is not empty.
    """
    await asyncio.to_thread(check_file, source)
    if not is_postgresql(database):
        with owner_lock(database):
            aside = await asyncio.to_thread(_put_in_place, Path(database), source, stamp)
            await migrate_database(database)
        return aside
    with _newest(source, stamp) as newest:
        async with open_connections(database) as connections:
            await migrate(connections.writer)
            await connections.writer.call(lambda target: _fill(target, newest, replaces=replaces))
    return None


def _put_in_place(database: Path, source: Path, stamp: str) -> Path | None:
    """Copy a backup to where the database is, whole at once; return where what was there is now."""
    fresh = database.with_name(f"{database.name}.restoring")
    shutil.copyfile(source, fresh)
    fresh.chmod(0o600)
    with fresh.open("rb") as written:
        os.fsync(written.fileno())
    aside = database.with_name(f"{database.name}.before-{stamp}") if database.stat().st_size else None
    if aside is not None:
        for suffix in ("", "-wal", "-shm"):
            part = database.with_name(database.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
    fresh.replace(database)
    return aside


@contextmanager
def _newest(source: Path, stamp: str) -> Iterator[Path]:
    """Yield a copy of a backup with the newest tables."""
    copy = source.with_name(f"{source.name}.{stamp}")
    try:
        shutil.copyfile(source, copy)
        copy.chmod(0o600)
        engine = create_engine(f"sqlite:///{copy}", poolclass=NullPool)
        with store_errors(), engine.begin() as connection:
            command.upgrade(migration_config(connection), "head")
        yield copy
    finally:
        copy.unlink(missing_ok=True)


def _fill(target: Connection, source: Path, *, replaces: bool) -> None:
    if replaces:
        for table in reversed(metadata.sorted_tables):
            target.execute(table.delete())
    copy_from_file(source, target)


def check_file(path: Path) -> None:
    """Return where a file is a sound database of proxyd; raise ``NotFoundError`` or ``StoreError`` where not."""
    if not path.is_file():
        raise NotFoundError(f"{path}: no such file")
    with store_errors(), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        said = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if said != "ok":
            raise StoreError(f"{path} is damaged: {said}")
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
            raise StoreError(f"{path} is no database of proxyd")


async def vacuum(database: str | Path) -> None:
    """Give the space of what was deleted back, and renew the statistics; the caller holds a file's ``owner_lock``."""
    async with open_connections(database) as connections:
        await connections.upkeep.vacuum(whole=True)
