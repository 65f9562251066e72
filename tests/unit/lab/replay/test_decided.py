"""The daemon's decider on a replay's terms."""

from __future__ import annotations

import numpy as np

from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.lab.replay.policy_registry import run
from proxyd.lab.replay.replay import Terms, split
from proxyd.lab.traces import MONDAY_S, model_trace


def test_it_keeps_up_with_the_simulator_to_the_end_of_the_budget() -> None:
    rng = np.random.Generator(np.random.PCG64(3))
    trace = model_trace("poisson+bursts", sources=30, weeks=6, rng=rng)
    grid, start_s = ChrononGrid(1800.0), MONDAY_S + 2 * WEEK_S
    history, events = split(trace, start_s)
    epoch = Epoch(grid.chronon_at(start_s), grid.chronon_at(start_s + 4 * WEEK_S))
    terms = Terms(grid, epoch, 30 * 4 * 6, history, MONDAY_S, 1800.0)
    delay_s = {name: run(name, events, terms).achieved.mean_delay_s for name in ("auto", "daemon")}
    assert delay_s["daemon"] <= 1.1 * delay_s["auto"]
