"""Advice that several planners give together, against the advice of one planner for all sources."""

from __future__ import annotations

from math import sqrt

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxyd.core.model.chronon import Budget
from proxyd.core.planning.chunks import run_all
from proxyd.core.rules.answers.advice import Advice, IntervalOutlook, advice_of_all, advise
from proxyd.core.rules.answers.explanation import Explainer
from tests.fleets import Drive, changed, decider, declaration, item, rule, source

T0 = 1_700_000_000.0
RATES = [1 + n % 7 * 3 for n in range(36)]  # items an hour
WITHIN = "SET LIFE WINDOW(30 MINUTES) SET TARGET 90 %"


async def advice_of_others(numbers: list[int], budget_per_s: float) -> Advice:
    """Return the advice of a planner that has some sources, each of which it has seen once."""
    sources = (source(f"s{n}", host=f"h{n}.example", options=f"EXPECT {RATES[n]} PER HOUR") for n in numbers)
    declared = declaration(*sources, rule("r"), rule("within", clauses=WITHIN))
    found = decider(
        declared, now_s=T0, chronon_s=60.0, budget=Budget(budget_per_s), price_item_s=None, host_spacing_s=0.0
    )
    drive = Drive(found)
    for name in list(found.planner.sources):
        await drive.see(changed(name, [item("0", T0)], T0 + 600.0))
    week = found.fleet(T0 + 3600.0).plan()
    assert week is not None
    run_all(found.switch_plan(week, T0 + 3600.0))
    ahead = run_all(Explainer.of(found).ahead(found.settings.grid.chronon_at(T0 + 3600.0)))
    return advise(found.settings.planner, found.planner.week, ahead.forecast())


@pytest.mark.parametrize(
    "budget_per_s",
    [1.0, pytest.param(0.01, marks=pytest.mark.long)],
    ids=["a budget that is left", "a budget that is short"],
)
async def test_it_is_about_that_of_one_planner(budget_per_s: float) -> None:
    shares = [sqrt(rate) for rate in RATES]
    parts = []
    for numbers in (range(20), range(20, 29), range(29, 36)):
        part = sum(shares[n] for n in numbers) / sum(shares)
        parts.append(await advice_of_others([*numbers], budget_per_s * part))
    together, alone = advice_of_all(parts), await advice_of_others([*range(36)], budget_per_s)
    assert together.budget_per_s == pytest.approx(alone.budget_per_s)
    assert together.items_per_s == pytest.approx(alone.items_per_s, rel=1e-6)
    assert together.planned_per_s == pytest.approx(alone.planned_per_s, rel=0.05)
    assert together.two_points_per_s == pytest.approx(alone.two_points_per_s, rel=0.15)
    assert len(together.trade) == len(alone.trade) > 3
    for ours, its in zip(together.trade, alone.trade, strict=True):
        assert ours.probes_per_s == pytest.approx(its.probes_per_s, rel=0.05)
        assert ours.delay_s == pytest.approx(its.delay_s, rel=0.06)
        assert ours.captured == pytest.approx(its.captured, abs=0.03)
    assert set(together.targets) == set(alone.targets) == {"r", "within"}
    for name, outlook in alone.targets.items():
        assert together.targets[name].expected == pytest.approx(outlook.expected, abs=0.03)
        assert together.targets[name].items == pytest.approx(outlook.items, rel=1e-6)
        assert together.targets[name].limit == outlook.limit
    assert len(together.shares) == len(alone.shares) > 0
    for its_share, share in zip(together.shares, alone.shares, strict=True):
        assert its_share.share == share.share
        assert its_share.probes_per_s == pytest.approx(share.probes_per_s, rel=0.05)


def of_front(front: dict[int, float]) -> Advice:
    points = tuple((captured, total / captured) for captured, total in sorted(front.items()))
    rules = (IntervalOutlook("r", 9, {"budget": 1}),)
    return Advice(1.0, None, (), 60.0, rules, points, 2.0)


FRONTS = st.dictionaries(st.integers(1, 8), st.integers(0, 40).map(float), max_size=5)


@given(fronts=st.lists(FRONTS, min_size=1, max_size=4))
@example(fronts=[{1: 0.0}, {1: 29.0, 7: 29.0}])  # seven sevenths of 29 are a little more than 29
@settings(max_examples=200)
def test_a_front_has_the_best_of_every_choice_of_points(fronts: list[dict[int, float]]) -> None:
    """Slow reference: every planner captures nothing or one of its points; what another choice beats is left out."""
    choices = {0: 0.0}
    for front in fronts:
        both: dict[int, float] = {}
        for captured, total in choices.items():
            for more, its in [(0, 0.0), *front.items()]:
                both[captured + more] = min(total + its, both.get(captured + more, total + its))
        choices = both
    best = {k: d for k, d in choices.items() if k and all(d < choices[more] for more in choices if more > k)}
    found = advice_of_all([of_front(front) for front in fronts]).front
    if sum(map(bool, fronts)) > 1:
        assert {captured: pytest.approx(mean_s * captured) for captured, mean_s in found} == best
    else:
        assert len(found) == max(map(len, fronts))


def test_numbers_of_intervals_add_up_and_a_budget_must_do_for_all() -> None:
    nothing = Advice(1.0, None, (), 60.0, (), (), None)
    found = advice_of_all([of_front({1: 0.0}), nothing, of_front({2: 4.0})])
    assert found.rules == (IntervalOutlook("r", 18, {"budget": 2}),)
    assert (found.needed_per_s, found.planned_per_s, found.front) == (4.0, None, ((1, 0.0), (3, 4 / 3)))
    hopeless = Advice(1.0, None, (), 60.0, (IntervalOutlook("s", 1, {"budget": 1}),), (), None)
    assert advice_of_all([of_front({1: 0.0}), hopeless]).needed_per_s is None
