from __future__ import annotations

from itertools import pairwise
from math import log

import numpy as np
import pytest

from proxyd.core.rates.evidence import ChangedBit
from proxyd.lab.estimators.change_indicators import BitRate, fit_bits, irregular_rate, regular_rate
from proxyd.lab.estimators.rate_prior import RatePrior


def test_the_naive_rate_is_68_percent_too_low_and_ours_is_not() -> None:
    """At 3 items a gap, 50 probes: the mean of both over 20,000 sources."""
    rng = np.random.default_rng(1)
    changed = rng.binomial(50, 1 - np.exp(-3.0), 20_000)
    naive = np.mean(changed / 50) / 3
    ours = np.mean([regular_rate(float(count), 50, 1.0) for count in changed]) / 3
    assert naive - 1 == pytest.approx(-0.68, abs=0.01)
    assert abs(ours - 1) < 0.02


@pytest.mark.parametrize("mean", [0.1, 1.0, 3.0])
def test_uneven_gaps_are_unbiased_to_a_few_percent(mean: float) -> None:
    rng = np.random.default_rng(2)
    found = []
    for _ in range(400):
        gaps = rng.exponential(1.0, 50) + 0.01
        found.append(irregular_rate(gaps, rng.random(50) < 1 - np.exp(-mean * gaps)))
    assert np.mean(found) == pytest.approx(mean, rel=0.04)


def test_gaps_that_always_end_in_a_change_say_nothing() -> None:
    """A plain mean gap as correction would add 250 s of silence to 100 gaps of 1 s, and lose a fifth of the rate."""
    rng = np.random.default_rng(3)
    gaps = np.repeat([1.0, 1000.0], 100)
    found = [irregular_rate(gaps, rng.random(200) < 1 - np.exp(-gaps)) for _ in range(300)]
    assert np.mean(found) == pytest.approx(1.0, rel=0.03)


@pytest.mark.parametrize("changed", [0, 1, 7, 19, 20])
def test_even_gaps_have_a_closed_form(changed: int) -> None:
    bits = [k < changed for k in range(20)]
    expected = -log((20 - changed + 0.5) / 20.5) / 600.0
    assert regular_rate(changed, 20, 600.0) == pytest.approx(expected, abs=1e-15)
    assert irregular_rate([600.0] * 20, bits) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_all_changed_is_finite_and_none_changed_is_0_without_a_prior() -> None:
    gaps = [60.0, 3600.0, 86400.0]
    assert 0 < irregular_rate(gaps, [True] * 3) < np.inf
    assert irregular_rate(gaps, [False] * 3) == 0.0
    assert 0 < irregular_rate(gaps, [False] * 3, prior=RatePrior(1e-5, events=2.0)) < 1e-5


@pytest.mark.parametrize("gap_s", [1e-6, 1.0, 1e9])
def test_extreme_gaps_stay_finite(gap_s: float) -> None:
    rate = irregular_rate([gap_s, gap_s * 1e6], [True, True])
    assert 0 < rate * gap_s < 10


def test_memory_is_bounded_and_costs_less_than_a_thousandth() -> None:
    rng = np.random.default_rng(4)
    ends = np.cumsum(np.concatenate([[0.0], np.exp(rng.uniform(log(60), log(6e5), 3000))])).tolist()
    bits = [ChangedBit(a, b, bool(rng.random() < 1 - np.exp(-(b - a) / 7200))) for a, b in pairwise(ends)]
    rate = BitRate()
    for bit in bits:
        rate.update(bit)
    assert len(rate._gaps) < 2 * 16 * 14
    assert rate.rate_per_s() == pytest.approx(fit_bits(bits), rel=1e-3)


def test_old_bits_are_forgotten() -> None:
    rate = BitRate(half_life_s=5000.0)
    for k in range(100):
        rate.update(ChangedBit(k * 10.0, k * 10.0 + 10.0, changed=True))
    fast = rate.rate_per_s()
    for k in range(3000):
        rate.update(ChangedBit(1000.0 + k * 100.0, 1100.0 + k * 100.0, k % 10 == 0))
    assert fast > 0.3
    assert rate.rate_per_s() == pytest.approx(-log(0.9) / 100, rel=0.1)
    assert len(rate._gaps) == 2, "what has no weight left is dropped"


def test_bits_may_come_in_any_order() -> None:
    bits = [ChangedBit(k * 10.0, k * 10.0 + 10.0 + k, k % 3 == 0) for k in range(12)]
    forwards, backwards = BitRate(half_life_s=50.0), BitRate(half_life_s=50.0)
    for one, other in zip(bits, bits[::-1], strict=True):
        forwards.update(one)
        backwards.update(other)
    assert forwards.rate_per_s() == pytest.approx(backwards.rate_per_s())


@pytest.mark.parametrize(("changed", "probes", "gap_s"), [(3, 2, 1.0), (-1, 2, 1.0), (1, 2, 0.0)])
def test_impossible_bits_are_refused(changed: int, probes: int, gap_s: float) -> None:
    with pytest.raises(ValueError, match="as many changes as probes"):
        regular_rate(changed, probes, gap_s)


@pytest.mark.parametrize("gaps", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, float("nan")]], ids=str)
def test_each_gap_needs_its_bit(gaps: list[float]) -> None:
    with pytest.raises(ValueError, match="needs its bit"):
        irregular_rate(gaps, [True, False])


@pytest.mark.parametrize("changes", [1, 2, 3])
def test_changes_in_gaps_too_short_to_matter_count_as_items_of_the_quiet_time(changes: int) -> None:
    gaps = [1e-12 * (1 + k / 3) for k in range(changes)]
    rate = irregular_rate([*gaps, 70_000.0], [True] * changes + [False])
    assert rate == pytest.approx(changes / 105_000.0, rel=1e-9)  # half an unchanged gap more removes the bias
