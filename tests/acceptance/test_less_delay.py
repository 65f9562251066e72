"""300 origins with accelerated weeks: the daemon against uniform probing, measured where the requests arrive."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from proxyd.base.clock import SystemClock
from proxyd.cli.demo import WEEK_FACTORS, Origin
from proxyd.core.model.schedule import Times, delays_s
from proxyd.lab.replay.replay import uniform_probes
from proxyd.lab.traces import MONDAY_S, Week, poisson_events, zipf_rates
from tests.acceptance.support import Daemon, eventually

ORIGINS = 300
HOSTS = [f"127.0.{1 + number // 100}.{1 + number % 100}" for number in range(ORIGINS)]
WEEK_S, UNIFORM_S = 56.0, 8.0  # probed uniformly, each origin is asked seven times a week
LEARNING_S, MEASURED_S, TAIL_S = 3.0 * WEEK_S, 2.0 * WEEK_S, 0.5 * WEEK_S
ITEMS_PER_S, EXPONENT, SEED = 17.5, 0.8, 1  # to know these rates without their weeks is worth 0.74
ZONES_S = (0.0, WEEK_S / 21, -WEEK_S / 21)  # eight hours on, eight hours back
WINDOW = 50
SETTINGS = {
    "chronon": "100ms",
    "source_spacing": "100ms",
    "cycle": f"{WEEK_S}s",
    "plan_every": f"{WEEK_S / 4}s",
    "budget": f"{2 * ORIGINS / UNIFORM_S}/s",  # a bound; how much is asked follows from the price
    "probe_price": "2.3e-4",
}
RULE = """CREATE DOMAIN "Feeds" AS CLASS::ATOM(channel.item.guid:String, channel.item.pubDate:Timestamp);
CREATE PROFILE "watch" AS (DOMAIN "Feeds", LANGUAGE "SQL", USER "u");
INSERT NOTIFICATION "every item" INTO "watch"
SET QUERY "SELECT channel.item.guid FROM ATOM" SET TRIGGER "ON INSERT TO ATOM"
START NOW END NEVER SET UTILITY STRICT SET POLICY {policy} SET DELIVERY NONE;
"""


@dataclass(frozen=True)
class Weeks:
    """What is measured, in unix seconds: the items and requests of some weeks; late finds count until ``end_s``."""

    start_s: float
    stop_s: float
    end_s: float

    @classmethod
    def after_learning(cls, begin_s: float) -> Weeks:
        start_s = begin_s + LEARNING_S
        return cls(start_s, start_s + MEASURED_S, start_s + MEASURED_S + TAIL_S)

    def count(self, logs_s: Sequence[Times]) -> int:
        return sum(self._within(times).size for times in logs_s)

    def mean_delay_s(self, items_s: Sequence[Times], requests_s: Sequence[Times]) -> float:
        """Return the mean time from an item to the next request of its feed."""
        pairs = zip(items_s, requests_s, strict=True)
        return float(np.concatenate([delays_s(self._within(i), r, end_s=self.end_s) for i, r in pairs]).mean())

    def turns(self, requests: int) -> list[Times]:
        """Return when each origin is asked if they take turns at an even pace, ``requests`` times in these weeks."""
        length_s = self.end_s - self.start_s
        probes = round(requests * length_s / (self.stop_s - self.start_s))
        return uniform_probes(ORIGINS, probes, start_s=self.start_s, stop_s=self.end_s)

    def _within(self, times_s: Times) -> Times:
        return times_s[(times_s >= self.start_s) & (times_s < self.stop_s)]


def make_items(rng: np.random.Generator, start_s: float, stop_s: float) -> list[Times]:
    """Return when the items of each origin appear: Zipf rates, working weeks in three time zones, Poisson items."""
    rates = rng.permutation(zipf_rates(ORIGINS, exponent=EXPONENT, total_per_s=ITEMS_PER_S))
    weeks = [Week(WEEK_S, WEEK_FACTORS, MONDAY_S + zone_s) for zone_s in ZONES_S]
    return [
        poisson_events(rate, weeks[number % len(weeks)], start_s=start_s, stop_s=stop_s, rng=rng)
        for number, rate in enumerate(rates.tolist())
    ]


@asynccontextmanager
async def probing(folder: Path, items_s: Sequence[Times], policy: str) -> AsyncIterator[Origin]:
    """Yield 300 origins while a daemon of their own probes them, told by files alone."""
    folder.mkdir()
    origin = Origin(items_s, SystemClock(), window=WINDOW)
    async with origin.serving(HOSTS) as addresses, Daemon(folder, **SETTINGS) as daemon:
        daemon.write_settings()
        sources = (
            f"CREATE SOURCE \"s{number}\" OF ATOM AT '{address}/feeds/{number}.atom';\n"
            for number, address in enumerate(addresses)
        )
        daemon.declare(RULE.format(policy=policy) + "".join(sources))
        await daemon.start()
        yield origin
        await daemon.stop()


async def logs(folder: Path, items_s: Sequence[Times], end_s: float) -> tuple[list[Times], list[Times]]:
    """Return when each origin was asked by a daemon that plans and by one of a UNIFORM rule, side by side."""
    clock = SystemClock()
    async with (
        probing(folder / "planned", items_s, "AUTO") as planned,
        probing(folder / "uniform", items_s, f"UNIFORM({UNIFORM_S:g} SECONDS)") as uniform,
    ):
        await eventually(lambda: clock.time_s() > end_s, "the weeks are over", timeout_s=2 * (end_s - clock.time_s()))
    return [np.array(times) for times in planned.requests_s], [np.array(times) for times in uniform.requests_s]


@pytest.mark.alone
@pytest.mark.timeout(900)
async def test_a_planned_week_finds_items_after_six_tenths_of_the_delay_with_as_many_requests(tmp_path: Path) -> None:
    """Both against a daemon that probes uniformly and, at exactly equal requests, against turns at an even pace.

    A probe price sets how many requests the planned ones are: within a tenth of the others, whose delay is taken at as
    many, for at an even pace it falls as their number grows.
    """
    begin_s = SystemClock().time_s()
    weeks = Weeks.after_learning(begin_s)
    items_s = make_items(np.random.Generator(np.random.PCG64(SEED)), begin_s, weeks.end_s)
    planned_s, uniform_s = await logs(tmp_path, items_s, weeks.end_s)
    requests, others = weeks.count(planned_s), weeks.count(uniform_s)
    delay_s, uniform_delay_s, turns_delay_s = (
        weeks.mean_delay_s(items_s, each) for each in (planned_s, uniform_s, weeks.turns(requests))
    )
    figures = f"planned {delay_s:.3f} s in {requests} requests, uniform {uniform_delay_s:.3f} s in {others}"
    figures += f", turns {turns_delay_s:.3f} s in {requests}"
    (tmp_path / "figures.txt").write_text(figures)
    assert 0.9 * others <= requests <= 1.1 * others, figures
    assert delay_s <= 0.6 * uniform_delay_s * min(1.0, others / requests), figures
    assert delay_s <= 0.6 * turns_delay_s, figures
