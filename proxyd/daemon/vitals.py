"""What the daemon measures of itself: how late its loop is, how full its disk."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import NoReturn

from proxyd.metrics import Metrics
from proxyd.ports import Clock

_SLEPT_S = 0.5


async def measure_lag(clock: Clock, metrics: Metrics) -> NoReturn:
    """Measure how late the event loop wakes who sleeps, until it is cancelled."""
    while True:
        asked_s = clock.monotonic_s() + _SLEPT_S
        await clock.sleep(_SLEPT_S)
        metrics.loop_lag.observe(max(0.0, clock.monotonic_s() - asked_s))


async def measure_disk(folder: Path, metrics: Metrics) -> None:
    """Measure the room on the disk of a folder; one that cannot be looked at has none."""
    try:
        found = await asyncio.to_thread(shutil.disk_usage, folder)
    except OSError:
        metrics.disk_free.set(0)
    else:
        metrics.disk_free.set(found.free)
        metrics.disk_size.set(found.total)
