"""No schedule ever breaks a budget, whatever the fleet, the policies and the stalls; the daemon keeps to the plan."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.base.metrics import Metrics
from proxyd.base.ports import MaySend, always
from proxyd.core.model.chronon import Budget, Epoch
from proxyd.core.model.outcome import OutcomeKind, ProbeOutcome, ProbeRequest
from proxyd.core.model.profile import PolicyName
from proxyd.core.model.schedule import Constraint
from proxyd.core.planning.chunks import run_all as run_parts
from proxyd.core.planning.plan_preview import PlanForecast, preview
from proxyd.core.planning.planner import Choice
from proxyd.core.planning.queue.probe_slots import PlannedProbe
from proxyd.core.politeness.host_budgets import PolitenessBudget
from proxyd.core.rates.week_bins import Cycle
from proxyd.core.rules.decider import Decider
from proxyd.daemon import PlanLoop
from proxyd.probing.prober import LocalTransport
from tests.examples import examples
from tests.fakes import FakeClock, settle
from tests.fleets import (
    KeptPlan,
    PoissonOrigin,
    RecordingMemory,
    decider,
    declaration,
    probe_loop,
    rule,
    source,
    unchanged,
)
from tests.policies import LIVES, SET_POLICY
from tests.rehearsal import Origins, rehearse

R = TypeVar("R")
Fate: TypeAlias = "Callable[[float], OutcomeKind | None]"
START_S = 1_000_000_000.0
CHRONON_S = 10.0
CHRONONS = 40
HOST_WINDOW_S = 90.0
POLICIES = (
    *SET_POLICY.values(),
    *filter(None, LIVES.values()),
    "WITHIN 1 MINUTE FOR 95 %",
    "SET POLICY SUP SET LIFE WINDOW(5 MINUTES)",
    "SET POLICY UNIFORM(1 MINUTE)",
    "SET POLICY DOE(2 PROBES PER 200 SECONDS)",
)
NUMBERS = {
    "SET POLICY DOE(3 PROBES PER 2 MINUTES, SPACING 40 SECONDS)": PolitenessBudget(40.0, 3, 120.0),
    "SET POLICY DOE(2 PROBES PER 200 SECONDS)": PolitenessBudget(0.0, 2, 200.0),
    "SET POLICY DOE(1 PROBE PER 70 SECONDS)": PolitenessBudget(0.0, 1, 70.0),
}
OPTIONS = (
    "",
    "POLITENESS SPACING 40 SECONDS",
    "POLITENESS 3 PROBES PER 5 MINUTES, SPACING 20 SECONDS",
    "EXPECT 60 PER HOUR",
)


@dataclass(frozen=True)
class Fleet:
    hosts: tuple[int, ...]
    options: tuple[str, ...]
    policies: tuple[str, ...]
    every: tuple[int, ...]
    budget_per_s: float
    host_spacing_s: float
    host_probes: int | None
    spend: bool
    price_item_s: float | None
    plan_every_s: float | None
    seed: int

    def decider(self) -> Decider:
        sources = [
            source(f"s{n}", host=f"host{host}.example", options=option)
            for n, (host, option) in enumerate(zip(self.hosts, self.options, strict=True))
        ]
        rules = [
            rule(f"r{n}", when=f"COUNT(*) % {every} = 0", clauses=policy)
            for n, (policy, every) in enumerate(zip(self.policies, self.every, strict=True))
        ]
        return decider(
            declaration(*sources, *rules),
            now_s=START_S,
            chronon_s=CHRONON_S,
            budget=Budget(self.budget_per_s),
            settings={"source_spacing_s": 30.0, "epoch_s": 200.0, "cycle": Cycle(200.0)},
            host_spacing_s=self.host_spacing_s,
            host_probes=self.host_probes,
            host_window_s=HOST_WINDOW_S,
            spend=self.spend,
            price_item_s=self.price_item_s,
        )

    def times_s(self) -> dict[str, list[float]]:
        rng = np.random.default_rng(self.seed)
        return {
            f"s{n}": sorted(START_S + rng.uniform(-600, CHRONONS * CHRONON_S, size=int(rng.integers(0, 60))))
            for n in range(len(self.hosts))
        }


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    count = draw(st.integers(1, 6))
    rules = draw(st.integers(1, 3))
    return Fleet(
        hosts=tuple(draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))),
        options=tuple(draw(st.lists(st.sampled_from(OPTIONS), min_size=count, max_size=count))),
        policies=tuple(draw(st.lists(st.sampled_from(POLICIES), min_size=rules, max_size=rules))),
        every=tuple(draw(st.lists(st.integers(1, 3), min_size=rules, max_size=rules))),
        budget_per_s=draw(st.sampled_from([0.05, 0.2, 0.35, 1.0])),
        host_spacing_s=draw(st.sampled_from([0.0, 1.0, 7.0, 25.0])),
        host_probes=draw(st.sampled_from([None, 1, 3])),
        spend=draw(st.booleans()),
        price_item_s=draw(st.sampled_from([20.0, None])),
        plan_every_s=draw(st.sampled_from([None, None, None, 170.0])),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


def assert_within_budgets(fleet: Fleet, found: Decider, starts: list[tuple[float, str]]) -> None:
    grid = found.settings.grid
    for chronon, used in Counter(grid.chronon_at(at_s) for at_s, _ in starts).items():
        assert used <= found.planner.settings.capacity(chronon)
    for source_id, page in found.planner.sources.items():
        assert_source_within(page.log.budget, source_id, starts)
    hosts = {name: urlsplit(declared.url).hostname for name, declared in found.known.compiled.sources.items()}
    for host in set(hosts.values()):
        own = sorted(at_s for at_s, name in starts if hosts[name] == host)
        assert all(later - earlier >= fleet.host_spacing_s - 1e-6 for earlier, later in pairwise(own))
        if fleet.host_probes is not None:
            windows = zip(own, own[fleet.host_probes :], strict=False)
            assert all(later - earlier >= HOST_WINDOW_S - 1e-6 for earlier, later in windows)


def assert_source_within(budget: PolitenessBudget, source_id: str, starts: list[tuple[float, str]]) -> None:
    own = [at_s for at_s, name in starts if name == source_id]
    assert all(later - earlier >= budget.spacing_s - 1e-6 for earlier, later in pairwise(own))
    if budget.probes is not None:
        windows = zip(own, own[budget.probes :], strict=False)
        assert all(later - earlier >= budget.window_s - 1e-6 for earlier, later in windows)


class RecordingDecider:
    """Wraps ``choose`` of a decider and remembers what it planned."""

    def __init__(self, found: Decider) -> None:
        self.planned: list[PlannedProbe] = []
        choose = found.choose

        def remember(now: int, most: float = inf, *, from_s: float = -inf, in_parts: bool = False) -> Choice:
            choice = choose(now, most, from_s=from_s, in_parts=in_parts)
            self.planned += choice.probes
            return choice

        found.choose = remember  # type: ignore[method-assign]


class FailingOrigin(PoissonOrigin):
    """An origin that is silent, throttles and fails as ``fate`` decides."""

    def __init__(self, times_s: Mapping[str, Sequence[float]], time_s: Callable[[], float], fate: Fate) -> None:
        super().__init__(times_s, time_s)
        self._fate = fate

    async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
        outcome = await super().probe(request)
        kind = self._fate(outcome.finished_s)
        return outcome if kind is None else ProbeOutcome(request.source_id, kind, outcome.started_s, outcome.finished_s)


async def at_once(work: Callable[[], R], sources: int) -> R:
    """Make a plan in the event loop, so that the same always happens."""
    return work()


def healthy(time_s: float) -> None:
    """Answer."""


async def run_daemon(
    fleet: Fleet,
    stalls: Sequence[int] = (),
    fate: Fate = healthy,
    prober: Callable[[Callable[[], float]], Any] | None = None,
    chronons: int = CHRONONS,
    *,
    most_together_s: float = 0.0,
) -> tuple[Decider, RecordingDecider, Any, Metrics]:
    """Run the real probe loop under a fake clock; it stalls for whole chronons where told to.

    Each probe begins when it is planned, or waits so long for others to begin with.
    """
    clock, metrics = FakeClock(START_S), Metrics()
    found = fleet.decider()
    recorded = RecordingDecider(found)
    origin = FailingOrigin(fleet.times_s(), clock.time_s, fate) if prober is None else prober(clock.time_s)
    transport, memory = LocalTransport(origin), RecordingMemory()
    loop = probe_loop(found, transport, memory, clock, metrics, most_together_s=most_together_s)
    plan_loop = PlanLoop(found, clock, metrics, KeptPlan(), every_s=fleet.plan_every_s or 1e9, compute=at_once)
    tasks = asyncio.gather(loop.run(), plan_loop.run())
    await settle()
    for chronon in range(chronons):
        if chronon in stalls:
            clock.jump(3.5 * CHRONON_S)
        else:
            await clock.advance(CHRONON_S)
    plan_loop.stop()
    await asyncio.gather(loop.drain(0.0), clock.advance(CHRONON_S))
    await tasks
    return found, recorded, origin, metrics


@given(fleet=fleets())
@examples(60)
async def test_the_daemon_issues_exactly_the_probes_that_were_planned(fleet: Fleet) -> None:
    found, recorded, origin, metrics = await run_daemon(fleet)
    end_s = START_S + CHRONONS * CHRONON_S
    planned = [(p.start_s, p.probe.source_id) for p in recorded.planned if p.start_s < end_s]
    assert [(round(at_s, 6), name) for at_s, name in origin.started if at_s < end_s] == [
        (round(a, 6), n) for a, n in planned
    ]
    assert_within_budgets(fleet, found, origin.started)
    assert metrics.registry.get_sample_value("proxyd_dropped_probes_total") == 0


async def test_a_probe_waits_for_another_one_for_a_fifth_of_a_second_at_most() -> None:
    fleet = Fleet(
        (0, 0, 1), ("POLITENESS SPACING 40 SECONDS", "", ""), ("",), (1,), 1.0, 7.0, None, False, 20.0, None, 0
    )
    _, recorded, origin, _ = await run_daemon(fleet, most_together_s=0.2)
    pairs = zip(recorded.planned, origin.started, strict=False)
    late_s = [round(at_s - each.start_s, 6) for each, (at_s, name) in pairs if each.probe.source_id == name]
    assert len(late_s) == len(origin.started)
    assert 0.0 < max(late_s) <= 0.2
    assert min(late_s) == 0.0


class OriginsProber:
    """The Prober port over the origins of a rehearsal."""

    def __init__(self, origins: Origins, time_s: Callable[[], float]) -> None:
        self._origins, self._time_s = origins, time_s
        self.started: list[tuple[float, str]] = []

    async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
        now_s = self._time_s()
        self.started.append((now_s, request.source_id))
        return self._origins.answer(request.source_id, now_s)[0]


async def made_by_both(
    fleet: Fleet, chronons: int = CHRONONS
) -> tuple[list[tuple[float, str]], list[tuple[float, str]]]:
    """Return the probes of the daemon under a fake clock, and those of the simulator."""
    times_s = {name: np.array(times) for name, times in fleet.times_s().items()}
    every_s, now = fleet.plan_every_s or inf, int(START_S / CHRONON_S)
    epoch = Epoch(now, now + chronons)
    rehearsed = rehearse(fleet.decider(), Origins(times_s), epoch, plan_every_s=every_s)
    _, _, prober, _ = await run_daemon(
        fleet, prober=lambda time_s: OriginsProber(Origins(times_s), time_s), chronons=chronons
    )
    end_s = START_S + chronons * CHRONON_S
    made = [(round(at_s, 5), name) for at_s, name in prober.started if at_s < end_s]
    return made, [(round(p.start_s, 5), p.probe.source_id) for p in rehearsed.probes]


@given(fleet=fleets())
@examples(30)
async def test_the_daemon_makes_exactly_the_probes_of_the_simulator(fleet: Fleet) -> None:
    made, simulated = await made_by_both(fleet)
    assert made == simulated


def is_short(policy: PolicyName, life: str) -> bool:
    """Whether `make test` tries a policy with a life: AUTO without one and for a target, GOLDEN with one."""
    return (
        life in {"no life", "target"} if policy is PolicyName.AUTO else (policy, life) == (PolicyName.GOLDEN, "window")
    )


@pytest.mark.parametrize(
    ("policy", "life"),
    [
        pytest.param(
            policy, life, id=f"{policy.value} {life}", marks=() if is_short(policy, life) else pytest.mark.long
        )
        for policy in SET_POLICY
        for life in LIVES
    ],
)
async def test_they_are_the_same_for_every_policy_and_life(policy: PolicyName, life: str) -> None:
    clauses = f"{LIVES[life]} {SET_POLICY[policy]}"
    fleet = Fleet(
        hosts=(0, 0, 1, 2, 2, 3),
        options=("", "", "EXPECT 60 PER HOUR", "", "POLITENESS SPACING 40 SECONDS", ""),
        policies=(clauses, clauses),
        every=(1, 3),
        budget_per_s=4.0,
        host_spacing_s=7.0,
        host_probes=None,
        spend=False,
        price_item_s=None if life == "target" else 200.0,
        plan_every_s=210.0,
        seed=7,
    )
    made, simulated = await made_by_both(fleet)
    assert made == simulated
    assert len(made) > 2 * len(fleet.hosts)


@given(fleet=fleets(), stalls=st.lists(st.integers(0, CHRONONS - 1), max_size=6))
@examples(60)
async def test_a_stalled_daemon_makes_nothing_up_and_breaks_no_budget(fleet: Fleet, stalls: list[int]) -> None:
    found, _, origin, _ = await run_daemon(fleet, stalls)
    assert_within_budgets(fleet, found, origin.started)


@given(fleet=fleets(), kinds=st.lists(st.sampled_from([None, *OutcomeKind]), min_size=3, max_size=9))
@examples(60)
async def test_no_failure_and_no_retry_breaks_a_budget(fleet: Fleet, kinds: list[OutcomeKind | None]) -> None:
    found, _, origin, _ = await run_daemon(fleet, fate=lambda at_s: kinds[int(at_s // 7) % len(kinds)])
    assert_within_budgets(fleet, found, origin.started)


@given(
    fleet=fleets(),
    policy=st.sampled_from(sorted(NUMBERS)),
    stalls=st.lists(st.integers(0, CHRONONS - 1), max_size=3),
    kinds=st.lists(st.sampled_from([None, *OutcomeKind]), min_size=1, max_size=9),
)
@examples(60)
async def test_where_doe_is_all_that_is_asked_its_number_is_never_exceeded(
    fleet: Fleet, policy: str, stalls: list[int], kinds: list[OutcomeKind | None]
) -> None:
    fleet = replace(fleet, policies=(policy,), every=(1,))
    found, _, origin, _ = await run_daemon(fleet, stalls, lambda at_s: kinds[int(at_s // 7) % len(kinds)])
    for source_id in found.planner.sources:
        assert_source_within(NUMBERS[policy], source_id, origin.started)


@given(fleet=fleets(), after=st.integers(1, CHRONONS - 1))
@examples(40)
def test_a_restart_breaks_no_budget(fleet: Fleet, after: int) -> None:
    """What is remembered over a restart is each source's last start: no source and no host is asked too soon."""
    first, starts = fleet.decider(), []
    now = first.settings.grid.chronon_at(START_S)
    for found, chronons in ((first, range(now, now + after)), (fleet.decider(), range(now + after, now + CHRONONS))):
        if found is not first:
            declared = first.known.compiled.declaration
            found.restore(first.known.states, {})
            found.declare(declared, dict.fromkeys(declared.rules, START_S), START_S)
        for chronon in chronons:
            for planned in found.choose(chronon).probes:
                starts.append((planned.start_s, planned.probe.source_id))
                found.planner.start(planned, planned.start_s)
                outcome = unchanged(planned.probe.source_id, planned.start_s)
                found.outcomes.finish(outcome, found.observe(outcome))
        last = found
    assert_within_budgets(fleet, last, starts)


