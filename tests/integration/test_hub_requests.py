"""Requests to hubs over real sockets: what counts as accepted, and where the form with its secret may go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from proxyd.core.errors import FetchError, FetchTimeoutError
from proxyd.net.guard import Guard
from proxyd.net.host_turns import HostTokens
from proxyd.net.session import make_session
from proxyd.probing.http.hubs import HubClient
from tests.fakes import FakeClock

FORM = {"hub.mode": "subscribe", "hub.secret": "s"}


@dataclass
class Hub:
    """A server that redirects by path, and the paths at which it was sent the form."""

    client: HubClient
    url: str = ""
    paths: list[str] = field(default_factory=list)


@asynccontextmanager
async def hub_with(redirects: Mapping[str, str], *, timeout_s: float = 30.0) -> AsyncIterator[Hub]:
    async def handle(request: web.Request) -> web.Response:
        assert dict(await request.post()) == FORM
        hub.paths.append(request.path)
        target = redirects.get(request.path)
        return web.Response(status=202) if target is None else web.Response(status=307, headers={"Location": target})

    app = web.Application()
    app.router.add_post("/{path}", handle)
    guard = Guard([ip_network("127.0.0.0/8")])
    async with TestServer(app, host="127.0.0.1") as server, make_session(guard, contact="") as session:
        tokens = HostTokens(FakeClock(), 0.0)
        hub = Hub(HubClient(session, guard, tokens, tokens, timeout_s=timeout_s))
        hub.url = str(server.make_url("/"))
        yield hub


async def test_the_form_follows_a_hub_that_moved_on_its_host() -> None:
    async with hub_with({"/old": "/new"}) as hub:
        await hub.client.request(hub.url + "old", FORM)
        assert hub.paths == ["/old", "/new"]


async def test_the_form_is_not_sent_to_another_host() -> None:
    async with hub_with({"/hub": "http://127.0.0.2/hub"}) as hub:
        with pytest.raises(FetchError, match="the hub redirects to another origin, to which the form is not sent"):
            await hub.client.request(hub.url + "hub", FORM)
        assert hub.paths == ["/hub"]


async def test_a_hub_that_redirects_forever_is_given_up() -> None:
    async with hub_with({"/hub": "/hub"}) as hub:
        with pytest.raises(FetchError, match="more than 3 redirects"):
            await hub.client.request(hub.url + "hub", FORM)
        assert len(hub.paths) == 4


@pytest.mark.parametrize(("address", "sent"), [("http://[::1", []), ("hub", ["/hub"])])
async def test_an_address_that_is_no_url_is_named(address: str, sent: list[str]) -> None:
    async with hub_with({"/hub": "http://[::1"}) as hub:
        with pytest.raises(FetchError, match="the hub's address, or that of its redirect, is not a valid URL"):
            await hub.client.request(address if ":" in address else hub.url + address, FORM)
        assert hub.paths == sent


async def test_a_hub_that_does_not_answer_in_time_and_one_that_is_not_there() -> None:
    async with hub_with({}, timeout_s=0.0) as hub:
        with pytest.raises(FetchTimeoutError, match="no answer within 0 s"):
            await hub.client.request(hub.url + "hub", FORM)
    async with hub_with({}) as hub:
        with pytest.raises(FetchError, match="onnect"):
            await hub.client.request(f"http://127.0.0.1:{unused_port()}/hub", FORM)
        assert hub.paths == []


async def test_a_question_to_a_callback_holds_up_no_probe_of_its_host() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text="c")

    app = web.Application()
    app.router.add_get("/", answer)
    guard, clock = Guard([ip_network("127.0.0.0/8")]), FakeClock()
    probes = HostTokens(clock, 60.0)
    async with TestServer(app, host="127.0.0.1") as server, make_session(guard, contact="") as session:
        client = HubClient(session, guard, probes, HostTokens(clock, 60.0))
        assert (await client.ask_follower(str(server.make_url("/")), {"hub.challenge": "c"})).body == b"c"
        async with probes.turn("127.0.0.1"):  # it would wait for a clock that stands still
            assert clock.sleepers == 0
