"""A machine that fell behind says that it was the machine, not the budget, that left probes out."""

from __future__ import annotations

import asyncio

from proxyd.base.metrics import Metrics
from proxyd.core.model.chronon import Budget
from proxyd.core.model.schedule import Constraint
from proxyd.probing.prober import LocalTransport
from tests.fakes import FakeClock, settle
from tests.fleets import PoissonOrigin, RecordingMemory, decider, declaration, probe_loop, rule, source

T0, CHRONON_S, SOURCES = 1_000_000_000.0, 10.0, 60


def held_back(metrics: Metrics, constraint: str) -> float | None:
    """Return how many probes a constraint held back so far."""
    return metrics.registry.get_sample_value("proxyd_postponed_probes_total", {"constraint": constraint})


async def test_what_a_machine_that_fell_behind_leaves_out_is_not_laid_to_the_budget() -> None:
    clock, metrics, names = FakeClock(T0), Metrics(), [f"s{number}" for number in range(SOURCES)]
    declared = declaration(*(source(name, host=f"{name}.example") for name in names), rule("r"))
    found = decider(declared, now_s=T0, chronon_s=CHRONON_S, budget=Budget(SOURCES / CHRONON_S))
    origin = PoissonOrigin({name: [] for name in names}, clock.time_s)
    loop = probe_loop(found, LocalTransport(origin), RecordingMemory(), clock, metrics)
    task = asyncio.create_task(loop.run())
    await settle()
    assert held_back(metrics, "overload") == 0  # the budget has room for all
    started = len(origin.started)
    clock.jump(CHRONON_S)  # what it began takes it the whole chronon
    await clock.advance(0.0)
    left_out = SOURCES - started - (started + started // 4 + 16)
    assert (held_back(metrics, "overload"), held_back(metrics, "budget")) == (left_out, 0)
    explained = [found.planner.postponements(name) for name in names]
    assert sum(counts.get(Constraint.OVERLOAD, 0) for counts in explained) == left_out
    await asyncio.gather(loop.drain(0.0), clock.advance(CHRONON_S))
    await task
