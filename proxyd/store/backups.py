"""Opens a database, and backs it up: a copy of a SQLite or PostgreSQL database in one SQLite file, and its return."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    closing,
    contextmanager,
    nullcontext,
)
from glob import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import structlog
from sqlalchemy import Connection, NullPool, create_engine

from proxyd.core.errors import ConflictError, NotFoundError, StoreError
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.texts.safe_text import visible
from proxyd.store.databases.connections import StoreConnections, breakable, sqlite_url, store_errors
from proxyd.store.databases.schema import (
    Upgrade,
    copy_between,
    copy_from_file,
    find_upgrade,
    is_newest,
    migrate,
    refuse_lacking,
    upgrade,
)
from proxyd.store.databases.sqlite import copy_file, end_when, file_lock, sqlite_connections, sync
from proxyd.store.databases.tables import WORDS_IN_SQLITE, metadata
from proxyd.store.kept_files import drop_files, keep_files
from proxyd.store.lanes import end_all_claims
from proxyd.store.sql_store import SqlStore

log = structlog.get_logger("store")


async def back_up(database: str | Path, target: Path, texts: Mapping[str, str] | None = None) -> None:
    """Write a consistent copy to ``target``, which must not exist, and check it; a daemon may keep running.

    It holds ``texts`` too; see ``keep_files``.

    Raises ``NotFoundError``: the database does not exist; ``ConflictError``: ``target`` already exists; ``StoreError``:
    the database cannot be read, or the copy is damaged; then the database is damaged too.
    """
    _must_be_new(target)
    async with partial_copy(target, texts or {}) as part:
        if _is_postgresql(database):
            async with open_connections(database) as connections:
                await connections.upkeep.backup(part)
        else:
            over = Event()
            await breakable(asyncio.to_thread(_copy_from_daemon, Path(database), part, over), over.set)


def _must_be_new(target: Path) -> None:
    if target.exists():
        raise ConflictError(f"{target} already exists; name another file")
    if not target.parent.is_dir():
        raise NotFoundError(f"{target.parent}: no such folder; create it first")


_PART = ".part"
_MOST_OF_NAME = 50  # characters of four bytes each; a file system takes 255 bytes


@asynccontextmanager
async def partial_copy(target: Path, texts: Mapping[str, str]) -> AsyncIterator[Path]:
    """Yield where to write a copy, which gets its name once it holds ``texts`` too, and is sound.

    Whatever ends it before, also a kill, leaves nothing under that name: half a copy is useless.
    """
    part = target.with_name(f".{target.name[:_MOST_OF_NAME]}{_PART}")  # hidden, so that it is nobody's file
    await asyncio.to_thread(part.unlink, missing_ok=True)
    try:
        yield part
        if texts:
            await asyncio.to_thread(keep_files, part, texts)
        await check_copy(part)
        await asyncio.to_thread(part.replace, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    await asyncio.to_thread(sync, target.parent)


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
    PostgreSQL are deleted in the transaction that restores. Raises ``NotFoundError``: the backup does not exist;
    ``StoreError``: the backup is damaged or not a proxyd database, a daemon holds the database, or PostgreSQL is not
    empty.
    """
    await asyncio.to_thread(check_file, source)
    if not _is_postgresql(database):
        with owner_lock(database):
            return await asyncio.to_thread(_restore_file, Path(database), source, stamp)
    with _newest(source, folder=None) as newest:
        async with connect_alone(database) as connections:
            await migrate(connections.writer)
            await connections.writer.call(lambda target: _fill(target, newest, replaces=replaces))
    return None


def _restore_file(database: Path, source: Path, stamp: str) -> Path | None:
    folder = database.resolve().parent
    for left in folder.glob(f"{_RESTORING}*"):  # by a restore that was killed
        shutil.rmtree(left, ignore_errors=True)
    with _newest(source, folder=folder) as newest:
        return _put_in_place(database, newest, stamp)


async def upgrade_of(database: str | Path) -> Upgrade | None:
    """Return what starting this version would change in a database, which a daemon may use; see ``find_upgrade``."""
    if _is_postgresql(database):
        async with open_connections(database) as connections:
            return await connections.people.call(find_upgrade)
    return await asyncio.to_thread(_upgrade_of_file, Path(database))


def _upgrade_of_file(database: Path) -> Upgrade | None:
    if not database.exists():
        return None
    if not database.is_file():  # a pipe would be waited for
        raise StoreError(f"{database} is not a file; name another one in the setting database")
    with store_errors():
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as opened:
            _refuse_programs(database, opened)
        with _reading(database) as connection:
            return find_upgrade(connection)


