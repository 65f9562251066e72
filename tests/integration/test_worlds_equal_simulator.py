"""In each world of the benchmark the daemon's loops make the probes that the simulator says, one by one, for AUTO."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from worlds import SLOT_S, WORLDS, Span

from proxyd.core.model.chronon import Budget
from proxyd.core.rates.week_bins import WEEK_S, Cycle
from proxyd.core.rules.decider import Decider
from proxyd.lab.traces import MONDAY_S
from tests.fleets import decider, declaration, rule, source
from tests.property.test_schedule_budget_laws import CHRONON_S, START_S, Fleet, made_by_both

SOURCES, WEEKS = 6, 1
SPEED = SLOT_S / CHRONON_S  # a slot of the world is a chronon of the daemon
CYCLE_S = WEEK_S / SPEED
CHRONONS = round(WEEKS * CYCLE_S / CHRONON_S)
SHORT = {"rates change 100 times"}


@dataclass(frozen=True)
class WorldFleet(Fleet):
    """A world's sources, and one rule without targets, at the speed of the tests."""

    world: str = "Poisson"
    events: dict[str, list[float]] = field(default_factory=dict)

    def decider(self) -> Decider:
        sources = [source(name, host=f"{name}.example") for name in self.events]
        return decider(
            declaration(*sources, rule("r")),
            now_s=START_S,
            chronon_s=CHRONON_S,
            budget=Budget(self.budget_per_s),
            settings={"source_spacing_s": CHRONON_S, "epoch_s": CYCLE_S, "cycle": Cycle(CYCLE_S)},
            host_spacing_s=0.0,
            spend=True,
        )

    def times_s(self) -> dict[str, list[float]]:
        return self.events


def fleet_of(name: str) -> WorldFleet:
    begin_s = MONDAY_S
    span = Span(SOURCES, begin_s, begin_s + WEEK_S, begin_s + WEEKS * WEEK_S)
    world = WORLDS[name](span, np.random.Generator(np.random.PCG64([1, *name.encode()])))
    events = {f"s{n}": list(START_S + (its - begin_s) / SPEED) for n, its in enumerate(world.events_s)}
    nothing = ((), (), (), (), 28 * SOURCES / CYCLE_S, 0.0, None, True, None, CYCLE_S / 14, 1)
    return WorldFleet(*nothing, world=name, events=events)


@pytest.mark.parametrize("name", [pytest.param(e, marks=() if e in SHORT else pytest.mark.long) for e in WORLDS])
async def test_the_daemon_makes_the_probes_of_the_simulator(name: str) -> None:
    made, simulated = await made_by_both(fleet_of(name), CHRONONS)
    assert len(made) > 20 * SOURCES * WEEKS
    assert made == simulated
