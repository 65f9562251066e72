"""Law: what is kept of recent items does not depend on how often a source was probed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.rates.rate_blend import PARITY_S, SHORT_S, ItemTimes, note_recent, unpack_recent
from proxyd.core.rates.week_bins import MONDAY_S, WEEK_S, Cycle, odd_weeks_s

DAY_S = 86400.0
TIMES = st.lists(st.floats(0.0, 10 * DAY_S), max_size=12)


@given(TIMES, TIMES, st.floats(0.5, 10.0))
def test_recent_items_are_the_discounted_items_however_often_a_source_is_probed(
    times_s: list[float], cuts_s: list[float], speed: float
) -> None:
    recent, last_s = b"", 0.0
    for until_s in sorted({*cuts_s, 10 * DAY_S} - {0.0}):
        found = tuple(time_s for time_s in times_s if last_s < time_s <= until_s or last_s == time_s == 0.0)
        recent = note_recent(recent, until_s - last_s, ItemTimes(last_s, until_s, found), len(found), 1.0, speed)
        last_s = until_s
    items, passed_s = unpack_recent(recent, 0.0, speed)
    ages_s = 10 * DAY_S - np.array(times_s)
    for half_life_s, kept, seconds in zip(SHORT_S, items[:-1], passed_s[:-1], strict=True):
        decay = np.log(2) * speed / half_life_s
        assert np.isclose(kept, np.exp(-decay * ages_s).sum(), rtol=1e-5, atol=1e-6)
        assert np.isclose(seconds, -np.expm1(-decay * 10 * DAY_S) / decay, rtol=1e-5)


@given(st.lists(st.floats(1.0, 40 * DAY_S), max_size=12), st.lists(st.floats(1.0, 40 * DAY_S), max_size=6))
def test_items_and_time_are_those_of_even_and_of_odd_weeks_however_often_a_source_is_probed(
    times_s: list[float], cuts_s: list[float]
) -> None:
    recent, last_s, stop_s = b"", 0.0, 40 * DAY_S
    for until_s in sorted({*cuts_s, stop_s}):
        evidence = ItemTimes(last_s, until_s, tuple(time_s for time_s in times_s if last_s < time_s <= until_s))
        odd = Cycle().in_odd_weeks(evidence)
        recent = note_recent(recent, until_s - last_s, evidence, len(evidence.times_s), 1.0, 1.0, odd)
        last_s = until_s
    oldest = 2.0 ** (-stop_s / PARITY_S)  # items of a probe count as if they had come at its end
    weeks = np.floor((np.array(times_s) - MONDAY_S) / WEEK_S)
    odd_s = sum(np.floor((at_s - MONDAY_S) / WEEK_S) % 2 for at_s in np.arange(30.0, stop_s, 60.0)) * 60.0
    assert abs(odd_weeks_s(stop_s) - odd_weeks_s(0.0) - odd_s) <= 60.0
    for is_odd, all_s in ((True, odd_s), (False, stop_s - odd_s)):
        items, passed_s = unpack_recent(recent, 0.0, odd=is_odd)
        count = int((weeks % 2 == is_odd).sum())
        assert oldest * count - 1e-4 <= items[-1] <= count + 1e-4
        assert oldest * all_s - 60.0 <= passed_s[-1] <= all_s + 60.0
