"""One probe serves every rule of every profile that needs it: what is asked of the origin does not grow with them."""

from __future__ import annotations

import asyncio

import pytest

from proxyd.base.metrics import Metrics
from proxyd.probing.prober import LocalTransport
from tests.fakes import FakeClock, settle
from tests.fleets import PoissonOrigin, RecordingMemory, decider, declaration, probe_loop, rule, source

T0 = 1_000_000_000.0
PROFILES = 'CREATE PROFILE "Q" AS (DOMAIN "D");\n'
POLICIES = ("SET POLICY UNIFORM(50 SECONDS)", "SET LIFE WINDOW(10)", "SET POLICY INDEX", "SET POLICY SUP", "")


async def probed(rules: list[str], chronons: int = 200) -> tuple[int, dict[str, int]]:
    """Return how often a source was asked in that time, and how many events each rule counted."""
    clock = FakeClock(T0)
    found = decider(declaration(source("s"), PROFILES, *rules), now_s=T0, settings={"source_spacing_s": 10.0})
    origin = PoissonOrigin({"s": [T0 + 70.0 * n for n in range(1, 25)]}, clock.time_s)
    loop = probe_loop(found, LocalTransport(origin), RecordingMemory(), clock, Metrics())
    task = asyncio.create_task(loop.run())
    await settle()
    await clock.advance(10.0 * chronons)
    await asyncio.gather(loop.drain(0.0), clock.advance(10.0))
    await task
    return len(origin.started), {name: stream.count for (name, _), stream in found.known.streams.items()}


@pytest.mark.parametrize("policy", POLICIES)
async def test_more_rules_of_a_kind_ask_for_no_more_probes(policy: str) -> None:
    one, counted = await probed([rule("r", clauses=policy)])
    rules = [rule(f"r{n}", clauses=policy).replace('INTO "P"', f'INTO "{"PQ"[n % 2]}"') for n in range(6)]
    six, counts = await probed(rules)
    assert six == one
    assert set(counts.values()) == set(counted.values())


async def test_rules_of_different_kinds_share_the_probes_of_the_greediest() -> None:
    greedy, counted = await probed([rule("r", clauses="SET POLICY UNIFORM(20 SECONDS)")])
    rules = [
        rule(f"r{n}", clauses=policy) for n, policy in enumerate(("SET POLICY UNIFORM(20 SECONDS)", *POLICIES[2:]))
    ]
    all_together, counts = await probed(rules)
    assert greedy <= all_together <= 1.1 * greedy
    assert set(counts.values()) == set(counted.values())
