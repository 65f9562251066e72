"""The robot paper's experiments: its example, its formulas, and where its corollary fails."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.lab.algorithms.robot_frequencies import GammaAccess
from proxyd.lab.papers.figure import Figure
from proxyd.lab.papers.robot_paper import PAPER_EXAMPLE, figures, paper_ratio, simulate_robot


@pytest.fixture(scope="module")
def found() -> dict[str, Figure]:
    return {f.name: f for f in figures(rng=np.random.default_rng(1), quick=True)}


def column(figure: Figure, name: str) -> list[float]:
    place = figure.columns.index(name)
    return [float(row[place]) for row in figure.rows]


def test_every_row_fits_its_columns(found: dict[str, Figure]) -> None:
    for figure in found.values():
        assert {len(row) for row in figure.rows} == {len(figure.columns)}


def test_the_example_of_the_paper_comes_out(found: dict[str, Figure]) -> None:
    assert tuple(row[1] for row in found["robot-golden-example"].rows) == PAPER_EXAMPLE


def test_the_corollary_is_passed_but_nine_eighths_is_not(found: dict[str, Figure]) -> None:
    ratios = column(found["robot-corollary-5-1"], "ratio")
    assert 1.05 < max(ratios) < 9 / 8
    assert min(ratios) >= 1
    large = [row for row in found["robot-corollary-5-1"].rows if row[0] == "equal" and row[1] == 100 and row[2] == 0.1]
    assert float(large[0][3]) == pytest.approx(1.098, abs=5e-4)


def test_the_bound_of_the_paper_falls_with_the_rate() -> None:
    values = [paper_ratio(q) for q in (0.01, 0.1, 1.0, 3.0, 10.0)]
    assert values == sorted(values, reverse=True)
    assert values[0] < (np.sqrt(5) + 3) / 5 < 1.05


def test_optimal_frequencies_are_optimal(found: dict[str, Figure]) -> None:
    figure = found["robot-frequencies"]
    assert min(column(figure, "over optimal")) == 1.0
    over = {row[:3]: float(row[4]) for row in figure.rows}
    assert over["constant", "as mu", "in proportion to mu"] == pytest.approx(1.0)
    assert over["exponential", "as mu", "in proportion to mu"] > 1.0001


def test_orders_rank_as_the_theory_has_it(found: dict[str, Figure]) -> None:
    figure = found["robot-sequences"]
    cycle, drawn, naive = (column(figure, c) for c in ("golden cycle", "randomised", "randomised as mu"))
    assert all(1 <= a < b <= c + 1e-12 for a, b, c in zip(cycle, drawn, naive, strict=True))


def test_simulated_costs_agree_with_the_formulas(found: dict[str, Figure]) -> None:
    assert np.abs(column(found["robot-simulated"], "difference")).max() < 0.05


def test_a_page_accessed_once_counts_as_out_of_date() -> None:
    order = np.array([0, 0, 1, 0])
    stale = simulate_robot(np.array([1e-9, 1e-9]), GammaAccess(1.0), order, np.random.default_rng(1))
    assert stale.tolist() == [0.0, 1.0]
