from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.core.model.schedule import measure
from proxyd.lab.replay.replay import clairvoyant_probes, uniform_probes

GRID = ChrononGrid(1.0)
EPOCH = Epoch(0, 12)
EVENTS = st.lists(st.lists(st.floats(0.0, 11.75), max_size=8).map(sorted), min_size=1, max_size=4)


@given(st.integers(1, 7), st.integers(0, 60))
def test_uniform_probing_makes_exactly_its_probes_and_shares_them_evenly(sources: int, probes: int) -> None:
    schedule = uniform_probes(sources, probes, start_s=5.0, stop_s=17.0)
    counts = [times.size for times in schedule]
    assert sum(counts) == probes
    assert max(counts) - min(counts) <= 1
    together = np.sort(np.concatenate(schedule))
    assert np.all((together >= 5.0) & (together < 17.0))
    np.testing.assert_allclose(np.diff(together), 12.0 / max(1, probes))


@given(EVENTS, st.integers(0, 40))
def test_clairvoyance_keeps_the_budget_of_every_chronon(events: list[list[float]], probes: int) -> None:
    schedule = clairvoyant_probes(events, probes, epoch=EPOCH, grid=GRID)
    together = np.floor(np.sort(np.concatenate(schedule)))
    for stop in range(1, len(EPOCH) + 1):
        in_chronon = np.count_nonzero(together == stop - 1)
        assert in_chronon <= -(-probes // len(EPOCH))
        assert np.count_nonzero(together < stop) <= stop * probes // len(EPOCH)
    assert together.size <= probes


@given(EVENTS, st.integers(0, 40))
def test_clairvoyance_never_probes_a_page_that_holds_nothing_new(events: list[list[float]], probes: int) -> None:
    for times, probed in zip(events, clairvoyant_probes(events, probes, epoch=EPOCH, grid=GRID), strict=True):
        last = -1.0
        for at in probed:
            assert any(last < time <= at for time in times)
            last = at


def test_the_page_with_most_items_comes_first_and_the_oldest_on_ties() -> None:
    events = [[0.2, 0.3], [0.1], [0.0]]
    schedule = clairvoyant_probes(events, 12, epoch=EPOCH, grid=GRID)
    assert [times.round().tolist() for times in schedule] == [[1.0], [3.0], [2.0]]


@pytest.mark.parametrize("seed", range(5))
def test_clairvoyance_beats_uniform_probing(seed: int) -> None:
    rng = np.random.Generator(np.random.PCG64(seed))
    events = [np.sort(rng.uniform(0.0, 200.0, count)) for count in (100, 40, 10, 5, 2, 1, 1, 1)]
    knowing = clairvoyant_probes(events, 150, epoch=Epoch(0, 200), grid=GRID)
    uniform = uniform_probes(8, 150, start_s=0.0, stop_s=200.0)
    best, plain = (measure(events, schedule, grid=GRID, end_s=200.0) for schedule in (knowing, uniform))
    assert best.mean_delay_s < plain.mean_delay_s
    assert best.completeness > plain.completeness


def test_no_sources_and_no_probes_are_fine() -> None:
    assert clairvoyant_probes([], 5, epoch=EPOCH, grid=GRID) == []
    assert [times.size for times in clairvoyant_probes([[1.0]], 0, epoch=EPOCH, grid=GRID)] == [0]
