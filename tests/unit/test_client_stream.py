"""A stream goes on after a refusal that says when to come again."""

from __future__ import annotations

from contextlib import aclosing

from aiohttp import web
from aiohttp.test_utils import TestServer

from proxyd.client import Client


def _event(position: int) -> bytes:
    return f'id: {position}\nevent: notification\ndata: {{"data": {{"id": "n{position}"}}}}\n\n'.encode()


async def test_a_stream_that_is_refused_for_a_while_goes_on_where_it_was() -> None:
    asked: list[str | None] = []

    async def stream(request: web.Request) -> web.StreamResponse:
        asked.append(request.headers.get("Last-Event-ID"))
        if len(asked) == 2:
            return web.json_response({"title": "Too many requests"}, status=429, headers={"Retry-After": "0"})
        if len(asked) == 3:
            return web.Response(text="<html>", status=503, content_type="text/html", headers={"Retry-After": "0"})
        return web.Response(body=_event(len(asked)), content_type="text/event-stream")

    app = web.Application()
    app.router.add_get("/api/v1/stream", stream)
    async with (
        TestServer(app) as server,
        Client.over_http(str(server.make_url("")), "pxd_x") as client,
        aclosing(client.stream(last=0, retry_s=0.0)) as events,
    ):
        found = [(await anext(events)).position, (await anext(events)).position]
    assert (found, asked) == ([1, 4], ["0", "1", "1", "1"])


async def test_a_stream_that_breaks_without_a_word_is_asked_for_again() -> None:
    asked: list[str | None] = []

    async def stream(request: web.Request) -> web.StreamResponse:
        asked.append(request.headers.get("Last-Event-ID"))
        if len(asked) < 3:
            return web.Response(status=502)
        return web.Response(body=_event(8), content_type="text/event-stream")

    app = web.Application()
    app.router.add_get("/api/v1/stream", stream)
    async with (
        TestServer(app) as server,
        Client.over_http(str(server.make_url("")), "pxd_x") as client,
        aclosing(client.stream(last=7, retry_s=0.0)) as events,
    ):
        assert (await anext(events)).position == 8
    assert asked == ["7", "7", "7"]
