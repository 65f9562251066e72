"""What a soak finds: growth of 20 MiB an hour in minutes of noise, and none where there is only noise."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.soak.measures import MIB, grows, growth_per_h, sample

SECONDS = np.arange(200.0)


def held(rng: np.random.Generator, per_h: float) -> np.ndarray:
    """Return the memory of a process: pages that come and go, peaks while it plans, steps of the allocator."""
    pages = rng.choice([0.0, 4096.0, 65536.0], len(SECONDS))
    peaks = np.where(SECONDS.astype(int) % 30 < 3, 8 * MIB, 0.0)
    return 300 * MIB + pages + peaks + np.floor(SECONDS / 3600.0 * per_h / 65536.0) * 65536.0


@pytest.mark.parametrize("seed", range(20))
def test_a_leak_of_20_mib_an_hour_is_found(seed: int) -> None:
    found = growth_per_h(SECONDS, held(np.random.default_rng(seed), 20 * MIB))
    assert 12 * MIB < found < 25 * MIB


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_leak(seed: int) -> None:
    assert growth_per_h(SECONDS, held(np.random.default_rng(seed), 0.0)) < 2 * MIB


def test_a_single_step_is_no_leak() -> None:
    assert growth_per_h(SECONDS, np.where(SECONDS > 150, 90 * MIB, 0.0)) < 10 * MIB


def test_what_goes_up_and_down_does_not_grow() -> None:
    assert grows([1, 2, 3, 4, 5, 6])
    assert not grows([1, 2, 1, 2, 1, 2])


def test_this_process_holds_something() -> None:
    found = sample(os.getpid(), 1.0)
    assert found.bytes > MIB
    assert found.files > 2
