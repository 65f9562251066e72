"""Readers of the CSV files for `solve`; every error names its file, line and field."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from proxyd.core.errors import ConfigError, TraceError
from proxyd.core.model.chronon import Epoch
from proxyd.core.model.intensity import PiecewiseConstant
from proxyd.core.model.schedule import ExecutionInterval
from proxyd.core.planning.capture.earliest_deadline import Capacity

Floats = NDArray[np.float64]
_WEEK_HOURS = 168
_MOST = 1e12
_LEAST = 1e-9  # below this, ratios of rates overflow
_MOST_CHRONONS = 20_000_000


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

    Raises
    ------
    ConfigError
        The file cannot be opened.
    TraceError
        A line is invalid.
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
