"""How probes teach the trust in learned weeks: by the time without items, too."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.planning.allocation.fleet_state import FleetState
from proxyd.core.planning.allocation.week_plan import WeekPlan
from proxyd.core.rates.evidence import ChangedBit, Evidence, ItemCount, ItemTimes
from proxyd.core.rates.week_bins import MONDAY_S, Cycle
from proxyd.core.rates.week_shapes import HOUR_S, WeekShapes, WeekTrust
from proxyd.core.rules.estimates import Estimates
from proxyd.core.rules.state import SourceState
from tests.fleets import declaration, rule, source

OFFICE = np.tile(np.repeat([0.5, 2.0, 0.5], [9, 8, 7]), 7)
SOURCE = declaration(source("s"), rule("r")).sources["s"]
SHARES = np.linspace(0.0, 1.0, len(WeekTrust().likelihoods))
NIGHT = MONDAY_S, MONDAY_S + 5 * HOUR_S


def learned(evidence: Evidence, *, dispersion: float = 1.0) -> np.ndarray:
    """Return by how much a probe raises the likelihood of each share of the learned weeks."""
    weeks = WeekShapes(np.array([OFFICE / OFFICE.mean()]), np.zeros(1, dtype=np.int64), dispersion)
    state = FleetState(["s"], np.array([1e-4]), np.ones(1), np.array([MONDAY_S]), weeks, 1e-3)
    estimates = Estimates(1e-4, Cycle())
    before = SourceState("s", "https://h/s")
    estimates.keep(before)
    estimates.see(SOURCE, before, evidence, WeekPlan.of(state))
    told: np.ndarray = np.array(estimates.trust.likelihoods) - np.array(WeekTrust().likelihoods)
    return told


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
