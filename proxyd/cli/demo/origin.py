"""The origin server of the demo: Atom feeds whose entries appear at predetermined times."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from email.utils import format_datetime

import numpy as np
from aiohttp import web

from proxyd.base.ports import Clock
from proxyd.core.model.measures import Times

LOOPBACK = ("127.0.0.1",)
_ENTRY = """<entry><id>{id}</id><title>Item {number} of feed {feed}</title>
<link href="http://demo.invalid/{feed}/{number}"/><published>{time}</published><updated>{time}</updated>
<summary>Nothing happened, {number} times.</summary></entry>
"""
_FEED = """<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:demo:{feed}</id><title>Feed {feed}</title><updated>{time}</updated>
{entries}</feed>
"""


def item_id(feed: int, number: int) -> str:
    """Return the identity of an item: its feed and its number in the feed.

    >>> item_id(7, 31)
    'urn:demo:7:31'
    """
    return f"urn:demo:{feed}:{number}"


def read_item_id(text: str) -> tuple[int, int]:
    """Return the feed and the number of an identity.

    >>> read_item_id("urn:demo:7:31")
    (7, 31)
    """
    feed, number = text.removeprefix("urn:demo:").split(":")
    return int(feed), int(number)


class Origin:
    """Serves ``/feeds/N.atom`` on loopback and records when each feed was requested.

    Parameters
    ----------
    times_s
        When the items of each feed appear, unix seconds, ascending.
    window
        Number of entries that a feed shows, newest first.
    """

    def __init__(self, times_s: Sequence[Times], clock: Clock, *, window: int) -> None:
        self._times_s = times_s
        self._clock = clock
        self._window = window
        self.requests_s: list[list[float]] = [[] for _ in times_s]

    @asynccontextmanager
    async def serving(self, hosts: Sequence[str] = LOOPBACK) -> AsyncIterator[list[str]]:
        """Listen on a free port of each host while the context is open; yield their addresses."""
        app = web.Application()
        app.router.add_get("/feeds/{feed:\\d+}.atom", self._answer)
        async with listening(app, hosts) as addresses:
            yield addresses

    async def _answer(self, request: web.Request) -> web.Response:
        feed = int(request.match_info["feed"])
        if feed >= len(self._times_s):
            raise web.HTTPNotFound
        now_s = self._clock.time_s()
        self.requests_s[feed].append(now_s)
        count = int(np.searchsorted(self._times_s[feed], now_s, side="right"))
        headers = {"ETag": f'"{count}"', "Cache-Control": "no-cache"}
        if count:
            headers["Last-Modified"] = format_datetime(_moment(self._times_s[feed][count - 1]), usegmt=True)
        if _is_known(request, count):
            return web.Response(status=304, headers=headers)
        body = self._page(feed, count)
        return web.Response(text=body, content_type="application/atom+xml", headers=headers)

    def _page(self, feed: int, count: int) -> str:
        times = [_iso(time_s) for time_s in self._times_s[feed][max(0, count - self._window) : count]]
        entries = [
            _ENTRY.format(id=item_id(feed, number), feed=feed, number=number, time=time)
            for number, time in zip(range(count - 1, -1, -1), reversed(times), strict=False)
        ]
        return _FEED.format(feed=feed, time=times[-1] if times else _iso(0.0), entries="".join(entries))


@asynccontextmanager
async def listening(app: web.Application, hosts: Sequence[str] = LOOPBACK) -> AsyncIterator[list[str]]:
    """Serve ``app`` on a free port of each host while the context is open; yield their addresses."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        for host in hosts:
            await web.TCPSite(runner, host, 0).start()
        yield [f"http://{host}:{port}" for host, port in runner.addresses]
    finally:
        await runner.cleanup()


def _is_known(request: web.Request, count: int) -> bool:
    """Return whether the client has the page; Last-Modified is ignored, as whole seconds are too coarse here."""
    return any(tag.value == str(count) for tag in request.if_none_match or ())


def _moment(time_s: float) -> datetime:
    return datetime.fromtimestamp(float(time_s), UTC)


def _iso(time_s: float) -> str:
    return _moment(time_s).isoformat(timespec="microseconds")
