"""A planner forwards what it is asked to the one that knows the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from aiohttp import ClientPayloadError, ClientSession, web
from aiohttp.test_utils import TestServer
from yarl import URL

from proxyd.api.forwarding import Peer, forward_unknown, open_forwarding
from tests.fakes import no_queries


@dataclass
class Known:
    """Planners of which one knows everything; ``secret`` is what others ask this one with."""

    peer: Peer
    secret: str = "ours"

    def answering(self, _source: str | None, _profiles: Sequence[str] = ()) -> Peer:
        return self.peer

    def planner_of_host(self, _host: str) -> Peer:
        return self.peer

    def others(self) -> list[Peer]:
        return [self.peer]

    async def peer_called(self, _callback_id: str) -> Peer:
        return self.peer


@asynccontextmanager
async def asked(peer: Peer) -> AsyncIterator[ClientSession]:
    """Yield a client of a planner that forwards everything to another one."""
    async with open_forwarding() as forwarding:
        app = web.Application(middlewares=[forward_unknown(Known(peer), forwarding, no_queries())])
        app.add_routes([web.get("/metrics", _own)])
        async with TestServer(app) as server, ClientSession(server.make_url("/"), auto_decompress=False) as session:
            yield session


async def _own(_request: web.Request) -> web.Response:
    return web.Response(body=b"own")


@asynccontextmanager
async def answering(*routes: web.RouteDef) -> AsyncIterator[Peer]:
    """Yield a planner that answers at these routes."""
    app = web.Application()
    app.add_routes(routes)
    async with TestServer(app) as server:
        yield Peer("other:7", f"127.0.0.1:{server.port}")


def _encoded(session: ClientSession, path: str) -> URL:
    assert session._base_url is not None
    return URL(f"{session._base_url.origin()}{path}", encoded=True)


async def test_requests_and_answers_pass_as_they_are() -> None:
    seen: list[tuple[str, str, dict[str, str], bytes]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.raw_path, dict(request.headers), await request.read()))
        return web.Response(status=422, body=b"\x1f\x8b", headers={"Content-Encoding": "gzip", "ETag": '"e"'})

    async with (
        answering(web.route("*", "/{path:.*}", answer)) as peer,
        asked(peer) as session,
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


async def test_metrics_are_the_machines_own() -> None:
    async with answering() as peer, asked(peer) as session, session.get("/metrics") as answered:
        assert await answered.read() == b"own"


@pytest.mark.parametrize(
    ("peer", "said"),
    [
        (Peer("other:7", ""), "other:7 knows the answer, but cannot be reached from here"),
        (Peer("other:7", "127.0.0.1:1"), "other:7 knows the answer, and cannot be reached at 127.0.0.1:1"),
    ],
)
async def test_a_planner_that_cannot_be_asked_is_named_and_the_client_may_ask_again(peer: Peer, said: str) -> None:
    async with asked(peer) as session, session.get("/api/v1/items") as answered:
        assert (answered.status, answered.headers["Retry-After"]) == (503, "1")
        assert said in (await answered.json())["detail"]


async def test_a_request_is_forwarded_once() -> None:
    """Or two machines that believe that the other one knows would ask each other for ever."""
    async with answering() as peer, asked(peer) as first:
        assert first._base_url is not None
        via = Peer("one:1", f"127.0.0.1:{first._base_url.port}")
        async with asked(via) as second, second.get("/api/v1/items") as answered:
            assert answered.status == 404  # of the first, which has no such page


async def test_an_answer_that_the_other_does_not_end_is_not_whole() -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"half")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with (
        answering(web.get("/api/v1/stream", half)) as peer,
        asked(peer) as session,
    ):
        with pytest.raises(ClientPayloadError):
            async with session.get("/api/v1/stream") as answered:
                await answered.read()


async def test_a_stream_comes_while_the_other_sends_it() -> None:
    ends = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first")
        await ends.wait()
        return response

    async with (
        answering(web.get("/api/v1/stream", stream)) as peer,
        asked(peer) as session,
        session.get("/api/v1/stream") as answered,
    ):
        assert await answered.content.readany() == b"first"
        ends.set()
        assert await answered.read() == b""


async def test_a_target_that_names_another_host_goes_nowhere() -> None:
    """``http://10.0.0.5:8080`` and ``@evil.example/`` would be one address."""
    async with answering() as peer, asked(peer) as session:
        assert session._base_url is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", session._base_url.port)
        for target in (b"http://evil.example/", b"@evil.example/", b"*"):
            writer.write(b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 400 " in await reader.readline()
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", session._base_url.port)
        writer.close()


async def test_what_the_other_may_have_done_is_not_to_be_tried_again() -> None:
    async def end(request: web.Request) -> web.Response:
        await request.read()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with (
        answering(web.route("*", "/api/v1/profiles", end)) as peer,
        asked(peer) as session,
    ):
        async with session.post("/api/v1/profiles", data=b"x") as answered:
            assert (answered.status, "Retry-After" in answered.headers) == (502, False)
            assert "it may have done what was asked" in (await answered.json())["detail"]
        async with session.get("/api/v1/profiles") as answered:
            assert (answered.status, answered.headers["Retry-After"]) == (503, "1")
