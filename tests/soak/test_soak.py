"""Minutes at a steady load: memory, descriptors and the loop's lateness stay as they are once it has settled.

``SOAK_S`` says how long they are watched (300 s), after five minutes in which they settle. Two daemons run beside each
other: one as it is, and a smaller one whose allocations are traced.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import feedparser
import pytest
import pytest_asyncio

from tests.acceptance.support import Daemon, Entry, Feed, Receiver, eventually, listening
from tests.soak.load import SHOWN, Sites, busy, serving
from tests.soak.measures import MIB, Sample, grows, growth_per_h, sample, share_ms

SOAK_S = float(os.environ.get("SOAK_S", "300"))
SETTLED_S = 300.0  # by then caches have filled and every kernel is compiled
DUMPS = 20
MOST_PER_H = 10 * MIB
SITE_PER_H = 2 * MIB
LATE_READS = 10  # of a feed of the load, by feedparser: the time that these take measures the machine
SETTINGS = {
    "chronon": "1s",
    "budget": "20/s",
    "plan_every": "5s",
    "cycle": "10s",  # all that is learned of weeks is learned by then
    "host_spacing": "100ms",
    "host_concurrency": "4",
    "source_spacing": "2s",
    "parser_processes": "2",
}
pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(2 * (SETTLED_S + SOAK_S) + 300),
    pytest.mark.asyncio(loop_scope="module"),
]


@dataclass(frozen=True)
class Soaked:
    """What was seen once a daemon had settled."""

    samples: Sequence[Sample]
    dumps: Sequence[dict[str, Any]]
    read_ms: Sequence[float]
    asked: int

    @property
    def times_s(self) -> list[float]:
        return [each.at_s for each in self.samples]


async def soaked(folder: Path, *, many: int, traced: bool) -> Soaked:
    """Run a daemon at its load and return what was seen of it."""
    sites, receiver, daemon = Sites(many), Receiver(), Daemon(folder, **SETTINGS)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serving(sites))
        await stack.enter_async_context(listening(receiver))
        await stack.enter_async_context(daemon)
        daemon.program = ("-c", f"from tests.soak.measured import main; main({str(folder)!r}, {traced})")
        daemon.declare(sites.text(receiver.url, more=False))
        await daemon.start()
        token = (await daemon.cli("token", "create", "--name", "r", "--scope", "read")).out.strip()
        async with busy(sites, daemon, token, receiver.url):
            found = await _watched(daemon, receiver, folder)
        await daemon.stop()
    return Soaked(*found, asked=sum(sites.asked.values()))


async def _watched(
    daemon: Daemon, receiver: Receiver, folder: Path
) -> tuple[list[Sample], list[dict[str, Any]], list[float]]:
    began_s = time.monotonic()
    samples: list[Sample] = []
    dumps: list[dict[str, Any]] = []
    read_ms: list[float] = []
    _, document = Feed("feed", entries=[Entry(f"item-{number}", 1e9 + number) for number in range(SHOWN)]).document()
    while (passed_s := time.monotonic() - began_s) < SETTLED_S + SOAK_S:
        samples.append(sample(daemon.pid, passed_s))
        receiver.arrivals.clear()
        read_ms.append(_read_ms(document))
        if passed_s >= SETTLED_S + SOAK_S * len(dumps) / DUMPS:
            dumps.append(await _dumped(daemon, folder / f"{len(dumps)}.json"))
        await asyncio.sleep(1.0)
    return [each for each in samples if each.at_s >= SETTLED_S], dumps, read_ms


def _read_ms(document: bytes) -> float:
    began_s = time.perf_counter()
    feedparser.parse(document)
    return 1000.0 * (time.perf_counter() - began_s)


async def _dumped(daemon: Daemon, target: Path) -> dict[str, Any]:
    daemon.signal(signal.SIGUSR1)
    await eventually(partial(os.path.exists, target), f"{target.name} is written", state=lambda: daemon.log[-2000:])
    found: dict[str, Any] = json.loads(target.read_text())
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Soaked]:
    async with asyncio.TaskGroup() as tasks:
        plain = tasks.create_task(soaked(tmp_path_factory.mktemp("plain"), many=100, traced=False))
        traced = tasks.create_task(soaked(tmp_path_factory.mktemp("traced"), many=20, traced=True))
    return {"plain": plain.result(), "traced": traced.result()}


async def test_the_memory_of_the_daemon_does_not_grow(both: dict[str, Soaked]) -> None:
    plain = both["plain"]
    growth = growth_per_h([dump["at_s"] for dump in plain.dumps], [dump["held"] for dump in plain.dumps])
    assert plain.asked > 5 * (SETTLED_S + SOAK_S)
    assert growth < MOST_PER_H


async def test_the_memory_that_comes_and_goes_does_not_grow(both: dict[str, Soaked]) -> None:
    sizes = [each.bytes for each in both["plain"].samples]
    third = len(sizes) // 3
    assert max(sizes[-third:]) < max(sizes[:third]) + 10 * MIB


async def test_the_memory_of_the_parsers_does_not_grow(both: dict[str, Soaked]) -> None:
    plain = both["plain"]
    assert min(each.children for each in plain.samples) > MIB
    assert growth_per_h(plain.times_s, [each.children for each in plain.samples]) < MOST_PER_H


async def test_no_descriptor_stays_open(both: dict[str, Soaked]) -> None:
    files = [each.files for each in both["plain"].samples]
    third = len(files) // 3
    assert min(files[-third:]) <= max(files[:third])


async def test_no_line_of_code_holds_more_and_more(both: dict[str, Soaked]) -> None:
    dumps = both["traced"].dumps
    hours = (dumps[-1]["at_s"] - dumps[0]["at_s"]) / 3600.0
    sizes = {site: [dump["sites"].get(site, 0) for dump in dumps] for site in dumps[-1]["sites"]}
    growing = {site: held for site, held in sizes.items() if grows(held) and held[-1] - held[0] > SITE_PER_H * hours}
    assert sizes
    assert growing == {}


async def test_the_loop_is_seldom_late(both: dict[str, Soaked]) -> None:
    plain = both["plain"]
    late_ms = [sum(counts) for counts in zip(*(dump["late_ms"] for dump in plain.dumps[1:]), strict=True)]
    assert share_ms(late_ms, 0.99) < LATE_READS * median(plain.read_ms)
