"""Runs the demo: an origin, a receiver and the real daemon between them, in one process and offline."""

from __future__ import annotations

import asyncio
import base64
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from proxyd.api.auth import new_token
from proxyd.app import wiring as app
from proxyd.app.server import serve_api
from proxyd.base import log
from proxyd.base.ports import Clock
from proxyd.cli.demo.origin import Origin
from proxyd.cli.demo.receiver import Receiver
from proxyd.cli.demo.results import Results, make_results, readable_items
from proxyd.cli.demo.workload import FEEDS, WEEK_S, WINDOW, DemoWorkload, make_workload
from proxyd.config import Settings
from proxyd.core.errors import ProxydError
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.measures import Times
from proxyd.core.rules.decider import Decider
from proxyd.store import owner_lock

CHRONON_S = 0.2
PRICE_ITEM_S = 0.4  # delay that a probe must save: about 20 probes a second do
SHORTEST_S = 1.0
_HEADSTART_S = 0.7
_DRAIN_S = 10.0
_SECRET = "demo"
_PROFILE = """CREATE DOMAIN "Demo" AS
CLASS::ATOM(channel.item.guid:String, channel.item.title:String,
channel.item.pubDate:Timestamp);

{sources}
CREATE PROFILE "Demo" AS (DOMAIN "Demo", LANGUAGE "SQL", USER "demo");

INSERT NOTIFICATION "Every_Item"
INTO "Demo"
SET QUERY "SELECT channel.item.guid, channel.item.title FROM ATOM"
SET TRIGGER "ON INSERT TO ATOM"
START '{start}'
END '{end}'
SET UTILITY STRICT
SET DELIVERY WEBHOOK '{webhook}' SECRET FILE '{secret}';
"""


def run_demo(duration_s: float, seed: int) -> Results | None:
    """Run the demo and return the measurements, or ``None`` after SIGTERM."""
    if duration_s < SHORTEST_S:
        raise ProxydError(f"a demo of {duration_s:g} s shows nothing; give it {SHORTEST_S:g} s or more")
    log.configure("auto", "warning")
    progress = _show_progress if sys.stderr.isatty() else _show_nothing
    try:
        with TemporaryDirectory(prefix="proxyd-demo-") as folder:
            return asyncio.run(_until_terminated(run(Path(folder), duration_s, seed, progress)))
    except asyncio.CancelledError:
        return None


async def _until_terminated(running: Coroutine[None, None, Results]) -> Results:
    """Run to the end; SIGTERM cancels the run, so that nothing is left behind."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(running, name="demo")
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return task.result()


@dataclass(frozen=True, slots=True)
class _Stage:
    """The daemon's surroundings; ``start_s`` and ``stop_s`` in unix seconds."""

    workload: DemoWorkload
    origin: Origin
    receiver: Receiver
    decider: Decider
    clock: Clock
    start_s: float
    stop_s: float

    def requests_s(self) -> list[Times]:
        """Return when each feed was requested, in seconds from the start."""
        return [np.array(times, dtype=np.float64) - self.start_s for times in self.origin.requests_s]


async def run(folder: Path, duration_s: float, seed: int, progress: Callable[[str], None]) -> Results:
    """Run the demo in an empty ``folder`` and return the results."""
    rng = np.random.Generator(np.random.PCG64(seed))
    workload = make_workload(duration_s, rng)
    settings = make_settings(folder)
    async with _staged(settings, workload, rng.bytes(32)) as stage:
        await _watch(stage, progress)
        await _settle(stage)
    return make_results(workload, stage.requests_s(), stage.receiver, grid=ChrononGrid(settings.chronon), seed=seed)


