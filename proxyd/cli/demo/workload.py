"""The demo's feeds: Zipf rates, half of them with a weekly pattern, and Poisson items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proxyd.core.model.measures import Times
from proxyd.lab.traces.synthetic import STEADY, Week, poisson_events, zipf_rates

FEEDS = 60
EXPONENT = 1.2
ITEMS_PER_S = 8.0
WEEK_S = 20.0
HISTORY_S = 60 * WEEK_S
WINDOW = 20
_WORKING, _NIGHT, _WEEKEND = 3.0, 0.2, 0.1
WEEK_FACTORS = (_WORKING, _NIGHT) * 5 + (_WEEKEND, _WEEKEND) * 2
"""Days and nights of a week that begins on Monday."""


@dataclass(frozen=True, slots=True)
class DemoWorkload:
    """When the items of each feed appear, in seconds from the start of the demo; earlier ones are negative.

    Parameters
    ----------
    rates_per_s
        Mean rates of the feeds.
    """

    times_s: tuple[Times, ...]
    rates_per_s: Times
    duration_s: float

    def events_s(self) -> list[Times]:
        """Return the items that appear during the demo."""
        return [times[times >= 0.0] for times in self.times_s]

    def histories(self) -> list[int]:
        """Return the number of items in each feed before the start."""
        return [int(np.count_nonzero(times < 0.0)) for times in self.times_s]


def make_workload(duration_s: float, rng: np.random.Generator) -> DemoWorkload:
    """Return feeds in an order independent of their rates; every second has a weekly pattern, in one of three zones.

    All share the same weekend days: zones lie half a day ahead or behind.
    """
    rates = rng.permutation(zipf_rates(FEEDS, exponent=EXPONENT, total_per_s=ITEMS_PER_S))
    times = []
    for feed, rate in enumerate(rates):
        piece_s = WEEK_S / len(WEEK_FACTORS)
        week = Week(WEEK_S, WEEK_FACTORS, piece_s * int(rng.integers(-1, 2))) if feed % 2 else STEADY
        found = poisson_events(float(rate), week, start_s=-HISTORY_S, stop_s=duration_s, rng=rng)
        times.append(np.unique(np.floor(found * 1000.0)) / 1000.0)  # whole milliseconds, as the feeds write them
    return DemoWorkload(tuple(times), rates, duration_s)
