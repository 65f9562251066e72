"""The politeness paper's experiments: the shape it published."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.lab.papers.figure import Figure
from proxyd.lab.papers.politeness_paper import DBWORLD, MICRONET, WorkWeek, actual_cost, figures, hourly, sample_items


@pytest.fixture(scope="module")
def found() -> dict[str, Figure]:
    return {f.name: f for f in figures(rng=np.random.default_rng(1), quick=True)}


def column(figure: Figure, name: str) -> list[float]:
    place = figure.columns.index(name)
    return [float(row[place]) for row in figure.rows]


@pytest.mark.long
def test_every_row_fits_its_columns_and_every_axis_is_one(found: dict[str, Figure]) -> None:
    for figure in found.values():
        assert {len(row) for row in figure.rows} == {len(figure.columns)}
        assert {*figure.y, *([figure.x] if figure.x else []), *([figure.by] if figure.by else [])} <= {*figure.columns}


def test_the_anchors_are_met(found: dict[str, Figure]) -> None:
    differences = np.abs(column(found["politeness-anchors"], "difference"))
    assert np.sort(differences)[:-1].max() < 3e-6
    assert differences.max() < 2e-4


@pytest.mark.parametrize("week", [DBWORLD, MICRONET], ids=lambda week: week.name)
@pytest.mark.parametrize("ratio", [1, 2, 3, 4])
def test_doe_is_cheapest_at_every_number_of_probes(found: dict[str, Figure], week: WorkWeek, ratio: int) -> None:
    figure = found[f"politeness-expected-{week.name.lower()}-ratio-{ratio}"]
    doe = column(figure, "doe")
    for policy in ("threshold", "first-arrival", "uniform"):
        assert all(a < b for a, b in zip(doe, column(figure, policy), strict=True))
    for policy in ("doe", "threshold", "first-arrival", "uniform"):
        assert column(figure, policy) == sorted(column(figure, policy), reverse=True)
    assert column(figure, "fewest made") == column(figure, "probes")


@pytest.mark.parametrize("ratio", [2, 3, 4])
def test_threshold_lies_between_the_optimum_and_uniform(ratio: int) -> None:
    costs = {name: schedule.cost for name, schedule in hourly(DBWORLD.prefix(ratio), 28).items()}
    assert costs["doe"] < costs["threshold"] < costs["first-arrival"] < costs["uniform"]


@pytest.mark.parametrize("name", ["dbworld", "micronet"])
def test_actual_costs_meet_the_expected_ones(found: dict[str, Figure], name: str) -> None:
    figure = found[f"politeness-actual-{name}"]
    assert column(figure, "doe") == pytest.approx(column(figure, "doe expected"), rel=0.15)
    assert min(column(figure, "doe is best")) > 0.3


@pytest.mark.parametrize("name", ["dbworld", "micronet"])
def test_algorithm_10_helps_doe_least_and_leaves_it_best(found: dict[str, Figure], name: str) -> None:
    figure = found[f"politeness-algorithm-10-{name}"]
    after, improved, moves = (column(figure, c) for c in ("cost after", "improvement", "mu-moves"))
    for first in range(0, len(after), 4):
        block = slice(first, first + 4)
        assert figure.rows[first][0] == "doe"
        assert after[first] == min(after[block])
        assert improved[first] == min(improved[block]) >= 0
        assert moves[first] == min(moves[block])


def test_an_item_waits_until_the_next_probe() -> None:
    prefix = MICRONET.prefix(1)
    assert actual_cost(prefix, np.array([0.5, 3.0, 27.0]), np.array([1.0, 3.0, 28.0])) == pytest.approx(1.5)


def test_sampled_items_follow_the_table() -> None:
    rng = np.random.default_rng(5)
    counts = [len(sample_items(DBWORLD.prefix(1), rng)) for _ in range(400)]
    assert np.mean(counts) == pytest.approx(116.45, rel=0.02)


@pytest.mark.long
def test_the_same_seed_gives_the_same_figures(found: dict[str, Figure]) -> None:
    again = {f.name: f for f in figures(rng=np.random.default_rng(1), quick=True)}
    assert again == found