def _reading(database: Path) -> AbstractContextManager[Connection]:
    """Open a database file only for reading; whoever uses it may go on."""
    uri = f"{database.absolute().as_uri()}?mode=ro"
    return create_engine("sqlite://", creator=lambda: sqlite3.connect(uri, uri=True), poolclass=NullPool).connect()


_FORMER_COPIES = 2  # the newest ones are kept; each is as large as the database


def former_copy(database: Path, schema: str) -> Path:
    """Return where a database file is copied before it is upgraded from a schema.

    >>> former_copy(Path("data/proxyd.db"), "0016")
    PosixPath('data/proxyd.db.schema-0016')
    """
    return database.with_name(f"{database.name}.schema-{schema}")


def _former_copies(database: Path) -> list[Path]:
    """Return the copies from before upgrades, oldest first."""
    found = database.parent.glob(former_copy(Path(escape(database.name)), "[0-9]*").name)
    return sorted((each for each in found if each.suffix != _PART), key=lambda path: path.stat().st_mtime)


async def _copy_former(connections: StoreConnections, database: Path) -> None:
    """Copy a database file that is about to be upgraded; raises ``StoreError`` if there is no room for it."""
    upgrade = await connections.writer.call(find_upgrade)
    if upgrade is None:
        return
    target = former_copy(database, upgrade.schema)
    try:
        async with partial_copy(target, {}) as part:
            await connections.upkeep.backup(part)
        for old in _former_copies(database)[:-_FORMER_COPIES]:
            old.unlink()
    except (OSError, StoreError) as error:
        raise StoreError(f"{database} cannot be copied before it is upgraded: {error}") from error
    log.info("the database is copied before it is upgraded", copy=str(target))


async def bring_back(database: str | Path, *, stamp: str) -> tuple[Path, float, Path | None]:
    """Put the copy from before the last upgrade in the place of a database file that no daemon holds.

    Returns the copy, which is used up, the Unix time at which it was made, and the new name of the upgraded database.
    Raises ``NotFoundError``: there is no copy; ``StoreError``: it is damaged, or a daemon holds the database.
    """
    if _is_postgresql(database):
        raise NotFoundError(
            "only database files are copied before an upgrade; use `proxyd restore --replace` of the version before"
        )
    with owner_lock(database):
        return await asyncio.to_thread(_bring_back, Path(database), stamp)


def _bring_back(database: Path, stamp: str) -> tuple[Path, float, Path | None]:
    if not (copies := _former_copies(database)):
        raise NotFoundError(f"there is no copy of {database} from before an upgrade; see `proxyd restore --help`")
    copy = copies[-1]
    check_file(copy)
    return copy, copy.stat().st_mtime, _put_in_place(database, copy, stamp)


_RESTORING = "proxyd-restore-"


@contextmanager
def _newest(source: Path, *, folder: Path | None) -> Iterator[Path]:
    """Yield a copy of a backup with the newest tables, in a folder within the one of the database, if it is a file."""
    with TemporaryDirectory(prefix=_RESTORING, dir=folder) as own:
        copy = Path(own) / "restored.db"
        with store_errors():
            copy_file(source, copy)  # including its log, if any
            drop_files(copy)
            engine = create_engine(sqlite_url(copy), poolclass=NullPool)
            with engine.begin() as connection:
                upgrade(connection)
                refuse_lacking(connection)
        yield copy


def _put_in_place(database: Path, fresh: Path, stamp: str) -> Path | None:
    """Move ``fresh`` into the database's place; return the new path of the old database, if there was one.

    A link to the database stays one.
    """
    database = database.resolve()
    # The database exists at every moment: if the process is killed, either the old or the new file is in place
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
        _refuse_programs(path, connection)
        said = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if said != "ok":
            raise StoreError(f"{path} is damaged: {said}; use another backup")
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
            raise StoreError(f"{path} is not a database of proxyd")
    with store_errors(), _reading(path) as connection:
        if is_newest(connection):
            refuse_lacking(connection)


def _refuse_programs(path: Path, connection: sqlite3.Connection) -> None:
    """Raise ``StoreError`` if a file does what no database of proxyd does: it would run in the daemon ever after."""
    try:
        programs = connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE type IN ('trigger', 'view') OR sql LIKE 'CREATE VIRTUAL%'"
        ).fetchall()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
            raise
        raise StoreError(f"{path} is not a database of proxyd") from error
    found = next((row for row in programs if row[2] not in WORDS_IN_SQLITE), None)
    if found is not None:
        raise StoreError(f"{path} holds the {found[0]} {visible(str(found[1]))[:60]!r}, which proxyd did not make")
    foreign = connection.execute(_FOREIGN).fetchone()
    if foreign is not None:
        raise StoreError(f"{path} holds the {visible(str(foreign[0]))[:60]!r}, which proxyd did not make")


