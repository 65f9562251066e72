"""Execution intervals as arrays, and the schedule that probes form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.model.chronon import Chronon
from proxyd.core.model.schedule import ExecutionInterval

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

OPEN = np.int64(2**62)
"""The deadline of an interval whose end is not known, and the chronon at which one that is missed is captured."""


@dataclass(frozen=True, slots=True)
class CaptureSchedule:
    """Probes as (source, chronon), the number of intervals they capture, and the total delay from start to capture.

    Parameters
    ----------
    exact
        Whether no schedule is better at the stated objective; otherwise ``bound`` limits how much better one may be.
    weight
        Total weight of the captured intervals, 1 each if no weights were given.
    bound
        No schedule captures more weight than this; ``None`` if nothing is known except that the schedule is ``exact``.
    """

    probes: tuple[tuple[str, Chronon], ...]
    captured: int
    delay: int
    exact: bool = True
    weight: float = 0.0
    bound: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Spans:
    """Intervals as arrays, all of shape (E,): index of the source, first and last chronon.

    Parameters
    ----------
    sources
        Indices into ``names``, which are sorted.
    deadlines
        ``OPEN`` if the end is not known.
    """

    names: tuple[str, ...]
    sources: Ints
    starts: Ints
    deadlines: Ints

    @classmethod
    def of(cls, intervals: Iterable[ExecutionInterval]) -> Spans:
        """Return the arrays of ``intervals``, in the given order.

        >>> spans = Spans.of([ExecutionInterval("b", "r", 0, 4), ExecutionInterval("a", "r", 2, 3)])
        >>> spans.names, spans.sources.tolist(), spans.starts.tolist()
        (('a', 'b'), [1, 0], [0, 2])
        """
        given = intervals if isinstance(intervals, Sequence) else list(intervals)
        own = [interval.source_id for interval in given]
        names = tuple(sorted(set(own)))
        number = {name: n for n, name in enumerate(names)}
        ends = [OPEN if interval.deadline is None else interval.deadline for interval in given]
        return cls(
            names,
            np.array([number[name] for name in own], dtype=np.int64),
            np.array([interval.start for interval in given], dtype=np.int64),
            np.array(ends, dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def first_captures(self, sources: Ints, chronons: Ints) -> Ints:
        """Return for each interval the chronon of the first probe that captures it, or ``OPEN`` if none does.

        Parameters
        ----------
        sources, chronons
            Source and chronon of each probe, in any order, equal shapes.
        """
        if not len(self) or not len(sources):
            return np.full(len(self), OPEN)
        low = int(min(self.starts.min(), chronons.min()))
        width = int(max(self.starts.max(), chronons.max())) - low + 1
        keys = np.unique(timeline(sources, chronons - low, width))
        at = np.searchsorted(keys, timeline(self.sources, self.starts - low, width))
        source, chronon = np.divmod(np.append(keys, -1)[at], width)
        served = (source == self.sources) & (chronon + low <= self.deadlines)
        return np.where(served, chronon + low, OPEN)

    def schedule(
        self, sources: Ints, chronons: Ints, *, exact: bool, weights: Floats | None = None, bound: float | None = None
    ) -> CaptureSchedule:
        """Return the schedule of these probes with all that it captures; equal probes count once."""
        at = self.first_captures(sources, chronons)
        caught = at < OPEN
        weight = float(np.sum(caught if weights is None else weights[caught]))
        order = np.lexsort((sources, chronons))
        probes = dict.fromkeys(
            zip((self.names[n] for n in sources[order].tolist()), chronons[order].tolist(), strict=True)
        )
        delay = int(np.sum(at[caught] - self.starts[caught]))
        return CaptureSchedule(tuple(probes), int(np.count_nonzero(caught)), delay, exact, weight, bound)


def timeline(sources: Ints, times: Ints, width: int) -> Ints:
    """Return positions on one line that holds the time of every source, ``width`` chronons for each.

    Raises
    ------
    ValueError
        The line would be longer than 2 ** 62.
    """
    if len(sources) and (int(sources.max()) + 1) * width >= 2**62:
        raise ValueError(f"{int(sources.max()) + 1} sources of {width} chronons are too many to number")
    return sources * np.int64(width) + times


def are_disjoint(sources: Ints, first: Ints, last: Ints) -> bool:
    """Return whether no two intervals of one source share a chronon."""
    order = np.lexsort((first, sources))
    same = np.diff(sources[order]) == 0
    return not bool(np.any(same & (first[order][1:] <= last[order][:-1])))


def check_weights(weights: ArrayLike | None, count: int) -> Floats:
    """Return the weights as an array of shape (count,), 1 each for ``None``.

    Raises
    ------
    ValueError
        There are not ``count`` weights, or one is negative or not finite.
    """
    if weights is None:
        return np.ones(count)
    found = np.asarray(weights, dtype=np.float64)
    if found.shape != (count,):
        raise ValueError(f"{count} intervals need as many weights, not {found.size}")
    if not np.all(np.isfinite(found)) or np.any(found < 0):
        raise ValueError("weights must be finite and not negative")
    return found
