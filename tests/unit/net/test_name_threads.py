"""Threads that look names up: as many at once as there are, and a caller who left gives his back."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from proxyd.net.session import NameThreads


async def test_an_address_is_shown_as_text() -> None:
    numeric = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV
    assert await NameThreads().getnameinfo(("127.0.0.1", 80), numeric) == ("127.0.0.1", "80")


async def test_a_lookup_that_nobody_waits_for_any_more_lets_the_next_one_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, go = asyncio.Queue[str](), threading.Event()
    loop = asyncio.get_running_loop()

    def look_up(host: str, _port: int) -> str:
        loop.call_soon_threadsafe(asked.put_nowait, host)
        go.wait()
        return f"address of {host}"

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr("proxyd.net.session._NAME_THREADS", 1)
    names = NameThreads()
    first = asyncio.create_task(names.getaddrinfo("slow.example", 80))
    assert await asked.get() == "slow.example"
    second = asyncio.create_task(names.getaddrinfo("next.example", 80))
    first.cancel()
    await asyncio.wait([first])
    assert asked.empty()  # the only thread still hangs
    go.set()
    assert await second == "address of next.example"
    assert first.cancelled()
