"""Backups: a copy of a SQLite or PostgreSQL database in one SQLite file, and how to restore it."""

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

from proxyd.core.errors import ConflictError, NotFoundError, StoreError
from proxyd.core.texts.safe_text import visible
from proxyd.store.databases.connections import breakable, sqlite_url, store_errors
from proxyd.store.databases.schema import copy_from_file, migrate, upgrade
from proxyd.store.databases.sqlite import copy_file, end_when, sync
from proxyd.store.databases.tables import WORDS_IN_SQLITE, metadata
from proxyd.store.opening import is_postgresql, open_connections, owned_connections, owner_lock


async def back_up(database: str | Path, target: Path) -> None:
    """Write a consistent copy to ``target``, which must not exist, and check it; a daemon may keep running.

    Raises
    ------
    NotFoundError
        The database does not exist.
    ConflictError
        ``target`` already exists.
    StoreError
        The database cannot be read, or the copy is damaged; then the database is damaged too.
    """
    _must_be_new(target)
    with whole_or_nothing(target):
        if is_postgresql(database):
            async with open_connections(database) as connections:
                await connections.upkeep.backup(target)
        else:
            over = Event()
            await breakable(asyncio.to_thread(_copy_from_daemon, Path(database), target, over), over.set)
        await check_copy(target)


def _must_be_new(target: Path) -> None:
    if target.exists():
        raise ConflictError(f"{target} already exists; name another file")
    if not target.parent.is_dir():
        raise NotFoundError(f"{target.parent}: no such folder; create it first")


@contextmanager
def whole_or_nothing(target: Path) -> Iterator[None]:
    """Remove ``target`` if the context fails or is cancelled: half a copy is useless."""
    try:
        yield
    except BaseException:
        target.unlink(missing_ok=True)
        raise


async def check_copy(path: Path) -> None:
    """Return if a copy is sound, as ``check_file`` does; a cancellation interrupts the check."""
    over = Event()
    await breakable(asyncio.to_thread(check_file, path, over), over.set)


def _copy_from_daemon(database: Path, target: Path, over: Event) -> None:
    if not database.is_file():
        raise NotFoundError(f"{database}: no such database; check the setting database")
    with store_errors():
        copy_file(database, target, over)


async def restore(database: str | Path, source: Path, *, stamp: str, replaces: bool = False) -> Path | None:
    """Replace a database that no daemon holds with a backup, and migrate it to the newest schema.

    An existing file is renamed with ``stamp``, and its new name is returned. If ``replaces`` is set, the rows in
    PostgreSQL are deleted in the transaction that restores.

    Raises
    ------
    NotFoundError
        The backup does not exist.
    StoreError
        The backup is damaged or not a proxyd database, a daemon holds the database, or PostgreSQL is not empty.
    """
    await asyncio.to_thread(check_file, source)
    with _newest(source, next_to=None if is_postgresql(database) else Path(database)) as newest:
        if not is_postgresql(database):
            with owner_lock(database):
                return await asyncio.to_thread(_put_in_place, Path(database), newest, stamp)
        async with owned_connections(database) as connections:
            await migrate(connections.writer)
            await connections.writer.call(lambda target: _fill(target, newest, replaces=replaces))
    return None


@contextmanager
def _newest(source: Path, *, next_to: Path | None) -> Iterator[Path]:
    """Yield a copy of a backup with the newest tables; for a file, in a folder next to the database."""
    if next_to is not None:
        next_to.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="proxyd-restore-", dir=None if next_to is None else next_to.parent) as folder:
        copy = Path(folder) / "restored.db"
        with store_errors():
            copy_file(source, copy)  # including its log, if any
            engine = create_engine(sqlite_url(copy), poolclass=NullPool)
            with engine.begin() as connection:
                upgrade(connection)
        yield copy


def _put_in_place(database: Path, fresh: Path, stamp: str) -> Path | None:
    """Move ``fresh`` into the database's place; return the new path of the old database, if there was one.

    The database exists at every moment: if the process is killed, either the old or the new file is in place.
    """
    with store_errors():
        _give_to_owner(fresh, database)
        sync(fresh)
        aside = _keep(database, stamp) if database.stat().st_size else None
        for suffix in ("-wal", "-shm", "-journal"):  # SQLite must not read the new file with the old one's logs
            database.with_name(database.name + suffix).unlink(missing_ok=True)
        fresh.replace(database)
        sync(database.parent)
    return aside


def _give_to_owner(fresh: Path, database: Path) -> None:
    """Give the file the owner of the database or its folder, so that the daemon can read it after a restore by root."""
    if os.geteuid() == 0:
        owner = (database if database.stat().st_size else database.parent).stat()
        for path in (fresh, database.with_suffix(".lock")):
            os.chown(path, owner.st_uid, owner.st_gid)


def _keep(database: Path, stamp: str) -> Path:
    """Give a database and its log files a second name, and return it."""
    _empty_log(database)
    aside = database.with_name(f"{database.name}.before-{stamp}")
    for suffix in ("-wal", "-journal", ""):  # the database file last: the copy is valid once all of it exists
        part = database.with_name(database.name + suffix)
        if part.exists():
            _link(part, aside.with_name(aside.name + suffix))
    sync(database.parent)
    return aside


def _empty_log(database: Path) -> None:
    """Write the log into the database file; leave a damaged one unchanged."""
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
    """Give a file a second name; copy it if the file system has no links."""
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
    """Return if a file is a sound proxyd database; otherwise raise ``NotFoundError`` or ``StoreError``.

    Fails once ``over`` is set.
    """
    if not path.is_file():
        raise NotFoundError(f"{path}: no such file; name one that `proxyd backup` wrote")
    with store_errors(), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        end_when(over, connection)
        try:
            _refuse_programs(path, connection)
            said = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
                raise
            raise StoreError(f"{path} is not a database of proxyd") from error
        if said != "ok":
            raise StoreError(f"{path} is damaged: {said}; use another backup")
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
            raise StoreError(f"{path} is not a database of proxyd")


def _refuse_programs(path: Path, connection: sqlite3.Connection) -> None:
    """Raise ``StoreError`` if a file does what no database of proxyd does: it would run in the daemon ever after."""
    programs = connection.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE type IN ('trigger', 'view') OR sql LIKE 'CREATE VIRTUAL%'"
    )
    found = next((row for row in programs if row[2] not in WORDS_IN_SQLITE), None)
    if found is not None:
        raise StoreError(f"{path} holds the {found[0]} {visible(str(found[1]))[:60]!r}, which proxyd did not make")


async def vacuum(database: str | Path) -> None:
    """Free the space of deleted rows and renew the statistics; no daemon may use the database."""
    async with owned_connections(database) as connections:
        await connections.upkeep.vacuum(whole=True)
