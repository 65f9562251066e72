"""Eight weeks of many sources before the daemon's decider, beside the simulator and other programs' formulas.

Feeds show 100 items, of which few are pushed off before they are seen: the simulator knows no windows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from proxyd.core.model.chronon import Budget, Epoch
from proxyd.core.model.outcome import OutcomeKind
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.lab.replay.policy_registry import run
from proxyd.lab.replay.replay import SourceFault, Terms
from proxyd.lab.traces import MONDAY_S, STEADY, Week, model_trace, working_week
from tests.fleets import decider, declaration, rule, source
from tests.rehearsal import Origins, rehearse

WEEKS, BEFORE, SHOWN, CHRONON_S = 8, 2, 100, 1800.0
START_S, STOP_S = MONDAY_S + BEFORE * WEEK_S, MONDAY_S + (BEFORE + WEEKS) * WEEK_S
PER_WEEK = 10.0
PRICE_ITEM_S = PER_WEEK / WEEK_S * 86400.0**2 / 2  # a source of mean rate is due after about a day
HOUR_S, DAY_S = 3600.0, 86400.0
OTHERS = ("uniform", "miniflux", "miniflux-frequency", "commafeed", "nutch")
Times = Mapping[str, np.ndarray]


def office(ahead_h: float) -> Week:
    """Return a working week by clocks ahead of UTC, nearly silent at night and on weekends."""
    return working_week(phase_s=MONDAY_S - ahead_h * HOUR_S, night=0.05, weekend=0.05)


EVENINGS = Week(WEEK_S, tuple([0.05] * 18 + [1.0] * 5 + [0.05]) * 7, MONDAY_S)


def drawn(model: str, sources: int, week: Week, rng: np.random.Generator, name: str) -> dict[str, np.ndarray]:
    trace = model_trace(model, sources=sources, weeks=BEFORE + WEEKS, rng=rng, rate_per_week=PER_WEEK, week=week)
    return {f"{name}-{number}": times for number, times in enumerate(trace.events_s)}


def cyclic(sources: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return weekly cycles of four kinds, single items and bursts, drifting rates, and one feed of seven that died."""
    part = sources // 7
    found = {name: times for ahead_h in (0, 8, 16) for name, times in drawn(
        "poisson", part, office(ahead_h), rng, f"office{ahead_h}").items()}  # fmt: skip
    found |= drawn("bursts", part, office(0), rng, "bursts") | drawn("drift", part, EVENINGS, rng, "evenings")
    found |= drawn("drift+bursts", sources - 6 * part, office(8), rng, "drift")
    dead = drawn("poisson", part, office(0), rng, "dead")
    return found | {name: times[times < START_S] for name, times in dead.items()}


def steady(sources: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return sources without a cycle."""
    return drawn("poisson+bursts+drift", sources, STEADY, rng, "steady")


def some_faults(names: Sequence[str]) -> dict[str, list[SourceFault]]:
    """Return three hours in which nothing answers, origins that are down for days, and some that throttle."""
    everywhere = SourceFault(START_S + 17 * DAY_S, START_S + 17 * DAY_S + 3 * HOUR_S)
    faults = {name: [everywhere] for name in names}
    for name in names[::40]:
        faults[name].append(SourceFault(START_S + 30 * DAY_S, START_S + 32 * DAY_S, OutcomeKind.UNREACHABLE))
    for name in names[5::40]:
        day_s = START_S + 40 * DAY_S
        faults[name].append(SourceFault(day_s, day_s + DAY_S, OutcomeKind.THROTTLED, retry_after_s=6 * HOUR_S))
    return faults


@dataclass(frozen=True)
class Result:
    """Mean delays in hours, of the daemon and by policy, at one number of probes."""

    daemon_h: float
    others_h: Mapping[str, float]
    probes: int


def result(times_s: Times, policies: Sequence[str], faults: Mapping[str, Sequence[SourceFault]]) -> Result:
    most = len(times_s) // 24  # 14 probes a source and week, of which less than half pays its price
    found = decider(
        declaration(*(source(name, host=f"{name}.example") for name in times_s), rule("r")),
        now_s=START_S,
        chronon_s=CHRONON_S,
        budget=Budget(most / CHRONON_S),
        price_item_s=PRICE_ITEM_S,
        host_spacing_s=0.0,
    )
    grid = found.settings.grid
    epoch = Epoch(grid.chronon_at(START_S), grid.chronon_at(STOP_S))
    rehearsed = rehearse(found, Origins(times_s, window=SHOWN, faults=faults), epoch, plan_every_s=DAY_S)
    for chronon, count in Counter(planned.probe.chronon for planned in rehearsed.probes).items():
        assert count <= found.planner.settings.capacity(chronon)
    delays_s = rehearsed.delays_s(times_s, start_s=START_S, stop_s=STOP_S)
    shown = [times[times < START_S][-SHOWN:] for times in times_s.values()]
    terms = Terms(
        grid,
        epoch,
        len(rehearsed.probes),
        tuple(times[1:] for times in shown),
        MONDAY_S,
        CHRONON_S,
        per_chronon=most,
        known_from_s=np.array([times[0] if times.size else START_S for times in shown]),
        faults={number: faults[name] for number, name in enumerate(times_s) if name in faults},
    )
    events_s = [times[times >= START_S] for times in times_s.values()]
    others = {name: run(name, events_s, terms).achieved.mean_delay_s / HOUR_S for name in policies}
    return Result(float(delays_s.mean()) / HOUR_S, others, len(rehearsed.probes))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("mix", "sources", "to_peers"),
    [
        pytest.param(cyclic, 70, 0.62, id="weekly cycles"),  # measured: 0.605; 0.63 with another seed
        pytest.param(steady, 60, 1.0, id="no cycle"),
        pytest.param(cyclic, 700, 0.6, id="weekly cycles of many"),
        pytest.param(steady, 300, 1.0, id="no cycle of many"),
    ],
)
def test_the_daemon_keeps_up_with_the_simulator_and_is_ahead_of_other_programs(
    mix: Callable[[int, np.random.Generator], dict[str, np.ndarray]], sources: int, to_peers: float
) -> None:
    times_s = mix(sources, np.random.Generator(np.random.PCG64(11)))
    found = result(times_s, ["auto", *OTHERS], some_faults(list(times_s)))
    assert found.daemon_h <= 1.05 * found.others_h["auto"]  # measured: 1.02 with 700 sources, 1.048 with 2,000
    assert found.daemon_h <= to_peers * min(found.others_h[name] for name in OTHERS)
