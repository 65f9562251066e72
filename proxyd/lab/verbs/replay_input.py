"""The input of a replay: its terms, and the events of a trace, of a model, or of the daemon's database."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

import numpy as np

from proxyd.core.errors import InvalidScheduleError, NotFoundError, TraceError
from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.lab.replay.replay import Floats, Terms, split
from proxyd.lab.replay.stored_history import Past, middle_of, past_of
from proxyd.lab.traces import Trace, model_trace, noisy_events, parse_trace

Events: TypeAlias = tuple[Floats, ...]
_MODEL_WEEKS = 16
_MOST_CHRONONS = 20_000_000
_MOST_PROBES = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Events, and data about them.

    Parameters
    ----------
    start_s, stop_s
        The test period; ``start_s`` is the start of a chronon.
    known_from_s
        Start of each source's known events; ``None`` for that of all events.
    probes_per_source_week
        Budget if the options give none.
    facts, notes
        How accurately the events are known: for JSON, and for people.
    """

    trace: Trace
    start_s: float
    stop_s: float
    known_from_s: Floats | None = None
    probes_per_source_week: float | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def history_start_s(self) -> float:
        """Start of the history, not after that of the test."""
        known_s = self.trace.start_s if self.known_from_s is None else float(self.known_from_s.min())
        return min(known_s, self.start_s)


def replay_input(options: argparse.Namespace) -> tuple[Events, Terms, Given]:
    """Return the events of the test, by source, the terms of their replay, and all that is given."""
    grid = _grid(options)
    given = _given_events(options, grid) if options.from_database is None else _from_database(options, grid)
    history, events = split(given.trace, given.start_s)
    terms = _terms(options, given, grid, history)
    if options.fpn is not None:
        rng = np.random.Generator(np.random.PCG64(options.seed))
        start_s, stop_s = given.start_s, given.stop_s
        events = tuple(noisy_events(e, options.fpn, start_s=start_s, stop_s=stop_s, rng=rng) for e in events)
    return events, terms, given


def _grid(options: argparse.Namespace) -> ChrononGrid:
    usual_s = options.slot if options.budget is None else 60.0
    length_s = usual_s if options.chronon is None else options.chronon
    if not (length_s > 0 and options.slot > 0):
        raise InvalidScheduleError("--slot and --chronon must be longer than 0 s")
    grid = ChrononGrid(length_s)
    if abs(options.slot / grid.length_s - round(options.slot / grid.length_s)) > 1e-9:
        raise InvalidScheduleError("--slot must be a whole number of chronons; give --chronon 60s or a multiple of it")
    return grid


def _terms(options: argparse.Namespace, given: Given, grid: ChrononGrid, history: Events) -> Terms:
    epoch = Epoch(grid.chronon_at(given.start_s), grid.chronon_at(given.stop_s) + 1)
    if epoch.stop - epoch.start > _MOST_CHRONONS:
        days = (given.stop_s - given.start_s) / 86400
        raise InvalidScheduleError(
            f"the test of {days:.0f} days is too long for chronons of {grid.length_s:g} s; give a later --test-from or"
            " a longer --slot, and check that timestamps are in seconds, not milliseconds"
        )
    if options.target is not None and options.window is None and not options.overwrite:
        raise InvalidScheduleError("--target needs a time: add --window 6h, or --overwrite")
    probes, per_chronon = _budget(options, given, epoch, grid)
    return Terms(
        grid=grid,
        epoch=epoch,
        probes=probes,
        per_chronon=per_chronon,
        history=history,
        history_start_s=given.history_start_s,
        known_from_s=given.known_from_s,
        slot_s=options.slot,
        life_s=options.window,
        target=options.target,
        in_time=options.overwrite or options.window is not None,
        seed=options.seed,
    )


