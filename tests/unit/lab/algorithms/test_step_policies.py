"""Detection on the settings of ALGORITHMS 5: every ratio to the tight bound is held to its bar."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from proxyd.lab.algorithms.detection_frequencies import memoryless, paper_bound, periodic_cost, tight_bound
from proxyd.lab.algorithms.probe_cycles import best_powers, golden, powers_of_two
from proxyd.lab.algorithms.step_policies import (
    AdaptivePolicy,
    CyclePolicy,
    DetectionPolicy,
    DuePolicy,
    GreedyPolicy,
    IndexPolicy,
    LearningIndexPolicy,
)
from proxyd.lab.papers.detection_paper import memoryless_cost

Floats = NDArray[np.float64]
SETTINGS = [(1.0, 10, 6000), pytest.param(2.0, 1, 40_000, marks=pytest.mark.long), (1.5, 50, 3000)]


def zipf(exponent: float) -> Floats:
    rates = np.arange(1, 1001.0) ** -exponent
    scaled: Floats = rates / rates.sum() * 50.0
    return scaled


def cost(
    policy: DetectionPolicy, rates: Floats, c: int, steps: int, *, warm_up: int, rng: np.random.Generator
) -> float:
    """Return the mean expected undiscovered items after ``warm_up`` steps; learners see Poisson items."""
    waiting = np.zeros(len(rates))
    items = np.zeros(len(rates), dtype=np.int64)
    total = 0.0
    for step in range(steps):
        items += rng.poisson(rates)
        waiting += rates
        total += float(waiting.sum()) if step >= warm_up else 0.0
        chosen = policy.choose(step, c)
        policy.observe(step, chosen, items[chosen].copy())
        items[chosen], waiting[chosen] = 0, 0.0
    return total / (steps - warm_up)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.mark.parametrize(("exponent", "c", "steps"), SETTINGS)
def test_index_and_due_time_reach_the_bound(exponent: float, c: int, steps: int, rng: np.random.Generator) -> None:
    rates = zipf(exponent)
    bound = tight_bound(rates, c).cost
    assert 1.0 <= cost(IndexPolicy(rates), rates, c, steps, warm_up=steps // 3, rng=rng) / bound <= 1.005
    assert cost(DuePolicy(rates, c), rates, c, steps, warm_up=steps // 3, rng=rng) / bound <= 1.03


@pytest.mark.parametrize(("exponent", "c", "steps"), SETTINGS)
def test_cycles_keep_their_promises(exponent: float, c: int, steps: int) -> None:
    rates = zipf(exponent)
    bound = tight_bound(rates, c).cost
    assert periodic_cost(rates, powers_of_two(rates), c) / paper_bound(rates, c) <= 3 + (c - 1) / c
    assert periodic_cost(rates, best_powers(rates, c), c) / bound <= 1.09
    assert periodic_cost(rates, golden(np.sqrt(rates)), c) / bound <= 1.125


@pytest.mark.parametrize(("exponent", "c", "steps"), SETTINGS)
def test_memoryless_is_within_its_theorem(exponent: float, c: int, steps: int) -> None:
    rates = zipf(exponent)
    assert memoryless_cost(rates, 1 - (1 - memoryless(rates, c)) ** c) / paper_bound(rates, c) <= 2 + (c - 1) / c


@pytest.mark.parametrize(("exponent", "c", "steps"), SETTINGS)
def test_greedy_is_worse_than_the_index(exponent: float, c: int, steps: int, rng: np.random.Generator) -> None:
    rates = zipf(exponent)
    greedy = cost(GreedyPolicy(rates), rates, c, steps, warm_up=steps // 3, rng=rng)
    assert greedy > 1.3 * cost(IndexPolicy(rates), rates, c, steps, warm_up=steps // 3, rng=rng)


def test_unknown_rates_are_learned_and_learned_again_after_a_permutation(rng: np.random.Generator) -> None:
    rates = rng.permutation(zipf(1.0))
    bound = tight_bound(rates, 10).cost
    policy = LearningIndexPolicy(len(rates))
    assert cost(policy, rates, 10, 2000, warm_up=500, rng=rng) / bound <= 1.03
    moved = rng.permutation(rates)

    class Later:
        """The same policy, its steps counted on from where it stood."""

        def choose(self, step: int, c: int) -> NDArray[np.int64]:
            return policy.choose(step + 2000, c)

        def observe(self, step: int, sources: NDArray[np.int64], found: NDArray[np.int64]) -> None:
            policy.observe(step + 2000, sources, found)

    assert cost(Later(), moved, 10, 6000, warm_up=3000, rng=rng) / bound <= 1.03


def test_adaptive_converges_to_the_memoryless_schedule(rng: np.random.Generator) -> None:
    rates = np.array([0.4, 0.3, 0.2, 0.05, 0.05])
    adaptive = cost(AdaptivePolicy(5, rng), rates, 1, 30_000, warm_up=15_000, rng=rng)
    assert adaptive == pytest.approx(float(np.sqrt(rates).sum()) ** 2, rel=0.05)


@pytest.mark.parametrize("c", [1, 3])
def test_a_cycle_costs_what_playing_it_costs(c: int, rng: np.random.Generator) -> None:
    rates = rng.uniform(0.1, 1.0, 6)
    cycle = np.concatenate([np.arange(6), rng.integers(0, 6, 12)])
    rounds = len(cycle) // c
    played = cost(CyclePolicy(cycle), rates, c, 3 * rounds, warm_up=rounds, rng=rng)
    assert periodic_cost(rates, cycle, c) == pytest.approx(played)
