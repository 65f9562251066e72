"""A Chromium answers only who asks for it by an IP address, so its name is looked up before."""

from __future__ import annotations

import asyncio
import socket

import pytest

from proxyd.probing.browser.chromium import with_ip_address


@pytest.mark.parametrize(
    ("address", "family", "number", "asked"),
    [
        ("http://browser:9222", socket.AF_INET, "10.0.0.7", "http://10.0.0.7:9222"),
        ("http://browser:9222", socket.AF_INET6, "fd00::7", "http://[fd00::7]:9222"),
        (
            "ws://me:secret@browser/devtools?token=x",
            socket.AF_INET,
            "10.0.0.7",
            "ws://me:secret@10.0.0.7:80/devtools?token=x",
        ),
        ("wss://browser.example:9222/?token=x", None, "", "wss://browser.example:9222/?token=x"),
    ],
    ids=["a name", "a name of IPv6", "a name with a token", "a name that a certificate is for"],
)
async def test_it_is_asked_by_its_ip_address(
    monkeypatch: pytest.MonkeyPatch, address: str, family: int | None, number: str, asked: str
) -> None:
    async def look_up(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        assert (host, family is None) == ("browser", False)
        return [(family, socket.SOCK_STREAM, 6, "", (number, port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    assert await with_ip_address(address) == asked
