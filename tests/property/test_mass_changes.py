"""Laws: which items come in mass changes, and rates without them are those of sources that never had them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.rates.rate_blend import NO_EVIDENCE, Blend, ItemTimes, leave_out
from proxyd.core.rates.siblings import TOGETHER_S, in_mass_changes, most_at_once
from proxyd.core.rates.week_bins import WEEK_S

DAY_S = 86400.0
PARTS = round(WEEK_S / TOGETHER_S)
ITEMS = st.lists(st.tuples(st.integers(0, 3 * PARTS), st.integers(0, 12)), max_size=60)


def one_by_one(items: list[tuple[float, int]]) -> list[bool]:
    """Return what ``in_mass_changes`` does, in the words of its definition."""
    pairs = list(dict.fromkeys((int(time_s // TOGETHER_S), source) for time_s, source in items))
    numbers = [number for number, _ in pairs]
    weeks = max(1.0, (max(numbers, default=0) - min(numbers, default=0)) / PARTS)
    found = []
    for time_s, source in items:
        number = int(time_s // TOGETHER_S)
        before = pairs[: pairs.index((number, source))]
        others = sum(other % PARTS == number % PARTS and other != number for other in numbers)
        found.append(sum(other == number for other, _ in before) >= most_at_once(others / weeks))
    return found


@given(ITEMS, st.integers(0, 20))
def test_items_of_mass_changes_equal_the_definition(items: list[tuple[int, int]], burst: int) -> None:
    times = sorted([(number * TOGETHER_S, source) for number, source in items] + [(7200.0, n) for n in range(burst)])
    got = in_mass_changes(np.array([at_s for at_s, _ in times]), np.array([n for _, n in times], dtype=np.int64))
    assert got.tolist() == one_by_one(times)


@given(st.lists(st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), max_size=6), min_size=1, max_size=12))
def test_rates_without_mass_changes_are_those_of_sources_that_had_none(days: list[list[tuple[float, bool]]]) -> None:
    both, without, known, own = Blend(), Blend(), NO_EVIDENCE, NO_EVIDENCE
    for day, found in enumerate(days):
        items = dict(sorted(((day + part) * DAY_S, is_mass) for part, is_mass in found if part > 0))
        evidence = ItemTimes(day * DAY_S, (day + 1) * DAY_S, tuple(items))
        mass_s = tuple(time_s for time_s, is_mass in items.items() if is_mass)
        new, new_own = both.seen(known, evidence, mass_s=mass_s), without.seen(own, leave_out(evidence, mass_s))
        both.replace(known, new)
        without.replace(own, new_own)
        known, own = new, new_own
    assert both.has_mass == any(is_mass for found in days for part, is_mass in found if part > 0)
    now_s = len(days) * DAY_S
    assert both.rate_per_s(known, now_s, thin=True) == pytest.approx(without.rate_per_s(own, now_s))
    both.is_thin = True
    assert both.items_known(known, now_s) == pytest.approx(without.items_known(own, now_s))
    assert both.mean_per_s == pytest.approx(without.mean_per_s)
