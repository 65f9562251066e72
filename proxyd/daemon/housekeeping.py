"""Wall-clock chores under APScheduler: retention, checkpoints, backup, disk. Nothing here decides about probes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from proxyd.daemon.vitals import measure_disk
from proxyd.metrics import Metrics
from proxyd.ports import Clock
from proxyd.rules import iso_time
from proxyd.store import SqlStore, check_file
from proxyd.store.sqlite import sync

_KEPT_BACKUPS = 7
_STAMP = "proxyd-%Y%m%dT%H%M%SZ.db"
log = structlog.get_logger("housekeeping")


@dataclass(frozen=True, slots=True)
class Chores:
    """What is looked after: ``backup`` is where copies go, ``data`` lies on the disk that must not fill up.

    ``patience_s`` is how long the end waits for what is under way.
    """

    retention_s: float
    backup: Path | None = None
    data: Path | None = None
    patience_s: float = 10.0


@asynccontextmanager
async def housekeeping(store: SqlStore, clock: Clock, metrics: Metrics, chores: Chores) -> AsyncIterator[None]:
    """Run the chores while the context is open; leaving waits a while for the one under way."""

    async def expire() -> None:
        deleted = await store.expire(clock.time_s(), retention_s=chores.retention_s)
        log.info("expired", rows=deleted)

    async def copy() -> None:
        if chores.backup is not None:
            await back_up(store, chores.backup, clock.time_s())
            metrics.backup_s.set(clock.time_s())

    async def look() -> None:
        if chores.data is not None:
            await measure_disk(chores.data, metrics)

    await look()
    if chores.backup is not None:
        newest_s = await asyncio.to_thread(newest_backup_s, chores.backup)
        metrics.backup_s.set(clock.time_s() if newest_s is None else newest_s)
    turn = asyncio.Lock()
    scheduler = make_scheduler()
    scheduler.add_job(_in_turn(turn, store.upkeep.checkpoint), "interval", seconds=60, id="checkpoint")
    scheduler.add_job(look, "interval", seconds=60, id="disk")
    scheduler.add_job(_in_turn(turn, expire), "interval", hours=1, id="expiry")
    scheduler.add_job(_in_turn(turn, copy), "cron", hour=3, minute=17, id="backup")
    scheduler.add_job(_in_turn(turn, store.upkeep.vacuum), "cron", hour=4, minute=17, id="vacuum")
    scheduler.start()
    try:
        yield
    finally:
        scheduler.pause()
        with suppress(TimeoutError):  # shutting down cancels a chore in the middle
            async with asyncio.timeout(chores.patience_s):
                await turn.acquire()
        scheduler.shutdown(wait=False)


def make_scheduler() -> AsyncIOScheduler:
    """Return a scheduler whose late jobs still run, once; its default would skip them after one second."""
    defaults = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
    return AsyncIOScheduler(timezone=UTC, job_defaults=defaults)


def _in_turn(turn: asyncio.Lock, chore: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        async with turn:
            await chore()

    return run


async def back_up(store: SqlStore, folder: Path, now_s: float) -> Path:
    """Write a copy of the database to ``folder``, keep the newest few and return its path."""
    target = folder / datetime.fromtimestamp(now_s, UTC).strftime(_STAMP)
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    unchecked = target.with_suffix(".part")  # a copy that was broken off must not count as one
    await asyncio.to_thread(unchecked.unlink, missing_ok=True)
    await store.upkeep.backup(unchecked)
    await asyncio.to_thread(check_file, unchecked)
    await asyncio.to_thread(unchecked.replace, target)
    await asyncio.to_thread(sync, folder)
    await asyncio.to_thread(_prune, folder)
    log.info("backup written", path=str(target), at=iso_time(now_s))
    return target


def newest_backup_s(folder: Path) -> float | None:
    """Return when the newest copy in a folder was made, as its name says; ``None`` where there is none."""
    copies = _copies(folder)
    return datetime.strptime(copies[-1].name, _STAMP).replace(tzinfo=UTC).timestamp() if copies else None


def _copies(folder: Path) -> list[Path]:
    """Return the copies in a folder, oldest first."""
    return sorted(folder.glob("proxyd-[0-9]*T[0-9]*Z.db"))


def _prune(folder: Path) -> None:
    for broken_off in folder.glob("proxyd-*.part"):
        broken_off.unlink()
    for old in _copies(folder)[:-_KEPT_BACKUPS]:
        old.unlink()
