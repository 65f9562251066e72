"""A database that cannot be written stops the daemon with a clear word, and costs nothing but time."""

from __future__ import annotations

import ctypes
import os
import resource
from pathlib import Path

from tests.acceptance.support import Receiver, World, eventually, integrity, world

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
    ids = {(guid, a.webhook_id) for a in receiver.arrivals[rule] for guid in a.guids}
    assert len(ids) == len({guid for guid, _ in ids})


async def running(w: World) -> None:
    w.origin.feed("feed").add(1, age_s=3600.0)
    w.daemon.declare(w.text(["feed"], {"each": 1, "third": 3}))
    await w.daemon.start()
    await w.daemon.knows("feed")


async def publish_until_it_ends(w: World) -> list[str]:
    """Let the feed gain an item for every probe, as long as the daemon runs; return them."""
    feed, before = w.origin.feeds["feed"], w.origin.asked["feed"]
    first = len(feed.guids)

    def ended() -> bool:
        if len(feed.guids) - first <= w.origin.asked["feed"] - before:
            feed.add(1)
        return w.daemon.has_ended

    await eventually(ended, "the disk is full", state=lambda: w.daemon.log[-2000:])
    return feed.guids[first:]


async def test_a_disk_that_fills_up_stops_it_and_nothing_is_lost(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await running(w)
        feed = w.origin.feeds["feed"]
        news = feed.add(4)
        await w.receiver.received("each", 4)
        for free_bytes in (0, 50_000):
            w.daemon.fill_disk(free_bytes)
            news += await publish_until_it_ends(w)
            await stopped_with(w, "the database failed", "disk")
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

        w.daemon.database.parent.chmod(0o555)
        try:
            await w.daemon.spawn(before_exec=obey_file_modes)
            await stopped_with(w, "the database failed", "readonly")
            w.daemon.database.with_suffix(".lock").unlink()
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
        w.daemon.database.parent.mkdir()
        w.daemon.database.write_bytes(b"my diary, not yours. " * 1000)
        await w.daemon.spawn()
        await stopped_with(w, "the database failed", "not a database")
        assert w.daemon.database.read_bytes() == b"my diary, not yours. " * 1000
