"""What is replayed: the events of a trace, or of a model of one."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from proxyd.errors import InvalidScheduleError, TraceError
from proxyd.model.chronon import ChrononGrid
from proxyd.simulate.models import model_trace
from proxyd.simulate.trace import Trace, parse_trace

_MODEL_WEEKS = 16


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Events, and what goes with them.

    Parameters
    ----------
    start_s, stop_s
        The test; ``start_s`` begins a chronon.
    known_from_s
        Since when each source's events are known; since the first of all where ``None``.
    probes_per_source_week
        Budget where none is asked for.
    facts, notes
        How well the events are known: for JSON, and for people.
    """

    trace: Trace
    start_s: float
    stop_s: float
    known_from_s: NDArray[np.float64] | None = None
    probes_per_source_week: float | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def history_start_s(self) -> float:
        """When the history begins, not after the test."""
        known_s = self.trace.start_s if self.known_from_s is None else float(self.known_from_s.min())
        return min(known_s, self.start_s)


def given_events(options: argparse.Namespace, grid: ChrononGrid) -> Given:
    """Return the events of a trace, or of a model of one."""
    trace = _trace(options)
    start_s = begin_s(options.test_from, trace.stop_s, lambda: (trace.start_s + trace.stop_s) / 2)
    return Given(trace, grid.start_s(grid.chronon_at(start_s)), trace.stop_s)


def _trace(options: argparse.Namespace) -> Trace:
    if options.trace is None:
        rng = np.random.Generator(np.random.PCG64(options.seed))
        return model_trace(options.model, sources=options.sources, weeks=_MODEL_WEEKS, rng=rng)
    try:
        with options.trace.open(newline="", encoding="utf-8-sig") as lines:
            return parse_trace(lines, name=str(options.trace))
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"it cannot be read ({error})", file=str(options.trace), line=1) from error


def begin_s(text: str | None, stop_s: float, usual_s: Callable[[], float]) -> float:
    """Return when the test begins, in unix seconds; times without a zone are UTC."""
    if text is None:
        return usual_s()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidScheduleError(f"--test-from {text!r} is not an ISO date; write 2025-08-18") from None
    start_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if start_s > stop_s:
        last = datetime.fromtimestamp(stop_s, UTC).date()
        raise InvalidScheduleError(f"--test-from {text} lies behind the last event ({last}); choose an earlier date")
    return start_s
