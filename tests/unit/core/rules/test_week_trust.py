"""How probes teach the trust in learned weeks: by the time without items, too, and less if sources change together."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.planning.allocation.fleet_state import FleetState
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.rates.rate_blend import ChangedBit, Evidence, ItemCount, ItemTimes
from proxyd.core.rates.week_bins import HOUR_S, MONDAY_S, WEEK_S, Cycle
from proxyd.core.rates.week_counts import WeekCounts, fleet_shapes
from proxyd.core.rates.week_shapes import WeekShapes, WeekTrust
from proxyd.core.rules.known.estimates import Estimates
from proxyd.core.rules.known.state import SourceState
from tests.fleets import declaration, rule, source

OFFICE = np.tile(np.repeat([0.5, 2.0, 0.5], [9, 8, 7]), 7)
SOURCE = declaration(source("s"), rule("r")).sources["s"]
SHARES = np.linspace(0.0, 1.0, len(WeekTrust().likelihoods))
NIGHT = MONDAY_S, MONDAY_S + 5 * HOUR_S


def learned(evidence: Evidence, *, dispersion: float = 1.0, together: float = 1.0) -> np.ndarray:
    """Return by how much a probe raises the likelihood of each share of the learned weeks."""
    weeks = WeekShapes(np.array([OFFICE / OFFICE.mean()]), np.zeros(1, dtype=np.int64), dispersion)
    state = FleetState(["s"], np.array([1e-4]), np.ones(1), np.array([MONDAY_S]), weeks, 1e-3, together=together)
    estimates = Estimates(1e-4, Cycle())
    before = SourceState("s", "https://h/s")
    estimates.keep(before)
    estimates.see(SOURCE, before, evidence, WeekPlan.of(state))
    told: np.ndarray = np.array(estimates.trust.likelihoods) - np.array(WeekTrust().likelihoods)
    return told


@pytest.mark.parametrize("together", [2.0, 10.0, 250.0])
@pytest.mark.parametrize("evidence", [ItemTimes(*NIGHT, (MONDAY_S + 60.0,)), ItemCount(*NIGHT, 0)])
def test_what_comes_in_batches_of_k_counts_one_kth(evidence: Evidence, together: float) -> None:
    alone = learned(evidence, dispersion=3.0)
    assert learned(evidence, dispersion=3.0, together=together) == pytest.approx(alone / together, rel=0.01, abs=1e-3)


def test_sources_that_change_alone_are_weighed_by_their_own_dispersion() -> None:
    nothing = ItemCount(*NIGHT, 0)
    assert learned(nothing, dispersion=4.0) == pytest.approx(learned(nothing) / 4.0)


@pytest.mark.parametrize("nothing", [ItemCount(*NIGHT, 0), ChangedBit(*NIGHT, changed=False), ItemTimes(*NIGHT, ())])
def test_a_night_without_items_raises_the_trust_by_the_items_that_an_even_week_expects(nothing: Evidence) -> None:
    estimates = Estimates(1e-4, Cycle())
    rate_per_s = estimates.rate_per_s(SourceState("s", "https://h/s"), SOURCE, MONDAY_S)
    missing = (1.0 - 0.5 / OFFICE.mean()) * rate_per_s * 5 * HOUR_S
    assert learned(nothing) == pytest.approx(SHARES * missing)


def test_items_without_times_teach_no_trust() -> None:
    assert learned(ItemCount(*NIGHT, 2)) == pytest.approx(0.0)


def test_one_release_of_many_sources_is_no_week_of_its_own() -> None:
    rng = np.random.default_rng(5)

    def counts(times_s: list[float]) -> WeekCounts:
        found = WeekCounts.begun(MONDAY_S)
        return found.seen(ItemTimes(MONDAY_S, MONDAY_S + 8 * WEEK_S, tuple(sorted(times_s))))

    releases = rng.uniform(MONDAY_S, MONDAY_S + 8 * WEEK_S, 4)
    weeks = [counts([*releases, *rng.uniform(MONDAY_S, MONDAY_S + 8 * WEEK_S, 4)]) for _ in range(100)]
    alone, batches = (fleet_shapes(weeks, MONDAY_S + 8 * WEEK_S, together=k).shapes for k in (1.0, 50.0))
    assert np.ptp(alone) > 5.0
    assert np.ptp(batches) < 1.0
