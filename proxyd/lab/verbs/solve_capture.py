"""The schedules of `solve edf` and `solve sup`: the most that a budget captures, and what it captured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from proxyd.core.planning.capture.capacity import Capacity
from proxyd.core.planning.capture.earliest_deadline import edf
from proxyd.core.planning.capture.spans import CaptureSchedule
from proxyd.lab.algorithms.overlapping_capture import greedy_capture, most_weight
from proxyd.lab.verbs.csv_files import CsvIntervals

_CERTIFIED_CHRONONS = 2_000_000


def most_captured(intervals: CsvIntervals, capacity: Capacity) -> CaptureSchedule:
    """Return the schedule that captures most intervals or weight; if that is hard, a greedy one with a bound."""
    given, weights = intervals.given, intervals.weights
    if weights is None or np.all(weights == weights[0]):
        found = _weighed(edf(given, capacity), 1.0 if weights is None else float(weights[0]))
    else:
        found = most_weight(given, weights, capacity)
    if found.exact:
        return found
    ends = [interval.start if interval.deadline is None else interval.deadline for interval in given]
    lengths = sum(end - interval.start + 1 for interval, end in zip(given, ends, strict=True))
    greedy = greedy_capture(given, capacity, weights, certify=lengths <= _CERTIFIED_CHRONONS)
    best = max(greedy, found, key=lambda schedule: (schedule.weight, -schedule.delay))
    bound = greedy.bound
    exact = bound is not None and best.weight >= bound - 1e-9 * max(1.0, bound)
    return CaptureSchedule(best.probes, best.captured, best.delay, exact, best.weight, bound)


def _weighed(found: CaptureSchedule, weight: float) -> CaptureSchedule:
    """Return the schedule with this weight for every interval."""
    bound = None if found.bound is None else found.bound * weight
    return replace(found, weight=found.weight * weight, bound=bound)


def captured_weight(found: CaptureSchedule, intervals: CsvIntervals) -> float:
    """Return the weight that the schedule captures, according to the file."""
    probed: dict[str, list[int]] = {}
    for source, chronon in found.probes:
        probed.setdefault(source, []).append(chronon)
    weights = np.ones(len(intervals.given)) if intervals.weights is None else intervals.weights
    served = 0.0
    for interval, weight in zip(intervals.given, weights.tolist(), strict=True):
        chronons = np.array(probed.get(interval.source_id, []))
        at = int(np.searchsorted(chronons, interval.start))
        if at < len(chronons) and int(chronons[at]) in interval:
            served += weight
    return served


def fits(found: CaptureSchedule, capacity: Capacity) -> bool:
    """Return whether the schedule keeps to the capacity."""
    chronons = np.array([chronon for _, chronon in found.probes], dtype=np.int64) - capacity.epoch.start
    used = np.bincount(chronons, minlength=len(capacity.epoch))
    return bool(np.all(used <= capacity.probes))
