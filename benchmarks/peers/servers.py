"""The sources and the receiver of a run, on loopback, with a note of all that comes."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from math import ceil

from aiohttp import web
from mixes import Feed, Mix

_PARTS_S = 2.0
_WORD = re.compile(r"pxitem-\d+-\d+")


@dataclass
class Run:
    """What the sources and the receiver saw; times are seconds since the run began."""

    mix: Mix
    began_s: float = field(default_factory=time.time)
    requests: Counter[int] = field(default_factory=Counter)  # by status
    limited: Counter[tuple[int, float]] = field(default_factory=Counter)  # answers with 429, by feed and time of limit
    noticed: dict[str, float] = field(default_factory=dict)  # the first answer with an item, by its word
    told: dict[str, float] = field(default_factory=dict)  # the first message about an item
    messages: Counter[str] = field(default_factory=Counter)  # about an item; the parts of a long one count as one
    last_told: dict[str, float] = field(default_factory=dict)
    first_request_s: float | None = None

    def begin(self) -> None:
        """Begin now, and forget what came before."""
        self.began_s = time.time()
        for each in (self.requests, self.limited, self.noticed, self.told, self.messages, self.last_told):
            each.clear()
        self.first_request_s = None

    @property
    def too_early(self) -> int:
        """Requests before a Retry-After was over: each feed learns of it by the first."""
        return sum(count - 1 for count in self.limited.values())

    @property
    def now_s(self) -> float:
        """Seconds since the run began."""
        return time.time() - self.began_s


@asynccontextmanager
async def serving(run: Run) -> AsyncIterator[tuple[list[str], str]]:
    """Serve each feed on an address of its own, and a receiver; yield the feeds' addresses and that of the receiver."""
    async with AsyncExitStack() as stack:
        urls = []
        for feed in run.mix.feeds:
            host = f"127.1.{feed.number // 250}.{1 + feed.number % 250}"
            port = await _listen(stack, host, _origin(run, feed))
            urls.append(f"http://{host}:{port}/feed.xml")
        port = await _listen(stack, "127.0.0.1", _receiver(run))
        yield urls, f"http://127.0.0.1:{port}/hook"


async def _listen(stack: AsyncExitStack, host: str, app: web.Application) -> int:
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    site = web.TCPSite(runner, host, 0)
    await site.start()
    port: int = runner.addresses[0][1]
    return port


def _origin(run: Run, feed: Feed) -> web.Application:
    async def answer(request: web.Request) -> web.Response:
        now_s = run.now_s
        found = _answer(run, feed, now_s, request.headers.get("If-None-Match"))
        run.requests[found.status] += 1
        run.first_request_s = now_s if run.first_request_s is None else run.first_request_s
        return found

    async def robots(_request: web.Request) -> web.Response:
        return web.Response(status=404)

    app = web.Application()
    app.add_routes([web.get("/feed.xml", answer), web.get("/robots.txt", robots)])
    return app


def _answer(run: Run, feed: Feed, now_s: float, known: str | None) -> web.Response:
    if feed.number % 2:
        for begin_s, end_s in run.mix.limits:
            if begin_s <= now_s < end_s:
                run.limited[feed.number, begin_s] += 1
                return web.Response(status=429, headers={"Retry-After": str(ceil(end_s - now_s))})
        if any(begin_s <= now_s < end_s for begin_s, end_s in run.mix.outages):
            return web.Response(status=503)
    body, version = feed.body(now_s, run.began_s)
    if feed.shape == "texts that change":
        version = f"{version}-{now_s}"
    tag = f'"{version}"'
    if known == tag:
        return web.Response(status=304, headers={"ETag": tag})
    for word in _WORD.findall(body):
        run.noticed.setdefault(word, now_s)
    return web.Response(text=body, content_type="application/rss+xml", headers={"ETag": tag})


def _receiver(run: Run) -> web.Application:
    ids: set[str | None] = set()

    async def take(request: web.Request) -> web.Response:
        body, now_s = await request.text(), run.now_s
        if any(begin_s <= now_s < end_s for begin_s, end_s in run.mix.receiver_outages):
            return web.Response(status=503)
        if (told := request.headers.get("webhook-id")) is not None and told in ids:
            return web.Response(text="ok")  # as the standard of webhooks has it: what comes again has the same id
        ids.add(told)
        for word in dict.fromkeys(_WORD.findall(body)):
            run.told.setdefault(word, now_s)
            run.messages[word] += now_s - run.last_told.get(word, -_PARTS_S) >= _PARTS_S
            run.last_told[word] = now_s
        return web.Response(text="ok")

    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{tail:.*}", take)
    return app
