"""Backups: a database of SQLite in one file, whatever it is a copy of, and the way back."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

from sqlalchemy import Connection, NullPool, create_engine

from proxyd.errors import ConflictError, NotFoundError, StoreError
from proxyd.store.databases.connections import breakable, migrate, sqlite_url, store_errors, upgrade
from proxyd.store.databases.database_copies import copy_from_file
from proxyd.store.databases.opening import is_postgresql, open_connections, owned_connections, owner_lock
from proxyd.store.databases.sqlite import copy_file, end_when, sync
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
    with whole_or_nothing(target):
        if is_postgresql(database):
            async with open_connections(database) as connections:
                await connections.upkeep.backup(target)
        else:
            over = Event()
            await breakable(asyncio.to_thread(_copy_beside_daemon, Path(database), target, over), over.set)
        await check_copy(target)


def _must_be_new(target: Path) -> None:
    if target.exists():
        raise ConflictError(f"{target} is there already; name another file")
    if not target.parent.is_dir():
        raise NotFoundError(f"{target.parent}: no such folder")


@contextmanager
def whole_or_nothing(target: Path) -> Iterator[None]:
    """Remove what is at ``target`` where the context ends with an error, or is broken off: half a copy is none."""
    try:
        yield
    except BaseException:
        target.unlink(missing_ok=True)
        raise


async def check_copy(path: Path) -> None:
    """Return where a copy is sound, as ``check_file`` does; a cancellation breaks it off."""
    over = Event()
    await breakable(asyncio.to_thread(check_file, path, over), over.set)


def _copy_beside_daemon(database: Path, target: Path, over: Event) -> None:
    if not database.is_file():
        raise NotFoundError(f"{database}: no such database")
    with store_errors():
        copy_file(database, target, over)


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
    with _newest(source, beside=None if is_postgresql(database) else Path(database)) as newest:
        if not is_postgresql(database):
            with owner_lock(database):
                return await asyncio.to_thread(_put_in_place, Path(database), newest, stamp)
        async with owned_connections(database) as connections:
            await migrate(connections.writer)
            await connections.writer.call(lambda target: _fill(target, newest, replaces=replaces))
    return None


@contextmanager
def _newest(source: Path, *, beside: Path | None) -> Iterator[Path]:
    """Yield a copy of a backup with the newest tables, in a folder beside the database where that is a file."""
    if beside is not None:
        beside.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="proxyd-restore-", dir=None if beside is None else beside.parent) as folder:
        copy = Path(folder) / "restored.db"
        with store_errors():
            copy_file(source, copy)  # with what its log holds, where there is one
            engine = create_engine(sqlite_url(copy), poolclass=NullPool)
            with engine.begin() as connection:
                upgrade(connection)
        yield copy


def _put_in_place(database: Path, fresh: Path, stamp: str) -> Path | None:
    """Move a file to where the database is; return where what was there is now.

    A database is there all the time: whoever is killed has the old one or the new one, and the old one aside.
    """
    with store_errors():
        _give_to_owner(fresh, database)
        sync(fresh)
        aside = _keep(database, stamp) if database.stat().st_size else None
        for suffix in ("-wal", "-shm", "-journal"):  # the new one must not be read with what belongs to the old one
            database.with_name(database.name + suffix).unlink(missing_ok=True)
        fresh.replace(database)
        sync(database.parent)
    return aside


def _give_to_owner(fresh: Path, database: Path) -> None:
    """Let root put no file in place that the daemon's user may not open: it is whose the database is, or its folder."""
    if os.geteuid() == 0:
        owner = (database if database.stat().st_size else database.parent).stat()
        for path in (fresh, database.with_suffix(".lock")):
            os.chown(path, owner.st_uid, owner.st_gid)


def _keep(database: Path, stamp: str) -> Path:
    """Give a database a second name, with all that its log holds, and return it."""
    _empty_log(database)
    aside = database.with_name(f"{database.name}.before-{stamp}")
    for suffix in ("-wal", "-journal", ""):  # it counts once all of it is there
        part = database.with_name(database.name + suffix)
        if part.exists():
            _link(part, aside.with_name(aside.name + suffix))
    sync(database.parent)
    return aside


def _empty_log(database: Path) -> None:
    """Bring what the log holds into the file; a damaged one stays as it is."""
    try:
        with closing(sqlite3.connect(database)) as connection:
            is_read, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
            raise
    else:
        if is_read:
            raise StoreError(f"another program reads {database}; end it first")


def _link(path: Path, name: Path) -> None:
    """Give a file another name; where the file system has no links, to a copy of it."""
    try:
        name.hardlink_to(path)
    except FileExistsError:
        raise
    except OSError:
        name.touch(0o600, exist_ok=False)
        shutil.copy2(path, name)
        sync(name)


def _fill(target: Connection, source: Path, *, replaces: bool) -> None:
    if replaces:
        for table in reversed(metadata.sorted_tables):
            target.execute(table.delete())
    copy_from_file(source, target)


def check_file(path: Path, over: Event | None = None) -> None:
    """Return where a file is a sound database of proxyd; raise ``NotFoundError`` or ``StoreError`` where not.

    Fails once ``over`` is set.
    """
    if not path.is_file():
        raise NotFoundError(f"{path}: no such file")
    with store_errors(), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        end_when(over, connection)
        try:
            said = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
                raise
            raise StoreError(f"{path} is no database of proxyd") from error
        if said != "ok":
            raise StoreError(f"{path} is damaged: {said}")
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
            raise StoreError(f"{path} is no database of proxyd")


async def vacuum(database: str | Path) -> None:
    """Give the space of what was deleted back, and renew the statistics, while no daemon uses the database."""
    async with owned_connections(database) as connections:
        await connections.upkeep.vacuum(whole=True)
