"""Every policy of the registry keeps the contract of a demand: it repeats itself, survives restarts and is copied."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import pytest

from proxyd.core.model.chronon import Chronon, ChrononGrid, Epoch
from proxyd.core.model.profile import PolicyName
from proxyd.core.planning.counted_events import ItemsLine
from proxyd.core.planning.policies.expected_intervals import FiringPattern, PlannedInterval
from proxyd.core.planning.policies.registry import POLICIES
from proxyd.core.planning.policies.rule_demand import Found, RuleDemand, RuleRequest
from tests.fleets import declaration, rule, source
from tests.policies import SET_POLICY

GRID = ChrononGrid(10.0)
NOW = 100_000
T0 = GRID.start_s(NOW)
RATE_PER_S = 1 / 70.0
EVERY = (1, 3)
Wanted = tuple[PlannedInterval | None, float]


@dataclass
class Seen:
    """A source as a demand reads it: without a plan of the week, at a price of some items' waiting."""

    last_s: float = T0
    rate_per_s: float = RATE_PER_S
    source_id: str = "s"
    weight: float = 1.0
    price_item_s: float = 120.0
    is_rate_known: bool = True

    def detection_s(self) -> float:
        return self.unplanned_s()

    def unplanned_s(self) -> float:
        return self.last_s + float(np.sqrt(2 * self.price_item_s / self.rate_per_s))

    def items_line(self, passing: float) -> ItemsLine:
        return ItemsLine.even(self.rate_per_s * passing)

    def doe_s(self, probes: int, per_s: float) -> float | None:
        return None


def request(name: PolicyName, every: int = 1, life_s: float | None = None) -> RuleRequest:
    choice = declaration(source("s"), rule("r", clauses=SET_POLICY[name])).rules["r"].policy
    firing = FiringPattern(every)
    return RuleRequest("r", "s", choice, firing, GRID, T0, T0 - 600.0, RATE_PER_S, count=7, life_s=life_s)


def follow(demand: RuleDemand, chronons: Sequence[Chronon], seed: int = 1) -> Iterator[tuple[Chronon, Wanted]]:
    """Yield what a demand wants in each chronon; it is probed at the end of its intervals and when it is due."""
    rng = np.random.default_rng(seed)
    seen, events = Seen(), 7
    for now in chronons:
        interval, due_s = demand.pending(now), demand.due_s(seen)
        yield now, (interval, due_s)
        at_s = GRID.start_s(now)
        if due_s > at_s and not (interval and interval.deadline == now):
            continue
        if demand.starts is not None:
            demand.starts.record(at_s)
        demand.passed(RATE_PER_S * (at_s - seen.last_s))
        demand.probed(now)
        new = int(rng.poisson(RATE_PER_S * (at_s - seen.last_s)))
        events, seen.last_s = events + new, at_s
        demand.found(Found(at_s, RATE_PER_S, events, fired=new > 0, counting_s=at_s - T0 + 600.0))


@pytest.fixture(params=POLICIES, ids=lambda name: name.value)
def name(request: pytest.FixtureRequest) -> PolicyName:
    found: PolicyName = request.param
    return found


@pytest.fixture(params=EVERY, ids=lambda every: f"every {every}")
def every(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_every_policy_of_the_language_is_in_the_registry() -> None:
    assert POLICIES.keys() == set(PolicyName) == SET_POLICY.keys()


def test_it_asks_for_probes_again_and_again(name: PolicyName, every: int) -> None:
    demand = POLICIES[name](request(name, every))
    wanted = [now for now, (interval, due_s) in follow(demand, range(NOW, NOW + 400)) if interval or due_s < inf]
    assert demand.rule == "r"
    assert len(wanted) == 400


def test_what_it_wants_is_still_to_come_and_in_order(name: PolicyName, every: int) -> None:
    for now, (interval, due_s) in follow(POLICIES[name](request(name, every)), range(NOW, NOW + 200)):
        assert due_s >= T0
        if interval is not None:
            assert now <= interval.deadline
            assert interval.start <= interval.deadline


def test_asking_changes_nothing(name: PolicyName, every: int) -> None:
    demand = POLICIES[name](request(name, every))
    for now, wanted in follow(demand, range(NOW, NOW + 100)):
        assert (demand.pending(now), demand.due_s(Seen())) == (wanted[0], demand.due_s(Seen()))


def test_the_same_findings_give_the_same_probes(name: PolicyName, every: int) -> None:
    first, again = (list(follow(POLICIES[name](request(name, every)), range(NOW, NOW + 200))) for _ in range(2))
    assert first == again


def test_a_copy_goes_its_own_way(name: PolicyName, every: int) -> None:
    demand = POLICIES[name](request(name, every))
    expected = list(follow(POLICIES[name](request(name, every)), range(NOW, NOW + 60)))
    other = copy(demand) if demand.starts is None else deepcopy(demand)  # a copy shares the starts of probes
    list(follow(other, range(NOW, NOW + 60), seed=2))
    assert list(follow(demand, range(NOW, NOW + 60))) == expected


def test_a_demand_goes_on_from_its_record(name: PolicyName, every: int) -> None:
    """What is stored is JSON, and what was asked for is recognised after it."""
    before, whole = (POLICIES[name](request(name, every)) for _ in range(2))
    list(follow(before, range(NOW, NOW + 90)))
    later = POLICIES[name](replace(request(name, every), now_s=GRID.start_s(NOW + 90)))
    if (asks := before.asks(GRID)) is None:
        assert later.asks(GRID) is None
        return
    stored = json.loads(json.dumps([asks, before.state(GRID)]))
    assert json.loads(json.dumps(later.asks(GRID))) == stored[0] == json.loads(json.dumps(whole.asks(GRID)))
    later.resume(stored[1], GRID)
    if before.starts is not None:
        later.resume_starts(before.starts.starts_s, since_s=0.0)
    assert list(follow(later, range(NOW + 90, NOW + 180))) == list(follow(before, range(NOW + 90, NOW + 180)))


def test_no_two_policies_continue_each_other() -> None:
    asks = [POLICIES[name](request(name)).asks(GRID) for name in POLICIES]
    stateful = [each for each in asks if each is not None]
    assert len(set(stateful)) == len(stateful)


def test_what_it_asks_for_a_second_is_what_it_takes(name: PolicyName) -> None:
    """Probes that come whatever their price are charged to the budget before the plan of the week is made."""
    demand, probes = POLICIES[name](request(name)), 0
    for now, (interval, due_s) in follow(demand, range(NOW, NOW + 2000)):
        probes += due_s <= GRID.start_s(now) or (interval is not None and interval.deadline == now)
    asked = demand.asked_per_s(GRID.length_s) * 2000 * GRID.length_s
    assert (asked == 0) == demand.is_priced
    assert demand.is_priced or probes == pytest.approx(asked, rel=0.2)


def test_intervals_of_a_forecast_are_those_that_are_pending(name: PolicyName) -> None:
    demand = POLICIES[name](request(name, life_s=30.0))
    coming = list(demand.upcoming(Epoch(NOW, NOW + 100)))
    if demand.can_wait:
        assert coming[0] == demand.pending(NOW)
    assert coming == sorted(coming, key=lambda interval: interval.start)
    assert bool(coming) is demand.can_wait
