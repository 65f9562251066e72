"""Backups of every kind of database come back as they were; what is damaged or in use is refused."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from sqlite3 import OperationalError
from threading import Event
from typing import Any

import pytest

from proxyd.core.errors import ConflictError, NotFoundError, StoreError
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.core.rules.known.state import Notification, SourceState
from proxyd.store.backups import (
    back_up,
    bring_back,
    check_file,
    copy_database,
    open_store,
    owner_lock,
    restore,
    upgrade_of,
    vacuum,
)
from proxyd.store.databases.sqlite import copy_file, sync
from proxyd.store.kept_files import kept_files
from proxyd.store.listed_rows import Wanted
from proxyd.store.sql_store import SqlStore
from tests.contract.test_store import ENDPOINT
from tests.databases import migrated_file
from tests.former import V0_1, former_file, former_postgresql
from tests.observations import observed
from tests.servers import PostgresServer

GRID = ChrononGrid(10.0)


async def put(store: SqlStore, name: str) -> None:
    outcome = ProbeOutcome(name, OutcomeKind.CHANGED, 1.0, 2.0, 200)
    sent = Notification(name, "r", name, 1.0, 2.0, False, name.encode(), (ENDPOINT,))
    await store.record(observed(SourceState(name, f"https://{name}.example/"), outcome, notifications=(sent,)))


async def names(database: str | Path) -> list[str]:
    async with open_store(database, GRID) as store:
        found = (await store.history.find_notifications(Wanted(), before=None, limit=9)).rows
        return sorted(row.notification_id for row in found)


async def test_a_backup_made_while_a_daemon_writes_is_one_state_of_it(
    store: SqlStore, database: str | Path, tmp_path: Path
) -> None:
    backup = tmp_path / "backup.db"
    await put(store, "before")
    await back_up(database, backup)
    await put(store, "after")
    assert await names(backup) == ["before"]
    assert backup.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConflictError, match="already exists"):
        await back_up(database, backup)


async def test_copies_of_a_file_and_checks_of_them_can_be_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, over = tmp_path / "p.db", Event()
    monkeypatch.setattr("proxyd.store.databases.sqlite._STEPS", 1)
    async with open_store(database, GRID) as store, store.writer.running():
        await put(store, "kept")
    over.set()
    with pytest.raises(StoreError, match="interrupted"):
        check_file(database, over)
    with pytest.raises(OperationalError, match="interrupted"):
        copy_file(database, tmp_path / "copy.db", over)


async def test_a_restored_database_is_what_was_backed_up(
    database: str | Path, tmp_path: Path, postgresql: PostgresServer
) -> None:
    backup = tmp_path / "backup.db"
    async with open_store(database, GRID) as store, store.writer.running():
        await put(store, "kept")
    await back_up(database, backup)
    for target in (tmp_path / "new" / "p.db", postgresql.create()):
        assert await restore(target, backup, stamp="now") is None
        assert await names(target) == ["kept"]


async def test_what_is_there_is_kept_aside_or_refused(database: str | Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.db"
    async with open_store(database, GRID) as store, store.writer.running():
        await put(store, "kept")
    await back_up(database, backup)
    async with open_store(database, GRID) as store, store.writer.running():
        await put(store, "newer")
    if isinstance(database, Path):
        aside = await restore(database, backup, stamp="now")
        assert aside == database.with_name("p.db.before-now")
        assert await names(aside) == ["kept", "newer"]
    else:
        with pytest.raises(StoreError, match="not empty"):
            await restore(database, backup, stamp="now")
        assert await names(database) == ["kept", "newer"]
        await restore(database, backup, stamp="now", replaces=True)
    assert await names(database) == ["kept"]


async def test_who_owned_the_database_owns_what_is_restored(tmp_path: Path) -> None:
    """Root restores what a daemon without rights is to open; others can give nothing away."""
    backup, old, new = tmp_path / "backup.db", tmp_path / "old" / "p.db", tmp_path / "new" / "p.db"
    for path in (backup, old, new):
        path.parent.mkdir(exist_ok=True)
    for path in (backup, old):
        async with open_store(migrated_file(path), GRID) as store, store.writer.running():
            await put(store, "kept")
    user = 10001 if os.geteuid() == 0 else os.geteuid()
    for path in (old, new.parent):
        os.chown(path, user, -1)
    for database in (old, new):
        await restore(database, backup, stamp="now")
        assert {path.stat().st_uid for path in (database, database.with_suffix(".lock"))} == {user}


def refuse(*_: object, **__: object) -> None:
    raise PermissionError(1, "no links here")


class KilledError(BaseException):
    """The process would be gone."""


def killed_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the ``number``-th change of names in folders, and those after it, not be made."""
    steps = count()

    def cut(function: Callable[..., Any]) -> Callable[..., Any]:
        def changed(*arguments: Any, **options: Any) -> Any:
            if next(steps) >= number:
                raise KilledError
            return function(*arguments, **options)

        return changed

    for name in ("link", "rename", "replace", "unlink"):
        monkeypatch.setattr(os, name, cut(getattr(os, name)))


