from __future__ import annotations

from math import inf, log

import numpy as np
import pytest
from numpy.typing import NDArray

from proxyd.core.rates.gamma_poisson import GammaRate
from proxyd.lab.estimators.drift import THRESHOLD, Alarm, DriftDetector, candidates, drift_scores, forget_to, scan_drift

PER_DAY = 6


def days_to_alarm(before: float, after: float, rng: np.random.Generator) -> float:
    """Return how long a change after 60 days stays unseen, in days; at most 100."""
    detector = DriftDetector()
    for events in rng.poisson(before / PER_DAY, 60 * PER_DAY):
        detector.update(float(events), 1 / PER_DAY)
    for probe, events in enumerate(rng.poisson(after / PER_DAY, 100 * PER_DAY), 1):
        if detector.update(float(events), 1 / PER_DAY):
            return probe / PER_DAY
    return 100.0


@pytest.mark.parametrize(
    ("before", "after", "days"),
    [(10.0, 20.0, 5.0), (10.0, 0.0, 1.5), (10.0, 5.0, 16.0), (100.0, 200.0, 1.0), (1.0, 0.0, 16.0), (1.0, 10.0, 2.0)],
)
def test_a_change_is_found_within_days(before: float, after: float, days: float) -> None:
    rng = np.random.default_rng(6)
    assert np.quantile([days_to_alarm(before, after, rng) for _ in range(40)], 0.9) <= days


class ManyDetectors:
    """The detectors of many sources in step, over arrays; one that alarms starts again from its suffix."""

    def __init__(self, sources: int, probes: int) -> None:
        self.sums = np.zeros((2, sources, probes + 2))
        self.lengths = np.zeros(sources, dtype=np.intp)
        self.rows = np.arange(sources)

    def update(self, events: NDArray[np.int64], exposure_s: float) -> int:
        """Return how many alarm."""
        last = self.sums[:, self.rows, self.lengths]
        self.lengths += 1
        self.sums[:, self.rows, self.lengths] = last + np.stack([events, np.full(len(events), exposure_s)])
        return sum(self.scan(length) for length in np.unique(self.lengths).tolist())

    def scan(self, length: int) -> int:
        points = candidates(length)
        if not len(points):
            return 0
        rows = np.flatnonzero(self.lengths == length)
        before = self.sums[:, rows][:, :, points]
        total = self.sums[:, rows, length]
        scores = drift_scores(before[0], before[1], total[0][:, None], total[1][:, None])
        best = np.argmax(scores, axis=1)
        alarmed = np.flatnonzero(scores[np.arange(len(rows)), best] >= THRESHOLD)
        self.sums[:, rows[alarmed], 1] = total[:, alarmed] - before[:, alarmed, best[alarmed]]
        self.lengths[rows[alarmed]] = 1
        return len(alarmed)


@pytest.mark.parametrize("rate_per_day", [0.1, 1.0, 10.0, 100.0])
def test_a_source_year_has_at_most_one_false_alarm(rate_per_day: float) -> None:
    """200 source-years of probes every four hours."""
    rng = np.random.default_rng(8)
    detectors = ManyDetectors(200, 365 * PER_DAY)
    events = rng.poisson(rate_per_day / PER_DAY, (365 * PER_DAY, 200))
    alarms = sum(detectors.update(counts, 1 / PER_DAY) for counts in events)
    assert alarms / 200 < 0.4


def test_many_detectors_are_as_each_alone() -> None:
    rng = np.random.default_rng(9)
    events = np.concatenate([rng.poisson(3.0, (150, 8)), rng.poisson(9.0, (100, 8))])
    detectors, alone = ManyDetectors(8, 250), [DriftDetector() for _ in range(8)]
    for counts in events:
        alarms = [one.update(float(count), 0.25) for one, count in zip(alone, counts, strict=True)]
        assert detectors.update(counts, 0.25) == sum(alarm is not None for alarm in alarms)


def test_memory_grows_with_the_logarithm() -> None:
    detector = DriftDetector(threshold=inf)
    for _ in range(5000):
        detector.update(1.0, 1.0)
    assert len(detector._sums) == len(candidates(5000)) + 1 < 50


def test_the_change_point_and_both_rates_are_told() -> None:
    alarm = scan_drift([2.0] * 40 + [0.0] * 8, [10.0] * 48)
    assert alarm is not None
    assert (alarm.before_per_s, alarm.after_per_s, alarm.events, alarm.exposure_s) == (0.2, 0.0, 0.0, 80.0)
    assert alarm.score == pytest.approx(80 * log(48 / 40))


def test_a_score_is_what_two_rates_gain_over_one() -> None:
    def likely(events: float, exposure_s: float) -> float:
        return events * log(events / exposure_s) - events

    expected = likely(7.0, 30.0) + likely(12.0, 20.0) - likely(19.0, 50.0)
    assert drift_scores(7.0, 30.0, 19.0, 50.0) == pytest.approx(expected)


def test_probes_without_a_duration_add_nothing() -> None:
    detector = DriftDetector()
    for _ in range(100):
        assert detector.update(1.0, 1.0) is None
        assert detector.update(50.0, 0.0) is None
    assert scan_drift([1.0, 50.0] * 100, [1.0, 0.0] * 100) is None
    assert scan_drift([], []) is None
    assert scan_drift([5.0], [1.0]) is None


@pytest.mark.parametrize(("events", "exposure_s"), [(-1.0, 1.0), (float("nan"), 1.0), (inf, 1.0), (1.0, inf)])
def test_impossible_evidence_is_refused(events: float, exposure_s: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        DriftDetector().update(events, exposure_s)


def test_after_a_stop_the_rate_follows_within_days() -> None:
    """300 items in 30 days, then 2 days of nothing: the old evidence counts as 2 items."""
    rate = GammaRate(1e9, events=300.0, exposure_s=32.0, as_of_s=0.0)
    forget_to(rate, alarm=Alarm(10.0, 0.0, events=0.0, exposure_s=2.0, score=20.0))
    assert [rate.events, rate.exposure_s] == pytest.approx([2.0, 2.2])


def test_a_long_silence_is_dropped_too() -> None:
    """A year of nothing, then 10 a day: the silence is no longer than what would bring 2 items now."""
    rate = GammaRate(1e9, events=10.0, exposure_s=366.0, as_of_s=0.0)
    forget_to(rate, alarm=Alarm(0.0, 10.0, events=10.0, exposure_s=1.0, score=50.0))
    assert [rate.events, rate.exposure_s] == pytest.approx([10.0, 1.2])


def test_without_an_alarm_all_is_old() -> None:
    rate, small, empty = GammaRate(1e9, 50.0, 100.0, 0.0), GammaRate(1e9, 1.0, 100.0, 0.0), GammaRate(1e9)
    for one in (rate, small, empty):
        forget_to(one, events=5.0)
    assert (rate.events, rate.exposure_s) == (5.0, 10.0)
    assert (small.events, small.exposure_s) == (1.0, 100.0)
    assert (empty.events, empty.exposure_s) == (0.0, 0.0)


def test_what_the_rate_has_discounted_is_not_new_again() -> None:
    rate = GammaRate(10.0, events=3.0, exposure_s=5.0, as_of_s=0.0)
    forget_to(rate, alarm=Alarm(1.0, 0.5, events=8.0, exposure_s=16.0, score=12.0))
    assert (rate.events, rate.exposure_s) == (3.0, 5.0)
