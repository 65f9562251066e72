"""The daemon under a supervisor that listens as systemd does."""

from __future__ import annotations

import asyncio
import signal
import socket
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from tests.acceptance.support import PATIENCE_S, Daemon, eventually

QUIET_S = 1.0  # no word for so long, where every tenth of a second there should be one


class Systemd:
    """Hears what the daemon says, in its order."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener

    async def hears(self) -> str:
        heard = await asyncio.get_running_loop().sock_recv(self._listener, 4096)
        return heard.decode().partition("\n")[0]

    async def hears_at_last(self, wanted: str) -> list[str]:
        """Wait for a word and return what was said before it."""
        before = []
        async with asyncio.timeout(PATIENCE_S):
            while (said := await self.hears()) != wanted:
                before.append(said)
        return before

    async def falls_silent(self) -> list[str]:
        """Return what was still said before nothing more came for a while; fail where it goes on."""
        said: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    said.append(await asyncio.wait_for(self.hears(), QUIET_S))
                except TimeoutError:
                    return said


@asynccontextmanager
async def supervised(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Daemon, Systemd]]:
    """Yield a daemon that is yet to be started, with a watchdog of 300 ms, and its supervisor."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(folder / "notify"))
        listener.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(folder / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "300000")
        async with Daemon(folder) as daemon:
            yield daemon, Systemd(listener)


async def test_it_says_when_it_is_ready_reloads_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with supervised(tmp_path, monkeypatch) as (daemon, systemd):
        await daemon.spawn()
        assert set(await systemd.hears_at_last("READY=1")) <= {"WATCHDOG=1"}
        status, _, _ = await daemon.request("GET", "/healthz")
        assert status == 200
        await systemd.hears_at_last("WATCHDOG=1")
        daemon.signal(signal.SIGHUP)
        await systemd.hears_at_last("RELOADING=1")
        await systemd.hears_at_last("READY=1")
        daemon.signal(signal.SIGTERM)
        assert set(await systemd.hears_at_last("STOPPING=1")) <= {"WATCHDOG=1"}
        assert await daemon.ended() == 0


async def test_a_daemon_that_cannot_start_is_never_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with supervised(tmp_path, monkeypatch) as (daemon, systemd):
        daemon.profiles.joinpath("bad.profile").write_text("CREATE NONSENSE;", encoding="utf-8")
        await daemon.spawn()
        assert await daemon.ended() != 0
        assert await systemd.falls_silent() == []


async def test_a_loop_that_does_not_turn_feeds_no_watchdog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with supervised(tmp_path, monkeypatch) as (daemon, systemd):
        await daemon.spawn()
        await systemd.hears_at_last("READY=1")
        await systemd.hears_at_last("WATCHDOG=1")
        daemon.signal(signal.SIGSTOP)
        await systemd.falls_silent()
        daemon.signal(signal.SIGCONT)
        await systemd.hears_at_last("WATCHDOG=1")


async def test_a_writer_that_waits_feeds_no_watchdog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process holds the database: the loop turns and answers, but nothing is committed."""
    async with supervised(tmp_path, monkeypatch) as (daemon, systemd):
        await daemon.start()
        await systemd.hears_at_last("READY=1")
        with closing(sqlite3.connect(daemon.database, isolation_level=None)) as other:
            await eventually(lambda: other.execute("BEGIN IMMEDIATE"), "the database is ours")
            await systemd.falls_silent()
            assert (await daemon.request("GET", "/healthz"))[0] == 200
            other.execute("ROLLBACK")
        await systemd.hears_at_last("WATCHDOG=1")
        await daemon.stop()