@given(fleet=fleets())
@examples(30)
async def test_an_outage_blames_no_source_and_ends_without_a_burst(fleet: Fleet) -> None:
    """Nobody answers for 200 s: once that is plain nobody's failures count, and what comes then keeps the budgets."""
    found, _, origin, _ = await run_daemon(
        fleet, fate=lambda at_s: OutcomeKind.TIMEOUT if 100 <= at_s - START_S < 300 else None
    )
    assert_within_budgets(fleet, found, origin.started)
    if found.outcomes.connection.is_down:
        assert len(set(fleet.hosts)) >= 3


def test_while_nobody_answers_failures_do_not_count() -> None:
    hosts = ("a", "b", "c", "d")
    found = decider(declaration(*[source(host, host=f"{host}.example") for host in hosts], rule("r")), now_s=START_S)
    for round_s in (0.0, 1000.0, 2000.0):
        for n, host in enumerate(hosts):
            at_s = START_S + round_s + n
            outcome = ProbeOutcome(host, OutcomeKind.UNREACHABLE, at_s, at_s)
            found.outcomes.finish(outcome, found.observe(outcome))
    assert [found.known.states[host].failures for host in hosts] == [1, 1, 0, 0]
    assert all(found.known.states[host].not_before_s <= START_S + 2003.0 + 330.0 for host in hosts)


