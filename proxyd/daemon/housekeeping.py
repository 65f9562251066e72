"""Wall-clock chores under APScheduler: retention, checkpoints, backup, expiry. Nothing here decides about probes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from proxyd.ports import Clock
from proxyd.rules import iso_time
from proxyd.store import SqlStore

_KEPT_BACKUPS = 7
log = structlog.get_logger("housekeeping")


@asynccontextmanager
async def housekeeping(
    store: SqlStore, clock: Clock, *, retention_s: float, backup: Path | None
) -> AsyncIterator[None]:
    """Run the chores while the context is open; leaving waits for the one under way."""

    async def expire() -> None:
        deleted = await store.expire(clock.time_s(), retention_s=retention_s)
        log.info("expired", rows=deleted)

    async def copy() -> None:
        if backup is not None:
            await back_up(store, backup, clock.time_s())

    turn = asyncio.Lock()
    scheduler = make_scheduler()
    scheduler.add_job(_in_turn(turn, store.upkeep.checkpoint), "interval", seconds=60, id="checkpoint")
    scheduler.add_job(_in_turn(turn, expire), "interval", hours=1, id="expiry")
    scheduler.add_job(_in_turn(turn, copy), "cron", hour=3, minute=17, id="backup")
    scheduler.add_job(_in_turn(turn, store.upkeep.vacuum), "cron", hour=4, minute=17, id="vacuum")
    scheduler.start()
    try:
        yield
    finally:
        scheduler.pause()
        async with turn:  # shutting down would cancel a chore in the middle
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
    stamp = datetime.fromtimestamp(now_s, UTC).strftime("%Y%m%dT%H%M%SZ")
    target = folder / f"proxyd-{stamp}.db"
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    await store.upkeep.backup(target)
    await asyncio.to_thread(_prune, folder)
    log.info("backup written", path=str(target), at=iso_time(now_s))
    return target


def _prune(folder: Path) -> None:
    for old in sorted(folder.glob("proxyd-*.db"))[:-_KEPT_BACKUPS]:
        old.unlink()
