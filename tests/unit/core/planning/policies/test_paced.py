"""GOLDEN, MEMORYLESS and ADAPTIVE: as many probes as AUTO makes, spread by the laws of their papers."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from numpy.typing import NDArray

from proxyd.core.model.profile import PolicyName
from proxyd.core.planning.policies.paced import PacedDemand, golden_after_s

T0, GAP_S = 1_700_000_000.0, 3600.0
POLICIES = (PolicyName.ADAPTIVE, PolicyName.GOLDEN, PolicyName.MEMORYLESS)


def gaps_s(demand: PacedDemand, count: int, source_id: str = "s") -> NDArray[np.float64]:
    times_s = [T0]
    for _ in range(count):
        times_s.append(demand.next_s(source_id, times_s[-1], gap_s=GAP_S))
    return np.diff(times_s)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_the_mean_gap_is_the_one_asked_for(policy: PolicyName) -> None:
    assert gaps_s(PacedDemand("r", policy, seed=1), 4000).mean() == pytest.approx(GAP_S, rel=0.1)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_the_next_probe_follows_from_the_seed_and_the_last_one(policy: PolicyName) -> None:
    first, again = (gaps_s(PacedDemand("r", policy, seed=1), 20) for _ in range(2))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("policy", [PolicyName.MEMORYLESS, PolicyName.ADAPTIVE])
def test_gaps_are_exponential_and_others_for_each_seed_and_source(policy: PolicyName) -> None:
    gaps = gaps_s(PacedDemand("r", policy, seed=1), 4000)
    assert gaps.std() == pytest.approx(GAP_S, rel=0.1)
    assert (gaps > GAP_S).mean() == pytest.approx(np.exp(-1), abs=0.03)
    assert not np.any(gaps[:20] == gaps_s(PacedDemand("r", policy, seed=2), 20))
    assert not np.any(gaps[:20] == gaps_s(PacedDemand("r", policy, seed=1), 20, "t"))


@pytest.mark.parametrize("gap_s", [1e-12, 1e-9, 1e-7, 1e-4])
def test_a_golden_gap_too_small_for_unix_times_is_due_at_once(gap_s: float) -> None:
    assert T0 <= golden_after_s(T0, gap_s, 7) <= T0 + gap_s


@pytest.mark.parametrize("gap_s", [30.0, 100.0, 128.0, 777.0, 86400.0])
@pytest.mark.parametrize("number", [0, 7, 2**32 - 1])
def test_golden_gaps_are_few_lengths_near_the_mean(gap_s: float, number: int) -> None:
    times = [T0]
    for _ in range(400):
        times.append(golden_after_s(times[-1], gap_s, number))
    gaps = np.diff(times)[1:]
    assert gaps.mean() == pytest.approx(gap_s, rel=0.1)
    assert gaps.min() > 0.25 * gap_s
    assert gaps.max() < 2.5 * gap_s
    assert len(np.unique(gaps.round(3))) <= 4  # three within a cycle, one from cycle to cycle


def test_sources_of_one_frequency_are_not_probed_at_once() -> None:
    demand = PacedDemand("r", PolicyName.GOLDEN, seed=1)
    due = [demand.next_s(f"s{n}", T0, gap_s=GAP_S) for n in range(40)]
    assert len(np.unique(np.round(due))) == 40


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_source_that_auto_never_probes_is_never_due(policy: PolicyName) -> None:
    assert PacedDemand("r", policy, seed=1).next_s("s", T0, gap_s=inf) == inf


@pytest.mark.parametrize(("events", "rate_per_s"), [(0, 1e-3), (1, 1e-3), (40, 0.04)])
def test_adaptive_takes_the_rate_from_its_count(events: int, rate_per_s: float) -> None:
    demand = PacedDemand("r", PolicyName.ADAPTIVE, seed=1)
    demand.count(events, 0.0)
    assert demand.own_rate_per_s is None
    demand.count(events, 1000.0)
    assert demand.own_rate_per_s == pytest.approx(rate_per_s)
