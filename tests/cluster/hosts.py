"""An origin of many hosts, each an address of its own, that counts how many requests each answers at once."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web
from yarl import URL

from tests.acceptance.support import DOMAIN, PROFILE, Feed, rule_text

_OF_A_TEXT = 500


class Hosts:
    """Serves one feed for each host, at ``pages`` addresses, after ``delay_s``.

    Every host redirects to the host ``leads_to``, if there is one, which has their feeds at their names.
    """

    def __init__(self, names: Sequence[str], delay_s: float = 0.0, pages: int = 1) -> None:
        self.names = names
        self.pages = pages
        self.feeds = {name: Feed(name, "atom") for name in self.names}
        self.delay_s = delay_s
        self.answered: Counter[str] = Counter()
        self.begun: Counter[str] = Counter()
        self.most_at_once: Counter[str] = Counter()
        self.asked: list[tuple[float, URL]] = []  # when, and for what
        self.is_down = False
        self.leads_to = ""
        self.port = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer with the host's feed."""
        name = request.url.host or ""
        self.asked.append((time.monotonic(), request.url))
        if self.is_down and request.transport is not None:
            request.transport.abort()
        if self.leads_to and name != self.leads_to:
            raise web.HTTPFound(f"http://{self.leads_to}:{self.port}/of/{name}")
        self.begun[name] += 1
        self.most_at_once[name] = max(self.most_at_once[name], self.begun[name])
        try:
            await asyncio.sleep(self.delay_s)
            media_type, body = self.feeds.get(request.path.removeprefix("/of/"), self.feeds[name]).document()
            return web.Response(body=body, headers={"Content-Type": media_type})
        finally:
            self.begun[name] -= 1
            self.answered[name] += 1

    def texts(self, hook: str, policy: str = "AUTO") -> list[str]:
        """Return texts that declare every host's feed and one rule that tells of each of its items."""
        pages = ["", *(f"/{number}" for number in range(1, self.pages))]
        sources = [
            f"CREATE SOURCE \"{name}{page}\" OF RSS AT 'http://{name}:{self.port}{page or '/'}';\n"
            for page in pages
            for name in self.names
        ]
        rule = rule_text("each", 1, hook).replace("SET UTILITY STRICT", f"SET UTILITY STRICT SET POLICY {policy}")
        some = ["".join(sources[begin : begin + _OF_A_TEXT]) for begin in range(0, len(sources), _OF_A_TEXT)]
        return [f"{DOMAIN}{PROFILE}{rule}", *some]

    def texts_of_many(self, hook: str) -> list[str]:
        """Return texts that declare every host's feed and a rule with an endpoint of its own for each."""
        source, of_one = "CREATE SOURCE \"{0}\" OF RSS AT 'http://{0}:{1}/';\n", ' FROM SOURCES "{}"\nSET QUERY'
        sources = "".join(source.format(name, self.port) for name in self.names)
        rules = [
            rule_text(f"of {name}", 1, f"{hook}?{name}").replace("\nSET QUERY", of_one.format(name), 1)
            for name in self.names
        ]
        return [f"{DOMAIN}{PROFILE}{sources}{''.join(rules)}"]

    def publish(self, count: int = 1) -> list[str]:
        """Publish items on every host and return their guids."""
        return [guid for feed in self.feeds.values() for guid in feed.add(count)]

    def most_within(self, window_s: float) -> int:
        """Return how many requests came within so many seconds at most."""
        times = [at_s for at_s, _ in self.asked]
        return max(bisect_left(times, at_s + window_s) - number for number, at_s in enumerate(times))

    @property
    def in_turn(self) -> bool:
        """Whether no host was ever asked by two at once."""
        return max(self.most_at_once.values(), default=0) <= 1


@asynccontextmanager
async def hosts(names: int | Sequence[str], delay_s: float = 0.0, pages: int = 1) -> AsyncIterator[Hosts]:
    """Serve so many hosts, or those of these addresses, while the context is open."""
    if isinstance(names, int):
        names = [f"127.{1 + number // 250}.0.{1 + number % 250}" for number in range(names)]
    found = Hosts(names, delay_s, pages)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.5, access_log=None, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, "0.0.0.0", 0).start()
        found.port = runner.addresses[0][1]
        yield found
    finally:
        await runner.cleanup()
