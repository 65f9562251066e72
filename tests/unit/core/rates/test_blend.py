"""The blend of half-lives, one source at a time: what many sources at once give, and what pages give."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from proxyd.core.rates.rate_blend import NO_EVIDENCE, Blend, ChangedBit, ItemCount, ItemTimes, RateEvidence
from proxyd.lab.replay.fleet_model import FleetRates

DAY_S = 86400.0


def test_one_source_at_a_time_is_what_many_at_once_give() -> None:
    rng = np.random.Generator(np.random.PCG64(4))
    blend, fleet, known, since_s = Blend(), FleetRates(1), NO_EVIDENCE, 0.0
    for _ in range(60):
        until_s = since_s + float(rng.exponential(DAY_S))
        times_s = np.sort(rng.uniform(since_s, until_s, rng.poisson(3.0 * (until_s - since_s) / DAY_S)))
        evidence = ItemTimes(since_s, until_s, tuple(times_s.tolist()))
        blend.weigh(known, evidence)
        known = blend.seen(known, evidence)
        fleet.observe([0], [since_s], until_s, np.zeros(times_s.size, dtype=np.int64), times_s)
        since_s = until_s
    np.testing.assert_allclose(blend.weights, fleet.weights, rtol=1e-9)
    np.testing.assert_allclose(blend.rate_per_s(known, since_s), fleet.per_s(since_s)[0], rtol=1e-9)


def test_two_thousand_items_of_one_source_do_not_make_the_rates_of_all_others_many_times_higher() -> None:
    rng = np.random.Generator(np.random.PCG64(6))
    blend, fleet, known = Blend(), FleetRates(10), dict.fromkeys(range(10), NO_EVIDENCE)
    for day in range(1, 62):
        since_s, until_s = (day - 1) * DAY_S, day * DAY_S
        for source, before in known.items():
            liar = day == 61 and source == 0
            evidence = ItemTimes(
                since_s, until_s, tuple(rng.uniform(since_s, until_s, 2000 if liar else rng.poisson(1)))
            )
            blend.weigh(before, evidence)
            known[source] = blend.seen(before, evidence)
            blend.replace(before, known[source])
            fleet.observe([source], since_s, until_s, [0] * len(evidence.times_s), evidence.times_s)
        if day == 60:
            honest_per_s = blend.rate_per_s(known[9], until_s)
    assert blend.rate_per_s(known[9], until_s) < 5.0 * honest_per_s
    assert sum(blend.weights) <= 2.0 + 1e-9
    assert fleet.weights.sum() <= 2.0 + 1e-9


def test_one_source_that_was_expected_to_have_ten_thousand_items_does_not_silence_the_others() -> None:
    blend, busy = Blend(), NO_EVIDENCE
    busy = blend.seen(busy, ItemTimes(0.0, 60.0, tuple(np.linspace(1.0, 60.0, 50))))
    blend.weigh(busy, ItemTimes(60.0, 86400.0, (61.0,)))
    assert sum(blend.weights) >= 0.5 - 1e-9


@pytest.mark.parametrize("per_day", [0.3, 1.0, 4.0])
def test_bits_of_pages_keep_the_weights_and_find_the_rate(per_day: float) -> None:
    rng = np.random.Generator(np.random.PCG64(5))
    blend, known = Blend(), dict.fromkeys(range(20), NO_EVIDENCE)
    gap_s, steps = DAY_S / 4, 4 * 90
    for step in range(steps):
        for page, before in known.items():
            changed = rng.poisson(per_day / 4) > 0
            since_s, until_s = step * gap_s, (step + 1) * gap_s
            evidence = ChangedBit(since_s, until_s, True) if changed else ItemCount(since_s, until_s, 0)
            if before.as_of_s is not None:
                blend.weigh(before, evidence)
            known[page] = blend.seen(before, evidence)
            blend.replace(before, known[page])
    assert sum(blend.weights) == pytest.approx(1.0, abs=0.1)
    rates = [blend.rate_per_s(each, steps * gap_s) * DAY_S for each in known.values()]
    assert np.mean(rates) == pytest.approx(per_day, rel=0.12)


def test_overflowed_windows_do_not_pull_the_weights_down() -> None:
    blend, known = Blend(), NO_EVIDENCE
    for day in range(200):
        evidence = ItemCount(day * DAY_S, (day + 1) * DAY_S, 10 if day % 2 else 4, at_least=bool(day % 2))
        if known.as_of_s is not None:
            blend.weigh(known, evidence)
        known = blend.seen(known, evidence)
    assert 0.8 < sum(blend.weights) < 1.3
    assert 5.0 < blend.rate_per_s(known, 200 * DAY_S) * DAY_S < 12.0


def test_an_unchanged_page_teaches_what_a_window_without_items_does() -> None:
    blend, first = Blend(), ItemCount(0.0, DAY_S, 2)
    known = blend.seen(NO_EVIDENCE, first)
    unchanged = blend.seen(known, ChangedBit(DAY_S, 3 * DAY_S, changed=False))
    assert unchanged == blend.seen(known, ItemCount(DAY_S, 3 * DAY_S, 0))
    assert blend.rate_per_s(unchanged, 3 * DAY_S) < blend.rate_per_s(known, DAY_S)


@pytest.mark.parametrize(("a_day", "expected_a_day"), [(0, 4320.0), (24, 4320.0), (24, 1 / 30)])
def test_what_an_author_expects_is_forgotten_within_a_week_if_it_is_far_off(a_day: int, expected_a_day: float) -> None:
    blend, known, expect = Blend(), RateEvidence(), expected_a_day / DAY_S
    for day in range(7):
        known = blend.seen(known, ItemCount(day * DAY_S, (day + 1) * DAY_S, a_day), expect_per_s=expect)
    found_a_day = blend.rate_per_s(known, 7 * DAY_S, expect_per_s=expect) * DAY_S
    assert 0.95 * a_day < found_a_day < 1.2 * a_day + 0.75


def test_one_silent_night_does_not_contradict_what_an_author_expects() -> None:
    expect = 200.0 / DAY_S
    known = Blend().seen(RateEvidence(), ItemCount(0.0, DAY_S / 3, 0), expect_per_s=expect)
    assert Blend().rate_per_s(known, DAY_S / 3, expect_per_s=expect) * DAY_S > 40.0


def test_a_rate_moves_smoothly_with_what_was_found_beside_what_an_author_expects() -> None:
    rates = []
    for items in range(400, 2400, 10):
        known = Blend().seen(RateEvidence(), ItemCount(0.0, 30 * DAY_S, items), expect_per_s=10.0 / DAY_S)
        rates.append(Blend().rate_per_s(known, 30 * DAY_S, expect_per_s=10.0 / DAY_S))
    assert max(later / earlier for earlier, later in pairwise(rates)) < 1.05
    assert min(later / earlier for earlier, later in pairwise(rates)) >= 1.0


def test_what_an_author_expects_counts_where_it_is_near() -> None:
    found, rates = ItemCount(0.0, 7 * DAY_S, 21), []
    for expected_a_day in (2.0, 6.0):
        known = Blend().seen(NO_EVIDENCE, found, expect_per_s=expected_a_day / DAY_S)
        rates.append(Blend().rate_per_s(known, 7 * DAY_S, expect_per_s=expected_a_day / DAY_S) * DAY_S)
    assert rates[0] < rates[1] - 0.3
