"""The watchdog is fed only by a daemon whose writer commits; what is said are systemd's own lines."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from proxyd.config.loading import Supervision, supervision
from proxyd.core.errors import StoreError
from proxyd.daemon import Supervisor
from tests.fakes import FakeClock, settle


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        yield listener


def heard(listener: socket.socket) -> list[str]:
    """Return every datagram that has come."""
    found = []
    with suppress(BlockingIOError):
        while True:
            found.append(listener.recv(4096).decode())
    return found


async def commits() -> None:
    """Commit at once."""


def supervisor(
    listener: socket.socket,
    clock: FakeClock,
    commit: Callable[[], Awaitable[None]] = commits,
    *,
    within_s: float = 30.0,
) -> Supervisor:
    return Supervisor(Supervision(listener.getsockname(), within_s), clock, commit)


@asynccontextmanager
async def feeding(who: Supervisor) -> AsyncIterator[None]:
    task = asyncio.create_task(who.run())
    await settle()
    yield
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_each_state_is_said_in_the_lines_that_systemd_reads(systemd: socket.socket) -> None:
    who = supervisor(systemd, FakeClock(monotonic_s=12.5))
    who.ready("2 rules, 3 sources")
    who.reloading()
    who.stopping()
    assert heard(systemd) == [
        "READY=1\nSTATUS=2 rules, 3 sources",
        "RELOADING=1\nMONOTONIC_USEC=12500000",
        "STOPPING=1\nSTATUS=draining",
    ]


async def test_the_watchdog_is_fed_three_times_in_its_time(systemd: socket.socket) -> None:
    clock = FakeClock()
    async with feeding(supervisor(systemd, clock, within_s=30.0)):
        assert heard(systemd) == ["WATCHDOG=1"]
        await clock.advance(9.0)
        assert heard(systemd) == []
        await clock.advance(21.0)
        assert heard(systemd) == ["WATCHDOG=1"] * 3


async def test_a_writer_that_is_stuck_leaves_the_watchdog_hungry_until_it_commits(systemd: socket.socket) -> None:
    clock, goes_on = FakeClock(), asyncio.Event()
    goes_on.set()

    async def commit() -> None:
        await goes_on.wait()

    async with feeding(supervisor(systemd, clock, commit)):
        assert heard(systemd) == ["WATCHDOG=1"]
        goes_on.clear()
        await clock.advance(300.0)
        assert heard(systemd) == []
        goes_on.set()
        await settle()
        assert heard(systemd) == ["WATCHDOG=1"]


async def test_a_writer_that_failed_is_not_fed_for(systemd: socket.socket) -> None:
    async def commit() -> None:
        raise StoreError("disk full")

    clock = FakeClock()
    async with feeding(supervisor(systemd, clock, commit)):
        await clock.advance(300.0)
        assert heard(systemd) == []


async def test_where_nobody_listens_nothing_is_said_and_nothing_runs() -> None:
    who = Supervisor(None, FakeClock(), commits)
    who.ready("")
    await who.run()


async def test_without_a_watchdog_none_is_fed(systemd: socket.socket) -> None:
    who = Supervisor(Supervision(systemd.getsockname(), None), FakeClock(), commits)
    await who.run()
    assert heard(systemd) == []


async def test_a_supervisor_that_is_gone_ends_nothing(tmp_path: Path) -> None:
    with capture_logs() as logged:
        Supervisor(Supervision(str(tmp_path / "gone"), None), FakeClock(), commits).ready("")
    assert [(line["log_level"], line["said"]) for line in logged] == [("warning", "READY=1")]


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, None),
        ({"NOTIFY_SOCKET": ""}, None),
        ({"NOTIFY_SOCKET": "vsock:2:1234"}, None),
        ({"NOTIFY_SOCKET": "@abstract"}, Supervision("\0abstract", None)),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "1500000"}, Supervision("/n", 1.5)),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "0"}, Supervision("/n", None)),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "x"}, Supervision("/n", None)),
        ({"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "9", "WATCHDOG_PID": "1"}, Supervision("/n", None)),
    ],
    ids=str,
)
def test_what_systemd_says_of_itself_is_read(environ: dict[str, str], found: Supervision | None) -> None:
    assert supervision(environ) == found


def test_the_watchdog_of_this_very_process_is_ours() -> None:
    environ = {"NOTIFY_SOCKET": "/n", "WATCHDOG_USEC": "9", "WATCHDOG_PID": str(os.getpid())}
    assert supervision(environ) == Supervision("/n", 9e-6)
