from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.lab.traces import STEADY, Week, poisson_events, zipf_rates

FACTORS = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=6).filter(any).map(tuple)


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def intensity(week: Week, time_s: float) -> float:
    """The definition: the factor of the piece over the mean factor."""
    pieces = len(week.factors)
    number = int((time_s - week.phase_s) % week.period_s / week.period_s * pieces)
    return week.factors[min(number, pieces - 1)] / (sum(week.factors) / pieces)


def test_zipf_rates_fall_by_the_power_of_their_rank() -> None:
    rates = zipf_rates(60, exponent=1.2, total_per_s=6.0)
    assert rates.sum() == pytest.approx(6.0)
    assert rates[0] / rates[9] == pytest.approx(10**1.2)


@given(FACTORS, st.floats(-30.0, 30.0), st.floats(0.0, 30.0))
def test_expected_events_are_the_integral_of_the_intensity(
    factors: tuple[float, ...], start_s: float, length_s: float
) -> None:
    week = Week(7.0, factors, phase_s=2.5)
    edges = week.edges_s(start_s, start_s + length_s)
    assert np.all(np.diff(edges) >= 0.0)
    slow = sum(intensity(week, (a + b) / 2) * (b - a) for a, b in pairwise(edges))
    assert week.expect(edges)[-1] - week.expect(edges)[0] == pytest.approx(slow, abs=1e-6)


@given(FACTORS, st.integers(0, 2**32))
def test_events_ascend_within_their_time_and_only_where_there_is_intensity(
    factors: tuple[float, ...], seed: int
) -> None:
    week = Week(3.0, factors, phase_s=1.0)
    times = poisson_events(4.0, week, start_s=-5.0, stop_s=10.0, rng=generator(seed))
    assert np.all(np.diff(times) >= 0.0)
    assert np.all((times >= -5.0) & (times <= 10.0))
    inside = [week.factors[int((t - 1.0) % 3.0 / 3.0 * len(factors)) % len(factors)] for t in times]
    assert all(inside)


def test_the_same_seed_gives_the_same_events() -> None:
    first, second = (poisson_events(3.0, STEADY, start_s=0.0, stop_s=50.0, rng=generator(7)).tolist() for _ in range(2))
    assert first == second


def test_a_week_gathers_its_events_where_its_factor_is_high() -> None:
    week = Week(10.0, (9.0, 1.0))
    times = poisson_events(5.0, week, start_s=0.0, stop_s=2000.0, rng=generator())
    busy = np.count_nonzero(times % 10.0 < 5.0)
    assert times.size == pytest.approx(10_000, rel=0.05)
    assert busy / times.size == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("factors", [(), (0.0, 0.0), (1.0, -1.0)])
def test_a_week_without_intensity_is_refused(factors: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="a week needs"):
        Week(1.0, factors)