def test_the_probes_of_a_chronon_are_spread_over_it() -> None:
    names = [f"s{n}" for n in range(30)]
    sources = [source(name, host=f"{name}.example") for name in names]
    found = decider(declaration(*sources, rule("r")), now_s=START_S, budget=Budget(2.0))
    chosen = found.choose(found.settings.grid.chronon_at(START_S)).probes
    starts = [planned.start_s - START_S for planned in chosen]
    assert starts == pytest.approx([0.45 * n for n in range(20)])


@given(fleet=fleets())
@examples(60)
def test_the_preview_keeps_every_budget_and_gives_every_probe_a_reason(fleet: Fleet) -> None:
    found = fleet.decider()
    now = found.settings.grid.chronon_at(START_S)
    probes = preview(found.planner, Epoch(now, now + CHRONONS))
    assert_within_budgets(fleet, found, [(p.start_s, p.probe.source_id) for p in probes])
    assert all(p.probe.reason and p.probe.rule in found.known.compiled.declaration.rules for p in probes)


@given(fleet=fleets(), seen=st.booleans())
@examples(80)
def test_every_interval_of_a_rule_is_planned_for_or_a_constraint_stands_against_it(fleet: Fleet, seen: bool) -> None:
    found = fleet.decider()
    now = found.settings.grid.chronon_at(START_S)
    if seen:
        origins = Origins({name: np.array(times) for name, times in fleet.times_s().items()})
        rehearse(found, origins, Epoch(now, now + 10))
        now += 10
    coming = run_parts(PlanForecast.of(found.planner, Epoch(now, now + CHRONONS))).forecast()
    probed = {(planned.probe.source_id, planned.probe.chronon) for planned in coming.probes}
    unmet = {(each.interval.source_id, each.interval.rule, each.interval.start): each for each in coming.unmet}
    asked = 0
    for name, page in found.planner.sources.items():
        for demand in page.demands.rules:
            for interval in demand.upcoming(coming.epoch):
                asked += 1
                key = (name, demand.rule, interval.start)
                met = any((name, at) in probed for at in range(interval.start, interval.deadline + 1))
                assert met != (key in unmet)
                assert met or unmet[key].constraint in set(Constraint)
    assert asked == len(coming.intervals)


