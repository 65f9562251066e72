"""The first hour of a few new sources, in the decider with its defaults: as good as a fixed interval."""

from __future__ import annotations

import numpy as np
import pytest

from proxyd.core.model.chronon import Budget
from proxyd.core.planning.chunks import run_all
from proxyd.core.rules.known.context import StoredContext
from proxyd.core.rules.known.estimates import until_next_plan_s
from tests.fleets import changed, decider, declaration, item, rule, source

HOUR_S, DAY_S, STEP_S = 3600.0, 86400.0, 10.0
T0 = 1_700_000_000.0
SEEDS, HISTORY_DAYS = 20, 20


def first_hour(rates_h: list[float], seed: int) -> tuple[float, float]:
    """Return the mean waits in the first hour, of proxyd and of a fixed interval with as many probes, in seconds."""
    rng, names = np.random.default_rng([seed, len(rates_h)]), [f"s{seed}-{number}" for number in range(len(rates_h))]
    found = decider(
        declaration(*(source(name, host=f"{name}.example") for name in names), rule("r")), now_s=T0, chronon_s=STEP_S,
        budget=Budget(1.0), price_item_s=None, first_day_s=DAY_S, settings={"source_spacing_s": 300.0},
    )  # fmt: skip
    since_s, hours = T0 - HISTORY_DAYS * DAY_S, 24.0 * HISTORY_DAYS + 1.0
    times = [since_s + np.sort(rng.uniform(0, hours * HOUR_S, rng.poisson(rate * hours))) for rate in rates_h]
    probes: list[list[float]] = [[] for _ in names]
    told: list[set[float]] = [set() for _ in names]
    plan_s = T0 + until_next_plan_s(0.0, HOUR_S)
    for now_s in np.arange(T0, T0 + HOUR_S, STEP_S).tolist():
        if now_s >= plan_s:
            if (week := found.fleet(now_s).plan()) is not None:
                run_all(found.switch_plan(week, now_s))
            plan_s = now_s + until_next_plan_s(now_s - T0, HOUR_S)
        for planned in found.choose(found.settings.planner.grid.chronon_at(now_s)).probes:
            name = planned.probe.source_id
            number = names.index(name)
            shown = times[number][times[number] <= now_s][-30:].tolist()
            known = {f"{name} {at_s!r}": item(f"{name} {at_s!r}", at_s) for at_s in told[number]}
            outcome = changed(name, [item(f"{name} {at_s!r}", at_s) for at_s in reversed(shown)], now_s)
            found.outcomes.finish(outcome, found.observe(outcome, StoredContext(known)))
            probes[number].append(now_s)
            told[number].update(shown)
    every_s = HOUR_S * len(names) / sum(map(len, probes))
    waits_s, fixed_s = [], []
    for all_s, made in zip(times, probes, strict=True):
        ends = np.array([*made, T0 + HOUR_S])
        new = all_s[all_s > T0]
        waits_s += (ends[np.searchsorted(ends, new)] - new).tolist()
        fixed_s += np.minimum((T0 - new) % every_s, T0 + HOUR_S - new).tolist()
    return float(np.mean(waits_s)), float(np.mean(fixed_s))


@pytest.mark.long
@pytest.mark.parametrize(
    "rates_h",
    [
        pytest.param([12.0, 4.0, 2.0, 1.0, 0.5], id="busy and quiet ones"),
        pytest.param([2.0, 2.0, 2.0], id="three alike"),
        pytest.param([60.0, 6.0, 1.0], id="a stream among them"),
    ],
)
def test_it_is_not_behind_a_fixed_interval_with_as_many_probes(rates_h: list[float]) -> None:
    waits_s, fixed_s = np.array([first_hour(rates_h, seed) for seed in range(SEEDS)]).T
    error_s = 1.96 * float(np.std(waits_s - fixed_s)) / SEEDS**0.5
    assert float(np.mean(waits_s)) < 1.05 * float(np.mean(fixed_s)) + error_s
