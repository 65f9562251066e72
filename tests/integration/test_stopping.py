"""A stop takes ``drain_timeout`` at most, whatever hangs."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from proxyd.app.wiring import build
from proxyd.base.clock import SystemClock
from proxyd.base.ports import MaySend, always
from proxyd.config.loading import load
from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from proxyd.daemon.housekeeping import make_scheduler
from proxyd.store.backups import open_store
from tests.databases import migrated_file
from tests.fleets import DOMAIN, rule, source
from tests.integration.api_world import offline_parts

DRAIN_S = 4.0


class SilentOrigin:
    """The Prober port over an origin that never answers."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
        self.asked.set()
        return await asyncio.Future()


async def test_a_probe_and_a_chore_that_hang_are_waited_for_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.profile").write_text(DOMAIN + source("s") + rule("r"))
    settings = load(environ={}, profiles=tmp_path, drain_timeout=f"{DRAIN_S:g}s", chronon="100ms")
    clock, origin, hangs, scheduler = SystemClock(), SilentOrigin(), asyncio.Event(), make_scheduler()

    async def hang(_upkeep: object) -> None:
        hangs.set()
        await asyncio.Future()

    monkeypatch.setattr(scheduler, "add_job", partial(scheduler.add_job, next_run_time=datetime.now(UTC)))
    monkeypatch.setattr("proxyd.daemon.housekeeping.make_scheduler", lambda: scheduler)
    async with open_store(migrated_file(tmp_path / "p.db"), ChrononGrid(settings.chronon)) as store:
        monkeypatch.setattr(type(store.upkeep), "checkpoint", hang)
        daemon = build(settings, offline_parts(settings, store, clock, origin)).daemon
        running = asyncio.create_task(daemon.run())
        await asyncio.gather(origin.asked.wait(), hangs.wait())
        daemon.stop()
        begun_s = clock.monotonic_s()
        await running
    assert clock.monotonic_s() - begun_s < 1.9 * DRAIN_S
