"""The verb that replays a trace, or a model of one, against policies."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from datetime import UTC, datetime
from time import process_time

import numpy as np

from proxyd.cli.science.tables import print_table, progress
from proxyd.errors import InvalidScheduleError, TraceError
from proxyd.estimation import WEEK_S
from proxyd.model.chronon import ChrononGrid, Epoch
from proxyd.simulate.models import model_trace, noisy_events
from proxyd.simulate.registry import Row, checked_policies, run
from proxyd.simulate.replay import Terms, split
from proxyd.simulate.trace import Trace, parse_trace

_MODEL_WEEKS = 16
_MOST_CHRONONS = 20_000_000
_MOST_PROBES = 1e9


def simulate(options: argparse.Namespace) -> int:
    """Replay, and print one row for each policy."""
    policies = checked_policies([name.strip() for name in options.policies.split(",") if name.strip()])
    if not policies:
        raise InvalidScheduleError("--policies names none; write auto,uniform")
    trace = _trace(options)
    grid = _grid(options)
    start_s = grid.start_s(grid.chronon_at(_test_from(options.test_from, trace)))
    history, events = split(trace, start_s)
    terms = _terms(options, trace, grid, history)
    if options.fpn is not None:
        rng = np.random.Generator(np.random.PCG64(options.seed))
        events = tuple(noisy_events(e, options.fpn, start_s=start_s, stop_s=trace.stop_s, rng=rng) for e in events)
    rows: list[tuple[Row, float]] = []
    for name in progress(policies, "replaying"):
        began = process_time()
        rows.append((run(name, events, terms), process_time() - began))
    if options.json:
        print(json.dumps([_entry(row, seconds) for row, seconds in rows], indent=2))
    else:
        _print(rows, sum(times.size for times in events), terms)
    return 0


def _trace(options: argparse.Namespace) -> Trace:
    if options.trace is None:
        rng = np.random.Generator(np.random.PCG64(options.seed))
        return model_trace(options.model, sources=options.sources, weeks=_MODEL_WEEKS, rng=rng)
    try:
        with options.trace.open(newline="", encoding="utf-8-sig") as lines:
            return parse_trace(lines, name=str(options.trace))
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"it cannot be read ({error})", file=str(options.trace), line=1) from error


def _test_from(text: str | None, trace: Trace) -> float:
    """Return when the test begins, in unix seconds; times without a zone are UTC."""
    if text is None:
        return (trace.start_s + trace.stop_s) / 2
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidScheduleError(f"--test-from {text!r} is not an ISO date; write 2025-08-18") from None
    start_s = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if start_s > trace.stop_s:
        last = datetime.fromtimestamp(trace.stop_s, UTC).date()
        raise InvalidScheduleError(f"--test-from {text} lies behind the last event ({last}); choose an earlier date")
    return start_s


def _grid(options: argparse.Namespace) -> ChrononGrid:
    usual_s = options.slot if options.budget is None else 60.0
    length_s = usual_s if options.chronon is None else options.chronon
    if not (length_s > 0 and options.slot > 0):
        raise InvalidScheduleError("--slot and --chronon must be longer than 0 s")
    grid = ChrononGrid(length_s)
    if abs(options.slot / grid.length_s - round(options.slot / grid.length_s)) > 1e-9:
        raise InvalidScheduleError("--slot must be a whole number of chronons; give --chronon 60s or a multiple of it")
    return grid


def _terms(options: argparse.Namespace, trace: Trace, grid: ChrononGrid, history: tuple[np.ndarray, ...]) -> Terms:
    start_s = _test_from(options.test_from, trace)
    epoch = Epoch(grid.chronon_at(start_s), grid.chronon_at(trace.stop_s) + 1)
    if epoch.stop - epoch.start > _MOST_CHRONONS:
        days = (trace.stop_s - start_s) / 86400
        raise InvalidScheduleError(
            f"the test of {days:.0f} days is too long for chronons of {grid.length_s:g} s; give a later --test-from or"
            " a longer --slot, and check that timestamps are in seconds, not milliseconds"
        )
    probes, per_chronon = _budget(options, epoch, grid, len(history))
    return Terms(
        grid=grid,
        epoch=epoch,
        probes=probes,
        per_chronon=per_chronon,
        history=history,
        history_start_s=min(trace.start_s, grid.start_s(epoch.start)),
        slot_s=options.slot,
        life_s=options.window,
        seed=options.seed,
    )


def _budget(options: argparse.Namespace, epoch: Epoch, grid: ChrononGrid, sources: int) -> tuple[int, int | None]:
    """Return the probes of the whole epoch and the most of a chronon."""
    asked = options.probes_per_source_week if options.budget is None else options.budget
    if not 0 <= asked <= _MOST_PROBES:
        raise InvalidScheduleError(f"the budget must lie between 0 and {_MOST_PROBES:g}, not {asked:g}")
    weeks = len(epoch) * grid.length_s / WEEK_S
    probes = int(asked * sources * weeks) if options.budget is None else int(asked * len(epoch))
    if probes < 1:
        raise InvalidScheduleError("the budget allows no probe at all; raise it")
    return probes, None if options.budget is None else max(1, int(np.ceil(asked)))


def _entry(row: Row, seconds: float) -> dict[str, object]:
    entry: dict[str, object] = {"policy": row.policy, **asdict(row.achieved), "seconds": round(seconds, 3)}
    if row.factor is not None:
        entry["wait_factor"] = row.factor
    return entry


def _print(rows: list[tuple[Row, float]], events: int, terms: Terms) -> None:
    weeks = (terms.stop_s - terms.start_s) / WEEK_S
    print(f"{terms.sources} sources, {events} events, {weeks:.1f} weeks, budget of {terms.probes} probes")
    print_table(
        ["policy", "probes", "mean delay h", "median h", "p95 h", "completeness", "undiscovered", "peak/slot", "s"],
        [_cells(row, seconds) for row, seconds in rows],
    )


def _cells(row: Row, seconds: float) -> list[str]:
    got = row.achieved
    hours = [f"{delay_s / 3600:.2f}" for delay_s in (got.mean_delay_s, got.median_delay_s, got.p95_delay_s)]
    rest = [f"{got.completeness:.3f}", f"{got.undiscovered_mean:.2f}", str(got.peak_probes_per_slot), f"{seconds:.1f}"]
    return [row.policy, str(got.probes), *hours, *rest]
