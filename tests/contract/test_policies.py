"""Every policy of the registry keeps the contract of a demand: it repeats itself, survives restarts and is copied."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np
import pytest

from proxyd.core.model.chronon import Chronon, ChrononGrid, Epoch
from proxyd.core.model.profile import PolicyName
from proxyd.core.planning.kernels.counted_events import ItemsLine
from proxyd.core.planning.policies.registry import POLICIES
from proxyd.core.planning.policies.rule_demand import Findings, FiringPattern, PlannedInterval, RuleDemand, RuleRequest
from tests.fleets import declaration, rule, source
from tests.policies import SET_POLICY

GRID = ChrononGrid(10.0)
NOW = 100_000
T0 = GRID.start_s(NOW)
RATE_PER_S = 1 / 70.0
EVERY = (1, 3)


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
        return self.due_without_plan_s()

    def mean_gap_s(self) -> float:
        return float(np.sqrt(2 * self.price_item_s / self.rate_per_s))

    def due_without_plan_s(self) -> float:
        return self.last_s + self.mean_gap_s()

    def items_line(self, passing: float) -> ItemsLine:
        return ItemsLine.even(self.rate_per_s * passing)

    def doe_s(self, probes: int, per_s: float) -> float | None:
        return None


def request(name: PolicyName, every: int = 1, life_s: float | None = None) -> RuleRequest:
    choice = declaration(source("s"), rule("r", clauses=SET_POLICY[name])).rules["r"].policy
    firing = FiringPattern(every)
    return RuleRequest("r", "s", choice, firing, GRID, T0, T0 - 600.0, RATE_PER_S, count=7, life_s=life_s)


class Asked(NamedTuple):
    """What a demand wants in a chronon, and whether it is probed then."""

    now: Chronon
    interval: PlannedInterval | None
    due_s: float
    is_probed: bool


def follow(demand: RuleDemand, chronons: Sequence[Chronon], seed: int = 1) -> Iterator[Asked]:
    """Yield what a demand wants in each chronon; it is probed at the end of its intervals and when it is due."""
    rng = np.random.default_rng(seed)
    seen, events = Seen(), 7
    for now in chronons:
        interval, due_s, at_s = demand.pending(now), demand.due_s(seen), GRID.start_s(now)
        is_probed = due_s <= at_s or (interval is not None and interval.deadline == now)
        yield Asked(now, interval, due_s, is_probed)
        if not is_probed:
            continue
        if demand.starts is not None:
            demand.starts.record(at_s)
        demand.expect_items(RATE_PER_S * (at_s - seen.last_s))
        demand.note_probe(now)
        new = int(rng.poisson(RATE_PER_S * (at_s - seen.last_s)))
        events, seen.last_s = events + new, at_s
        demand.note_findings(Findings(at_s, RATE_PER_S, events, fired=new > 0, counting_s=at_s - T0 + 600.0))


@pytest.fixture(params=POLICIES, ids=lambda name: name.value)
def name(request: pytest.FixtureRequest) -> PolicyName:
    found: PolicyName = request.param
    return found


@pytest.fixture(params=EVERY, ids=lambda every: f"every {every}")
def every(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def test_every_policy_of_the_language_is_in_the_registry() -> None:
    assert POLICIES.keys() == set(PolicyName) == SET_POLICY.keys()


def test_it_is_probed_again_and_again_and_not_all_the_time(name: PolicyName, every: int) -> None:
    demand = POLICIES[name](request(name, every))
    asked = list(follow(demand, range(NOW, NOW + 400)))
    assert demand.rule == "r"
    assert all(each.interval is not None or each.due_s < inf for each in asked)
    assert 5 <= sum(each.is_probed for each in asked) <= 300


def test_what_it_wants_is_still_to_come(name: PolicyName, every: int) -> None:
    begun, last_s = NOW, T0
    for now, interval, due_s, is_probed in follow(POLICIES[name](request(name, every)), range(NOW, NOW + 200)):
        assert due_s >= last_s
        if interval is not None:
            assert now <= interval.deadline
            assert interval.start <= interval.deadline
        if is_probed:
            assert interval is None or interval.start <= now
            begun, last_s = now, GRID.start_s(now)
    assert begun > NOW


def test_asking_changes_nothing(name: PolicyName, every: int) -> None:
    undisturbed = list(follow(POLICIES[name](request(name, every)), range(NOW, NOW + 100)))
    demand = POLICIES[name](request(name, every))
    disturbed: list[Asked] = []
    for each in follow(demand, range(NOW, NOW + 100)):
        disturbed.append(each)
        _ = demand.due_s(Seen(T0 - 50.0)), demand.upcoming(Epoch(each.now, each.now + 50))
        _ = demand.asks(GRID), demand.state(GRID)
    assert disturbed == undisturbed


def test_the_same_findings_give_the_same_probes(name: PolicyName, every: int) -> None:
    first, again = (list(follow(POLICIES[name](request(name, every)), range(NOW, NOW + 200))) for _ in range(2))
    assert first == again


def test_a_copy_goes_its_own_way_but_for_the_starts_of_probes(name: PolicyName, every: int) -> None:
    demand = POLICIES[name](request(name, every))
    other = copy(demand)
    if demand.starts is not None:
        assert other.starts is demand.starts
        other = deepcopy(demand)
    list(follow(other, range(NOW, NOW + 60), seed=2))
    expected = list(follow(POLICIES[name](request(name, every)), range(NOW, NOW + 60)))
    assert list(follow(demand, range(NOW, NOW + 60))) == expected


def test_a_demand_goes_on_from_its_record(name: PolicyName, every: int) -> None:
    """What is stored is JSON, and what was asked for is recognised after it."""
    before = POLICIES[name](request(name, every))
    list(follow(before, range(NOW, NOW + 30)))
    before.lay(GRID.start_s(NOW + 30), rate_per_s=RATE_PER_S / 3, count=9, is_first=True)
    list(follow(before, range(NOW + 30, NOW + 90)))
    later = POLICIES[name](replace(request(name, every), now_s=GRID.start_s(NOW + 90)))
    if (asks := before.asks(GRID)) is None:
        assert later.asks(GRID) is None
        return
    stored = json.loads(json.dumps([asks, before.state(GRID)]))
    assert json.loads(json.dumps(later.asks(GRID))) == stored[0]
    later.resume(stored[1], GRID)
    if before.starts is not None:
        later.resume_starts(before.starts.starts_s, since_s=0.0)
    assert later.state(GRID) == before.state(GRID)
    assert list(follow(later, range(NOW + 90, NOW + 180))) == list(follow(before, range(NOW + 90, NOW + 180)))


def test_no_two_policies_continue_each_other() -> None:
    asks = [POLICIES[name](request(name)).asks(GRID) for name in POLICIES]
    stateful = [each for each in asks if each is not None]
    assert len(set(stateful)) == len(stateful)


def test_what_it_asks_for_a_second_is_what_it_takes(name: PolicyName) -> None:
    """Probes that come whatever their price are charged to the budget before the plan of the week is made."""
    demand = POLICIES[name](request(name))
    probes = sum(each.is_probed for each in follow(demand, range(NOW, NOW + 2000)))
    asked = demand.demand_per_s(GRID.length_s) * 2000 * GRID.length_s
    assert (asked == 0) == demand.is_priced
    assert demand.is_priced or probes == pytest.approx(asked, rel=0.2)


def test_intervals_of_a_forecast_are_those_that_are_pending(name: PolicyName) -> None:
    demand = POLICIES[name](request(name, life_s=30.0))
    coming = list(demand.upcoming(Epoch(NOW, NOW + 100)))
    if demand.has_intervals:
        assert coming[0] == demand.pending(NOW)
    assert coming == sorted(coming, key=lambda interval: interval.start)
    assert bool(coming) is demand.has_intervals
