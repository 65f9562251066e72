"""The daemon's decider on a replay's terms."""

from __future__ import annotations

import numpy as np

from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.lab.replay.policy_registry import DeciderPolicy
from proxyd.lab.replay.replay import Terms, replay
from proxyd.lab.traces import MONDAY_S


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
