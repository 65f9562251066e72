"""Who gets the probes when the whole budget is to be spent."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.model.chronon import Budget
from tests.fleets import Drive, changed, decider, declaration, item, rule, source

T0 = 1_000_000_000.0
NAMES = [f"s{n}" for n in range(12)]
LIFE_S, SECONDS = 4, 900


def traces(seed: int) -> dict[str, list[float]]:
    """Return the times of the items of feeds that gain one every 10 to 100 seconds."""
    rng = np.random.default_rng(seed)
    means_s = rng.uniform(10.0, 100.0, len(NAMES))
    gaps_s = [rng.exponential(mean_s, int(2 * SECONDS / mean_s) + 20) for mean_s in means_s]
    return {name: list(T0 + np.cumsum(gaps)) for name, gaps in zip(NAMES, gaps_s, strict=True)}


async def run(trace: dict[str, list[float]], clauses: str, *, probes_per_s: float) -> tuple[float, int]:
    """Return the share of items seen within their life, and the number of probes, of a rule on all feeds."""
    sources = [source(name, host=f"{name}.example", options="EXPECT 1 PER MINUTE") for name in NAMES]
    declared = declaration(*sources, rule("r", clauses=f"SET LIFE WINDOW({LIFE_S} SECONDS) {clauses}"))
    budget, settings = Budget(probes_per_s), {"source_spacing_s": 1.0}
    found = decider(declared, now_s=T0, chronon_s=1.0, budget=budget, settings=settings, spend=True)
    drive, probes = Drive(found), 0
    for second in range(SECONDS):
        for planned in found.choose(int(T0) + second).probes:
            name, at_s = planned.probe.source_id, planned.start_s
            shown = [item(f"{name} {t}", t) for t in trace[name] if t <= at_s][-20:]
            await drive.see(changed(name, shown[::-1], at_s))
            probes += 1
    streams = found.known.streams.values()
    captured, missed = sum(each.captured for each in streams), sum(each.missed for each in streams)
    return captured / (captured + missed), probes


@pytest.mark.long
@pytest.mark.parametrize("probes_per_s", [1.0, *(pytest.param(each, marks=pytest.mark.long) for each in (2.0, 3.0))])
async def test_a_rule_with_a_life_is_served_about_as_well_as_by_even_spacing(probes_per_s: float) -> None:
    trace = traces(1)
    even, uniform = await run(
        trace, f"SET POLICY UNIFORM({round(len(NAMES) / probes_per_s)} SECONDS)", probes_per_s=probes_per_s
    )
    share, spent = await run(trace, "", probes_per_s=probes_per_s)
    assert spent <= uniform * 1.05
    assert share >= even - 0.1


@pytest.mark.parametrize(
    "policy",
    ["AUTO", *(pytest.param(each, marks=pytest.mark.long) for each in ("INDEX", "GOLDEN", "MEMORYLESS", "ADAPTIVE"))],
)
async def test_spending_serves_every_policy_that_leaves_the_times_to_the_plan(policy: str) -> None:
    _, probes = await run(traces(3), f"SET POLICY {policy}", probes_per_s=2.0)
    assert probes >= 2.0 * SECONDS * 0.95


@pytest.mark.parametrize(
    ("policy", "most"),
    [("UNIFORM(60 SECONDS)", 1.1), ("DOE(30 PROBES PER 30 MINUTES)", 1.1), ("SUP", 2.0), ("FBSUP", 8.0)],
)
async def test_spending_adds_no_probes_for_a_policy_that_counts_its_own(policy: str, most: float) -> None:
    _, probes = await run(traces(3), f"SET POLICY {policy}", probes_per_s=10.0)
    assert len(NAMES) * SECONDS / 60 / 2 <= probes <= most * len(NAMES) * SECONDS / 60
