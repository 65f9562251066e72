"""One origin that logs its arrivals: no burst at the start, in an outage or after it, under retries or a restart."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from tests.acceptance.support import World, eventually, world

SPACING_S = 0.05
BUDGET = 10  # a second
SOURCES = [f"s{n}" for n in range(30)]
JITTER_S = 0.3  # of arrivals against starts, on a busy machine


@dataclass
class LoggingOrigin:
    """Logs when each request came and how many were under way; what it answers can be changed."""

    times_s: list[float] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0
    status: int = 200
    drops: bool = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.times_s.append(time.monotonic())
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        with suppress(TimeoutError):  # it takes a while to answer
            await asyncio.wait_for(asyncio.Event().wait(), 0.01)
        self.under_way -= 1
        if self.drops and request.transport is not None:
            request.transport.abort()
        body = f"<rss version='2.0'><channel><title>{len(self.times_s)}</title></channel></rss>"
        headers = {"Retry-After": "1"} if self.status == 503 else {}
        return web.Response(status=self.status, text=body, content_type="application/rss+xml", headers=headers)

    async def asked(self, times: int) -> None:
        """Wait until it was asked so many more times."""
        wanted = len(self.times_s) + times
        await eventually(lambda: len(self.times_s) >= wanted, f"{wanted} requests", state=lambda: len(self.times_s))

    def check(self) -> None:
        """Fail where any run of arrivals was denser than the host's spacing and budget allow."""
        for first, start_s in enumerate(self.times_s):
            for count, stop_s in enumerate(self.times_s[first:], 1):
                span_s = stop_s - start_s + JITTER_S
                assert (count - 1) * SPACING_S <= span_s
                assert count <= BUDGET * (span_s + 1.0)
        assert self.most_under_way == 1


def declare(w: World, origin: LoggingOrigin) -> None:
    w.origin.pages |= dict.fromkeys(SOURCES, origin.handle)
    w.daemon.declare(w.text(SOURCES, {"r": 1}))


async def test_a_host_is_never_asked_more_than_its_budget_allows(tmp_path: Path) -> None:
    """Its sources alone would ask it 150 times a second."""
    async with world(
        tmp_path, host_spacing=f"{SPACING_S * 1000:g}ms", host_budget=f"{BUDGET}/s", host_concurrency="1"
    ) as w:
        origin = LoggingOrigin()
        declare(w, origin)
        await w.daemon.start()
        await origin.asked(2 * len(SOURCES))
        origin.status = 503
        await origin.asked(2)
        origin.status, origin.drops = 200, True
        await origin.asked(5)
        await w.daemon.kill()
        origin.drops = False
        await w.daemon.start()
        await origin.asked(2 * len(SOURCES))
        postponed = await w.daemon.metric('proxyd_postponed_probes_total{constraint="host politeness"}')
    origin.check()
    assert postponed > 0
