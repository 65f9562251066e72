from __future__ import annotations

from itertools import pairwise
from math import floor, inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.chronon import ChrononGrid
from proxyd.core.model.schedule import Measures, captures, delays_s, found_s, measure

GRID = ChrononGrid(1.0)
END_S = 20.0
TIMES = st.lists(st.integers(0, 79).map(lambda quarter: quarter / 4), max_size=20).map(sorted)
WINDOWS = st.one_of(st.none(), st.integers(1, 5))


def slowly_found(event: int, events: list[float], probes: list[float], window: int | None) -> float:
    """The definition, event by event: the first probe whose page shows it."""
    for probe in probes:
        page = [number for number, time in enumerate(events) if time <= probe]
        if window is not None:
            page = page[-window:]
        if event in page:
            return probe
    return nan


def slowly_captured(events: list[float], probes: list[float]) -> list[bool]:
    """The definition, interval by interval."""
    chronons = sorted({floor(time) for time in events})
    result = []
    for start, following in pairwise([*chronons, inf]):
        update = min(time for time in events if floor(time) == start)
        result.append(any(probe >= update and start <= floor(probe) < following for probe in probes))
    return result


@given(TIMES, TIMES, WINDOWS)
def test_an_event_is_found_by_the_first_probe_that_shows_it(
    events: list[float], probes: list[float], window: int | None
) -> None:
    expected = [slowly_found(number, events, probes, window) for number in range(len(events))]
    np.testing.assert_array_equal(found_s(events, probes, window=window), expected)


@given(TIMES, TIMES)
def test_an_interval_is_captured_as_it_is_defined(events: list[float], probes: list[float]) -> None:
    assert captures(events, probes, grid=GRID).tolist() == slowly_captured(events, probes)


@given(TIMES, TIMES, TIMES, WINDOWS)
def test_more_probes_never_do_worse(
    events: list[float], probes: list[float], more: list[float], window: int | None
) -> None:
    few = measure([events], [probes], grid=GRID, end_s=END_S, window=window)
    many = measure([events], [sorted(probes + more)], grid=GRID, end_s=END_S, window=window)
    assert many.completeness >= few.completeness
    assert many.mean_delay_s <= few.mean_delay_s + 1e-9


@given(TIMES, TIMES, WINDOWS)
def test_delays_lie_between_nothing_and_the_end(events: list[float], probes: list[float], window: int | None) -> None:
    delays = delays_s(events, probes, end_s=END_S, window=window)
    assert np.all(delays >= 0.0)
    assert np.all(delays <= END_S - np.array(events))


def test_an_event_without_a_probe_is_charged_to_the_end() -> None:
    assert delays_s([2.0, 9.0], [3.0], end_s=END_S).tolist() == [1.0, 11.0]


def test_an_item_that_slid_off_before_the_first_probe_is_charged_to_the_end() -> None:
    assert delays_s([1.0, 2.0, 3.0], [4.0, 5.0], end_s=END_S, window=2).tolist() == [19.0, 2.0, 1.0]


@pytest.mark.parametrize(
    ("probe", "expected"),
    [
        (7.0, [False, True, False, False]),
        (8.9, [False, True, False, False]),
        (9.0, [False, False, True, False]),
        (4.0, [True, False, False, False]),
        (99.0, [False, False, False, True]),
    ],
    ids=["inside", "last chronon", "next update", "another interval", "the last one is open"],
)
def test_the_intervals_of_the_language_reference(probe: float, expected: list[bool]) -> None:
    assert captures([3.0, 5.0, 9.0, 12.0], [probe], grid=GRID).tolist() == expected


def test_events_of_one_chronon_are_one_update() -> None:
    assert captures([3.1, 3.2, 3.9, 4.0], [3.2], grid=GRID).tolist() == [True, False]


def test_a_probe_before_the_update_in_its_chronon_does_not_capture_it() -> None:
    assert captures([3.5, 4.0], [3.2], grid=GRID).tolist() == [False, False]


def test_nothing_is_complete_and_without_delay() -> None:
    assert measure([[], []], [[1.0], []], grid=GRID, end_s=END_S) == Measures(1.0, 0.0, 0.0, 1, 0)


def test_every_interval_weighs_the_same_whatever_its_source() -> None:
    measures = measure([[1.0, 2.0, 3.0], [1.0]], [[], [1.5]], grid=GRID, end_s=4.0)
    assert measures == Measures(0.25, (3.0 + 2.0 + 1.0 + 0.5) / 4, measures.p95_delay_s, 1, 4)


def test_sources_and_schedules_must_match() -> None:
    with pytest.raises(ValueError, match="zip"):
        measure([[1.0]], [], grid=GRID, end_s=END_S)
