"""The verb that replays a trace, a model or the daemon's stored events with policies."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from time import process_time

import numpy as np

from proxyd.core.model.chronon import ChrononGrid, Epoch
from proxyd.core.rates.week_bins import WEEK_S
from proxyd.errors import InvalidScheduleError
from proxyd.lab.replay.policy_registry import PolicyRow, checked_policies, run
from proxyd.lab.replay.replay import Terms, split
from proxyd.lab.traces.update_models import noisy_events
from proxyd.lab.verbs.replay_input import Given, given_events
from proxyd.terminal.tables import print_table, progress

_MOST_CHRONONS = 20_000_000
_MOST_PROBES = 1e9


def simulate(options: argparse.Namespace) -> int:
    """Run the replay, and print one row for each policy."""
    policies = checked_policies([name.strip() for name in options.policies.split(",") if name.strip()])
    if not policies:
        raise InvalidScheduleError("--policies names none; write auto,uniform")
    grid = _grid(options)
    given = _given(options, grid)
    history, events = split(given.trace, given.start_s)
    terms = _terms(options, given, grid, history)
    if options.fpn is not None:
        rng = np.random.Generator(np.random.PCG64(options.seed))
        start_s, stop_s = given.start_s, given.stop_s
        events = tuple(noisy_events(e, options.fpn, start_s=start_s, stop_s=stop_s, rng=rng) for e in events)
    rows: list[tuple[PolicyRow, float]] = []
    for name in progress(policies, "replaying"):
        began = process_time()
        rows.append((run(name, events, terms), process_time() - began))
    if options.json:
        print(json.dumps([{**_entry(row, seconds), **given.facts} for row, seconds in rows], indent=2))
    else:
        _print(rows, sum(times.size for times in events), terms, given.notes)
    return 0


def _given(options: argparse.Namespace, grid: ChrononGrid) -> Given:
    if options.from_database is None:
        return given_events(options, grid)
    from proxyd.lab.verbs.replay_input import from_database  # it loads settings and drivers: half of the start-up time

    return from_database(options, grid)


def _grid(options: argparse.Namespace) -> ChrononGrid:
    usual_s = options.slot if options.budget is None else 60.0
    length_s = usual_s if options.chronon is None else options.chronon
    if not (length_s > 0 and options.slot > 0):
        raise InvalidScheduleError("--slot and --chronon must be longer than 0 s")
    grid = ChrononGrid(length_s)
    if abs(options.slot / grid.length_s - round(options.slot / grid.length_s)) > 1e-9:
        raise InvalidScheduleError("--slot must be a whole number of chronons; give --chronon 60s or a multiple of it")
    return grid


def _terms(options: argparse.Namespace, given: Given, grid: ChrononGrid, history: tuple[np.ndarray, ...]) -> Terms:
    epoch = Epoch(grid.chronon_at(given.start_s), grid.chronon_at(given.stop_s) + 1)
    if epoch.stop - epoch.start > _MOST_CHRONONS:
        days = (given.stop_s - given.start_s) / 86400
        raise InvalidScheduleError(
            f"the test of {days:.0f} days is too long for chronons of {grid.length_s:g} s; give a later --test-from or"
            " a longer --slot, and check that timestamps are in seconds, not milliseconds"
        )
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
        seed=options.seed,
    )


def _budget(options: argparse.Namespace, given: Given, epoch: Epoch, grid: ChrononGrid) -> tuple[int, int | None]:
    """Return the probes of the whole epoch, and the most in a chronon."""
    weekly = given.probes_per_source_week if options.probes_per_source_week is None else options.probes_per_source_week
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


def _entry(row: PolicyRow, seconds: float) -> dict[str, object]:
    entry: dict[str, object] = {"policy": row.policy, **asdict(row.achieved), "seconds": round(seconds, 3)}
    if row.factor is not None:
        entry["wait_factor"] = row.factor
    return entry


def _print(rows: list[tuple[PolicyRow, float]], events: int, terms: Terms, notes: Sequence[str]) -> None:
    weeks = (terms.stop_s - terms.start_s) / WEEK_S
    print(f"{terms.sources} sources, {events} events, {weeks:.1f} weeks, budget of {terms.probes} probes")
    print_table(
        ["policy", "probes", "mean delay h", "median h", "p95 h", "completeness", "undiscovered", "peak/slot", "s"],
        [_cells(row, seconds) for row, seconds in rows],
        notes=notes,
    )


def _cells(row: PolicyRow, seconds: float) -> list[str]:
    got = row.achieved
    hours = [f"{delay_s / 3600:.2f}" for delay_s in (got.mean_delay_s, got.median_delay_s, got.p95_delay_s)]
    rest = [f"{got.completeness:.3f}", f"{got.undiscovered_mean:.2f}", str(got.peak_probes_per_slot), f"{seconds:.1f}"]
    return [row.policy, str(got.probes), *hours, *rest]
