"""Expected intervals at a varying rate, and the likeliest probe against simulated sources."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.planning.policies.expected_intervals import FiringPattern, expected_interval
from proxyd.lab.algorithms.likeliest_probe import capture_probabilities, expected_intervals, likeliest_probe

GRID = ChrononGrid(10.0)
DAY = PiecewiseConstant([0.0, 100.0, 250.0, 400.0], [0.02, 0.1, 0.005])


@given(
    st.floats(1e-4, 0.5),
    st.sampled_from([FiringPattern(1), FiringPattern(2), FiringPattern(3, 1), FiringPattern(5)]),
    st.sampled_from([None, 0.0, 25.0, 90.0]),
    st.floats(0.0, 5000.0),
)
def test_a_constant_rate_gives_the_intervals_the_daemon_expects(
    rate: float, firing: FiringPattern, life_s: float | None, anchor_s: float
) -> None:
    intensity = PiecewiseConstant.constant(rate, anchor_s + 3000.0, anchor_s)
    epoch = Epoch(0, 10_000)
    found = expected_intervals(intensity, firing, source_id="a", rule="r", life_s=life_s, grid=GRID, epoch=epoch)
    for k, interval in enumerate(found, 1):
        items = firing.items_to_next(0, k)
        own = expected_interval(items, anchor_s=anchor_s, rate_per_s=rate, life_s=life_s, grid=GRID)
        assert interval.start == own.start
        if life_s is not None or (items + 1) / rate <= 2999.0:
            assert interval.deadline == own.deadline
    missing = firing.items_to_next(0, len(found) + 1)
    assert missing / rate > 3000.0 * (1 - 1e-9)


def test_no_interval_opens_while_nothing_is_expected() -> None:
    night = PiecewiseConstant([0.0, 100.0, 300.0, 400.0], [0.02, 0.0, 0.02])
    found = expected_intervals(
        night, FiringPattern(1), source_id="a", rule="r", life_s=None, grid=GRID, epoch=Epoch(0, 40)
    )
    assert [(interval.start, interval.deadline) for interval in found] == [(5, 9), (10, 34), (35, 39)]


def test_only_intervals_that_start_inside_the_epoch_are_given() -> None:
    steady = PiecewiseConstant.constant(0.02, 1000.0)
    found = expected_intervals(
        steady, FiringPattern(1), source_id="a", rule="r", life_s=20.0, grid=GRID, epoch=Epoch(10, 20)
    )
    assert [(interval.start, interval.deadline) for interval in found] == [(10, 12), (15, 17)]


def simulated(items: int, life_s: float | None, runs: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return for each chronon the share of runs in which it lay inside the interval of item number ``items``."""
    rng = np.random.default_rng(7)
    hits = np.zeros(40)
    total = float(DAY.integral(400.0))
    levels = np.asarray(DAY.integral(DAY.breaks))
    for _ in range(runs):
        events = np.interp(np.sort(rng.random(rng.poisson(total))) * total, levels, DAY.breaks)
        if len(events) < items:
            continue
        start = int(events[items - 1] // 10)
        following = int(events[items] // 10) if len(events) > items else 40
        stop = following if life_s is None else start + int(life_s // 10) + 1
        hits[start:stop] += 1
    return hits / runs


@pytest.mark.parametrize("life_s", [None, 0.0, 50.0], ids=["overwrite", "its chronon alone", "a window"])
@pytest.mark.parametrize("items", [1, 3, 10])
def test_the_probabilities_are_those_of_simulated_sources(items: int, life_s: float | None) -> None:
    chances = capture_probabilities(DAY, items, life_s=life_s, grid=GRID, epoch=Epoch(0, 40))
    assert np.allclose(chances, simulated(items, life_s, 4000), atol=0.035)
    best = likeliest_probe(DAY, items, life_s=life_s, grid=GRID, epoch=Epoch(0, 40))
    assert (best.chronon, best.probability) == (int(np.argmax(chances)), chances.max())


def test_the_likeliest_probe_comes_before_the_expected_end() -> None:
    steady = PiecewiseConstant.constant(0.01, 10_000.0)
    expected = expected_interval(3, anchor_s=0.0, rate_per_s=0.01, life_s=None, grid=GRID)
    best = likeliest_probe(steady, 3, life_s=None, grid=GRID, epoch=Epoch(0, 100))
    assert best.chronon == 29
    assert best.chronon < expected.deadline == 39


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(ValueError, match="empty epoch"):
        likeliest_probe(DAY, 1, life_s=None, grid=GRID, epoch=Epoch(3, 3))
    with pytest.raises(ValueError, match="from 1"):
        likeliest_probe(DAY, 0, life_s=None, grid=GRID, epoch=Epoch(0, 3))
