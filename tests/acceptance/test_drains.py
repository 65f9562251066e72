"""SIGTERM while many probes and deliveries are under way: it drains in time, and nothing is lost or comes twice."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.acceptance.support import World, world

SOURCES = [f"s{number}" for number in range(40)]
DRAIN_S = 10.0


async def publish(w: World, stop: asyncio.Event) -> None:
    """Let every source gain an item whenever each was asked again, until ``stop``."""
    while not stop.is_set():
        for source in SOURCES:
            w.origin.feeds[source].add(1)
        asked = asyncio.create_task(w.origin.was_asked(*SOURCES))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait((asked, stopping), return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        stopping.cancel()


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGTERM, id="SIGTERM"),
        pytest.param(signal.SIGINT, id="SIGINT"),
    ],
)
@pytest.mark.long
@pytest.mark.alone  # it loads the machine itself, and a drain has a time limit
async def test_a_stop_under_load_drains_in_time_and_tells_everything_once(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with world(tmp_path, drain_timeout=f"{DRAIN_S:g}s") as w:
        for source in SOURCES:
            w.origin.feed(source, "atom").add(1, age_s=3600.0)
        w.daemon.declare(w.text(SOURCES, {"each": 1, "second": 2}))
        await w.daemon.start()
        await w.daemon.knows(*SOURCES)
        seeds = {source: set(feed.guids) for source, feed in w.origin.feeds.items()}
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(publish(w, stop), name="publish")
            for turn in range(1, 4):
                await w.receiver.received("each", turn * 2 * len(SOURCES))
                w.daemon.signal(number)
                assert await w.daemon.ended(timeout_s=3.0 * DRAIN_S) == 0, w.daemon.log
                await w.daemon.start()
            stop.set()
        published = {name: [g for g in feed.guids if g not in seeds[name]] for name, feed in w.origin.feeds.items()}
        await w.receiver.received("each", sum(map(len, published.values())))
        await w.receiver.received("second", sum(len(guids) // 2 * 2 for guids in published.values()))
        for source, guids in published.items():
            arrivals = [a for a in w.receiver.arrivals["each"] if a.data["source"] == source]
            assert [guid for arrival in arrivals for guid in arrival.guids] == guids  # each of them once
        ids = [arrival.webhook_id for arrival in w.receiver.arrivals["second"]]
        assert len(ids) == len(set(ids))
        w.receiver.check()
        assert "Traceback" not in w.daemon.log
