"""The experiments on the proxy dilemma: enumeration by hand, and what every figure must show."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.chronon import Epoch
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.capture.earliest_deadline import Capacity
from proxyd.core.planning.capture.pareto import pareto
from proxyd.lab.papers import proxy_dilemma
from proxyd.lab.papers.figure import Figure, Updates
from proxyd.lab.papers.proxy_dilemma import disjoint, enumerate_schedules


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@pytest.fixture(scope="module")
def found() -> dict[str, Figure]:
    return {figure.name: figure for figure in proxy_dilemma.figures(rng=generator(), quick=True)}


def column(figure: Figure, name: str) -> list[str | float | int]:
    return [row[figure.columns.index(name)] for row in figure.rows]


def test_an_enumeration_by_hand() -> None:
    # the second capture waits behind c, whose only chronon is 1
    known = [ExecutionInterval(page, "p", start, end) for page, start, end in (("a", 0, 0), ("b", 0, 3), ("c", 1, 1))]
    assert enumerate_schedules(known, chronons=4, probes=1) == [0, 0, 0, 2]
    assert enumerate_schedules(known, chronons=4, probes=2) == [0, 0, 0, 0]


@given(st.lists(st.lists(st.integers(0, 7), max_size=4), min_size=1, max_size=4), st.integers(1, 2), st.integers(0, 4))
def test_the_exact_set_is_that_of_the_enumeration(chronons: list[list[int]], probes: int, window: int) -> None:
    intervals = disjoint(Updates.of(chronons, 8), window=window, profiles=2)
    front = pareto(intervals, Capacity.constant(probes, Epoch(0, 8)))
    assert front.exact
    assert front.delays.tolist() == enumerate_schedules(intervals, chronons=8, probes=probes)


def test_every_enumeration_agrees(found: dict[str, Figure]) -> None:
    assert set(column(found["proxy-dilemma-3-enumeration"], "equal")) == {"yes"}


def test_fronts_rise_in_both_and_end_where_edf_is_or_before(found: dict[str, Figure]) -> None:
    figure = found["proxy-dilemma-1-front"]
    assert set(column(figure, "exact or bound")) == {"exact"}
    curves: dict[str, list[tuple[float, float]]] = {}
    for name, delay, completeness, _ in figure.rows:
        curves.setdefault(str(name), []).append((float(delay), float(completeness)))
    sets = [name for name in curves if name.startswith("Pareto")]
    assert len(sets) >= 3
    for name in sets:
        points = curves[name]
        assert points == sorted(points)
        assert [share for _, share in points] == sorted(share for _, share in points)
        (delay, completeness) = curves[name.replace("Pareto set", "EDF")][0]
        assert completeness == points[-1][1]
        assert delay >= points[-1][0]


def test_a_looser_cover_has_fewer_points(found: dict[str, Figure]) -> None:
    sizes: dict[object, list[int]] = {}
    for budget, _, cover, whole in found["proxy-dilemma-2-cover"].rows:
        sizes.setdefault(budget, []).append(int(cover))
        assert 1 <= int(cover) <= int(whole)
    assert all(row == sorted(row, reverse=True) for row in sizes.values())


def test_edf_never_delays_less_than_the_set(found: dict[str, Figure]) -> None:
    figure = found["proxy-dilemma-4-sizes"]
    pairs = zip(column(figure, "least D_avg"), column(figure, "D_avg of EDF"), strict=True)
    assert all(float(least) <= float(edf) for least, edf in pairs)
    assert set(column(figure, "kind")) == {"exact"}


def test_the_most_weight_meets_its_bound_and_the_others_stay_below(found: dict[str, Figure]) -> None:
    for _, schedule, weight, _, bound, kind in found["proxy-dilemma-5-weights"].rows:
        assert float(weight) <= float(bound)
        if schedule == "most weight":
            assert (float(weight), kind) == (float(bound), "exact")


def test_greedy_stays_below_the_bound_and_says_where_it_meets_it(found: dict[str, Figure]) -> None:
    for _, _, captured, bound, share, intervals, kind in found["proxy-dilemma-6-overlap"].rows:
        assert float(captured) <= float(bound) <= float(intervals)
        assert float(share) > 5 / 6
        assert (kind == "exact") == (float(captured) == float(bound))
