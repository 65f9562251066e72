"""kill -9 at any moment loses nothing, and no item gets two names."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from tests.acceptance.support import Receiver, World, world

PATIENCE_S = 300.0  # the fewer deliveries the kills let through, the more faults of the receivers come after them
SOURCES = {"rss2": "rss2", "rss1": "rss1", "atom": "atom"}


async def publish(w: World, rng: np.random.Generator, stop: asyncio.Event) -> None:
    """Let the feeds gain items at random until ``stop``, whoever looks."""
    while not stop.is_set():
        w.origin.feeds[str(rng.choice(list(SOURCES)))].add(int(rng.integers(1, 4)))
        try:
            await asyncio.wait_for(stop.wait(), float(rng.uniform(0.2, 0.8)))
        except TimeoutError:
            continue


def check_rule(receiver: Receiver, rule: str, every: int, published: dict[str, list[str]]) -> None:
    """Every arrival of a rule, repeated ones too: one id for an item, nothing lost, each source in its order."""
    ids: dict[str, set[str]] = defaultdict(set)
    for arrival in receiver.arrivals[rule]:
        for guid in arrival.guids:
            ids[guid].add(arrival.webhook_id)
    assert {guid: found for guid, found in ids.items() if len(found) > 1} == {}
    for source, guids in published.items():
        rows = [a.guids for a in receiver.accepted(rule) if a.data["source"] == source]
        whole = len(guids) // every * every
        assert rows == [guids[i : i + every] for i in range(0, whole, every)]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.long)])
async def test_kills_lose_nothing_and_rename_nothing(tmp_path: Path, kills: int) -> None:
    rng = np.random.default_rng(1)
    async with world(tmp_path, delivery_timeout="1s") as w:
        for name, form in SOURCES.items():
            w.origin.feed(name, form).add(3, age_s=3600.0)
        w.daemon.declare(w.text(list(SOURCES), {"each": 1, "third": 3}))
        await w.daemon.start()
        await w.daemon.knows(*SOURCES)
        seeds = {name: set(feed.guids) for name, feed in w.origin.feeds.items()}
        w.receiver.scripts["each"].extend(["503", "ok", "ok", "drop", "garbage", *["ok"] * 8] * 20)
        w.receiver.scripts["third"].extend(["stall", *["ok"] * 9, "garbage", *["ok"] * 5] * 4)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(publish(w, rng, stop))
            for number in range(kills):
                # Some while it starts, most once it works; every second one leaves the parsers to find out.
                if number % 4 == 3:
                    moment_s = float(rng.uniform(0.0, 1.2))
                else:
                    await w.daemon.started()
                    moment_s = float(rng.uniform(0.0, 0.6))
                await asyncio.sleep(moment_s)
                await (w.daemon.kill() if number % 2 else w.daemon.kill_alone())
                await w.daemon.spawn()
            stop.set()
        await w.daemon.started()
        published = {n: [g for g in f.guids if g not in seeds[n]] for n, f in w.origin.feeds.items()}
        await w.receiver.received("each", sum(map(len, published.values())), timeout_s=PATIENCE_S)
        await w.receiver.received(
            "third", sum(len(guids) // 3 * 3 for guids in published.values()), timeout_s=PATIENCE_S
        )
        w.receiver.check()
        check_rule(w.receiver, "each", 1, published)
        check_rule(w.receiver, "third", 3, published)
        await w.daemon.stop()
