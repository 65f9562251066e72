"""Plans of counted updates: equal to an enumeration of everything that may come, and to SUP if all is known."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from proxyd.lab.algorithms.counted_horizon import UpdateChances, plan_of_counts
from proxyd.lab.papers.figure import Updates

Floats = NDArray[np.float64]

lives = st.sampled_from([None, 0, 1, 2])
prices = st.sampled_from([0.01, 0.1, 0.3, 0.6, 1.2])


@st.composite
def of_counts(draw: st.DrawFn) -> Floats:
    """Draw the probabilities of up to two updates in each of some chronons."""
    weights = st.lists(st.sampled_from([0.0, 0.0, 0.1, 0.5, 1.0]), min_size=3, max_size=3).filter(any)
    rows = np.array(draw(st.lists(weights, min_size=1, max_size=5)))
    found: Floats = rows / rows.sum(axis=1, keepdims=True)
    return found


def caught(events: list[int], count: int, every: int, life: int | None, at: int) -> int:
    """Return how many of the firings among ``events`` a probe at ``at`` catches; ``at`` is after all of them."""
    found = 0
    for rank, event in enumerate(events):
        if (count + rank + 1) % every == 0:
            following = events[rank + 1] if rank + 1 < len(events) else at + 1
            found += at <= (max(event, following - 1) if life is None else event + life)
    return found


def enumerated(of_count: Floats, every: int, life: int | None, price: float, last: int, count: int) -> float:
    """Return the worth after a probe at ``last`` by trying every next probe and everything that may come before it."""

    @cache
    def worth(last: int, count: int) -> float:
        best = 0.0
        for at in range(last + 1, len(of_count)):
            total = -price
            for counts in product(range(3), repeat=at - last):
                chance = float(np.prod([of_count[last + 1 + k, c] for k, c in enumerate(counts)]))
                events = [last + 1 + k for k, c in enumerate(counts) for _ in range(c)]
                if chance:
                    later = worth(at, (count + len(events)) % every)
                    total += chance * (caught(events, count, every, life, at) + later)
            best = max(best, total)
        return best

    return worth(last, count)


@given(of_counts(), st.integers(1, 4), lives, prices)
def test_worth_equals_an_enumeration(of_count: Floats, every: int, life: int | None, price: float) -> None:
    some = np.flatnonzero(of_count[:, 0] < 1)
    plan = plan_of_counts(UpdateChances(some, of_count[some]), every=every, life=life, price=price)
    for row, last in enumerate([-1, *some.tolist()]):
        wanted = [enumerated(of_count, every, life, price, last, count) for count in range(every)]
        assert plan.worth[row] == pytest.approx(wanted, abs=1e-7)


def by_chances(chances: UpdateChances, every: int, life: int | None, price: float) -> Floats:
    """Return the worth by the chances of each count at each next probe, without leaving any out."""
    at, of_count = chances.chronons, chances.of_count
    worth = np.zeros((len(at) + 1, every))
    for i in range(len(at) - 1, -2, -1):
        for count in range(every):
            reached, caught_ = np.zeros(every), 0.0
            reached[count] = 1.0
            quiet = 1.0
            seen = []
            for t in range(i + 1, len(at)):
                fired = float(
                    sum(reached[m] * chance * ((m + c) // every) for m, c, chance in each(of_count[t], every))
                )
                seen.append((at[t], fired))
                if life is None:
                    caught_ = fired + of_count[t, 0] * (reached[0] - (quiet if count == 0 else 0.0))
                else:
                    caught_ = sum(firings for chronon, firings in seen if chronon >= at[t] - life)
                moved = np.zeros(every)
                for m, c, chance in each(of_count[t], every):
                    moved[(m + c) % every] += reached[m] * chance
                reached, quiet = moved, quiet * of_count[t, 0]
                worth[i + 1, count] = max(worth[i + 1, count], caught_ - price + reached @ worth[t + 1])
    return worth


def each(of_count: Floats, every: int) -> list[tuple[int, int, float]]:
    return [(m, c, float(chance)) for m in range(every) for c, chance in enumerate(of_count)]


@pytest.mark.parametrize("life", [None, 2, 7])
@pytest.mark.parametrize("every", [1, 2, 3])
def test_leaving_out_settled_probes_loses_nothing(every: int, life: int | None) -> None:
    rng = np.random.default_rng(every)
    chances = UpdateChances.noisy(rng.choice([0.0, 0.5, 3.0], 60), [5, 20, 20], [0.5, 0.9, 0.9])
    for price in (0.1, 0.5, 2.0):
        plan = plan_of_counts(chances, every=every, life=life, price=price)
        assert plan.worth == pytest.approx(by_chances(chances, every, life, price), abs=1e-6)


@given(st.lists(st.integers(0, 59), min_size=1, max_size=12), st.integers(1, 4), st.sampled_from([None, 0, 3, 20]))
def test_plans_that_know_the_updates_make_as_few_probes_as_sup_and_catch_all(
    given_: list[int], every: int, life: int | None
) -> None:
    actual = Updates.of([given_], 60)
    wanted, known = actual.intervals(every, life), np.sort(np.array(given_))
    plan = plan_of_counts(UpdateChances.noisy(np.zeros(60), known, 1.0), every=every, life=life, price=0.5)
    probes = plan.probes(known)
    assert len(probes) == len(wanted.sup()[0])
    assert wanted.utility((np.zeros(len(probes), dtype=np.int64), np.array(probes, dtype=np.int64))) == 1.0
