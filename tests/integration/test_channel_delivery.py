"""Channels through apprise, with a service of our own."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_network
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from proxyd.base.ports import Message
from proxyd.core.errors import DeliveryError
from proxyd.net.guard import Guard
from proxyd.notify.channels import apprise_channel as channel
from proxyd.notify.channels.apprise_channel import AppriseChannel, ChannelAddressError, ChannelAddresses
from tests.addresses import NAMES, REFUSED

apprise = pytest.importorskip("apprise")
pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated", "ignore:.*:DeprecationWarning:apprise")
BODY = json.dumps(
    {
        "type": "proxyd.notification",
        "timestamp": "2026-03-01T12:00:00.000Z",
        "data": {"id": "ntf_1", "rule": "R", "items": [{"title": "found"}]},
    }
).encode()
Service = Callable[[str, str], bool | None]
TELEGRAM = "tgram://123456789:abcdefg_hijklmnop/1"


@asynccontextmanager
async def served(service: Service, *, timeout_s: float = 10.0) -> AsyncIterator[AppriseChannel]:
    """Yield a channel that may use ``ours://``, which ``service`` answers in the channel's threads."""

    def send(body: str, title: str, *_rest: object, **_options: object) -> bool | None:
        return service(title, body)

    apprise.decorators.notify(on="ours", name="ours")(send)
    opened = AppriseChannel(ChannelAddresses(["ours"], Guard()), timeout_s=timeout_s)
    try:
        yield opened
    finally:
        opened.close()
        apprise.NotificationManager().remove("ours")


def message(url: str = "ours://token/chat") -> Message:
    return Message("ntf_1", "R", url, BODY, 1e9, "channel")


async def test_a_text_is_sent_in_a_thread_of_its_own() -> None:
    seen = []

    def service(title: str, body: str) -> bool:
        seen.append((title, body, threading.current_thread() is threading.main_thread()))
        return True

    async with served(service) as opened:
        assert await opened.deliver(message()) == "the channel's service accepted it"
    title, body, is_main = seen[0]
    assert (title, is_main) == ("R", False)
    assert body == "found"


async def test_what_the_service_refuses_is_tried_again() -> None:
    async with served(lambda _title, _body: False) as opened:
        with pytest.raises(DeliveryError, match="did not accept it") as caught:
            await opened.deliver(message())
    assert caught.value.retryable


async def test_a_service_that_hangs_is_a_timeout() -> None:
    let_go = threading.Event()
    async with served(lambda _title, _body: let_go.wait(), timeout_s=0.1) as opened:
        with pytest.raises(DeliveryError, match="did not answer within") as caught:
            await opened.deliver(message())
        let_go.set()
    assert caught.value.retryable


async def test_a_scheme_that_is_not_allowed_is_given_up_without_a_secret_in_sight() -> None:
    async with served(lambda _title, _body: True) as opened:
        with pytest.raises(DeliveryError, match="does not allow json://") as caught:
            await opened.deliver(message("json://hunter2@127.0.0.1/"))
    assert not caught.value.retryable
    assert "hunter2" not in str(caught.value)


async def test_without_apprise_it_is_given_up_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "has_channels", lambda: False)
    async with served(lambda _title, _body: True) as opened:
        with pytest.raises(DeliveryError, match=r"proxyd\[apprise\] is not installed") as caught:
            await opened.deliver(message())
    assert not caught.value.retryable


@asynccontextmanager
async def json_server(*, moved_to: str = "") -> AsyncIterator[tuple[str, list[bytes]]]:
    """Yield the host and port of a server on 127.0.0.1, and the bodies that it got; it may redirect."""
    bodies: list[bytes] = []

    async def take(request: web.Request) -> web.Response:
        bodies.append(await request.read())
        return web.Response(status=307, headers={"Location": moved_to}) if moved_to else web.Response()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", take)
    async with TestServer(app, host="127.0.0.1") as server:
        yield f"127.0.0.1:{server.port}", bodies


@asynccontextmanager
async def through(*, allow: Sequence[str] = ()) -> AsyncIterator[AppriseChannel]:
    """Yield a channel that may use ``tgram://`` and ``json://`` behind the guard."""
    guard = Guard([ip_network(each) for each in allow])
    opened = AppriseChannel(ChannelAddresses(["tgram", "json"], guard), timeout_s=10.0)
    try:
        yield opened
    finally:
        opened.close()