# A check, an index or a default that calls a function runs it at each row that is written, a computed column at each
# that is read, and a default of a megabyte stands in every row without taking room in the file.
_FOREIGN = """SELECT type || ' ' || name FROM sqlite_master
    WHERE type = 'table' AND sql LIKE '%check%' OR type = 'index' AND length(replace(sql, '(', '')) <> length(sql) - 1
  UNION ALL SELECT 'column ' || t.name || '.' || c.name FROM sqlite_master t, pragma_table_xinfo(t.name) c
    WHERE t.type = 'table' AND (c.hidden > 1 OR c.dflt_value LIKE '%(%' OR length(c.dflt_value) > 100)"""


async def vacuum(database: str | Path) -> None:
    """Free the space of deleted rows and renew the statistics; no daemon may use the database."""
    async with connect_alone(database) as connections:
        await connections.upkeep.vacuum(whole=True)


_POSTGRESQL = ("postgresql:", "postgresql+asyncpg:")
_NO_LEASE_S = 0.0  # for sessions that do not lead: they keep their locks however long a copy takes


def _is_postgresql(database: str | Path) -> bool:
    """Return whether a database is given by a PostgreSQL URL.

    >>> _is_postgresql("postgresql+asyncpg://db.example/proxyd"), _is_postgresql("data/proxyd.db")
    (True, False)
    """
    return str(database).startswith(_POSTGRESQL)


def owner_lock(database: str | Path) -> AbstractContextManager[None]:
    """Hold a database file for this process only; PostgreSQL needs no such lock, as its sessions hold their own.

    Raises ``StoreError``: another process holds it, or its folder cannot be written.
    """
    return nullcontext() if _is_postgresql(database) else file_lock(Path(database))


def open_connections(
    database: str | Path, *, role: str = "store", lease_s: float = _NO_LEASE_S
) -> AbstractAsyncContextManager[StoreConnections]:
    """Open connections to a database: a file's path or a PostgreSQL URL."""
    if not _is_postgresql(database):
        return sqlite_connections(Path(database))
    from proxyd.store.databases.postgresql import postgresql_connections

    return postgresql_connections(str(database), name=role, lease_s=lease_s)


@asynccontextmanager
async def open_store(database: str | Path, grid: ChrononGrid, *, shared_s: float = 0.0) -> AsyncIterator[SqlStore]:
    """Open the database, migrate it to the newest schema and yield its store.

    The caller holds a file's ``owner_lock`` and runs ``store.writer.run()``. What may wait for a commit with others
    does so for up to ``shared_s`` seconds. Raises ``StoreError``: a daemon of another
    version uses the database.
    """
    async with open_connections(database) as connections:
        if not _is_postgresql(database):
            await _copy_former(connections, Path(database))
        elif not await connections.writer.call(is_newest):
            await _lock_out(connections)
        await migrate(connections.writer)
        await connections.upkeep.checkpoint()  # a process that ended at once may have left a long log
        if not _is_postgresql(database):  # nobody else has it: whoever claimed something has ended
            await connections.writer.call(end_all_claims)
        yield SqlStore(connections, grid, shared_s=shared_s)


@asynccontextmanager
async def connect_alone(database: str | Path) -> AsyncIterator[StoreConnections]:
    """Open connections to a database and keep every daemon out of it.

    Raises ``StoreError``: a daemon uses the database.
    """
    with owner_lock(database):
        async with open_connections(database) as connections:
            if _is_postgresql(database):
                await _lock_out(connections)
            yield connections


async def _lock_out(connections: StoreConnections) -> None:
    from proxyd.store.databases.postgresql import LOCK_OF, session_of

    for role, number in LOCK_OF.items():
        if not await session_of(connections).take_lock(number):
            raise StoreError(f"a daemon uses this database as {role}; stop every daemon that uses it first")


async def copy_database(source: str | Path, target: str | Path) -> dict[str, int]:
    """Copy a whole database to one that is empty or does not exist yet; return the number of rows in each table.

    It copies a single snapshot, completely or not at all; no daemon may use either database. Raises ``StoreError``: the
    target is not empty, the source lacks the newest tables, or a daemon uses one of them.
    """
    async with connect_alone(source) as reading, connect_alone(target) as writing:
        await migrate(writing.writer)
        return await copy_between(reading, writing)


async def migrate_database(database: str | Path) -> None:
    """Migrate a database that no daemon uses to the newest schema."""
    async with connect_alone(database) as connections:
        if not _is_postgresql(database):
            await _copy_former(connections, Path(database))
        await migrate(connections.writer)
