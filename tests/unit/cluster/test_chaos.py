"""Whatever happens to messages: a host is asked by one machine at a time, and work goes on once all is well."""

from __future__ import annotations

import asyncio

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proxyd.cluster.nats_transport import NatsTransport
from proxyd.core.model.outcome import ProbeOutcome, ProbeRequest
from tests.unit.cluster.bus import HOLD_S, Machines, Origin, ended

HOSTS = 3
ROUNDS = 4


@given(st.integers(0, 2**32 - 1))
def test_a_host_is_asked_by_one_machine_at_a_time_whatever_happens_to_messages(seed: int) -> None:
    asyncio.run(_chaos(np.random.default_rng(seed)))


async def _chaos(rng: np.random.Generator) -> None:
    machines = Machines()
    origin = Origin(machines.clock, takes_s=lambda: float(rng.choice([0.0, 1.0, 1.5 * HOLD_S])))
    planner = machines.planner()
    for name in "abc":
        machines.prober(origin, name, ahead_s=float(rng.uniform(-1e6, 1e6)))

    def fate(_subject: str) -> list[float]:
        late_s = [float(rng.uniform(0.0, 2.0 * HOLD_S)) if rng.random() < 0.3 else 0.0 for _ in range(2)]
        return late_s[: 1 + int(rng.random() < 0.2)] if rng.random() < 0.8 else []

    await machines.clock.advance(1.0)
    machines.bus.fate = fate
    asking: set[asyncio.Task[object]] = set()
    for number in range(ROUNDS):
        for host in range(HOSTS):
            request = ProbeRequest(f"{number}", f"https://{host}.example/")
            asking.add(asyncio.create_task(ended(planner, request)))
        await machines.clock.advance(float(rng.exponential(HOLD_S)))
        if rng.random() < 0.3:
            with machines.bus.links[int(rng.integers(len(machines.bus.links)))].cut():
                await machines.clock.advance(float(rng.exponential(HOLD_S)))
        if number == ROUNDS // 2:
            for task in (*asking, machines.tasks[0]):
                task.cancel()
            planner = machines.planner(term=8)
            await machines.succeed(planner, 8)
    machines.bus.fate = lambda _: [0.0]
    await machines.clock.advance(8.0 * HOLD_S)
    assert origin.most_of_a_host <= 1  # by chance no message of a request came through
    going_on = [
        asyncio.create_task(_made(planner, ProbeRequest("last", f"https://{host}.example/"))) for host in range(HOSTS)
    ]
    await machines.clock.advance(8.0 * HOLD_S)
    assert all(each.done() for each in going_on)
    assert origin.most_of_a_host == 1
    await machines.end()


async def _made(planner: NatsTransport, request: ProbeRequest) -> None:
    """Ask again where a prober was wrong about the planner's clock, as it may be once after a late answer."""
    while not isinstance(await ended(planner, request), ProbeOutcome):
        continue
