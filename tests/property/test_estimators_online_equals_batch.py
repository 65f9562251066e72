"""What an estimator learned probe by probe is what the whole evidence says at once, at every prefix."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.rates.rate_blend import (
    NO_EVIDENCE,
    Blend,
    ChangedBit,
    Evidence,
    ItemCount,
    ItemTimes,
    RateEvidence,
    posterior_means,
)

HALF_LIFE_S = 1000.0
DECAY = log(2) / HALF_LIFE_S
NOTHING = RateEvidence((0.0,), (0.0,))


def posterior(known: RateEvidence) -> float:
    """Return the rate by the only half-life, without the weights of a blend."""
    return float(posterior_means(known.events, known.exposure_s, 1.0 / 86400.0)[0])


def batch(evidence: list[Evidence]) -> tuple[float, float]:
    """Weigh every item and every moment by its age at the end, by definition: sums and a fine integral."""
    end_s = evidence[-1].until_s
    events = exposure = 0.0
    for one in evidence:
        if isinstance(one, ItemTimes):
            events += sum(exp(-DECAY * (end_s - t)) for t in one.times_s)
        elif isinstance(one, ItemCount):
            events += one.count * exp(-DECAY * (end_s - one.until_s))
        edges = np.linspace(one.since_s, one.until_s, 2001)
        middles = (edges[1:] + edges[:-1]) / 2
        exposure += float(np.sum(np.exp(-DECAY * (end_s - middles))) * (edges[1] - edges[0]))
    return events, exposure


@st.composite
def histories(draw: st.DrawFn) -> list[Evidence]:
    now = 0.0
    found: list[Evidence] = []
    for _ in range(draw(st.integers(1, 8))):
        until = now + draw(st.floats(1.0, 900.0))
        if draw(st.booleans()):
            times = sorted(draw(st.lists(st.floats(now, until), max_size=5)))
            found.append(ItemTimes(now, until, tuple(times)))
        else:
            found.append(ItemCount(now, until, draw(st.integers(0, 9))))
        now = until
    return found


@given(histories())
def test_a_half_life_online_equals_batch_at_every_prefix(history: list[Evidence]) -> None:
    blend, known = Blend(half_lives_s=[HALF_LIFE_S]), NOTHING
    for length, one in enumerate(history, 1):
        known = blend.seen(known, one)
        events, exposure = batch(history[:length])
        assert known.events == pytest.approx((events,), rel=1e-6, abs=1e-9)
        assert known.exposure_s == pytest.approx((exposure,), rel=1e-4)


@pytest.mark.parametrize("kind", ["times", "counts", "bits"])
@pytest.mark.parametrize("per_gap", [0.3, 3.0])
def test_a_half_life_converges_on_a_known_rate(kind: str, per_gap: float) -> None:
    """With bits at 3 items a gap, taking each change for one item would be 68 % too low."""
    rng = np.random.default_rng(7)
    estimates: list[float] = []
    blend, known, gap_s, now = Blend(half_lives_s=[5_000.0]), NOTHING, 10.0, 0.0
    for _ in range(6000):
        times = np.sort(rng.uniform(now, now + gap_s, rng.poisson(per_gap)))
        evidence: Evidence
        if kind == "times":
            evidence = ItemTimes(now, now + gap_s, tuple(times))
        elif kind == "counts":
            evidence = ItemCount(now, now + gap_s, len(times))
        else:
            evidence = ChangedBit(now, now + gap_s, len(times) > 0)
        if known is not NOTHING:
            blend.weigh(known, evidence)
        before, known = known, blend.seen(known, evidence)
        blend.replace(before, known)
        now += gap_s
        estimates.append(posterior(known))
    assert np.mean(estimates[-3000:]) == pytest.approx(per_gap / gap_s, rel=0.2 if kind == "bits" else 0.05)


def test_evidence_ages_towards_the_prior() -> None:
    blend = Blend(0.01, half_lives_s=[HALF_LIFE_S])
    known = blend.seen(NOTHING, ItemCount(0.0, 100.0, 100))
    assert blend.rate_per_s(known, 100.0) > 0.15  # half of the weight is the population's
    assert blend.rate_per_s(known, 100.0 + 20 * HALF_LIFE_S) == pytest.approx(0.01, rel=0.01)


def test_an_expectation_of_the_author_stands_in_for_the_population() -> None:
    blend = Blend(0.01, half_lives_s=[HALF_LIFE_S])
    assert blend.rate_per_s(NOTHING, 0.0, expect_per_s=0.5) == pytest.approx(0.5)


def test_a_full_window_counts_as_at_least_its_items() -> None:
    full = ItemCount(0.0, 100.0, 20, at_least=True)
    assert Blend(0.01, half_lives_s=[1e9]).seen(NOTHING, full).events == (20.0,)
    assert Blend(5.0, half_lives_s=[1e9]).seen(NOTHING, full).events == pytest.approx((500.0,))


def test_evidence_without_a_duration_adds_nothing() -> None:
    assert Blend(half_lives_s=[HALF_LIFE_S]).seen(NOTHING, ItemCount(5.0, 5.0, 3)) is NOTHING


@pytest.mark.parametrize("counts", [[0] * 20, [1] * 20, [500] * 20, [0] * 19 + [500]], ids=str)
@pytest.mark.parametrize("gap_s", [1e-3, 1.0, 1e7])
def test_the_rate_is_finite_and_not_negative(counts: list[int], gap_s: float) -> None:
    blend, known = Blend(half_lives_s=[HALF_LIFE_S]), NOTHING
    for k, count in enumerate(counts):
        known = blend.seen(known, ItemCount(gap_s * k, gap_s * (k + 1), count))
    assert 0 <= blend.rate_per_s(known, 20 * gap_s) < np.inf


def test_ages_of_silence_and_late_evidence_are_fine() -> None:
    """Evidence a million half-lives apart, then some of before, which is worth nothing where evidence ages."""
    blend, known = Blend(half_lives_s=[HALF_LIFE_S]), NOTHING
    for since_s in (*range(0, 300, 10), 5e9, *range(0, 300, 10)):
        known = blend.seen(known, ItemCount(float(since_s), since_s + 10.0, 1))
    assert 0 <= blend.rate_per_s(known, 5e9) < np.inf


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 1e6)), max_size=10))
def test_the_population_is_the_sum_of_its_sources(sources: list[tuple[float, float]]) -> None:
    blend, old = Blend(), NO_EVIDENCE
    for events, exposure_s in sources:
        new = RateEvidence((events,) * 4, (exposure_s,) * 4)
        blend.replace(old, new)
        old = new
    alone = Blend()
    alone.replace(NO_EVIDENCE, old)
    assert blend.mean_per_s == pytest.approx(alone.mean_per_s)
