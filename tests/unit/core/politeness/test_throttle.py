"""A host that throttles is left alone for longer and longer, and forgiven."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.politeness.host_budgets import HostThrottle, throttle_host

RNG = np.random.default_rng(2)


def again(previous: HostThrottle, now_s: float, asked_s: float | None = None) -> HostThrottle:
    return throttle_host(previous, now_s=now_s, asked_s=asked_s, rng=RNG)


def test_waits_double_up_to_a_day() -> None:
    now_s, throttle, waits = 0.0, HostThrottle(), []
    for _ in range(14):
        throttle = again(throttle, now_s)
        waits.append(throttle.until_s - now_s)
        now_s = throttle.until_s + 1.0
    for strike, wait_s in enumerate(waits):
        least_s = min(86400.0, 60.0 * 2**strike)
        assert least_s <= wait_s <= 1.1 * least_s


def test_what_the_origin_asks_counts_to_the_second() -> None:
    assert again(HostThrottle(3, 50.0), 60.0, 120.0).until_s == 180.0
    assert again(HostThrottle(), 0.0, 1e9).until_s == 86400.0


def test_answers_of_one_moment_are_one_strike() -> None:
    first = again(HostThrottle(), 100.0)
    assert again(first, 101.0) == first
    assert again(first, 102.0, 600.0) == HostThrottle(1, 702.0)
    assert again(HostThrottle(1, 702.0), 103.0, 5.0) == HostThrottle(1, 702.0)


@pytest.mark.parametrize(("quiet_s", "strikes"), [(1700.0, 4), (1900.0, 1)])
def test_thirty_quiet_minutes_forgive(quiet_s: float, strikes: int) -> None:
    assert again(HostThrottle(3, 500.0), 500.0 + quiet_s).strikes == strikes
