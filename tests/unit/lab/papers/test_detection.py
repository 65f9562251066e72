"""The detection paper's experiments: ratios to the tight bound, learning, convergence."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.lab.algorithms.detection_frequencies import tight_bound
from proxyd.lab.algorithms.step_policies import LearningIndexPolicy
from proxyd.lab.papers import detection_paper
from proxyd.lab.papers.detection_paper import SETTINGS, DetectionSetting, bernoulli, figures, memoryless_cost
from proxyd.lab.papers.figure import Figure
from proxyd.lab.traces import zipf_rates


@pytest.fixture(scope="module")
def found() -> dict[str, Figure]:
    return {f.name: f for f in figures(rng=np.random.default_rng(1), quick=True)}


def test_a_few_sources_show_the_order_of_the_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection_paper, "SOURCES", 30)
    monkeypatch.setattr(detection_paper, "_TOTAL", 6.0)
    monkeypatch.setattr(detection_paper, "SETTINGS", (DetectionSetting(1.0, 2, 900, 900),))
    figure = detection_paper._ratios(quick=True)
    ratio = {str(row[1]): float(row[2]) for row in figure.rows}
    assert ratio["index"] < ratio["next due"] < ratio["powers of two, improved"] < ratio["powers of two"]
    assert ratio["index"] < ratio["round robin"] < ratio["memoryless, rate-proportional"]
    assert float(next(row[4] for row in figure.rows if row[1] == "powers of two")) <= 3.5


def test_greedy_over_its_bound_grows_with_the_sources() -> None:
    rows = [[float(cell) for cell in row] for row in detection_paper._greedy(8).rows]
    assert [row[0] for row in rows] == [2, 4, 6, 8]
    assert [row[5] for row in rows] == sorted(row[5] for row in rows)


def test_what_is_learned_is_followed_through_a_permutation(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = zipf_rates(12, exponent=1.0, total_per_s=3.0)
    learner = detection_paper._RateLearner(LearningIndexPolicy(12), 2, 12, np.random.default_rng(1))
    bound = tight_bound(rates, 2).cost
    assert learner.play(rates, 1500)[500:].mean() < 1.2 * bound
    assert learner.play(rates[::-1].copy(), 3000, bernoulli)[1500:].mean() < 1.3 * bound


def test_adaptive_comes_near_the_optimum_with_time() -> None:
    rows = detection_paper._convergence(1500, 1, np.random.default_rng(1)).rows
    for column in (1, 2):
        assert abs(float(rows[-1][column]) - 1.0) < abs(float(rows[0][column]) - 1.0)


@pytest.mark.long
def test_every_row_fits_its_columns(found: dict[str, Figure]) -> None:
    for figure in found.values():
        assert {len(row) for row in figure.rows} == {len(figure.columns)}


@pytest.mark.long
def test_ratios_are_those_of_the_table(found: dict[str, Figure]) -> None:
    ratios = {(str(row[0]), str(row[1])): (float(row[2]), float(row[3])) for row in found["detection-ratios"].rows}
    assert len(ratios) == 30
    for (_, policy), (ratio, reference) in ratios.items():
        assert ratio == pytest.approx(reference, rel=0.15 if policy == "greedy" else 0.035), policy


@pytest.mark.long
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_theorems_and_order_of_the_policies(found: dict[str, Figure], setting: DetectionSetting) -> None:
    rows = {str(r[1]): r for r in found["detection-ratios"].rows if r[0] == setting.name}
    c = setting.c
    assert float(rows["memoryless"][4]) <= 2 + (c - 1) / c + 1e-9
    assert float(rows["powers of two"][4]) <= 3 + (c - 1) / c
    ratio = {policy: float(row[2]) for policy, row in rows.items()}
    assert ratio["index"] < ratio["next due"] < ratio["powers of two, improved"] < ratio["powers of two"]
    assert ratio["powers of two"] < ratio["greedy"] < ratio["round robin"] <= ratio["memoryless, rate-proportional"]


@pytest.mark.long
def test_greedy_grows_without_bound(found: dict[str, Figure]) -> None:
    rows = np.array([[float(cell) for cell in row] for row in found["detection-greedy"].rows])
    assert np.all(np.diff(rows[:, 5]) > 0)
    assert np.all(rows[:, 3] / rows[:, 4] < 1.08)
    assert np.all(rows[:, 4] < 4.5)


@pytest.mark.long
def test_the_learning_index_beats_adaptive_before_and_after_a_permutation(found: dict[str, Figure]) -> None:
    rows = {(str(row[0]), str(row[1])): row for row in found["detection-learning"].rows}
    for items in ("Poisson", "Bernoulli"):
        adaptive, learning = rows[items, "Adaptive"], rows[items, "index, learning and forgetting"]
        assert max(float(cell) for cell in learning[2:]) < 1.1
        assert min(float(cell) for cell in adaptive[2:]) > 1.7
        assert float(learning[3]) < float(rows[items, "index, learning"][3])


@pytest.mark.long
def test_adaptive_converges(found: dict[str, Figure]) -> None:
    for row in found["detection-convergence"].rows[-2:]:
        assert [float(cell) for cell in row[1:]] == pytest.approx([1.0, 1.0], abs=0.05)


def test_bernoulli_items_are_none_or_one() -> None:
    rng = np.random.default_rng(2)
    items = np.array([bernoulli(np.array([0.0, 0.5, 1.0]), rng) for _ in range(500)])
    assert items.max() == 1
    assert items.mean(axis=0) == pytest.approx([0.0, 0.5, 1.0], abs=0.1)


def test_a_memoryless_probe_waits_one_over_its_frequency() -> None:
    assert memoryless_cost(np.array([3.0]), np.array([0.25])) == 12.0
