"""Sixty live sources and lives of three seconds: the share in time where the requests arrive, also over kills."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

import numpy as np
import pytest

from proxyd.base.clock import SystemClock
from proxyd.cli.demo import Origin
from proxyd.core.model.schedule import Times
from tests import lives
from tests.acceptance.support import Daemon, eventually

LEARNING_S, MEASURED_S, STARTING_S = 200.0, 150.0, 10.0
COMPARED_S = 300.0  # measured where policies are compared: over 150 s shares vary by a tenth with the items
UP_S = 9.0
CLOCK = SystemClock()
HOSTS = [f"127.0.{4 + n // 200}.{1 + n % 200}" for n in range(lives.SOURCES)]
SETTINGS = {
    "chronon": f"{1000 * lives.CHRONON_S:g}ms",
    "source_spacing": f"{1000 * lives.CHRONON_S:g}ms",
    "budget": f"{lives.BUDGET_PER_S:g}/s",
    "cycle": f"{lives.CYCLE_S:g}s",
    "plan_every": "40s",
    "objective": "spend",
}


@dataclass
class Lived:
    """What a daemon's sources were asked, and when it was down."""

    items_s: Sequence[Times]
    origin: Origin
    from_s: float
    until_s: float
    down_s: list[tuple[float, float]] = field(default_factory=list)

    @property
    def count(self) -> int:
        """The requests of the measured time."""
        return sum(self.from_s <= at_s < self.until_s for times in self.origin.requests_s for at_s in times)

    def seen(self, down_s: Sequence[tuple[float, float]] = ()) -> Times:
        """Return which items were seen in time, without what was out by the times in which a daemon was down."""
        requests = [np.array(times) for times in self.origin.requests_s]
        return lives.seen_in_time(self.items_s, requests, self.from_s, self.until_s, down_s)

    def share(self) -> float:
        """Return the share in time."""
        return float(np.mean(self.seen()))


async def start(stack: AsyncExitStack, folder: Path, lived: Lived, policy: str) -> Daemon:
    """Start a daemon that probes the sources by a policy."""
    folder.mkdir()
    addresses = await stack.enter_async_context(lived.origin.serving(HOSTS))
    daemon = await stack.enter_async_context(Daemon(folder, **SETTINGS))
    daemon.write_settings()
    sources = (
        f"CREATE SOURCE \"s{n}\" OF FEED AT '{address}/feeds/{n}.atom' EXPECT 5 PER MINUTE;\n"
        for n, address in enumerate(addresses)
    )
    daemon.declare(lives.RULE.format(policy=lives.POLICIES[policy]) + "".join(sources))
    await daemon.start()
    return daemon


def next_cycle_s() -> float:
    """Return when a cycle begins, once the daemons have started: what is learned depends on where cycles begin."""
    return ceil((CLOCK.time_s() + STARTING_S) / lives.CYCLE_S) * lives.CYCLE_S


async def passes(at_s: float) -> None:
    await eventually(lambda: at_s <= CLOCK.time_s(), "time passes", timeout_s=2 * (at_s - CLOCK.time_s()) + 10.0)


async def kill_often(daemon: Daemon, lived: Lived) -> None:
    """Kill a daemon 9 s after each start; it is down until it has read a document again."""
    await passes(lived.from_s)
    while CLOCK.time_s() < lived.until_s:
        await daemon.kill()
        down_s = CLOCK.time_s()
        await daemon.start()
        await daemon.metric_reaches('proxyd_probes_total{outcome="changed"}', 1)
        lived.down_s.append((down_s, CLOCK.time_s()))
        await passes(CLOCK.time_s() + UP_S)


async def live(
    folder: Path, items_s: Sequence[Times], from_s: float, until_s: float, *, policies: Sequence[str]
) -> dict[str, Lived]:
    """Return what daemons did side by side, by policy; the one named ``killed`` follows the plan, and is killed."""
    found = {name: Lived(items_s, Origin(items_s, CLOCK, window=50), from_s, until_s) for name in policies}
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        for name, lived in found.items():
            daemon = await start(stack, folder / name, lived, "auto" if name == "killed" else name)
            if name == "killed":
                tasks.create_task(kill_often(daemon, lived))
        await passes(until_s + lives.LIFE_S)
    return found


def told(found: dict[str, Lived], folder: Path) -> str:
    """Return the figures, which are also written to a file."""
    figures = "; ".join(f"{name} {each.share():.3f} with {each.count} requests" for name, each in found.items())
    (folder / "figures.txt").write_text(figures)
    return figures


def is_at_most(found: Times, most: float) -> bool:
    """Return whether a mean is no more than 1.64 standard errors above it: items are seen by chance."""
    return bool(np.mean(found) <= most + 1.64 * np.std(found) / np.sqrt(len(found)))


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_the_plan_sees_far_more_in_time_and_kills_cost_only_what_was_out_meanwhile(
    tmp_path: Path,
) -> None:
    begin_s = next_cycle_s()
    from_s, until_s = begin_s + LEARNING_S, begin_s + LEARNING_S + COMPARED_S
    items_s = lives.mixed_items(begin_s, until_s - begin_s + 20.0)
    found = await live(tmp_path, items_s, from_s, until_s, policies=("auto", "even", "fbsup", "killed"))
    figures, auto, killed = told(found, tmp_path), found["auto"], found["killed"]
    lost = auto.seen(killed.down_s) - killed.seen(killed.down_s)
    figures += f"; of {len(lost)} where none was down the killed one lost {np.mean(lost):.3f}"
    assert auto.count <= 1.05 * found["even"].count, figures
    for other, times in ((found["even"], 1.5), (found["fbsup"], 1.3)):
        so_many_more = times * max(1.0, auto.count / other.count) * other.seen()
        assert is_at_most(so_many_more - auto.seen(), 0.0), figures
    assert is_at_most(lost, 0.05), figures
    assert len(killed.down_s) >= 5


@pytest.mark.alone
@pytest.mark.long
@pytest.mark.timeout(900)
async def test_for_flat_sources_of_one_rate_the_plan_is_nearly_as_good_as_even_spacing(tmp_path: Path) -> None:
    begin_s = next_cycle_s()
    from_s, until_s = begin_s + LEARNING_S, begin_s + LEARNING_S + MEASURED_S
    items_s = lives.equal_items(begin_s, until_s - begin_s + 20.0)
    found = await live(tmp_path, items_s, from_s, until_s, policies=("auto", "even"))
    figures = told(found, tmp_path)
    assert found["auto"].count <= 1.05 * found["even"].count, figures
    assert is_at_most(found["even"].seen() - found["auto"].seen(), 0.05), figures
