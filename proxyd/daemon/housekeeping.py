"""Wall-clock chores under APScheduler: retention, checkpoints, backups, disk space. They do not affect probes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from proxyd.base.metrics import Metrics
from proxyd.base.ports import Clock
from proxyd.config.profile_files import profiles_to_keep
from proxyd.config.settings import Settings
from proxyd.core.errors import ConfigError, ProfileError
from proxyd.core.model.field_values import iso_time
from proxyd.store.backups import partial_copy
from proxyd.store.plan_rows import expire_pictures
from proxyd.store.retention import ItemSizes, expire, expire_items, fitting_since_s, measure_items
from proxyd.store.sql_store import SqlStore

_DAY_S = 86400.0
_QUICKLY_COUNTED = 50_000  # items; to count ten million takes seconds
_STAMP = "proxyd-%Y%m%dT%H%M%SZ.db"
log = structlog.get_logger("housekeeping")


class Housekeeping:
    """Runs the chores, one at a time; measures the disk of the database if it is a file."""

    def __init__(self, store: SqlStore, clock: Clock, metrics: Metrics, settings: Settings) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._settings = settings
        self._turn = asyncio.Lock()
        self._ending = asyncio.Event()
        self._items = 0  # that are stored, as of the last count
        self._scheduler = make_scheduler()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the chores while the context is open; leaving it cancels the current one, so ``drain`` first."""
        await self._look()
        await self._note_newest()
        scheduler = self._scheduler
        scheduler.add_job(self._in_turn(self._store.upkeep.checkpoint), "interval", seconds=60, id="checkpoint")
        scheduler.add_job(self._look, "interval", seconds=60, id="disk")
        scheduler.add_job(self._in_turn(self._expire), "interval", hours=1, id="expiry")
        scheduler.add_job(self._in_turn(self._copy), "cron", hour=3, minute=17, id="backup")
        scheduler.add_job(self._in_turn(self._copy_if_old), "interval", hours=1, id="missed backup")
        scheduler.add_job(self._in_turn(self._store.upkeep.vacuum), "cron", hour=4, minute=17, id="vacuum")
        scheduler.add_job(self._in_turn(self._measure), id="first sizes")
        scheduler.add_job(self._in_turn(self._measure_few), "interval", seconds=60, id="sizes")
        scheduler.start()
        try:
            yield
        finally:
            self._ending.set()
            scheduler.shutdown(wait=False)

    async def drain(self, timeout_s: float) -> None:
        """Start no more chores; cancel a copy, and wait a while for any other chore."""
        self._ending.set()
        if self._scheduler.running:  # a signal may come before it is
            self._scheduler.pause()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._turn.acquire()

    def _in_turn(self, chore: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        async def run() -> None:
            try:
                async with self._turn:
                    if not self._ending.is_set():
                        await chore()
            except asyncio.CancelledError:  # the scheduler logs that as an error of the chore
                if not self._ending.is_set():
                    raise

        return run

    # -- chores

    async def _look(self) -> None:
        if self._settings.database_path is not None:
            await _measure_disk(self._settings.database_path.parent, self._metrics)

    async def _note_newest(self) -> None:
        if (folder := self._settings.backup_folder) is not None:
            newest_s = await asyncio.to_thread(newest_backup_s, folder)
            self._metrics.backup_s.set(self._clock.time_s() if newest_s is None else newest_s)

    async def _expire(self) -> None:
        deleted = await expire(self._store.writer, self._clock.time_s(), retention_s=self._settings.retention)
        deleted += await self._expire_items()
        deleted += await expire_pictures(self._store.writer, most_bytes=self._settings.pictures_bytes)
        log.info("expired", rows=deleted)

    async def _measure(self) -> None:
        self._show(await measure_items(self._store.read))

    async def _measure_few(self) -> None:
        # The page of a new daemon said "Items stored 0" for an hour.
        if self._items <= _QUICKLY_COUNTED:
            await self._measure()

    def _show(self, sizes: ItemSizes) -> None:
        self._items = sizes.items
        self._metrics.items_stored.set(sizes.items)
        self._metrics.items_bytes.set(sizes.total_bytes)

    async def _expire_items(self) -> int:
        sizes = await measure_items(self._store.read)
        since_s = fitting_since_s(sizes, self._settings.items_bytes)
        deleted = 0
        if since_s is not None:
            deleted = await expire_items(self._store.writer, since_s)
            sizes = await measure_items(self._store.read)
        self._show(sizes)
        return deleted

    async def _copy_if_old(self) -> None:
        """Make the copy that a machine which was off at night has missed."""
        folder = self._settings.backup_folder
        newest_s = None if folder is None else await asyncio.to_thread(newest_backup_s, folder)
        if newest_s is None or newest_s < self._clock.time_s() - _DAY_S:
            await self._copy()

    async def _copy(self) -> None:
        if (folder := self._settings.backup_folder) is None:
            return
        database = self._settings.database_path
        if database is not None and not await asyncio.to_thread(_has_room, folder, database):
            log.warning("no room for a backup", folder=str(folder), remedy="free space, or set `backup`")
            return
        now_s, copies = self._clock.time_s(), self._settings.backup_copies
        texts = await asyncio.to_thread(self._profiles_to_keep)
        copying = back_up(self._store, folder, now_s, copies=copies, texts=texts)
        if await _unless(self._ending, copying):
            self._metrics.backup_s.set(self._clock.time_s())
        else:
            log.warning(
                "backup broken off", remedy="make one with `proxyd backup FILE`, or wait for the next nightly one"
            )

    def _profiles_to_keep(self) -> dict[str, str]:
        try:
            return profiles_to_keep(self._settings.profiles)
        except (ConfigError, ProfileError) as error:  # the database is worth a copy without them
            log.warning("the backup holds no profiles", error=str(error))
            return {}


def make_scheduler() -> AsyncIOScheduler:
    """Return a scheduler that runs late jobs once; the default skips them after one second."""
    defaults = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
    return AsyncIOScheduler(timezone=UTC, job_defaults=defaults)


async def _unless(ending: asyncio.Event, work: Coroutine[Any, Any, object]) -> bool:
    """Return whether ``work`` ended before ``ending`` was set; otherwise it is cancelled."""
    working = asyncio.create_task(work, name="chore")
    waiting = asyncio.create_task(ending.wait(), name="end of chores")
    try:
        await asyncio.wait((working, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        working.cancel()
        await asyncio.wait((working,))
    return not working.cancelled() and bool(working.result())


async def back_up(store: SqlStore, folder: Path, now_s: float, *, copies: int, texts: Mapping[str, str]) -> Path:
    """Write a copy of the database with some ``texts`` to ``folder``, keep the newest ``copies`` and return its path.

    If that fails or is cancelled, no partial copy remains.
    """
    target = folder / datetime.fromtimestamp(now_s, UTC).strftime(_STAMP)
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    async with partial_copy(target, texts) as part:
        await store.upkeep.backup(part)
    await asyncio.to_thread(_prune, folder, copies)
    log.info("backup written", path=str(target), at=iso_time(now_s))
    return target


def newest_backup_s(folder: Path) -> float | None:
    """Return when the newest copy in a folder was made, according to its name, or ``None`` if there is no copy."""
    copies = nightly_copies(folder)
    return _made_s(copies[-1].name) if copies else None


def _made_s(name: str) -> float | None:
    """Return when a copy was made according to its name; ``None`` if it is no name of a copy."""
    try:
        return datetime.strptime(name, _STAMP).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def nightly_copies(folder: Path) -> list[Path]:
    """Return the copies in a folder, oldest first."""
    return sorted(path for path in folder.glob("proxyd-[0-9]*T[0-9]*Z.db") if _made_s(path.name) is not None)


def _has_room(folder: Path, database: Path) -> bool:
    """Return whether a copy of a database leaves as much room again on the disk of a folder."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    return not database.exists() or shutil.disk_usage(there).free > 2 * database.stat().st_size


def _prune(folder: Path, copies: int) -> None:
    for broken_off in folder.glob("proxyd-*.part"):
        broken_off.unlink()
    for old in nightly_copies(folder)[:-copies]:
        old.unlink()


_SLEPT_S = 0.5


async def measure_lag(clock: Clock, metrics: Metrics) -> NoReturn:
    """Measure how late the event loop wakes sleeping tasks, until cancelled."""
    while True:
        asked_s = clock.monotonic_s() + _SLEPT_S
        await clock.sleep(_SLEPT_S)
        metrics.loop_lag.observe(max(0.0, clock.monotonic_s() - asked_s))


async def _measure_disk(folder: Path, metrics: Metrics) -> None:
    try:
        found = await asyncio.to_thread(shutil.disk_usage, folder)
    except OSError:
        metrics.disk_free.set(0)  # an unreadable disk counts as full
    else:
        metrics.disk_free.set(found.free)
        metrics.disk_size.set(found.total)
