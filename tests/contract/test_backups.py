"""Backups of every kind of database come back as they were; what is damaged or in use is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxyd.errors import ConflictError, NotFoundError, StoreError
from proxyd.model.chronon import ChrononGrid
from proxyd.model.outcome import OutcomeKind, ProbeOutcome
from proxyd.ports import Wanted
from proxyd.rules import Notification, Observation, SourceState
from proxyd.store import SqlStore, back_up, open_store, owner_lock, restore, vacuum
from tests.contract.test_store import ENDPOINT
from tests.servers import PostgresServer

GRID = ChrononGrid(10.0)


async def put(store: SqlStore, name: str) -> None:
    outcome = ProbeOutcome(name, OutcomeKind.CHANGED, 1.0, 2.0, 200)
    sent = Notification(name, "r", name, 1.0, 2.0, False, name.encode(), (ENDPOINT,))
    await store.record(Observation(SourceState(name, f"https://{name}.example/"), outcome, notifications=(sent,)))


async def names(database: str | Path) -> list[str]:
    async with open_store(database, GRID) as store:
        found = await store.find_notifications(Wanted(), before=None, limit=9)
        return sorted(row["notification_id"] for row in found)


async def test_a_backup_made_while_a_daemon_writes_is_one_state_of_it(
    store: SqlStore, database: str | Path, tmp_path: Path
) -> None:
    backup = tmp_path / "backup.db"
    await put(store, "before")
    await back_up(database, backup)
    await put(store, "after")
    assert await names(backup) == ["before"]
    assert backup.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConflictError, match="is there already"):
        await back_up(database, backup)


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
    with pytest.raises(StoreError, match="not a database"):
        await restore(database, tmp_path / "diary.db", stamp="now")
    with pytest.raises(NotFoundError, match="no such file"):
        await restore(database, tmp_path / "none.db", stamp="now")
    assert await names(database) == ["kept"]


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
