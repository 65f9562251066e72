"""``proxyd serve`` with what only its own process can know: how late the loop turns, and what memory is held where.

SIGUSR1 writes that to the next file of a folder. Allocations are traced on demand, at half of the speed. Run it by
``python -c``: parser processes import the main module again, where it is a file.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import itertools
import json
import os
import signal
import time
import tracemalloc
from pathlib import Path

from proxyd.app import wiring as app
from proxyd.base import log
from proxyd.config.loading import load
from proxyd.config.settings import Settings
from proxyd.daemon import Daemon
from tests.soak.measures import resident

EVERY_S = 0.01
WORST_MS = 1000


class Lags:
    """How late the event loop was, in whole milliseconds, since they were last taken; it needs no more room later."""

    def __init__(self) -> None:
        self._counts = [0] * (WORST_MS + 1)

    async def run(self) -> None:
        """Look forever."""
        while True:
            due_s = time.monotonic() + EVERY_S
            await asyncio.sleep(EVERY_S)
            late_ms = int((time.monotonic() - due_s) * 1000.0)
            self._counts[min(max(late_ms, 0), WORST_MS)] += 1

    def take(self) -> list[int]:
        """Return how many turns were 0, 1, 2 ... ms late, and begin again."""
        taken, self._counts = self._counts, [0] * (WORST_MS + 1)
        return taken


def sites() -> dict[str, int]:
    """Return the bytes that each line of code holds; nothing where allocations are not traced."""
    if not tracemalloc.is_tracing():
        return {}
    mine = (tracemalloc.Filter(False, tracemalloc.__file__), tracemalloc.Filter(False, __file__))
    held = tracemalloc.take_snapshot().filter_traces(mine).statistics("lineno")
    return {f"{each.traceback[0].filename}:{each.traceback[0].lineno}": each.size for each in held}


def held() -> int:
    """Return the bytes of memory without what is garbage, and without what glibc keeps of what was freed."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return resident(os.getpid())


def write(lags: Lags, target: Path) -> None:
    """Write a file whole at once."""
    new = target.with_suffix(".new")
    found = {"at_s": time.monotonic(), "late_ms": lags.take(), "held": held(), "sites": sites()}
    new.write_text(json.dumps(found))
    new.replace(target)


async def serve(settings: Settings, folder: Path) -> None:
    """Run the daemon until SIGTERM."""
    lags, numbers = Lags(), itertools.count()
    watching: list[asyncio.Task[None]] = []

    def begin(_daemon: Daemon) -> None:
        loop = asyncio.get_running_loop()
        watching.append(loop.create_task(lags.run(), name="lags"))
        loop.add_signal_handler(signal.SIGUSR1, lambda: write(lags, folder / f"{next(numbers)}.json"))

    try:
        await app.serve(settings, started=begin)
    finally:
        for task in watching:
            task.cancel()


def main(folder: str, traced: bool) -> None:
    """Run the daemon with the settings of the environment."""
    if traced:
        tracemalloc.start()
    settings = load(None)
    log.configure(settings.log_format, "error")
    asyncio.run(serve(settings, Path(folder)))