def make_settings(folder: Path) -> Settings:
    """Return the daemon's settings, independent of the environment and of settings files."""
    return Settings.model_validate(
        {
            "profiles": folder / "profiles",
            "database": str(folder / "demo.db"),
            "secrets": folder / "secrets",
            "chronon": CHRONON_S,
            "budget": "40/s",  # an upper bound; the price decides how many probes are made
            "probe_price": PRICE_ITEM_S / 3600.0,
            "epoch": WEEK_S,
            "cycle": WEEK_S,
            "plan_every": WEEK_S / 7,
            "source_spacing": CHRONON_S,
            "host_spacing": 0.0,
            "allow_networks": ["127.0.0.0/8"],
            "drain_timeout": _DRAIN_S,
            "listen": "127.0.0.1:0",
            "socket": folder / "demo.sock",
        }
    )


@asynccontextmanager
async def _staged(settings: Settings, workload: DemoWorkload, key: bytes) -> AsyncIterator[_Stage]:
    """Run the daemon between an origin and a receiver while the context is open; drain it at the end."""
    secret = "whsec_" + base64.b64encode(key).decode()
    with owner_lock(settings.database):
        async with app.open_parts(settings) as parts:
            start_s = float(ceil(parts.clock.time_s() + _HEADSTART_S))
            stop_s = start_s + workload.duration_s
            origin = Origin([times + start_s for times in workload.times_s], parts.clock, window=WINDOW)
            receiver = Receiver(secret)
            async with origin.serving() as [address], receiver.serving() as webhook:
                _write_files(settings, secret, _profile(address, webhook, start_s, stop_s))
                built = app.build(settings, parts)
                async with (
                    serve_api(built.queries, app.api_settings(settings)) as addresses,
                    asyncio.TaskGroup() as tasks,
                ):
                    tasks.create_task(built.daemon.run(), name="daemon")
                    await _invite(parts, addresses)
                    yield _Stage(workload, origin, receiver, built.decider, parts.clock, start_s, stop_s)
                    built.daemon.stop()


async def _invite(parts: app.Resources, addresses: Sequence[str]) -> None:
    """Tell on the terminal where the dashboard is while the demo runs, and the token to sign in with."""
    if sys.stderr.isatty():
        token, shown = new_token("demo", "write", now_s=parts.clock.time_s(), expires_in_s=None)
        await parts.store.access.add_token(token)
        print(f"dashboard: http://{addresses[0]}/ while this runs; sign in with {shown}", file=sys.stderr)


async def _watch(stage: _Stage, progress: Callable[[str], None]) -> None:
    """Wait for the end of the demo."""
    while (left_s := stage.stop_s - stage.clock.time_s()) > 0:
        probes = sum(len(times) for times in stage.origin.requests_s)
        progress(f"{left_s:.0f} s left, {probes} probes, {stage.receiver.delivered.notifications} notifications")
        await stage.clock.sleep(min(1.0, left_s))
    progress("")


async def _settle(stage: _Stage) -> None:
    """Wait until all probed items have arrived, or long enough; the daemon starts no more probes after END."""
    try:
        async with asyncio.timeout(_DRAIN_S):
            planner = stage.decider.planner
            while planner.in_flight:
                await stage.clock.sleep(CHRONON_S)
            await stage.receiver.has(readable_items(stage.workload, stage.requests_s()))
    except TimeoutError:
        return  # what is missing counts as not delivered


def _write_files(settings: Settings, secret: str, profile: str) -> None:
    settings.profiles.mkdir()
    (settings.profiles / "demo.profile").write_text(profile, encoding="utf-8")
    secrets = settings.profiles.parent / "secrets"
    secrets.mkdir(mode=0o700)
    (secrets / _SECRET).write_text(secret, encoding="utf-8")


def _profile(origin: str, webhook: str, start_s: float, stop_s: float) -> str:
    sources = "".join(
        f"CREATE SOURCE \"feed-{feed:02d}\" OF ATOM AT '{origin}/feeds/{feed}.atom';\n" for feed in range(FEEDS)
    )
    return _PROFILE.format(sources=sources, start=_iso(start_s), end=_iso(stop_s), webhook=webhook, secret=_SECRET)


def _iso(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).isoformat()


def _show_progress(text: str) -> None:
    print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _show_nothing(_text: str) -> None:
    """Discard progress messages when nobody watches."""
