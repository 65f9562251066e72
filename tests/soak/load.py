"""A steady load: sources of every kind, receivers, people at the API, and now and then other profiles."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random

import aiohttp
from aiohttp import web

from tests.acceptance.support import DOMAIN, Daemon, Entry, Feed, rule_text

SHOWN = 15  # items in a feed
EVERY_S = 10.0  # probes of a source, where its rule says so
ASKED = (
    *("sources", "rules", "plan?limit=50", "advice", "report", "notifications?limit=20", "webhooks", "domains"),
    *("explain/news-0", "sources/news-1/probes", "sources/news-2/items", "rules/each/intervals"),
    *("profiles/watch", "profiles/watch/feed.atom", "profiles/watch/feed.json", "deliveries/dead", "export", "nothing"),
)
CLASSES = """CLASS::ROW EACH JSON '$.rows[*]' KEY id (id:String FROM JSON '$.id', value:Decimal FROM JSON '$.value')
CLASS::PAGE;
"""


@dataclass(slots=True)
class Sites:
    """Feeds that gain items, feeds that do not, rows, pages, and what fails; each kind on hosts of its own."""

    many: int = 100
    port: int = 0
    rng: Random = field(default_factory=lambda: Random(0))
    asked: Counter[str] = field(default_factory=Counter)
    feeds: dict[str, Feed] = field(default_factory=dict)

    def names(self) -> Iterator[tuple[str, str]]:
        """Yield each source and its class."""
        for kind, share, of in KINDS:
            yield from ((f"{kind}-{number}", of) for number in range(round(share * self.many)))

    def text(self, hook: Callable[[str], str], *, more: bool) -> str:
        """Return the declaration; with one source and one rule more, or without."""
        sources = [*self.names(), *([("news-more", "RSS")] if more else [])]
        declared = "".join(
            f"CREATE SOURCE \"{name}\" OF {of} AT 'http://127.7.0.{1 + number % 40}:{self.port}/{name}';\n"
            for number, (name, of) in enumerate(sources)
        )
        rules = rule_text("each", 1, hook("each")) + rule_text("third", 3, hook("third"))
        rules += "".join(
            f'INSERT NOTIFICATION "{name}" INTO "watch" SET QUERY "{query}" SET TRIGGER "{trigger}"\n'
            f"START NOW END NEVER SET UTILITY STRICT SET POLICY UNIFORM({EVERY_S:g} SECONDS)\n"
            f"SET DELIVERY WEBHOOK '{hook(name)}' SECRET ENV 'SECRET_HOOK';\n"
            for name, query, trigger in RULES[: 4 if more else 3]
        )
        profile = 'CREATE PROFILE "watch" AS (DOMAIN "Feeds", LANGUAGE "SQL", USER "u");\n'
        return f"{DOMAIN.rstrip().rstrip(';')}\n{CLASSES}{declared}{profile}{rules}"

    def publish(self, turn: int) -> None:
        """Let one feed in so many gain an item, whichever: no week is found in that. Each shows its newest."""
        for number in self.rng.sample(range(self.many), self.many // 20):
            feed = self.feeds.setdefault(f"news-{number}", Feed(f"news-{number}"))
            feed.entries = [*feed.entries[1 - SHOWN :], Entry(f"{feed.name}-{turn}", float(int(time.time())))]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer as the source's kind does."""
        name = request.path.removeprefix("/")
        kind = name.partition("-")[0]
        self.asked[kind] += 1
        if kind in {"news", "still"}:
            feed = self.feeds.setdefault(name, Feed(name, entries=[Entry(f"{name}-{n}", 1e9 + n) for n in range(5)]))
            return _tagged(request, *feed.document())
        if kind == "rows":
            turn = int(time.time() / EVERY_S)
            rows = [{"id": f"{turn + n}", "value": turn} for n in range(10)]
            return web.json_response({"rows": rows})
        if kind == "page":
            words = " ".join(f"word{n}" for n in range(200))
            return web.Response(text=f"<p>{int(time.time() / EVERY_S)} {words}</p>", content_type="text/html")
        return await self._fail(name, request)

    async def _fail(self, name: str, request: web.Request) -> web.StreamResponse:
        how = int(name.partition("-")[2] or 0) % 3 if "-" in name else 0
        if how == 0 or request.transport is None:
            return web.Response(status=500 if "-" in name else 404)
        if how == 1:
            request.transport.abort()
        return web.Response(body=b"\x00<rss><channel>", content_type="application/rss+xml")


KINDS = (("news", 1.0, "RSS"), ("still", 1.0, "RSS"), ("rows", 0.3, "ROW"), ("page", 0.3, "PAGE"), ("bad", 0.2, "RSS"))
RULES = (
    ("rows", "SELECT id, value FROM ROW", "ON UPDATE TO ROW WHEN NEW.value > OLD.value"),
    ("texts", "SELECT DIFF(OLD.text, NEW.text) AS change FROM PAGE", "ON UPDATE TO PAGE"),
    ("often", "SELECT channel.item.title FROM RSS", "ON INSERT TO RSS WHEN COUNT(*) % 5 = 0"),
    ("more", "SELECT id FROM ROW", "ON INSERT TO ROW"),
)


def _tagged(request: web.Request, media_type: str, body: bytes) -> web.Response:
    etag = f'"{hash(body)}"'
    if request.headers.get("If-None-Match") == etag:
        return web.Response(status=304, headers={"ETag": etag})
    return web.Response(body=body, headers={"Content-Type": media_type, "ETag": etag})


@asynccontextmanager
async def serving(sites: Sites) -> AsyncIterator[None]:
    """Serve the sites while the context is open."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", sites.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.5, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "0.0.0.0", 0).start()
        sites.port = runner.addresses[0][1]
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def busy(sites: Sites, daemon: Daemon, token: str, hook: Callable[[str], str]) -> AsyncIterator[None]:
    """Keep the sites and the daemon busy while the context is open."""
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(_publish(sites), name="publish"),
            tasks.create_task(_ask(daemon, token), name="ask"),
            tasks.create_task(_redeclare(daemon, sites, hook), name="redeclare"),
        ]
        yield
        for task in running:
            task.cancel()


async def _publish(sites: Sites) -> None:
    for turn in itertools.count(100):
        sites.publish(turn)
        await asyncio.sleep(1.0)


async def _ask(daemon: Daemon, token: str) -> None:
    """Ask everything in turn."""
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(daemon.base, headers=headers) as session:
        for path in itertools.cycle([*(f"/api/v1/{each}" for each in ASKED), "/metrics", "/healthz", "/"]):
            async with session.get(path, allow_redirects=False) as response:
                await response.read()
                assert response.status < 500, (path, response.status)
            await asyncio.sleep(0.2)


async def _redeclare(daemon: Daemon, sites: Sites, hook: Callable[[str], str]) -> None:
    for turn in itertools.count():
        await asyncio.sleep(20.0)
        daemon.declare(sites.text(hook, more=turn % 2 == 0))
