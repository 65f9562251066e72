"""Completeness control: a feed is asked before so many items may have come that some slid off unseen."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import poisson

from proxyd.core.model.chronon import Budget, Epoch
from proxyd.core.model.item import Item
from proxyd.core.model.schedule import Reason
from proxyd.core.planning.policies.demands import most_items
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.context import StoredContext
from proxyd.lab.traces import MONDAY_S, model_trace
from tests.fleets import changed, decider, declaration, item, rule, source
from tests.rehearsal import Origins, Rehearsal, rehearse

SOURCES, WEEKS, WINDOW = 12, 6, 8
Run = tuple[Rehearsal, float]


def run(model: str, overflow: float) -> Run:
    """Return a rehearsal in which detection alone asks too seldom, and the share of its probes that lost items."""
    trace = model_trace(
        model, sources=SOURCES, weeks=WEEKS, rng=np.random.Generator(np.random.PCG64(2)), rate_per_week=60.0
    )
    times_s = dict(zip(trace.sources, trace.events_s, strict=True))
    found = decider(
        declaration(*(source(name, host=f"{name}.example") for name in times_s), rule("r")),
        now_s=MONDAY_S,
        chronon_s=300.0,
        budget=Budget(1.0),
        price_item_s=2e6,
        overflow=overflow,
        host_spacing_s=0.0,
    )
    grid = found.settings.grid
    half = grid.chronon_at(MONDAY_S + WEEKS / 2 * WEEK_S)
    rehearse(
        found, origins := Origins(times_s, window=WINDOW), Epoch(grid.chronon_at(MONDAY_S), half), plan_every_s=1e5
    )
    late = rehearse(found, origins, Epoch(half, half + grid.ceil(WEEKS / 2 * WEEK_S)), plan_every_s=1e5)
    lost = 0
    for times, probes in zip(times_s.values(), late.probes_s(list(times_s)), strict=True):
        lost += int((np.diff(np.searchsorted(times, probes)) > WINDOW).sum())
    return late, lost / len(late.probes)


@pytest.mark.parametrize("model", ["poisson", "bursts"])
@pytest.mark.long
def test_windows_overflow_no_more_often_than_is_allowed_by_far(model: str) -> None:
    careful, lost = run(model, 0.01)
    careless, lost_without = run(model, 0.999)
    assert lost <= 0.03 < lost_without
    assert len(careful.probes) > len(careless.probes)
    assert {planned.probe.reason for planned in careful.probes} >= {Reason.OVERFLOW}


@pytest.mark.parametrize("window", [1, 5, 20, 100])
@pytest.mark.parametrize("probability", [0.001, 0.01, 0.2])
def test_so_many_items_overflow_with_exactly_the_probability(window: int, probability: float) -> None:
    assert poisson.sf(window, most_items(window, probability)) == pytest.approx(probability)


def test_a_feed_that_shows_all_its_items_is_not_asked_earlier() -> None:
    found = decider(declaration(source("s"), rule("r")), now_s=MONDAY_S, price_item_s=1e8)
    grid = found.settings.grid
    now = grid.chronon_at(MONDAY_S)
    times_s = MONDAY_S + 600.0 * np.arange(200.0)
    made = rehearse(found, Origins({"s": times_s}, window=1000), Epoch(now, now + grid.ceil(86400.0)))
    assert not found.known.states["s"].slides
    assert all(planned.probe.reason is not Reason.OVERFLOW for planned in made.probes)


def test_an_empty_feed_and_one_that_was_cleared_have_no_known_window() -> None:
    found = decider(declaration(source("s"), rule("r")), now_s=MONDAY_S)
    newest = [item(str(n), MONDAY_S + 60.0 * n) for n in range(40)]
    see(found, newest[19::-1], MONDAY_S + 1200.0)
    see(found, newest[29:9:-1], MONDAY_S + 1800.0)
    assert found.planner.sources["s"].window == 20
    see(found, [], MONDAY_S + 2400.0)
    assert found.planner.sources["s"].window is None
    see(found, newest[35:30:-1], MONDAY_S + 3000.0)
    assert found.planner.sources["s"].window in {None, 5}


def test_a_rule_with_a_number_of_its_own_is_not_asked_earlier() -> None:
    rules = rule("r", clauses="SET POLICY DOE(4 PROBES PER 1 WEEK)")
    found = decider(declaration(source("s"), rules), now_s=MONDAY_S, chronon_s=60.0)
    grid = found.settings.grid
    now = grid.chronon_at(MONDAY_S)
    times_s = MONDAY_S + 600.0 * np.arange(1500.0)
    made = rehearse(found, Origins({"s": times_s}), Epoch(now, now + grid.ceil(WEEK_S)))
    assert found.known.states["s"].slides
    assert {planned.probe.reason for planned in made.probes} == {Reason.FIRST_CONTACT, Reason.DOE}


def see(found: Decider, items: list[Item], at_s: float) -> None:
    known = StoredContext({each.item_id: each for each in items if (each.published_s or 0.0) < at_s - 700.0})
    outcome = changed("s", items, at_s)
    found.outcomes.finish(outcome, found.observe(outcome, known))