@given(fleet=fleets())
@examples(30)
def test_the_preview_changes_nothing_and_is_what_comes(fleet: Fleet) -> None:
    found = fleet.decider()
    now = found.settings.grid.chronon_at(START_S)
    first = preview(found.planner, Epoch(now, now + CHRONONS))
    assert preview(found.planner, Epoch(now, now + CHRONONS)) == first
    came = []
    for chronon in range(now, now + CHRONONS):
        chosen = found.planner.choose(chronon).probes
        came += chosen
        for planned in chosen:
            found.planner.finish(planned.probe.source_id, planned.start_s, seen=True)
    assert came == first


@given(fleet=fleets(), limit=st.integers(1, 3))
@examples(60)
def test_the_first_probes_of_the_preview_follow_from_the_pages_that_wake_first(fleet: Fleet, limit: int) -> None:
    found = fleet.decider()
    now = found.settings.grid.chronon_at(START_S)
    rehearse(found, Origins({name: np.array(times) for name, times in fleet.times_s().items()}), Epoch(now, now + 10))
    epoch = Epoch(now + 10, now + CHRONONS)
    assert preview(found.planner, epoch, limit=limit) == preview(found.planner, epoch)[:limit]


@given(fleet=fleets())
@examples(30)
def test_the_order_in_which_sources_are_declared_changes_nothing(fleet: Fleet) -> None:
    found, turned = fleet.decider(), fleet.decider()
    now = found.settings.grid.chronon_at(START_S)
    turned.planner.sources = dict(reversed(turned.planner.sources.items()))
    epoch = Epoch(now, now + CHRONONS)
    assert preview(turned.planner, epoch) == preview(found.planner, epoch)


async def test_a_source_taken_out_between_plan_and_start_is_probed_again_once_it_is_back() -> None:
    clock, found = FakeClock(START_S), decider(declaration(source("a"), rule("r")), now_s=START_S)
    planned = found.choose(found.settings.grid.chronon_at(START_S)).probes[0]
    origin = PoissonOrigin({"a": []}, clock.time_s)
    loop = probe_loop(found, LocalTransport(origin), RecordingMemory(), clock, Metrics())
    found.declare(declaration(source("b"), rule("r")), {"r": START_S}, START_S)
    await loop._probe(planned)
    assert not origin.started
    assert not found.planner.in_flight
