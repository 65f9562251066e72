"""Speed of the hub of feeds: how long 900 followers wait for a push, with and without 100 others that hang.

Run ``python benchmarks/hub.py`` (a minute); ``--quick`` takes few followers, ``--json`` is for machines. The hub, its
store and its sockets are the real ones; the followers answer at once, or never.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
from aiohttp import web
from aiohttp.test_utils import TestServer

from proxyd.api.auth import new_token
from proxyd.base import log
from proxyd.base.clock import SystemClock
from proxyd.base.interpreter import tune_interpreter
from proxyd.base.metrics import Metrics
from proxyd.core.language import CheckSettings, SourceText, check
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.rules.known.state import Notification
from proxyd.core.rules.stages.observation import RuleResults
from proxyd.daemon import FeedHub
from proxyd.net.guard import Guard
from proxyd.net.host_turns import HostTokens
from proxyd.net.session import make_session
from proxyd.probing.http.hubs import HubClient
from proxyd.store.backups import open_store
from proxyd.store.follower_rows import Follower
from proxyd.store.sql_store import SqlStore

TEXT = """WATCH 'https://example.org/feed' AS "r" INTO "P";"""
BODY = {"type": "proxyd.notification", "data": {"items": [{"title": "x" * 300}], "url": "https://example.org/"}}
HOSTS = 20  # loopback addresses, because a host has few connections
LEASE_S = 86_400.0


@dataclass
class Receivers:
    """Followers that answer at once, or never; how long after the news each was sent it."""

    told_s: float = 0.0
    waits_s: list[float] = field(default_factory=list)
    wanted: int = 0
    are_served: asyncio.Event = field(default_factory=asyncio.Event)
    ending: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.Response:
        """Take a push."""
        await request.read()
        if request.path.startswith("/slow"):
            await self.ending.wait()
        else:
            self.waits_s.append(time.perf_counter() - self.told_s)
            if len(self.waits_s) == self.wanted:
                self.are_served.set()
        return web.Response()


@asynccontextmanager
async def hub_of(store: SqlStore) -> AsyncIterator[FeedHub]:
    """Run the hub over real sockets."""
    checked = check([SourceText("p", TEXT)], CheckSettings())
    declarations: Any = SimpleNamespace(declaration=checked.declaration)
    guard, clock = Guard([ip_network("127.0.0.0/8")]), SystemClock()
    async with make_session(guard, contact="") as session:
        calls = HubClient(session, guard, HostTokens(clock, 0.0), HostTokens(clock, 0.0))
        rng = np.random.default_rng(1)
        hub = FeedHub(declarations, store, calls, clock, rng, Metrics(), "https://proxyd.example.org")
        running = asyncio.create_task(hub.run())
        try:
            yield hub
        finally:
            hub.stop()
            await running


async def measure(folder: Path, quick: int, slow: int, pushes: int) -> list[float]:
    """Return how long each of the quick followers waited for each push."""
    receivers = Receivers(wanted=quick)
    app = web.Application()
    app.router.add_post("/{path:.*}", receivers.handle)
    async with (
        TestServer(app, host="0.0.0.0") as server,
        open_store(folder / f"{quick} {slow}.db", ChrononGrid(10.0)) as store,
        store.writer.running(),
    ):
        now_s = SystemClock().time_s()
        token, _ = new_token("t", "read", now_s=now_s, expires_in_s=None)
        await store.access.add_token(token)
        for number in range(quick + slow):
            host = f"127.0.0.{number % HOSTS + 1}"
            kind = "slow" if number % (quick + slow) < slow else "quick"
            url = f"http://{host}:{server.port}/{kind}/{number}"
            name = f"{number * 7919 % 100_003:06}"  # followers that hang are among the others
            follower = Follower(name, url, host, "P", "", "atom", token.token_id, "secret", now_s + LEASE_S, 0, 0)
            await store.followers.keep(follower, 0.0)
        found: list[float] = []
        async with hub_of(store) as hub:
            for number in range(pushes):
                receivers.waits_s, receivers.told_s = [], time.perf_counter()
                receivers.are_served.clear()
                body = json.dumps(BODY).encode()
                news = Notification(f"n{number}", "r", "example.org", now_s, now_s, False, body, ())
                await store.record_results(RuleResults(notifications=(news,)))
                hub.news.notify()
                await receivers.are_served.wait()
                found += receivers.waits_s
        receivers.ending.set()
        return found


async def main(*, quick: bool) -> list[dict[str, object]]:
    """Return what was measured."""
    answering, hanging, pushes = (27, 3, 2) if quick else (900, 100, 3)
    lines: list[dict[str, object]] = []
    with TemporaryDirectory() as folder:
        await measure(Path(folder), answering + 1, 0, 1)  # the first run of a process is slower
        alone = float(np.percentile(await measure(Path(folder), answering, 0, pushes), 99))
        beside = float(np.percentile(await measure(Path(folder), answering, hanging, pushes), 99))
    lines.append({"what": f"p99 of {answering} followers", "seconds": alone})
    lines.append({"what": f"the same beside {hanging} that hang", "seconds": beside, "ratio": beside / alone})
    return lines


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few followers")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    tune_interpreter()
    log.configure("console", "error")
    measured = asyncio.run(main(quick=given.quick))
    print(json.dumps(measured) if given.json else "\n".join(map(str, measured)))
