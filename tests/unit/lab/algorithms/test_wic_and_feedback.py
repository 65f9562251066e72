"""WIC and fbSUP on cases worked by hand, and the varying-rate demand against the daemon's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.planning.policies.rule_demand import Findings, FiringPattern, PlannedInterval
from proxyd.core.planning.policies.sup import IntervalDemand
from proxyd.lab.algorithms.feedback_sup import Ahead, ModelDemand, known_updates
from proxyd.lab.algorithms.step_policies import AdaptivePolicy, Wic

GRID = ChrononGrid(1.0)


def test_wic_probes_where_an_update_is_likeliest_since_the_last_probe() -> None:
    # page 1: 0.4, then 1 - 0.6^2 = 0.64 > 0.5, then 0.4 again
    policy = Wic(np.tile([[0.5], [0.4]], 4), 1, epoch=Epoch(10, 14), life=None)
    assert [policy.choose(chronon).tolist() for chronon in range(10, 14)] == [[0], [1], [0], [1]]


def test_wic_under_a_window_forgets_what_is_too_old() -> None:
    # the update of page 0 lives for one more chronon, page 1 gathers 0.3 a chronon
    chances = [[0.9, 0.0, 0.0, 0.0], [0.0, 0.3, 0.3, 0.3]]
    seldom = Wic(chances, 1, epoch=Epoch(0, 4), life=1)
    assert [seldom.choose(chronon).tolist() for chronon in (1, 3)] == [[0], [1]]
    late = Wic(chances, 1, epoch=Epoch(0, 4), life=1)
    assert late.choose(2).tolist() == [1]


def test_wic_spends_all_its_probes() -> None:
    policy = Wic([[0.5, 0.0], [0.2, 0.0], [0.1, 0.0]], 2, epoch=Epoch(0, 2), life=None)
    assert policy.choose(0).tolist() == [0, 1]
    assert policy.choose(1).tolist() == [2, 0]


def test_wic_probes_a_page_that_is_certain_to_have_changed() -> None:
    policy = Wic([[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]], 1, epoch=Epoch(0, 3), life=None)
    assert [policy.choose(chronon).tolist() for chronon in range(3)] == [[0], [1], [0]]


@pytest.mark.parametrize(
    ("chances", "probes", "life"),
    [([0.5], 1, None), ([[1.5]], 1, None), ([[0.5]], -1, None), ([[0.5]], 1, -1), ([[0.5, 0.5]], 1, None)],
)
def test_wic_refuses_what_does_not_fit(chances: list[list[float]], probes: int, life: int | None) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has its own message
        Wic(chances, probes, epoch=Epoch(0, 1), life=life)


def test_wic_has_no_answer_outside_its_epoch() -> None:
    with pytest.raises(ValueError, match="outside"):
        Wic([[0.5]], 1, epoch=Epoch(0, 1), life=None).choose(1)


def issued(demand: ModelDemand | IntervalDemand, every: int, updates: list[int], chronons: int = 41) -> list[int]:
    """Return the chronons in which a page is probed against known updates."""
    probes: list[int] = []
    now = before = 0
    while (due := demand.pending(now)) is not None and (at := due.deadline) < chronons:
        demand.note_probe(at)
        count, now = int(np.searchsorted(updates, at, side="right")), at + 1
        end_s, fired = at + 0.999, before // every < count // every
        if isinstance(demand, IntervalDemand):
            demand.observe_probe(end_s, rate_per_s=demand.rate_per_s, count=count, fired=fired)
        else:
            demand.observe_probe(end_s, count=count, fired=fired)
        probes.append(at)
        before = count
    return probes


def modelled(every: int, updates: list[int], *, feedback: bool) -> ModelDemand:
    ahead = known_updates(np.array(updates), life=None, last=40, grid=GRID)
    return ModelDemand(FiringPattern(every), ahead, feedback, GRID)


@pytest.mark.parametrize(
    ("feedback", "updates", "probes"),
    [
        pytest.param(False, [1, 4, 9, 12, 20], [8, 19], id="SUP probes at the end of each planned interval"),
        # in the model the updates at 4 and 12 fire, but the second one really comes at 10: the probe at 8 finds one
        # item. The model's next update is at 9, its interval is 9 to 11; no probe is planned there, so one is added
        pytest.param(True, [1, 10, 11, 12], [8, 11, 19], id="feedback adds a probe for items still to come"),
        # nothing came by 8: the model's next two updates are at 9 and 12, and 12 to 19 is planned for
        pytest.param(True, [], [8, 19], id="feedback adds nothing if a planned probe already falls inside"),
        pytest.param(True, [1, 4], [8, 19], id="a rule that fired gets no feedback"),
    ],
)
def test_a_demand_is_planned_and_repaired(feedback: bool, updates: list[int], probes: list[int]) -> None:
    demand = modelled(2, [1, 4, 9, 12, 20], feedback=feedback)
    assert issued(demand, 2, updates, chronons=20) == probes


def reached_s(intensity: PiecewiseConstant, items: float) -> float:
    """Return when the expected number of items first reaches ``items``, above 0 and at most its total."""
    sums = np.concatenate([[0.0], np.cumsum(intensity.values * np.diff(intensity.breaks))])
    cell = int(np.searchsorted(sums, min(items, sums[-1]), side="left")) - 1
    return float(intensity.breaks[cell] + (items - sums[cell]) / intensity.values[cell])


def known_intensity(intensity: PiecewiseConstant, *, life_s: float | None, grid: ChrononGrid) -> Ahead:
    """Return the model of items with a varying rate: the paper's piecewise Poisson process.

    The interval of the m-th next item starts when m more items are expected. Under *overwrite* (``life_s`` is
    ``None``) it ends one chronon before the next expected item, or with ``intensity`` if that is earlier.
    """
    total = float(intensity.integral(intensity.stop))

    def ahead(items: int, from_s: float) -> PlannedInterval | None:
        wanted = float(intensity.integral(from_s)) + items
        if wanted > total * (1 + 1e-12):
            return None
        start = grid.chronon_at(reached_s(intensity, wanted))
        if life_s is not None:
            return PlannedInterval(start, start + grid.ceil(life_s))
        is_known = wanted + 1 <= total
        following = reached_s(intensity, wanted + 1) if is_known else intensity.stop
        return PlannedInterval(start, max(start, grid.chronon_at(following) - 1))

    return ahead


@given(
    st.floats(0.02, 0.5),
    st.integers(1, 4),
    st.booleans(),
    st.lists(st.integers(0, 199), max_size=40).map(sorted),
)
def test_at_a_constant_rate_the_varying_demand_is_the_daemons(
    rate: float, every: int, feedback: bool, updates: list[int]
) -> None:
    daemons = IntervalDemand("r", FiringPattern(every), None, feedback=feedback, grid=GRID)
    daemons.anchor(0.0, rate_per_s=rate, count=0)
    ahead = known_intensity(PiecewiseConstant.constant(rate, 4000.0), life_s=None, grid=GRID)
    own = ModelDemand(FiringPattern(every), ahead, feedback, GRID)
    assert issued(daemons, every, updates, 200) == issued(own, every, updates, 200)


def test_wic_counts_the_chronons_between_its_last_choice_and_the_next_epoch() -> None:
    page = Wic([[0.5] * 4, [0.9, 0.0, 0.0, 0.0]], 1, epoch=Epoch(0, 4), life=None)
    assert page.choose(0).tolist() == [1]
    page.renew([[0.0], [0.9]], Epoch(4, 5))
    assert page.choose(4).tolist() == [0]  # 1 - 0.5 ** 4 = 0.9375 against 0.9


def test_adaptive_may_have_no_probe_in_a_step() -> None:
    policy = AdaptivePolicy(3, np.random.default_rng(1))
    assert policy.choose(0, 0).tolist() == []


def test_a_demand_that_was_never_anchored_follows_the_first_rate() -> None:
    demand = IntervalDemand("r", FiringPattern(1), None, feedback=False, grid=ChrononGrid(1.0))
    demand.note_findings(Findings(0.0, rate_per_s=0.1, events=0, fired=False))
    assert demand.pending(0) == PlannedInterval(10, 19)
