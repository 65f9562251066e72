"""What a worker may use is counted from where it begins, however much its program imports."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from pathlib import Path

import pytest

from proxyd.base.worker_pool import WorkerLimits, WorkerPool
from proxyd.core.errors import WorkerFailedError

_MIB = 1 << 20


def fill(count: int) -> int:
    return len(bytearray(count))


def limit() -> int:
    return resource.getrlimit(resource.RLIMIT_DATA)[0]


async def test_a_worker_has_its_memory_beyond_what_its_modules_take() -> None:
    limits = WorkerLimits(memory_bytes=16 * _MIB)
    async with WorkerPool(fill, "the filler", workers=1, limits=limits) as pool:
        assert await pool.run(8 * _MIB) == 8 * _MIB
        with pytest.raises(WorkerFailedError, match="the filler needs more than 16 MiB for it"):
            await pool.run(64 * _MIB)
        assert await pool.run(8 * _MIB) == 8 * _MIB
    async with WorkerPool(limit, "the asker", workers=1, limits=limits) as pool:
        assert await pool.run() > 32 * _MIB


def pid(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


async def test_one_worker_is_enough_for_jobs_that_do_not_overlap() -> None:
    async with WorkerPool(pid, "the sleeper", workers=2, limits=WorkerLimits()) as pool:
        assert len({await pool.run(0.0) for _ in range(4)}) == 1
        assert len(set(await asyncio.gather(pool.run(0.2), pool.run(0.2)))) == 2


async def test_workers_without_jobs_end_with_the_server_that_forks_them_and_start_again() -> None:
    others = _children()  # servers that stand for all tests
    async with WorkerPool(pid, "the sleeper", workers=2, limits=WorkerLimits(idle_s=0.05)) as pool:
        first = await pool.run(0.0)
        async with asyncio.timeout(60.0):
            while _children() - others:  # noqa: ASYNC110 - nobody tells when a process has ended
                await asyncio.sleep(0.01)
        assert await pool.run(0.3) != first  # longer than the idle time: a busy one is left alone


def _children() -> set[str]:
    """Return the processes whose parent is this one, or is a server that this one started."""
    parents = {
        path.name: path.joinpath("stat").read_text().rpartition(")")[2].split()[1]
        for path in Path("/proc").glob("[0-9]*")
        if path.joinpath("stat").exists()
    }
    own = {name for name, parent in parents.items() if parent == str(os.getpid())}
    return own | {name for name, parent in parents.items() if parent in own}
