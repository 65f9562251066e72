"""Update traces: the update times of sources."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from proxyd.core.errors import TraceError

if TYPE_CHECKING:
    from _csv import Reader

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trace:
    """Update events of several sources.

    Parameters
    ----------
    sources
        Names, in the order of ``events_s``.
    events_s
        Unix seconds of each source's events, ascending.

    Examples
    --------
    >>> trace = Trace(("a", "b"), (np.array([1.0, 4.0]), np.array([2.0])))
    >>> len(trace), trace.start_s, trace.stop_s
    (3, 1.0, 4.0)
    """

    sources: tuple[str, ...]
    events_s: tuple[Floats, ...]

    @classmethod
    def of(cls, events_s: Sequence[ArrayLike]) -> Trace:
        """Return a trace of unnamed sources; their events are sorted.

        >>> Trace.of([[2.0, 1.0]]).events_s
        (array([1., 2.]),)
        """
        times = tuple(np.sort(np.asarray(events, dtype=np.float64).reshape(-1)) for events in events_s)
        return cls(tuple(f"source{number:04d}" for number in range(len(times))), times)

    def __len__(self) -> int:
        return sum(times.size for times in self.events_s)

    @property
    def start_s(self) -> float:
        """Time of the first event; raises ``ValueError`` for a trace without events."""
        return min(float(times[0]) for times in self.events_s if times.size)

    @property
    def stop_s(self) -> float:
        """Time of the last event."""
        return max(float(times[-1]) for times in self.events_s if times.size)


def parse_trace(lines: Iterable[str], *, name: str) -> Trace:
    """Return the trace in CSV lines: a header ``source,timestamp``, then one event per line, in any order.

    Parameters
    ----------
    name
        Name of the lines' source, for messages.

    Raises
    ------
    TraceError
        A line is not a source and a number of seconds; the message gives the line.

    Examples
    --------
    >>> parse_trace(["source,timestamp", "a,2", "b,1", "a,1.5"], name="t.csv").events_s
    (array([1.5, 2. ]), array([1.]))
    """
    rows = csv.reader(lines)
    try:
        return _trace_of(rows, name)
    except csv.Error as error:
        raise TraceError(f"it is not CSV ({error})", file=name, line=max(1, rows.line_num)) from error


def _trace_of(rows: Reader, name: str) -> Trace:
    header = next(rows, None)
    if header is None or [field.strip() for field in header] != ["source", "timestamp"]:
        raise TraceError("expected the header source,timestamp", file=name, line=1)
    events: dict[str, list[float]] = {}
    for row in rows:
        if row:
            source, time_s = _event(row, name, rows.line_num)
            events.setdefault(source, []).append(time_s)
    if not events:
        raise TraceError("there are no events; add lines such as feed1,1700000000", file=name, line=2)
    return Trace(tuple(events), tuple(np.sort(np.array(times)) for times in events.values()))


def _event(row: list[str], file: str, line: int) -> tuple[str, float]:
    if len(row) != 2:
        raise TraceError(f"expected a source and a timestamp, found {len(row)} fields", file=file, line=line)
    try:
        time_s = float(row[1])
    except ValueError:
        time_s = nan
    if not isfinite(time_s):
        raise TraceError(f"{row[1]!r} is not a time in unix seconds", file=file, line=line)
    source = row[0].strip()
    if not source:
        raise TraceError("the source is empty; write a name", file=file, line=line)
    return source, time_s
