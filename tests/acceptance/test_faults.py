"""A database that cannot be written is waited for, or ends the daemon with a clear word; it costs nothing but time."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.acceptance.support import Daemon, Receiver, World, eventually, integrity, world

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1


def obey_file_modes() -> None:
    """Make root obey file modes as others do, once it runs the next program."""
    if os.geteuid() == 0 and ctypes.CDLL(None, use_errno=True).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (16384, resource.RLIM_INFINITY))


async def stopped_with(w: World, *words: str) -> None:
    """Wait until the daemon has ended with an error that says these words and no traceback."""
    assert await w.daemon.ended() == 1, w.daemon.log
    said = [line for line in w.daemon.log.splitlines() if line.startswith("proxyd: ")]
    assert len(said) == 1, w.daemon.log
    assert all(word in said[0] for word in words), said
    assert "Traceback" not in w.daemon.log, w.daemon.log
    w.daemon.forget_log()


def one_id_for_each_item(receiver: Receiver, rule: str) -> None:
    receiver.check()
    one_id_whatever_its_bytes(receiver, rule)


def one_id_whatever_its_bytes(receiver: Receiver, rule: str) -> None:
    """Fail where an item came by two ids: what is found a second time, after a restore, says when that was."""
    assert receiver.forged == []
    ids = {(guid, a.webhook_id) for a in receiver.arrivals[rule] for guid in a.guids}
    assert len(ids) == len({guid for guid, _ in ids})


async def running(w: World) -> None:
    w.origin.feed("feed").add(1, age_s=3600.0)
    w.daemon.declare(w.text(["feed"], {"each": 1, "third": 3}))
    await w.daemon.start()
    await w.daemon.knows("feed")


async def publish_until_it_waits(w: World) -> list[str]:
    """Let the feed gain an item for every probe until nothing more can be written; return them."""
    feed, before = w.origin.feeds["feed"], w.origin.asked["feed"]
    first = len(feed.guids)

    async def waits() -> bool:
        if len(feed.guids) - first <= w.origin.asked["feed"] - before:
            feed.add(1)
        return await w.daemon.metric("proxyd_store_waits_seconds") > 2.0

    await eventually(waits, "the disk is full", state=lambda: w.daemon.log[-2000:])
    return feed.guids[first:]


async def makes_no_probes(w: World) -> None:
    """Check that no probes start: those under way end first."""
    before = w.origin.asked["feed"]
    await asyncio.sleep(1.5)
    assert w.origin.asked["feed"] == before
    assert await w.daemon.metric("proxyd_store_waits_seconds") > 0
    assert "no probes are made" in w.daemon.log
    assert "Traceback" not in w.daemon.log, w.daemon.log


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nobody write in a folder: mounted so where that is allowed, else by its modes, which root must obey then."""
    here = str(folder)
    mounts = (["mount", "--bind", here, here], ["mount", "-o", "remount,bind,ro", here])
    if all(subprocess.run(each, check=False, stderr=subprocess.DEVNULL).returncode == 0 for each in mounts):
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)
        return
    folder.chmod(0o555)
    try:
        yield
    finally:
        folder.chmod(0o755)


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Hold the right to write, as another program may."""
    with closing(sqlite3.connect(database, isolation_level=None, timeout=60.0)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


async def chronons(daemon: Daemon, count: int) -> None:
    """Wait until the daemon has planned so many chronons more."""
    planned = "proxyd_budget_probes_total"
    await daemon.metric_reaches(planned, await daemon.metric(planned) + count * 20)


def header(database: Path) -> tuple[int, int]:
    """Return where the bytes are by which SQLite knows a database."""
    return 0, 100


def root_of(table: str) -> Callable[[Path], tuple[int, int]]:
    """Return what says where the page is by which all rows of a table are found."""

    def where(database: Path) -> tuple[int, int]:
        with closing(sqlite3.connect(database)) as connection:
            (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
            (size,) = connection.execute("PRAGMA page_size").fetchone()
        return (page - 1) * size, size

    return where


def damage(database: Path, where: Callable[[Path], tuple[int, int]]) -> None:
    start, length = where(database)
    with database.open("r+b") as file:
        file.seek(start)
        file.write(bytes(range(256)) * (length // 256) + b"\xa5" * (length % 256))


async def test_a_disk_that_fills_up_is_waited_for_and_nothing_is_lost(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await running(w)
        feed = w.origin.feeds["feed"]
        news = feed.add(4)
        await w.receiver.received("each", 4)
        for free_bytes in (0, 50_000):  # there is room again once the log is written back
            w.daemon.fill_disk(free_bytes)
            news += feed.add(2)
            assert await w.receiver.received("each", len(news)) == news
            w.daemon.fill_disk()
            news += await publish_until_it_waits(w)
            await makes_no_probes(w)
            w.daemon.free_disk()
            assert await w.receiver.received("each", len(news)) == news
            w.daemon.forget_log()
        w.daemon.fill_disk()
        news += await publish_until_it_waits(w)
        await w.daemon.kill()
        assert integrity(w.daemon.database) == "ok"
        await w.daemon.start()
        news += feed.add(3 - len(news) % 3)
        assert await w.receiver.received("each", len(news)) == news
        assert await w.receiver.received("third", len(news)) == news
        one_id_for_each_item(w.receiver, "each")
        one_id_for_each_item(w.receiver, "third")


async def test_a_disk_that_is_full_from_the_start_is_said(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await w.daemon.spawn(before_exec=small_files)
        await stopped_with(w, "the database failed", "disk")
        await w.daemon.start()
        await w.daemon.stop()
        assert integrity(w.daemon.database) == "ok"


@pytest.mark.long
async def test_a_read_only_database_is_said_and_left_as_it_is(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await running(w)
        feed = w.origin.feeds["feed"]
        news = feed.add(2)
        await w.receiver.received("each", 2)
        await w.daemon.stop()
        before = w.daemon.database.read_bytes()
        w.daemon.forget_log()

        w.daemon.database.chmod(0o444)
        await w.daemon.spawn(before_exec=obey_file_modes)
        await stopped_with(w, "the database failed", "readonly")
        w.daemon.database.chmod(0o644)
        assert w.daemon.database.read_bytes() == before
        assert integrity(w.daemon.database) == "ok"

        lock = w.daemon.database.with_suffix(".lock")
        lock.chmod(0o000)
        await w.daemon.spawn(before_exec=obey_file_modes)
        await stopped_with(
            w, f"{lock} cannot be written: Permission denied; it belongs to {lock.owner()}; run proxyd as"
        )
        lock.chmod(0o644)

        w.daemon.database.parent.chmod(0o555)
        try:
            await w.daemon.spawn(before_exec=obey_file_modes)
            await stopped_with(w, "the database failed", "readonly")
            lock.unlink()
            await w.daemon.spawn(before_exec=obey_file_modes)
            await stopped_with(w, f"{w.daemon.database.parent} cannot be written")
        finally:
            w.daemon.database.parent.chmod(0o755)
        assert w.daemon.database.read_bytes() == before

        news += feed.add(1)
        await w.daemon.start()
        assert await w.receiver.received("each", 3) == news
        assert await w.receiver.received("third", 3) == news
        one_id_for_each_item(w.receiver, "each")


async def test_a_file_that_is_no_database_is_said_and_left_as_it_is(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.daemon.database.write_bytes(b"my diary, not yours. " * 1000)
        await w.daemon.spawn()
        await stopped_with(w, "the database failed", "not a database")
        assert w.daemon.database.read_bytes() == b"my diary, not yours. " * 1000


async def test_a_database_that_another_program_holds_for_a_while_is_waited_for(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await running(w)
        with locked(w.daemon.database):
            news = w.origin.feeds["feed"].add(1)
            await chronons(w.daemon, 10)
            assert w.receiver.arrivals["each"] == []
        assert await w.receiver.received("each", 1) == news


@pytest.mark.long
async def test_a_database_that_another_program_keeps_is_waited_for_and_nothing_is_lost(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await running(w)
        feed = w.origin.feeds["feed"]
        news = feed.add(2)
        await w.receiver.received("each", 2)
        with locked(w.daemon.database):
            news += feed.add(2)
            news += await publish_until_it_waits(w)
            await makes_no_probes(w)
            await asyncio.sleep(20.0)
            assert not w.daemon.has_ended
        seen = len(news)
        assert await w.receiver.received("each", seen) == news
        news += feed.add(3 - seen % 3)
        assert await w.receiver.received("each", len(news)) == news
        assert await w.receiver.received("third", len(news)) == news
        one_id_for_each_item(w.receiver, "each")
        assert "the database is written again" in w.daemon.log
        with locked(w.daemon.database):
            await w.daemon.stop()
            w.daemon.forget_log()
            await w.daemon.spawn()
            await stopped_with(w, "locked", "end the other program", str(w.daemon.database))


@pytest.mark.long
async def test_a_daemon_ends_though_an_accepted_message_cannot_be_recorded(tmp_path: Path) -> None:
    async with world(tmp_path, drain_timeout="1s") as w:
        await running(w)
        w.receiver.scripts["each"].append("hold")
        news = w.origin.feeds["feed"].add(1)
        await w.receiver.received("each", 1)
        with locked(w.daemon.database):
            w.receiver.release.set()
            await eventually(lambda: "the database is not written" in w.daemon.log, "it waits")
            await w.daemon.stop()
        assert "ended while the database was busy" in w.daemon.log
        await w.daemon.start()
        await eventually(lambda: len(w.receiver.arrivals["each"]) == 2, "it is sent again")
        assert w.receiver.guids("each") == news
        one_id_for_each_item(w.receiver, "each")


@pytest.mark.parametrize(
    "where",
    [
        pytest.param(header, id="the header", marks=pytest.mark.long),
        pytest.param(root_of("sources"), id="a page that is read at the start"),
        pytest.param(root_of("items"), id="a page of items", marks=pytest.mark.long),
        pytest.param(root_of("outbox"), id="a page of deliveries", marks=pytest.mark.long),
    ],
)
async def test_a_damaged_database_is_said_and_a_backup_brings_everything_back(
    tmp_path: Path, where: Callable[[Path], tuple[int, int]]
) -> None:
    async with world(tmp_path) as w:
        await running(w)
        feed = w.origin.feeds["feed"]
        news = feed.add(2)
        await w.receiver.received("each", 2)
        backup = await w.daemon.cli("backup", "before.db")
        assert backup.code == 0, backup.err
        news += feed.add(2)
        await w.receiver.received("each", 4)
        await w.daemon.stop()
        w.daemon.forget_log()
        damage(w.daemon.database, where)

        news += feed.add(1)
        await w.daemon.spawn()
        await stopped_with(w, "the database failed", "`proxyd restore FILE`", str(w.daemon.database))
        restored = await w.daemon.cli("restore", "before.db")
        assert restored.code == 0, restored.err
        await w.daemon.start()
        news += feed.add(1)
        assert await w.receiver.received("each", 6) == news
        assert await w.receiver.received("third", 6) == news
        one_id_whatever_its_bytes(w.receiver, "each")


@pytest.mark.long
async def test_a_file_system_that_is_read_only_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await running(w)
        feed = w.origin.feeds["feed"]
        news = feed.add(2)
        await w.receiver.received("each", 2)
        await w.daemon.stop()
        w.daemon.forget_log()
        w.daemon.database.with_suffix(".lock").unlink()
        before = w.daemon.database.read_bytes()
        with read_only(w.daemon.database.parent):
            await w.daemon.spawn(before_exec=obey_file_modes)
            await stopped_with(w, f"{w.daemon.database.parent} cannot be written")
        assert w.daemon.database.read_bytes() == before
        news += feed.add(1)
        await w.daemon.start()
        assert await w.receiver.received("third", 3) == news
        one_id_for_each_item(w.receiver, "each")
