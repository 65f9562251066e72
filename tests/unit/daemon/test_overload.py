"""With more due than can be done the daemon goes on as fast as it can, in a time in which only its work takes time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from proxyd.base.metrics import Metrics
from proxyd.base.ports import MaySend, always
from proxyd.core.model.chronon import Budget
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from proxyd.core.planning.planner import Planner
from proxyd.core.planning.policies.auto import CountedDemand
from proxyd.core.rules.decider import Decider
from proxyd.probing.prober import LocalTransport
from tests.fakes import FakeClock
from tests.fleets import RecordingMemory, decider, declaration, probe_loop, rule, source, unchanged

T0, CHRONON_S, SOURCES, SECONDS = 1_000_000_000.0, 0.1, 512, 3.0
PROBE_S, DUE_TIME_S = 0.002, 0.0002  # what a probe costs, and a due time of a rule that counts

POLICIES = {
    "counted": {"when": "COUNT(*) % 3 = 0"},
    "uniform": {"clauses": "SET POLICY UNIFORM(1 CHRONON)"},
    "golden": {"clauses": "SET POLICY GOLDEN"},
    "doe": {"clauses": "SET POLICY DOE(10 PROBES PER 1 SECOND)"},
    "detection": {},
}


class BusyOrigin:
    """The Prober port over pages that never change, whose probes take the machine's time."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.started_s: list[float] = []

    async def probe(self, request: ProbeRequest, may_send: MaySend = always) -> ProbeOutcome:
        self.started_s.append(self._clock.time_s())
        self._clock.jump(PROBE_S)
        await asyncio.sleep(0)
        return unchanged(request.source_id, self._clock.time_s())


def fleet(policy: str, budget_per_s: float) -> Decider:
    """Return a decider of sources that are all due whenever they are asked."""
    sources = [source(f"s{number}", host=f"h{number}.example") for number in range(SOURCES)]
    settings = {"source_spacing_s": 0.001}
    return decider(
        declaration(*sources, rule("r", **POLICIES[policy])),
        now_s=T0,
        chronon_s=CHRONON_S,
        budget=Budget(budget_per_s),
        settings=settings,
        host_spacing_s=0.0,
        price_item_s=1e-12,
    )


async def run(found: Decider, clock: FakeClock) -> tuple[BusyOrigin, Metrics]:
    """Run a loop for some seconds."""
    metrics, origin = Metrics(), BusyOrigin(clock)
    loop = probe_loop(found, LocalTransport(origin), RecordingMemory(), clock, metrics)
    task = asyncio.create_task(loop.run())
    while clock.time_s() < T0 + SECONDS:
        await clock.advance(0.001)
    await asyncio.gather(loop.drain(0.0), clock.advance(CHRONON_S))
    await task
    return origin, metrics


@contextmanager
def priced_due_times(clock: FakeClock) -> Iterator[Counter[str]]:
    """Let due times of counting rules take time, and count them."""
    calls, compute = Counter[str](), CountedDemand.due_s

    def due_s(self: CountedDemand, seen: object) -> float:
        calls["due times"] += 1
        clock.jump(DUE_TIME_S)
        return compute(self, seen)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CountedDemand, "due_s", due_s)
        yield calls


@pytest.mark.parametrize(
    "policy", [pytest.param(each, marks=[pytest.mark.long] * (each in {"uniform", "doe"})) for each in POLICIES]
)
async def test_an_overload_leaves_most_of_the_best_throughput(policy: str) -> None:
    clock = FakeClock(T0)
    with priced_due_times(clock) as calls:
        origin, metrics = await run(fleet(policy, 10_000.0), clock)
    made = len(origin.started_s)
    assert made * (PROBE_S + DUE_TIME_S) > 0.8 * SECONDS
    assert calls["due times"] <= 1.2 * made  # 56 with each probe
    dropped = metrics.registry.get_sample_value("proxyd_dropped_probes_total")
    assert dropped is not None
    assert dropped <= made  # 18.5 with each probe


async def test_choosing_that_takes_longer_than_a_chronon_takes_a_tenth_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, choose = FakeClock(T0), Planner.choose

    def slow_choose(self: Planner, *args: float, **options: float) -> object:
        clock.jump(3 * CHRONON_S)
        return choose(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Planner, "choose", slow_choose)
    origin, _ = await run(fleet("uniform", 10_000.0), clock)
    assert len(origin.started_s) * PROBE_S > 0.7 * SECONDS  # the first choice has room for one chronon


async def test_probes_carried_to_later_chronons_keep_within_their_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, choose = FakeClock(T0), Planner.choose
    budget = 60

    def slow_choose(self: Planner, *args: float, **options: float) -> object:
        clock.jump(1.5 * CHRONON_S)
        return choose(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Planner, "choose", slow_choose)
    origin, _ = await run(fleet("uniform", budget / CHRONON_S), clock)
    by_chronon = Counter(int((at_s - T0) / CHRONON_S) for at_s in origin.started_s)
    assert max(by_chronon.values()) <= budget
