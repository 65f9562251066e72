"""SUP against an integer program, least-delay SUP against the quadratic path, arrays against objects."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from proxyd.core.model.schedule import ExecutionInterval
from proxyd.lab.algorithms.sup_schedules import least_delay_arrays, least_delay_sup, sup, sup_arrays

Columns = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


def columns(seed: int, *, count: int, sources: int, chronons: int, longest: int) -> Columns:
    rng = np.random.default_rng(seed)
    starts = rng.integers(-chronons // 3, chronons, count)
    return rng.integers(0, sources, count), starts, starts + rng.integers(0, longest + 1, count)


def intervals_of(found: Columns) -> list[ExecutionInterval]:
    rows = zip(*(column.tolist() for column in found), strict=True)
    return [ExecutionInterval(f"{source:03}", "r", start, deadline) for source, start, deadline in rows]


def quadratic(starts: NDArray[np.int64], deadlines: NDArray[np.int64]) -> tuple[int, int]:
    """Return fewest probes and least delay of one source: every place of the last probe after every place before it."""
    times = np.unique(starts)
    best: list[tuple[int, int]] = []
    for time in times:
        ended = starts[deadlines < time]
        own = int(np.sum(time - starts[starts <= time]))
        found = [(1, own)] if not len(ended) else []
        for n, before in enumerate(times[times < time]):
            if not len(ended) or before >= ended.max():
                between = starts[(starts > before) & (starts <= time)]
                found.append((best[n][0] + 1, best[n][1] + int(np.sum(time - between))))
        best.append(min(found))
    return best[-1]


@given(st.lists(st.tuples(st.integers(-5, 40), st.integers(0, 12)), min_size=1, max_size=40))
def test_least_delay_sup_equals_the_quadratic_path(found: list[tuple[int, int]]) -> None:
    starts = np.array([start for start, _ in found])
    deadlines = starts + np.array([length for _, length in found])
    own = least_delay_sup(intervals_of((np.zeros(len(starts), np.int64), starts, deadlines)))
    assert (len(own.probes), own.delay) == quadratic(starts, deadlines)


@pytest.mark.parametrize("longest", [3, 30, 300])
@pytest.mark.parametrize("seed", range(3))
def test_least_delay_sup_of_many_sources_equals_the_quadratic_path(seed: int, longest: int) -> None:
    sources, starts, deadlines = found = columns(seed, count=400, sources=5, chronons=300, longest=longest)
    each = [quadratic(starts[sources == n], deadlines[sources == n]) for n in range(5)]
    own = least_delay_sup(intervals_of(found))
    assert own.captured == 400
    assert (len(own.probes), own.delay) == (sum(count for count, _ in each), sum(delay for _, delay in each))


@pytest.mark.parametrize("seed", range(3))
def test_sup_takes_as_few_probes_as_the_integer_program(seed: int) -> None:
    _, starts, deadlines = found = columns(seed, count=120, sources=4, chronons=60, longest=12)
    places = [(source, time) for source in range(4) for time in range(starts.min(), deadlines.max() + 1)]
    serves = np.array(
        [
            [float(s == source and low <= time <= high) for source, time in places]
            for s, low, high in zip(*found, strict=True)
        ]
    )
    ones = np.ones(len(places))
    solved = milp(ones, constraints=LinearConstraint(serves, lb=1), integrality=ones, bounds=Bounds(0, 1))
    assert len(sup(intervals_of(found)).probes) == round(solved.fun) == len(least_delay_sup(intervals_of(found)).probes)


@pytest.mark.parametrize("seed", range(3))
def test_arrays_and_objects_give_the_same_probes(seed: int) -> None:
    found = columns(seed, count=200, sources=7, chronons=80, longest=9)
    for arrays, objects in ((sup_arrays, sup), (least_delay_arrays, least_delay_sup)):
        probes = zip(*(column.tolist() for column in arrays(*found)), strict=True)
        assert sorted((f"{source:03}", chronon) for source, chronon in probes) == sorted(
            objects(intervals_of(found)).probes
        )


def test_nothing_to_capture_needs_no_probe() -> None:
    for arrays in (sup_arrays, least_delay_arrays):
        assert [column.tolist() for column in arrays([], [], [])] == [[], []]
    assert sup([]).probes == least_delay_sup([]).probes == ()


@pytest.mark.parametrize(
    "found",
    [([0], [3], [2]), ([-1], [0], [1]), ([0, 1], [0], [1]), ([2**40], [0], [2**40])],
    ids=["an end before the start", "a negative source", "columns of two lengths", "a line too long to number"],
)
def test_columns_that_do_not_fit_are_refused(found: tuple[list[int], list[int], list[int]]) -> None:
    for arrays in (sup_arrays, least_delay_arrays):
        with pytest.raises(ValueError):  # noqa: PT011 - each has its own message
            arrays(*found)


def test_an_interval_without_an_end_is_refused() -> None:
    for solve in (sup, least_delay_sup):
        with pytest.raises(ValueError, match="without an end"):
            solve([ExecutionInterval("a", "r", 0, None)])
