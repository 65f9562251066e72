"""Small laws of rates and weeks: what is kept after a change, mixed weeks, restored weights, and the cycle."""

from __future__ import annotations

import numpy as np

from proxyd.core.rates.model_fit import ModelFit, SourceModel
from proxyd.core.rates.rate_blend import NO_EVIDENCE, Blend, ItemCount, ItemTimes, RateEvidence, item_times
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S, Cycle, week_hours
from proxyd.core.rates.week_shapes import WeekShapes


def test_evidence_of_an_old_rate_is_worth_two_items() -> None:
    assert RateEvidence((8.0,) * 4, (4.0,) * 4).forgotten(4.0).events == (1.0, 1.0, 1.0, 1.0)


def test_weights_can_be_restored() -> None:
    blend, again = Blend(), Blend()
    blend.weigh(NO_EVIDENCE, ItemTimes(0.0, 86400.0, (60.0, 70.0)))
    again.restore(*blend.credits)
    assert again.weights == blend.weights


def test_a_share_of_a_week_is_even() -> None:
    assert WeekShapes(np.array([[0.0, 2.0]]), np.array([0])).mix_with_even(0.5).shapes.tolist() == [[0.5, 1.5]]


def test_counts_without_items_say_when_nothing_came() -> None:
    assert item_times(ItemCount(0.0, 60.0, 0)) == ItemTimes(0.0, 60.0, ())
    assert item_times(ItemCount(0.0, 60.0, 2)) is None


def test_ten_times_the_items_of_a_week_show_that_a_rate_is_off() -> None:
    fit = ModelFit(found=30.0, expected=3.0, since_s=0.0, as_of_s=WEEK_S)
    assert fit.with_rate(1.0, week_s=WEEK_S).rate_off_since_s == WEEK_S


def test_an_even_model_expects_by_its_rate() -> None:
    assert SourceModel(0.5).expect(0.0, 60.0) == (30.0, 900.0)


def test_a_short_cycle_runs_through_the_whole_week() -> None:
    assert Cycle(3600.0).week_s(MONDAY_S + 1800.0) == MONDAY_S + WEEK_S / 2


def test_weeks_begin_on_monday() -> None:
    assert week_hours([4 * 86400.0, 4 * 86400.0 - 1.0]).tolist() == [0, 167]
