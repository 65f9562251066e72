"""SUP against exhaustive search on small instances."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.model.schedule import ExecutionInterval
from proxyd.lab.algorithms.sup_schedules import least_delay_sup, sup

spans = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5)), min_size=1, max_size=7)


def exhaustive(found: list[tuple[int, int]]) -> tuple[int, int]:
    """Return the fewest probes that capture all, and the least delay among those schedules."""
    last = max(start + length for start, length in found)
    for count in range(1, len(found) + 1):
        delays = []
        for times in combinations(range(last + 1), count):
            first = [next((t for t in times if s <= t <= s + n), None) for s, n in found]
            if all(t is not None for t in first):
                delays.append(sum(t - s for t, (s, _) in zip(first, found, strict=True) if t is not None))
        if delays:
            return count, min(delays)
    raise AssertionError


@given(spans)
def test_sup_takes_the_fewest_probes_and_least_delay_sup_no_more(found: list[tuple[int, int]]) -> None:
    fewest, least = exhaustive(found)
    intervals = [ExecutionInterval("a", f"r{n}", s, s + length) for n, (s, length) in enumerate(found)]
    late, early = sup(intervals), least_delay_sup(intervals)
    assert len(late.probes) == len(early.probes) == fewest
    assert late.captured == early.captured == len(found)
    assert early.delay == least
    for schedule in (late, early):
        times = [chronon for _, chronon in schedule.probes]
        assert all(any(t in interval for t in times) for interval in intervals)


@given(spans, spans)
def test_sources_are_independent(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    a = [ExecutionInterval("a", "r", s, s + n) for s, n in left]
    b = [ExecutionInterval("b", "r", s, s + n) for s, n in right]
    for solve in (sup, least_delay_sup):
        both = solve([*a, *b])
        assert both.delay == solve(a).delay + solve(b).delay
        assert sorted(both.probes) == sorted([*solve(a).probes, *solve(b).probes])
