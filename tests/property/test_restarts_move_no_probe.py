"""Restarts, however many and whenever, move no probe: what the planner knows is stored with each observation."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.planning.chunks import run_all
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rates.week_bins import Cycle
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.knowledge import DeciderSettings
from tests.examples import examples
from tests.fleets import declaration, rule, source
from tests.policies import SET_POLICY
from tests.rehearsal import Origins
from tests.stored import Stored

START_S, CHRONON_S, CHRONONS = 1_000_000_000.0, 10.0, 120
LATE_S = 0.3  # a request is sent somewhat later than its probe was begun
GRID = ChrononGrid(CHRONON_S)
FIRST = GRID.chronon_at(START_S)
RATES_PER_S = (1 / 40.0, 1 / 150.0, 1 / 400.0, 1 / 2000.0)
POLICIES = {
    **{name.value: f"{clauses} SET LIFE WINDOW(3)" for name, clauses in SET_POLICY.items()},
    "AUTO without a life": "",
    "AUTO and overwritten": "SET LIFE OVERWRITE",
    "AUTO for a target": "SET LIFE WINDOW(3) SET TARGET 80 %",
    "AUTO for the default target": "",
    "SUP and overwritten": "SET POLICY SUP",
    "UNIFORM, rarely": "SET POLICY UNIFORM(70)",
    "DOE, rarely": "SET POLICY DOE(3 PROBES PER 10 MINUTES, SPACING 20 SECONDS)",
}


ALIKE = {
    "INDEX",
    "GOLDEN",
    "MEMORYLESS",
    "ADAPTIVE",
    "FBSUP",
    "AUTO for a target",
    "AUTO for the default target",
    "DOE, rarely",
    "AUTO and overwritten",
}  # to others, in part


@dataclass(frozen=True)
class Scene:
    """Sources with Poisson items, one rule, and when plans of the week are made."""

    policy: str
    seed: int
    plans: tuple[int, ...] = ()
    price_item_s: float = 60.0

    def started(self, stored: Stored, now_s: float) -> Decider:
        sources = [source(f"s{n}", host=f"h{n % 3}.example") for n in range(len(RATES_PER_S))]
        declared = declaration(*sources, rule("r", when="COUNT(*) % 2 = 0", clauses=POLICIES[self.policy]))
        price_item_s = None if "target" in self.policy else self.price_item_s
        planner = PlannerSettings(
            GRID, Budget(1.0), price_item_s=price_item_s, host_spacing_s=2.0, host_probes=8, host_window_s=90.0
        )
        settings = DeciderSettings(planner, epoch_s=700.0, source_spacing_s=10.0, cycle=Cycle(1200.0))
        found = Decider(settings, np.random.default_rng())
        stored.restore(found, now_s)
        found.declare(declared, {"r": START_S}, now_s)
        return found

    def probes(self, restarts: Collection[int] = ()) -> list[tuple[int, str, str]]:
        """Return the probes, each with its reason, if the daemon restarts before each of these chronons."""
        rng = np.random.default_rng(self.seed)
        length_s = CHRONONS * CHRONON_S
        times_s = {
            f"s{n}": np.sort(START_S + rng.uniform(-length_s, length_s, int(rng.poisson(2 * length_s * per_s))))
            for n, per_s in enumerate(RATES_PER_S)
        }
        origins, stored, made = Origins(times_s, window=1000), Stored(), list[tuple[int, str, str]]()
        found = self.started(stored, START_S)
        for now in range(FIRST, FIRST + CHRONONS):
            if now - FIRST in restarts:
                found = self.started(stored, GRID.start_s(now))
            if now - FIRST in self.plans and (state := found.fleet(GRID.start_s(now)).state()) is not None:
                run_all(found.switch_plan(stored.planned(state), GRID.start_s(now)))
            for planned in found.choose(now).probes:
                made.append((now - FIRST, planned.probe.source_id, planned.probe.reason.value))
                found.planner.start(planned, planned.start_s)
                outcome, known = origins.answer(planned.probe.source_id, planned.start_s + LATE_S)
                observation = found.observe(outcome, known, probe=planned.probe)
                assert observation is not None
                stored.record(observation)
                found.outcomes.finish(outcome, observation)
        return made


def _every_policy(*, short: set[str]) -> pytest.MarkDecorator:
    marked = [pytest.param(each, marks=[pytest.mark.long] * (each not in short)) for each in POLICIES]
    return pytest.mark.parametrize("policy", marked)


@_every_policy(short={*POLICIES} - ALIKE)
@given(
    seed=st.integers(0, 2**32),
    restarts=st.sets(st.integers(1, CHRONONS - 1), min_size=1, max_size=6),
    plans=st.lists(st.integers(20, 80), max_size=2, unique=True),
)
@examples(5)
def test_restarts_move_no_probe(policy: str, seed: int, restarts: set[int], plans: list[int]) -> None:
    scene = Scene(policy, seed, tuple(plans))
    assert scene.probes(restarts) == scene.probes()


@_every_policy(short={"AUTO", "SUP", "DOE"})
def test_a_daemon_that_restarts_all_the_time_probes_as_one_that_never_does(policy: str) -> None:
    scene = Scene(policy, seed=5, plans=(40,))
    assert scene.probes(range(1, CHRONONS, 5)) == scene.probes()


@pytest.mark.parametrize(
    ("policy", "seed", "restarts", "plan"),
    [pytest.param("INDEX", 55, [1, 18, 19], 56, marks=pytest.mark.long), ("DOE, rarely", 133296, [22], 73)],
)
def test_a_source_that_shows_nothing_is_observed_since_its_first_contact(
    policy: str, seed: int, restarts: list[int], plan: int
) -> None:
    scene = Scene(policy, seed, plans=(plan,))
    assert scene.probes(restarts) == scene.probes()


def test_a_plan_does_not_depend_on_which_sources_were_placed_first() -> None:
    scene = Scene("MEMORYLESS", seed=986562, plans=(26,))
    assert scene.probes([4]) == scene.probes()