async def left_behind(database: Path) -> None:
    """Make a database with a commit in its file and another one in its log, as who is killed leaves it."""
    whole = database.with_name("whole.db")
    async with open_store(migrated_file(whole), GRID) as store, store.writer.running():
        await put(store, "old")
        await store.upkeep.checkpoint()
        await put(store, "newest")
        for suffix in ("", "-wal"):
            shutil.copy(whole.with_name(whole.name + suffix), database.with_name(database.name + suffix))


@pytest.mark.parametrize("can_link", [True, False], ids=["linked", "copied"])
async def test_who_is_killed_while_restoring_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, can_link: bool
) -> None:
    backup = tmp_path / "backup.db"
    async with open_store(migrated_file(backup), GRID) as store, store.writer.running():
        await put(store, "kept")
    if not can_link:
        monkeypatch.setattr(os, "link", refuse)
    for number in count():
        database = tmp_path / str(number) / "p.db"
        database.parent.mkdir()
        await left_behind(database)
        with monkeypatch.context() as patched:
            killed_at(number, patched)
            try:
                await restore(database, backup, stamp="now")
            except KilledError:
                is_done = False
            else:
                is_done = True
        found = await names(database)
        assert found in (["kept"], ["newest", "old"])
        if found == ["kept"]:
            assert await names(database.with_name("p.db.before-now")) == ["newest", "old"]
        if is_done:
            assert found == ["kept"]
            break


async def test_a_backup_takes_the_place_of_a_damaged_database_which_is_kept(tmp_path: Path) -> None:
    database, backup = tmp_path / "p.db", tmp_path / "backup.db"
    async with open_store(migrated_file(backup), GRID) as store, store.writer.running():
        await put(store, "kept")
    database.write_bytes(b"my diary")
    database.with_name("p.db-wal").write_bytes(b"and its log")
    aside = await restore(database, backup, stamp="now")
    assert aside is not None
    assert aside.read_bytes() == b"my diary"
    assert await names(database) == ["kept"]


async def test_a_link_to_the_database_stays_and_what_a_killed_restore_left_goes(tmp_path: Path) -> None:
    disk, backup = tmp_path / "disk", tmp_path / "backup.db"
    disk.mkdir()
    for path in (disk / "p.db", backup):
        async with open_store(migrated_file(path), GRID) as store, store.writer.running():
            await put(store, path.stem)
    link = tmp_path / "here" / "link.db"
    link.parent.mkdir()
    link.symlink_to(disk / "p.db")
    (disk / "proxyd-restore-abc").mkdir()
    (disk / "proxyd-restore-abc" / "restored.db").write_text("half")
    aside = await restore(link, backup, stamp="now")
    assert aside == disk / "p.db.before-now"
    assert (link.is_symlink(), await names(link), await names(aside)) == (True, ["backup"], ["p"])
    assert list(disk.glob("proxyd-restore-*")) == []