async def test_a_server_in_an_allowed_network_gets_the_text() -> None:
    async with json_server() as (host, bodies), through(allow=["127.0.0.0/8"]) as opened:
        await opened.deliver(message(f"json://{host}/x"))
    assert b'"message": "found"' in bodies[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433"])
async def test_the_guard_refuses_a_private_server_however_it_is_written(host: str) -> None:
    async with json_server() as (served_at, bodies), through() as opened:
        url = f"json://{host}:{served_at.rpartition(':')[2]}/x"
        with pytest.raises(DeliveryError, match="the channel's server is refused") as caught:
            await opened.deliver(message(url))
    assert bodies == []
    assert not caught.value.retryable


@pytest.mark.parametrize("scheme", ["json", "ntfy", "gotify"])
async def test_no_spelling_of_a_private_address_is_reached(scheme: str) -> None:
    async with json_server() as (served_at, bodies):
        opened = AppriseChannel(ChannelAddresses([scheme], Guard()), timeout_s=10.0)
        for host in (host for host in REFUSED if host not in NAMES and "host" not in host.lower()):  # no names
            with pytest.raises(DeliveryError):
                await opened.deliver(message(f"{scheme}://{host}:{served_at.rpartition(':')[2]}/token"))
        opened.close()
    assert bodies == []


@asynccontextmanager
async def drip_server() -> AsyncIterator[tuple[str, asyncio.Queue[None]]]:
    """Yield the address of a server that answers byte by byte for ever, and what tells of each client that went."""
    gone = asyncio.Queue[None]()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while not reader.at_eof():
                writer.write(b"x")
                await writer.drain()
                await asyncio.wait([asyncio.ensure_future(reader.read(1 << 16))], timeout=0.01)
        writer.close()
        await gone.put(None)

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", gone
    finally:
        server.close()


async def test_servers_that_answer_for_ever_leave_the_threads_to_others() -> None:
    async with drip_server() as (slow, gone), json_server() as (host, bodies), through(allow=["127.0.0.0/8"]) as opened:
        opened._timeout_s = 0.3
        asked = [opened.deliver(message(f"json://{slow}/x?rto=1e9&cto=1e9")) for _ in range(4)]
        errors = await asyncio.gather(*asked, return_exceptions=True)
        assert ["did not answer within" in str(error) for error in errors] == [True] * 4
        for _ in range(4):
            await gone.get()
        opened._timeout_s = 10.0
        assert await opened.deliver(message(f"json://{host}/x")) == "the channel's service accepted it"
    assert len(bodies) == 1


async def test_the_guard_refuses_other_ports_than_the_allowed_ones() -> None:
    async with json_server() as (host, bodies):
        guard = Guard([ip_network("127.0.0.0/8")], [443])
        opened = AppriseChannel(ChannelAddresses(["json"], guard), timeout_s=10.0)
        with pytest.raises(DeliveryError, match="is not in the setting allow_ports"):
            await opened.deliver(message(f"json://{host}/x"))
        opened.close()
    assert bodies == []


async def test_the_guard_judges_a_mail_server_that_an_option_names() -> None:
    async with json_server() as (host, bodies):
        name, port = host.split(":")
        opened = AppriseChannel(ChannelAddresses(["mailto"], Guard()), timeout_s=10.0)
        with pytest.raises(DeliveryError, match=r"127\.0\.0\.1 is refused"):
            await opened.deliver(message(f"mailto://me:secret@example.org:{port}?smtp={name}&to=a@example.org"))
        opened.close()
    assert bodies == []


async def test_the_guard_judges_where_a_redirect_leads() -> None:
    async with json_server() as (inner, bodies):
        moved_to = f"http://127.0.0.2:{inner.rpartition(':')[2]}/x"
        async with json_server(moved_to=moved_to) as (outer, _), through(allow=["127.0.0.1/32"]) as opened:
            with pytest.raises(DeliveryError, match=r"127\.0\.0\.2 is refused"):
                await opened.deliver(message(f"json://{outer}/x"))
    assert bodies == []


@pytest.mark.parametrize("separator", [", ", ",", ";", " ", "\n", "\t", ",;, "])
async def test_one_text_is_never_several_addresses(separator: str) -> None:
    async with json_server() as (host, bodies), through(allow=["127.0.0.0/8"]) as opened:
        with pytest.raises(DeliveryError, match="exactly one address") as caught:
            await opened.deliver(message(f"{TELEGRAM}{separator}json://{host}/x"))
    assert bodies == []
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ntfy://topic", "does not allow ntfy://"),
        ("https://discord.com/api/webhooks/1/2", "does not allow https://"),
        ("tgram://bad", "apprise cannot read"),
        ("json://10.0.0.1/x", "10.0.0.1 is refused: private"),
        ("json://[::1]/x", "is refused"),
        ("TGRAM", "exactly one address"),
    ],
)
def test_an_address_is_refused_before_anything_is_sent(url: str, reason: str) -> None:
    addresses = ChannelAddresses(["tgram", "json"], Guard())
    with pytest.raises(ChannelAddressError, match=reason):
        addresses.open(url)
    assert reason in str(addresses.problem(url))
    assert addresses.problem(TELEGRAM) is None


async def test_a_channel_reads_no_proxy_and_no_password_from_its_surroundings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[str | None] = []

    async def take(request: web.Request) -> web.Response:
        seen.append(request.headers.get("Authorization"))
        return web.Response()

    app = web.Application()
    app.router.add_post("/", take)
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password hunter2\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    async with TestServer(app, host="127.0.0.1") as server:
        guard = Guard([ip_network("127.0.0.0/8")], [server.port or 0])
        opened = AppriseChannel(ChannelAddresses(["json"], guard), timeout_s=10.0)
        assert await opened.deliver(message(f"json://127.0.0.1:{server.port}/")) == "the channel's service accepted it"
        opened.close()
    assert seen == [None]
