"""How late the loop is."""

from __future__ import annotations

import asyncio

import pytest

from proxyd.base.metrics import Metrics, Samples
from proxyd.daemon.housekeeping import measure_lag
from tests.fakes import FakeClock, settle


async def test_a_loop_that_stands_still_is_seen_to_be_late() -> None:
    clock, metrics = FakeClock(), Metrics()
    task = asyncio.create_task(measure_lag(clock, metrics))
    await clock.advance(1.0)
    clock.jump(2.0)  # nothing ran meanwhile
    await clock.advance(0.0)
    task.cancel()
    await settle()
    assert task.cancelled()
    values = Samples.read(metrics.render().decode()).values
    assert values["proxyd_loop_lag_seconds_count"] == 3
    assert values["proxyd_loop_lag_seconds_sum"] == pytest.approx(1.5)
