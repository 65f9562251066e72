"""The laws of the update models."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxyd.core.errors import ModelError
from proxyd.core.model.chronon import Epoch
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.lab.traces import (
    MODELS,
    MONDAY_S,
    STEADY,
    UpdateModel,
    Week,
    burst_events,
    drifting_events,
    model_trace,
    noisy_updates,
    poisson_events,
    working_week,
)

EPOCH = Epoch(10, 1010)


def generator(seed: int = 1) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def counts(
    model: UpdateModel, runs: int, rate_per_s: float, stop_s: float
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    rng = generator()
    return np.array([len(model(rate_per_s, STEADY, start_s=0.0, stop_s=stop_s, rng=rng)) for _ in range(runs)])


@given(st.lists(st.integers(10, 1009)).map(sorted), st.integers(0, 2**32))
def test_noise_that_keeps_everything_changes_nothing(updates: list[int], seed: int) -> None:
    given_updates = np.array(updates, dtype=np.int64)
    assert noisy_updates(given_updates, 1.0, epoch=EPOCH, rng=generator(seed)).tolist() == updates


@given(st.lists(st.integers(10, 1009)), st.floats(0.0, 1.0), st.integers(0, 2**32))
def test_noise_keeps_the_number_of_updates_their_order_and_the_epoch(
    updates: list[int], kept: float, seed: int
) -> None:
    noisy = noisy_updates(np.array(updates, dtype=np.int64), kept, epoch=EPOCH, rng=generator(seed))
    assert len(noisy) == len(updates)
    assert np.all(np.diff(noisy) >= 0)
    assert all(int(chronon) in EPOCH for chronon in noisy)


@pytest.mark.parametrize("kept", [0.8, 0.6, 0.4, 0.0])
def test_noise_keeps_updates_with_the_probability_it_is_given(kept: float) -> None:
    # every update at one chronon: what is found elsewhere has moved, and hardly a moved one comes back
    noisy = noisy_updates(np.full(20000, 500), kept, epoch=EPOCH, rng=generator())
    assert np.mean(noisy == 500) == pytest.approx(kept, abs=0.012)
    moved = noisy[noisy != 500]
    assert moved.mean() == pytest.approx(509.5, abs=12)


def test_noise_needs_a_probability() -> None:
    with pytest.raises(ValueError, match="probability"):
        noisy_updates(np.array([11]), 1.2, epoch=EPOCH, rng=generator())


@pytest.mark.parametrize("model", [poisson_events, burst_events, drifting_events])
def test_each_model_has_the_rate_it_is_given(model: UpdateModel) -> None:
    runs, rate, stop = 300, 0.05, 40000.0
    found = counts(model, runs, rate, stop)
    assert found.mean() == pytest.approx(rate * stop, rel=0.05)


@pytest.mark.parametrize("model", [poisson_events, burst_events, drifting_events])
@given(st.floats(-50.0, 50.0), st.floats(0.0, 60.0), st.integers(0, 2**32))
def test_events_ascend_within_their_time(model: UpdateModel, start_s: float, length_s: float, seed: int) -> None:
    week = Week(7.0, (2.0, 1.0), phase_s=1.5)
    times = model(3.0, week, start_s=start_s, stop_s=start_s + length_s, rng=generator(seed))
    assert np.all(np.diff(times) >= 0.0)
    assert np.all((times >= start_s) & (times <= start_s + length_s))


@pytest.mark.parametrize("model", sorted(MODELS))
def test_the_same_seed_gives_the_same_events(model: str) -> None:
    first, second = (MODELS[model](3.0, STEADY, start_s=0.0, stop_s=50.0, rng=generator(7)).tolist() for _ in range(2))
    assert first == second


def test_counts_of_bursts_vary_as_the_clusters_say_and_those_of_poisson_do_not() -> None:
    def bursts(
        rate_per_s: float, week: Week, *, start_s: float, stop_s: float, rng: np.random.Generator
    ) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return burst_events(rate_per_s, week, start_s=start_s, stop_s=stop_s, rng=rng, children=3.0, delay_s=10.0)

    plain, clustered = counts(poisson_events, 2000, 0.05, 4000.0), counts(bursts, 2000, 0.05, 4000.0)
    assert plain.var() / plain.mean() == pytest.approx(1.0, rel=0.12)
    assert clustered.var() / clustered.mean() == pytest.approx(1 + 2 * 3.0, rel=0.12)


def test_bursts_without_children_are_a_poisson_process() -> None:
    plain = poisson_events(0.5, STEADY, start_s=-200.0, stop_s=100.0, rng=generator(3))
    alone = burst_events(0.5, STEADY, start_s=0.0, stop_s=100.0, rng=generator(3), children=0.0, delay_s=10.0)
    assert alone.tolist() == plain[plain >= 0.0].tolist()


def test_children_follow_their_parents_by_the_mean_delay() -> None:
    # parents are rare, so events after the first of a burst are its children
    times = burst_events(1e-4, Week(4e7, (1.0,)), start_s=0.0, stop_s=4e7, rng=generator(), children=1.0, delay_s=5.0)
    gaps = np.diff(times)
    assert gaps[gaps < 100.0].mean() < 10.0
    assert np.mean(gaps < 100.0) == pytest.approx(0.5, abs=0.1)


def weekly_counts(volatility: float, runs: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    rng = generator()
    edges = np.arange(13.0)
    return np.array(
        [
            np.histogram(
                drifting_events(2000.0, STEADY, start_s=0.0, stop_s=12.0, rng=rng, volatility=volatility, step_s=1.0),
                bins=edges,
            )[0]
            for _ in range(runs)
        ]
    )


def test_the_logarithm_of_a_drifting_rate_takes_steps_of_the_volatility() -> None:
    steps = np.diff(np.log(weekly_counts(0.3, 60)), axis=1)
    assert steps.std() == pytest.approx(np.hypot(0.3, np.sqrt(2 / 2000)), rel=0.1)
    assert np.corrcoef(steps[:, :-1].ravel(), steps[:, 1:].ravel())[0, 1] == pytest.approx(0.0, abs=0.12)


def test_a_rate_without_volatility_does_not_drift() -> None:
    found = weekly_counts(0.0, 20)
    assert found.var() / found.mean() == pytest.approx(1.0, rel=0.25)


@pytest.mark.parametrize("wrong", [{"children": -1.0}, {"delay_s": 0.0}])
def test_bursts_refuse_what_does_not_fit(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="bursts need"):
        burst_events(1.0, STEADY, start_s=0.0, stop_s=1.0, rng=generator(), **wrong)


def test_drift_refuses_a_negative_volatility() -> None:
    with pytest.raises(ValueError, match="volatility"):
        drifting_events(1.0, STEADY, start_s=0.0, stop_s=1.0, rng=generator(), volatility=-0.1)


def test_a_model_trace_has_zipf_rates_and_a_working_week() -> None:
    trace = model_trace("poisson", sources=50, weeks=20, rng=generator(), rate_per_week=20.0)
    assert len(trace) == pytest.approx(50 * 20 * 20, rel=0.03)
    assert trace.sources[:2] == ("poisson0000", "poisson0001")
    sizes = [times.size for times in trace.events_s]
    assert sizes[0] / sizes[9] == pytest.approx(10.0, rel=0.2)
    hours = np.concatenate(trace.events_s) % WEEK_S
    hours = (hours - MONDAY_S % WEEK_S) % WEEK_S / 3600.0
    at_work = (hours < 120) & (hours % 24 >= 8) & (hours % 24 < 18)
    share = 50 / (50 + 0.2 * 118)
    assert at_work.mean() == pytest.approx(share, abs=0.02)


def test_a_mix_shares_the_sources_evenly() -> None:
    trace = model_trace("poisson + bursts+drift", sources=8, weeks=1, rng=generator())
    parts = [name.rstrip("0123456789") for name in trace.sources]
    assert [parts.count(name) for name in ("poisson", "bursts", "drift")] == [3, 3, 2]
    twice = model_trace("drift+drift", sources=5, weeks=1, rng=generator())
    assert twice.sources == tuple(f"drift{rank:04d}" for rank in range(5))


@pytest.mark.parametrize("name", ["", "poison", "poisson+", "poisson,bursts"])
def test_a_model_that_is_not_known_is_named_with_those_that_are(name: str) -> None:
    with pytest.raises(ModelError, match="there are bursts, drift and poisson"):
        model_trace(name, sources=3, weeks=1, rng=generator())


def test_a_trace_needs_a_source_for_each_model() -> None:
    with pytest.raises(ModelError, match="at least one source"):
        model_trace("poisson+bursts", sources=1, weeks=1, rng=generator())


def test_the_working_week_has_its_hours() -> None:
    week = working_week(night=0.0, weekend=0.0)
    assert sum(week.factors) == 50
