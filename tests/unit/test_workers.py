"""What a worker may use is counted from where it begins, however much its program imports."""

from __future__ import annotations

import resource

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
