"""Chores under APScheduler: late ones still run, and leaving does not cut one off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from proxyd.daemon.housekeeping import back_up, housekeeping, make_scheduler
from proxyd.model.chronon import ChrononGrid
from proxyd.store import SqlStore, open_store
from proxyd.store.sqlite import sqlite_connections
from tests.fakes import FakeClock


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqlStore]:
    async with open_store(tmp_path / "p.db", ChrononGrid(10.0)) as opened, opened.writer.running():
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
        async with asyncio.timeout(5.0):
            await done.wait()
    finally:
        scheduler.shutdown(wait=False)
    assert ran == [1]


async def test_housekeeping_starts_and_ends_with_its_context(store: SqlStore) -> None:
    async with housekeeping(store, FakeClock(), retention_s=1.0, backup=None):
        await store.ping()


async def test_only_the_newest_backups_are_kept(store: SqlStore, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    for day in range(9):
        await back_up(store, folder, day * 86400.0)
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 7
    assert names[-1] == "proxyd-19700109T000000Z.db"


async def test_sqlite_is_opened_the_way_that_loses_nothing(tmp_path: Path) -> None:
    """The trap: SQLite before 3.51.3 can damage a WAL that two connections write or checkpoint."""
    async with sqlite_connections(tmp_path / "p.db") as opened:
        found = {}
        for name, connections in (("writer", opened.writer), ("reader", opened.readers), ("people", opened.people)):
            for pragma in ("journal_mode", "wal_autocheckpoint", "synchronous", "query_only", "mmap_size"):
                found[name, pragma] = await connections.call(partial(_pragma, pragma))
    assert found["writer", "journal_mode"] == "wal"
    assert found["writer", "wal_autocheckpoint"] == 0
    assert found["writer", "synchronous"] == 2
    assert found["reader", "query_only"] == found["people", "query_only"] == 1
    assert not found["writer", "mmap_size"]


def _pragma(name: str, connection: Connection) -> object:
    return connection.execute(text(f"PRAGMA {name}")).scalar()
