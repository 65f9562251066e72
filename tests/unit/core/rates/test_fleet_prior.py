"""The prior that fits a fleet: how many of its sources have which rate."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.model.arrays import Floats
from proxyd.core.rates.rate_blend import ANY_FLEET, NO_EVIDENCE, Blend, FleetPrior, ItemTimes, posterior_means

DAY_S = 86400.0
WEEK_S = 7 * DAY_S
COMPONENTS = ANY_FLEET.inverses.size


def test_each_source_counts_once_however_often_it_is_probed() -> None:
    rng = np.random.Generator(np.random.PCG64(1))
    often, seldom = rng.dirichlet(np.ones(COMPONENTS), 2)
    prior = FleetPrior()
    for hour in range(1, 60 * 7 * 24 + 1):
        prior.add([often], [3600.0], hour * 3600.0)
        if hour % 168 == 0:
            prior.add([seldom], [WEEK_S], hour * 3600.0)
    assert np.array(prior.values[:-1]) == pytest.approx(often + seldom, rel=0.02)


def test_what_was_learned_is_the_sum_over_probes_by_their_age() -> None:
    rng, prior = np.random.Generator(np.random.PCG64(2)), FleetPrior()
    until_s = np.sort(rng.uniform(0.0, 9 * WEEK_S, 50))
    gaps_s, weights = rng.uniform(0.0, WEEK_S, 50), rng.dirichlet(np.ones(COMPONENTS), 50)
    for posterior, gap_s, now_s in zip(weights, gaps_s, until_s, strict=True):
        prior.add([posterior], [gap_s], now_s)
    ages = until_s[-1] - until_s
    known = 2.0 ** (-ages / WEEK_S) - 2.0 ** (-(ages + gaps_s) / WEEK_S)
    assert np.array(prior.values[:-1]) == pytest.approx(known @ weights)


def blend_of(rates_per_day: Floats, days: int) -> tuple[Blend, list[float]]:
    """Return what was learned of sources that are probed daily, and the rate of each in items a day."""
    rng, blend = np.random.Generator(np.random.PCG64(3)), Blend()
    known = [NO_EVIDENCE] * rates_per_day.size
    for day in range(days):
        for source, per_day in enumerate(rates_per_day.tolist()):
            found = tuple(np.sort(rng.uniform(day * DAY_S, (day + 1) * DAY_S, rng.poisson(per_day))).tolist())
            before, evidence = known[source], ItemTimes(day * DAY_S, (day + 1) * DAY_S, found)
            blend.weigh(before, evidence)
            known[source] = blend.seen(before, evidence)
            blend.replace(before, known[source])
    return blend, [blend.rate_per_s(each, days * DAY_S) * DAY_S for each in known]


def test_where_most_sources_are_silent_those_without_items_are_believed_to_be_slow() -> None:
    rates = np.array([2.0] * 8 + [0.003] * 72)
    blend, estimates = blend_of(rates, 28)
    mean_per_s, items, waited_s = rates.mean() / DAY_S, [0.0, 56.0], [28 * DAY_S] * 2
    learned, usual = (
        posterior_means(items, waited_s, mean_per_s, prior)[0] for prior in (blend.prior.mixture, ANY_FLEET)
    )
    assert learned[0] < 0.9 * usual[0]
    assert learned[1] == pytest.approx(usual[1], rel=0.02)
    assert np.mean(estimates[:8]) == pytest.approx(2.0, rel=0.1)


def test_a_few_sources_leave_the_prior_about_as_it_is() -> None:
    blend, _ = blend_of(np.array([1.0, 1.0]), 28)
    learned, usual = (
        posterior_means(0.0, 28 * DAY_S, 1.0 / DAY_S, each)[0] for each in (blend.prior.mixture, ANY_FLEET)
    )
    assert learned == pytest.approx(usual, rel=0.15)


def test_what_was_learned_is_the_same_after_it_was_restored() -> None:
    blend, _ = blend_of(np.array([3.0, 0.1, 0.1]), 5)
    again = FleetPrior()
    again.restore(blend.prior.values)
    assert again.values == blend.prior.values
    assert (again.mixture.log_weights == blend.prior.mixture.log_weights).all()


def test_what_another_version_learned_is_left_out() -> None:
    prior = FleetPrior()
    for values in ((), (1.0, 2.0)):
        prior.restore(values)
    assert prior.mixture is ANY_FLEET
