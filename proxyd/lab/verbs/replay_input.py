"""The input of a replay: its terms, and the events of a trace, of a model, or of the daemon's database."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import isfinite, nan
from pathlib import Path
from typing import TypeAlias

import numpy as np

from proxyd.core.errors import ConfigError, InvalidScheduleError, NotFoundError, TraceError
from proxyd.core.model.arrays import Floats
from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.allocation.probe_allocator import WeekGrid
from proxyd.core.planning.capture.earliest_deadline import Capacity
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.lab.replay.replay import Terms, split
from proxyd.lab.replay.stored_history import Past, middle_of, past_of
from proxyd.lab.traces import Trace, model_trace, noisy_events, parse_trace

_WEEK_HOURS = 168
_MOST = 1e12
_LEAST = 1e-9  # below this, ratios of rates overflow


@dataclass(frozen=True, slots=True)
class _CsvRow:
    """A line of a CSV file, with its fields by name."""

    file: str
    line: int
    fields: dict[str, str]

    def error(self, message: str) -> TraceError:
        """Return an error at this line."""
        return TraceError(message, file=self.file, line=self.line)

    def text(self, field: str) -> str:
        """Return a name, which must not be empty."""
        value = self.fields[field]
        if not value:
            raise self.error(f"{field} is empty; write a name")
        return value

    def number(self, field: str, example: str, *, positive: bool = False) -> float:
        """Return a number that is not negative, or greater than 0 if ``positive``."""
        text = self.fields[field]
        try:
            value = float(text)
        except ValueError:
            value = nan
        if not isfinite(value):
            raise self.error(f"{field}: {text!r} is not a number; write one such as {example}")
        if not (_LEAST <= value <= _MOST or (value == 0 and not positive)):
            range_ = "greater than 0" if positive else "0 or more"
            raise self.error(
                f"{field}: {text} is out of range; it must be {range_}, not below {_LEAST:g} and at most {_MOST:g}"
            )
        return value

    def whole(self, field: str, *, negative: bool = False) -> int:
        """Return a whole number, not below 0 unless ``negative``."""
        text = self.fields[field]
        try:
            value = int(text)
        except ValueError:
            raise self.error(f"{field}: {text!r} is not a whole number; write one such as 12") from None
        if abs(value) > _MOST or (value < 0 and not negative):
            low = f"{-_MOST:g}" if negative else "0"
            raise self.error(f"{field}: {text} is out of range; it must lie between {low} and {_MOST:g}")
        return value


@dataclass(frozen=True, slots=True, eq=False)
class CsvIntervals:
    """Execution intervals, with their weights if the file has them."""

    given: list[ExecutionInterval]
    weights: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class CsvRates:
    """Sources with their rates, and with weights if the file has them."""

    names: tuple[str, ...]
    rates: Floats
    weights: Floats | None


def _read_rows(path: Path, required: Sequence[str], optional: Sequence[str] = ()) -> Iterator[_CsvRow]:
    """Yield the rows of a CSV file with a header; columns come in any order, and blank lines are skipped.

    Raises ``ConfigError``: the file cannot be opened; ``TraceError``: a line is invalid.
    """
    file, names = str(path), None
    reader = csv.reader(_text(path).splitlines(keepends=True), strict=True)
    try:
        for fields in reader:
            cells = [field.strip() for field in fields]
            if not any(cells):
                continue
            if names is None:
                names = _header(cells, required, optional, file, reader.line_num)
                continue
            if len(cells) != len(names):
                wanted = f"{len(names)} fields ({','.join(names)})"
                raise TraceError(f"expected {wanted}, found {len(cells)}", file=file, line=reader.line_num)
            yield _CsvRow(file, reader.line_num, dict(zip(names, cells, strict=True)))
    except csv.Error as error:
        raise TraceError(f"it is not CSV ({error})", file=file, line=max(1, reader.line_num)) from error
    if names is None:
        raise TraceError(f"the file is empty; begin it with the header {','.join(required)}", file=file, line=1)


def read_week(path: Path) -> tuple[PiecewiseConstant, PiecewiseConstant]:
    """Return the intensity (items a day) and the importance of a week, time in days from Monday 00:00."""
    levels: dict[int, tuple[int, float, float]] = {}
    line = 1
    for row in _read_rows(path, ("hour", "rate_per_day", "importance")):
        hour, line = row.whole("hour"), row.line
        if hour >= _WEEK_HOURS:
            raise row.error(f"hour: {hour} is out of range; a week has the hours 0 to {_WEEK_HOURS - 1}")
        if hour in levels:
            raise row.error(f"hour: {hour} is given already, in line {levels[hour][0]}; leave one of them out")
        levels[hour] = (line, row.number("rate_per_day", "2.5"), row.number("importance", "1"))
    missing = [hour for hour in range(_WEEK_HOURS) if hour not in levels]
    if missing:
        message = f"expected {_WEEK_HOURS} rows, one for each hour of a week; {len(missing)} are missing"
        raise TraceError(f"{message}, the first is hour {missing[0]}", file=str(path), line=line)
    breaks = np.arange(_WEEK_HOURS + 1) / 24
    rates, weights = ([levels[hour][part] for hour in range(_WEEK_HOURS)] for part in (1, 2))
    return PiecewiseConstant(breaks, rates), PiecewiseConstant(breaks, weights)


def read_intervals(path: Path) -> CsvIntervals:
    """Return the execution intervals of a file, both ends included."""
    given: list[ExecutionInterval] = []
    weights: list[float] = []
    for row in _read_rows(path, ("source", "start", "finish"), ("weight",)):
        start, finish = row.whole("start", negative=True), row.whole("finish", negative=True)
        if finish < start:
            raise row.error(f"finish: {finish} lies before start {start}; both ends belong to the interval")
        given.append(ExecutionInterval(row.text("source"), "given", start, finish))
        if "weight" in row.fields:
            weights.append(row.number("weight", "1"))
    if not given:
        raise TraceError("there are no intervals; add lines such as feed1,0,5", file=str(path), line=2)
    return CsvIntervals(given, np.array(weights) if weights else None)


def read_rates(path: Path, *, positive: bool) -> CsvRates:
    """Return the sources of a file; with ``positive`` no rate may be 0."""
    lines: dict[str, int] = {}
    rates: list[float] = []
    weights: list[float] = []
    for row in _read_rows(path, ("source", "rate"), ("weight",)):
        name = row.text("source")
        if name in lines:
            raise row.error(f"source: {name!r} is given already, in line {lines[name]}; leave one of them out")
        lines[name] = row.line
        rates.append(row.number("rate", "0.25", positive=positive))
        if "weight" in row.fields:
            weights.append(row.number("weight", "1"))
    worth = [rate * weight for rate, weight in zip(rates, weights, strict=True)] if weights else rates
    if not any(value > 0 for value in worth):
        message = "there is no source with a rate and a weight greater than 0; add lines such as feed1,0.25"
        raise TraceError(message, file=str(path), line=max(lines.values(), default=2))
    return CsvRates(tuple(lines), np.array(rates), np.array(weights) if weights else None)


def read_capacity(budget: str, intervals: Sequence[ExecutionInterval]) -> Capacity:
    """Return the probes allowed in each chronon that the intervals cover.

    ``budget`` is a whole number, or the name of a CSV file chronon,probes; chronons that it does not list have none.
    """
    stop = max(interval.start if interval.deadline is None else interval.deadline for interval in intervals) + 1
    epoch = Epoch(min(interval.start for interval in intervals), stop)
    if len(epoch) > _MOST_CHRONONS:
        raise ConfigError([f"the intervals span {len(epoch)} chronons; use longer ones, at most {_MOST_CHRONONS}"])
    try:
        constant = int(budget)
    except ValueError:
        return _capacity_of_list(Path(budget), epoch)
    if not 0 <= constant <= _MOST:
        raise ConfigError([f"--budget {budget}: it must be 0 or more probes a chronon"])
    return Capacity.constant(constant, epoch)


def _capacity_of_list(path: Path, epoch: Epoch) -> Capacity:
    if not path.exists():
        raise ConfigError([f"--budget {path}: it is neither a whole number nor a file with the columns chronon,probes"])
    lines: dict[int, int] = {}
    probes = np.zeros(len(epoch), dtype=np.int64)
    for row in _read_rows(path, ("chronon", "probes")):
        chronon, allowed = row.whole("chronon", negative=True), row.whole("probes")
        if chronon in lines:
            raise row.error(f"chronon: {chronon} is given already, in line {lines[chronon]}; leave one of them out")
        lines[chronon] = row.line
        if chronon in epoch:
            probes[chronon - epoch.start] = allowed
    return Capacity(epoch, probes)


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise TraceError("it is not UTF-8 text; save the file as UTF-8", file=str(path), line=line) from error
    except OSError as error:
        raise ConfigError([f"{path}: {(error.strerror or str(error)).lower()}; name a CSV file"]) from error


def _header(cells: list[str], required: Sequence[str], optional: Sequence[str], file: str, line: int) -> list[str]:
    expected = ",".join(required) + "".join(f"[,{name}]" for name in optional)
    missing = [name for name in required if name not in cells]
    if missing:
        raise TraceError(f"the header lacks {', '.join(missing)}; it must be {expected}", file=file, line=line)
    unknown = [name for name in cells if name not in (*required, *optional)]
    if unknown or len(set(cells)) != len(cells):
        what = f"the unknown column {unknown[0]!r}" if unknown else "a column twice"
        raise TraceError(f"the header has {what}; it must be {expected}", file=file, line=line)
    return cells


_Events: TypeAlias = tuple[Floats, ...]
_MODEL_WEEKS = 16
_MOST_CHRONONS = 20_000_000
_MOST_PROBES = 1e9


@dataclass(frozen=True, slots=True, eq=False)
class _Given:
    """Events, and data about them."""

    trace: Trace
    # The test period; `start_s` is the start of a chronon
    start_s: float
    stop_s: float
    known_from_s: Floats | None = None  # start of each source's known events; `None` for that of all events
    probes_per_source_week: float | None = None  # budget if the options give none
    # How accurately the events are known: for JSON, and for people
    facts: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def history_start_s(self) -> float:
        """Start of the history, not after that of the test."""
        known_s = self.trace.start_s if self.known_from_s is None else float(self.known_from_s.min())
        return min(known_s, self.start_s)


def replay_input(options: argparse.Namespace) -> tuple[_Events, Terms, _Given]:
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
    WeekGrid(options.slot)  # which refuses slots that do not fit a week, before any policy has run
    return grid


def _terms(options: argparse.Namespace, given: _Given, grid: ChrononGrid, history: _Events) -> Terms:
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


def _budget(options: argparse.Namespace, given: _Given, epoch: Epoch, grid: ChrononGrid) -> tuple[int, int | None]:
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


def _given_events(options: argparse.Namespace, grid: ChrononGrid) -> _Given:
    trace = _trace(options)
    start_s = _begin_s(options.test_from, trace.stop_s, lambda: (trace.start_s + trace.stop_s) / 2)
    return _Given(trace, grid.start_s(grid.chronon_at(start_s)), trace.stop_s)


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


def _from_database(options: argparse.Namespace, grid: ChrononGrid) -> _Given:
    from proxyd.config.loading import load
    from proxyd.store.seen_events import read_past  # with settings, drivers are half of the start-up time

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
    return _Given(past.trace, start_s, past.stop_s, past.known_from_s, weekly, _facts(past, made), notes)


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
