"""The daemon's decider on a replay's terms."""

from __future__ import annotations

import numpy as np

from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.lab.replay.policy_registry import DeciderPolicy, run
from proxyd.lab.replay.replay import Terms, replay, split
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


def test_sources_whose_items_are_worth_more_are_probed_more_often() -> None:
    grid, start_s = ChrononGrid(1800.0), MONDAY_S + 8 * WEEK_S
    epoch = Epoch(grid.chronon_at(start_s), grid.chronon_at(start_s + 2 * WEEK_S))
    rng = np.random.Generator(np.random.PCG64(4))
    times = [np.sort(MONDAY_S + rng.uniform(0.0, 10 * WEEK_S, 70)) for _ in range(4)]
    before, after = zip(*((each[each < start_s], each[each >= start_s]) for each in times), strict=True)
    worth = np.array([1.0, 1.0, 16.0, 16.0])
    terms = Terms(grid, epoch, 4 * 28, before, MONDAY_S, 1800.0, importance=worth)
    made = replay(after, DeciderPolicy(terms), terms).of_each(4)
    plain, valuable = len(made[0]) + len(made[1]), len(made[2]) + len(made[3])
    assert 2 * plain < valuable < 6 * plain  # the square root of 16 is 4
