"""The experiments on SUP: pages and intervals by hand, and the shape that the paper prints."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.lab.papers import sup_counted, sup_feedback, sup_wic
from proxyd.lab.papers import sup_paper as sup
from proxyd.lab.papers.figure import RSS, SYNTHETIC_1, SYNTHETIC_2, Dataset, Figure, Updates
from proxyd.lab.papers.sup_feedback import CAUGHT, PASSED, REPLAN, STATIC, follow

UPDATES = st.lists(st.lists(st.integers(0, 59), max_size=12), min_size=1, max_size=4)


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@pytest.fixture(scope="module")
def found() -> dict[str, Figure]:
    return {figure.name: figure for figure in sup.figures(rng=generator(), quick=True)}


@pytest.fixture(scope="module")
def small() -> dict[str, Figure]:
    """All figures, of a few pages: what holds whatever is drawn."""
    with pytest.MonkeyPatch.context() as patch:
        for module, names in (
            (sup, ("RSS", "_BATCHED", "SYNTHETIC_1", "SYNTHETIC_2")),
            (sup_wic, ("SYNTHETIC_2",)),
            (sup_feedback, ("RSS",)),
            (sup_counted, ("SYNTHETIC_2", "_SMALL")),
        ):
            for name in names:
                patch.setattr(module, name, replace(getattr(module, name), pages=10, events=60))
        return {figure.name: figure for figure in sup.figures(rng=generator(), quick=True)}


def table(figure: Figure) -> dict[tuple[object, object], float]:
    """Return the last column by the first two."""
    return {(row[0], row[1]): float(row[-1]) for row in figure.rows}


def test_intervals_of_a_rule_by_hand() -> None:
    updates = Updates.of([[2, 5, 9, 9, 30], [7]], 40)
    each = updates.intervals(1, None)
    assert each.pages.tolist() == [0, 0, 0, 0, 0, 1]
    assert list(zip(each.starts.tolist(), each.deadlines.tolist(), strict=True)) == [
        (2, 4),
        (5, 8),
        (9, 9),
        (9, 29),
        (30, 39),
        (7, 39),
    ]
    third = updates.intervals(3, 5)
    assert (third.starts.tolist(), third.deadlines.tolist()) == ([9], [14])
    closed = updates.intervals(2, None, closed=True)
    assert closed.deadlines.tolist() == [9, 30]


@given(UPDATES, st.integers(1, 4), st.sampled_from([None, 0, 3, 20]))
def test_sup_that_knows_the_updates_captures_every_interval(
    chronons: list[list[int]], every: int, life: int | None
) -> None:
    intervals = Updates.of(chronons, 60).intervals(every, life)
    assert intervals.utility(intervals.sup()) == 1.0


@pytest.mark.parametrize("dataset", [RSS, SYNTHETIC_1, SYNTHETIC_2])
def test_data_sets_have_the_size_that_the_paper_prints(dataset: Dataset) -> None:
    updates = dataset.draw(generator()).updates()
    size = {"RSS (stand-in)": (103, 1972), "Synthetic 1": (244, 3754), "Synthetic 2": (792, 4194)}[dataset.name]
    assert (updates.count, len(updates)) == size
    assert np.all((updates.chronons >= 0) & (updates.chronons < 1000))


def test_the_poisson_model_expects_updates_where_the_intensity_adds_up() -> None:
    dataset = Dataset("d", 2, 6, 1.0)
    assert dataset.expect(np.array([4.0, 2.0]), 100).of_page[0].tolist() == [25, 50, 75, 99]
    assert dataset.expect(np.array([4.0, 2.0]), 100).of_page[1].tolist() == [50, 99]


@given(UPDATES, st.integers(1, 4), st.sampled_from([PASSED, CAUGHT, REPLAN]))
def test_feedback_changes_nothing_where_the_model_is_right(chronons: list[list[int]], every: int, reading: str) -> None:
    updates = Updates.of([sorted(set(own)) for own in chronons], 60)
    plain, mended = (follow(updates, updates, every, kind) for kind in (STATIC, reading))
    assert [column.tolist() for column in plain] == [column.tolist() for column in mended]


def test_every_row_fits_its_columns_and_every_axis_is_one(small: dict[str, Figure]) -> None:
    assert len(small) == 19
    for figure in small.values():
        assert figure.rows
        assert {len(row) for row in figure.rows} == {len(figure.columns)}
        assert {*figure.y, *([figure.x] if figure.x else []), *([figure.by] if figure.by else [])} <= {*figure.columns}


def test_utilities_are_shares_and_whole_where_the_model_is_right(small: dict[str, Figure]) -> None:
    for name in ("sup-1a-window", "sup-1d-window", "sup-2a-life", "sup-3a-model"):
        assert all(0.0 <= utility <= 1.0 for utility in table(small[name]).values())
    level = table(small["sup-3b-model"])
    assert [level["FPN(1.0)", every] for every in range(1, 6)] == [1.0] * 5
    assert small["sup-4a-fpn"].rows[0][2] == 1.0
    for model, *_, plain, counted, _, feedback, as_many in small["sup-6a-counted"].rows:
        if model == "FPN(1.0)":
            assert plain == counted == feedback == as_many == 1.0


def test_feedback_gains_nothing_where_nothing_is_unknown(small: dict[str, Figure]) -> None:
    for part in ("5a-gain", "5b-probes"):
        measured = table(small[f"sup-{part}"])
        assert {measured["Z = 1.0", every] for every in range(1, 6)} == {0.0}


def test_wic_with_more_probes_captures_more(small: dict[str, Figure]) -> None:
    for name in ("sup-4a-fpn", "sup-4b-poisson"):
        wic = [(int(row[1]), float(row[2])) for row in small[name].rows if row[0] == "WIC, 1000 chronons"]
        assert wic == sorted(wic)


@pytest.mark.long
def test_utility_grows_with_the_window_and_falls_with_x(found: dict[str, Figure]) -> None:
    for part in "abcd":
        level = table(found[f"sup-1{part}-window"])
        for every in range(1, 6):
            row = [level[f"X = {every}", window] for window in (0, 20, 50, 100)]
            assert row[0] < row[-1]
            assert all(b > a - 0.02 for a, b in pairwise(row))
        assert level["X = 1", 100] > level["X = 5", 100]


@pytest.mark.long
def test_feeds_in_batches_reach_the_printed_level(found: dict[str, Figure]) -> None:
    level = table(found["sup-1b-window"]).values()
    assert min(level) > 0.84
    assert max(level) == pytest.approx(0.994, abs=0.01)


@pytest.mark.long
def test_overwrite_is_the_worst_life_where_updates_come_together(found: dict[str, Figure]) -> None:
    level = table(found["sup-2c-life"])
    for every in (1, 2, 3, 4, 5):
        assert level["overwrite", every] < level["window(10)", every]
        assert level["overwrite", every] < level["window(20)", every]


@pytest.mark.parametrize("name", ["sup-3a-model", "sup-3b-model"])
@pytest.mark.long
def test_utility_falls_with_noise_and_with_x(found: dict[str, Figure], name: str) -> None:
    level = table(found[name])
    for every in range(1, 6):
        by_noise = [level[f"FPN({kept})", every] for kept in (1.0, 0.8, 0.6, 0.4)]
        assert by_noise[0] == 1.0
        assert by_noise == sorted(by_noise, reverse=True)
    for model in ("FPN(0.8)", "FPN(0.6)", "FPN(0.4)", "Poisson"):
        assert level[model, 1] > level[model, 3] > level[model, 5]


@pytest.mark.long
def test_sup_needs_at_most_a_sixth_of_the_probes_of_wic(found: dict[str, Figure]) -> None:
    figure = found["sup-4c-readings"]
    at = figure.columns.index
    told = [row for row in figure.rows if row[at("WIC is told")] == sup_wic.PLANNED]
    ratios = {row[at("X")]: float(row[at("ratio")]) for row in told}
    assert all(ratios[every] >= 6.0 for every in (2, 3, 5))
    assert ratios[1] > 4.0
    (third,) = (row for row in told if row[at("X")] == 3)
    assert float(third[at("utility")]) == pytest.approx(0.41, abs=0.06)
    assert float(third[at("WIC probes")]) > 9000


@pytest.mark.long
def test_wic_that_is_told_the_chances_is_a_better_rival(found: dict[str, Figure]) -> None:
    figure = found["sup-4c-readings"]
    at = figure.columns.index
    by_told = {(row[at("WIC is told")], row[at("X")]): float(row[at("ratio")]) for row in figure.rows}
    for every in (1, 2, 3, 5):
        assert 1.0 < by_told[sup_wic.CHANCES, every] < by_told[sup_wic.PLANNED, every]


@pytest.mark.long
def test_wic_starts_low_and_needs_far_more_probes_even_without_noise(found: dict[str, Figure]) -> None:
    rows = found["sup-4a-fpn"].rows
    assert rows[0][2] == 1.0
    wic = [(int(row[1]), float(row[2])) for row in rows if row[0] == "WIC, 1000 chronons"]
    assert wic[0][1] < 0.2
    assert all(utility < 1.0 for probes, utility in wic if probes <= 10 * int(rows[0][1]))


def test_wic_reaches_between_two_budgets() -> None:
    assert sup_wic.crossing(0.0, np.array([0.0, 0.2]), np.array([0.0, 10.0])) == 0.0
    assert sup_wic.crossing(0.2, np.array([0.0, 0.2]), np.array([0.0, 10.0])) == 10.0


@pytest.mark.long
def test_feedback_gains_within_the_printed_ranges(found: dict[str, Figure]) -> None:
    gain, extra = table(found["sup-5a-gain"]), table(found["sup-5b-probes"])
    assert max(gain.values()) <= 104.0
    assert max(extra.values()) <= 49.0
    assert min(gain.values()) == min(extra.values()) == 0.0
    for kept in (0.8, 0.4):
        assert gain[f"Z = {kept}", 1] == extra[f"Z = {kept}", 1] == 0.0
        assert gain[f"Z = {kept}", 5] > gain[f"Z = {kept}", 2] > 5.0
        assert extra[f"Z = {kept}", 5] > 15.0
    assert extra["Z = 0.4", 5] > extra["Z = 0.8", 5]


@pytest.mark.long
def test_counting_anew_gains_more_for_more_probes(found: dict[str, Figure]) -> None:
    figure = found["sup-5e-readings"]
    rows = {(row[0], row[1], row[2]): row for row in figure.rows}
    gain, extra = figure.columns.index("mean gain [%]"), figure.columns.index("extra probes [%]")
    for kept in (0.8, 0.4):
        literal, again, caught = (rows[kind, kept, 5] for kind in (PASSED, REPLAN, CAUGHT))
        assert float(literal[gain]) < float(again[gain])
        assert float(literal[extra]) < float(again[extra]) < float(caught[extra])
    assert float(rows[CAUGHT, 0.8, 5][gain]) > 75.0
    assert len(sup_feedback.READINGS) == 3


@pytest.mark.long
def test_the_same_generator_gives_the_same_figures(found: dict[str, Figure]) -> None:
    again = next(sup.figures(rng=generator(), quick=True))
    assert again == found["sup-1a-window"]


def test_all_interpretations_differ_from_the_headline_in_one_thing_each() -> None:
    base, *others = sup_wic.settings(quick=False)
    assert sup_wic.settings(quick=True) == (base,) == (sup_wic.BASE,)
    assert len(set(others)) == len(others) > 8
    for other in others:
        assert (other.week != base.week) + (other.exponent != base.exponent) + (other.life != base.life) == 1


@pytest.mark.long
def test_a_counted_plan_is_never_behind_sup_and_fbsup_at_their_probes(found: dict[str, Figure]) -> None:
    rows = found["sup-6a-counted"].rows
    assert len(rows) == 12
    leads = []
    for model, _, _, _, sup_, counted, _, feedback, as_many in rows:
        assert float(counted) >= float(sup_)
        assert float(as_many) >= float(feedback)
        if model == "FPN(1.0)":
            assert (sup_, counted, as_many) == (1.0, 1.0, 1.0)
        else:
            leads.append(float(counted) - float(sup_))
    assert np.mean(leads) > 0.08


@pytest.mark.long
def test_what_a_counted_plan_gains_at_x_1_is_where_misplaced_updates_are(found: dict[str, Figure]) -> None:
    for *_, sup_, anywhere, in_week in found["sup-6b-misplaced"].rows:
        assert abs(float(anywhere) - float(sup_)) < 0.02
        assert float(in_week) > max(float(anywhere), float(sup_)) + 0.01


def test_a_price_mixes_pages_between_two_numbers_of_probes() -> None:
    actual = Updates.of([[2], [5]], 168)
    models = sup_counted.PageModels.noisy(actual, 1.0, sup_counted.even_shares(actual, 1.0))
    assert sup_counted.utility_at(models, actual, [0, 1, 2, 9], every=1, life=3) == [0.0, 0.5, 1.0, 1.0]