async def test_a_copy_has_its_name_only_once_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database, backup = migrated_file(tmp_path / "p.db"), tmp_path / "backup.db"
    (tmp_path / ".backup.db.part").write_text("of one that was killed")

    async def checked(path: Path) -> None:
        assert not backup.exists()
        check_file(path)

    monkeypatch.setattr("proxyd.store.backups.check_copy", checked)
    await back_up(database, backup, {"profiles/a.profile": "-- a"})
    assert kept_files(backup) == {"profiles/a.profile": "-- a"}
    assert not (tmp_path / ".backup.db.part").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", "a newer proxyd created them"),
        ("DROP TABLE items", "lacks items"),
        ("ALTER TABLE tokens RENAME COLUMN name TO label", "lacks tokens.name"),
        ("ALTER TABLE tokens ADD COLUMN x AS (hex(zeroblob(999)))", "holds the 'column tokens.x'"),
    ],
)
async def test_what_is_not_as_proxyd_made_it_is_no_backup(tmp_path: Path, change: str, said: str) -> None:
    backup = migrated_file(tmp_path / "backup.db")
    with closing(sqlite3.connect(backup)) as connection, connection:
        connection.execute(change)
    with pytest.raises(StoreError, match=said):
        check_file(backup)
    with pytest.raises(StoreError, match=said):
        await restore(tmp_path / "p.db", backup, stamp="now")


async def test_what_is_kept_aside_is_not_overwritten(tmp_path: Path) -> None:
    database, backup = tmp_path / "p.db", tmp_path / "backup.db"
    for path in (backup, database):
        async with open_store(migrated_file(path), GRID) as store, store.writer.running():
            await put(store, path.stem)
    aside = database.with_name("p.db.before-now")
    aside.write_bytes(b"of a moment ago")
    with pytest.raises(StoreError, match="exists"):
        await restore(database, backup, stamp="now")
    assert aside.read_bytes() == b"of a moment ago"
    assert await names(database) == ["p"]


async def test_a_copy_and_a_restored_database_are_on_the_disk_before_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []

    def note(handle: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{handle}").readlink()))

    database, nightly, backup = tmp_path / "p.db", tmp_path / "nightly" / "n.db", tmp_path / "by-hand" / "b.db"
    async with open_store(database, GRID) as store, store.writer.running():
        await put(store, "kept")
        monkeypatch.setattr(os, "fsync", note)
        for folder in (nightly.parent, backup.parent):
            folder.mkdir()
        await store.upkeep.backup(nightly)
        assert synced[-2:] == [str(nightly), str(nightly.parent)]
        await back_up(database, backup)
        assert synced[-3:] == [str(backup.with_name(f".{backup.name}.part")), *[str(backup.parent)] * 2]
    await restore(database, backup, stamp="now")
    assert synced[-1] == str(tmp_path)
    assert any(Path(path).name == "restored.db" for path in synced)


@pytest.mark.parametrize(
    "name",
    [
        "a#b.db",
        "a%41.db",
        "a?mode=memory",
        *(pytest.param(name, marks=pytest.mark.long) for name in ("a?b.db", "a b.db")),
    ],
)
async def test_a_database_of_any_name_is_copied_restored_and_moved(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    database, nightly = folder / name, tmp_path / f"nightly-{name}"
    folder.mkdir()
    async with open_store(database, GRID) as store, store.writer.running():
        await put(store, "kept")
        await store.upkeep.backup(nightly)
    assert [path.name for path in folder.iterdir()] == [name]
    await back_up(database, tmp_path / f"by-hand-{name}")
    await copy_database(database, tmp_path / f"copied-{name}")
    await restore(folder / f"restored-{name}", nightly, stamp="now")
    made = [nightly, *(tmp_path / f"{how}-{name}" for how in ("by-hand", "copied")), folder / f"restored-{name}"]
    assert [await names(path) for path in made] == [["kept"]] * 4


async def test_a_damaged_file_takes_the_place_of_nothing(tmp_path: Path) -> None:
    database, backup = tmp_path / "p.db", tmp_path / "backup.db"
    async with open_store(database, GRID) as store, store.writer.running():
        await put(store, "kept")
    await back_up(database, backup)
    pages = bytearray(backup.read_bytes())
    pages[8192:12288] = b"\xff" * 4096
    backup.write_bytes(pages)
    with pytest.raises(StoreError, match=r"backup.db is damaged|malformed"):
        await restore(database, backup, stamp="now")
    (tmp_path / "diary.db").write_bytes(b"my diary")
    with pytest.raises(StoreError, match=r"diary.db is not a database of proxyd$"):
        await restore(database, tmp_path / "diary.db", stamp="now")
    with pytest.raises(NotFoundError, match="no such file"):
        await restore(database, tmp_path / "none.db", stamp="now")
    assert await names(database) == ["kept"]


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TRIGGER t AFTER INSERT ON probes BEGIN DELETE FROM tokens; END",
        "CREATE VIEW v AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n",
        "CREATE VIRTUAL TABLE w USING fts5(x)",
        "CREATE INDEX evil ON items(length(hex(zeroblob(400000000 + seq))))",
        "CREATE INDEX evil ON items(seq) WHERE length(zeroblob(seq)) > 9",
        "CREATE TABLE more (x TEXT CHECK (length(zeroblob(9)) > 0))",
        "CREATE TABLE more (x TEXT DEFAULT (hex(zeroblob(9))))",
        f"ALTER TABLE probes ADD COLUMN more TEXT DEFAULT '{'x' * 101}'",
    ],
)
async def test_a_backup_that_brings_programs_is_refused(made: str, tmp_path: Path) -> None:
    database, backup = tmp_path / "p.db", tmp_path / "backup.db"
    async with open_store(database, GRID) as store, store.writer.running():
        await put(store, "kept")
    await back_up(database, backup)
    with closing(sqlite3.connect(backup)) as connection:
        connection.execute(made)
        connection.commit()
    with pytest.raises(StoreError, match="which proxyd did not make"):
        await restore(database, backup, stamp="now")
    assert await names(database) == ["kept"]


