"""Frequencies against a general convex solver; cycles give every source what they say."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.errors import SchedulingError
from proxyd.lab.algorithms.detection_frequencies import paper_bound, tight_bound
from proxyd.lab.algorithms.probe_cycles import GOLDEN, IDLE, best_powers, cycle_of_powers, golden, powers_of_two
from proxyd.lab.algorithms.robot_frequencies import GammaAccess, cycle_staleness, evenly_spaced, randomise
from tests.examples import examples

rates = st.lists(st.sampled_from([0.0, 0.01, 0.1, 0.5, 1.0, 3.0, 20.0]), min_size=1, max_size=8).filter(any)


@given(rates, st.floats(0.1, 9.0))
def test_the_tight_bound_satisfies_its_optimality_conditions(lam: list[float], c: float) -> None:
    found = tight_bound(lam, c)
    f, rate = found.frequencies, np.asarray(lam)
    assert np.all(f <= 1 + 1e-12)
    assert f.sum() <= c + 1e-9
    assert found.cost >= paper_bound(lam, c) - 1e-9
    free = (f < 1 - 1e-9) & (rate > 0)
    if free.any():
        assert f.sum() == pytest.approx(min(c, np.count_nonzero(rate)))
        price = rate[free] / f[free] ** 2
        assert price == pytest.approx(price[0], rel=1e-9)
        assert np.all(rate[f >= 1 - 1e-9] >= price[0] * (1 - 1e-9))


@given(st.lists(st.one_of(st.none(), st.integers(0, 6)), min_size=1, max_size=10))
def test_a_cycle_of_powers_probes_each_source_exactly_at_its_period(powers: list[int | None]) -> None:
    if sum(2.0**-p for p in powers if p is not None) > 1:
        with pytest.raises(SchedulingError):
            cycle_of_powers(powers)
        return
    cycle = cycle_of_powers(powers)
    for source, power in enumerate(powers):
        at = np.flatnonzero(cycle == source)
        if power is None:
            assert not len(at)
        else:
            assert np.all(np.diff(np.append(at, at[0] + len(cycle))) == 2**power)


@given(rates)
def test_every_source_with_a_rate_is_in_every_cycle(lam: list[float]) -> None:
    wanted = {i for i, rate in enumerate(lam) if rate > 0}
    for cycle in (powers_of_two(lam), best_powers(lam), golden(np.sqrt(lam))):
        assert set(cycle.tolist()) - {IDLE} == wanted


@given(rates)
def test_the_golden_cycle_leaves_no_gap_much_longer_than_the_mean(lam: list[float]) -> None:
    cycle = golden(lam, 89)
    for source, accesses in Counter(cycle.tolist()).items():
        at = np.flatnonzero(cycle == source)
        assert max(np.diff(np.append(at, at[0] + len(cycle)))) <= GOLDEN**2 * len(cycle) / accesses + 2


ACCESS = [GammaAccess(0.7, np.inf), GammaAccess(0.7), GammaAccess(1.3, 3.0)]
pages = st.lists(st.tuples(st.floats(0.01, 3.0), st.floats(0.0, 5.0)), min_size=1, max_size=6).filter(
    lambda found: any(weight > 0.01 for _, weight in found)
)


def even_cost(f: np.ndarray, mu: np.ndarray, c: np.ndarray, access: GammaAccess) -> float:
    h = access.transform(mu)
    used = f > 0
    gain = np.zeros(len(f))
    gain[used] = f[used] / (mu[used] * access.mean) * (1 - h[used] ** (1 / f[used]))
    return float(c @ (1 - gain))


def drawn_cost(f: np.ndarray, mu: np.ndarray, c: np.ndarray, access: GammaAccess) -> float:
    h = access.transform(mu)
    return float(c @ (1 - f / (mu * access.mean) * (1 - h) / (1 - h + f * h)))


@pytest.mark.parametrize("access", ACCESS)
@given(pages, st.integers(0, 2**32 - 1))
@examples(25)
def test_no_other_robot_frequencies_cost_less(access: GammaAccess, found: list[tuple[float, float]], seed: int) -> None:
    """Both costs are convex, so a point that no direction improves is the optimum."""
    mu, c = (np.array(values) for values in zip(*found, strict=True))
    rng = np.random.default_rng(seed)
    for solve, cost in ((evenly_spaced, even_cost), (randomise, drawn_cost)):
        best = solve(mu, access, c)
        assert best.frequencies.sum() == pytest.approx(1.0)
        assert best.cost == pytest.approx(cost(best.frequencies, mu, c, access), rel=1e-9)
        for _ in range(20):
            other = rng.dirichlet(np.ones(len(mu)))
            for step in (1.0, 0.1, 0.001):
                near = (1 - step) * best.frequencies + step * other
                assert cost(near, mu, c, access) >= best.cost - 1e-9


@pytest.mark.parametrize("access", ACCESS)
def test_weights_equal_to_the_rates_give_the_closed_forms(access: GammaAccess) -> None:
    mu = np.array([0.1, 0.4, 2.0])
    h = access.transform(mu)
    assert evenly_spaced(mu, access).frequencies == pytest.approx(np.log(h) / np.log(h).sum())
    assert randomise(mu, access).frequencies == pytest.approx((1 / h - 1) / (1 / h - 1).sum())
    product = mu.sum() - 1 / access.mean + h.prod() / access.mean
    assert evenly_spaced(mu, access).cost == pytest.approx(product)


@pytest.mark.parametrize("access", ACCESS)
def test_the_golden_cycle_stays_within_nine_eighths_of_the_bound(access: GammaAccess) -> None:
    mu = np.array([0.002, 0.003, 0.003, 0.005, 0.011, 0.02])
    best = evenly_spaced(mu, access)
    stale = cycle_staleness(mu, access, golden(best.frequencies, 987))
    assert best.cost <= float(mu @ stale) <= best.cost * 9 / 8
