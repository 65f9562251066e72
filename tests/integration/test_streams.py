"""Streams of notifications over real sockets: nothing is missed, nothing comes twice, nobody is waited for."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientConnectionResetError, ClientResponse, ServerDisconnectedError, web

from proxyd.api.rest import live_streams
from proxyd.api.rest.live_streams import StreamSettings
from proxyd.app.server import ApiSettings, serve_api
from proxyd.client import ApiError, Client, StreamEvent, UnreachableError
from proxyd.client.wire import EventReader
from proxyd.config.loading import socket_address
from proxyd.core.model.field_values import iso_time
from proxyd.store.listed_rows import StoredNotification
from tests.fakes import FakeClock
from tests.fleets import changed, item, rule
from tests.integration.api_world import T0, Running, running_api, told

SETTINGS = StreamSettings(most=2, batch=2)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with running_api(tmp_path, SETTINGS) as api:
        yield api


class Listener:
    """Reads a response as a stream."""

    def __init__(self, response: ClientResponse) -> None:
        self.reader = EventReader()
        self.text = b""
        self._response = response
        self._waiting: list[StreamEvent] = []

    async def piece(self) -> bool:
        piece = await self._response.content.readany()
        self.text += piece
        self._waiting += self.reader.read(piece)
        return bool(piece)

    async def until(self, text: bytes) -> None:
        while text not in self.text:
            assert await self.piece(), self.text

    async def names(self, count: int) -> list[str]:
        while len(self._waiting) < count and await self.piece():
            pass
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return [event.body["data"]["id"] for event in taken]


async def listen(running: Running, query: str = "", **headers: str) -> Listener:
    """Open a stream and return once it listens."""
    if "read" not in vars(running):
        vars(running)["read"] = await running.token("read")
    response = await running.client.get(f"/api/v1/stream{query}", headers=vars(running)["read"] | headers)
    assert response.status == 200
    assert response.content_type == "text/event-stream"
    listener = Listener(response)
    await listener.until(b"\n\n")
    return listener


async def test_a_stream_sends_what_is_new_and_only_that(running: Running) -> None:
    await running.tell(told("old"))
    listener = await listen(running)
    await running.tell(told("a"), told("b"))
    await running.tell(told("c"))
    assert await listener.names(3) == ["a", "b", "c"]
    assert listener.text.count(b"event: notification\n") == 3
    assert b"id: 4\nevent: notification\ndata: {" in listener.text
    assert b'"old"' not in listener.text


async def test_a_stream_resumes_after_the_last_event(running: Running) -> None:
    await running.tell(*(told(name) for name in "abcdef"))
    by_header = await listen(running, **{"Last-Event-ID": "2"})
    assert await by_header.names(4) == ["c", "d", "e", "f"]
    by_query = await listen(running, "?last_event_id=4")
    assert await by_query.names(2) == ["e", "f"]
    await running.tell(told("g"))
    assert [await by_header.names(1), await by_query.names(1)] == [["g"], ["g"]]


async def test_an_id_that_was_never_given_out_counts_as_the_beginning(running: Running) -> None:
    await running.tell(told("a"))
    listener = await listen(running, "?last_event_id=9999999999999999999")
    assert await listener.names(1) == ["a"]


async def test_a_stream_begins_with_what_was_told_since_a_time(running: Running) -> None:
    await running.tell(*(told(name, at_s=T0 + at_s) for name, at_s in (("a", 1.0), ("c", 3.0), ("b", 2.0), ("d", 4.0))))
    async with running.client.get("/api/v1/stream?since=yesterday", headers=await running.token("write")) as answer:
        assert answer.status == 400
    listener = await listen(running, f"?since={iso_time(T0 + 2.0)}")
    assert await listener.names(3) == ["c", "b", "d"]
    later = await listen(running, f"?since={iso_time(T0 + 9.0)}")
    await running.tell(told("e", at_s=T0 + 9.0))
    assert await later.names(1) == ["e"]


async def test_nothing_is_missed_between_two_questions_about_where_to_begin(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = running.control.queries.history
    before = history.position_before

    async def late(since_s: float, newest: int) -> int:
        await running.tell(told("meanwhile", at_s=T0))
        return await before(since_s, newest)

    monkeypatch.setattr(history, "position_before", late)
    listener = await listen(running, f"?since={iso_time(T0)}")
    assert await listener.names(1) == ["meanwhile"]


async def test_whatever_is_recorded_while_a_stream_reads_comes_once_and_in_order(running: Running) -> None:
    listener = await listen(running)
    names = [f"n{number}" for number in range(40)]

    async def record() -> None:
        for begin in range(0, 40, 5):
            await running.tell(*(told(name) for name in names[begin : begin + 5]))

    _, found = await asyncio.gather(record(), listener.names(40))
    assert found == names
    assert listener.reader.last == 40


async def test_a_stream_of_a_rule_or_a_profile_holds_its_notifications_alone(running: Running) -> None:
    text = 'CREATE PROFILE "Q" AS (DOMAIN "D", LANGUAGE "SQL", USER "u");\n' + rule("q").replace('"P"', '"Q"')
    await running.control.declarations.declare(text)
    of_rule, of_profile = await listen(running, "?rule=r"), await listen(running, "?profile=Q")
    await running.tell(told("a"), told("b", rule_name="q"), told("c"), told("d", rule_name="gone"))
    await running.tell(told("e", rule_name="q"), told("f"))
    assert await of_rule.names(3) == ["a", "c", "f"]
    assert await of_profile.names(2) == ["b", "e"]


async def test_a_stream_ends_when_its_token_is_dropped(running: Running) -> None:
    listener = await listen(running)
    await running.tell(told("a"))
    assert await listener.names(1) == ["a"]
    await running.control.queries.access.drop_token("read None", T0)
    await running.tell(told("b"))
    assert await listener.names(1) == []


async def test_a_probe_that_fires_a_rule_wakes_the_streams(running: Running) -> None:
    listener = await listen(running)
    observer = running.control.loops.observer
    await observer.take_in(changed("s", [item("first", T0 - 5.0)], T0))
    await observer.take_in(changed("s", [item("second", T0 + 5.0), item("first", T0 - 5.0)], T0 + 10.0))
    (name,) = await listener.names(1)
    assert name.startswith("ntf_")
    assert b"second" in listener.text


async def test_a_quiet_stream_says_that_it_is_there_and_how_far_it_is(tmp_path: Path) -> None:
    async with running_api(tmp_path, StreamSettings(heartbeat_s=0.01)) as running:
        listener = await listen(running, "?rule=r")
        await running.tell(told("a", rule_name="other"))
        await listener.until(b": still there\nid: 1\n\n")
        assert b"event:" not in listener.text


async def test_more_streams_than_allowed_are_told_to_come_again(running: Running) -> None:
    await listen(running)
    await listen(running)
    async with running.client.get("/api/v1/stream", headers=vars(running)["read"]) as answer:
        assert (answer.status, answer.content_type) == (503, "application/problem+json")
        assert answer.headers["Retry-After"] == "5"


async def test_a_client_that_leaves_before_the_stream_begins_is_no_error(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def gone(response: web.StreamResponse, request: web.BaseRequest) -> None:
        assert request.transport is not None
        request.transport.abort()
        raise ClientConnectionResetError("Cannot write to closing transport")

    headers = vars(running)["read"] = await running.token("read")
    with monkeypatch.context() as patched:
        patched.setattr(web.StreamResponse, "prepare", gone)
        with pytest.raises(ServerDisconnectedError):
            await running.client.get("/api/v1/stream", headers=headers)
    await listen(running)
    await listen(running)  # it left its place to others
    assert [record.message for record in caplog.records if record.name == "aiohttp.server"] == []


@pytest.mark.parametrize(
    "path", ["stream?rule=r", "stream?profile=P", "profiles/P/feed.atom", "notifications?profile=P"]
)
async def test_names_that_a_starting_daemon_does_not_know_yet_are_asked_for_later(running: Running, path: str) -> None:
    headers = await running.token("read")
    running.control.declarations._started.clear()
    async with running.client.get(f"/api/v1/{path}", headers=headers) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
        assert answer.content_type == "application/problem+json"


async def test_streams_end_with_the_listener_and_send_what_there_is_first(running: Running) -> None:
    listener = await listen(running)
    server = running.client.server
    await running.tell(told("a"), told("b"), told("c"))
    assert server.runner is not None
    await server.runner.shutdown()
    assert await listener.names(9) == ["a", "b", "c"]  # to the end of the response, which is a clean one
    assert not await listener.piece()


def clock_of(running: Running) -> FakeClock:
    assert isinstance(running.control.resources.clock, FakeClock)
    return running.control.resources.clock


async def test_a_stream_ends_when_its_token_expires(running: Running) -> None:
    vars(running)["read"] = await running.token("read", expires_in_s=60.0)
    listener = await listen(running)
    await running.tell(told("a"))
    assert await listener.names(1) == ["a"]
    await clock_of(running).advance(59.0)
    await running.tell(told("b"))
    assert await listener.names(1) == ["b"]
    await clock_of(running).advance(1.0)
    await running.tell(told("c"))
    assert await listener.names(1) == []  # to the end of the response, which is a clean one
    async with running.client.get("/api/v1/stream", headers=vars(running)["read"]) as answer:
        assert answer.status == 401


async def test_what_comes_after_the_token_expired_is_not_sent_even_before_the_stream_ends(running: Running) -> None:
    vars(running)["read"] = await running.token("read", expires_in_s=60.0)
    listener = await listen(running)
    await clock_of(running).someone_sleeps()
    clock_of(running).jump(60.0)  # and nobody was woken
    await running.tell(told("a"))
    assert await listener.names(1) == []


async def test_a_stream_that_expires_frees_its_place_and_others_go_on(running: Running) -> None:
    for_ever = await listen(running)
    vars(running)["read"] = await running.token("read", expires_in_s=60.0)
    short = await listen(running)
    await clock_of(running).advance(60.0)
    assert not await short.piece()
    vars(running)["read"] = await running.token("write")
    again = await listen(running)
    await running.tell(told("a"))
    assert [await for_ever.names(1), await again.names(1)] == [["a"], ["a"]]


async def read_all(connection: socket.socket) -> bytes:
    pieces = []
    while piece := await asyncio.get_running_loop().sock_recv(connection, 65536):
        pieces.append(piece)
    return b"".join(pieces)


class Log:
    """Remembers that something was warned of."""

    def __init__(self) -> None:
        self.warned = asyncio.Event()

    def warning(self, *text: object, **fields: object) -> None:
        self.warned.set()


async def test_a_client_that_takes_nothing_is_disconnected_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log()
    monkeypatch.setattr(live_streams, "log", log)
    async with running_api(tmp_path, StreamSettings(write_timeout_s=0.1)) as running:
        token = (await running.token("write"))["Authorization"]
        await running.tell(*(told(f"n{n}", filler="x" * 400_000) for n in range(30)))
        head = f"GET /api/v1/stream?last_event_id=0 HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n\r\n"
        loop = asyncio.get_running_loop()
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.setblocking(False)
            await loop.sock_connect(slow, ("127.0.0.1", running.client.port))
            await loop.sock_sendall(slow, head.encode())
            await log.warned.wait()
            sent = await read_all(slow)
        assert sent.count(b"event: notification") < 30
        assert not sent.endswith(b"\r\n0\r\n\r\n")  # cut off, not ended
        listener = await listen(running, "?last_event_id=28")
        assert await listener.names(2) == ["n28", "n29"]


async def test_a_client_that_lags_gets_no_more_than_was_under_way_when_its_token_expired(running: Running) -> None:
    token = (await running.token("read", expires_in_s=60.0))["Authorization"]
    await running.tell(*(told(f"n{n}", filler="x" * 400_000) for n in range(30)))
    head = f"GET /api/v1/stream?last_event_id=0 HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n\r\n"
    loop = asyncio.get_running_loop()
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.setblocking(False)
        await loop.sock_connect(slow, ("127.0.0.1", running.client.port))
        await loop.sock_sendall(slow, head.encode())
        sent = await loop.sock_recv(slow, 4096)
        clock_of(running).jump(60.0)
        while not sent.endswith(b"\r\n0\r\n\r\n"):
            piece = await loop.sock_recv(slow, 65536)
            assert piece
            sent += piece
    assert sent.count(b"event: notification") < 30


async def gather(client: Client, count: int, **wanted: Any) -> list[StreamEvent]:
    found: list[StreamEvent] = []
    async with aclosing(client.stream(retry_s=0.0, **wanted)) as events:
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


async def test_the_client_connects_again_and_goes_on_where_it_was(running: Running, tmp_path: Path) -> None:
    path = tmp_path / "proxyd.sock"
    settings = ApiSettings("127.0.0.1", 0, path, socket_address(path))
    async with Client.over_socket(socket_address(path)) as client:
        with pytest.raises(UnreachableError):
            await gather(client, 1)
        found: list[str] = []
        seen = asyncio.Event()

        async def follow() -> None:
            async with aclosing(client.stream(retry_s=0.0, last=0)) as events:
                async for event in events:
                    found.append(event.body["data"]["id"])
                    seen.set()
                    if len(found) == 4:
                        return

        await running.tell(told("a"))
        async with serve_api(running.control.queries, settings):
            following = asyncio.create_task(follow())
            await seen.wait()
        await running.tell(told("b"), told("c"))  # while nobody listens
        async with serve_api(running.control.queries, settings):
            await running.tell(told("d"))
            await following
    assert found == ["a", "b", "c", "d"]


async def test_the_client_raises_what_the_daemon_refuses(running: Running) -> None:
    base = str(running.client.make_url(""))
    async with Client.over_http(base, "wrong") as client:
        with pytest.raises(ApiError, match="token create"):
            await gather(client, 1)
    token = (await running.token("read"))["Authorization"].removeprefix("Bearer ")
    async with Client.over_http(base, token) as client:
        with pytest.raises(ApiError, match="no rule"):
            await gather(client, 1, rule="nothing")


def test_events_are_read_wherever_the_stream_is_cut() -> None:
    body = {"text": "é\u2028\n"}
    sent = json.dumps(body, ensure_ascii=False).encode()
    row = StoredNotification(7, "n", "r", "s", 0.0, 0.0, late=False, body=sent)
    data = b"retry: 3000\nid: 6\n\n" + live_streams.event_of(row) + b": still there\r\nid: 9\r\n\r\n"
    for cut in range(len(data)):
        reader = EventReader()
        assert [*reader.read(data[:cut]), *reader.read(data[cut:])] == [StreamEvent(7, body)]
        assert reader.last == 9
