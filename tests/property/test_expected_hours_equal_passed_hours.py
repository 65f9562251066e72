"""What a shape expects between two times is the same by its sums as hour by hour."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.rates.week_bins import HOUR_S, HOURS, hours_between
from proxyd.core.rates.week_shapes import factors_over_hours

times = st.floats(0.0, 2e9) | st.integers(0, 500_000).map(lambda hours: hours * HOUR_S)


@given(starts=st.lists(times, min_size=1, max_size=8), length_s=st.floats(0.0, 1e8), seed=st.integers(0, 2**32 - 1))
def test_sums_give_what_the_hours_give(starts: list[float], length_s: float, seed: int) -> None:
    shapes = np.random.default_rng(seed).uniform(0.0, 5.0, (3, HOURS))
    start_s = np.array(starts)
    expected = hours_between(start_s, start_s + length_s) @ shapes.T
    np.testing.assert_allclose(factors_over_hours(start_s, start_s + length_s, shapes), expected, rtol=1e-9, atol=1e-6)
