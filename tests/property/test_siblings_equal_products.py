"""How often sources changed together is the product of the matrices of their changes, however it is counted."""

from __future__ import annotations

from collections import defaultdict
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.rates import siblings
from proxyd.core.rates.siblings import TOGETHER_S, siblings_of

BINS = 400
LAGS = (-84, -12, 12, 84)

changes_of_families = st.builds(
    lambda seed, sources, families, changes: drawn(
        np.random.Generator(np.random.PCG64(seed)), sources, families, changes
    ),
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.integers(0, 6),
    st.integers(0, 2000),
)


def drawn(rng: np.random.Generator, sources: int, families: int, changes: int) -> list[tuple[int, str]]:
    """Return changes of sources, of which some come together and some always at the same hours."""
    found = set(zip(rng.integers(0, BINS, changes).tolist(), rng.integers(0, sources, changes).tolist(), strict=True))
    for family in range(families):
        members = rng.integers(0, sources, 3).tolist()
        times = range(family, BINS, 12) if family % 2 else rng.integers(0, BINS, 30).tolist()
        found |= {(time, member) for time in times for member in members if rng.random() < 0.8}
    return [(time, f"s{source}") for time, source in sorted(found)]


def by_products(changes: list[tuple[int, str]], now_s: float) -> dict[str, dict[str, float]]:
    names = sorted({name for _, name in changes})
    rows, columns = [time for time, _ in changes], [names.index(name) for _, name in changes]
    matrix = np.zeros((BINS, len(names)))
    matrix[rows, columns] = 1
    count = matrix.sum(axis=0)
    matrix[matrix.sum(axis=1) > 200] = 0
    matrix[:, count < 3] = 0
    found = matrix.T @ matrix
    apart = np.zeros_like(found)
    for lag in LAGS:
        apart += matrix[max(0, -lag) : BINS - lag].T @ matrix[max(0, lag) : BINS + min(0, lag)] / len(LAGS)
    times = now_s // TOGETHER_S - min(rows) + 1
    related: dict[str, dict[str, float]] = defaultdict(dict)
    for one, other in zip(*np.nonzero(found >= 3), strict=True):
        chance = max(count[one] * count[other] / times, apart[one, other])
        probability = (found[one, other] - chance) / count[one]
        if one != other and found[one, other] > chance + 4 * np.sqrt(chance) + 2 and probability > 0.05:
            related[names[one]][names[other]] = min(1.0, probability)
    return related


@given(changes_of_families, st.sampled_from([1, 50, 1_000_000]))
def test_siblings_are_those_of_the_products(changes: list[tuple[int, str]], block: int) -> None:
    with patch.object(siblings, "_BLOCK", block):
        found = siblings_of(changes, now_s=BINS * TOGETHER_S)
    expected = by_products(changes, BINS * TOGETHER_S) if changes else {}
    assert found.keys() == expected.keys()
    for name, pairs in found.items():
        assert dict(pairs) == pytest.approx(expected[name], rel=1e-12)
