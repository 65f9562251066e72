"""Chores under APScheduler: late ones still run, and leaving does not cut one off."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import structlog
from sqlalchemy import Connection, func, insert, select, text

from proxyd.base.metrics import Metrics
from proxyd.config.loading import load
from proxyd.config.settings import Settings
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.outcome import Picture
from proxyd.daemon.housekeeping import Housekeeping, back_up, make_scheduler, newest_backup_s, nightly_copies
from proxyd.store.backups import open_store
from proxyd.store.databases.sqlite import sqlite_connections
from proxyd.store.databases.tables import texts
from proxyd.store.listed_rows import Wanted
from proxyd.store.sql_store import SqlStore
from tests.databases import migrated_file
from tests.fakes import FakeClock
from tests.fleets import Drive, changed, decider, declaration, item, rule, source


def settings(**chosen: Any) -> Settings:
    return load(environ={}, **chosen)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    async with open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(10.0)) as opened, opened.writer.running():
        yield opened


async def test_a_job_that_is_an_hour_late_still_runs_once() -> None:
    """The trap: by default APScheduler skips silently what is more than a second late."""
    ran: list[int] = []
    done = asyncio.Event()

    async def job() -> None:
        ran.append(1)
        done.set()

    scheduler = make_scheduler()
    scheduler.add_job(job, "interval", seconds=60, next_run_time=datetime.now(UTC) - timedelta(hours=1))
    scheduler.start()
    try:
        async with asyncio.timeout(60.0):
            await done.wait()
    finally:
        scheduler.shutdown(wait=False)
    assert ran == [1]


async def test_housekeeping_starts_and_ends_with_its_context(store: SqlStore) -> None:
    async with Housekeeping(store, FakeClock(), Metrics(), settings()).running():
        await store.writer.ping()


async def test_it_may_end_before_it_has_started(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    ran, scheduler = [], make_scheduler()

    async def checkpoint(_upkeep: object) -> None:
        ran.append(1)

    monkeypatch.setattr(type(store.upkeep), "checkpoint", checkpoint)
    monkeypatch.setattr(scheduler, "add_job", partial(scheduler.add_job, next_run_time=datetime.now(UTC)))
    monkeypatch.setattr("proxyd.daemon.housekeeping.make_scheduler", lambda: scheduler)
    keeping = Housekeeping(store, FakeClock(), Metrics(), settings())
    await keeping.drain(1e9)
    async with asyncio.timeout(30.0), keeping.running():
        for _ in range(5):
            await asyncio.sleep(0)
    assert not ran


async def test_a_chore_that_hangs_does_not_hold_up_the_end_and_is_no_error(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begun, scheduler = asyncio.Event(), make_scheduler()

    async def hang(_upkeep: object) -> None:
        begun.set()
        await asyncio.Future()

    monkeypatch.setattr(type(store.upkeep), "checkpoint", hang)
    monkeypatch.setattr(scheduler, "add_job", partial(scheduler.add_job, next_run_time=datetime.now(UTC)))
    monkeypatch.setattr("proxyd.daemon.housekeeping.make_scheduler", lambda: scheduler)
    async with asyncio.timeout(30.0):
        keeping = Housekeeping(store, FakeClock(), Metrics(), settings())
        async with keeping.running():
            await begun.wait()
            await keeping.drain(0.01)
        for _ in range(3):  # the scheduler tells of what was cancelled
            await asyncio.sleep(0)
    assert not caplog.records


async def test_the_end_breaks_off_a_copy_however_long_it_might_wait(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, scheduler, folder = asyncio.Event(), make_scheduler(), tmp_path / "backups"

    async def begin(_upkeep: object, target: Path) -> None:
        await asyncio.to_thread(target.write_text, "half")
        begun.set()
        await asyncio.Future()

    monkeypatch.setattr(type(store.upkeep), "backup", begin)
    monkeypatch.setattr(scheduler, "add_job", partial(scheduler.add_job, next_run_time=datetime.now(UTC)))
    monkeypatch.setattr("proxyd.daemon.housekeeping.make_scheduler", lambda: scheduler)
    metrics = Metrics()
    keeping = Housekeeping(store, FakeClock(1e9), metrics, settings(backup=folder))
    async with asyncio.timeout(30.0), keeping.running():
        metrics.backup_s.set(5.0)
        await begun.wait()
        await keeping.drain(1e9)
    assert list(folder.iterdir()) == []
    assert metrics.registry.get_sample_value("proxyd_last_backup_timestamp_seconds") == 5.0


async def test_what_waited_for_its_turn_is_not_begun_at_the_end(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, order = asyncio.Event(), []

    async def copy(_upkeep: object, _target: Path) -> None:
        begun.set()
        await asyncio.Future()

    async def vacuum(_upkeep: object) -> None:
        order.append("vacuum")

    monkeypatch.setattr(type(store.upkeep), "backup", copy)
    monkeypatch.setattr(type(store.upkeep), "vacuum", vacuum)
    keeping = Housekeeping(store, FakeClock(1e9), Metrics(), settings(backup=tmp_path / "backups"))
    async with asyncio.timeout(30.0), keeping.running():
        copying = asyncio.ensure_future(keeping._in_turn(keeping._copy)())
        await begun.wait()
        waiting = asyncio.ensure_future(keeping._in_turn(store.upkeep.vacuum)())
        await asyncio.sleep(0)
        await keeping.drain(1e9)
        waiting.cancel()
        await asyncio.wait((copying, waiting))
    assert order == []


async def test_only_the_newest_backups_are_kept(store: SqlStore, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    for day in range(9):
        await back_up(store, folder, day * 86400.0, copies=3, texts={"profiles/a.profile": "-- a"})
    (folder / "proxyd-2026-01-01T00:00:00Z.db").touch()  # somebody else's
    assert newest_backup_s(folder) == 8 * 86400.0
    (folder / "proxyd-2026-01-01T00:00:00Z.db").unlink()
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 3
    assert names[-1] == "proxyd-19700109T000000Z.db"
    assert newest_backup_s(folder) == 8 * 86400.0


async def sample(store: SqlStore, chosen: Settings, name: str) -> float | None:
    metrics = Metrics()
    async with Housekeeping(store, FakeClock(1e9), metrics, chosen).running():
        return metrics.registry.get_sample_value(name)


async def test_the_newest_backup_is_known_from_the_start(store: SqlStore, tmp_path: Path) -> None:
    name, folder = "proxyd_last_backup_timestamp_seconds", tmp_path / "backups"
    assert await sample(store, settings(backup="off"), name) == 0.0
    assert await sample(store, settings(backup=folder), name) == 1e9  # there is none yet: counted from now on
    await back_up(store, folder, 5 * 86400.0, copies=7, texts={})
    assert await sample(store, settings(backup=folder), name) == 5 * 86400.0


async def test_the_disk_of_the_database_is_measured(store: SqlStore, tmp_path: Path) -> None:
    size = shutil.disk_usage(tmp_path).total
    assert await sample(store, settings(database=str(tmp_path / "p.db")), "proxyd_disk_size_bytes") == size
    free = await sample(store, settings(database=str(tmp_path / "p.db")), "proxyd_disk_free_bytes")
    assert free is not None
    assert 0 < free <= size
    assert await sample(store, settings(database=str(tmp_path / "gone" / "p.db")), "proxyd_disk_free_bytes") == 0.0


async def test_a_new_daemon_counts_its_items_each_minute(store: SqlStore) -> None:
    metrics, drive = Metrics(), Drive(decider(declaration(source("s"), rule("r")), now_s=1e9))
    keeping = Housekeeping(store, FakeClock(1e9), metrics, settings())
    await keeping._measure_few()
    await store.record(await drive.see(changed("s", [item("first", 1e9)], 1e9)))
    await keeping._measure_few()
    assert metrics.registry.get_sample_value("proxyd_items_stored") == 1


async def test_sqlite_is_opened_the_way_that_loses_nothing(tmp_path: Path) -> None:
    """The trap: SQLite before 3.51.3 can damage a WAL that two connections write or checkpoint."""
    async with sqlite_connections(tmp_path / "p.db") as opened:
        found = {}
        for name, connections in (("writer", opened.writer), ("reader", opened.readers), ("people", opened.people)):
            for pragma in ("journal_mode", "wal_autocheckpoint", "synchronous", "query_only", "mmap_size"):
                found[name, pragma] = await connections.call(partial(_pragma, pragma))
    assert found["writer", "journal_mode"] == "wal"
    assert found["writer", "wal_autocheckpoint"] == 2000
    assert found["writer", "synchronous"] == 2
    assert found["reader", "query_only"] == found["people", "query_only"] == 1
    assert not found["writer", "mmap_size"]


def _pragma(name: str, connection: Connection) -> object:
    return connection.execute(text(f"PRAGMA {name}")).scalar()


async def test_what_is_past_its_retention_is_deleted_and_counted_in_the_log(store: SqlStore) -> None:
    drive = Drive(decider(declaration(source("s"), rule("r")), now_s=1e9))
    for at_s, name in ((1e9, "first"), (1e9 + 60.0, "second")):
        await store.record(await drive.see(changed("s", [item(name, at_s)], at_s)))
    keeping = Housekeeping(store, FakeClock(1e9 + 300 * 86400.0), Metrics(), settings())
    with structlog.testing.capture_logs() as logged:
        await keeping._in_turn(keeping._expire)()
        await keeping._in_turn(keeping._expire)()
    first, second = (each["rows"] for each in logged if each["event"] == "expired")
    assert first > 0
    assert second == 0


async def test_a_nightly_copy_is_noted_and_clears_away_what_was_broken_off(store: SqlStore, tmp_path: Path) -> None:
    folder, metrics = tmp_path / "backups", Metrics()
    folder.mkdir()
    (folder / "proxyd-19990101T000000Z.part").write_text("half")
    keeping = Housekeeping(store, FakeClock(1e9), metrics, settings(backup=folder))
    await keeping._in_turn(keeping._copy)()
    assert [path.name for path in folder.iterdir()] == ["proxyd-20010909T014640Z.db"]
    assert metrics.registry.get_sample_value("proxyd_last_backup_timestamp_seconds") == 1e9


async def test_pictures_above_their_size_go_with_what_is_past_its_retention(store: SqlStore) -> None:
    drive = Drive(decider(declaration(source("s"), rule("r", clauses="SET SCREENSHOT")), now_s=1e9))
    for number, name in enumerate(("first", "second", "third")):
        outcome = changed("s", [item(name, 1e9 + 60.0 * number)], 1e9 + 60.0 * number)
        await store.record(await drive.see(replace(outcome, picture=Picture("image/png", b"%100d" % number))))
    await Housekeeping(store, FakeClock(1e9), Metrics(), settings(pictures_bytes=150))._expire()
    listed = (await store.history.find_notifications(Wanted(), before=None, limit=9)).rows
    found = [await store.history.picture(each.notification_id) for each in listed]
    assert found == [Picture("image/png", b"%100d" % 2), None, None]


async def test_the_log_of_sqlite_is_bounded_and_written_back_at_the_start(tmp_path: Path) -> None:
    database, log = tmp_path / "d.db", tmp_path / "d.db-wal"
    row = {"origin": "file", "position": 0, "text": "x" * 1_000_000}
    longest = 0
    async with open_store(database, ChrononGrid(10.0)) as store, store.writer.running():
        for number in range(60):
            write = partial(Connection.execute, statement=insert(texts), parameters=[row | {"name": str(number)}])
            await store.writer.submit(write)
            longest = max(longest, log.stat().st_size)
        for file in (database, log):
            # as a process leaves them that ends at once
            (tmp_path / f"{file.name}.left").write_bytes(file.read_bytes())
    assert 1_000_000 < longest < 20_000_000
    for file in (database, log):
        file.write_bytes((tmp_path / f"{file.name}.left").read_bytes())
    async with open_store(database, ChrononGrid(10.0)) as store:
        assert log.stat().st_size == 0
        assert (await store.read(select(func.count()).select_from(texts)))[0][0] == 60


def test_copies_are_made_beside_a_database_file_unless_told_otherwise(tmp_path: Path) -> None:
    database = str(tmp_path / "p.db")
    assert settings(database=database).backup_folder == tmp_path / "backups"
    assert settings(database=database, backup=tmp_path / "b").backup_folder == tmp_path / "b"
    assert settings(database=database, backup="off").backup_folder is None
    assert load(environ={"PROXYD_BACKUP": ""}, database=database).backup_folder is None
    assert settings(database="postgresql://me@db.example/proxyd").backup_folder is None


async def test_a_machine_that_was_off_at_night_makes_its_copy_after_the_start(store: SqlStore, tmp_path: Path) -> None:
    clock, metrics = FakeClock(1e9), Metrics()
    keeping = Housekeeping(store, clock, metrics, settings(database=str(tmp_path / "p.db")))
    await keeping._copy_if_old()
    assert newest_backup_s(tmp_path / "backups") == 1e9
    assert metrics.registry.get_sample_value("proxyd_last_backup_timestamp_seconds") == 1e9
    await clock.advance(3600.0)
    await keeping._copy_if_old()
    assert len(nightly_copies(tmp_path / "backups")) == 1


async def test_a_copy_that_would_fill_the_disk_is_not_made(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "p.db"
    free = 2 * database.stat().st_size
    monkeypatch.setattr(shutil, "disk_usage", lambda _: MagicMock(free=free))
    keeping = Housekeeping(store, FakeClock(1e9), Metrics(), settings(database=str(database)))
    with structlog.testing.capture_logs() as said:
        await keeping._copy()
    assert [each["event"] for each in said] == ["no room for a backup"]
    assert not (tmp_path / "backups").exists()
