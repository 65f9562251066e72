"""Twelve live feeds and rules with a life of 4 s: the share of items seen in time, where the requests arrive."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from proxyd.base.clock import SystemClock
from proxyd.cli.demo import Origin
from proxyd.core.model.schedule import Times
from tests.acceptance.support import Daemon, eventually

FEEDS, LIFE_S, UNIFORM_S = 12, 4.0, 6.0
LEARNING_S, MEASURED_S = 30.0, 100.0
HOSTS = [f"127.0.3.{number}" for number in range(1, FEEDS + 1)]
SETTINGS = {
    "chronon": "1s",
    "source_spacing": "1s",
    "budget": f"{FEEDS / UNIFORM_S}/s",
    "objective": "spend",
}
RULE = """CREATE PROFILE "watch";
INSERT NOTIFICATION "in time" INTO "watch"
SET QUERY "SELECT title FROM FEED" SET TRIGGER "ON INSERT TO FEED"
SET LIFE WINDOW(4 SECONDS) SET POLICY {policy} SET DELIVERY NONE;
"""


def make_items(begin_s: float) -> list[Times]:
    """Return when each feed gains an item: every 5 to 40 seconds on average, at chance."""
    rng = np.random.Generator(np.random.PCG64(7))
    length_s = LEARNING_S + MEASURED_S + LIFE_S
    means_s = rng.uniform(5.0, 40.0, FEEDS)
    return [begin_s + np.cumsum(rng.exponential(mean_s, int(4 * length_s / mean_s) + 10)) for mean_s in means_s]


def share_in_time(items_s: Sequence[Times], requests_s: Sequence[Times], from_s: float) -> float:
    """Return the share of the measured items that a request of their feed follows within their life."""
    seen = [
        np.any((requests >= item_s) & (requests <= item_s + LIFE_S))
        for items, requests in zip(items_s, requests_s, strict=True)
        for item_s in items[(items >= from_s) & (items < from_s + MEASURED_S)]
    ]
    return float(np.mean(seen))


@asynccontextmanager
async def probing(folder: Path, items_s: Sequence[Times], policy: str) -> AsyncIterator[Origin]:
    """Yield the feeds while a daemon of their own probes them."""
    folder.mkdir()
    origin = Origin(items_s, SystemClock(), window=50)
    async with origin.serving(HOSTS) as addresses, Daemon(folder, **SETTINGS) as daemon:
        daemon.write_settings()
        sources = (
            f"CREATE SOURCE \"s{n}\" OF FEED AT '{address}/feeds/{n}.atom' EXPECT 3 PER MINUTE;\n"
            for n, address in enumerate(addresses)
        )
        daemon.declare(RULE.format(policy=policy) + "".join(sources))
        await daemon.start()
        yield origin
        await daemon.stop()


@pytest.mark.alone
async def test_the_share_in_time_is_about_that_of_even_spacing_at_the_same_budget(tmp_path: Path) -> None:
    clock = SystemClock()
    begin_s = clock.time_s()
    items_s = make_items(begin_s)
    from_s = begin_s + LEARNING_S
    end_s = from_s + MEASURED_S + LIFE_S
    async with (
        probing(tmp_path / "planned", items_s, "AUTO") as planned,
        probing(tmp_path / "even", items_s, f"UNIFORM({UNIFORM_S:g} SECONDS)") as even,
    ):
        await eventually(lambda: clock.time_s() > end_s, "the items have lived", timeout_s=3 * (end_s - begin_s))
    requests = [[np.array(times) for times in origin.requests_s] for origin in (planned, even)]
    shares = [share_in_time(items_s, each, from_s) for each in requests]
    counts = [sum(int(((t >= from_s) & (t < end_s)).sum()) for t in each) for each in requests]
    figures = f"AUTO {shares[0]:.3f} with {counts[0]} requests, UNIFORM {shares[1]:.3f} with {counts[1]}"
    (tmp_path / "figures.txt").write_text(figures)
    assert counts[0] <= 1.1 * counts[1], figures
    assert shares[0] >= shares[1] - 0.1, figures