async def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(NotFoundError, match="no such file"):
            await restore(tmp_path / "p.db", path, stamp="now")


async def test_a_database_that_a_daemon_holds_is_not_replaced(tmp_path: Path) -> None:
    database, backup = tmp_path / "p.db", tmp_path / "backup.db"
    async with open_store(database, GRID):
        await back_up(database, backup)
    with owner_lock(database), pytest.raises(StoreError, match="in use by another proxyd"):
        await restore(database, backup, stamp="now")


async def test_a_vacuumed_database_holds_what_it_held(database: str | Path) -> None:
    async with open_store(database, GRID) as store, store.writer.running():
        await put(store, "kept")
        await store.upkeep.vacuum()
    await vacuum(database)
    assert await names(database) == ["kept"]


async def test_a_backup_into_no_folder_or_of_no_database_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such folder; create it first"):
        await back_up(tmp_path / "p.db", tmp_path / "nowhere" / "copy.db")
    with pytest.raises(NotFoundError, match="no such database; check the setting database"):
        await back_up(tmp_path / "p.db", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_a_database_of_another_program_is_no_backup(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE places (name TEXT)")
    with pytest.raises(StoreError, match=r"other\.db is not a database of proxyd"):
        check_file(tmp_path / "other.db")


def test_a_file_system_that_cannot_sync_folders_is_enough_but_not_one_that_loses_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_handle: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fail)
    (tmp_path / "p.db").touch()
    sync(tmp_path)
    with pytest.raises(OSError, match="Invalid argument"):
        sync(tmp_path / "p.db")


async def test_what_an_upgrade_would_change_is_read_and_postgresql_is_not_brought_back_from_a_file(
    postgresql: PostgresServer, tmp_path: Path
) -> None:
    address = await former_postgresql(former_file(V0_1, tmp_path / "old.db"), postgresql.create())
    found = await upgrade_of(address)
    assert (found and found.schema) == "0016"
    with pytest.raises(NotFoundError, match="`proxyd restore --replace` of the version before"):
        await bring_back(address, stamp="now")
    assert await upgrade_of(postgresql.create_migrated()) is None
    assert await upgrade_of(tmp_path / "missing.db") is None
