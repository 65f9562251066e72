"""Sixty sources and lives of three seconds on virtual time: the share in time at equal requests, also over restarts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from proxyd.core.model.chronon import Budget, ChrononGrid
from proxyd.core.model.schedule import Times
from proxyd.core.planning.chunks import run_all
from proxyd.core.planning.queue.planner_settings import PlannerSettings
from proxyd.core.rates.week_bins import Cycle
from proxyd.core.rules.decider import Decider
from proxyd.core.rules.known.estimates import until_next_plan_s
from proxyd.core.rules.known.knowledge import DeciderSettings
from tests import lives
from tests.fleets import declaration, rule, source
from tests.rehearsal import Origins
from tests.stored import Stored

START_S, LEARNING_S, MEASURED_S, PLAN_EVERY_S = 1_000_000_020.0, 180.0, 60.0, 40.0
FROM_S, UNTIL_S = START_S + LEARNING_S, START_S + LEARNING_S + MEASURED_S
END_S = UNTIL_S + lives.LIFE_S
GRID = ChrononGrid(lives.CHRONON_S)
UP_S, DOWN_S = 9.0, 1.2


@dataclass(frozen=True)
class Run:
    """When each source was requested, and the times in which the daemon was down."""

    requests_s: Sequence[Times]
    down_s: Sequence[tuple[float, float]] = ()

    def share(self, items_s: Sequence[Times], down_s: Sequence[tuple[float, float]] = ()) -> float:
        """Return the share in time, without what was out by the times in which a daemon was down."""
        return float(np.mean(lives.seen_in_time(items_s, self.requests_s, FROM_S, UNTIL_S, down_s)))

    @property
    def count(self) -> int:
        """The requests of the measured time."""
        return sum(int(((times >= FROM_S) & (times < UNTIL_S)).sum()) for times in self.requests_s)


def started(policy: str, stored: Stored, now_s: float) -> Decider:
    """Return a decider that has just started."""
    planner = PlannerSettings(GRID, Budget(lives.BUDGET_PER_S), spend=True, price_item_s=1e-9, host_spacing_s=0.0)
    settings = DeciderSettings(planner, source_spacing_s=lives.CHRONON_S, cycle=Cycle(lives.CYCLE_S))
    found = Decider(settings, np.random.default_rng(1))
    stored.restore(found, now_s)
    sources = [source(f"s{n}", host=f"h{n}.example", options="EXPECT 5 PER MINUTE") for n in range(lives.SOURCES)]
    clauses = f"SET LIFE WINDOW(3 SECONDS) SET POLICY {policy}"
    found.declare(declaration(*sources, rule("r", clauses=clauses)), {"r": START_S}, now_s)
    return found


def run(items_s: Sequence[Times], policy: str, *, is_killed: bool = False) -> Run:
    """Return the requests of a daemon, which may be killed again and again once it has learned."""
    names = [f"s{n}" for n in range(lives.SOURCES)]
    origins, stored = Origins(dict(zip(names, items_s, strict=True)), window=50), Stored()
    found, requests = started(policy, stored, START_S), {name: list[float]() for name in names}
    plan_s, kill_s, down_s = START_S + PLAN_EVERY_S / 8, FROM_S, list[tuple[float, float]]()
    for now in range(GRID.chronon_at(START_S), GRID.chronon_at(END_S)):
        now_s = GRID.start_s(now)
        if is_killed and now_s >= kill_s:
            down_s.append((now_s, now_s + DOWN_S))
            kill_s += UP_S + DOWN_S
            found = started(policy, stored, now_s + DOWN_S)
        if down_s and now_s < down_s[-1][1]:
            continue
        if now_s >= plan_s and (state := found.fleet(now_s).state()) is not None:
            run_all(found.switch_plan(stored.planned(state), now_s))
            plan_s = now_s + until_next_plan_s(now_s - START_S, PLAN_EVERY_S)
        for planned in found.choose(now).probes:
            name, at_s = planned.probe.source_id, planned.start_s
            requests[name].append(at_s)
            found.planner.start(planned, at_s)
            observation = found.observe(*origins.answer(name, at_s), probe=planned.probe)
            assert observation is not None
            stored.record(observation)
            found.outcomes.finish(observation.outcome, observation)
    return Run([np.array(requests[name]) for name in names], down_s)


def items(make: Callable[[float, float], list[Times]]) -> list[Times]:
    return make(START_S, END_S - START_S)


@pytest.fixture(scope="module")
def planned() -> Run:
    """The requests of AUTO for sources of different rates and cycles."""
    return run(items(lives.mixed_items), lives.POLICIES["auto"])


@pytest.mark.parametrize(("policy", "times"), [("even", 1.5), ("fbsup", 1.3)])  # measured: 1.87 and 1.41
@pytest.mark.long
def test_the_plan_sees_far_more_in_time_than_even_spacing_and_fbsup(planned: Run, policy: str, times: float) -> None:
    found, other = items(lives.mixed_items), run(items(lives.mixed_items), lives.POLICIES[policy])
    assert planned.count <= 1.02 * other.count
    assert planned.share(found) >= times * other.share(found)


@pytest.mark.long
def test_for_flat_sources_of_one_rate_the_plan_is_nearly_as_good_as_even_spacing() -> None:
    found = items(lives.equal_items)
    shares = [run(found, lives.POLICIES[policy]).share(found) for policy in ("auto", "even")]
    assert shares[0] >= shares[1] - 0.05


@pytest.mark.long
def test_kills_all_the_time_cost_only_what_lived_while_the_daemon_was_down(planned: Run) -> None:
    found = items(lives.mixed_items)
    killed = run(found, lives.POLICIES["auto"], is_killed=True)
    assert len(killed.down_s) == 7
    assert killed.share(found, killed.down_s) >= planned.share(found, killed.down_s) - 0.05