def _budget(options: argparse.Namespace, given: Given, epoch: Epoch, grid: ChrononGrid) -> tuple[int, int | None]:
    """Return the probes of the whole epoch, and the most in a chronon."""
    weekly = given.probes_per_source_week if options.probes_per_source_week is None else options.probes_per_source_week
    if weekly is None and options.target is not None:
        weekly = WEEK_S / grid.length_s  # as many as a target takes
    asked = weekly if options.budget is None else options.budget
    if asked is None:
        raise InvalidScheduleError("there is no budget; give --probes-per-source-week 7, or --budget 1 a chronon")
    if not 0 <= asked <= _MOST_PROBES:
        raise InvalidScheduleError(f"the budget must lie between 0 and {_MOST_PROBES:g}, not {asked:g}")
    weeks = len(epoch) * grid.length_s / WEEK_S
    probes = int(asked * len(given.trace.sources) * weeks) if options.budget is None else int(asked * len(epoch))
    if probes < 1:
        raise InvalidScheduleError("the budget allows no probe at all; raise it")
    return probes, None if options.budget is None else max(1, int(np.ceil(asked)))


def _given_events(options: argparse.Namespace, grid: ChrononGrid) -> Given:
    trace = _trace(options)
    start_s = _begin_s(options.test_from, trace.stop_s, lambda: (trace.start_s + trace.stop_s) / 2)
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


def _begin_s(text: str | None, stop_s: float, usual_s: Callable[[], float]) -> float:
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


_HOUR_S = 3600.0


def _from_database(options: argparse.Namespace, grid: ChrononGrid) -> Given:
    from proxyd.config import load
    from proxyd.store import read_past  # with settings, drivers are half of the start-up time

    settings = load(options.config, database=options.from_database or None)
    name, kept_s = settings.database, settings.retention
    if settings.database_path is None:
        raise NotFoundError(
            f"{settings.database_shown}: only a file can be replayed; make one with `proxyd backup FILE`"
        )
    seen = read_past(settings.database_path)

    def middle_s() -> float:
        return middle_of(seen, retention_s=kept_s, name=name)

    stop_s = max((source.watched_s for source in seen), default=np.inf)
    start_s = grid.start_s(grid.chronon_at(_begin_s(options.test_from, stop_s, middle_s)))
    past = past_of(seen, start_s, retention_s=kept_s, name=name)
    made = past.probes_per_source_week(least_gap_s=settings.source_spacing, most_per_s=settings.budget.mean_per_s)
    weekly = min(made, WEEK_S / grid.length_s)  # a replayed source is probed at most once a chronon
    notes = _notes(past, made, grid)
    return Given(past.trace, start_s, past.stop_s, past.known_from_s, weekly, _facts(past, made), notes)


def _facts(past: Past, made: float) -> dict[str, object]:
    return {
        "own_mean_delay_s": past.own_delay_s,
        "own_median_delay_s": past.own_median_s,
        "own_probes_per_source_week": made,
        "events": past.replayed,
        "events_without_time": past.placed,
        "sources": len(past.trace.sources),
        "sources_left_out": past.left_out,
        "lost_events": past.lost,
    }


def _notes(past: Past, made: float, grid: ChrononGrid) -> tuple[str, ...]:
    own, median = past.own_delay_s / _HOUR_S, past.own_median_s / _HOUR_S
    saw = f"The daemon itself saw these events after {own:.2f} h on the average (median {median:.2f} h)"
    notes = [f"{saw}, with about {made:.1f} probes a source and week."]
    if made * grid.length_s > WEEK_S:
        minutes = grid.length_s / 60
        notes.append(f"Replayed policies probe a source once in {minutes:g} min at most; try --slot 5m for more.")
    if past.placed:
        notes.append(
            f"{past.placed} of {past.replayed} events have no time of their own: each is placed between the probe that"
            f" saw it and the one before, {past.placed_wait_s / _HOUR_S:.2f} h earlier on the average; so coarse are"
            " their delays."
        )
    if past.left_out:
        since = datetime.fromtimestamp(past.start_s, UTC).strftime("%Y-%m-%dT%H:%MZ")
        notes.append(f"Sources left out: {past.left_out}, not watched both before and after {since}.")
    if past.lost >= 1:
        notes.append(f"About {past.lost:.0f} more events were lost unseen since first contact; no replay finds them.")
    return tuple(notes)
