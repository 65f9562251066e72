"""The verb that replays a trace, a model or the daemon's stored events with policies."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

from proxyd.core.errors import InvalidScheduleError
from proxyd.terminal.text_tables import print_table, progress
from proxyd.terminal.verbs import JSON, SEED, argument, duration, one_of, percent, probability, verb, whole

if TYPE_CHECKING:
    from proxyd.lab.replay.policy_registry import PolicyRow
    from proxyd.lab.replay.replay import Terms

_EVENTS = one_of(
    argument("--trace", "CSV source,timestamp (unix seconds)", type=Path, metavar="T.csv"),
    argument(
        "--from-database",
        "replay what the daemon saw, read from this database or from that of the settings",
        nargs="?",
        const="",
        metavar="PATH",
    ),
    argument(
        "--model", "synthetic sources instead: poisson, bursts, drift or a mix such as poisson+bursts", metavar="MODEL"
    ),
)
_TEST = [
    argument("--sources", "sources of the model (default 200)", type=whole(1, 100_000), default=200),
    argument("--seed", "seed of the model and of the noise (default 1)", type=SEED, default=1),
    argument(
        "--fpn",
        "FPN noise: keep each event of the test with this probability, move the others to a random time",
        type=probability,
        metavar="Z",
    ),
    argument("--test-from", "start of the test, before which policies learn (default: the middle)", metavar="ISO"),
]
_BUDGET = one_of(
    argument(
        "--probes-per-source-week",
        "total budget by source and week (default with --from-database: about what the daemon made)",
        type=float,
        metavar="P",
    ),
    argument("--budget", "probes a chronon", type=float, metavar="C"),
    required=False,
)
_REPLAY = [
    argument("--chronon", "time step (default: 60s with --budget, else a slot)", type=duration, metavar="60s"),
    argument("--policies", "names, separated by commas, or all", default="auto,uniform,clairvoyant"),
    argument(
        "--slot",
        "slot of peaks, and of plans that are not the daemon's (default 30m)",
        type=duration,
        default=1800.0,
        metavar="30m",
    ),
    JSON,
]
_LIFE = one_of(
    argument("--window", "plan to find events within this time, and report the share", type=duration, metavar="6h"),
    argument("--overwrite", "plan to find events before the next one of their source", action="store_true"),
    required=False,
)
_TARGET = argument(
    "--target", "make only the probes that it takes to find this share in time, in percent", type=percent, metavar="95"
)


@verb(
    "simulate",
    "proxyd simulate --trace trace.csv --test-from 2025-08-18 --probes-per-source-week 7 --policies auto,uniform",
    "proxyd simulate --from-database",
    takes=[_EVENTS, *_TEST, _BUDGET, *_REPLAY, _LIFE, _TARGET],
)
def simulate(options: argparse.Namespace) -> int:
    """Replay a trace against policies and print a row for each."""
    from proxyd.lab.replay.policy_registry import expand_policies, run
    from proxyd.lab.verbs.replay_input import replay_input

    policies = expand_policies([name.strip() for name in options.policies.split(",") if name.strip()])
    if not policies:
        raise InvalidScheduleError("--policies names none; write auto,uniform")
    events, terms, given = replay_input(options)
    rows: list[tuple[PolicyRow, float]] = []
    for name in progress(policies, "replaying"):
        began = process_time()
        rows.append((run(name, events, terms), process_time() - began))
    if options.json:
        print(json.dumps([{**_entry(row, seconds), **given.facts} for row, seconds in rows], indent=2))
    else:
        _print(rows, sum(times.size for times in events), terms, given.notes)
    return 0


def _entry(row: PolicyRow, seconds: float) -> dict[str, object]:
    from dataclasses import asdict

    entry: dict[str, object] = {"policy": row.policy, **asdict(row.achieved), "seconds": round(seconds, 3)}
    if row.factor is not None:
        entry["wait_factor"] = row.factor
    return entry


_LEGEND = (
    "completeness: the share found before the next event of its source, or within --window; unfinished: not found;",
    "undiscovered: events that wait, on average; peak/slot: the most probes in a slot; s: processor time, in seconds",
)


def _print(rows: list[tuple[PolicyRow, float]], events: int, terms: Terms, notes: Sequence[str]) -> None:
    weeks = (terms.stop_s - terms.start_s) / 86400 / 7
    print(f"{terms.sources} sources, {events} events, {weeks:.1f} weeks, budget of {terms.probes} probes")
    print_table(
        [
            *("policy", "probes", "mean delay h", "median h", "p95 h"),
            *("completeness", "unfinished", "undiscovered", "peak/slot", "s"),
        ],
        [_cells(row, seconds) for row, seconds in rows],
        notes=[*notes, *_LEGEND],
    )


def _cells(row: PolicyRow, seconds: float) -> list[str]:
    got = row.achieved
    hours = [f"{delay_s / 3600:.2f}" for delay_s in (got.mean_delay_s, got.median_delay_s, got.p95_delay_s)]
    share = [f"{got.completeness:.3f}", str(got.unfinished)]
    rest = [f"{got.undiscovered_mean:.2f}", str(got.peak_probes_per_slot), f"{seconds:.1f}"]
    return [row.policy, str(got.probes), *hours, *share, *rest]
