"""The completeness and delay of a schedule for each profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.capture.spans import OPEN, CaptureSchedule, Spans


@dataclass(frozen=True, slots=True)
class ProfileMeasures:
    """The measures of a schedule for one profile.

    Parameters
    ----------
    delay
        Total over the captured intervals, in chronons.

    Examples
    --------
    >>> ProfileMeasures(intervals=4, captured=2, delay=6).mean_delay
    3.0
    """

    intervals: int
    captured: int
    delay: int

    @property
    def completeness(self) -> float:
        """Captured intervals as a share of all, 0 to 1."""
        return self.captured / self.intervals

    @property
    def mean_delay(self) -> float:
        """Chronons from start to capture, averaged over the captured intervals; 0 if there are none."""
        return self.delay / self.captured if self.captured else 0.0


@dataclass(frozen=True, slots=True)
class CaptureReport:
    """The measures of every profile with an interval, by name, and of all together.

    Examples
    --------
    >>> report = CaptureReport({"p": ProfileMeasures(2, 1, 4), "q": ProfileMeasures(2, 2, 0)})
    >>> report.completeness, report.average_delay
    (0.75, 2.0)
    """

    profiles: Mapping[str, ProfileMeasures]

    @property
    def completeness(self) -> float:
        """The paper's N_ratio: captured intervals as a share of all, 0 to 1; 1 if there are none."""
        total = sum(measures.intervals for measures in self.profiles.values())
        return sum(measures.captured for measures in self.profiles.values()) / total if total else 1.0

    @property
    def average_delay(self) -> float:
        """The paper's D_avg: the profiles' total delays in chronons, averaged over the profiles."""
        total = sum(measures.delay for measures in self.profiles.values())
        return total / len(self.profiles) if self.profiles else 0.0


def per_profile(
    intervals: Iterable[ExecutionInterval], schedule: CaptureSchedule, *, profiles: Mapping[str, str] | None = None
) -> CaptureReport:
    """Return completeness and delay of each profile; an interval is captured by the first probe inside it.

    Parameters
    ----------
    profiles
        The profile of each rule; a rule that it does not name is its own profile.

    Notes
    -----
    Source: Roitman, Gal and Raschid, section III B. D_avg is the average of the profiles' *total* delays.

    Examples
    --------
    >>> found = [("a", "p", 0, 3), ("b", "p", 0, 3), ("b", "q", 1, 2)]
    >>> intervals = [ExecutionInterval(*interval) for interval in found]
    >>> report = per_profile(intervals, CaptureSchedule((("b", 2),), 2, 3))
    >>> report.profiles["p"].completeness, report.profiles["q"].mean_delay, report.average_delay
    (0.5, 1.0, 1.5)
    """
    given = list(intervals)
    spans = Spans.of(given)
    number = {name: n for n, name in enumerate(spans.names)}
    probes = [(number[source], chronon) for source, chronon in schedule.probes if source in number]
    pairs = np.array(probes, dtype=np.int64).reshape(-1, 2)
    at = spans.captured_at(pairs[:, 0], pairs[:, 1])
    named = profiles or {}
    names, owner = np.unique([named.get(interval.rule, interval.rule) for interval in given], return_inverse=True)
    caught = at < OPEN
    delays = np.where(caught, at - spans.starts, 0)
    count = len(names)
    columns = (
        np.bincount(owner, minlength=count),
        np.bincount(owner, weights=caught, minlength=count),
        np.bincount(owner, weights=delays, minlength=count),
    )
    rows = zip(*(column.astype(np.int64).tolist() for column in columns), strict=True)
    return CaptureReport({str(name): ProfileMeasures(*row) for name, row in zip(names, rows, strict=True)})
