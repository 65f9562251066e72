"""What every estimator keeps, crossed with every kind of evidence that it takes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pytest

import proxyd.core.rates
import proxyd.lab.estimators
from proxyd.core.rates.evidence import Evidence, ItemCount, ItemTimes
from proxyd.lab.estimators.gamma_rate import GammaRate

HALF_LIFE_S = 4_000.0  # the last 580 items count
Make = Callable[[float, float, int], Evidence]


def item_times(since_s: float, until_s: float, count: int) -> Evidence:
    return ItemTimes(since_s, until_s, tuple(np.linspace(since_s, until_s, count + 2)[1:-1]))


def item_count(since_s: float, until_s: float, count: int) -> Evidence:
    return ItemCount(since_s, until_s, count)


@dataclass(frozen=True)
class Case:
    """One estimator with one kind of evidence; ``batch`` says what the whole evidence says at once."""

    start: Callable[[], Any]
    evidence: Make
    batch: Callable[[list[Any]], float]
    rate: Callable[[Any], float] = lambda estimator: float(estimator.rate_per_s())
    within: float = 0.05


def gamma_batch(evidence: Sequence[Any]) -> float:
    """Weigh counts by age, exposure by its integral, and ask for the posterior of a rate that was given both."""
    if not evidence:
        return gamma_rate(GammaRate(HALF_LIFE_S))
    end_s, decay = max(one.until_s for one in evidence), np.log(2) / HALF_LIFE_S
    events = exposure_s = 0.0
    for one in evidence:
        times = one.times_s if isinstance(one, ItemTimes) else [one.until_s] * one.count
        events += float(np.sum(np.exp(-decay * (end_s - np.asarray(times)))))
        exposure_s += float(np.exp(-decay * (end_s - one.until_s)) - np.exp(-decay * (end_s - one.since_s))) / decay
    return gamma_rate(GammaRate(HALF_LIFE_S, events, exposure_s, end_s))


def gamma_rate(rate: GammaRate) -> float:
    return rate.rate_per_s(rate.as_of_s or 0.0, prior_per_s=0.2)


CASES = {
    "gamma-times": Case(lambda: GammaRate(HALF_LIFE_S), item_times, gamma_batch, gamma_rate, within=0.15),
    "gamma-counts": Case(lambda: GammaRate(HALF_LIFE_S), item_count, gamma_batch, gamma_rate, within=0.15),
}


@pytest.fixture(params=list(CASES.values()), ids=list(CASES))
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


def history(case: Case, probes: int, rate_per_s: float = 0.1) -> list[Evidence]:
    rng = np.random.default_rng(11)
    ends = np.concatenate([[0.0], np.cumsum(rng.exponential(12.0, probes))])
    return [case.evidence(a, b, int(rng.poisson(rate_per_s * (b - a)))) for a, b in pairwise(ends.tolist())]


def told(case: Case, evidence: Sequence[Evidence]) -> float:
    estimator = case.start()
    for one in evidence:
        estimator.update(one)
    return case.rate(estimator)


def test_every_estimator_is_held_to_the_contract() -> None:
    modules = [
        import_module(f"{package.__name__}.{found.name}")
        for package in (proxyd.core.rates, proxyd.lab.estimators)
        for found in iter_modules(package.__path__)
    ]
    estimators = {
        one
        for module in modules
        for name, one in vars(module).items()
        if not name.startswith("_") and isinstance(one, type) and hasattr(one, "rate_per_s") and hasattr(one, "update")
    }
    assert estimators == {type(case.start()) for case in CASES.values()}


def test_online_equals_batch_at_every_prefix(case: Case) -> None:
    estimator, evidence = case.start(), history(case, 60)
    for length, one in enumerate(evidence, 1):
        estimator.update(one)
        assert case.rate(estimator) == pytest.approx(case.batch(evidence[:length]), rel=1e-3, abs=1e-12)


def test_it_converges_on_a_known_rate(case: Case) -> None:
    evidence = history(case, 3000)
    assert told(case, evidence) == pytest.approx(0.1, rel=case.within)


def test_no_evidence_is_fine(case: Case) -> None:
    assert case.rate(case.start()) > 0
    assert case.rate(case.start()) == pytest.approx(case.batch([]))


def test_evidence_without_a_duration_adds_nothing(case: Case) -> None:
    evidence = history(case, 5)
    assert told(case, [*evidence, case.evidence(evidence[-1].until_s, evidence[-1].until_s, 2)]) == told(case, evidence)


def test_the_order_of_evidence_of_one_time_is_irrelevant(case: Case) -> None:
    evidence = history(case, 10)
    same = [case.evidence(200.0, 230.0, count) for count in (0, 4, 1, 2)]
    assert told(case, evidence + same) == pytest.approx(told(case, evidence + same[::-1]), rel=1e-9)


def test_inputs_are_unchanged(case: Case) -> None:
    evidence = history(case, 40)
    before = copy.deepcopy(evidence)
    told(case, evidence)
    assert evidence == before


def test_to_ask_changes_nothing(case: Case) -> None:
    estimator, evidence = case.start(), history(case, 40)
    for one in evidence:
        estimator.update(one)
        assert case.rate(estimator) == case.rate(estimator)
    assert case.rate(estimator) == told(case, evidence)


@pytest.mark.parametrize("counts", [[0] * 20, [1] * 20, [500] * 20, [0] * 19 + [500]], ids=str)
@pytest.mark.parametrize("gap_s", [1e-3, 1.0, 1e7])
def test_the_rate_is_finite_and_not_negative(case: Case, counts: list[int], gap_s: float) -> None:
    evidence = [case.evidence(gap_s * k, gap_s * (k + 1), count) for k, count in enumerate(counts)]
    assert 0 <= told(case, evidence) < np.inf


def test_ages_of_silence_and_late_evidence_are_fine(case: Case) -> None:
    """Evidence a million half-lives apart, then some of before, which is worth nothing where evidence ages."""
    evidence = [*history(case, 30), case.evidence(5e9, 5e9 + 10.0, 1), *history(case, 30)]
    assert 0 <= told(case, evidence) < np.inf
