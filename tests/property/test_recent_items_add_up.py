"""Law: what is kept of recent items does not depend on how often a source was probed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.rates.rate_blend import SHORT_S, ItemTimes, note_recent, unpack_recent

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
    for half_life_s, kept, seconds in zip(SHORT_S, items, passed_s, strict=True):
        decay = np.log(2) * speed / half_life_s
        assert np.isclose(kept, np.exp(-decay * ages_s).sum(), rtol=1e-5, atol=1e-6)
        assert np.isclose(seconds, -np.expm1(-decay * 10 * DAY_S) / decay, rtol=1e-5)
