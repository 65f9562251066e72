"""Planned probes, each with its reason, and the constraints that prevented others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.model.chronon import Chronon, ChrononGrid

Times: TypeAlias = NDArray[np.float64]
"""Unix seconds, ascending."""


@dataclass(frozen=True, slots=True)
class Measures:
    """What ``probes`` probes achieved against ``events`` events; without events, completeness is 1 and delay 0."""

    completeness: float  # captured intervals over all execution intervals, 0 to 1
    # The time from an event to the probe that found it
    mean_delay_s: float
    p95_delay_s: float
    probes: int
    events: int


def measure(
    events_s: Sequence[ArrayLike],
    probes_s: Sequence[ArrayLike],
    *,
    grid: ChrononGrid,
    end_s: float,
    window: int | None = None,
) -> Measures:
    """Return the measures of a schedule over several sources; each has one ascending sequence of events and of probes.

    Parameters
    ----------
    end_s
        End of the time measured, in unix seconds; no event or probe may be later.
    window
        Number of items that a source shows; ``None`` if it shows all.

    Examples
    --------
    >>> measures = measure([[1.0, 3.0], [2.0]], [[2.0, 4.0], []], grid=ChrononGrid(1.0), end_s=10.0)
    >>> round(measures.completeness, 3), round(measures.mean_delay_s, 3), measures.probes, measures.events
    (0.667, 3.333, 2, 3)
    """
    pairs = [(_times(e), _times(p)) for e, p in zip(events_s, probes_s, strict=True)]
    delays = np.concatenate([np.zeros(0), *(delays_s(e, p, end_s=end_s, window=window) for e, p in pairs)])
    intervals = np.concatenate([np.zeros(0, np.bool_), *(captures(e, p, grid=grid) for e, p in pairs)])
    return Measures(
        completeness=float(intervals.mean()) if intervals.size else 1.0,
        mean_delay_s=float(delays.mean()) if delays.size else 0.0,
        p95_delay_s=float(np.quantile(delays, 0.95)) if delays.size else 0.0,
        probes=sum(probes.size for _, probes in pairs),
        events=int(delays.size),
    )


def delays_s(events_s: ArrayLike, probes_s: ArrayLike, *, end_s: float, window: int | None = None) -> Times:
    """Return the time from each event of one source to the first probe at or after it.

    An event that no probe finds counts as delayed until ``end_s``. So does one that ``window`` newer events had pushed
    out of the source before the first probe came.

    Examples
    --------
    >>> delays_s([1.0, 2.0, 5.0], [2.0, 4.0], end_s=9.0)
    array([1., 0., 4.])
    >>> delays_s([1.0, 2.0, 5.0], [2.0, 4.0], end_s=9.0, window=1)
    array([8., 0., 4.])
    """
    events, found = _times(events_s), found_s(events_s, probes_s, window=window)
    return np.where(np.isnan(found), end_s, found) - events


def found_s(events_s: ArrayLike, probes_s: ArrayLike, *, window: int | None = None) -> Times:
    """Return when each event of one source was found, ``nan`` if it was not.

    Examples
    --------
    >>> found_s([1.0, 2.0, 5.0], [2.0, 4.0])
    array([ 2.,  2., nan])
    """
    events, probes = _times(events_s), _times(probes_s)
    found = np.append(probes, np.nan)[np.searchsorted(probes, events, side="left")]
    if window is not None:
        newest = np.searchsorted(events, found, side="right")  # nan sorts last, so nan entries stay nan
        found = np.where(np.arange(events.size) < newest - window, np.nan, found)
    return found


def captures(events_s: ArrayLike, probes_s: ArrayLike, *, grid: ChrononGrid) -> NDArray[np.bool_]:
    """Return which execution intervals of one source a probe captured, under life *overwrite*.

    Events of one chronon are one update. Its interval runs from its chronon to the one before the next update's; the
    last interval has no end. A probe captures the interval if it comes in these chronons and not before the update
    itself: a chronon has room for both, and a probe made before the update did not see it.

    Notes
    -----
    Source: Roitman et al., section 2; the papers' probes come at the end of their chronon.

    Examples
    --------
    Updates in chronons 3, 5, 9 and 12, as in the language's reference, and a probe at 7:

    >>> captures([3.0, 5.0, 9.0, 12.0], [7.0], grid=ChrononGrid(1.0))
    array([False,  True, False, False])
    """
    events, probes = _times(events_s), _times(probes_s)
    start, first = np.unique(_chronons(events, grid), return_index=True)
    deadline = np.append(start[1:] - 1.0, np.inf)[: start.size]
    at = np.append(_chronons(probes, grid), np.nan)[np.searchsorted(probes, events[first], side="left")]
    within: NDArray[np.bool_] = at <= deadline  # false if there is no probe (nan)
    return within


def _chronons(times_s: Times, grid: ChrononGrid) -> Times:
    """Return chronon numbers, which floats hold exactly up to 2**53."""
    return np.array([grid.chronon_at(time_s) for time_s in times_s.tolist()], dtype=np.float64)


def _times(values: ArrayLike) -> Times:
    return np.asarray(values, dtype=np.float64).reshape(-1)


class Reason(Enum):
    """Why a probe is planned."""

    FIRST_CONTACT = "first contact"
    ASKED = "asked for"  # somebody wants it now
    CONFIRMATION = "confirmation"  # the last probe may have found nothing by mistake
    INTERVAL = "execution interval"
    FEEDBACK = "feedback"
    FIXED = "fixed interval"
    EVERY = "longest gap"  # that a rule allows between two probes
    DOE = "optimal schedule"
    OVERFLOW = "full window"  # items may slide off the feed unseen
    DETECTION = "detection"
    COUNTED = "counted items"
    SIBLING = "a sibling changed"
    GOLDEN = "golden ratio"
    MEMORYLESS = "memoryless"
    ADAPTIVE = "adaptive"
    SPEND = "spare budget"
    LEARNING = "first day"  # to learn a new source's rate
    RETRY = "retry"
    SAFETY = "safety"  # tests whether the source's hub still pushes everything


class Constraint(StrEnum):
    """Why a wanted probe is not made now."""

    BACK_OFF = "back-off"
    SOURCE_POLITENESS = "source politeness"
    HOST_POLITENESS = "host politeness"
    HOST_THROTTLED = "throttled host"
    BUDGET = "budget"
    OVERLOAD = "overload"  # this machine can do no more in a chronon
    FRESHNESS = "freshness"


@dataclass(frozen=True, slots=True)
class Probe:
    """One request to one source, planned for one chronon."""

    source_id: str
    chronon: Chronon
    reason: Reason
    rule: str | None = None  # the first rule that it serves, or `None` if it serves only detection
    rate_per_day: float = 0.0  # the source's estimated update rate when the probe was planned, in items a day


@dataclass(frozen=True, slots=True)
class ExecutionInterval:
    """Chronons ``start`` to ``deadline``, both inclusive, in which one probe of ``source_id`` serves ``rule``.

    ``deadline`` is ``None`` while the end is not known (an open interval under life *overwrite*).
    """

    source_id: str
    rule: str
    start: Chronon
    deadline: Chronon | None

    def __post_init__(self) -> None:
        if self.deadline is not None and self.deadline < self.start:
            raise ValueError(f"an interval cannot end at {self.deadline} before it starts at {self.start}")

    def __contains__(self, chronon: object) -> bool:
        return (
            isinstance(chronon, int) and self.start <= chronon and (self.deadline is None or chronon <= self.deadline)
        )
