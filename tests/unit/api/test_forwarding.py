"""A machine that stands by forwards what it is asked to the one that leads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientPayloadError, ClientSession, web
from aiohttp.test_utils import TestServer
from yarl import URL

from proxyd.api import ApiSettings, Leader, serve_health
from proxyd.client import ApiError, Client


@asynccontextmanager
async def standing_by(folder: Path, leader: Leader | None) -> AsyncIterator[tuple[ClientSession, Client]]:
    """Yield clients of the listener and of the socket of a machine that knows this leader."""
    socket = folder / "proxyd.sock"
    settings = ApiSettings("127.0.0.1", 0, socket, str(socket))
    serving = serve_health(lambda: {"serving": True}, lambda: b"own", settings, lambda: leader)
    async with (
        serving as (address,),
        ClientSession(f"http://{address}", auto_decompress=False) as session,
        Client.over_socket(str(socket)) as local,
    ):
        yield session, local


@asynccontextmanager
async def two_standing_by(folder: Path) -> AsyncIterator[ClientSession]:
    """Yield a client of a machine that takes another one for the leader, which also stands by."""
    folders = [folder / name for name in ("one", "two")]
    for each in folders:
        each.mkdir()
    async with standing_by(folders[0], None) as (first, _):
        assert first._base_url is not None
        other = Leader("one:1", f"127.0.0.1:{first._base_url.port}")
        async with standing_by(folders[1], other) as (session, _):
            yield session


@asynccontextmanager
async def leading(*routes: web.RouteDef) -> AsyncIterator[Leader]:
    """Yield a leader that answers at these routes."""
    app = web.Application()
    app.add_routes([web.get("/api/v1/openapi.json", _well), *routes])
    async with TestServer(app) as server:
        yield Leader("leader:7", f"127.0.0.1:{server.port}")


def _encoded(session: ClientSession, path: str) -> URL:
    assert session._base_url is not None
    return URL(f"{session._base_url.origin()}{path}", encoded=True)


async def _well(_request: web.Request) -> web.Response:
    return web.Response()


async def test_requests_and_answers_pass_as_they_are(tmp_path: Path) -> None:
    seen: list[tuple[str, str, dict[str, str], bytes]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.raw_path, dict(request.headers), await request.read()))
        return web.Response(status=422, body=b"\x1f\x8b", headers={"Content-Encoding": "gzip", "ETag": '"e"'})

    async with (
        leading(web.route("*", "/{path:.*}", answer)) as leader,
        standing_by(tmp_path, leader) as (session, _),
    ):
        sent = {"Authorization": "Bearer t", "Host": "localhost", "Connection": "close, x-own", "X-Own": "1"}
        path = "/api/v1/items?q=a%2Fb&text=%C3%A4"
        skipped = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")
        asking = session.post(_encoded(session, path), data=b"x" * 300_000, headers=sent, skip_auto_headers=skipped)
        async with asking as answered:
            assert (answered.status, answered.headers["ETag"], await answered.read()) == (422, '"e"', b"\x1f\x8b")
        (method, at, headers, body) = seen[0]
        assert (method, at, body) == ("POST", path, b"x" * 300_000)
        names = ("Authorization", "Host", "Content-Length", "Proxyd-Forwarded")
        assert [headers.get(name) for name in names] == ["Bearer t", "localhost", "300000", "1"]
        assert set(headers) <= {*names, "Connection"}  # nothing is invented, and what Connection names stays here
        assert headers.get("Connection") in {None, "keep-alive"}


async def test_health_and_metrics_are_the_machines_own(tmp_path: Path) -> None:
    async with leading() as leader, standing_by(tmp_path, leader) as (session, _):
        async with session.get("/metrics") as answered:
            assert await answered.read() == b"own"
        async with session.get("/readyz") as answered:
            assert (await answered.json())["checks"] == {"serving": True, "leader": True}


@pytest.mark.parametrize(
    ("leader", "said"),
    [
        (None, "no machine leads"),
        (Leader("leader:7", ""), "leader:7 leads, but cannot be reached from here"),
        (Leader("leader:7", "127.0.0.1:1"), "leader:7 leads, and does not answer at 127.0.0.1:1"),
    ],
)
async def test_a_leader_that_cannot_be_asked_is_named_and_the_client_may_ask_again(
    leader: Leader | None, said: str, tmp_path: Path
) -> None:
    async with standing_by(tmp_path, leader) as (session, _):
        async with session.get("/api/v1/items") as answered:
            assert (answered.status, answered.headers["Retry-After"]) == (503, "1")
            assert said in (await answered.json())["detail"]
        async with session.get("/readyz") as answered:
            assert (answered.status, (await answered.json())["checks"]["leader"]) == (503, False)


async def test_a_request_is_forwarded_once(tmp_path: Path) -> None:
    """Or two machines that believe that the other one leads would ask each other for ever."""
    async with two_standing_by(tmp_path) as session, session.get("/api/v1/items") as answered:
        assert (answered.status, "no machine leads" in (await answered.json())["detail"]) == (503, True)


async def test_an_answer_that_the_leader_does_not_end_is_not_whole(tmp_path: Path) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with (
        leading(web.get("/api/v1/stream", half)) as leader,
        standing_by(tmp_path, leader) as (session, _),
    ):
        with pytest.raises(ClientPayloadError):
            async with session.get("/api/v1/stream") as answered:
                await answered.read()


async def test_a_stream_comes_while_the_leader_sends_it(tmp_path: Path) -> None:
    ends = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await ends.wait()
        return response

    async with (
        leading(web.get("/api/v1/stream", stream)) as leader,
        standing_by(tmp_path, leader) as (session, _),
        session.get("/api/v1/stream") as answered,
    ):
        assert await answered.content.readany() == b"first"
        ends.set()
        assert await answered.read() == b""


async def test_the_socket_needs_no_token_so_nothing_is_forwarded_from_it(tmp_path: Path) -> None:
    async with leading() as leader, standing_by(tmp_path, leader) as (_, local):
        with pytest.raises(ApiError, match="leader:7 leads now") as caught:
            await local.sources()
        assert caught.value.status == 421


async def test_a_target_that_names_another_host_goes_nowhere(tmp_path: Path) -> None:
    """``http://10.0.0.5:8080`` and ``@evil.example/`` would be one address."""
    async with leading() as leader, standing_by(tmp_path, leader) as (session, _):
        assert session._base_url is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", session._base_url.port)
        for target in (b"http://evil.example/", b"@evil.example/", b"*"):
            writer.write(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 400 " in await reader.readline()
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", session._base_url.port)
        writer.close()


async def test_a_machine_that_only_stands_by_is_no_leader(tmp_path: Path) -> None:
    """Of the last leader, which stands by now, the database still says that it leads."""
    async with two_standing_by(tmp_path) as session, session.get("/readyz") as answered:
        assert (await answered.json())["checks"] == {"serving": True, "leader": False}


async def test_what_the_leader_may_have_done_is_not_to_be_tried_again(tmp_path: Path) -> None:
    async def end(request: web.Request) -> web.Response:
        await request.read()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with (
        leading(web.route("*", "/api/v1/profiles", end)) as leader,
        standing_by(tmp_path, leader) as (session, _),
    ):
        async with session.post("/api/v1/profiles", data=b"x") as answered:
            assert (answered.status, "Retry-After" in answered.headers) == (502, False)
            assert "it may have done what was asked" in (await answered.json())["detail"]
        async with session.get("/api/v1/profiles") as answered:
            assert (answered.status, answered.headers["Retry-After"]) == (503, "1")
