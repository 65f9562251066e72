"""Sums of a week shape against adding up small steps."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S
from proxyd.core.rates.week_shapes import WeekSums

RNG = np.random.Generator(np.random.PCG64(4))
SHAPE = RNG.gamma(0.5, size=168)
SHAPE /= SHAPE.mean()


def added_up(since_s: float, until_s: float, steps: int = 200_000) -> tuple[float, float]:
    """Return items and waits in steps, each at its middle."""
    times = since_s + (np.arange(steps) + 0.5) * (until_s - since_s) / steps
    factors = SHAPE[((times - MONDAY_S) // 3600.0).astype(int) % 168]
    step_s = (until_s - since_s) / steps
    return float(factors.sum() * step_s), float((factors * (until_s - times)).sum() * step_s)


@pytest.mark.parametrize("gap_s", [60.0, 5000.0, 86400.0, 2.5 * WEEK_S])
def test_sums_are_what_adding_up_gives(gap_s: float) -> None:
    since_s = MONDAY_S + 2800 * WEEK_S + 6.9 * 86400.0
    assert WeekSums(SHAPE.tolist()).between(since_s, since_s + gap_s) == pytest.approx(
        added_up(since_s, since_s + gap_s), rel=1e-3
    )


def test_a_gap_in_parts_has_the_items_of_the_whole() -> None:
    sums = WeekSums(SHAPE.tolist())
    edges = np.sort(RNG.uniform(0.0, 3 * WEEK_S, 50)).tolist()
    parts = sum(sums.between(since_s, until_s)[0] for since_s, until_s in pairwise(edges))
    assert parts == pytest.approx(sums.between(edges[0], edges[-1])[0])


def test_no_time_holds_nothing() -> None:
    assert WeekSums(SHAPE.tolist()).between(1e9, 1e9) == (0.0, 0.0)


def test_the_factor_is_that_of_its_hour() -> None:
    sums = WeekSums(SHAPE.tolist())
    times_s = [MONDAY_S + 2800 * WEEK_S + hour * 3600.0 for hour in range(168)]
    assert [sums.factor(time_s) for time_s in times_s] == SHAPE.tolist()
